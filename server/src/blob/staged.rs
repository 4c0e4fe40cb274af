//! A body on its way: already in the store, or about to be written by the transaction that makes it count.

use bytes::Bytes;

use super::{BlobError, Blobs, hex};
use crate::db::{Db, StagedRow, Tx};

/// Longest time between putting a body into the store and the transaction that refers to it, in milliseconds. Far below
/// [`super::sweep::ORPHAN_AGE_MS`], so that no body is swept that may still come to count, even where the clocks of
/// coordinator and store differ by hours.
pub(super) const SETTLE_MS_MAX: i64 = 60 * 60 * 1_000;

/// A body that counts once [`Staged::settle`] and its transaction are done.
#[derive(Debug)]
pub struct Staged {
    name: String,
    body: Bytes,
    place: Place,
    settled: bool,
}

#[derive(Debug)]
enum Place {
    /// It goes into the database with its transaction.
    Transaction,
    /// It is in the store, under this key.
    Object { object: String, staged_at_ms: i64 },
    /// It was written in parts.
    Parts(StagedRow),
}

impl Blobs {
    /// Puts a body where it can be read by its name once a transaction has settled it. `attempt` are random bytes, so
    /// that no two attempts share an object.
    ///
    /// # Errors
    /// [`BlobError::Store`]; nothing was changed then.
    pub async fn stage(&self, name: String, body: Bytes, attempt: [u8; 16], now_ms: i64) -> Result<Staged, BlobError> {
        let place = match self {
            Self::Database => Place::Transaction,
            Self::Store(store) => {
                let object = format!("{name}/{}", hex(&attempt));
                store.put(&object, body.clone()).await?;
                Place::Object { object, staged_at_ms: now_ms }
            }
        };
        Ok(Staged { name, body, place, settled: false })
    }

    /// Deletes what there is of a body that no transaction has taken. One that a transaction has taken stays, even when
    /// its commit failed: the database may have stored it all the same.
    pub async fn discard_unsettled(&self, db: &Db, staged: Staged) {
        match staged.place {
            _ if staged.settled => {}
            Place::Transaction => {}
            Place::Object { object, .. } => self.delete(vec![object]).await,
            Place::Parts(row) => self.discard_parts(db, row).await,
        }
    }
}

impl Staged {
    /// A body whose parts are stored.
    pub(super) fn in_parts(name: String, row: StagedRow) -> Self {
        Self { name, body: Bytes::new(), place: Place::Parts(row), settled: false }
    }

    /// The body, where it is in memory.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Whether a transaction has taken it.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.settled
    }

    /// Makes the body part of a transaction: from its commit on the body can be read by its name. A body that was put
    /// into a store more than an hour ago is refused.
    ///
    /// # Errors
    /// [`BlobError::Stale`] when it was put too long ago, [`BlobError::Superseded`] when somebody else goes on with it;
    /// [`crate::db::DbError::Duplicate`] when the name has a body.
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
        Ok(())
    }
}
