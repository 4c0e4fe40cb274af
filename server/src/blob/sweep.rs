//! Deletes orphans and the chunks of obsolete bodies. An orphan is an object that no row refers to, because a crash or
//! a refusal came between the object and its transaction, or because a deletion failed.

use std::time::Duration;

use super::{BlobError, Blobs, Store};
use tokio_util::sync::CancellationToken;

use crate::db::{Db, StagedRow};
use crate::runtime::clock::Clock;

/// Age in milliseconds from which an object that no row refers to is an orphan. A younger object may belong to an
/// upload that has not reached its transaction, which takes an hour at most ([`super::Staged::settle`]). The rest
/// allows for clocks that differ.
pub const ORPHAN_AGE_MS: i64 = 24 * 60 * 60 * 1_000;

const SWEEP_EVERY_MS: i64 = 60 * 60 * 1_000;

/// Objects that one transaction checks.
const SWEEP_PAGE_OBJECTS: usize = 500;

/// Chunks that one transaction deletes, in the database and elsewhere, and bodies that one query returns.
const CHUNKS_AT_ONCE: u64 = 16;
const OBJECTS_AT_ONCE: u64 = 512;
const BODIES_AT_ONCE: u32 = 64;

/// Longest time that the end of a round spends on deleting chunks. The job's next round waits for it.
const CLEAR_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Number of objects in the store.
    pub objects: u64,
    /// Number of deleted orphans.
    pub orphans: u64,
}

pub fn is_orphan(age_ms: i64, is_referred_to: bool) -> bool {
    age_ms > ORPHAN_AGE_MS && !is_referred_to
}

/// Sweeps at once and then every hour until the coordinator stops. Several coordinators may sweep at the same time.
pub async fn run(blobs: &Blobs, db: &Db, clock: &Clock, stopping: &CancellationToken) {
    let Blobs::Store(store) = blobs else { return };
    loop {
        let now_ms = clock.now_ms();
        let swept = tokio::select! {
            () = stopping.cancelled() => return,
            swept = sweep(db, store, now_ms) => swept,
        };
        match swept {
            Ok(Swept { orphans: 0, .. }) => {}
            Ok(Swept { objects, orphans }) => {
                tracing::info!(objects, orphans, "the sweep deleted orphans from the store");
            }
            Err(error) => tracing::warn!(%error, "the sweep of the store failed; the next one tries again"),
        }
        tokio::select! {
            () = stopping.cancelled() => return,
            () = clock.sleep_until(now_ms.saturating_add(SWEEP_EVERY_MS)) => {}
        }
    }
}

/// Checks every object of this database, page by page, and deletes the orphans.
///
/// # Errors
/// [`BlobError`] when the store or the database does not answer. Orphans that were found before stay deleted.
pub async fn sweep(db: &Db, store: &Store, now_ms: i64) -> Result<Swept, BlobError> {
    let mut swept = Swept::default();
    let mut listing = store.list();
    loop {
        let page = listing.page(SWEEP_PAGE_OBJECTS).await?;
        if page.is_empty() {
            return Ok(swept);
        }
        swept.objects += page.len() as u64;
        let age_ms = |put_at_ms: i64| now_ms.saturating_sub(put_at_ms);
        // Most objects are in use or young, so the database is asked only about old ones.
        let old = page.into_iter().filter(|listed| is_orphan(age_ms(listed.put_at_ms), false));
        let mut orphans: Vec<String> = old.map(|listed| listed.object).collect();
        let known = db.look().await?.known_objects(&orphans).await?;
        orphans.retain(|object| !known.contains(object));
        swept.orphans += orphans.len() as u64;
        store.delete(orphans).await?;
    }
}

impl Blobs {
    /// Deletes the chunks of obsolete bodies, in small transactions, so that other writers need not wait long. Returns
    /// the number of bodies.
    ///
    /// # Errors
    /// [`BlobError`] when the database does not answer. The next call deletes the rest.
    pub async fn clear(&self, db: &Db) -> Result<u64, BlobError> {
        let mut cleared = 0;
        loop {
            let useless = db.look().await?.useless_staged(BODIES_AT_ONCE).await?;
            for staged in &useless {
                self.delete_staged(db, staged.clone()).await?;
            }
            cleared += useless.len() as u64;
            if useless.len() < BODIES_AT_ONCE as usize {
                return Ok(cleared);
            }
        }
    }

    async fn delete_staged(&self, db: &Db, mut staged: StagedRow) -> Result<(), BlobError> {
        let at_once = if staged.in_store { OBJECTS_AT_ONCE } else { CHUNKS_AT_ONCE };
        loop {
            // A power failure that undoes it leaves an obsolete body whose objects are missing, which is deleted again.
            let mut tx = db.begin_losable().await?;
            let (objects, done) = tx.delete_chunks(&staged, at_once).await?;
            tx.commit().await?;
            self.delete(objects).await;
            if done {
                return Ok(());
            }
            staged.bytes = staged.chunks().saturating_sub(at_once) * staged.chunk_bytes;
        }
    }

    /// Deletes an unfinished body, unless another request continues it. A later call of [`Self::clear`] deletes what
    /// remains after a failure.
    pub async fn discard_chunks(&self, db: &Db, staged: StagedRow) {
        let discarded = async {
            let mut tx = db.begin().await?;
            let discarded = tx.discard_staged(&staged.id, staged.attempt).await?;
            tx.commit().await?;
            if discarded { self.delete_staged(db, staged).await } else { Ok(()) }
        };
        if let Err(error) = discarded.await {
            tracing::warn!(%error, "an unfinished body could not be deleted; a later run deletes it");
        }
    }

    /// [`Self::clear`] at the end of a round, with a time limit. Scheduled runs delete the rest.
    pub async fn clear_some(&self, db: &Db) {
        match tokio::time::timeout(CLEAR_TIMEOUT, self.clear(db)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::warn!(%error, "obsolete bodies could not be deleted; a later run deletes them"),
            Err(_) => tracing::debug!("obsolete bodies are left; a later run deletes them"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_old_and_of_no_use_is_an_orphan() {
        let cases = [
            (ORPHAN_AGE_MS + 1, false, true),
            (ORPHAN_AGE_MS + 1, true, false),
            (ORPHAN_AGE_MS, false, false),
            (0, false, false),
            // The store's clock is ahead of ours.
            (-ORPHAN_AGE_MS, false, false),
            (i64::MAX, true, false),
        ];
        for (age_ms, is_referred_to, expected) in cases {
            assert_eq!(is_orphan(age_ms, is_referred_to), expected, "{age_ms} {is_referred_to}");
        }
    }
}
