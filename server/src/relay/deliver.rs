//! From a closed round to the parent.
//!
//! Bytes moved per value of an update: 8 of the sum are read, about 5 of its body written, hashed and sent. The body is
//! in memory. Evaluations and descriptions are sums already when the round closes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tributary_engine::job::JobSpec;
use tributary_engine::round::summaries;
use tributary_protocol::device::{EvaluationReport, UpdateQuery};
use tributary_protocol::relay::{Delivered, Part, SumQuery};
use tributary_protocol::scalars::Scalars;
use tributary_protocol::state::{AbandonReason, Task};
use tributary_protocol::sum::{SumWriter, tag};

use super::combination::combination;
use super::upstream::{Upstream, UpstreamError};
use crate::db::{DbError, OrderRow, PartFigures, RoundKey, RoundRow, Tx};
use crate::lifecycle::rounds;
use crate::models::error::CommitError;
use crate::models::gather::running_sum;
use crate::runtime::offload::blocking;
use crate::services::Services;
use crate::updates::sums::{RoundSum, Sums};

/// Values that are read from the sum at a time.
const VALUES_AT_ONCE: usize = 1 << 16;

/// Sends what a closed round came to, and ends the round with the parent's answer.
///
/// # Errors
/// [`CommitError::Upstream`] when the parent does not answer: the round stays as it is, and the next look tries again.
pub(crate) async fn deliver(
    services: &Services,
    upstream: &dyn Upstream,
    sums: &Sums,
    (spec, round): (&Arc<JobSpec>, &RoundRow),
    order: &OrderRow,
) -> Result<(), CommitError> {
    let key = round.key();
    let part = match key.task {
        Task::Train if round.policy().branch.is_some() => combined(services, sums, (spec, round)).await?,
        Task::Train => updates(services, sums, (spec, round), upstream.round_trip()).await?,
        Task::Evaluate => evaluations(&mut services.db.read().await?, round).await?,
        Task::Describe => descriptions(&mut services.db.read().await?, round).await?,
    };
    let delivered = tokio::select! {
        delivered = upstream.deliver(order.assignment, part) => delivered?,
        // A link that is cut may keep the answer back for minutes. The next start delivers again.
        () = services.stopping.cancelled() => return Err(UpstreamError("the relay stops".into()).into()),
    };
    match delivered {
        Delivered::Counted => rounds::commit_part(services, key).await?,
        Delivered::Refused(reason) => {
            tracing::info!(%reason, job = %key.job, task = %key.task, round = key.number, "the parent does not take a part");
            rounds::abandon(services, key, AbandonReason::Upstream).await?;
        }
    }
    sums.forget(key);
    Ok(())
}

async fn updates(
    services: &Services,
    sums: &Sums,
    (spec, round): (&Arc<JobSpec>, &RoundRow),
    round_trip: Option<Duration>,
) -> Result<Part, CommitError> {
    let sum = running_sum(services, sums, spec, round).await?;
    let (base_version, written) = (round.base_version, Arc::clone(spec));
    let body = blocking(move || body_of(&sum, &written, base_version)).await;
    let mut tx = services.db.read().await?;
    let PartFigures { examples, loss, steps, work_ms, bytes_up } = tx.part_figures(round.key()).await?;
    let metrics = means(&mut tx, round.key()).await?;
    let round_trip_ms = round_trip.and_then(|trip| u64::try_from(trip.as_millis()).ok());
    let bytes_below = Some(bytes_up);
    let query = SumQuery { examples, loss, steps, train_ms: work_ms, metrics, bytes_below, round_trip_ms };
    Ok(Part::Updates { body, query })
}

/// In a coded tree, whose parts have their shares of the mean already: the weight is that of one update.
async fn combined(
    services: &Services,
    sums: &Sums,
    (spec, round): (&Arc<JobSpec>, &RoundRow),
) -> Result<Part, CommitError> {
    let body = combination(services, sums, spec, round).await?;
    let mut tx = services.db.read().await?;
    let PartFigures { loss, steps, work_ms, .. } = tx.part_figures(round.key()).await?;
    let metrics = means(&mut tx, round.key()).await?;
    Ok(Part::Combination { body, query: UpdateQuery { weight: 1, loss, steps, train_ms: work_ms, metrics } })
}

async fn evaluations(tx: &mut Tx, round: &RoundRow) -> Result<Part, DbError> {
    let key = round.key();
    let PartFigures { examples, work_ms, .. } = tx.part_figures(key).await?;
    let summary = tx.evaluation_summary(key).await?;
    let report = EvaluationReport {
        examples,
        // A round closes with one report at least, and each tells its loss.
        loss: summary.loss.ok_or_else(DbError::lost)?,
        accuracy: summary.accuracy.map(|(accuracy, _)| accuracy),
        evaluate_ms: work_ms,
        metrics: means(tx, key).await?,
        classes: tx.class_counts(key).await?,
    };
    Ok(Part::Evaluations { reports: round.reported, report })
}

async fn descriptions(tx: &mut Tx, round: &RoundRow) -> Result<Part, DbError> {
    let sums = tx.description(round.key()).await?.ok_or_else(DbError::lost)?;
    Ok(Part::Descriptions { reports: round.reported, sums })
}

/// The means of the named scalars of a round, weighted by examples.
async fn means(tx: &mut Tx, key: RoundKey) -> Result<Scalars, DbError> {
    let reports = tx.reported_scalars(key).await?;
    let means = summaries(reports.iter().map(|(scalars, weight)| (scalars, *weight)));
    let means: BTreeMap<_, _> = means.into_iter().map(|summary| (summary.name, summary.mean)).collect();
    // More names than a report may have: a few of each client. The sum is worth more than its scalars.
    Ok(Scalars::try_from(means).unwrap_or_default())
}

/// The sum as a body. The caps of the spec are those of the parent's round.
fn body_of(sum: &RoundSum, spec: &JobSpec, base_version: u32) -> Vec<u8> {
    let accumulator = sum.accumulator();
    let values = spec.update.total();
    let tag = tag(&spec.id, base_version, accumulator.binary_point());
    let mut writer = SumWriter::new(tag, accumulator.counted(), u32::try_from(values).unwrap_or(u32::MAX));
    let mut body = Vec::new();
    for first in (0..values).step_by(VALUES_AT_ONCE) {
        writer.push(&accumulator.integers(first..values.min(first + VALUES_AT_ONCE)));
        body.append(&mut writer.take());
    }
    body.append(&mut writer.finish().expect("every value was written"));
    body
}
