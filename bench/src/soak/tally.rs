//! What the devices saw: answers by kind, acknowledged updates, times.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use tributary_protocol::id::AssignmentId;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Count {
    /// Devices that are awake now.
    Awake,
    /// Connections that are open now.
    Open,
    CheckIns,
    Assigned,
    Downloads,
    /// Answers that an update is stored, once for each update.
    Acknowledged,
    /// Updates that came when their round had closed, or whose devices stopped for that.
    Late,
    /// Devices that gave up and said so.
    GaveUp,
    /// Devices that were not heard of again in their round.
    Silent,
    /// Answers that ask for a later try (429, 503).
    Refused,
    /// Answers that no device expects.
    Unexpected,
    /// Requests that broke off, or found no coordinator.
    Broken,
    /// Requests without an answer in time.
    TimedOut,
    /// Connections that the proxy cut.
    Cut,
    /// Connections that the proxy stalled.
    Stalled,
}

impl Count {
    pub(super) const ALL: [Self; 15] = [
        Self::Awake,
        Self::Open,
        Self::CheckIns,
        Self::Assigned,
        Self::Downloads,
        Self::Acknowledged,
        Self::Late,
        Self::GaveUp,
        Self::Silent,
        Self::Refused,
        Self::Unexpected,
        Self::Broken,
        Self::TimedOut,
        Self::Cut,
        Self::Stalled,
    ];
}

#[derive(Debug, Default)]
pub(super) struct Tally {
    counts: [AtomicU64; Count::ALL.len()],
    sent: Mutex<Sent>,
    update_ms: Mutex<Vec<f64>>,
    /// The first answers that no device expects.
    unexpected: Mutex<Vec<String>>,
}

/// Assignments whose updates were sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Sent {
    pub(super) acknowledged: BTreeSet<AssignmentId>,
    /// Sent at least once, and given up without an answer.
    pub(super) unanswered: BTreeSet<AssignmentId>,
}

/// Unexpected answers that are kept.
const SHOWN_MAX: usize = 10;

impl Tally {
    pub(super) fn add(&self, count: Count) {
        self.counts[count as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn subtract(&self, count: Count) {
        self.counts[count as usize].fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn count(&self, count: Count) -> u64 {
        self.counts[count as usize].load(Ordering::Relaxed)
    }

    pub(super) fn counts(&self) -> BTreeMap<Count, u64> {
        Count::ALL.into_iter().map(|count| (count, self.count(count))).collect()
    }

    pub(super) fn acknowledged(&self, assignment: AssignmentId, update_ms: f64) {
        let is_new = locked(&self.sent).acknowledged.insert(assignment);
        if is_new {
            self.add(Count::Acknowledged);
        }
        locked(&self.update_ms).push(update_ms);
    }

    pub(super) fn unanswered(&self, assignment: AssignmentId) {
        locked(&self.sent).unanswered.insert(assignment);
    }

    pub(super) fn unexpected(&self, answer: String) {
        self.add(Count::Unexpected);
        let mut shown = locked(&self.unexpected);
        if shown.len() < SHOWN_MAX {
            shown.push(answer);
        }
    }

    pub(super) fn unexpected_answers(&self) -> Vec<String> {
        locked(&self.unexpected).clone()
    }

    pub(super) fn sent(&self) -> Sent {
        locked(&self.sent).clone()
    }

    /// The times of updates since the last call.
    pub(super) fn take_update_ms(&self) -> Vec<f64> {
        std::mem::take(&mut *locked(&self.update_ms))
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_count_has_a_place_of_its_own() {
        for (place, count) in Count::ALL.into_iter().enumerate() {
            assert_eq!(count as usize, place);
        }
    }

    #[test]
    fn an_update_that_is_acknowledged_twice_is_counted_once() {
        let tally = Tally::default();
        let assignment = AssignmentId::from_random([1; 16]);
        tally.acknowledged(assignment, 3.0);
        tally.acknowledged(assignment, 5.0);
        assert_eq!(tally.count(Count::Acknowledged), 1);
        assert_eq!((tally.take_update_ms(), tally.take_update_ms()), (vec![3.0, 5.0], vec![]));
    }
}
