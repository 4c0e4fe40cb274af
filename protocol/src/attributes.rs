//! Attributes of clients: pairs that a job's eligibility rules can require.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Most attributes of a client.
pub const ATTRIBUTES_MAX: usize = 32;
/// Longest name or value of an attribute in bytes.
pub const ATTRIBUTE_BYTES_MAX: usize = 128;

/// Attributes of a client, such as `platform` and `ram_class`, which a job's eligibility rules can require. At most 32
/// pairs with names and values of 1 to 128 bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "BTreeMap<String, String>", try_from = "BTreeMap<String, String>")]
pub struct Attributes(BTreeMap<String, String>);

/// Too many attributes, or one that is empty or too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a client has at most {ATTRIBUTES_MAX} attributes, names and values of 1 to {ATTRIBUTE_BYTES_MAX} bytes")]
pub struct AttributesError;

impl Attributes {
    /// Names and values, ordered by name.
    pub fn as_map(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    /// Whether all of these pairs are among the attributes.
    #[must_use]
    pub fn include(&self, wanted: &BTreeMap<String, String>) -> bool {
        wanted.iter().all(|(name, value)| self.0.get(name) == Some(value))
    }

    /// These attributes, with the granted ones in place of those of the same names. Where both are more than
    /// [`ATTRIBUTES_MAX`], the last names of these are left out.
    #[must_use]
    pub fn with_granted(&self, granted: &Self) -> Self {
        let mut pairs = granted.0.clone();
        for (name, value) in &self.0 {
            if pairs.len() >= ATTRIBUTES_MAX {
                break;
            }
            pairs.entry(name.clone()).or_insert_with(|| value.clone());
        }
        Self(pairs)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl TryFrom<BTreeMap<String, String>> for Attributes {
    type Error = AttributesError;

    fn try_from(pairs: BTreeMap<String, String>) -> Result<Self, AttributesError> {
        let fits = |text: &String| (1..=ATTRIBUTE_BYTES_MAX).contains(&text.len());
        if pairs.len() <= ATTRIBUTES_MAX && pairs.iter().all(|(name, value)| fits(name) && fits(value)) {
            Ok(Self(pairs))
        } else {
            Err(AttributesError)
        }
    }
}

impl From<Attributes> for BTreeMap<String, String> {
    fn from(attributes: Attributes) -> Self {
        attributes.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_have_limits() {
        let pair = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let attributes = Attributes::try_from(pair("platform", "android")).unwrap();
        assert!(attributes.include(&pair("platform", "android")));
        assert!(!attributes.include(&pair("platform", "ios")));
        assert!(Attributes::try_from(pair("platform", &"x".repeat(129))).is_err());
        assert!(serde_json::from_str::<Attributes>(r#"{"":"x"}"#).is_err());
    }
}
