//! The task `evaluate`: loss and accuracy of the global model on the client's examples, and of the client's own model
//! where it has personal parameters.

use bytes::Bytes;
use tributary_protocol::device::EvaluationReport;
use tributary_protocol::scalars::{PERSONALISED_ACCURACY, PERSONALISED_LOSS, Scalars, ScalarsError};

use super::completed::Completed;
use super::compute::computing;
use super::given::Given;
use super::personal;
use crate::models::Base;
use crate::store::state::Work;
use crate::trainer::{EvaluateTask, Evaluated, TrainError, Trainer};

/// Evaluates the model, and the client's own one if it differs.
///
/// # Errors
/// The trainer's [`TrainError`], or one for a result that the coordinator would refuse.
pub(crate) fn evaluate<T: Trainer + ?Sized>(
    trainer: &mut T,
    given: &Given<'_>,
    should_stop: &dyn Fn() -> bool,
) -> Result<Completed, TrainError> {
    let Given { assignment, base: Base { model, parts, .. }, state, .. } = *given;
    let plan = &assignment.plan;
    let (spec, inputs) = (&plan.model.spec, plan.model.inputs.as_ref());
    let (job, data) = (assignment.job_name.as_ref(), assignment.data.as_ref());
    let task = EvaluateTask { job, data, model, spec, inputs, loss: plan.training.loss };
    let Evaluated { examples, loss, accuracy, mut metrics, classes } =
        computing(|| trainer.evaluate(&task, should_stop))?;
    if let Some(own) = personal::own(parts, || state.kept(assignment)) {
        let own = personal::with_own(model, parts, Some(&own));
        let personalised = computing(|| trainer.evaluate(&EvaluateTask { model: &own, ..task }, should_stop))?;
        metrics =
            with_personalised(metrics, &personalised).map_err(|error| TrainError::DoesNotFit(error.to_string()))?;
    }
    if examples == 0 {
        return Err(TrainError::NoExamples);
    }
    if !loss.is_finite() {
        return Err(TrainError::Diverged);
    }
    let evaluate_ms = given.elapsed_ms();
    if let Some(classes) = &classes {
        classes.check(examples, None, accuracy).map_err(|error| TrainError::DoesNotFit(error.to_string()))?;
    }
    let report = EvaluationReport { examples, loss, accuracy, evaluate_ms, metrics, classes };
    Ok(Completed { work: Work::Evaluation(report), body: Bytes::new(), next_state: None })
}

/// Loss and accuracy of the client's own model as metrics, so that rounds, curves and the end of a job know them.
fn with_personalised(metrics: Scalars, measured: &Evaluated) -> Result<Scalars, ScalarsError> {
    let metrics = metrics.with(PERSONALISED_LOSS, measured.loss)?;
    match measured.accuracy {
        Some(accuracy) => metrics.with(PERSONALISED_ACCURACY, accuracy),
        None => Ok(metrics),
    }
}
