//! Which file a SQLite database is in.

use std::io;
use std::path::{Path, PathBuf};

use super::DbError;

/// The file that was opened. If it is deleted or another one takes its name, SQLite goes on writing into a file that
/// nobody can find again, and new connections read the other one.
#[derive(Debug)]
pub struct DbFile {
    path: PathBuf,
    identity: Option<Identity>,
}

/// Device and inode.
type Identity = (u64, u64);

impl DbFile {
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), identity: identity(path)? })
    }

    /// Checks that the name still leads to the file that was opened.
    ///
    /// # Errors
    /// [`DbError::Replaced`] when it does not.
    pub(super) fn check(&self) -> Result<(), DbError> {
        match identity(&self.path) {
            Ok(now) if now == self.identity => Ok(()),
            _ => Err(DbError::Replaced { path: self.path.display().to_string() }),
        }
    }
}

#[cfg(unix)]
fn identity(path: &Path) -> io::Result<Option<Identity>> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).map(|metadata| Some((metadata.dev(), metadata.ino())))
}

/// Elsewhere the system keeps an open file from being deleted.
#[cfg(not(unix))]
fn identity(_: &Path) -> io::Result<Option<Identity>> {
    Ok(None)
}
