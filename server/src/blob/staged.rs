//! A body on its way: already in the store, or about to be written by the transaction that makes it count.

use bytes::Bytes;

use super::{BlobError, Blobs, hex};
use crate::db::Tx;

/// Longest time between putting a body into the store and the transaction that refers to it, in milliseconds. Far below
/// [`super::sweep::ORPHAN_AGE_MS`], so that no body is swept that may still come to count, even where the clocks of
/// coordinator and store differ by hours.
pub(super) const SETTLE_MS_MAX: i64 = 60 * 60 * 1_000;

/// A body that counts once [`Staged::settle`] and its transaction are done.
#[derive(Debug)]
pub struct Staged {
    name: String,
    body: Bytes,
    /// Its key in the store; none when it goes into the database.
    object: Option<String>,
    staged_at_ms: i64,
    settled: bool,
}

impl Blobs {
    /// Puts a body where it can be read by its name once a transaction has settled it. `attempt` are random bytes, so
    /// that no two attempts share an object.
    ///
    /// # Errors
    /// [`BlobError::Store`]; nothing was changed then.
    pub async fn stage(&self, name: String, body: Bytes, attempt: [u8; 16], now_ms: i64) -> Result<Staged, BlobError> {
        let object = match self {
            Self::Database => None,
            Self::Store(store) => {
                let object = format!("{name}/{}", hex(&attempt));
                store.put(&object, body.clone()).await?;
                Some(object)
            }
        };
        Ok(Staged { name, body, object, staged_at_ms: now_ms, settled: false })
    }

    /// Deletes the object of a body that no transaction has taken. One that a transaction has taken stays, even when its
    /// commit failed: the database may have stored it all the same.
    pub async fn discard_unsettled(&self, staged: Staged) {
        if let (false, Some(object)) = (staged.settled, staged.object) {
            self.delete(vec![object]).await;
        }
    }
}

impl Staged {
    /// The body.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Makes the body part of a transaction: from its commit on the body can be read by its name. A body that was put
    /// into a store more than an hour ago is refused.
    ///
    /// # Errors
    /// [`BlobError::Stale`] when it was put too long ago; [`crate::db::DbError::Duplicate`] when the name has a body.
    pub async fn settle(&mut self, tx: &mut Tx, now_ms: i64) -> Result<(), BlobError> {
        match &self.object {
            None => tx.insert_blob(&self.name, &self.body).await?,
            Some(_) if now_ms.saturating_sub(self.staged_at_ms) > SETTLE_MS_MAX => {
                return Err(BlobError::Stale(self.name.clone()));
            }
            Some(object) => tx.insert_object(&self.name, object, self.body.len() as u64).await?,
        }
        self.settled = true;
        Ok(())
    }
}
