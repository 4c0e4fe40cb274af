//! Why a table does not have the columns of a job.

use tributary_protocol::text::visible;

use super::labels::shortened;
use crate::error::Failure;

/// Names that a message lists.
const NAMES_SHOWN_MAX: usize = 12;

/// Why a table does not have the columns of a job.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SchemaError {
    #[error("the table has no header, and the job knows columns by name: {}", listed(.0))]
    NoHeader(Vec<String>),
    #[error("the table has no column {name:?}")]
    MissingColumn { name: String, nearest: Option<String> },
    #[error("the column {0:?} is there twice")]
    Repeated(String),
    #[error("the job has no column {0:?}")]
    Unknown(String),
    #[error("--map names {name:?}, which is no column of the job: those are {}", listed(known))]
    BadMap { name: String, known: Vec<String> },
    #[error("line {line}: column {column}: {problem}")]
    Field { line: u64, column: String, problem: ValueProblem },
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ValueProblem {
    #[error("{0:?} is not a number")]
    NotANumber(String),
    #[error("{0:?} is not a date, such as 2026-11-25 or 2026-11-25T14:30:00")]
    NotADate(String),
    #[error("{value:?} is none of {}", listed(known))]
    NotACategory { value: String, known: Vec<String> },
    #[error("{label:?} is none of the job's classes {}", listed(known))]
    UnknownLabel { label: String, known: Vec<String> },
    #[error("{value} is outside of {low} to {high}")]
    Range { value: f64, low: f64, high: f64 },
    #[error("the value is missing")]
    Missing,
}

impl Failure for SchemaError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoHeader(_) => "write the names of the columns into the first line".into(),
            Self::MissingColumn { name, nearest: Some(nearest) } => {
                format!("is it the column {nearest:?}? --map {name}={nearest} says so")
            }
            Self::MissingColumn { name, .. } => {
                format!("--map {name}=COLUMN names the column that it is in this table")
            }
            Self::Repeated(_) => "give one of them another name".into(),
            Self::Unknown(name) => format!("--ignore {name} leaves it out"),
            Self::BadMap { .. } => "--map JOB_COLUMN=TABLE_COLUMN".into(),
            Self::Field { problem, .. } => match problem {
                ValueProblem::Missing => "--missing drop leaves out such lines".into(),
                ValueProblem::NotANumber(_) | ValueProblem::NotADate(_) => "correct the line, or leave it out".into(),
                ValueProblem::NotACategory { .. } | ValueProblem::UnknownLabel { .. } => {
                    "the job's file lists what there may be; another spelling is another value".into()
                }
                ValueProblem::Range { .. } => "is it in the job's unit?".into(),
            },
        })
    }
}

/// A text of a file as a message shows it: it must not act on the terminal.
pub(super) fn shown(text: impl AsRef<str>) -> String {
    visible(&shortened(text.as_ref()))
}

fn listed(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(NAMES_SHOWN_MAX).map(shown).collect();
    let more = names.len().saturating_sub(NAMES_SHOWN_MAX);
    if more > 0 { format!("{} and {more} more", shown.join(", ")) } else { shown.join(", ") }
}
