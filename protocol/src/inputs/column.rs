//! A column of a table.

use serde::{Deserialize, Serialize};

/// A column of a table, and how its values become inputs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Name, as in the table's header.
    pub name: String,
    /// What its values are. Default: `number`.
    #[serde(default, skip_serializing_if = "ColumnKind::is_number")]
    pub kind: ColumnKind,
    /// Unit of its values, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Smallest and largest value; a client refuses others. Default: any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<[f64; 2]>,
    /// The texts of a category, in the order of their codes 0, 1, ..
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<String>,
    /// How a category is fed. Default: `one_hot`.
    #[serde(default, skip_serializing_if = "Encoding::is_one_hot")]
    pub encoding: Encoding,
    /// What becomes of missing values. Default: `refuse`.
    #[serde(default, skip_serializing_if = "MissingValues::is_refused")]
    pub missing: MissingValues,
    /// Subtracted from numbers, dates and codes. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// What remains is divided by it. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviation: Option<f64>,
    /// What replaces a missing value: a number, or the code of a category.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacement: Option<f64>,
}

/// What the values of a column are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ColumnKind {
    /// Numbers.
    #[default]
    Number,
    /// One of a list of texts. As a raw value: its code.
    Category,
    /// A date, `2026-11-25` or with a time `2026-11-25T14:30:00`, in UTC. As a raw value: days since 1970-01-01.
    Date,
}

/// How a category is fed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// One input for each category: 1 for the one that it is, 0 for the others.
    #[default]
    OneHot,
    /// One input: the code.
    Code,
}

/// What becomes of missing values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum MissingValues {
    /// A row with one is refused.
    #[default]
    Refuse,
    /// It becomes [`Column::replacement`]; without one, the mean of numbers and dates.
    Replace,
}

impl Column {
    /// Values that the network reads of it.
    pub fn width(&self) -> usize {
        match (self.kind, self.encoding) {
            (ColumnKind::Category, Encoding::OneHot) => self.categories.len(),
            _ => 1,
        }
    }

    /// Whether its values are shifted and scaled where the clients standardise together. Codes are not: their order
    /// means nothing.
    pub fn is_standardised(&self) -> bool {
        self.kind != ColumnKind::Category
    }

    /// Whether a round of sums must fix something.
    pub(super) fn lacks_statistics(&self) -> bool {
        let lacks_scale = self.is_standardised() && (self.mean.is_none() || self.deviation.is_none());
        lacks_scale || self.lacks_replacement()
    }

    /// Whether its missing values have no replacement yet. Those of numbers and dates become the mean.
    pub fn lacks_replacement(&self) -> bool {
        self.missing == MissingValues::Replace && self.replacement.is_none() && self.mean.is_none()
    }

    /// The column without what clients find out together.
    pub(super) fn bare(&self) -> Self {
        Self {
            mean: None,
            deviation: None,
            replacement: None,
            range: None,
            missing: MissingValues::Refuse,
            ..self.clone()
        }
    }
}

impl ColumnKind {
    fn is_number(&self) -> bool {
        *self == Self::Number
    }
}

impl Encoding {
    fn is_one_hot(&self) -> bool {
        *self == Self::OneHot
    }
}

impl MissingValues {
    fn is_refused(&self) -> bool {
        *self == Self::Refuse
    }
}
