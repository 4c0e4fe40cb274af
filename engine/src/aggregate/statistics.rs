//! Update statistics: norm of the mean, gradient diversity, cosines.
//!
//! Each figure is summed in f64 in one fixed order, so that computing it again gives the same bits.

use std::ops::Range;

use tributary_protocol::update::DeltaSink;

use super::combine::Combined;
use super::weight::Weight;

/// Values of the mean that are read at a time: 64 KiB, which stay in the processor's cache.
const MEAN_VALUES: usize = 1 << 13;

/// The first so many combined values: those of the delta, where updates carry more than that.
#[derive(Debug)]
pub struct Leading<C> {
    pub combined: C,
    pub values: usize,
}

impl<C: Combined> Combined for Leading<C> {
    fn parameters_total(&self) -> usize {
        self.values
    }

    fn mean(&self, block: Range<usize>) -> Option<Vec<f64>> {
        assert!(block.end <= self.values, "the block {block:?} reaches behind the delta");
        self.combined.mean(block)
    }
}

/// L2 norm of the combined updates; none if there is no update.
#[must_use]
pub fn mean_norm(sum: &dyn Combined) -> Option<f64> {
    let total = sum.parameters_total();
    let mut squares = 0.0;
    for first in (0..total).step_by(MEAN_VALUES) {
        for mean in sum.mean(first..total.min(first + MEAN_VALUES))? {
            squares += mean * mean;
        }
    }
    Some(squares.sqrt())
}

/// Gradient diversity (Yin et al. 2018, <https://arxiv.org/abs/1706.05699>, definition 1) of weighted updates:
/// `sum |w_k d_k|^2 / |sum w_k d_k|^2`.
///
/// `updates` are pairs of weight and L2 norm, in any order; `sum_norm` is the L2 norm of their weighted sum. The result
/// is 1/n for n equal updates and 1 for orthogonal ones; none where they cancel out or are all zero.
#[must_use]
pub fn diversity(updates: &[(Weight, f64)], sum_norm: f64) -> Option<f64> {
    // Dividing before squaring keeps the squares of large norms finite.
    let share = |(weight, norm): &(Weight, f64)| (weight.as_f64() * norm / sum_norm).powi(2);
    let mut parts: Vec<f64> = updates.iter().map(share).collect();
    parts.sort_unstable_by(f64::total_cmp);
    let diversity: f64 = parts.iter().sum();
    (sum_norm > 0.0 && diversity.is_finite() && diversity > 0.0).then_some(diversity)
}

/// Cosine of the angle between an update and the mean, from their dot product and L2 norms; none where a norm is zero.
#[must_use]
pub fn cosine(dot: f64, update_norm: f64, mean_norm: f64) -> Option<f64> {
    // Two divisions: the product of two small norms could underflow.
    let cosine = dot / update_norm / mean_norm;
    (update_norm > 0.0 && mean_norm > 0.0 && cosine.is_finite()).then(|| cosine.clamp(-1.0, 1.0))
}

/// The dot product of an update with the mean, computed while the update is decoded. Values of the update behind the
/// mean's last are left out.
#[derive(Debug)]
pub struct MeanDot<C> {
    sum: C,
    dot: f64,
}

impl<C: Combined> MeanDot<C> {
    /// Starts at zero. `sum` holds at least one update.
    #[must_use]
    pub fn new(sum: C) -> Self {
        Self { sum, dot: 0.0 }
    }

    /// The dot product of the blocks so far.
    #[must_use]
    pub fn finish(self) -> f64 {
        self.dot
    }
}

impl<C: Combined> DeltaSink for MeanDot<C> {
    fn dense(&mut self, first: usize, values: &[f32]) {
        let values = &values[..self.sum.parameters_total().saturating_sub(first).min(values.len())];
        for (number, block) in values.chunks(MEAN_VALUES).enumerate() {
            let first = first + number * MEAN_VALUES;
            let Some(means) = self.sum.mean(first..first + block.len()) else { return };
            for (value, mean) in block.iter().zip(means) {
                self.dot += f64::from(*value) * mean;
            }
        }
    }

    fn sparse(&mut self, first: usize, indices: &[u32], values: &[f32]) {
        let within = indices.partition_point(|index| first + (*index as usize) < self.sum.parameters_total());
        let (mut indices, mut values) = (&indices[..within], &values[..within]);
        while let Some(index) = indices.first() {
            let begins = first + *index as usize;
            // As many indices as lie within one block of the mean.
            let here = indices.partition_point(|index| first + (*index as usize) < begins + MEAN_VALUES);
            let (now, later) = (indices.split_at(here), values.split_at(here));
            let end = first + now.0[here - 1] as usize + 1;
            let Some(means) = self.sum.mean(begins..end) else { return };
            for (index, value) in now.0.iter().zip(later.0) {
                self.dot += f64::from(*value) * means[first + *index as usize - begins];
            }
            (indices, values) = (now.1, later.1);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::aggregate::{Accumulator, Contribution, SumCaps};

    const CAPS: SumCaps = SumCaps { weight_max: Weight::examples(1000), magnitude_max: 8.0, updates_max: 50 };

    fn sum_of(updates: &[(Vec<f32>, u32)]) -> Accumulator {
        let sum = Accumulator::new(updates[0].0.len(), CAPS).unwrap();
        for (delta, weight) in updates {
            let weight = Weight::examples(*weight);
            sum.add(0, delta, weight);
            sum.count(Contribution::of_one(weight)).unwrap();
        }
        sum
    }

    fn norm(delta: &[f32]) -> f64 {
        delta.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt()
    }

    fn diversity_of(updates: &[(Vec<f32>, u32)]) -> Option<f64> {
        let sum = sum_of(updates);
        let norms: Vec<_> = updates.iter().map(|(delta, weight)| (Weight::examples(*weight), norm(delta))).collect();
        diversity(&norms, mean_norm(&sum).unwrap() * sum.counted().weight.as_f64())
    }

    fn cosine_of(update: &[f32], sum: &Accumulator) -> Option<f64> {
        let mut dot = MeanDot::new(sum);
        dot.dense(0, update);
        cosine(dot.finish(), norm(update), mean_norm(sum).unwrap())
    }

    #[test]
    fn the_same_update_n_times_has_a_diversity_of_one_nth() {
        for n in [1, 2, 4, 16] {
            let got = diversity_of(&vec![(vec![3.0, -4.0], 7); n]).unwrap();
            assert!((got - 1.0 / n as f64).abs() < 1e-12, "{n}: {got}");
        }
    }

    #[test]
    fn orthogonal_updates_of_any_length_have_a_diversity_of_one() {
        let got = diversity_of(&[(vec![0.5, 0.0, 0.0], 1), (vec![0.0, -8.0, 0.0], 900), (vec![0.0, 0.0, 0.001], 3)]);
        assert!((got.unwrap() - 1.0).abs() < 1e-12, "{got:?}");
    }

    #[test]
    fn updates_that_cancel_out_or_are_zero_have_no_diversity_and_no_cosine() {
        let opposite = [(vec![0.3, -0.7], 2), (vec![-0.6, 1.4], 1)];
        assert_eq!(diversity_of(&opposite), None);
        assert_eq!(cosine_of(&opposite[0].0, &sum_of(&opposite)), None);
        let nothing = [(vec![0.0, 0.0], 2)];
        assert_eq!(diversity_of(&nothing), None);
        assert_eq!(cosine_of(&nothing[0].0, &sum_of(&nothing)), None);
        assert_eq!(mean_norm(&Accumulator::new(2, CAPS).unwrap()), None);
        assert_eq!(diversity(&[], 1.0), None);
        assert_eq!(diversity(&[(Weight::examples(1), f64::MAX)], f64::MIN_POSITIVE), None);
    }

    #[test]
    fn cosines_are_those_of_the_angles_to_the_mean() {
        let updates = [(vec![4.0, 0.0], 1), (vec![0.0, 3.0], 1)];
        let sum = sum_of(&updates);
        assert_eq!(mean_norm(&sum), Some(2.5));
        assert_eq!(cosine_of(&updates[0].0, &sum), Some(0.8));
        assert_eq!(cosine_of(&updates[1].0, &sum), Some(0.6));
        assert_eq!(cosine_of(&[-2.0, -1.5], &sum), Some(-1.0));
    }

    #[test]
    fn a_sparse_update_has_the_dot_product_of_the_dense_one() {
        let parameters = 3 * MEAN_VALUES + 7;
        let sum = sum_of(&[((0..parameters).map(|index| (index % 5) as f32).collect(), 3)]);
        let indices: Vec<u32> = (0..parameters as u32 - 2).step_by(40_001).collect();
        let values: Vec<f32> = indices.iter().map(|index| (index % 7) as f32 - 3.0).collect();
        let mut dense = vec![0.0; parameters];
        dense.sparse(2, &indices, &values);
        let (mut one, mut other) = (MeanDot::new(&sum), MeanDot::new(&sum));
        one.sparse(2, &indices, &values);
        other.dense(0, &dense);
        assert_eq!(one.finish().to_bits(), other.finish().to_bits());
    }

    #[test]
    fn what_an_update_carries_behind_its_delta_counts_in_no_figure() {
        let sum = sum_of(&[(vec![4.0, 0.0, 100.0, 7.0], 1), (vec![0.0, 3.0, -50.0, 2.0], 1)]);
        let leading = || Leading { combined: &sum, values: 2 };
        assert_eq!(mean_norm(&leading()), Some(2.5));
        let (mut dense, mut sparse) = (MeanDot::new(leading()), MeanDot::new(leading()));
        dense.dense(0, &[4.0]);
        dense.dense(1, &[0.0, 100.0, 7.0]);
        sparse.sparse(0, &[0, 2, 3], &[4.0, 100.0, 7.0]);
        assert_eq!((dense.finish(), sparse.finish()), (8.0, 8.0));
    }

    proptest! {
        #[test]
        fn diversity_is_at_least_one_nth_and_knows_no_scale_and_no_order(
            deltas in prop::collection::vec((prop::collection::vec(0.01f32..1.0, 3), 1u32..=100), 1..=8),
        ) {
            let got = diversity_of(&deltas).unwrap();
            prop_assert!(got >= 1.0 / deltas.len() as f64 - 1e-9, "{got}");
            let scaled: Vec<_> = deltas
                .iter()
                .map(|(delta, weight)| (delta.iter().map(|value| value * 4.0).collect(), *weight))
                .collect();
            prop_assert!((diversity_of(&scaled).unwrap() / got - 1.0).abs() < 1e-9);
            let reversed: Vec<_> = deltas.into_iter().rev().collect();
            prop_assert_eq!(diversity_of(&reversed).unwrap().to_bits(), got.to_bits());
        }
    }
}
