//! Answers that cost much and are used again for a while.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

/// Values by key, each for a limited time.
#[derive(Debug)]
pub struct Kept<K, V> {
    for_ms: i64,
    values: Mutex<HashMap<K, (i64, V)>>,
}

impl<K: Eq + Hash, V: Clone> Kept<K, V> {
    #[must_use]
    pub fn new(for_ms: i64) -> Self {
        Self { for_ms, values: Mutex::default() }
    }

    /// The value, unless it is too old.
    pub fn get(&self, key: &K, now_ms: i64) -> Option<V> {
        let values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        values.get(key).filter(|(at_ms, _)| self.is_fresh(*at_ms, now_ms)).map(|(_, value)| value.clone())
    }

    /// Keeps a value, and forgets those that are too old.
    pub fn keep(&self, key: K, value: V, now_ms: i64) {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        values.retain(|_, (at_ms, _)| self.is_fresh(*at_ms, now_ms));
        values.insert(key, (now_ms, value));
    }

    fn is_fresh(&self, at_ms: i64, now_ms: i64) -> bool {
        (0..self.for_ms).contains(&(now_ms - at_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_kept_for_its_time_and_then_forgotten() {
        let kept = Kept::new(10);
        kept.keep("a", 1, 100);
        assert_eq!([99, 100, 109, 110].map(|now_ms| kept.get(&"a", now_ms)), [None, Some(1), Some(1), None]);
        kept.keep("b", 2, 110);
        assert_eq!(kept.values.lock().unwrap().len(), 1);
    }
}
