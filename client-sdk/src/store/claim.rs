//! The claim of a process to a directory: two processes in one directory would be one client.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Arc, Mutex, Weak};

use crate::locked::Locked;

/// The file that is locked. It holds the number of the process.
pub(super) const NAME: &str = "lock";

/// Claims of this process by its number and directory: its stores share one. A forked child has another number, and
/// with it none of the claims that it inherits.
static CLAIMS: Mutex<BTreeMap<(u32, PathBuf), Weak<File>>> = Mutex::new(BTreeMap::new());

/// A lock of the system, which ends with the last copy of this, or with the process.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    /// Held open; `None` where the file system has no locks.
    _file: Option<Arc<File>>,
}

impl Claim {
    /// # Errors
    /// [`ErrorKind::ResourceBusy`] if another process has the directory, or what the file system reports.
    pub(super) fn of(directory: &Path) -> io::Result<Self> {
        let key = (process::id(), fs::canonicalize(directory)?);
        let mut claims = CLAIMS.locked();
        if let Some(file) = claims.get(&key).and_then(Weak::upgrade) {
            return Ok(Self { _file: Some(file) });
        }
        let path = key.1.join(NAME);
        let mut file = File::options().create(true).truncate(false).read(true).write(true).open(&path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(taken(&path)),
            // Some network file systems have none.
            Err(TryLockError::Error(error)) => {
                tracing::debug!(%error, path = %path.display(), "this folder cannot be locked");
                return Ok(Self { _file: None });
            }
        }
        file.set_len(0)?;
        file.write_all(process::id().to_string().as_bytes())?;
        let file = Arc::new(file);
        claims.retain(|_, claim| claim.strong_count() > 0);
        claims.insert(key, Arc::downgrade(&file));
        Ok(Self { _file: Some(file) })
    }
}

fn taken(path: &Path) -> io::Error {
    // Windows lets nobody read a locked file.
    let process = fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<u32>().ok());
    let process = process.map_or_else(|| "another process".to_owned(), |process| format!("process {process}"));
    io::Error::new(ErrorKind::ResourceBusy, format!("this folder is used by {process}; each client needs its own"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lock that the claims of this process do not know is like that of another process.
    #[test]
    fn a_directory_of_another_process_is_refused_with_its_number_until_it_ends() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(NAME), "4711").unwrap();
        let other = File::options().read(true).write(true).open(directory.path().join(NAME)).unwrap();
        other.try_lock().unwrap();
        let error = Claim::of(directory.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ResourceBusy);
        assert!(error.to_string().contains("used by process 4711"), "{error}");
        drop(other);

        let (first, second) = (Claim::of(directory.path()).unwrap(), Claim::of(directory.path()).unwrap());
        assert_eq!(fs::read_to_string(directory.path().join(NAME)).unwrap(), process::id().to_string());
        let other = File::open(directory.path().join(NAME)).unwrap();
        drop(first);
        assert!(matches!(other.try_lock(), Err(TryLockError::WouldBlock)), "the second has it");
        drop(second);
        other.try_lock().unwrap();
    }
}
