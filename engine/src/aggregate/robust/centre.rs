//! Centres that move by weighted steps: the geometric median and centered clipping.

use tributary_protocol::job_file::{CenteredClipping, GeometricMedian};

use super::distances::Distances;

/// The coefficients of the geometric median (RFA, Pillutla et al. 2022, <https://arxiv.org/abs/1912.13445>, algorithm
/// 2): from the mean, `z = sum b_k V_k / sum b_k` with `b_k = 1 / max(nu, |z - V_k|)`.
pub(in crate::aggregate) fn geometric_median(distances: &Distances, settings: GeometricMedian) -> Vec<f64> {
    let n = distances.vectors();
    let mut weights = vec![1.0 / n as f64; n];
    for _ in 0..settings.iterations {
        let from_centre = distances_from(distances, &weights);
        let pulls: Vec<f64> = from_centre.iter().map(|distance| 1.0 / distance.max(settings.smoothing)).collect();
        let total: f64 = pulls.iter().sum();
        weights = pulls.iter().map(|pull| pull / total).collect();
    }
    weights
}

/// The coefficients of centered clipping (Karimireddy et al. 2021, <https://arxiv.org/abs/2012.10333>, algorithm 2):
/// `v = v + mean((V_k - v) min(1, tau / |V_k - v|))`. The last vector is the centre from which the round starts, and
/// the last coefficient is its own.
pub(in crate::aggregate) fn centered_clipping(distances: &Distances, settings: CenteredClipping) -> Vec<f64> {
    let n = distances.vectors() - 1;
    let mut weights = vec![0.0; n + 1];
    weights[n] = 1.0;
    for _ in 0..settings.iterations {
        let from_centre = distances_from(distances, &weights);
        let pulls: Vec<f64> = from_centre[..n]
            .iter()
            // A vector at the centre does not move it.
            .map(|distance| (settings.radius / distance.max(f64::MIN_POSITIVE)).min(1.0) / n as f64)
            .collect();
        let total: f64 = pulls.iter().sum();
        for weight in &mut weights {
            *weight *= 1.0 - total;
        }
        weights.iter_mut().zip(&pulls).for_each(|(weight, pull)| *weight += pull);
    }
    weights
}

/// `|z - V_k|` for `z = sum w_j V_j` with weights that add up to 1:
/// `|z - V_k|^2 = sum_j w_j |V_j - V_k|^2 - 1/2 sum_ij w_i w_j |V_i - V_j|^2`.
fn distances_from(distances: &Distances, weights: &[f64]) -> Vec<f64> {
    let n = distances.vectors();
    let means: Vec<f64> =
        (0..n).map(|k| weights.iter().enumerate().map(|(j, weight)| weight * distances.square(j, k)).sum()).collect();
    let spread: f64 = weights.iter().zip(&means).map(|(weight, mean)| weight * mean).sum();
    means.iter().map(|mean: &f64| (mean - spread / 2.0).max(0.0).sqrt()).collect()
}
