//! Bodies of models and updates: in the database, or in the object store of `--blobs`.
//!
//! With a store, a body is put there **before** the transaction that makes it count, under a key that no other attempt
//! uses. That transaction stores the key. So a row never refers to a missing body, and a refused upload cannot
//! overwrite an accepted one. A crash leaves at worst an orphan, an object that no row refers to, which [`sweep`]
//! deletes. Without a store, small bodies are written in the transaction itself.
//!
//! The coordinator never holds a large body whole. [`Spool`] writes it chunk by chunk under a name of its own, in small
//! transactions. The transaction that makes the body count stores only this name. Bodies that never count become
//! obsolete and are deleted ([`Blobs::clear`]).

mod error;
mod open;
mod read;
mod shared;
mod spool;
mod staged;
mod store;
pub mod sweep;
mod workbench;

use std::sync::Arc;
use std::time::Duration;

use tributary_protocol::id::{AssignmentId, JobId};

pub use error::{BlobError, StoreError};
pub use open::{OpenStoreError, OpenedStore, environment, open_store};
pub use read::{Reader, StoredBody};
pub use shared::SharedParts;
pub use spool::{Owner, Replay, Spool};
pub use staged::Staged;
pub use store::Store;
pub use workbench::Workbench;

use crate::db::{Db, MadeFor};
use crate::runtime::entropy;

/// Longest time that the end of a round waits for the deletion of its updates. The job's next round waits too, and the
/// sweep deletes the rest.
const DELETE_TIMEOUT: Duration = Duration::from_secs(5);

#[must_use]
pub fn model_key(job: JobId, version: u32) -> String {
    format!("model/{job}/{version}")
}

/// The name of the body of a file that is derived from a model version.
#[must_use]
pub fn model_file_key(job: JobId, version: u32, form: MadeFor) -> String {
    match form {
        MadeFor::Form(form) => format!("model/{job}/{version}/{}", form.as_str()),
        MadeFor::Delta => format!("delta/{job}/{version}"),
    }
}

#[must_use]
pub fn update_key(assignment: AssignmentId) -> String {
    format!("update/{assignment}")
}

/// The place of new bodies; cheap to clone.
#[derive(Clone, Debug)]
pub enum Blobs {
    /// In the database, in chunks.
    Database,
    /// In an object store. Bodies that were stored in the database earlier stay readable.
    Store(Arc<Store>),
}

impl Blobs {
    /// Opens the place of new bodies. Objects are stored below the store's prefix and the id of this database, so
    /// databases that share a bucket never read or sweep each other's objects. No call to the store is made yet.
    ///
    /// # Errors
    /// [`BlobError::NoStore`] when no store is configured although bodies of this database are in one.
    pub async fn open(store: Option<OpenedStore>, db: &Db) -> Result<Self, BlobError> {
        let Some(OpenedStore { objects, prefix, call_timeout }) = store else {
            return if db.read().await?.has_objects().await? { Err(BlobError::NoStore) } else { Ok(Self::Database) };
        };
        let mut tx = db.begin().await?;
        let deployment = tx.deployment(&hex(&entropy::random::<8>())).await?;
        tx.commit().await?;
        Ok(Self::Store(Arc::new(Store::new(objects, prefix.join(deployment), call_timeout, Arc::clone(db.metrics())))))
    }

    /// Deletes objects that a committed transaction released. Objects whose deletion fails are orphans, which the sweep
    /// deletes.
    pub async fn delete(&self, objects: Vec<String>) {
        let Self::Store(store) = self else { return };
        let count = objects.len();
        let timed_out = |_| Err(StoreError::TimedOut { doing: "delete bodies", after: DELETE_TIMEOUT });
        let deleted = tokio::time::timeout(DELETE_TIMEOUT, store.delete(objects)).await;
        if let Err(error) = deleted.unwrap_or_else(timed_out) {
            tracing::warn!(%error, count, "obsolete objects could not be deleted; the sweep deletes them later");
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
