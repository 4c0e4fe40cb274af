//! Entries in memory.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::contract::{Durability, Store, StoreError};
use crate::locked::Locked;

/// Keeps entries for as long as the store itself exists, which may be longer than a [`Client`](crate::Client) of it:
/// tests and simulations give the store of a client that "was killed" to its successor.
#[derive(Debug, Default)]
pub struct MemoryStore {
    entries: Mutex<BTreeMap<String, Vec<u8>>>,
}

impl MemoryStore {
    /// A store without entries.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Store for MemoryStore {
    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.entries.locked().get(name).cloned())
    }

    fn put(&self, name: &str, value: &[u8], _: Durability) -> Result<(), StoreError> {
        self.entries.locked().insert(name.to_owned(), value.to_vec());
        Ok(())
    }

    fn append(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.entries.locked().entry(name.to_owned()).or_default().extend_from_slice(bytes);
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> Result<bool, StoreError> {
        let mut entries = self.entries.locked();
        let Some(value) = entries.remove(from) else { return Ok(false) };
        entries.insert(to.to_owned(), value);
        Ok(true)
    }

    fn remove(&self, name: &str) -> Result<(), StoreError> {
        self.entries.locked().remove(name);
        Ok(())
    }

    fn names(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.entries.locked().keys().cloned().collect())
    }

    fn place(&self, name: &str) -> String {
        format!("entry {name:?} in memory")
    }
}
