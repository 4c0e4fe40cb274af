//! How many of something each caller holds now.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::runtime::lock::Locked;

/// What each caller holds, and the most that one may hold.
#[derive(Debug)]
pub(super) struct Shares<K: Ord> {
    max: usize,
    held: Mutex<BTreeMap<K, usize>>,
}

/// One of the things that a caller holds; dropping it gives it back.
#[derive(Debug)]
pub struct Held<K: Ord>(Option<(Arc<Shares<K>>, K)>);

impl<K: Ord + Clone> Shares<K> {
    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, held: Mutex::default() })
    }

    /// One more for this caller, unless it holds the most already.
    pub(super) fn take(self: &Arc<Self>, caller: K) -> Option<Held<K>> {
        let mut held = self.held.locked();
        let count = held.get(&caller).copied().unwrap_or(0);
        if count >= self.max {
            return None;
        }
        held.insert(caller.clone(), count + 1);
        Some(Held(Some((Arc::clone(self), caller))))
    }
}

impl<K: Ord> Held<K> {
    /// One of a caller who is exempt.
    pub(super) fn uncounted() -> Self {
        Self(None)
    }
}

impl<K: Ord> Drop for Held<K> {
    fn drop(&mut self) {
        let Some((shares, caller)) = &self.0 else { return };
        let mut held = shares.held.locked();
        match held.get_mut(caller) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(held.remove(caller)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_caller_takes_no_more_than_its_share_and_none_of_the_others() {
        let shares = Shares::new(2);
        let [first, second] = ["a", "a"].map(|caller| shares.take(caller));
        assert!(first.is_some() && second.is_some());
        assert!(shares.take("a").is_none());
        let other = shares.take("b");
        assert!(other.is_some());
        drop(first);
        assert!(shares.take("a").is_some());
        drop((second, other));
        assert!(shares.held.locked().is_empty(), "nothing is kept of callers that hold nothing");
    }
}
