//! A client's own weights in a job in which it does not always begin with the newest model (Downpour).

use std::sync::Arc;

use tributary_protocol::device::Assignment;
use tributary_protocol::model::{Model, ParameterList};
use tributary_protocol::state::Task;

use crate::store::kept::Kept;

/// The vector of a client state that holds the weights that the client has reached.
const WEIGHTS: &str = "weights";
/// The vector of one value that counts the updates since the model was fetched.
const UPDATES: &str = "updates";

/// The weights that a client goes on from instead of the newest model, and the updates since it fetched one. `None` if
/// it is time to fetch, if there are no such weights, or if the round that took its last update was abandoned.
pub(crate) fn continued(
    assignment: &Assignment,
    parameters: &Arc<ParameterList>,
    kept: impl FnOnce() -> Option<Kept>,
) -> Option<(Model, u32)> {
    let cadence = assignment.plan.cadence;
    if assignment.task != Task::Train || !cadence.keeps_weights() {
        return None;
    }
    let mut kept = kept()?;
    // Counts are small, so they are exact.
    let updates = kept.take(UPDATES)?.first().copied()? as u32;
    if updates >= cadence.fetch_every {
        return None;
    }
    Some((Model::new(Arc::clone(parameters), kept.take(WEIGHTS)?).ok()?, updates))
}

/// Keeps the weights that a client has reached, with so many updates since it fetched the model before this one; none
/// where each update begins with the newest model.
pub(crate) fn keep_weights(assignment: &Assignment, weights: &[f32], updates: u32, kept: &mut Kept) {
    let cadence = assignment.plan.cadence;
    if !cadence.keeps_weights() {
        return;
    }
    let updates = updates.saturating_add(1);
    kept.put(UPDATES, vec![updates as f32], None);
    if updates < cadence.fetch_every {
        kept.put(WEIGHTS, weights.to_vec(), None);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures;
    use crate::store::client_state::ClientState;

    fn assignment(fetch_every: u32, dropped_round: Option<u32>) -> Assignment {
        let cadence = json!({ "cadence": { "fetch_every": fetch_every, "push_every": 1 } });
        Assignment { dropped_round, ..fixtures::assignment(&cadence) }
    }

    fn after(assignment: &Assignment, updates: u32) -> Option<ClientState> {
        let mut kept = Kept::after(&Assignment { round: 3, ..assignment.clone() });
        keep_weights(assignment, &[1.0, 2.0], updates, &mut kept);
        kept.into_state()
    }

    #[test]
    fn a_client_goes_on_until_it_is_time_to_fetch() {
        let job = assignment(3, None);
        let parts = job.plan.model.parts().unwrap();
        let goes_on = |assignment: &Assignment, state: Option<ClientState>| {
            let kept = || state.map(|state| Kept::found(state, assignment));
            continued(assignment, parts.model(), kept).map(|(model, updates)| (model.into_values(), updates))
        };
        assert_eq!(goes_on(&job, after(&job, 0)), Some((vec![1.0, 2.0], 1)));
        assert_eq!(goes_on(&job, after(&job, 1)), Some((vec![1.0, 2.0], 2)));
        assert_eq!(goes_on(&job, after(&job, 2)), None, "three updates are sent");
        assert_eq!(after(&job, 2).unwrap().vectors.len(), 1, "no weights are kept for nothing");
        assert_eq!(goes_on(&job, None), None);
        assert_eq!(goes_on(&assignment(3, Some(3)), after(&job, 0)), None, "its round was abandoned");
        assert_eq!(goes_on(&assignment(3, Some(2)), after(&job, 0)).map(|(_, updates)| updates), Some(1));
        let evaluation = Assignment { task: Task::Evaluate, ..job.clone() };
        assert_eq!(goes_on(&evaluation, after(&job, 0)), None, "the model of the version is evaluated");
        let plain = assignment(1, None);
        assert!(after(&plain, 0).is_none() && goes_on(&plain, after(&job, 0)).is_none());
    }
}
