//! What every store promises.

use std::fmt::Debug;

/// Named entries of bytes that outlive the process.
///
/// The SDK uses a handful of entries. Their names consist of ASCII letters, digits, `.` and `-`. Entries hold up to a
/// model (4 bytes per parameter), so an implementation should not copy them without need. One client uses a store at a
/// time.
pub trait Store: Debug + Send + Sync {
    /// Reads an entry; `None` if it does not exist.
    ///
    /// # Errors
    /// [`StoreError`] if the entry exists and cannot be read.
    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Creates or replaces an entry atomically: a process that is killed leaves the old entry or the new one.
    ///
    /// # Errors
    /// [`StoreError`]; the old entry is then unchanged.
    fn put(&self, name: &str, value: &[u8], durability: Durability) -> Result<(), StoreError>;

    /// Adds bytes at the end of an entry, which it creates if necessary. Not atomic.
    ///
    /// # Errors
    /// [`StoreError`]; some of the bytes may then have been added.
    fn append(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError>;

    /// Gives an entry another name atomically and replaces the entry of that name. Returns `false`, without any change,
    /// if there is no entry `from`.
    ///
    /// # Errors
    /// [`StoreError`]; both entries are then unchanged.
    fn rename(&self, from: &str, to: &str) -> Result<bool, StoreError>;

    /// Removes an entry. An entry that does not exist is no error.
    ///
    /// # Errors
    /// [`StoreError`] if the entry still exists.
    fn remove(&self, name: &str) -> Result<(), StoreError>;

    /// The names of all entries, in any order.
    ///
    /// # Errors
    /// [`StoreError`] if they cannot be listed.
    fn names(&self) -> Result<Vec<String>, StoreError>;

    /// Where an entry is, for error messages: a path, for example.
    fn place(&self, name: &str) -> String;
}

/// What an entry survives once [`Store::put`] has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The end of the process. Costs no wait for the disk.
    Process,
    /// A power failure as well, where the device can promise that.
    Power,
}

/// An entry cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {source}")]
pub struct StoreError {
    /// The entry, as [`Store::place`] describes it.
    pub place: String,
    /// The operating system's error.
    pub source: std::io::Error,
}
