//! The disk of a SQLite database: its free space, and how long that lasts.

use crate::app::App;
use crate::db::{DbError, Tx};
use crate::runtime::disk::free_bytes;

/// The time over which the growth is measured, in milliseconds: a day, since fleets work at night.
const GROWTH_MS: i64 = 24 * 3600 * 1000;
/// A start is no measure of a day.
const GROWTH_MS_MIN: i64 = 3600 * 1000;

/// Free space, and the time until it is used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::api) struct Disk {
    pub(in crate::api) free_bytes: Option<u64>,
    pub(in crate::api) full_in_ms: Option<u64>,
}

impl Disk {
    /// Nothing is known of the disks of PostgreSQL and of object stores.
    pub(in crate::api) async fn read(app: &App, tx: &mut Tx) -> Result<Self, DbError> {
        let Some(free_bytes) = app.db.file().and_then(|file| free_bytes(&file)) else { return Ok(Self::default()) };
        let now_ms = app.clock.now_ms();
        let window_ms = (now_ms - app.leases.started_at_ms()).clamp(GROWTH_MS_MIN, GROWTH_MS);
        let grown = tx.models_since(now_ms - window_ms).await?;
        Ok(Self { free_bytes: Some(free_bytes), full_in_ms: full_in_ms(free_bytes, grown, window_ms) })
    }
}

/// None for a disk that does not fill.
fn full_in_ms(free_bytes: u64, grown_bytes: u64, window_ms: i64) -> Option<u64> {
    let ms = u128::from(free_bytes) * u128::try_from(window_ms).ok()? / u128::from(grown_bytes).max(1);
    (grown_bytes > 0).then(|| u64::try_from(ms).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_fills_is_full_in_proportion() {
        assert_eq!(full_in_ms(30, 10, GROWTH_MS), Some(3 * GROWTH_MS as u64));
        assert_eq!(full_in_ms(30, 0, GROWTH_MS), None);
        assert_eq!(full_in_ms(0, 10, GROWTH_MS), Some(0));
        assert_eq!(full_in_ms(u64::MAX, 1, GROWTH_MS), Some(u64::MAX));
    }
}
