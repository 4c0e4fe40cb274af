//! A whole body on its way: stored already, or about to be written by the transaction that takes it.

use bytes::Bytes;

use super::blobs::{Blobs, hex};
use super::error::BlobError;
use super::workbench::Workbench;
use crate::db::{BLOB_CHUNK_BYTES, ObjectRow, StagedRow, Tx};
use crate::runtime::entropy;

/// Longest time between putting a body into the store and the transaction that refers to it, in milliseconds. Far below
/// [`super::sweep::ORPHAN_AGE_MS`], so that the sweep deletes no body that a transaction may still take, even where the
/// clocks of coordinator and store differ by hours.
pub(super) const SETTLE_MS_MAX: i64 = 60 * 60 * 1_000;

/// A body that counts once [`Staged::settle`] and its transaction are done. Unless a transaction takes it, its
/// workbench deletes it.
#[derive(Debug)]
pub struct Staged {
    bench: Workbench,
    name: String,
    body: Bytes,
    place: Place,
    settled: bool,
}

#[derive(Debug)]
pub(super) enum Place {
    /// It is written by its transaction.
    Transaction,
    /// It is in the store.
    Object { row: ObjectRow, staged_at_ms: i64 },
    /// Its chunks are stored.
    Chunks(StagedRow),
}

impl Workbench {
    /// Puts a whole body where it can be read by its name once a transaction has settled it.
    ///
    /// # Errors
    /// When the store does not answer. Nothing was changed then.
    pub async fn stage(&self, name: String, body: Bytes, now_ms: i64) -> Result<Staged, BlobError> {
        let place = match &self.blobs {
            Blobs::Database => Place::Transaction,
            Blobs::Store(store) if !store.takes_small() && body.len() <= BLOB_CHUNK_BYTES => Place::Transaction,
            Blobs::Store(store) => {
                // Random bytes, so that no two attempts share an object.
                let object = store.key(&format!("{name}/{}", hex(&entropy::random::<16>())));
                self.note_object(&object);
                store.put(&object, body.clone()).await?;
                store.sync(vec![object.clone()]).await?;
                Place::Object { row: ObjectRow::of(object, &body), staged_at_ms: now_ms }
            }
        };
        Ok(Staged::new(self.clone(), name, body, place))
    }
}

impl Staged {
    pub(super) fn new(bench: Workbench, name: String, body: Bytes, place: Place) -> Self {
        Self { bench, name, body, place, settled: false }
    }

    /// The body, where it is in memory; empty otherwise.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Whether a transaction has taken it.
    pub fn is_settled(&self) -> bool {
        self.settled
    }

    /// Makes the body part of a transaction: from its commit on the body can be read by its name. From now on the
    /// workbench keeps it, even if the commit fails: the database may have stored it all the same.
    ///
    /// # Errors
    /// [`BlobError::Stale`] when it was put into the store more than an hour ago, [`BlobError::Superseded`] when
    /// another request continues with it, [`crate::db::DbError::Duplicate`] when the name has a body.
    pub async fn settle(&mut self, tx: &mut Tx, now_ms: i64) -> Result<(), BlobError> {
        match &self.place {
            Place::Transaction => tx.insert_blob(&self.name, &self.body).await?,
            Place::Object { staged_at_ms, .. } if now_ms.saturating_sub(*staged_at_ms) > SETTLE_MS_MAX => {
                return Err(BlobError::Stale(self.name.clone()));
            }
            Place::Object { row, .. } => tx.insert_object(&self.name, row).await?,
            Place::Chunks(row) => {
                if !tx.settle_staged(&row.id, row.attempt, row.bytes, &self.name).await? {
                    return Err(BlobError::Superseded(self.name.clone()));
                }
            }
        }
        self.settled = true;
        self.release();
        Ok(())
    }

    /// Keeps what is stored although no transaction has taken it: its sender continues with it.
    pub fn release(&self) {
        match &self.place {
            Place::Transaction => {}
            Place::Object { row, .. } => self.bench.release(&row.object),
            Place::Chunks(row) => self.bench.release(&row.id),
        }
    }
}
