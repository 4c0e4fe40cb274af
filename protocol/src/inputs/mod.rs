//! What a network is fed: the table `[model.inputs]` of a job file.
//!
//! ```toml
//! [model.inputs]
//! standardize = "federated"
//! columns = [
//!   { name = "age", unit = "years", range = [0.0, 120.0] },
//!   { name = "ward", kind = "category", categories = ["east", "west"] },
//! ]
//! target = { name = "diagnosis", classes = ["benign", "malignant"] }
//! ```
//!
//! The table is part of the plan and of each exported file. Who holds one of them can turn a raw row into what the
//! network reads, and an output into a class or a number. With `standardize = "federated"` the first round of the job
//! adds up [`Description`]s, and its result fills in what the file leaves open: means, deviations and the values that
//! replace missing ones.

mod check;
mod column;
mod description;
mod error;
mod moments;
mod target;

use serde::{Deserialize, Serialize};

use crate::hash::Sha256Hash;

pub use column::{Column, ColumnKind, Encoding, MissingValues};
pub use description::Description;
pub use error::{DescriptionError, InputsError};
pub use moments::{Described, MAGNITUDE_MAX, Moments, OutOfRange, Wide};
pub use target::Target;

/// Most columns of a table.
pub const COLUMNS_MAX: usize = 1024;
/// Most categories of a column.
pub const CATEGORIES_MAX: usize = 1000;
/// Longest name of a column, category, class or unit in bytes.
pub const NAME_BYTES_MAX: usize = 128;

/// What the network of a job is fed, and what its outputs mean.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Inputs {
    /// Who fixes means, deviations and replacements. Default: the job file; a column without a mean is fed as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standardize: Option<Standardize>,
    /// The columns of a table, in the order in which the network reads them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<Column>,
    /// Images: how the values of pixels become inputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    /// Texts: which vocabulary the token ids belong to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
    /// What the network predicts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
}

/// Who fixes means, deviations and replacements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Standardize {
    /// The clients together, by exact sums in a round before the first training.
    Federated,
}

/// Images as inputs: each value of a pixel becomes `(value - low) / (high - low)`, then `(it - mean) / deviation`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Image {
    /// The values of black and of full intensity, `[0.0, 255.0]` for bytes.
    pub range: [f64; 2],
    /// Mean of each channel after scaling to 0 to 1; one value for all. Default: 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mean: Vec<f64>,
    /// Deviation of each channel after scaling to 0 to 1; one value for all. Default: 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deviation: Vec<f64>,
}

/// Token ids as inputs. They are fed as they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Tokens {
    /// SHA-256 of the file that gives each token its id: another vocabulary would give every word another meaning.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub vocabulary_sha256: Sha256Hash,
}

impl Inputs {
    /// Whether a round of sums must fix something before the network can be fed.
    pub fn lacks_statistics(&self) -> bool {
        let target = self.target.as_ref().is_some_and(Target::lacks_statistics);
        self.standardize.is_some() && (target || self.columns.iter().any(Column::lacks_statistics))
    }

    /// Takes back what clients found out together, so that a round of sums must fix it again; what a job file gave with
    /// it is found out as well. Nothing where the job file fixes everything.
    pub fn forget_statistics(&mut self) {
        if self.standardize.is_none() {
            return;
        }
        for column in &mut self.columns {
            (column.mean, column.deviation, column.replacement) = (None, None, None);
        }
        if let Some(target) = &mut self.target {
            (target.mean, target.deviation) = (None, None);
        }
    }

    /// Values that the network reads of one row of a table; 0 without columns.
    pub fn width(&self) -> usize {
        self.columns.iter().map(Column::width).sum()
    }

    /// Number of values of one raw example, where the table says it: the number of columns.
    pub fn raw_width(&self) -> Option<usize> {
        (!self.columns.is_empty()).then_some(self.columns.len())
    }

    /// SHA-256 of what two sites must have in common: names, kinds, units, categories and classes. What the job's
    /// clients find out together is left out, so the hash stays while the job runs.
    pub fn schema_hash(&self) -> Sha256Hash {
        let bare = Self {
            standardize: None,
            columns: self.columns.iter().map(Column::bare).collect(),
            target: self.target.as_ref().map(Target::bare),
            ..self.clone()
        };
        let text = serde_json::to_vec(&bare).expect("names and numbers are JSON");
        Sha256Hash::of(&text)
    }

    /// What a class is called; `None` where classes have no names.
    pub fn class_name(&self, class: usize) -> Option<&str> {
        self.target.as_ref()?.classes.get(class).map(String::as_str)
    }
}

#[cfg(test)]
mod tests;
