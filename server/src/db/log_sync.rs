//! One sync of SQLite's write-ahead log for all transactions that wait for it.
//!
//! A commit writes its pages to the log and does not sync it, so the writer is free for the next transaction at once.
//! The commit is acknowledged after a sync of the log that began later. Transactions that commit while a sync runs
//! share the next one: with n clients at a time, a disk does 1 / n of the syncs. The log has one order, so nobody's
//! acknowledged commit depends on one that a power failure could undo.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Mutex;

/// Syncs of one file, shared by those who wait.
#[derive(Debug)]
pub struct LogSync {
    /// SQLite keeps this file for as long as a connection is open, also when a checkpoint empties it.
    log: Arc<File>,
    /// How many syncs have begun.
    begun: AtomicU64,
    /// The last sync that ended well. Its lock is held while a sync runs.
    ended: Mutex<u64>,
}

impl LogSync {
    /// Opens the log of a database that was written since it was opened. SQLite puts it beside the file that a link
    /// leads to.
    pub(super) fn of(database: &Path) -> io::Result<Self> {
        let mut path = std::fs::canonicalize(database)?.into_os_string();
        path.push("-wal");
        Ok(Self::of_file(File::options().read(true).write(true).open(path)?))
    }

    fn of_file(log: File) -> Self {
        Self { log: Arc::new(log), begun: AtomicU64::new(0), ended: Mutex::new(0) }
    }

    /// Returns when everything that was written before this call is on the disk.
    ///
    /// # Errors
    /// The disk's. Then nobody knows what is on it, and those who wait for the same sync try one of their own.
    pub(super) async fn synced(&self) -> io::Result<()> {
        // A sync that has begun may have passed what this caller wrote.
        let wanted = self.begun.load(Ordering::SeqCst) + 1;
        let mut ended = self.ended.lock().await;
        if *ended >= wanted {
            return Ok(());
        }
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let log = Arc::clone(&self.log);
        tokio::task::spawn_blocking(move || log.sync_data()).await.map_err(io::Error::other)??;
        *ended = number;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn those_who_come_during_a_sync_share_the_next_one() {
        let sync = Arc::new(LogSync::of_file(tempfile::tempfile().unwrap()));
        // A sync that has begun and does not end: its lock is held.
        let running = sync.ended.lock().await;
        sync.begun.store(1, Ordering::SeqCst);
        let waiting: Vec<_> = (0..10)
            .map(|_| {
                let sync = Arc::clone(&sync);
                tokio::spawn(async move { sync.synced().await })
            })
            .collect();
        // One thread runs them all, each up to the lock.
        tokio::task::yield_now().await;
        drop(running);
        for synced in waiting {
            synced.await.unwrap().unwrap();
        }
        assert_eq!(sync.begun.load(Ordering::SeqCst), 2, "one sync for ten");
        sync.synced().await.unwrap();
        assert_eq!(sync.begun.load(Ordering::SeqCst), 3, "a later commit needs a later sync");
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn the_log_of_a_database_behind_a_link_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file.db"), folder.path().join("link.db"));
        crate::db::Db::open(file.to_str().unwrap()).await.unwrap().close().await;
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let db = crate::db::Db::open(link.to_str().unwrap()).await.unwrap();
        db.begin().await.unwrap().commit().await.unwrap();
        db.close().await;
    }

    #[tokio::test]
    async fn a_sync_that_fails_is_not_shared() {
        // A pipe cannot be synced.
        let (reader, _writer) = std::io::pipe().unwrap();
        let sync = LogSync::of_file(File::from(std::os::fd::OwnedFd::from(reader)));
        for _ in 0..2 {
            let synced = tokio::time::timeout(Duration::from_secs(60), sync.synced()).await.unwrap();
            assert!(synced.is_err());
        }
        assert_eq!(*sync.ended.lock().await, 0);
        assert_eq!(sync.begun.load(Ordering::SeqCst), 2, "each tries its own");
    }
}
