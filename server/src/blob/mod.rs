//! Bodies of models and updates: in the database, or in an object store that `--blobs` names.
//!
//! With a store, a body is put there **before** the transaction that makes it count, under a key that no other attempt
//! shares; that transaction stores the key. So a row never refers to a body that is not there, a refused upload cannot
//! overwrite an accepted one, and what a crash leaves behind is an orphan that nothing refers to: [`sweep`] deletes it.
//! Without a store, small bodies are written in that same transaction.
//!
//! A body of more than one part is never held whole: [`Spool`] writes it part by part under a name of its own while it
//! arrives or is made, in transactions of their own, and the one that makes it count stores no more than which it is.
//! What of it never comes to count is deleted when its time is up ([`Blobs::clear`]).

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

/// Longest time that a round's end waits for the deletion of its updates. A driver has other jobs, and what is left is swept.
const DELETE_TIMEOUT: Duration = Duration::from_secs(5);

/// The name of the body of a model version.
#[must_use]
pub fn model_key(job: JobId, version: u32) -> String {
    format!("model/{job}/{version}")
}

/// The name of the body of a file that is made of a model version.
#[must_use]
pub fn model_file_key(job: JobId, version: u32, form: MadeFor) -> String {
    match form {
        MadeFor::Form(form) => format!("model/{job}/{version}/{}", form.as_str()),
        MadeFor::Delta => format!("delta/{job}/{version}"),
    }
}

/// The name of the body of an update.
#[must_use]
pub fn update_key(assignment: AssignmentId) -> String {
    format!("update/{assignment}")
}

/// Where new bodies go; cheap to clone.
#[derive(Clone, Debug)]
pub enum Blobs {
    /// Into the database, in parts.
    Database,
    /// Into an object store. Bodies that are in the database from before stay readable.
    Store(Arc<Store>),
}

impl Blobs {
    /// Bodies in the store, if there is one, below its prefix and the id of this database: databases that share a bucket
    /// never see, and never sweep, each other's objects.
    ///
    /// # Errors
    /// [`BlobError::NoStore`] when there is none and bodies of this database are in one; [`BlobError::Db`]. The store is
    /// not asked yet.
    pub async fn open(store: Option<OpenedStore>, db: &Db) -> Result<Self, BlobError> {
        let Some(OpenedStore { objects, prefix, call_timeout }) = store else {
            return if db.read().await?.has_objects().await? { Err(BlobError::NoStore) } else { Ok(Self::Database) };
        };
        let mut tx = db.begin().await?;
        let deployment = tx.deployment(&hex(&entropy::random::<8>())).await?;
        tx.commit().await?;
        Ok(Self::Store(Arc::new(Store::new(objects, prefix.join(deployment), call_timeout, Arc::clone(db.metrics())))))
    }

    /// Deletes objects whose bodies are of no more use, after the transaction that said so. What cannot be deleted now is
    /// an orphan: it is swept later.
    pub async fn delete(&self, objects: Vec<String>) {
        let Self::Store(store) = self else { return };
        let count = objects.len();
        let timed_out = |_| Err(StoreError::TimedOut { doing: "delete bodies", after: DELETE_TIMEOUT });
        let deleted = tokio::time::timeout(DELETE_TIMEOUT, store.delete(objects)).await;
        if let Err(error) = deleted.unwrap_or_else(timed_out) {
            tracing::warn!(%error, count, "objects that are of no more use could not be deleted; they are swept later");
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
