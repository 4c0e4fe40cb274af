//! Assignments and client states for tests.

use serde_json::{Value, json};
use tributary_protocol::device::Assignment;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{AssignmentId, JobId};

use crate::store::client_state::ClientState;
use crate::store::kept::Kept;

/// An assignment of round 4. Its plan trains two parameters, unless these settings of it say otherwise.
pub(crate) fn assignment(settings: &Value) -> Assignment {
    let mut plan = json!({
        "model": { "parameters": [{ "name": "w", "shape": [2] }] },
        "training": { "epochs": 1, "optimizer": { "kind": "sgd", "learning_rate": 0.1 } },
        "codec": "f32", "weight_max": 10,
    });
    settings.as_object().unwrap().iter().for_each(|(name, setting)| plan[name] = setting.clone());
    serde_json::from_value(json!({
        "id": AssignmentId::from_random([6; 16]), "task": "train", "job": JobId::from_random([5; 16]), "round": 4,
        "model_version": 2, "model_sha256": Sha256Hash([1; 32]), "plan": plan, "seed": 1, "deadline_in_ms": 1000,
    }))
    .unwrap()
}

/// What the assignment finds that round 3 has left, if the coordinator says that this round was abandoned.
pub(crate) fn kept<const N: usize>(vectors: [(&str, &[f32]); N], dropped_round: Option<u32>) -> Kept {
    let assignment = Assignment { dropped_round, ..assignment(&json!({})) };
    let vectors = vectors.map(|(name, values)| (name.to_owned(), values.to_vec())).into();
    let state = ClientState { job: assignment.job, round: 3, model_sha256: Sha256Hash([0; 32]), vectors };
    Kept::found(state, &assignment)
}
