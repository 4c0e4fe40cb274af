//! Orphans: objects that nothing refers to, because a crash or a refusal came between the object and its transaction, or
//! because a deletion failed.

use std::sync::Arc;

use super::{BlobError, Blobs, Store};
use crate::app::App;
use crate::db::Db;

/// Age from which an object that nothing refers to is an orphan, in milliseconds. Younger ones may belong to an upload
/// that has not reached its transaction; that takes an hour at most ([`super::Staged::settle`]). The rest is for clocks that
/// differ.
pub const ORPHAN_AGE_MS: i64 = 24 * 60 * 60 * 1_000;

/// Time between two sweeps in milliseconds.
const SWEEP_EVERY_MS: i64 = 60 * 60 * 1_000;

/// Objects looked at in one transaction.
const SWEEP_PAGE_OBJECTS: usize = 500;

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
pub async fn run(app: Arc<App>) {
    let Blobs::Store(store) = &app.blobs else { return };
    loop {
        let now_ms = app.clock.now_ms();
        let swept = tokio::select! {
            () = app.stopping.cancelled() => return,
            swept = sweep(&app.db, store, now_ms) => swept,
        };
        match swept {
            Ok(Swept { orphans: 0, .. }) => {}
            Ok(Swept { objects, orphans }) => tracing::info!(objects, orphans, "orphans were swept from the store"),
            Err(error) => tracing::warn!(%error, "orphans could not be swept from the store; it is tried again"),
        }
        tokio::select! {
            () = app.stopping.cancelled() => return,
            () = app.clock.sleep_until(now_ms.saturating_add(SWEEP_EVERY_MS)) => {}
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
