//! One file per entry in a directory.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::claim::{self, Claim};
use super::contract::{Durability, Store, StoreError};
use crate::locked::Locked;

/// Keeps each entry in a file of its name. The directory is created with the first entry.
///
/// A put writes a temporary file in the same directory and renames it.
///
/// From its first entry on, the directory is this process's: another process that uses it would be the same client
/// without knowing of it, so its calls fail. The end of the process, or of the last store of the directory, frees it.
#[derive(Clone, Debug)]
pub struct FileStore {
    directory: PathBuf,
    /// Taken with the first entry that is read or written.
    claim: Arc<Mutex<Option<Claim>>>,
}

impl FileStore {
    /// A store in this directory. Nothing is read or written yet.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), claim: Arc::default() }
    }

    /// Makes the directory, if it exists, this process's.
    fn claim(&self) -> io::Result<()> {
        let mut claim = self.claim.locked();
        if claim.is_none() && self.directory.is_dir() {
            *claim = Some(Claim::of(&self.directory)?);
        }
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Runs a file operation; its error gets the entry's path.
    fn at<T>(&self, name: &str, operation: impl FnOnce(&Path) -> io::Result<T>) -> Result<T, StoreError> {
        let result = self.claim().and_then(|()| operation(&self.path(name)));
        result.map_err(|source| StoreError { place: self.place(name), source })
    }

    fn create(&self) -> io::Result<()> {
        fs::create_dir_all(&self.directory)?;
        self.claim()
    }

    fn replace(&self, path: &Path, value: &[u8], durability: Durability) -> io::Result<()> {
        self.create()?;
        let mut file = tempfile::NamedTempFile::new_in(&self.directory)?;
        file.write_all(value)?;
        let file = file.persist(path).map_err(|error| error.error)?;
        if durability == Durability::Power {
            file.sync_all()?;
            // The directory holds the name. Where directories cannot be opened (Windows), the file system syncs it
            // itself.
            if cfg!(unix) {
                fs::File::open(&self.directory)?.sync_all()?;
            }
        }
        Ok(())
    }
}

impl Store for FileStore {
    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.at(name, |path| found(fs::read(path)))
    }

    fn put(&self, name: &str, value: &[u8], durability: Durability) -> Result<(), StoreError> {
        self.at(name, |path| self.replace(path, value, durability))
    }

    fn append(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.at(name, |path| {
            self.create()?;
            fs::OpenOptions::new().create(true).append(true).open(path)?.write_all(bytes)
        })
    }

    fn rename(&self, from: &str, to: &str) -> Result<bool, StoreError> {
        self.at(to, |path| Ok(found(fs::rename(self.path(from), path))?.is_some()))
    }

    fn remove(&self, name: &str) -> Result<(), StoreError> {
        self.at(name, |path| found(fs::remove_file(path)).map(drop))
    }

    fn names(&self) -> Result<Vec<String>, StoreError> {
        self.at("", |directory| {
            let Some(files) = found(fs::read_dir(directory))? else { return Ok(Vec::new()) };
            let names = files.map(|file| Ok(file?.file_name().to_string_lossy().into_owned()));
            names.filter(|name| !matches!(name, Ok(name) if name == claim::NAME)).collect()
        })
    }

    fn place(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }
}

/// A file that does not exist is an answer, not an error.
fn found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_created_with_the_first_entry() {
        let directory = tempfile::tempdir().unwrap();
        for (number, first) in [FileStore::put_plain, FileStore::append].into_iter().enumerate() {
            let deep = directory.path().join(number.to_string()).join("state");
            let store = FileStore::new(&deep);
            assert_eq!(store.get("a").unwrap(), None);
            assert!(!deep.exists());
            first(&store, "a", b"x").unwrap();
            assert_eq!(fs::read(deep.join("a")).unwrap(), b"x");
        }
    }

    #[test]
    fn names_are_those_of_entries_and_of_puts_that_were_cut_off() {
        let directory = tempfile::tempdir().unwrap();
        let store = FileStore::new(directory.path().join("state"));
        assert_eq!(store.names().unwrap(), Vec::<String>::new());
        store.put_plain("a", b"x").unwrap();
        store.append("b.partial", b"x").unwrap();
        let mut names = store.names().unwrap();
        names.sort();
        assert_eq!(names, ["a", "b.partial"]);
    }

    #[test]
    fn a_put_leaves_no_other_file() {
        let directory = tempfile::tempdir().unwrap();
        let store = FileStore::new(directory.path());
        store.put("a", b"old", Durability::Process).unwrap();
        store.put("a", b"new", Durability::Power).unwrap();
        let names = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(names.collect::<std::collections::BTreeSet<_>>(), ["a".into(), "lock".into()].into());
    }

    #[test]
    fn an_entry_in_a_directory_of_another_process_is_neither_read_nor_written() {
        let directory = tempfile::tempdir().unwrap();
        let other = fs::File::create(directory.path().join("lock")).unwrap();
        other.try_lock().unwrap();
        let store = FileStore::new(directory.path());
        let read = store.get("a").unwrap_err();
        let written = store.put_plain("a", b"x").unwrap_err();
        for error in [read, written] {
            assert_eq!(error.source.kind(), ErrorKind::ResourceBusy, "{error}");
        }
        drop(other);
        store.put_plain("a", b"x").unwrap();
    }

    #[test]
    fn an_error_names_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, b"").unwrap();
        let error = FileStore::new(file.join("state")).put_plain("model", b"x").expect_err("a file is no directory");
        assert!(error.to_string().starts_with(&file.join("state/model").display().to_string()), "{error}");
    }

    impl FileStore {
        fn put_plain(&self, name: &str, value: &[u8]) -> Result<(), StoreError> {
            self.put(name, value, Durability::Process)
        }
    }
}
