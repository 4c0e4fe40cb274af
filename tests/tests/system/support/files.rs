//! Job files, updates and other tensor files.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tributary_protocol::device::Assignment;
use tributary_protocol::fixed::{Contribution, SumCaps, Weight};
use tributary_protocol::safetensors::{Data, Tensor, write};
use tributary_protocol::sum::{SumWriter, tag};
use tributary_protocol::update::{UpdateHeader, encode};

/// Numbers of the model of [`job_file`]: `w` of 2 x 2 and `b` of 2.
pub(crate) const WEIGHTS: usize = 6;

/// A job for an app's own six weights: a round wants one update of the one client that it draws. `changes` replaces
/// parts of it, key by key.
pub(crate) fn job_file(changes: &Value) -> Value {
    let mut file = json!({
        "name": "steps",
        "population": "devices",
        "seed": 7,
        "model": { "parameters": [{ "name": "w", "shape": [2, 2] }, { "name": "b", "shape": [2] }] },
        "training": { "epochs": 1, "optimizer": { "kind": "sgd", "learning_rate": 0.1 } },
        "update": { "codec": "f32", "weight_max": 1000, "magnitude_max": 8.0 },
        "round": {
            "updates_goal": 1, "updates_min": 1, "over_selection": 1.0,
            "selection_timeout_ms": 60_000, "deadline_ms": 10_000, "backoff_ms": 1_000, "backoff_max_ms": 4_000,
        },
    });
    merge(&mut file, changes);
    file
}

/// The same with evaluations, by clients with the attribute `evaluator = yes`.
pub(crate) fn evaluated_job(changes: &Value) -> Value {
    let mut file = job_file(&json!({
        "evaluation": { "attributes": { "evaluator": "yes" }, "selection_timeout_ms": 20_000, "deadline_ms": 10_000 },
    }));
    merge(&mut file, changes);
    file
}

/// Replaces parts of a JSON value: objects key by key, all else as a whole.
fn merge(target: &mut Value, changes: &Value) {
    match (target, changes) {
        (Value::Object(target), Value::Object(changes)) => {
            for (key, change) in changes {
                merge(target.entry(key).or_insert(Value::Null), change);
            }
        }
        (target, change) => *target = change.clone(),
    }
}

/// The update's file that an assignment asks for.
pub(crate) fn delta_file(assignment: &Assignment, delta: &[f32]) -> Vec<u8> {
    let header = UpdateHeader {
        codec: assignment.plan.codec,
        job: assignment.job.to_string(),
        base_version: assignment.model_version.into(),
    };
    let parts = assignment.plan.model.parts().unwrap();
    let parameters = parts.shared();
    let file = |delta: &[f32]| encode(delta, parameters, &header, assignment.round, assignment.seed);
    match file(delta) {
        Ok(file) => file,
        // No client writes that; somebody hostile would.
        Err(_) => {
            let mut file = file(&vec![0.0; delta.len()]).unwrap();
            let data = file.len() - 4 * delta.len();
            file.truncate(data);
            file.extend(delta.iter().flat_map(|value| value.to_le_bytes()));
            file
        }
    }
}

/// A safetensors file of any f32 tensors and metadata.
pub(crate) fn bytes_of_tensors(tensors: &[(&str, &[usize], &[f32])], metadata: &[(&str, &str)]) -> Vec<u8> {
    let tensors: Vec<_> =
        tensors.iter().map(|(name, shape, values)| Tensor { name, shape, data: Data::F32(values) }).collect();
    let metadata: BTreeMap<String, String> =
        metadata.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    write(&tensors, &metadata)
}

/// A relay's sum of so many updates of this weight together, all of whose values are this integer.
pub(crate) fn sum_of(part: &Assignment, base_version: u32, (updates, examples): (u32, u32), value: i64) -> Vec<u8> {
    let binary_point = binary_point(part);
    let contribution = Contribution { weight: Weight::examples(examples), updates };
    let mut writer = SumWriter::new(tag(&part.job, base_version, binary_point), contribution, WEIGHTS as u32);
    writer.push(&[value; WEIGHTS]);
    writer.finish().unwrap()
}

/// Of the sums of a relay's part.
pub(crate) fn binary_point(part: &Assignment) -> u32 {
    let terms = part.relay.as_ref().unwrap();
    let update = &terms.job.update;
    let weight_max = Weight::examples(update.weight_max);
    SumCaps { weight_max, magnitude_max: update.magnitude_max, updates_max: terms.cohort }.binary_point().unwrap()
}
