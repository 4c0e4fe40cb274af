//! Update statistics of a round, computed when it ends: diversity and cosines. Norms are those of the pass that makes
//! the model.

use std::sync::Arc;

use tributary_engine::aggregate::{Discount, Leading, MeanDot, Weighing, Weight, cosine, diversity};
use tributary_engine::job::JobSpec;
use tributary_protocol::id::AssignmentId;

use super::gather::SharedCombined;
use crate::db::{RoundRow, RoundStatistics};
use crate::services::Services;
use crate::updates::stored::{StoredError, StoredUpdate, each};

/// Most values of updates that are read again for cosines. Larger rounds have no cosines.
const COSINE_VALUES_MAX: u64 = 1 << 26;
/// Most updates whose cosines are stored: each is a statement in the transaction that ends the round.
const COSINE_UPDATES_MAX: u64 = 1 << 12;

/// L2 norms of a round that is ending.
#[derive(Clone, Copy, Debug)]
pub(super) struct Norms {
    /// Of the combined updates, which clients sent.
    pub(super) mean: f64,
    /// Of what the optimiser made of them.
    pub(super) step: f64,
}

/// The statistics of a round whose updates are combined.
///
/// When updates cannot be read, the cosines are missing: the model no longer needs the updates, so its statistics must
/// not fail the round.
pub(super) async fn update_statistics(
    services: &Services,
    spec: &Arc<JobSpec>,
    round: &RoundRow,
    updates: Vec<StoredUpdate>,
    combined: &SharedCombined,
    norms: Norms,
) -> Result<RoundStatistics, StoredError> {
    let delta = Arc::new(Leading { combined: Arc::clone(combined), values: spec.shared().total() });
    let step_norm = Some(norms.step).filter(|norm| norm.is_finite());
    let diversity = spec.weighing().and_then(|weighing| diversity_of(&updates, &spec.discount(), weighing, norms.mean));
    let cosines = match norms.mean > 0.0 && is_small(updates.len() as u64, spec.update.total() as u64) {
        true => cosines(services, spec, &delta, updates, norms.mean).await,
        false => Ok(Vec::new()),
    };
    let cosines = cosines.unwrap_or_else(|error| {
        tracing::warn!(%error, job = %round.job, round = round.number, "the round has no cosines");
        Vec::new()
    });
    Ok(RoundStatistics { step_norm, diversity, cosines })
}

/// The diversity of updates whose combination is a mean; other rules have none.
fn diversity_of(updates: &[StoredUpdate], discount: &Discount, weighing: Weighing, mean_norm: f64) -> Option<f64> {
    let share = |update: &StoredUpdate| discount.share(weighing, update.examples, update.staleness);
    let norms: Vec<(Weight, f64)> = updates.iter().map(|update| (share(update).weight, update.facts.norm)).collect();
    let total: f64 = updates.iter().map(|update| share(update).divisor.as_f64()).sum();
    diversity(&norms, mean_norm * total)
}

/// Whether this many updates of this many values each are compared with their mean.
fn is_small(updates: u64, parameters: u64) -> bool {
    updates <= COSINE_UPDATES_MAX && updates.saturating_mul(parameters) <= COSINE_VALUES_MAX
}

async fn cosines(
    services: &Services,
    spec: &Arc<JobSpec>,
    combined: &Arc<Leading<SharedCombined>>,
    updates: Vec<StoredUpdate>,
    mean_norm: f64,
) -> Result<Vec<(AssignmentId, f64)>, StoredError> {
    let with_mean = |_: &StoredUpdate| Ok(Some(MeanDot::new(Arc::clone(combined))));
    let dots = each(services, spec, updates.clone(), with_mean, |dot, _| dot.finish()).await?;
    let cosines = updates.iter().zip(dots);
    let cosines = cosines.map(|(update, dot)| (update.assignment, cosine(dot, update.facts.norm, mean_norm)));
    Ok(cosines.filter_map(|(assignment, cosine)| Some((assignment, cosine?))).collect())
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
