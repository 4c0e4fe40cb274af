//! The last values of something that is measured now and then.

use std::collections::VecDeque;
use std::sync::Mutex;

use super::lock::Locked;

/// At most this many values, oldest first.
#[derive(Debug)]
pub struct History<T> {
    values_max: usize,
    values: Mutex<VecDeque<T>>,
}

impl<T: Clone> History<T> {
    pub fn new(values_max: usize) -> Self {
        Self { values_max, values: Mutex::default() }
    }

    pub fn push(&self, value: T) {
        let mut values = self.values.locked();
        if values.len() == self.values_max {
            values.pop_front();
        }
        values.push_back(value);
    }

    pub fn values(&self) -> Vec<T> {
        self.values.locked().iter().cloned().collect()
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
