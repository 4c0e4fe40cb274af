//! Entries of the browser's IndexedDB.
//!
//! IndexedDB has no synchronous reads, so all entries are in memory: an identity, a model, an update. A change is
//! stored by an errand; requests wait for the changes before them.

use std::collections::BTreeMap;
use std::sync::Mutex;

use js_sys::Uint8Array;
use tributary_client::store::{Durability, StoreError};
use tributary_client::{Locked, Store};

use crate::errands::{Errand, Errands};
use crate::script::Browser;

#[derive(Debug)]
pub(crate) struct BrowserStore {
    entries: Mutex<BTreeMap<String, Vec<u8>>>,
    errands: Errands,
}

impl BrowserStore {
    /// The entries that the script has read.
    pub(crate) fn read(browser: &Browser, errands: Errands) -> Self {
        let values: Vec<_> = browser.entries().iter().collect();
        let pairs = values
            .as_chunks()
            .0
            .iter()
            .filter_map(|[name, bytes]| Some((name.as_string()?, Uint8Array::new(bytes).to_vec())));
        Self { entries: Mutex::new(pairs.collect()), errands }
    }

    fn changed(&self, name: &str, bytes: Option<Vec<u8>>) {
        self.errands.leave(Errand::Change { name: name.to_owned(), bytes });
    }
}

impl Store for BrowserStore {
    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.entries.locked().get(name).cloned())
    }

    fn put(&self, name: &str, value: &[u8], _: Durability) -> Result<(), StoreError> {
        self.entries.locked().insert(name.to_owned(), value.to_vec());
        self.changed(name, Some(value.to_vec()));
        Ok(())
    }

    fn append(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let whole = {
            let mut entries = self.entries.locked();
            let entry = entries.entry(name.to_owned()).or_default();
            entry.extend_from_slice(bytes);
            entry.clone()
        };
        self.changed(name, Some(whole));
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> Result<bool, StoreError> {
        let Some(value) = self.entries.locked().remove(from) else { return Ok(false) };
        self.entries.locked().insert(to.to_owned(), value.clone());
        // The new name first: a page that is closed between the two has the entry twice, not never.
        self.changed(to, Some(value));
        self.changed(from, None);
        Ok(true)
    }

    fn remove(&self, name: &str) -> Result<(), StoreError> {
        if self.entries.locked().remove(name).is_some() {
            self.changed(name, None);
        }
        Ok(())
    }

    fn names(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.entries.locked().keys().cloned().collect())
    }

    fn place(&self, name: &str) -> String {
        format!("entry {name:?} in the browser's database")
    }
}
