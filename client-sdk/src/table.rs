//! What an app answers analyses from: its table.

use std::fmt;

use crate::trainer::TrainError;

/// A value of a row.
pub use tributary_protocol::analysis::Cell;

/// The rows from which a client answers analyses ([`Builder::table`](crate::Builder::table)): those of a file, or the
/// records of an app. Rows never leave the device; what is sent are the sums that an analysis asks for.
pub trait Table: fmt::Debug + Send + Sync {
    /// The values of all rows in these columns, in this order.
    ///
    /// # Errors
    /// [`TrainError::DoesNotFit`] names a column that there is not, and is reported to the coordinator. A panic counts
    /// as [`TrainError::Other`].
    fn rows(&self, columns: &[&str]) -> Result<Vec<Vec<Cell>>, TrainError>;
}
