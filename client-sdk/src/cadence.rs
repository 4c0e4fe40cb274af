//! A client's own weights in a job in which it does not always begin with the newest model (Downpour).

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_protocol::device::Assignment;
use tributary_protocol::model::{Model, ParameterList};
use tributary_protocol::state::Task;

use crate::store::client_state::ClientState;

/// The vector of a client state that holds the weights that the client has reached.
const WEIGHTS: &str = "weights";
/// The vector of one value that counts the updates since the model was fetched.
const UPDATES: &str = "updates";
/// Vectors of a client state, by name.
type Vectors = BTreeMap<String, Vec<f32>>;

/// The weights that a client goes on from instead of the newest model, and the updates since it fetched one. `None` if
/// it is time to fetch, if there are no such weights, or if the round that took its last update was abandoned.
pub(crate) fn continued(
    assignment: &Assignment,
    parameters: &Arc<ParameterList>,
    kept: impl FnOnce() -> Option<ClientState>,
) -> Option<(Model, u32)> {
    let cadence = assignment.plan.cadence;
    if assignment.task != Task::Train || !cadence.keeps_weights() {
        return None;
    }
    let mut kept = kept().filter(|kept| !kept.was_dropped(assignment))?;
    // Counts are small, so they are exact.
    let updates = kept.vectors.get(UPDATES)?.first().copied()? as u32;
    if updates >= cadence.fetch_every {
        return None;
    }
    Some((Model::new(Arc::clone(parameters), kept.vectors.remove(WEIGHTS)?).ok()?, updates))
}

/// What a client keeps that has reached these weights, with so many updates since it fetched the model before this one.
/// Empty where each update begins with the newest model.
pub(crate) fn to_continue(assignment: &Assignment, weights: &[f32], updates: u32) -> Vectors {
    let cadence = assignment.plan.cadence;
    if !cadence.keeps_weights() {
        return Vectors::new();
    }
    let updates = updates.saturating_add(1);
    let mut vectors = Vectors::from([(UPDATES.to_owned(), vec![updates as f32])]);
    if updates < cadence.fetch_every {
        vectors.insert(WEIGHTS.to_owned(), weights.to_vec());
    }
    vectors
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tributary_protocol::hash::Sha256Hash;
    use tributary_protocol::id::{AssignmentId, JobId};

    use super::*;

    fn assignment(fetch_every: u32, dropped_round: Option<u32>) -> Assignment {
        let plan = json!({
            "model": { "parameters": [{ "name": "w", "shape": [2] }] },
            "training": { "epochs": 1, "optimizer": { "kind": "sgd", "learning_rate": 0.1 } },
            "codec": "f32", "weight_max": 10, "cadence": { "fetch_every": fetch_every, "push_every": 1 },
        });
        serde_json::from_value(json!({
            "id": AssignmentId::from_random([6; 16]), "task": "train", "job": JobId::from_random([5; 16]), "round": 4,
            "model_version": 2, "model_sha256": Sha256Hash([0; 32]), "plan": plan, "seed": 1, "deadline_in_ms": 1000,
            "dropped_round": dropped_round,
        }))
        .unwrap()
    }

    fn after(assignment: &Assignment, updates: u32) -> Option<ClientState> {
        let vectors = to_continue(assignment, &[1.0, 2.0], updates);
        Some(ClientState { job: assignment.job, round: 3, model_sha256: Sha256Hash([0; 32]), vectors })
    }

    #[test]
    fn a_client_goes_on_until_it_is_time_to_fetch() {
        let job = assignment(3, None);
        let parts = job.plan.model.parts().unwrap();
        let goes_on = |assignment: &Assignment, kept| {
            continued(assignment, parts.model(), || kept).map(|(model, updates)| (model.into_values(), updates))
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
        assert!(to_continue(&plain, &[1.0, 2.0], 0).is_empty() && goes_on(&plain, after(&job, 0)).is_none());
    }
}
