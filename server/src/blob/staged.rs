//! A complete body that no transaction has made count yet.

use bytes::Bytes;

use super::{BlobError, Workbench};
use crate::db::{StagedRow, Tx};

/// Longest time between storing a body and the transaction that refers to it, in milliseconds. It is far below
/// [`super::sweep::ORPHAN_AGE_MS`], so the sweep deletes no body that a transaction may still settle, even if the
/// clocks of coordinator and store differ by hours.
pub(super) const SETTLE_MS_MAX: i64 = 60 * 60 * 1_000;

/// A body that counts once [`Staged::settle`] and its transaction are done. Otherwise its workbench deletes it.
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
    /// Its transaction writes it.
    Transaction,
    /// It is in the store, under this key.
    Object { object: String, staged_at_ms: i64 },
    /// Its chunks are stored.
    Parts(StagedRow),
}

impl Staged {
    pub(super) fn new(bench: Workbench, name: String, body: Bytes, place: Place) -> Self {
        Self { bench, name, body, place, settled: false }
    }

    /// The body, if it is in memory; empty otherwise.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Whether a transaction has settled the body.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.settled
    }

    /// Makes the body part of a transaction: from its commit on the body can be read by its name. The workbench does
    /// not delete the body from now on, even if the commit fails, because the database may have committed although the
    /// answer was lost.
    ///
    /// # Errors
    /// [`BlobError::Stale`] when the body was put into the store more than an hour ago, [`BlobError::Superseded`] when
    /// another request continues it, [`crate::db::DbError::Duplicate`] when the name has a body.
    pub async fn settle(&mut self, tx: &mut Tx, now_ms: i64) -> Result<(), BlobError> {
        match &self.place {
            Place::Transaction => tx.insert_blob(&self.name, &self.body).await?,
            Place::Object { staged_at_ms, .. } if now_ms.saturating_sub(*staged_at_ms) > SETTLE_MS_MAX => {
                return Err(BlobError::Stale(self.name.clone()));
            }
            Place::Object { object, .. } => tx.insert_object(&self.name, object, self.body.len() as u64).await?,
            Place::Parts(row) => {
                if !tx.settle_staged(&row.id, row.attempt, row.bytes, &self.name).await? {
                    return Err(BlobError::Superseded(self.name.clone()));
                }
            }
        }
        self.settled = true;
        self.release();
        Ok(())
    }

    /// Keeps the stored chunks although no transaction has settled them, so that the sender can resume.
    pub fn release(&self) {
        match &self.place {
            Place::Transaction => {}
            Place::Object { object, .. } => self.bench.release(object),
            Place::Parts(row) => self.bench.release(&row.id),
        }
    }
}
