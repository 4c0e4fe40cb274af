//! Sizes of populations, read from the database at most once a second each.
//!
//! Each answer without work depends on them, and a second changes little in a delay of minutes.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tributary_protocol::id::Name;

/// How long a size is believed.
const FRESH_MS: i64 = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Enrolled clients.
    pub clients: u64,
    /// Clients that the running jobs draw together when each opens a round; 0 where nothing depends on it.
    pub places: u64,
}

#[derive(Debug, Default)]
pub struct Sizes {
    populations: Mutex<HashMap<Name, (i64, Size)>>,
}

impl Sizes {
    /// The size of a population, if it was read within the last second.
    #[must_use]
    pub fn lately(&self, population: &Name, now_ms: i64) -> Option<Size> {
        let populations = self.populations.lock().unwrap_or_else(PoisonError::into_inner);
        let (at_ms, size) = populations.get(population)?;
        (0..FRESH_MS).contains(&(now_ms - at_ms)).then_some(*size)
    }

    pub fn remember(&self, population: &Name, size: Size, now_ms: i64) {
        let mut populations = self.populations.lock().unwrap_or_else(PoisonError::into_inner);
        match populations.get_mut(population) {
            Some(known) => *known = (now_ms, size),
            None => drop(populations.insert(population.clone(), (now_ms, size))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_believed_for_a_second_unless_the_clock_is_set_back() {
        let (sizes, population, size) = (Sizes::default(), "p".parse().unwrap(), Size { clients: 8, places: 0 });
        assert_eq!(sizes.lately(&population, 5_000), None);
        sizes.remember(&population, size, 5_000);
        assert_eq!(sizes.lately(&population, 5_999), Some(size));
        assert_eq!(sizes.lately(&population, 6_000), None);
        assert_eq!(sizes.lately(&population, 4_999), None);
        let grown = Size { clients: 9, ..size };
        sizes.remember(&population, grown, 6_000);
        assert_eq!(sizes.lately(&population, 6_000), Some(grown));
    }
}
