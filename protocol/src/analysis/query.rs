//! One question to the clients' tables.

use serde::{Deserialize, Serialize};

use crate::id::Name;

/// One question to the clients' tables. Rows without a usable value in its column do not count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Query {
    /// The number of rows in which the column has one of these values.
    Count {
        /// Name of the answer.
        name: Name,
        /// Column that is read.
        column: String,
        /// The values that count.
        values: Vec<String>,
        /// Part of the privacy budget, in relation to the other queries. Default: 1.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        share: f64,
    },
    /// The number of rows in each bin of a column of numbers, or with each of its categories.
    Histogram {
        /// Name of the answer.
        name: Name,
        /// Column that is read.
        column: String,
        /// Bounds of the bins, ascending: each bin begins with its lower one, and the last has its upper one too. Rows
        /// outside do not count. Exactly one of `edges` and `categories` is required.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        edges: Vec<f64>,
        /// Categories. Rows with another value do not count.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        categories: Vec<String>,
        /// Part of the privacy budget, in relation to the other queries. Default: 1.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        share: f64,
    },
    /// Mean and deviation of a column.
    Mean {
        /// Name of the answer.
        name: Name,
        /// Column that is read.
        column: String,
        /// The least and the largest number: others count as the nearer of both.
        range: [f64; 2],
        /// Part of the privacy budget, in relation to the other queries. Default: 1.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        share: f64,
    },
    /// The numbers below which these shares of the rows are.
    Quantiles {
        /// Name of the answer.
        name: Name,
        /// Column that is read.
        column: String,
        /// The least and the largest number: others count as the nearer of both.
        range: [f64; 2],
        /// Shares, each above 0 and below 1.
        at: Vec<f64>,
        /// The range is divided in two so many times, 1 to 16. Default: 12, which is 4,096 parts.
        #[serde(default = "twelve")]
        levels: u32,
        /// Part of the privacy budget, in relation to the other queries. Default: 1.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        share: f64,
    },
    /// The most frequent words of a column, letter by letter: each letter takes a round (Zhu et al. 2020, with noise in
    /// the place of sampling). Only with `[privacy]`: without, words of single rows would be found.
    HeavyHitters {
        /// Name of the answer.
        name: Name,
        /// Column that is read.
        column: String,
        /// Letters of a word that are read, 1 to 64: longer words count as their beginning. Default: 12.
        #[serde(default = "twelve")]
        length_max: u32,
        /// Words of the answer, at most. Default: 20.
        #[serde(default = "twenty")]
        top: u32,
        /// Letters that words may have. Words are read in lower case, and those with another letter do not count.
        /// Default: a to z, 0 to 9, space, hyphen, dot and apostrophe.
        #[serde(default = "letters")]
        alphabet: String,
        /// Beginnings of words that go on to the next round, at most, 1 to 1,000. Default: 64.
        #[serde(default = "beginnings")]
        beginnings_max: u32,
        /// Part of the privacy budget, in relation to the other queries. Default: 1.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        share: f64,
    },
    /// The share of rows in which the column has one of these values, in each group: the accuracy by age, for example.
    Rate {
        /// Name of the answer.
        name: Name,
        /// Column that is read.
        column: String,
        /// The values that count.
        values: Vec<String>,
        /// Column that names the group of a row.
        by: String,
        /// The groups. Rows of others do not count.
        groups: Vec<String>,
        /// Part of the privacy budget, in relation to the other queries. Default: 1.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        share: f64,
    },
}

/// The numbers of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Rounds in which clients answer.
    pub rounds: usize,
    /// Numbers of each of these rounds.
    pub numbers: usize,
}

impl Query {
    /// Name of the answer.
    pub fn name(&self) -> &Name {
        match self {
            Self::Count { name, .. }
            | Self::Histogram { name, .. }
            | Self::Mean { name, .. }
            | Self::Quantiles { name, .. }
            | Self::HeavyHitters { name, .. }
            | Self::Rate { name, .. } => name,
        }
    }

    /// Name of its kind, as in job files.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Count { .. } => "count",
            Self::Histogram { .. } => "histogram",
            Self::Mean { .. } => "mean",
            Self::Quantiles { .. } => "quantiles",
            Self::HeavyHitters { .. } => "heavy_hitters",
            Self::Rate { .. } => "rate",
        }
    }

    /// The columns that it reads.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        let (column, by) = match self {
            Self::Count { column, .. }
            | Self::Histogram { column, .. }
            | Self::Mean { column, .. }
            | Self::Quantiles { column, .. }
            | Self::HeavyHitters { column, .. } => (column, None),
            Self::Rate { column, by, .. } => (column, Some(by)),
        };
        std::iter::once(column).chain(by).map(String::as_str)
    }

    /// Part of the privacy budget, in relation to the other queries.
    pub fn share(&self) -> f64 {
        match *self {
            Self::Count { share, .. }
            | Self::Histogram { share, .. }
            | Self::Mean { share, .. }
            | Self::Quantiles { share, .. }
            | Self::HeavyHitters { share, .. }
            | Self::Rate { share, .. } => share,
        }
    }

    /// The numbers of its answer.
    pub fn shape(&self) -> Shape {
        let once = |numbers| Shape { rounds: 1, numbers };
        match self {
            Self::Count { .. } => once(1),
            Self::Histogram { edges, categories, .. } => once(edges.len().saturating_sub(1).max(categories.len())),
            // Rows, sum and sum of squares.
            Self::Mean { .. } => once(3),
            // Levels of 2, 4, 8, .. parts.
            Self::Quantiles { levels, .. } => once((2 << levels) - 2),
            Self::HeavyHitters { length_max, alphabet, beginnings_max, .. } => {
                // Each beginning goes on with a letter, or is a whole word.
                let numbers = (alphabet.chars().count() + 1) * *beginnings_max as usize;
                Shape { rounds: *length_max as usize, numbers }
            }
            // Rows and counted rows of each group.
            Self::Rate { groups, .. } => once(2 * groups.len()),
        }
    }

    /// Square of the largest L2 norm of one row's numbers in a round.
    pub fn sensitivity_squared(&self) -> f64 {
        match self {
            Self::Count { .. } | Self::Histogram { .. } | Self::HeavyHitters { .. } => 1.0,
            Self::Mean { .. } => 3.0,
            Self::Quantiles { levels, .. } => f64::from(*levels),
            Self::Rate { .. } => 2.0,
        }
    }
}

fn one() -> f64 {
    1.0
}
fn is_one(share: &f64) -> bool {
    *share == 1.0
}
fn twelve() -> u32 {
    12
}
fn twenty() -> u32 {
    20
}
fn letters() -> String {
    "abcdefghijklmnopqrstuvwxyz0123456789 -.'".to_owned()
}
fn beginnings() -> u32 {
    64
}
