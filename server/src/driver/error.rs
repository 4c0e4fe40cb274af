//! Why a job could not be moved on.

use crate::db::DbError;
use crate::models::error::CommitError;

#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    #[error(transparent)]
    Db(#[from] DbError),
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// A defect of this program.
    #[error("the driver panicked; the log has the panic's message")]
    Panicked,
}
