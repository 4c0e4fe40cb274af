//! A workbench: bodies that are being written, and are deleted unless a transaction takes them.

use std::sync::{Arc, Mutex};

use super::blobs::Blobs;
use crate::db::{Db, StagedRow};
use crate::runtime::lock::Locked;

/// Where bodies are written. It knows what has been stored of each, so one call of [`Self::clear`] replaces a deletion
/// on every path that ends early.
#[derive(Clone, Debug)]
pub struct Workbench {
    pub(super) blobs: Blobs,
    pub(super) db: Db,
    leftovers: Arc<Mutex<Vec<Leftover>>>,
}

/// What is stored of a body that no transaction has taken.
#[derive(Clone, Debug)]
enum Leftover {
    Chunks(StagedRow),
    Object(String),
}

impl Workbench {
    pub fn new(blobs: Blobs, db: Db) -> Self {
        Self { blobs, db, leftovers: Arc::default() }
    }

    /// Deletes everything that no transaction has taken. What cannot be deleted now is deleted by the sweep.
    pub async fn clear(&self) {
        let leftovers = std::mem::take(&mut *self.leftovers.locked());
        for leftover in leftovers {
            match leftover {
                Leftover::Chunks(row) => self.blobs.discard_chunks(&self.db, row).await,
                Leftover::Object(object) => self.blobs.delete(vec![object]).await,
            }
        }
    }

    /// An object of this key may be in the store.
    pub(super) fn note_object(&self, object: &str) {
        self.leftovers.locked().push(Leftover::Object(object.to_owned()));
    }

    /// Chunks of this body are stored.
    pub(super) fn note_chunks(&self, row: &StagedRow) {
        let mut leftovers = self.leftovers.locked();
        leftovers.retain(|leftover| !leftover.is(&row.id));
        leftovers.push(Leftover::Chunks(row.clone()));
    }

    /// A transaction has taken the body, or another request continues with it: it stays.
    pub(super) fn release(&self, id: &str) {
        self.leftovers.locked().retain(|leftover| !leftover.is(id));
    }
}

impl Leftover {
    fn is(&self, id: &str) -> bool {
        match self {
            Self::Chunks(row) => row.id == id,
            Self::Object(object) => object == id,
        }
    }
}
