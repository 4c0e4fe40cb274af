//! The task `train`: local training, and the update that encodes what it changed.

use std::collections::BTreeMap;

use tributary_protocol::body::shrink;
use tributary_protocol::device::{Assignment, UpdateQuery};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::JobId;
use tributary_protocol::model::Model;
use tributary_protocol::update::{EncodeError, Residual, UpdateHeader, encode_with_residual};

use super::completed::Completed;
use super::compute::computing;
use crate::clock::Clock;
use crate::store::client_state::ClientState;
use crate::store::state::{State, Work};
use crate::trainer::{TrainError, TrainTask, Trained, Trainer};

/// The vector of a client state that holds what earlier updates left out.
const RESIDUAL: &str = "residual";
/// The vector of a client state that holds the momentum of `dgc`.
const MOMENTUM: &str = "momentum";

/// Trains, and encodes the weight delta: local minus global, plus the residual where the codec has error feedback.
///
/// # Errors
/// The trainer's [`TrainError`], or one for a result that no update can hold.
pub(crate) fn train<T: Trainer + ?Sized>(
    trainer: &mut T,
    assignment: &Assignment,
    model: &Model,
    state: &State,
    clock: &dyn Clock,
    should_stop: &dyn Fn() -> bool,
) -> Result<Completed, TrainError> {
    let started_ms = clock.now_ms();
    let plan = &assignment.plan;
    let task = TrainTask { model, spec: &plan.model, training: &plan.training, seed: assignment.seed };
    let trained = computing(|| trainer.train(&task, should_stop))?;
    let (examples, loss, steps) = (trained.examples, trained.loss, trained.steps);
    let delta = delta(trained, model)?;
    // Read only now, so that training has its memory.
    let kept = plan.codec.properties().error_feedback.then(|| state.client_state(assignment.job)).flatten();
    let (file, next_state) = encode(&delta, assignment, model, kept)?;
    let body = shrink(file);
    let query = UpdateQuery {
        weight: u32::try_from(examples).unwrap_or(u32::MAX).min(plan.weight_max),
        loss,
        steps,
        train_ms: clock.now_ms().saturating_sub(started_ms),
    };
    let sha256 = Sha256Hash::of(&body);
    Ok(Completed { work: Work::Update { query, sha256 }, body: body.into(), next_state })
}

/// Local minus global values, all finite.
fn delta(trained: Trained, model: &Model) -> Result<Vec<f32>, TrainError> {
    let Trained { mut values, examples, loss, .. } = trained;
    if values.len() != model.values().len() {
        let (got, expected) = (values.len(), model.values().len());
        return Err(TrainError::DoesNotFit(format!("the trainer gave {got} values for {expected} parameters")));
    }
    if examples == 0 {
        return Err(TrainError::NoExamples);
    }
    for (value, global) in values.iter_mut().zip(model.values()) {
        *value -= global;
    }
    if !loss.is_finite() || values.iter().any(|value| !value.is_finite()) {
        return Err(TrainError::Diverged);
    }
    Ok(values)
}

/// The update's file, and the state that the job keeps once it is accepted.
fn encode(
    delta: &[f32],
    assignment: &Assignment,
    model: &Model,
    kept: Option<ClientState>,
) -> Result<(Vec<u8>, Option<ClientState>), TrainError> {
    let header = UpdateHeader {
        codec: assignment.plan.codec,
        job: assignment.job.to_string(),
        base_version: assignment.model_version.into(),
    };
    let encoded = encode_with_residual(
        delta,
        model.parameters(),
        &header,
        assignment.round,
        assignment.seed.derive("update", 0),
        kept.and_then(feedback).as_ref(),
        assignment.model_sha256,
    );
    let (file, left) = encoded.map_err(|error| match error {
        EncodeError::NotFinite { .. } => TrainError::Diverged,
        error => TrainError::DoesNotFit(error.to_string()),
    })?;
    Ok((file, left.map(|left| client_state(assignment.job, left))))
}

/// What error feedback kept in a client state; `None` if the state was left by something else.
fn feedback(mut kept: ClientState) -> Option<Residual> {
    let residual = kept.vectors.remove(RESIDUAL)?;
    let momentum = kept.vectors.remove(MOMENTUM);
    Some(Residual { values: residual, momentum, round: kept.round, model_sha256: kept.model_sha256 })
}

/// The client state that keeps what error feedback left.
fn client_state(job: JobId, left: Residual) -> ClientState {
    let Residual { values: residual, momentum, round, model_sha256 } = left;
    let mut vectors = BTreeMap::from([(RESIDUAL.to_owned(), residual)]);
    vectors.extend(momentum.map(|momentum| (MOMENTUM.to_owned(), momentum)));
    ClientState { job, round, model_sha256, vectors }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_error_feedback_leaves_comes_back_from_the_client_state() {
        for momentum in [None, Some(vec![3.0, 4.0])] {
            let left = Residual { values: vec![1.0, -2.0], momentum, round: 7, model_sha256: Sha256Hash([1; 32]) };
            let state = client_state(JobId::from_random([2; 16]), left.clone());
            assert_eq!(feedback(state), Some(left));
        }
    }

    #[test]
    fn a_state_without_a_residual_is_not_error_feedbacks() {
        let vectors = BTreeMap::from([("control".to_owned(), vec![1.0])]);
        let state =
            ClientState { job: JobId::from_random([2; 16]), round: 1, model_sha256: Sha256Hash([1; 32]), vectors };
        assert_eq!(feedback(state), None);
    }
}
