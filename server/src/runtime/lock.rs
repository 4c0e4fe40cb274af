//! Locks that stay usable after a panic.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Locks a mutex even if a thread panicked that held it.
///
/// Poisoning warns of a value that a panic left half changed. The coordinator changes what it locks after all that may
/// panic, so such a value is never seen. And a request that panicked must not take later ones with it.
pub(crate) trait Locked<T> {
    /// Waits for the lock.
    fn locked(&self) -> MutexGuard<'_, T>;
}

impl<T> Locked<T> for Mutex<T> {
    fn locked(&self) -> MutexGuard<'_, T> {
        self.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// [`Locked`], for locks that several threads hold to read.
pub(crate) trait SharedLock<T> {
    /// Waits until no thread writes.
    fn reading(&self) -> RwLockReadGuard<'_, T>;
    /// Waits until no other thread has the lock.
    fn writing(&self) -> RwLockWriteGuard<'_, T>;
}

impl<T> SharedLock<T> for RwLock<T> {
    fn reading(&self) -> RwLockReadGuard<'_, T> {
        self.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn writing(&self) -> RwLockWriteGuard<'_, T> {
        self.write().unwrap_or_else(PoisonError::into_inner)
    }
}
