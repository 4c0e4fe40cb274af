//! A file to which the chunks of one body are appended: one file to create, sync and delete instead of one per chunk.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::runtime::offload::blocking;

/// How often a folder is created that a deletion beside it removes, because it was empty.
const FOLDER_ATTEMPTS: u32 = 8;

/// A file of one writer. Nothing that was appended changes, so a reader needs no lock.
#[derive(Debug)]
pub(super) struct Appended {
    key: String,
    /// None while a thread writes, and after that was cancelled.
    file: Option<File>,
    bytes: u64,
}

impl Appended {
    /// Creates the file of this key in a folder.
    pub(super) async fn create(folder: &Path, key: String) -> io::Result<Self> {
        let path = folder.join(&key);
        let file = blocking(move || create(&path)).await?;
        Ok(Self { key, file: Some(file), bytes: 0 })
    }

    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// Appends a chunk. Returns where it begins.
    pub(super) async fn append(&mut self, chunk: Bytes) -> io::Result<u64> {
        let begins = self.bytes;
        let cancelled = || io::Error::other("an earlier chunk was not written to its end");
        let mut file = self.file.take().ok_or_else(cancelled)?;
        let length = chunk.len() as u64;
        let (file, written) = blocking(move || {
            // A chunk that failed may have been written partly.
            let written = file.seek(SeekFrom::Start(begins)).and_then(|_| file.write_all(&chunk));
            (file, written)
        })
        .await;
        self.file = Some(file);
        written?;
        self.bytes += length;
        Ok(begins)
    }
}

fn create(path: &PathBuf) -> io::Result<File> {
    let folder = path.parent().unwrap_or(path);
    let mut created = Err(io::ErrorKind::NotFound.into());
    for _ in 0..FOLDER_ATTEMPTS {
        std::fs::create_dir_all(folder)?;
        created = File::create_new(path);
        if !matches!(&created, Err(error) if error.kind() == io::ErrorKind::NotFound) {
            break;
        }
    }
    created
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn parts_lie_one_after_the_other_and_a_file_has_one_writer() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = Appended::create(folder.path(), "a/b".into()).await.unwrap();
        assert_eq!(file.append(Bytes::from_static(b"abc")).await.unwrap(), 0);
        assert_eq!(file.append(Bytes::from_static(b"de")).await.unwrap(), 3);
        assert_eq!(std::fs::read(folder.path().join("a/b")).unwrap(), b"abcde");
        let second = Appended::create(folder.path(), "a/b".into()).await;
        assert_eq!(second.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_part_that_does_not_fit_on_the_disk_is_an_error_and_the_next_one_takes_its_place() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut file = Appended { key: "a".into(), file: Some(full), bytes: 7 };
        let error = file.append(Bytes::from_static(b"abc")).await.unwrap_err();
        assert_eq!((error.kind(), file.bytes), (io::ErrorKind::StorageFull, 7));
    }
}
