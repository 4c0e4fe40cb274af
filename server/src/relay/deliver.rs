//! From a closed round to the parent.
//!
//! Bytes moved per value: 8 of the sum are read, about 5 of its body written, hashed and sent. The body is in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use tributary_engine::job::JobSpec;
use tributary_engine::round::summaries;
use tributary_protocol::relay::SumQuery;
use tributary_protocol::scalars::Scalars;
use tributary_protocol::state::AbandonReason;
use tributary_protocol::sum::{SumWriter, tag};

use super::upstream::{Delivered, Upstream, UpstreamError};
use crate::db::{OrderRow, PartFigures, RoundRow};
use crate::lifecycle::rounds;
use crate::models::error::CommitError;
use crate::models::gather::running_sum;
use crate::runtime::offload::blocking;
use crate::services::Services;
use crate::updates::sums::{RoundSum, Sums};

/// Values that are read from the sum at a time.
const VALUES_AT_ONCE: usize = 1 << 16;

/// Sends the sum of a closed round to the parent, and ends the round with its answer.
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
    let sum = running_sum(services, sums, spec, round).await?;
    let (base_version, written) = (round.base_version, Arc::clone(spec));
    let body = blocking(move || body_of(&sum, &written, base_version)).await;
    let mut tx = services.db.read().await?;
    let figures = tx.part_figures(key).await?;
    let reports = tx.reported_scalars(key).await?;
    drop(tx);
    let means = summaries(reports.iter().map(|(scalars, weight)| (scalars, *weight)));
    let means = means.into_iter().map(|summary| (summary.name, summary.mean));
    // More names than a report may have: a few of each client. The sum is worth more than its scalars.
    let metrics = Scalars::try_from(means.collect::<BTreeMap<_, _>>()).unwrap_or_default();
    let query = query_of(figures, metrics);
    let delivered = tokio::select! {
        delivered = upstream.deliver(order.assignment, body, query) => delivered?,
        // A link that is cut may keep the answer back for minutes. The next start delivers again.
        () = services.stopping.cancelled() => return Err(UpstreamError("the relay stops".into()).into()),
    };
    match delivered {
        Delivered::Counted => rounds::commit_part(services, key).await?,
        Delivered::Refused(reason) => {
            tracing::info!(%reason, job = %key.job, round = key.number, "the parent does not take the sum of a round");
            rounds::abandon(services, key, AbandonReason::Upstream).await?;
        }
    }
    sums.forget(key);
    Ok(())
}

fn query_of(figures: PartFigures, metrics: Scalars) -> SumQuery {
    let PartFigures { examples, loss, steps, work_ms } = figures;
    SumQuery { examples, loss, steps, train_ms: work_ms, metrics }
}

/// The sum as a body. The caps of the spec are those of the parent's round.
fn body_of(sum: &RoundSum, spec: &JobSpec, base_version: u32) -> Bytes {
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
    body.into()
}
