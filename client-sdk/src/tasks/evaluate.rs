//! The task `evaluate`: loss and accuracy of the global model on the client's examples.

use bytes::Bytes;
use tributary_protocol::device::{Assignment, EvaluationReport};
use tributary_protocol::model::Model;

use super::completed::Completed;
use super::compute::computing;
use crate::clock::Clock;
use crate::store::state::Work;
use crate::trainer::{EvaluateTask, Evaluated, TrainError, Trainer};

/// Evaluates the model.
///
/// # Errors
/// The trainer's [`TrainError`], or one for a result that the coordinator would refuse.
pub(crate) fn evaluate<T: Trainer + ?Sized>(
    trainer: &mut T,
    assignment: &Assignment,
    model: &Model,
    clock: &dyn Clock,
    should_stop: &dyn Fn() -> bool,
) -> Result<Completed, TrainError> {
    let started_ms = clock.now_ms();
    let plan = &assignment.plan;
    let task = EvaluateTask { model, spec: &plan.model, loss: plan.training.loss };
    let Evaluated { examples, loss, accuracy, metrics, classes } = computing(|| trainer.evaluate(&task, should_stop))?;
    if examples == 0 {
        return Err(TrainError::NoExamples);
    }
    if !loss.is_finite() {
        return Err(TrainError::Diverged);
    }
    let evaluate_ms = clock.now_ms().saturating_sub(started_ms);
    if let Some(classes) = &classes {
        classes.check(examples, None, accuracy).map_err(|error| TrainError::DoesNotFit(error.to_string()))?;
    }
    let report = EvaluationReport { examples, loss, accuracy, evaluate_ms, metrics, classes };
    Ok(Completed { work: Work::Evaluation(report), body: Bytes::new(), next_state: None })
}
