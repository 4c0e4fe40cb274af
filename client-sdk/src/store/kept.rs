//! The vectors that a job keeps on the device, without what an abandoned round changed.

use std::collections::BTreeMap;

use tributary_protocol::device::Assignment;
use tributary_protocol::hash::Sha256Hash;

use super::client_state::ClientState;
use super::state::State;

/// Ends the name of a vector as it was before the round of its state, in case that the round is abandoned.
const BEFORE: &str = "_before";

/// A client state as an assignment finds it, or as the assignment's update leaves it.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    state: ClientState,
    /// Whether the round that took the update behind the state was abandoned afterwards.
    was_dropped: bool,
}

impl Kept {
    /// What the job's last accepted update left. In a buffered job the round that took it may be a later one than that
    /// of the update's assignment; an update after it would have replaced the state.
    pub(crate) fn found(state: ClientState, assignment: &Assignment) -> Self {
        let was_dropped = assignment.dropped_round.is_some_and(|dropped| state.round <= dropped);
        Self { state, was_dropped }
    }

    /// What the assignment's update leaves: nothing so far.
    pub(crate) fn after(assignment: &Assignment) -> Self {
        let Assignment { job, round, model_sha256, .. } = *assignment;
        Self { state: ClientState { job, round, model_sha256, vectors: BTreeMap::new() }, was_dropped: false }
    }

    /// Keeps a vector, beside the one that counts again if the round is abandoned; without that one, none counts then.
    pub(crate) fn put(&mut self, name: &str, next: impl Into<Option<Vec<f32>>>, before: impl Into<Option<Vec<f32>>>) {
        let next = next.into().map(|next| (name.to_owned(), next));
        let before = before.into().map(|before| (format!("{name}{BEFORE}"), before));
        self.state.vectors.extend(next.into_iter().chain(before));
    }

    /// Takes a vector as the last round left it that was not abandoned.
    pub(crate) fn take(&mut self, name: &str) -> Option<Vec<f32>> {
        match self.was_dropped {
            true => self.state.vectors.remove(&format!("{name}{BEFORE}")),
            false => self.take_last(name),
        }
    }

    /// Takes a vector as the last update left it, whatever became of its round.
    pub(crate) fn take_last(&mut self, name: &str) -> Option<Vec<f32>> {
        self.state.vectors.remove(name)
    }

    /// The round of the update that left the vectors, and the model version that the update started from.
    pub(crate) fn left_by(&self) -> (u32, Sha256Hash) {
        (self.state.round, self.state.model_sha256)
    }

    /// The state; `None` if it has no vectors.
    pub(crate) fn into_state(self) -> Option<ClientState> {
        (!self.state.vectors.is_empty()).then_some(self.state)
    }
}

impl State {
    /// What the job of an assignment keeps, if it keeps anything.
    pub(crate) fn kept(&self, assignment: &Assignment) -> Option<Kept> {
        self.client_state(assignment.job).map(|state| Kept::found(state, assignment))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures;

    fn assignment(dropped_round: Option<u32>) -> Assignment {
        Assignment { dropped_round, ..fixtures::assignment(&json!({})) }
    }

    #[test]
    fn an_abandoned_round_takes_back_what_it_changed() {
        let mut kept = Kept::after(&assignment(None));
        assert_eq!(kept.clone().into_state(), None, "nothing is kept");
        kept.put("own", vec![2.0], vec![1.0]);
        kept.put("fresh", vec![3.0], None);
        kept.put("none", None, None);
        let state = kept.into_state().unwrap();
        assert_eq!(state.vectors.keys().collect::<Vec<_>>(), ["fresh", "own", "own_before"]);
        let take = |name: &str, dropped| Kept::found(state.clone(), &assignment(dropped)).take(name);
        for (dropped, own, fresh) in [(None, 2.0, Some(3.0)), (Some(3), 2.0, Some(3.0)), (Some(4), 1.0, None)] {
            assert_eq!(take("own", dropped), Some(vec![own]), "{dropped:?}");
            assert_eq!(take("fresh", dropped), fresh.map(|value| vec![value]), "{dropped:?}");
        }
        assert_eq!(take("own", Some(5)), Some(vec![1.0]), "a later round of a buffered job took the update");
        let mut dropped = Kept::found(state.clone(), &assignment(Some(4)));
        assert_eq!((dropped.take_last("own"), dropped.left_by()), (Some(vec![2.0]), (4, Sha256Hash([1; 32]))));
    }
}
