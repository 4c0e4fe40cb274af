//! Answers that cost much and are used again for a while.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Mutex;

use tokio::sync::Mutex as Turn;

use super::clock::Clock;
use super::lock::Locked;

/// Values by key, each for a limited time.
#[derive(Debug)]
pub struct Kept<K, V> {
    for_ms: i64,
    values: Mutex<HashMap<K, (i64, V)>>,
    making: Turn<()>,
}

impl<K: Eq + Hash, V: Clone> Kept<K, V> {
    pub fn new(for_ms: i64) -> Self {
        Self { for_ms, values: Mutex::default(), making: Turn::new(()) }
    }

    /// The value, unless it is too old.
    pub fn get(&self, key: &K, now_ms: i64) -> Option<V> {
        let values = self.values.locked();
        values.get(key).filter(|(at_ms, _)| self.is_fresh(*at_ms, now_ms)).map(|(_, value)| value.clone())
    }

    /// Keeps a value, and forgets those that are too old.
    pub fn keep(&self, key: K, value: V, now_ms: i64) {
        let mut values = self.values.locked();
        values.retain(|_, (at_ms, _)| self.is_fresh(*at_ms, now_ms));
        values.insert(key, (now_ms, value));
    }

    /// Forgets the value.
    pub fn forget(&self, key: &K) {
        self.values.locked().remove(key);
    }

    /// The value, which `make` makes where there is none or it is too old. One caller makes values at a time, and those
    /// who wait for it meanwhile share the answer, so that any number of callers costs one `make` per time.
    ///
    /// # Errors
    /// Those of `make`. They are not kept.
    pub async fn get_or_make<E>(
        &self,
        key: K,
        clock: &Clock,
        make: impl AsyncFnOnce() -> Result<V, E>,
    ) -> Result<V, E> {
        if let Some(value) = self.get(&key, clock.now_ms()) {
            return Ok(value);
        }
        let _turn = self.making.lock().await;
        if let Some(value) = self.get(&key, clock.now_ms()) {
            return Ok(value);
        }
        let value = make().await?;
        self.keep(key, value.clone(), clock.now_ms());
        Ok(value)
    }

    fn is_fresh(&self, at_ms: i64, now_ms: i64) -> bool {
        (0..self.for_ms).contains(&(now_ms - at_ms))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use super::*;

    #[test]
    fn a_value_is_kept_for_its_time_and_then_forgotten() {
        let kept = Kept::new(10);
        kept.keep("a", 1, 100);
        assert_eq!([99, 100, 109, 110].map(|now_ms| kept.get(&"a", now_ms)), [None, Some(1), Some(1), None]);
        kept.keep("b", 2, 110);
        assert_eq!(kept.values.lock().unwrap().len(), 1);
        kept.forget(&"b");
        assert_eq!(kept.get(&"b", 110), None);
    }

    #[tokio::test]
    async fn many_callers_share_one_answer_and_an_error_is_not_kept() {
        let (kept, (clock, _)) = (Kept::new(10), Clock::manual(100));
        let made = AtomicU32::new(0);
        let make = || {
            kept.get_or_make("a", &clock, async || {
                let number = made.fetch_add(1, Relaxed);
                tokio::task::yield_now().await;
                if number == 0 { Err("the first one fails") } else { Ok(number) }
            })
        };
        let (failed, first, second) = tokio::join!(make(), make(), make());
        assert_eq!((failed, first, second), (Err("the first one fails"), Ok(1), Ok(1)));
    }
}
