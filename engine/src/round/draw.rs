//! Draws of clients without replacement.

use std::sync::Arc;

use tributary_protocol::seed::Stream;

use super::candidate::Candidate;

/// Keeps `size` of the candidates, each with the same chance.
pub(super) fn uniform(available: &mut Vec<Arc<Candidate>>, size: usize, stream: &mut Stream) {
    for place in 0..size {
        let other = place + stream.below((available.len() - place) as u64) as usize;
        available.swap(place, other);
    }
    available.truncate(size);
}

/// Candidates whose exponential clocks, with the weights as rates, ring first: a draw one by one with chances by weight
/// (Efraimidis and Spirakis 2006). Weights are above 0, and candidates come in the order of their numbers.
pub(super) fn weighted(
    weighted: impl Iterator<Item = (f64, Arc<Candidate>)>,
    size: usize,
    stream: &mut Stream,
) -> Vec<Arc<Candidate>> {
    let ring = |(weight, candidate): (f64, Arc<Candidate>)| (-(1.0 - stream.unit()).ln() / weight, candidate);
    let mut clocks: Vec<(f64, Arc<Candidate>)> = weighted.map(ring).collect();
    clocks.sort_by(|one, other| one.0.total_cmp(&other.0));
    clocks.into_iter().take(size).map(|(_, candidate)| candidate).collect()
}
