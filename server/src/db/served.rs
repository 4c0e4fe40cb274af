//! The claim of one `serve` on a SQLite file.
//!
//! Two coordinators on one file would both believe that they lead every job, and neither would call the clients that
//! wait at the other. The operating system ends the claim with its process, so a crash does not block the next start.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use super::connect::sqlite_path;
use super::{Db, DbError};

/// Bytes of the note that the holder left; more is not its own.
const NOTE_BYTES_MAX: u64 = 200;

/// The claim on a database, held until it is dropped or its process ends. PostgreSQL needs none.
#[derive(Debug)]
pub struct Served {
    _lock: Option<File>,
}

/// Why a database cannot be claimed.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    #[error("{} is served by another coordinator{holder}", database.display())]
    Taken { database: PathBuf, holder: String },
    #[error("{}: there is no such directory; create it, or name another place for the database", path.display())]
    NoFolder { path: PathBuf },
    #[error("cannot lock {}: {source}", path.display())]
    Lock { path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Db(#[from] DbError),
}

impl Served {
    /// Claims a database for this process, which serves at `address`. The file `DATABASE.lock` beside the database is
    /// locked and stays there.
    ///
    /// # Errors
    /// [`ClaimError::Taken`] names the process that serves it.
    pub fn claim(database: &str, address: &str) -> Result<Self, ClaimError> {
        if Db::is_shared(database) {
            return Ok(Self { _lock: None });
        }
        // Links to one file are one database.
        let named = Path::new(sqlite_path(database)?);
        let file = std::fs::canonicalize(named).unwrap_or_else(|_| named.to_owned());
        let mut path = file.clone().into_os_string();
        path.push(".lock");
        let path = PathBuf::from(path);
        let failed = |source| ClaimError::Lock { path: path.clone(), source };
        // A mistyped path would become an empty coordinator, so no folder is made.
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists()) {
            return Err(ClaimError::NoFolder { path: folder.to_owned() });
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut lock = options.open(&path).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(ClaimError::Taken { database: file, holder: holder(&lock) }),
            // Some network file systems have no locks. Serving from one is the operator's choice.
            Err(TryLockError::Error(error)) if error.kind() == std::io::ErrorKind::Unsupported => {
                tracing::warn!(lock = %path.display(), "this file system has no locks: make sure that nothing else serves the database");
                return Ok(Self { _lock: None });
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let note = format!("process {} at {address}\n", std::process::id());
        let written = lock.set_len(0).and_then(|()| lock.rewind()).and_then(|()| lock.write_all(note.as_bytes()));
        written.map_err(failed)?;
        Ok(Self { _lock: Some(lock) })
    }
}

/// `: process 7 at 127.0.0.1:7300`, as far as the holder has said so.
fn holder(lock: &File) -> String {
    let mut note = String::new();
    let _ = lock.take(NOTE_BYTES_MAX).read_to_string(&mut note);
    match note.trim() {
        "" => String::new(),
        note => format!(": {}", tributary_protocol::text::visible(note)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_served_by_one_process_at_a_time_and_by_the_next_one_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("a.db").display().to_string();
        let first = Served::claim(&database, "127.0.0.1:1").unwrap();
        let refused = Served::claim(&format!("sqlite:{database}"), "127.0.0.1:2").unwrap_err().to_string();
        let holder = format!("process {} at 127.0.0.1:1", std::process::id());
        assert!(refused.contains("a.db is served by another coordinator") && refused.ends_with(&holder), "{refused}");
        assert!(Served::claim(&folder.path().join("b.db").display().to_string(), "").is_ok(), "another file");
        drop(first);
        assert!(folder.path().join("a.db.lock").exists(), "a note of the last holder blocks nobody");
        Served::claim(&database, "127.0.0.1:3").unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_the_file_that_it_names() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link] = ["a.db", "link.db"].map(|name| folder.path().join(name));
        std::fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let _first = Served::claim(&file.display().to_string(), "").unwrap();
        assert!(matches!(Served::claim(&link.display().to_string(), ""), Err(ClaimError::Taken { .. })));
    }

    #[test]
    fn a_folder_that_is_missing_is_named_and_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing");
        let refused = Served::claim(&missing.join("a.db").display().to_string(), "").unwrap_err().to_string();
        assert!(refused.starts_with(&format!("{}: there is no such directory", missing.display())), "{refused}");
        assert!(!missing.exists());
    }

    #[test]
    fn postgresql_may_be_shared() {
        Served::claim("postgres://a@b/c", "").unwrap();
        Served::claim("postgres://a@b/c", "").unwrap();
    }
}
