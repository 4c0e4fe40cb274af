//! The figures that a client tells of its training, beside its update.

use tributary_engine::job::JobSpec;
use tributary_protocol::device::LOSS_MAX;

use crate::db::AssignmentRow;

/// What a client tells of its training.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Training {
    /// Examples trained on.
    pub(crate) weight: u32,
    pub(crate) steps: u64,
    pub(crate) loss: Option<f64>,
}

impl Training {
    /// Checks the figures against the job, and against what the client told when it was drawn.
    ///
    /// # Errors
    /// What is wrong with them, for the client's log.
    pub(crate) fn check(self, assignment: &AssignmentRow, spec: &JobSpec) -> Result<(), String> {
        let (Self { weight, steps, loss }, job_max) = (self, spec.plan.weight_max);
        if weight == 0 {
            return Err("the weight is 0: an update must come from at least one example".into());
        }
        if weight > job_max {
            return Err(format!("the weight {weight} is above the job's largest, {job_max}"));
        }
        let told = assignment.weight_max(&spec.file);
        if weight > told {
            return Err(format!(
                "the weight {weight} is above {told}, the number of examples that its client told when it was drawn"
            ));
        }
        if let Some(steps_max) = assignment.steps_max(spec).filter(|steps_max| steps > *steps_max) {
            return Err(format!("{steps} steps are more than its plan and its client's examples allow, {steps_max}"));
        }
        check_loss(loss, spec)
    }
}

/// Checks the loss of a training, or of those behind a sum.
///
/// # Errors
/// What is wrong with it, for the client's log.
pub(super) fn check_loss(loss: Option<f64>, spec: &JobSpec) -> Result<(), String> {
    match loss {
        Some(loss) if !(-LOSS_MAX..=LOSS_MAX).contains(&loss) => {
            Err("the training loss is not finite, or above 1e12".into())
        }
        None if spec.reads_losses() => Err("the update has no training loss, which the job's rule reads".into()),
        _ => Ok(()),
    }
}
