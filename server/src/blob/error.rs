//! What can go wrong with bodies, told apart by what a caller can do about it.

use std::time::Duration;

use crate::db::DbError;

/// A call to the object store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store refused, or could not be reached.
    #[error("the object store cannot {doing}: {source}")]
    Refused {
        /// What was wanted.
        doing: &'static str,
        /// What the store's client said.
        source: object_store::Error,
    },
    /// The store did not answer in time.
    #[error("the object store did not {doing} within {after:?}")]
    TimedOut {
        /// What was wanted.
        doing: &'static str,
        /// How long it had.
        after: Duration,
    },
}

/// A body cannot be stored or read.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// The database.
    #[error(transparent)]
    Db(#[from] DbError),
    /// The object store is away, slow or out of space: worth another try.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A body that a row refers to is not there.
    #[error("the body of {0} is missing")]
    Missing(String),
    /// A body is not the one that was stored.
    #[error("the body of {0} is not the one that was stored: its length or its hash differs")]
    Damaged(String),
    /// The row says that the body is in an object store, and none is configured.
    #[error("models or updates of this database are in an object store: name it with --blobs")]
    NoStore,
    /// Somebody else goes on with the body that was being written, or it is of no more use.
    #[error("the body of {0} is no longer this writer's")]
    Superseded(String),
    /// The body was staged so long ago that it may have been swept.
    #[error("the body of {0} waited too long for its transaction; it must be stored again")]
    Stale(String),
}
