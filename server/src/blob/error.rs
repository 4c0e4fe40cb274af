//! Errors of bodies, by what a caller can do about them.

use std::time::Duration;

use crate::db::DbError;

/// A call to the object store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store refused the call, or could not be reached.
    #[error("the object store cannot {doing}: {source}")]
    Refused {
        /// The operation, as a verb phrase of the message.
        doing: &'static str,
        source: object_store::Error,
    },
    #[error("the object store did not {doing} within {after:?}")]
    TimedOut {
        /// The operation, as a verb phrase of the message.
        doing: &'static str,
        /// The time limit of the call.
        after: Duration,
    },
    #[error("the file of a body cannot be written: {0}")]
    Write(#[source] std::io::Error),
    #[error("the files of a body cannot be synced to the disk: {0}")]
    Sync(#[source] std::io::Error),
}

/// A body cannot be stored or read.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    #[error(transparent)]
    Db(#[from] DbError),
    /// The object store is unreachable, slow or full. A later attempt may succeed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A row refers to a body that does not exist.
    #[error("the body of {0} is missing")]
    Missing(String),
    /// The stored body differs in length or hash from its row.
    #[error("the body of {0} is not the one that was stored: its length or its hash differs")]
    Damaged(String),
    /// The row says that the body is in an object store, and none is configured.
    #[error(
        "models or updates of this database are outside of it: name their object store with --blobs, or leave \
         `--blobs database` out if they are in files beside it"
    )]
    NoStore,
    /// Another request continues the staged body, or the body is obsolete.
    #[error("another request continues the body of {0}, or it is obsolete")]
    Superseded(String),
    /// The body was put into the store so long ago that the sweep may have deleted it.
    #[error("the body of {0} waited too long for its transaction; it must be stored again")]
    Stale(String),
    /// The reader of a computed model took nothing of it, and another reader has its place.
    #[error("another request took the place of this one, because nothing of it was read")]
    Displaced,
}

impl BlobError {
    /// Whether stored bytes are gone, so that the body must be stored again.
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Missing(_) | Self::Damaged(_))
    }
}
