//! Measuring a round's updates when it ends: step, diversity, cosines. Of an update one piece is in memory at a time.

use std::sync::Arc;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use tributary_protocol::id::AssignmentId;
use tributary_protocol::job_file::Aggregation;
use tributary_protocol::update::UpdateDecoder;

use crate::aggregate::{MeanDot, cosine, diversity, mean_norm};
use crate::app::App;
use crate::blob::update_key;
use crate::commit::{CommitError, blocking};
use crate::db::{AssignmentRow, DbError, RoundMeasures, RoundRow};
use crate::driver::DriverError;
use crate::spec::JobSpec;
use crate::sums::SharedSum;

/// Most values of updates that are read once more for cosines; of larger rounds there are none.
const COSINE_VALUES_MAX: u64 = 1 << 26;
/// Most updates whose cosines are stored: each is a statement in the transaction that ends the round.
const COSINE_UPDATES_MAX: u64 = 1 << 12;
/// Updates that are read at the same time.
const UPDATES_AT_ONCE: usize = 4;
/// Bytes that are decoded at once, so that no task keeps its thread for long.
const PIECE_BYTES: usize = 64 << 10;

/// What is to be stored of the updates of a round whose sum is complete.
///
/// Without cosines where updates cannot be read: the model needs none of them any more, so neither must its figures.
pub(crate) async fn measure(
    app: &App,
    spec: &Arc<JobSpec>,
    round: &RoundRow,
    sum: &SharedSum,
) -> Result<RoundMeasures, DriverError> {
    let updates = app.db.read().await?.reported_assignments(round.key()).await?;
    let whole = Arc::clone(sum);
    let Some(norm) = blocking(move || mean_norm(whole.accumulator())).await else {
        return Ok(RoundMeasures::default());
    };
    let Aggregation::FedAvg { server_learning_rate } = spec.file.aggregation;
    let step_norm = Some(server_learning_rate.abs() * norm).filter(|norm| norm.is_finite());
    let told: Result<Vec<_>, DbError> = updates.iter().map(figures).collect();
    let diversity = diversity(&told?, norm * sum.accumulator().total_weight() as f64);
    let cosines = match norm > 0.0 && is_small(updates.len() as u64, spec.parameters.total() as u64) {
        true => cosines(app, spec, round, sum, updates, norm).await,
        false => Ok(Vec::new()),
    };
    let cosines = cosines.unwrap_or_else(|error| {
        tracing::warn!(%error, job = %round.job, round = round.number, "the round's updates are not compared");
        Vec::new()
    });
    Ok(RoundMeasures { step_norm, diversity, cosines })
}

/// Whether so many updates of so many values each are compared with their mean.
fn is_small(updates: u64, parameters: u64) -> bool {
    updates <= COSINE_UPDATES_MAX && updates.saturating_mul(parameters) <= COSINE_VALUES_MAX
}

/// Weight and norm of an update.
fn figures(assignment: &AssignmentRow) -> Result<(u64, f64), DbError> {
    let missing = || DbError::Corrupt(format!("{} reported no weight or norm", assignment.id));
    Ok((assignment.weight()?.ok_or_else(missing)?, assignment.update_norm.ok_or_else(missing)?))
}

async fn cosines(
    app: &App,
    spec: &Arc<JobSpec>,
    round: &RoundRow,
    sum: &SharedSum,
    updates: Vec<AssignmentRow>,
    mean_norm: f64,
) -> Result<Vec<(AssignmentId, f64)>, DriverError> {
    let compared = updates.into_iter().map(|update| async move {
        let (id, norm) = (update.id, update.update_norm.unwrap_or(0.0));
        let dot = dot(app, spec, round, sum, &update).await?;
        Ok::<_, DriverError>(cosine(dot, norm, mean_norm).map(|cosine| (id, cosine)))
    });
    let compared: Vec<_> = stream::iter(compared).buffered(UPDATES_AT_ONCE).try_collect().await?;
    Ok(compared.into_iter().flatten().collect())
}

/// The dot product of a stored update with the mean.
async fn dot(
    app: &App,
    spec: &Arc<JobSpec>,
    round: &RoundRow,
    sum: &SharedSum,
    update: &AssignmentRow,
) -> Result<f64, DriverError> {
    let id = update.id;
    let unreadable = |source| CommitError::Update { assignment: id, source };
    let sha256 = update.report().ok_or_else(|| DbError::Corrupt(format!("{id} has no report")))?;
    let header = spec.update_header(round.base_version);
    let mut decoder = UpdateDecoder::new(Arc::clone(&spec.parameters), header, spec.update_limits());
    let mut dot = MeanDot::new(sum.accumulator());
    let mut body = app.blobs.reader(&app.db, update_key(id), sha256).await?;
    while let Some(data) = body.next().await? {
        for piece in data.chunks(PIECE_BYTES) {
            decoder.push(piece, &mut dot).map_err(unreadable)?;
            tokio::task::yield_now().await;
        }
    }
    decoder.finish().map_err(unreadable)?;
    Ok(dot.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_rounds_are_not_read_again() {
        assert!(is_small(64, 1 << 20) && is_small(1, 1 << 26) && is_small(1 << 12, 1 << 14));
        assert!(!is_small(64, (1 << 20) + 1) && !is_small((1 << 12) + 1, 1) && !is_small(u64::MAX, u64::MAX));
    }
}
