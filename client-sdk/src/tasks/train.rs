//! The task `train`: local training, and the update that encodes what it changed.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_protocol::body::shrink;
use tributary_protocol::device::{Assignment, UpdateQuery};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::model::{Model, ParameterList};
use tributary_protocol::plan::{Algorithm, Optimizer, Training};
use tributary_protocol::sharing::{Part, Parts};
use tributary_protocol::update::{EncodeError, Residual, UpdateHeader, UpdateLimits, encode_with_residual};

use super::completed::Completed;
use super::drift::Drift;
use super::elastic::Elastic;
use super::norm::{self, norm, sent_norm};
use super::personal;
use crate::cadence::to_continue;
use crate::clock::Clock;
use crate::models::Base;
use crate::store::client_state::ClientState;
use crate::store::state::{State, Work};
use crate::store::suspended::Suspended;
use crate::trainer::{Budget, Checkpoint, TrainError, TrainTask, Trained, Trainer};

/// The vector of a client state that holds what earlier updates left out.
const RESIDUAL: &str = "residual";
/// The vector of a client state that holds the momentum of `dgc`.
const MOMENTUM: &str = "momentum";
/// Both before the state's round, in case that the round is abandoned.
const RESIDUAL_BEFORE: &str = "residual_before";
const MOMENTUM_BEFORE: &str = "momentum_before";
/// Vectors of a client state, by name.
type Vectors = BTreeMap<String, Vec<f32>>;
/// Limits of a plan without bounds.
const LIMITS: UpdateLimits = UpdateLimits::of_magnitude(f32::MAX);

/// Times of an assignment by the client's clock, in milliseconds. A training that is called again keeps them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// When its computation began.
    pub(crate) started_ms: u64,
    pub(crate) deadline_ms: u64,
}

/// Trains, and encodes the weight delta of the shared parameters: local minus global, plus the residual where the codec
/// has error feedback, and the change of the control vector where the algorithm sends one.
///
/// # Errors
/// The trainer's [`TrainError`], or one for a result that no update can hold.
pub(crate) fn train<T: Trainer + ?Sized>(
    trainer: &mut T,
    assignment: &Assignment,
    base: &Base,
    state: &State,
    clock: &dyn Clock,
    times: &Times,
    should_stop: &dyn Fn() -> bool,
) -> Result<Completed, TrainError> {
    let (plan, parts) = (&assignment.plan, &base.parts);
    let training = plan.training.at_version(assignment.model_version);
    if !trainer.follows(&training.algorithm) {
        return Err(TrainError::CannotFollow(training.algorithm.as_str().to_owned()));
    }
    let ends_ms = training.partial_work.map(|share| partial_until_ms(assignment, times.deadline_ms, share));
    let is_over = || ends_ms.is_some_and(|ends_ms| clock.now_ms() >= ends_ms);
    let drift = Drift::begin(assignment, base, || state.client_state(assignment.job));
    let constant = drift.as_ref().and_then(Drift::constant).map(|constant| spread(constant, parts));
    let own = personal::own(parts, || state.client_state(assignment.job));
    let mut elastic = Elastic::begin(assignment, &base.model, parts, || state.client_state(assignment.job));
    let model = match &elastic {
        Some(elastic) => Cow::Owned(elastic.own_model(&base.model, parts)),
        None => personal::with_own(&base.model, parts, own.as_deref()),
    };
    // A checkpoint is one of a single training.
    let may_suspend = plan.cadence.push_every == 1 && training.personal_epochs.is_none();
    let suspended = if may_suspend { state.suspended(assignment) } else { None };
    let earlier_ms = suspended.as_ref().map_or(0, |suspended| suspended.train_ms);
    let train_ms = || clock.now_ms().saturating_sub(times.started_ms).saturating_add(earlier_ms);
    let task = TrainTask {
        constant: constant.as_deref(),
        budget: ends_ms.is_some().then_some(Budget(&is_over)),
        resume: suspended.as_ref().map(|suspended| &suspended.checkpoint),
        may_suspend,
        ..TrainTask::new(&model, &plan.model.spec, &training, assignment.seed)
    };
    let trained = trainings(trainer, &task, parts, plan.cadence.push_every, should_stop);
    let trained = trained.map_err(|error| keep(error, state, assignment, train_ms()))?;
    let (examples, loss, steps, metrics) = (trained.examples, trained.loss, trained.steps, trained.metrics.clone());
    let personal = parts.has(Part::Personal).then(|| parts.take(Part::Personal, &trained.values));
    let keeps_reached = elastic.is_some() || plan.cadence.keeps_weights();
    let reached = if keeps_reached { trained.values.clone() } else { Vec::new() };
    let delta = delta(trained, &model)?;
    let mut values = match &mut elastic {
        Some(elastic) => elastic.pull(&reached, &base.model, parts),
        None => shared(delta, parts),
    };
    if let Some(drift) = &drift {
        let gradient = match drift.needs_gradient() {
            true => Some(shared(gradient(trainer, &task, parts, should_stop)?, parts)),
            false => None,
        };
        let rate = training.optimizer.learning_rate();
        values.extend(drift.change(&values, gradient.as_deref(), steps, rate));
    }
    // Read only now, so that training has its memory.
    let kept = plan.codec.properties().error_feedback.then(|| state.client_state(assignment.job)).flatten();
    let moves = drift.map(Moves::Drift).or(elastic.map(Moves::Elastic));
    let (file, mut vectors) = encode(values, assignment, parts.shared(), kept, moves)?;
    vectors.extend(to_continue(assignment, &reached, base.updates));
    vectors.extend(personal.map(|personal| (personal::PERSONAL.to_owned(), personal)));
    let next_state = (!vectors.is_empty()).then_some(ClientState {
        job: assignment.job,
        round: assignment.round,
        model_sha256: assignment.model_sha256,
        vectors,
    });
    let body = shrink(file);
    let query = UpdateQuery {
        weight: u32::try_from(examples).unwrap_or(u32::MAX).min(plan.weight_max),
        loss,
        steps,
        train_ms: train_ms(),
        metrics,
    };
    let sha256 = Sha256Hash::of(&body);
    Ok(Completed { work: Work::Update { query, sha256 }, body: body.into(), next_state })
}

/// Stores where a training was suspended, and takes vectors and bytes, which have the size of models. Where that fails
/// (the disk is full), the training is interrupted.
fn keep(error: TrainError, state: &State, assignment: &Assignment, train_ms: u64) -> TrainError {
    let TrainError::Suspended(mut checkpoint) = error else { return error };
    let taken = Checkpoint { steps: checkpoint.steps, losses: checkpoint.losses, ..Checkpoint::default() };
    let whole = std::mem::replace(&mut *checkpoint, taken);
    match state.save_suspended(assignment, Suspended { checkpoint: whole, train_ms }) {
        Ok(()) => TrainError::Suspended(checkpoint),
        Err(failed) => {
            tracing::warn!(error = %failed, "a training cannot be suspended");
            TrainError::Interrupted
        }
    }
}

/// So many trainings, each from the values that the one before reached. Where the time for partial work is over, fewer.
fn trainings<T: Trainer + ?Sized>(
    trainer: &mut T,
    task: &TrainTask<'_>,
    parts: &Parts,
    count: u32,
    should_stop: &dyn Fn() -> bool,
) -> Result<Trained, TrainError> {
    let mut trained = personal::train(trainer, task, parts, should_stop)?;
    for training in 1..count {
        if task.is_over() {
            break;
        }
        let parameters = Arc::clone(task.model.parameters());
        let model = Model::new(parameters, trained.values).map_err(|_| TrainError::Diverged)?;
        let task = TrainTask { model: &model, seed: task.seed.derive("push", training.into()), ..*task };
        let next = personal::train(trainer, &task, parts, should_stop)?;
        let steps = trained.steps.saturating_add(next.steps);
        let share = next.steps as f64 / steps.max(1) as f64;
        let loss = trained.loss + share * (next.loss - trained.loss);
        trained = Trained { steps, loss, examples: trained.examples.max(next.examples), ..next };
    }
    Ok(trained)
}

/// What moves on by the values that were sent.
enum Moves<'a> {
    Drift(Drift<'a>),
    Elastic(Elastic),
}

impl Moves<'_> {
    fn after(self, sent: &[f32]) -> Vectors {
        match self {
            Self::Drift(drift) => drift.after(sent),
            Self::Elastic(elastic) => elastic.after(sent),
        }
    }
}

/// When a client stops training whose job lets partial work count: this share of the time that its assignment left it,
/// the download included.
fn partial_until_ms(assignment: &Assignment, deadline_ms: u64, share: f64) -> u64 {
    let left_ms = (1.0 - share) * assignment.deadline_in_ms as f64;
    deadline_ms.saturating_sub(left_ms as u64)
}

/// The values of shared parameters.
fn shared(values: Vec<f32>, parts: &Parts) -> Vec<f32> {
    if parts.is_all_shared() { values } else { parts.take(Part::Shared, &values) }
}

/// Values of shared parameters as those of the model, with zeros for the others.
fn spread(shared: Vec<f32>, parts: &Parts) -> Vec<f32> {
    if parts.is_all_shared() {
        return shared;
    }
    let mut values = vec![0.0; parts.model().total()];
    parts.put(Part::Shared, &shared, &mut values);
    values
}

/// The gradient of all examples at the model: what one step of rate 1 subtracts.
fn gradient<T: Trainer + ?Sized>(
    trainer: &mut T,
    task: &TrainTask<'_>,
    parts: &Parts,
    should_stop: &dyn Fn() -> bool,
) -> Result<Vec<f32>, TrainError> {
    let weight_decay = match task.training.optimizer {
        Optimizer::Sgd { weight_decay, .. } => weight_decay,
        _ => 0.0,
    };
    let training = Training {
        epochs: None,
        steps: Some(1),
        work_schedule: Vec::new(),
        batch_size: None,
        optimizer: Optimizer::Sgd { learning_rate: 1.0, momentum: 0.0, weight_decay, nesterov: false },
        algorithm: Algorithm::Plain,
        personal_epochs: None,
        ..task.training.clone()
    };
    let task = TrainTask::new(task.model, task.spec, &training, task.seed.derive("control", 0));
    let mut gradient = delta(personal::train(trainer, &task, parts, should_stop)?, task.model)?;
    gradient.iter_mut().for_each(|value| *value = -*value);
    Ok(gradient)
}

/// Local minus global values, all finite.
fn delta(trained: Trained, model: &Model) -> Result<Vec<f32>, TrainError> {
    let Trained { mut values, examples, loss, .. } = trained;
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

/// The update's file, within the plan's norm bound, and the vectors that the job keeps once it is accepted. The values
/// are those of the delta, then those of the control vector's change.
fn encode(
    mut values: Vec<f32>,
    assignment: &Assignment,
    shared: &ParameterList,
    kept: Option<ClientState>,
    moves: Option<Moves<'_>>,
) -> Result<(Vec<u8>, Vectors), TrainError> {
    let header = UpdateHeader {
        codec: assignment.plan.codec,
        job: assignment.job.to_string(),
        base_version: assignment.model_version.into(),
    };
    let parameters = assignment.plan.training.algorithm.update_parameters(shared);
    let parameters = Arc::new(parameters.map_err(|error| TrainError::DoesNotFit(error.to_string()))?);
    let delta = ..shared.total();
    let kept = kept.and_then(|kept| feedback(kept, assignment));
    // What was kept, scaled down with the delta.
    let mut scaled: Option<Residual> = None;
    let limits = UpdateLimits { norm_max: assignment.plan.norm_max.unwrap_or(f64::INFINITY), ..LIMITS };
    if limits.norm_max.is_finite() {
        let norm = norm(&values[delta]);
        if norm > limits.norm_max {
            norm::scale(&mut values[delta], None, norm, limits.norm_max);
        }
    }
    for _ in 0..norm::ATTEMPTS_MAX {
        let encoded = encode_with_residual(
            &values,
            &parameters,
            &header,
            assignment.round,
            assignment.seed.derive("update", 0),
            scaled.as_ref().or(kept.as_ref()),
            assignment.model_sha256,
        );
        let (file, left) = encoded.map_err(|error| match error {
            EncodeError::NotFinite { .. } => TrainError::Diverged,
            error => TrainError::DoesNotFit(error.to_string()),
        })?;
        if limits.norm_max.is_finite() {
            let sent = sent_norm(&file, &parameters, &header, delta.end);
            if !limits.allow_norm(sent) {
                scaled = scaled.or_else(|| kept.clone());
                norm::scale(&mut values[delta], scaled.as_mut(), sent, limits.norm_max);
                continue;
            }
        }
        let next = match (moves, left) {
            (Some(moves), _) => moves.after(&norm::sent(&file, &parameters, &header)),
            (None, Some(left)) => vectors(left, kept),
            (None, None) => Vectors::new(),
        };
        return Ok((file, next));
    }
    Err(TrainError::DoesNotFit(format!("no update within the norm bound of {}", limits.norm_max)))
}

/// What error feedback kept in a client state; `None` if the state was left by something else. After a round that was
/// abandoned, what was kept before it: the update that the rest was left out of does not count.
fn feedback(mut kept: ClientState, assignment: &Assignment) -> Option<Residual> {
    let [residual, momentum] = match kept.was_dropped(assignment) {
        true => [RESIDUAL_BEFORE, MOMENTUM_BEFORE],
        false => [RESIDUAL, MOMENTUM],
    };
    let values = kept.vectors.remove(residual)?;
    let momentum = kept.vectors.remove(momentum);
    Some(Residual { values, momentum, round: kept.round, model_sha256: kept.model_sha256 })
}

/// The vectors that keep what error feedback left, and what it had kept before.
fn vectors(left: Residual, before: Option<Residual>) -> Vectors {
    let mut vectors = Vectors::from([(RESIDUAL.to_owned(), left.values)]);
    vectors.extend(left.momentum.map(|momentum| (MOMENTUM.to_owned(), momentum)));
    if let Some(Residual { values, momentum, .. }) = before {
        vectors.insert(RESIDUAL_BEFORE.to_owned(), values);
        vectors.extend(momentum.map(|momentum| (MOMENTUM_BEFORE.to_owned(), momentum)));
    }
    vectors
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tributary_protocol::id::JobId;
    use tributary_protocol::model::ParameterSpec;

    use super::*;

    const VALUES: usize = 1_000;

    fn assignment(codec: Value, norm_max: Option<f64>, round: u32) -> Assignment {
        let mut plan = json!({
            "model": { "parameters": [{ "name": "w", "shape": [VALUES] }] },
            "training": { "epochs": 1, "optimizer": { "kind": "sgd", "learning_rate": 0.1 } },
            "codec": codec, "weight_max": 10,
        });
        if let Some(norm_max) = norm_max {
            plan["norm_max"] = norm_max.into();
        }
        serde_json::from_value(json!({
            "id": tributary_protocol::id::AssignmentId::from_random([6; 16]), "task": "train",
            "job": JobId::from_random([5; 16]), "round": round, "model_version": 2,
            "model_sha256": Sha256Hash([0; 32]), "plan": plan, "seed": 1, "deadline_in_ms": 1000,
        }))
        .unwrap()
    }

    fn parameters() -> Arc<ParameterList> {
        Arc::new(ParameterList::new(vec![ParameterSpec::new("w", [VALUES])]).unwrap())
    }

    fn state(round: u32, vectors: Vectors) -> ClientState {
        ClientState { job: JobId::from_random([5; 16]), round, model_sha256: Sha256Hash([0; 32]), vectors }
    }

    fn sent(file: &[u8], assignment: &Assignment) -> f64 {
        let codec = assignment.plan.codec;
        let header = UpdateHeader { codec, job: assignment.job.to_string(), base_version: 2 };
        sent_norm(file, &parameters(), &header, usize::MAX)
    }

    /// Goal: whatever the codec adds to a delta, and whatever error feedback kept, the coordinator accepts the norm.
    #[test]
    fn an_update_keeps_the_norm_bound_with_every_codec_and_over_rounds() {
        let delta: Vec<f32> = (0..VALUES).map(|index| (index % 13) as f32 - 6.0).collect();
        let norm = norm(&delta);
        for codec in [
            json!("f32"),
            json!("f16"),
            json!("int8"),
            json!("int4"),
            json!("ternary"),
            json!("qsgd"),
            json!("eden"),
            json!("random_k"),
            json!("sign"),
            json!("top_k"),
            json!("dgc"),
            json!("hierarchical"),
        ] {
            let (free, bound) = (assignment(codec.clone(), None, 1), norm / 10.0);
            let (file, _) = encode(delta.clone(), &free, &parameters(), None, None).unwrap();
            assert!(sent(&file, &free) > bound * 1.01, "{codec}: it would not be clipped");
            let mut kept = None;
            for round in 1..=4 {
                let bounded = assignment(codec.clone(), Some(bound), round);
                let (file, next) = encode(delta.clone(), &bounded, &parameters(), kept, None).unwrap();
                let sent = sent(&file, &bounded);
                assert!(sent <= bound * 1.01 && sent > 0.0, "{codec} in round {round}: {sent} for {bound}");
                kept = (!next.is_empty()).then(|| state(round, next));
            }
        }
    }

    #[test]
    fn an_update_within_the_bound_is_sent_as_it_is() {
        let delta: Vec<f32> = (0..VALUES).map(|index| index as f32 / 1e4).collect();
        for codec in [json!("int8"), json!("top_k")] {
            let file = |norm_max| {
                encode(delta.clone(), &assignment(codec.clone(), norm_max, 1), &parameters(), None, None).unwrap()
            };
            let (free, bounded) = (file(None), file(Some(100.0)));
            assert_eq!(free.0, bounded.0);
            assert_eq!(free.1, bounded.1);
        }
    }

    #[test]
    fn what_error_feedback_leaves_comes_back_from_the_client_state() {
        let after = |dropped| Assignment { dropped_round: dropped, ..assignment(json!("dgc"), None, 8) };
        for momentum in [None, Some(vec![3.0, 4.0])] {
            let residual = |value| Residual {
                values: vec![value, -2.0],
                momentum: momentum.clone(),
                round: 7,
                model_sha256: Sha256Hash([0; 32]),
            };
            let kept = state(7, vectors(residual(1.0), Some(residual(5.0))));
            assert_eq!(feedback(kept.clone(), &after(None)), Some(residual(1.0)));
            assert_eq!(feedback(kept.clone(), &after(Some(6))), Some(residual(1.0)), "an earlier round was dropped");
            assert_eq!(feedback(kept, &after(Some(7))), Some(residual(5.0)));
            assert_eq!(feedback(state(7, vectors(residual(1.0), None)), &after(Some(7))), None, "the first update");
        }
    }

    #[test]
    fn a_state_without_a_residual_is_not_error_feedbacks() {
        let kept = state(1, Vectors::from([("control".to_owned(), vec![1.0])]));
        assert_eq!(feedback(kept, &assignment(json!("top_k"), None, 2)), None);
    }
}
