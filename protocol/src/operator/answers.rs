//! The answers of an analysis.

use serde::{Deserialize, Serialize};

use crate::id::Name;

/// The answers of an analysis so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobAnswers {
    /// Rounds that were committed.
    pub rounds: u32,
    /// Rounds that the queries take; 0 for a job that asks none.
    pub rounds_needed: u32,
    /// Clients whose answers count in the first round. Of an analysis with privacy it is the number that took part,
    /// which noise does not hide.
    pub clients: u32,
    /// The answers, in the order of the queries. A query has none before the first round.
    pub answers: Vec<Answer>,
}

/// The answer to one query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Answer {
    /// Name of the query.
    pub name: Name,
    /// Kind of the query: `count`, `histogram`, `mean`, `quantiles`, `heavy_hitters` or `rate`.
    pub kind: String,
    /// The column that it reads.
    pub column: String,
    /// What this answer alone tells of a unit: its part of the job's epsilon. Absent without privacy, and with a
    /// `test_key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epsilon: Option<f64>,
    /// Standard deviation of the noise of a count, in rows; 0 without privacy.
    pub noise: f64,
    /// Its numbers.
    pub estimates: Vec<Estimate>,
}

/// One number of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Estimate {
    /// What it is: a bin, a category, a share, a word, a group; `mean` and `deviation` of a column.
    pub label: String,
    /// The number; absent where too few rows answered for the noise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Lower end of the 95 % interval of the noise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Upper end of the 95 % interval of the noise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
}
