//! Bodies of models and updates: in the database, or in an object store that `--blobs` names.
//!
//! With a store, a body is put there **before** the transaction that makes it count, under a key that no other attempt
//! shares; that transaction stores the key. So a row never refers to a body that is not there, a refused upload cannot
//! overwrite an accepted one, and what a crash leaves behind is an orphan that nothing refers to: [`sweep`] deletes it.
//! Without a store, bodies are written in parts in that same transaction.

mod error;
mod open;
mod read;
mod staged;
mod store;
pub mod sweep;

use object_store::ObjectStore;
use object_store::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tributary_protocol::id::{AssignmentId, JobId};

pub use error::{BlobError, StoreError};
pub use open::{OpenStoreError, environment, open_store};
pub use read::StoredBody;
pub use staged::Staged;
pub use store::{CALL_TIMEOUT, Store};

use crate::db::{Db, DbError};
use crate::entropy;

/// The name of the body of a model version.
#[must_use]
pub fn model_key(job: JobId, version: u32) -> String {
    format!("model/{job}/{version}")
}

/// The name of the body of an update.
#[must_use]
pub fn update_key(assignment: AssignmentId) -> String {
    format!("update/{assignment}")
}

/// Where new bodies go.
#[derive(Debug)]
pub enum Blobs {
    /// Into the database, in parts.
    Database,
    /// Into an object store. Bodies that are in the database from before stay readable.
    Store(Store),
}

impl Blobs {
    /// Bodies in the database.
    ///
    /// # Errors
    /// [`BlobError::NoStore`] when bodies of this database are in a store: without it they could not be read.
    pub async fn database(db: &Db) -> Result<Self, BlobError> {
        if db.read().await?.has_objects().await? { Err(BlobError::NoStore) } else { Ok(Self::Database) }
    }

    /// Bodies in a store, below `prefix` and the id of this database: databases that share a bucket never see, and never
    /// sweep, each other's objects. No call to the store takes longer than `call_timeout`.
    ///
    /// # Errors
    /// [`DbError`] when the database does not answer; the store is not asked yet.
    pub async fn store(
        store: Arc<dyn ObjectStore>,
        prefix: &Path,
        db: &Db,
        call_timeout: Duration,
    ) -> Result<Self, DbError> {
        let mut tx = db.begin().await?;
        let deployment = tx.deployment(&hex(&entropy::random::<8>())).await?;
        tx.commit().await?;
        Ok(Self::Store(Store::new(store, prefix.clone().join(deployment), call_timeout)))
    }

    /// Deletes objects whose bodies are of no more use, after the transaction that said so. What cannot be deleted now is
    /// an orphan: it is swept later.
    pub async fn delete(&self, objects: Vec<String>) {
        let Self::Store(store) = self else { return };
        let count = objects.len();
        if let Err(error) = store.delete(objects).await {
            tracing::warn!(%error, count, "objects that are of no more use could not be deleted; they are swept later");
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
