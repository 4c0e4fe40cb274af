//! From an assignment of the parent to an open round.

use std::sync::Arc;

use tributary_engine::job::{JobSpec, SpecError};
use tributary_engine::round::{Opening, TaskPolicy};
use tributary_protocol::device::Assignment;
use tributary_protocol::id::Name;
use tributary_protocol::job_file::{
    EvaluationPolicy, InitialModel, JobFile, Mode, ModelsKept, Retention, RoundPolicy, StopPolicy,
};
use tributary_protocol::model::Companion;
use tributary_protocol::relay::RelayTerms;
use tributary_protocol::state::Task;

use super::upstream::{Upstream, UpstreamError};
use crate::blob::{BlobError, Workbench};
use crate::db::{DbError, RoundKey};
use crate::lifecycle::orders::{self, NewOrder, OrderError};
use crate::models::companion::received;
use crate::models::first::{UploadError, UploadedModel};
use crate::models::version::NewVersion;
use crate::services::Services;

/// Versions that a relay keeps: that of the open round, and one for clients that are late.
const VERSIONS_KEPT: u32 = 2;
/// The part of the parent's deadline, as a divisor, that is kept for the delivery of the sum.
const DELIVERY_PART: i64 = 20;
/// The same where groups that form last must come to their sums before.
const GROUPS_PART: i64 = 4;

/// Why an order was not taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum TakeError {
    /// The part cannot be played here, now or later.
    #[error("{0}")]
    Unfit(String),
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    #[error(transparent)]
    Blob(#[from] BlobError),
}

impl From<DbError> for TakeError {
    fn from(error: DbError) -> Self {
        Self::Blob(error.into())
    }
}

impl From<SpecError> for TakeError {
    fn from(error: SpecError) -> Self {
        Self::Unfit(error.to_string())
    }
}

impl From<OrderError> for TakeError {
    fn from(error: OrderError) -> Self {
        match error {
            OrderError::Blob(error) => Self::Blob(error),
            unfit @ (OrderError::NameTaken(_) | OrderError::Ended(_) | OrderError::Played(_)) => {
                Self::Unfit(unfit.to_string())
            }
        }
    }
}

impl From<UploadError> for TakeError {
    fn from(error: UploadError) -> Self {
        Self::Unfit(format!("the parent's model cannot be read: {error}"))
    }
}

/// Opens the round of an order.
pub(super) async fn take(
    services: &Services,
    upstream: &dyn Upstream,
    population: &Name,
    assignment: &Assignment,
) -> Result<(), TakeError> {
    let terms = assignment.relay.as_deref();
    let terms = terms.ok_or_else(|| TakeError::Unfit("the parent gives it the work of a client".into()))?;
    let file = played(terms, population);
    let spec = Arc::new(JobSpec::new(assignment.job, file)?);
    let spec = if terms.branch.is_some() { spec } else { spec.of_sums(terms.cohort) };
    let base_version = assignment.model_version;
    let kept = if spec.plan.masking.is_some() { GROUPS_PART } else { DELIVERY_PART };
    let left_ms = time_left_ms(assignment.deadline_in_ms, kept);
    let policy = policy_of(&spec, assignment.task, terms, left_ms)?;
    let opening = Opening { policy, seed: assignment.seed, norm_max: terms.norm_max };
    let number = match terms.job.round.mode.buffered().filter(|_| assignment.task == Task::Train) {
        // A relay may bring several sums to one buffer.
        Some(_) => services.db.look().await?.last_part(spec.id).await? + 1,
        None => assignment.round,
    };
    let round = RoundKey { job: spec.id, task: assignment.task, number };
    let order = NewOrder { assignment: assignment.id, spec: &spec, round, base_version, opening };
    let known = services.db.look().await?.model(spec.id, base_version).await?;
    if known.as_ref().is_some_and(|known| known.sha256 != assignment.model_sha256) {
        return Err(TakeError::Unfit(format!("version {base_version} of the parent was another one before")));
    }
    let bench = services.workbench();
    let opened = async {
        let mut version = match known {
            Some(_) => None,
            None => Some(fetched(services, &bench, upstream, &spec, assignment).await?),
        };
        Ok(orders::open(services, &order, version.as_mut()).await?)
    };
    let opened = opened.await;
    bench.clear().await;
    opened
}

/// The policy of its round here.
fn policy_of(spec: &JobSpec, task: Task, terms: &RelayTerms, left_ms: i64) -> Result<TaskPolicy, TakeError> {
    if let Some(branch) = terms.branch {
        let policy = TaskPolicy::of_branch(&spec.file, spec.code.as_deref(), branch, left_ms);
        return policy.ok_or_else(|| TakeError::Unfit("its place in the coded tree has nobody below".into()));
    }
    let policy = TaskPolicy::of_part(&spec.file, task, terms.places, terms.cohort, left_ms);
    policy.ok_or_else(|| TakeError::Unfit(format!("the job has no rounds of {task}")))
}

/// The parent's job as it is here: its rounds are parts of the parent's, and so is when it ends.
fn played(terms: &RelayTerms, population: &Name) -> JobFile {
    // The parent sends the models.
    let evaluation = terms.job.evaluation.clone();
    let evaluation = evaluation.map(|evaluation| EvaluationPolicy { models: Vec::new(), ..evaluation });
    JobFile {
        evaluation,
        population: population.clone(),
        round: RoundPolicy { mode: Mode::Synchronous, ..terms.job.round.clone() },
        initial_model: InitialModel::Upload,
        stop: StopPolicy::default(),
        schedule: None,
        retention: Retention { models: ModelsKept::Last(VERSIONS_KEPT), ..terms.job.retention },
        ..terms.job.clone()
    }
}

/// The time for the clients of a part: what the parent leaves, without what the delivery will take.
fn time_left_ms(deadline_in_ms: u64, kept: i64) -> i64 {
    let all_ms = i64::try_from(deadline_in_ms).unwrap_or(i64::MAX);
    (all_ms - all_ms / kept).max(1)
}

/// The model of an order with its control variate, from the parent.
async fn fetched(
    services: &Services,
    bench: &Workbench,
    upstream: &dyn Upstream,
    spec: &JobSpec,
    assignment: &Assignment,
) -> Result<NewVersion, TakeError> {
    let file = upstream.model(assignment).await?;
    let mut model = UploadedModel::begin(bench, &services.clock, spec, assignment.model_version);
    model.push(&file).await?;
    let mut version = model.finish(spec).await?;
    if version.row.sha256 != assignment.model_sha256 {
        return Err(TakeError::Unfit("the parent's model is another one than it says".into()));
    }
    if let Some(file) = upstream.control(assignment).await? {
        let beside = (assignment.model_version, Companion::Control);
        version.bodies.push(received(bench, &services.clock, spec, beside, &file).await?);
    }
    Ok(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_kept_for_the_delivery() {
        assert_eq!([100_000, 10, 0].map(|ms| time_left_ms(ms, DELIVERY_PART)), [95_000, 10, 1]);
        assert_eq!(time_left_ms(100_000, GROUPS_PART), 75_000);
    }
}
