//! A value of a row.

use std::borrow::Cow;

/// A value of a row, as an app or a table gives it.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Cell {
    /// There is none.
    #[default]
    Missing,
    /// A number.
    Number(f64),
    /// A text, which may be a number in digits.
    Text(String),
}

impl Cell {
    /// As a finite number, if it is one.
    pub fn number(&self) -> Option<f64> {
        let number = match self {
            Self::Missing => None,
            Self::Number(number) => Some(*number),
            Self::Text(text) => text.trim().parse().ok(),
        };
        number.filter(|number: &f64| number.is_finite())
    }

    /// As a text without white space around it; none if it is missing or empty.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        let text = match self {
            Self::Missing => return None,
            Self::Number(number) => Cow::Owned(number.to_string()),
            Self::Text(text) => Cow::Borrowed(text.trim()),
        };
        (!text.is_empty()).then_some(text)
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}
