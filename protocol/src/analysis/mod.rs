//! Analyses: questions to the clients' tables, as a job without a network (`[analysis]`).
//!
//! ```toml
//! [analysis]
//! queries = [
//!   { name = "age", kind = "histogram", column = "age", edges = [0, 18, 30, 45, 60, 120] },
//!   { name = "spend", kind = "mean", column = "spend", range = [0.0, 500.0] },
//! ]
//! ```
//!
//! The model of such a job is the vector of all answers, with zeros as version 0. What a client sends is the vector of
//! its own rows, and a round adds these up like any other updates: sums, noise, storage and history are those of a
//! training. Heavy hitters take a round for each letter.
//!
//! | part | what it is |
//! |---|---|
//! | [`Query`] | one question, and what its answer may be |
//! | [`Cell`] | a value of a row, as an app or a table gives it |
//! | `layout` | where the answers of a query stand, and by what they are multiplied |
//! | `encode` | from rows to the vector of a client |
//! | [`Words`] | the beginnings of words that go on to the next round |

mod check;
mod encode;
mod layout;
mod query;
mod row;
mod words;

use serde::{Deserialize, Serialize};

pub use check::AnalysisError;
pub use query::{Query, Shape};
pub use row::Cell;
pub use words::{Found, Words};

/// Most queries of an analysis.
pub const QUERIES_MAX: usize = 100;
/// Most numbers of all answers together: 2^22, which is 16 MiB of f32.
pub const ANSWERS_MAX: usize = 1 << 22;
/// Deviations between an estimate and the end of its 95 % interval: the 0.975 quantile of the normal distribution.
pub const DEVIATIONS: f64 = 1.959_963_984_540_054;

/// Questions to the clients' tables (`[analysis]`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Analysis {
    /// The questions, at most 100.
    pub queries: Vec<Query>,
    /// Rows of a client that count, at most; of more, the same ones in each round, drawn by the job. Default: 1 with
    /// `[privacy]`, which is the least noise, and all rows without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_client: Option<u32>,
    /// Standard deviation of the noise in each number of the answers, where a client's vector has a norm of at most 1.
    /// The coordinator fills it in for analyses with `[privacy]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<f64>,
    /// Clients who each add this noise to what they send, at most, where it is not added to their sum. The coordinator
    /// fills it in with `mechanism = "local"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noised_by: Option<u32>,
}
