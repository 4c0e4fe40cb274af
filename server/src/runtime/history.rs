//! The last values of something that is measured now and then.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// At most so many values, oldest first.
#[derive(Debug)]
pub struct History<T> {
    values_max: usize,
    values: Mutex<VecDeque<T>>,
}

impl<T: Clone> History<T> {
    #[must_use]
    pub fn new(values_max: usize) -> Self {
        Self { values_max, values: Mutex::default() }
    }

    pub fn push(&self, value: T) {
        let mut values = self.lock();
        if values.len() == self.values_max {
            values.pop_front();
        }
        values.push_back(value);
    }

    #[must_use]
    pub fn values(&self) -> Vec<T> {
        self.lock().iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<T>> {
        // No code that can panic runs under the lock.
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_value_makes_room() {
        let history = History::new(3);
        (0..5).for_each(|value| history.push(value));
        assert_eq!(history.values(), [2, 3, 4]);
    }
}
