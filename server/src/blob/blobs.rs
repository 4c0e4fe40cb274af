//! Where the bodies of a database are.

use std::sync::Arc;
use std::time::Duration;

use super::error::{BlobError, StoreError};
use super::store::{BESIDE, OpenedStore, Store};
use crate::db::Db;
use crate::runtime::entropy;

/// Longest time that a round's end waits for the deletion of its updates. A driver has other jobs, and what is left is
/// swept.
const DELETE_TIMEOUT: Duration = Duration::from_secs(5);

/// Where new bodies go; cheap to clone.
#[derive(Clone, Debug)]
pub enum Blobs {
    /// Into the database, in chunks.
    Database,
    /// Into an object store, or into files. Bodies that are in the database from before stay readable.
    Store(Arc<Store>),
}

impl Blobs {
    /// Bodies in the store, if there is one, below its prefix and the id of this database: databases that share a
    /// bucket never see, and never sweep, each other's objects.
    ///
    /// # Errors
    /// [`BlobError::NoStore`] when bodies of this database are in another one; [`BlobError::Db`]. The store
    /// is not asked yet.
    pub async fn open(store: Option<OpenedStore>, db: &Db) -> Result<Self, BlobError> {
        let Some(store) = store else {
            return if db.read().await?.has_objects("").await? { Err(BlobError::NoStore) } else { Ok(Self::Database) };
        };
        if store.is_beside && db.read().await?.has_objects(BESIDE).await? {
            return Err(BlobError::NoStore);
        }
        let mut tx = db.begin().await?;
        let deployment = tx.deployment(&hex(&entropy::random::<8>())).await?;
        tx.commit().await?;
        Ok(Self::Store(Arc::new(Store::new(store, &deployment, db.metrics()))))
    }

    /// Deletes objects whose bodies are of no more use, after the transaction that said so. What cannot be deleted now
    /// is an orphan: it is swept later.
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

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
