//! Update statistics of a round, computed when it ends: diversity and cosines. Norms are those of the pass that makes
//! the model.
//!
//! Where the rule is a mean, cosines come from the sketches that were made when updates were added to the sum. Other
//! rules read the updates again.

use std::sync::Arc;

use tributary_engine::aggregate::{
    Discount, Leading, MadeNorms, MeanDot, Share, SharedCombined, Sketched, Weighing, cosine, diversity,
    dots_with_mean, effective_number,
};
use tributary_engine::job::JobSpec;
use tributary_protocol::id::AssignmentId;

use crate::db::{RoundRow, RoundStatistics};
use crate::services::Services;
use crate::updates::stored::{StoredError, StoredUpdate, each};
use crate::updates::sums::{RoundSum, Sums};

/// Most values of updates that are read again for cosines. Larger rounds have no cosines.
const COSINE_VALUES_MAX: u64 = 1 << 26;
/// Most updates whose cosines are stored: each is a statement in the transaction that ends the round.
const COSINE_UPDATES_MAX: u64 = 1 << 12;

/// The statistics of a round of which only the step may be known.
pub(super) fn step_statistics(norms: MadeNorms) -> RoundStatistics {
    RoundStatistics { step_norm: Some(norms.step).filter(|norm| norm.is_finite()), ..RoundStatistics::default() }
}

/// The statistics of a round whose updates are combined.
///
/// When updates cannot be read, the cosines are missing: the model no longer needs the updates, so its statistics must
/// not fail the round.
pub(super) async fn update_statistics(
    services: &Services,
    sums: &Sums,
    spec: &Arc<JobSpec>,
    round: &RoundRow,
    updates: Vec<StoredUpdate>,
    combined: &SharedCombined,
    norms: MadeNorms,
) -> Result<RoundStatistics, StoredError> {
    let delta = Arc::new(Leading { combined: Arc::clone(combined), values: spec.shared().total() });
    let statistics = norm_statistics(spec, &updates, norms);
    let shares = shares_of(spec, &updates);
    let cosines = match (&shares, sums.get(round.key(), None)) {
        _ if norms.mean == 0.0 => Ok(Vec::new()),
        (Some(shares), Some(sum)) => Ok(estimated_cosines(&sum, &updates, shares, norms.mean)),
        _ if is_small(updates.len() as u64, spec.update.total() as u64) => {
            cosines(services, spec, &delta, updates, norms.mean).await
        }
        _ => Ok(Vec::new()),
    };
    let cosines = cosines.unwrap_or_else(|error| {
        tracing::warn!(%error, job = %round.job, round = round.number, "the round has no cosines");
        Vec::new()
    });
    Ok(RoundStatistics { cosines, ..statistics })
}

/// What follows from the norms of updates and of their mean, without another look at the updates.
pub(super) fn norm_statistics(spec: &JobSpec, updates: &[StoredUpdate], norms: MadeNorms) -> RoundStatistics {
    let shares = shares_of(spec, updates);
    let diversity = shares.as_ref().and_then(|shares| diversity_of(updates, shares, norms.mean));
    let weights = shares.as_ref().filter(|_| diversity.is_some());
    let effective_updates = weights.and_then(|shares| effective_number(shares.iter().map(|share| share.weight)));
    RoundStatistics { diversity, effective_updates, ..step_statistics(norms) }
}

/// What each update counts for, where the job's rule is a mean.
fn shares_of(spec: &JobSpec, updates: &[StoredUpdate]) -> Option<Vec<Share>> {
    spec.weighing().map(|weighing| shares(updates, &spec.discount(), weighing))
}

/// What each update counts for in a mean.
fn shares(updates: &[StoredUpdate], discount: &Discount, weighing: Weighing) -> Vec<Share> {
    updates.iter().map(|update| discount.share(weighing, update.facts.figures.contribution, update.staleness)).collect()
}

/// The diversity of updates whose combination is a mean; other rules have none, nor do updates of unknown norms.
fn diversity_of(updates: &[StoredUpdate], shares: &[Share], mean_norm: f64) -> Option<f64> {
    let norms = shares.iter().zip(updates).map(|(share, update)| Some((share.weight, update.facts.figures.norm?)));
    let total: f64 = shares.iter().map(|share| share.divisor.as_f64()).sum();
    diversity(&norms.collect::<Option<Vec<_>>>()?, mean_norm * total)
}

/// Cosines from the sketches of the updates in a sum; none for more updates than have sketches.
fn estimated_cosines(
    sum: &RoundSum,
    updates: &[StoredUpdate],
    shares: &[Share],
    mean_norm: f64,
) -> Vec<(AssignmentId, f64)> {
    let sketches = sum.sketches(updates.iter().map(|update| update.assignment)).unwrap_or_default();
    let sketched = sketches.iter().zip(shares).zip(updates);
    let sketched =
        sketched.map(|((sketch, share), update)| Sketched { sketch, share: *share, norm: update.facts.norm() });
    let dots = dots_with_mean(&sketched.collect::<Vec<_>>());
    let cosines = updates.iter().zip(dots);
    let cosines = cosines.map(|(update, dot)| (update.assignment, cosine(dot, update.facts.norm(), mean_norm)));
    cosines.filter_map(|(assignment, cosine)| Some((assignment, cosine?))).collect()
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
    let cosines = cosines.map(|(update, dot)| (update.assignment, cosine(dot, update.facts.norm(), mean_norm)));
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
