//! Secrets that logs and error messages cannot show.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// A secret: a token, a key, a database URL with its password.
///
/// `Debug` and `Display` print a placeholder. There is no `Serialize`, so the content leaves only where
/// [`Self::expose`] or [`Self::into_exposed`] is written. In memory it is the content and nothing else.
#[derive(Clone, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Sealed<T>(T);

impl<T> Sealed<T> {
    /// Seals a value.
    pub const fn new(content: T) -> Self {
        Self(content)
    }

    /// The content, to be used and not logged.
    pub const fn expose(&self) -> &T {
        &self.0
    }

    /// The content by value, to be used and not logged.
    pub fn into_exposed(self) -> T {
        self.0
    }
}

impl<T> fmt::Debug for Sealed<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Sealed(..)")
    }
}

impl<T> fmt::Display for Sealed<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("(sealed)")
    }
}

impl From<String> for Sealed<String> {
    fn from(content: String) -> Self {
        Self(content)
    }
}

impl From<&str> for Sealed<String> {
    fn from(content: &str) -> Self {
        Self(content.to_owned())
    }
}

/// Every text is accepted: a parser that refused one would repeat it in its message. What the text has to be is checked
/// where it is used.
impl FromStr for Sealed<String> {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(text.into())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Sealed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The error of `T` may quote what it was given.
        T::deserialize(deserializer).map(Self).map_err(|_| D::Error::custom("a secret of the wrong type"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_prints_or_refuses_a_secret_shows_it() {
        #[derive(Debug, Deserialize)]
        struct Settings {
            database: Sealed<String>,
            pin: Option<Sealed<u32>>,
        }
        let settings: Settings = serde_json::from_str(r#"{"database": "postgres://u:5ecret@h/d"}"#).unwrap();
        let printed = format!("{settings:?} {settings:#?} {}", settings.database);
        assert!(!printed.contains("5ecret") && printed.contains("Sealed(..)"), "{printed}");
        assert_eq!(settings.database.expose(), "postgres://u:5ecret@h/d");
        assert!(settings.pin.is_none());
        let error = serde_json::from_str::<Settings>(r#"{"database": "", "pin": "5ecret"}"#).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("5ecret"), "{error}");
    }

    #[test]
    fn a_sealed_value_is_as_large_as_its_content() {
        assert_eq!(size_of::<Sealed<[u8; 32]>>(), size_of::<[u8; 32]>());
    }
}
