//! A download that is not complete.
//!
//! The entry holds the SHA-256 of the whole file as text, then the file's bytes so far.

use std::sync::Arc;

use tributary_protocol::hash::Sha256Hash;

use super::contract::{Durability, Store, StoreError};

/// The entry. There is one only: a client downloads one file at a time.
const ENTRY: &str = "model.partial";

/// What has arrived of one file.
#[derive(Debug)]
pub(crate) struct Partial {
    store: Arc<dyn Store>,
    sha256: Sha256Hash,
    /// Whether the entry begins with this file's hash.
    begun: bool,
}

impl Partial {
    /// The file of this hash. Nothing is read yet.
    pub(crate) fn new(store: Arc<dyn Store>, sha256: Sha256Hash) -> Self {
        Self { store, sha256, begun: false }
    }

    /// The bytes so far; none if the store has none of this file. An entry of another file is removed.
    pub(crate) fn read(&mut self) -> Vec<u8> {
        let whose = self.sha256.to_string();
        let mut entry = self.store.get(ENTRY).ok().flatten().unwrap_or_default();
        self.begun = entry.starts_with(whose.as_bytes());
        if self.begun {
            entry.drain(..whose.len());
            return entry;
        }
        if !entry.is_empty() {
            let _ = self.store.remove(ENTRY);
        }
        Vec::new()
    }

    /// Adds bytes that have arrived. After an error the entry is removed, because its end is unknown.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let appended = self.begin().and_then(|()| self.store.append(ENTRY, bytes));
        appended.inspect_err(|_| drop(self.remove()))
    }

    fn begin(&mut self) -> Result<(), StoreError> {
        if !self.begun {
            self.store.put(ENTRY, self.sha256.to_string().as_bytes(), Durability::Process)?;
            self.begun = true;
        }
        Ok(())
    }

    /// Removes the entry: the download is complete, or starts again.
    pub(crate) fn remove(&mut self) -> Result<(), StoreError> {
        self.begun = false;
        self.store.remove(ENTRY)
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::MemoryStore;
    use super::*;

    #[test]
    fn what_arrived_of_a_file_is_there_for_that_file_only() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let open = |file: &[u8]| {
            let mut partial = Partial::new(Arc::clone(&store), Sha256Hash::of(file));
            let bytes = partial.read();
            (partial, bytes)
        };
        assert!(open(b"one").1.is_empty());
        open(b"one").0.append(b"ab").unwrap();
        open(b"one").0.append(b"c").unwrap();
        assert_eq!(open(b"one").1, b"abc");
        assert!(open(b"two").1.is_empty(), "the bytes belong to another file");
        assert!(open(b"one").1.is_empty(), "they were removed");
        open(b"two").0.append(b"d").unwrap();
        assert_eq!(open(b"two").1, b"d");
        open(b"two").0.remove().unwrap();
        assert!(open(b"two").1.is_empty());
    }

    #[test]
    fn a_download_that_starts_again_begins_with_its_hash_again() {
        let mut partial = Partial::new(Arc::new(MemoryStore::new()), Sha256Hash::of(b"one"));
        partial.append(b"wrong").unwrap();
        partial.remove().unwrap();
        partial.append(b"right").unwrap();
        assert_eq!(partial.read(), b"right");
    }
}
