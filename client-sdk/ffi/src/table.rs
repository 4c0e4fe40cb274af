//! What an app answers analyses from: its rows.

use std::fmt;
use std::sync::Arc;

use tributary_client::TrainError;

use crate::errors::TrainerError;

/// A value of a row.
#[derive(Clone, Debug, PartialEq, uniffi::Enum)]
pub enum Cell {
    /// There is none.
    Missing,
    /// A number.
    Number {
        /// It.
        value: f64,
    },
    /// A text, which may be a number in digits.
    Text {
        /// It.
        value: String,
    },
}

/// The rows from which a client answers analyses. They never leave the device; what is sent are the sums that an
/// analysis asks for. It is called on the thread that runs a session.
#[uniffi::export(with_foreign)]
pub trait Table: Send + Sync {
    /// The values of all rows in these columns, in this order.
    ///
    /// # Errors
    /// [`TrainerError`] if the app has no such column, or cannot read its rows.
    fn rows(&self, columns: Vec<String>) -> Result<Vec<Vec<Cell>>, TrainerError>;
}

/// The app's table as the SDK's.
pub(crate) struct AppTable(pub(crate) Arc<dyn Table>);

impl fmt::Debug for AppTable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("AppTable")
    }
}

impl tributary_client::Table for AppTable {
    fn rows(&self, columns: &[&str]) -> Result<Vec<Vec<tributary_client::Cell>>, TrainError> {
        let rows = self.0.rows(columns.iter().map(|name| (*name).to_owned()).collect());
        Ok(rows?.into_iter().map(|row| row.into_iter().map(tributary_client::Cell::from).collect()).collect())
    }
}

impl From<Cell> for tributary_client::Cell {
    fn from(cell: Cell) -> Self {
        match cell {
            Cell::Missing => Self::Missing,
            Cell::Number { value } => Self::Number(value),
            Cell::Text { value } => Self::Text(value),
        }
    }
}
