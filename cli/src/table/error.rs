//! Why a table cannot be read.

use std::path::PathBuf;

use tributary_client::examples::ExamplesError;

use super::labels::{LABELS_MAX, LabelMap};
use super::schema_error::SchemaError;
use crate::error::Failure;

#[derive(Debug, thiserror::Error)]
pub(super) enum TableError {
    #[error("cannot be read: {0}")]
    Unreadable(#[from] std::io::Error),
    #[error("{0}")]
    Csv(#[from] csv::Error),
    #[cfg(feature = "formats")]
    #[error("it is no Parquet file: {0}")]
    Parquet(String),
    #[cfg(feature = "formats")]
    #[error("column {0}: values must be numbers, truth values or texts, not dates, lists or groups")]
    Kind(String),
    #[error("there is no example in it")]
    Empty,
    #[error("there is no column {wanted:?}; the columns are {}", names.join(", "))]
    NoColumn { wanted: String, names: Vec<String> },
    #[error("one column is not enough: each line needs inputs and a target")]
    OneColumn,
    /// `line` counts from 1.
    #[error("line {line}: column {column}: {problem}")]
    Field { line: u64, column: String, problem: FieldProblem },
    #[error("the target {0} has numbers that are no classes, such as {1}")]
    NotClasses(String, String),
    #[error("the column {0} has more than 1000 different texts: is it a name or an id, which no model should read?")]
    TooManyCategories(String),
    #[error("all values of the column {0} are missing")]
    AllMissing(String),
    #[error(transparent)]
    Schema(#[from] SchemaError),
    #[error(transparent)]
    Examples(#[from] ExamplesError),
}

#[derive(Debug, thiserror::Error)]
pub(super) enum FieldProblem {
    #[error("{0:?} is not a number")]
    NotANumber(String),
    #[error("the value is missing")]
    Missing,
    #[error("{label:?} is not among the labels {known}")]
    UnknownLabel { label: String, known: LabelMap },
    #[error("{0:?} is one label too many: there may be {max}", max = LABELS_MAX)]
    TooManyLabels(String),
}

/// A file that cannot be read as a table.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub(super) struct TableFileError {
    pub(super) path: PathBuf,
    /// Names line and column.
    pub(super) source: TableError,
}

impl Failure for TableFileError {
    fn hint(&self) -> Option<String> {
        self.source.hint()
    }
}

impl TableError {
    pub(super) fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Field { problem, .. } => match problem {
                FieldProblem::Missing => {
                    "--missing mean takes the mean of the column for missing inputs; --missing drop leaves out such lines"
                }
                FieldProblem::UnknownLabel { .. } => {
                    "--label-map names all labels, in the same order at all clients: --label-map cat,dog"
                }
                FieldProblem::NotANumber(_) => {
                    "inputs must be numbers; --delimiter and --target-column say how the table is read"
                }
                FieldProblem::TooManyLabels(_) => "is it the right --target-column?",
            },
            Self::NotClasses(..) => "--regression learns to predict numbers",
            Self::NoColumn { .. } | Self::OneColumn => "is the --delimiter right?",
            Self::Schema(error) => return error.hint(),
            _ => return None,
        };
        Some(hint.into())
    }
}
