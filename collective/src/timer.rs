//! The caller's time.

use std::pin::Pin;

/// Waits for the ring, which has no clock of its own.
pub trait Timer: Sync {
    /// Ends after so many milliseconds.
    fn sleep(&self, ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}
