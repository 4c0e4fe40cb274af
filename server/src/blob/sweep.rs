//! Orphans: objects that nothing refers to, because a crash or a refusal came between the object and its transaction,
//! or because a deletion failed. And bodies in parts that are of no more use.

use std::time::Duration;

use super::{BlobError, Blobs, Store};
use tokio_util::sync::CancellationToken;

use crate::db::{Db, StagedRow};
use crate::runtime::clock::Clock;

/// Age from which an object that nothing refers to is an orphan, in milliseconds. Younger ones may belong to an upload
/// that has not reached its transaction; that takes an hour at most ([`super::Staged::settle`]). The rest is for clocks
/// that differ.
pub const ORPHAN_AGE_MS: i64 = 24 * 60 * 60 * 1_000;

/// Time between two sweeps in milliseconds.
const SWEEP_EVERY_MS: i64 = 60 * 60 * 1_000;

/// Objects looked at in one transaction.
const SWEEP_PAGE_OBJECTS: usize = 500;

/// Parts deleted in one transaction, and bodies looked at at once.
const PARTS_AT_ONCE: u64 = 16;
const BODIES_AT_ONCE: u32 = 64;

/// Longest time that the end of a round deletes bodies in parts. A driver has other jobs.
const CLEAR_TIMEOUT: Duration = Duration::from_secs(5);

/// What a sweep found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Objects in the store.
    pub objects: u64,
    /// Orphans, which were deleted.
    pub orphans: u64,
}

/// Whether an object may be deleted.
#[must_use]
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
            Ok(Swept { objects, orphans }) => tracing::info!(objects, orphans, "orphans were swept from the store"),
            Err(error) => tracing::warn!(%error, "orphans could not be swept from the store; it is tried again"),
        }
        tokio::select! {
            () = stopping.cancelled() => return,
            () = clock.sleep_until(now_ms.saturating_add(SWEEP_EVERY_MS)) => {}
        }
    }
}

/// Looks at every object of this database, page by page, and deletes the orphans.
///
/// # Errors
/// [`BlobError`] when store or database do not answer. Orphans found before stay deleted.
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
        // Most objects are in use or young: the database is asked only about those that could be orphans.
        let old = page.into_iter().filter(|listed| is_orphan(age_ms(listed.put_at_ms), false));
        let mut orphans = Vec::new();
        let mut tx = db.read().await?;
        for listed in old {
            if is_orphan(age_ms(listed.put_at_ms), tx.knows_object(&listed.object).await?) {
                orphans.push(listed.object);
            }
        }
        drop(tx);
        swept.orphans += orphans.len() as u64;
        store.delete(orphans).await?;
    }
}

impl Blobs {
    /// Deletes bodies in parts that are of no more use, in small transactions, so that nobody waits for it. Returns how
    /// many those were.
    ///
    /// # Errors
    /// [`BlobError`] when the database does not answer. What is left is deleted by the next call.
    pub async fn clear(&self, db: &Db) -> Result<u64, BlobError> {
        let mut cleared = 0;
        loop {
            let useless = db.read().await?.useless_staged(BODIES_AT_ONCE).await?;
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
        loop {
            let mut tx = db.begin().await?;
            let (objects, done) = tx.delete_parts(&staged, PARTS_AT_ONCE).await?;
            tx.commit().await?;
            self.delete(objects).await;
            if done {
                return Ok(());
            }
            staged.bytes = staged.parts().saturating_sub(PARTS_AT_ONCE) * staged.part_bytes;
        }
    }

    /// Gives up an unfinished body, if nobody else goes on with it. What cannot be deleted now is deleted later.
    pub async fn discard_parts(&self, db: &Db, staged: StagedRow) {
        let discarded = async {
            let mut tx = db.begin().await?;
            let discarded = tx.discard_staged(&staged.id, staged.attempt).await?;
            tx.commit().await?;
            if discarded { self.delete_staged(db, staged).await } else { Ok(()) }
        };
        if let Err(error) = discarded.await {
            tracing::warn!(%error, "an unfinished body could not be deleted; that is done later");
        }
    }

    /// [`Self::clear`] at the end of a round, for a while; the rest is done by the clock.
    pub async fn clear_some(&self, db: &Db) {
        match tokio::time::timeout(CLEAR_TIMEOUT, self.clear(db)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::warn!(%error, "bodies of no more use could not be deleted; that is done later"),
            Err(_) => tracing::debug!("bodies of no more use are left; they are deleted later"),
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
