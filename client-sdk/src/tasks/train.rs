//! The task `train`: local training, from which an update follows.

use tributary_protocol::device::UpdateQuery;
use tributary_protocol::hash::Sha256Hash;

use super::algorithm;
use super::completed::Completed;
use super::encode::encode;
use super::feedback;
use super::given::Given;
use super::personal;
use super::shards;
use super::trainings::Trainings;
use crate::cadence::keep_weights;
use crate::store::kept::Kept;
use crate::store::state::Work;
use crate::trainer::{TrainError, Trained, Trainer};

/// Trains, encodes what the plan's algorithm sends, and puts together what the job keeps once the update is accepted.
///
/// # Errors
/// The trainer's [`TrainError`], or one for a result that no update can hold.
pub(crate) fn train<T: Trainer + ?Sized>(
    trainer: &mut T,
    given: &Given<'_>,
    should_stop: &dyn Fn() -> bool,
) -> Result<Completed, TrainError> {
    let Given { assignment, base, state, .. } = *given;
    let plan = &assignment.plan;
    let training = plan.training.at_version(assignment.model_version);
    if !trainer.follows(&training.algorithm) {
        return Err(TrainError::CannotFollow(training.algorithm.as_str().to_owned()));
    }
    if given.exchange.is_some() && !trainer.exchanges() {
        return Err(TrainError::CannotExchange);
    }
    shards::check(assignment, base.parts.shared())?;
    let mut algorithm = algorithm::begin(training.algorithm, base, || state.kept(assignment));
    let trainings = Trainings::begin(given, training, algorithm.as_ref());
    let Trained { values, examples, steps, loss, metrics } = trainings.run(trainer, should_stop)?;

    let mut kept = Kept::after(assignment);
    personal::keep(&values, &base.parts, &mut kept);
    keep_weights(assignment, &values, base.updates, &mut kept);
    let reached = trainings.reached(values, steps);
    let values = algorithm.values(reached, &mut || trainings.gradient(trainer, should_stop))?;

    // Read only now, so that training has its memory.
    let earlier = plan.codec.properties().error_feedback.then(|| state.kept(assignment)).flatten();
    let earlier = earlier.and_then(feedback::found);
    let update = encode(values, assignment, base.parts.shared(), earlier.as_ref())?;
    algorithm.keep(&|| update.sent(), &mut kept);
    feedback::keep(update.left_out, earlier, &mut kept);

    let body = shards::body(update.file, plan);
    let weight = u32::try_from(examples).unwrap_or(u32::MAX).min(plan.weight_max);
    let query = UpdateQuery { weight, loss: Some(loss), steps, train_ms: trainings.train_ms(), metrics };
    let sha256 = Sha256Hash::of(&body);
    Ok(Completed { work: Work::Update { query, sha256 }, body: body.into(), next_state: kept.into_state() })
}
