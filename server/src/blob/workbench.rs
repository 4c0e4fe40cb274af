//! A workbench: the bodies that are being written. It deletes those that no transaction takes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::staged::Place;
use super::{BlobError, Blobs, Owner, Spool, Staged, hex};
use crate::db::{Db, StagedRow};
use crate::runtime::entropy;

/// Writes bodies. It knows what is stored of each, so one call of [`Self::clear`] replaces a deletion on every path
/// that ends early.
#[derive(Clone, Debug)]
pub struct Workbench {
    pub(super) blobs: Blobs,
    pub(super) db: Db,
    leftovers: Arc<Mutex<Vec<Leftover>>>,
}

/// The stored part of a body that no transaction has taken.
#[derive(Clone, Debug)]
enum Leftover {
    Parts(StagedRow),
    Object(String),
}

impl Workbench {
    #[must_use]
    pub fn new(blobs: Blobs, db: Db) -> Self {
        Self { blobs, db, leftovers: Arc::default() }
    }

    #[must_use]
    pub fn spool(&self, owner: Owner) -> Spool {
        Spool::new(self.clone(), owner)
    }

    /// A body that an earlier request left unfinished. Its last chunk is read into memory.
    pub async fn resume(&self, owner: Owner, row: StagedRow) -> Result<Spool, BlobError> {
        self.note_parts(&row);
        Spool::resume(self.clone(), owner, row).await
    }

    /// Puts a whole body where it can be read by its name once a transaction has settled it. If this fails, nothing has
    /// changed.
    pub async fn stage(&self, name: String, body: Bytes, now_ms: i64) -> Result<Staged, BlobError> {
        let place = match &self.blobs {
            Blobs::Database => Place::Transaction,
            Blobs::Store(store) => {
                // Random bytes, so that no two attempts share an object.
                let object = format!("{name}/{}", hex(&entropy::random::<16>()));
                self.leftovers().push(Leftover::Object(object.clone()));
                store.put(&object, body.clone()).await?;
                Place::Object { object, staged_at_ms: now_ms }
            }
        };
        Ok(Staged::new(self.clone(), name, body, place))
    }

    /// Deletes everything that no transaction has taken. The sweep deletes what remains after a failure.
    pub async fn clear(&self) {
        let leftovers = std::mem::take(&mut *self.leftovers());
        for leftover in leftovers {
            match leftover {
                Leftover::Parts(row) => self.blobs.discard_parts(&self.db, row).await,
                Leftover::Object(object) => self.blobs.delete(vec![object]).await,
            }
        }
    }

    /// Notes that chunks of this body are stored.
    pub(super) fn note_parts(&self, row: &StagedRow) {
        let mut leftovers = self.leftovers();
        leftovers.retain(|leftover| !leftover.is(&row.id));
        leftovers.push(Leftover::Parts(row.clone()));
    }

    /// Keeps a body that a transaction has taken or another request continues.
    pub(super) fn release(&self, id: &str) {
        self.leftovers().retain(|leftover| !leftover.is(id));
    }

    fn leftovers(&self) -> MutexGuard<'_, Vec<Leftover>> {
        self.leftovers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Leftover {
    fn is(&self, id: &str) -> bool {
        match self {
            Self::Parts(row) => row.id == id,
            Self::Object(object) => object == id,
        }
    }
}
