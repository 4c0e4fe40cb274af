//! Locks that stay usable after a panic.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex even if a thread panicked that held it.
///
/// Poisoning warns of a value that a panic left half changed. The SDK replaces what it locks as a whole, after all that
/// may panic, so such a value is never seen. And a client whose app panicked once goes on with its next session.
pub trait Locked<T> {
    /// Waits for the lock.
    fn locked(&self) -> MutexGuard<'_, T>;
}

impl<T> Locked<T> for Mutex<T> {
    fn locked(&self) -> MutexGuard<'_, T> {
        self.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
