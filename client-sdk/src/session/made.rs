//! The next model, made from the sum of a group instead of downloaded.
//!
//! It has the bits of the coordinator's, or it is not used: the next assignment says the hash of its model.

use std::sync::Arc;

use tributary_protocol::device::Assignment;
use tributary_protocol::download::ModelForm;
use tributary_protocol::fixed::Weight;
use tributary_protocol::group::messages::RingRoster;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::model::Model;
use tributary_protocol::safetensors::{model_metadata, model_to_bytes};
use tributary_protocol::sum::{BLOCK_VALUES, HEADER_BYTES, PackedReader};
use tributary_protocol::update::model_in_form;

use crate::models::describe;
use crate::store::slots::Slot;
use crate::store::state::State;

/// Caches the next model in the place of the one that the assignment began with. Without success, the model is
/// downloaded in the next round.
pub(super) fn keep_next_model(state: &State, assignment: &Assignment, roster: &RingRoster, sum: &[u8]) {
    let Some(rate) = roster.next_rate else { return };
    let slot = Slot::of(assignment.data.as_ref());
    let Some(base) = base(state, &slot, assignment) else { return };
    let parameters = Arc::clone(base.parameters());
    let divisor = Weight::of_units(roster.weight).factor(roster.binary_point);
    let Some(values) = next_values(base.into_values(), sum, divisor, rate) else { return };
    let Ok(next) = Model::new(parameters, values) else { return };
    let file = model_to_bytes(&next, &model_metadata());
    let sha256 = Sha256Hash::of(&file);
    describe((state, &slot), assignment, ModelForm::F32, [sha256; 2], assignment.model_version.saturating_add(1));
    if let Err(error) = state.save_model(&slot, &file) {
        tracing::warn!(%error, "the next model is not cached");
    }
}

/// The cached model, if the assignment began with it.
fn base(state: &State, slot: &Slot, assignment: &Assignment) -> Option<Model> {
    let (sha256, body) = state.cached_model(slot).ok()??;
    let parameters = Arc::new(assignment.plan.model.parameters().ok()?);
    let is_base = sha256 == assignment.model_sha256;
    is_base.then(|| model_in_form(&body, &parameters, ModelForm::F32).ok())?
}

/// The model plus `rate` times the mean, in the coordinator's order of operations: the sum of each value over the
/// weight, times the rate, added in f64 and rounded once. None if the sum has not as many values, or one is not finite.
fn next_values(mut values: Vec<f32>, sum: &[u8], divisor: f64, rate: f64) -> Option<Vec<f32>> {
    let (mut bytes, mut block) = (sum.get(HEADER_BYTES..)?, [0; BLOCK_VALUES]);
    let mut blocks = PackedReader::new(0..values.len(), u64::MAX);
    while !blocks.is_whole() {
        let (first, sums, rest) = blocks.next(bytes, &mut block).ok()?;
        for (value, sum) in values[first..].iter_mut().zip(&*sums) {
            *value = (f64::from(*value) + *sum as f64 / divisor * rate) as f32;
        }
        bytes = rest;
    }
    (bytes.is_empty() && values.iter().all(|value| value.is_finite())).then_some(values)
}
