//! The task `describe`: the sums of the client's examples, from which means and deviations of all clients follow.

use bytes::Bytes;
use tributary_protocol::device::Assignment;

use super::completed::Completed;
use super::compute::computing;
use super::given::Given;
use crate::store::state::Work;
use crate::trainer::{DescribeTask, TrainError, Trainer};

/// Adds up the examples. A count below `floor` is withheld, because it could speak of one person.
///
/// # Errors
/// The trainer's [`TrainError`], or one for a table that is too small or does not fit.
pub(crate) fn describe<T: Trainer + ?Sized>(
    trainer: &mut T,
    given: &Given<'_>,
    floor: u64,
) -> Result<Completed, TrainError> {
    let Assignment { job_name, data, plan, .. } = given.assignment;
    let Some(inputs) = &plan.model.inputs else {
        return Err(TrainError::DoesNotFit("the job has no inputs to describe".to_owned()));
    };
    let task = DescribeTask { job: job_name.as_ref(), data: data.as_ref(), inputs };
    let mut description = computing(|| trainer.describe(&task))?;
    if description.examples < floor {
        let rows = description.examples;
        return Err(TrainError::DoesNotFit(format!(
            "the table has {rows} rows, and this client tells nothing of fewer than {floor}"
        )));
    }
    description.withhold_below(floor);
    description.check(inputs).map_err(|error| TrainError::DoesNotFit(error.to_string()))?;
    Ok(Completed { work: Work::Description(description), body: Bytes::new(), next_state: None })
}
