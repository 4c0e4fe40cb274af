//! Update statistics: norms, gradient diversity, cosines.
//!
//! Each figure is summed in f64 in one fixed order, so that computing it again gives the same bits.

use std::ops::Range;

use tributary_protocol::fixed::Weight;
use tributary_protocol::update::DeltaSink;

use super::combine::Combined;

/// Values of the mean that are read at a time: 64 KiB, which stay in the processor's cache.
const MEAN_VALUES: usize = 1 << 13;

/// The leading combined values, this many: those of the delta, where updates carry more than it.
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

/// Parts of a sum that are added side by side, as many as the decoder of an update has for its norm.
const PARTS: usize = 16;

/// A sum of many products. Product n is added to part n modulo [`PARTS`], so the result does not depend on how the
/// values are cut into blocks, and a processor adds several at a time: in a single sum each addition waits for the one
/// before.
#[derive(Clone, Copy, Debug, Default)]
struct Products([f64; PARTS]);

impl Products {
    /// Adds the products of two vectors of one length; that of their first values is number `first`.
    fn add<A: Copy + Into<f64>, B: Copy + Into<f64>>(&mut self, first: usize, one: &[A], other: &[B]) {
        let head = first.next_multiple_of(PARTS).saturating_sub(first).min(one.len());
        let ((one_head, one), (other_head, other)) = (one.split_at(head), other.split_at(head));
        self.add_from(first % PARTS, one_head, other_head);
        let ((one, one_tail), (other, other_tail)) = (one.as_chunks::<PARTS>(), other.as_chunks::<PARTS>());
        for (one, other) in one.iter().zip(other) {
            self.add_from(0, one, other);
        }
        self.add_from(0, one_tail, other_tail);
    }

    /// Adds at most [`PARTS`] products, to the parts from this one on.
    #[inline]
    fn add_from<A: Copy + Into<f64>, B: Copy + Into<f64>>(&mut self, part: usize, one: &[A], other: &[B]) {
        for (part, (one, other)) in self.0[part..].iter_mut().zip(one.iter().zip(other)) {
            *part += (*one).into() * (*other).into();
        }
    }

    fn add_one(&mut self, number: usize, value: f64, mean: f64) {
        self.0[number % PARTS] += value * mean;
    }

    fn total(&self) -> f64 {
        self.0.iter().sum()
    }
}

/// The L2 norm of a vector whose values come in blocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Norm {
    squares: Products,
    values: usize,
}

impl Norm {
    /// Takes the next values.
    pub fn add<V: Copy + Into<f64>>(&mut self, values: &[V]) {
        self.squares.add(self.values, values, values);
        self.values += values.len();
    }

    /// The norm of the values so far.
    #[must_use]
    pub fn finish(&self) -> f64 {
        self.squares.total().sqrt()
    }
}

/// The L2 norm of an update, whose values come at their places: that which its decoder finds. Where an update comes in
/// parts, the norm of each goes on from that of the part before it, with the bits of the whole.
#[derive(Clone, Copy, Debug, Default)]
pub struct NormOf {
    squares: Products,
    /// The place in the update of the first value that comes.
    first: usize,
}

impl NormOf {
    /// Goes on from [`Self::bits`] with a part that begins at this value of the update. None for what is no norm.
    #[must_use]
    pub fn going_on(bits: &[u64], first: usize) -> Option<Self> {
        let parts = <[u64; PARTS]>::try_from(bits).ok()?;
        Some(Self { squares: Products(parts.map(f64::from_bits)), first })
    }

    /// The squares so far, from which another coordinator can go on.
    #[must_use]
    pub fn bits(&self) -> Vec<u64> {
        self.squares.0.iter().map(|part| part.to_bits()).collect()
    }

    /// The L2 norm of what was read.
    #[must_use]
    pub fn finish(&self) -> f64 {
        self.squares.total().sqrt()
    }
}

impl DeltaSink for NormOf {
    fn dense(&mut self, first: usize, values: &[f32]) {
        self.squares.add(self.first + first, values, values);
    }

    fn sparse(&mut self, first: usize, indices: &[u32], values: &[f32]) {
        for (index, value) in indices.iter().zip(values) {
            self.squares.add_one(self.first + first + *index as usize, f64::from(*value), f64::from(*value));
        }
    }
}

/// Gradient diversity (Yin et al. 2018, <https://arxiv.org/abs/1706.05699>, definition 1) of weighted updates:
/// `sum |w_k d_k|^2 / |sum w_k d_k|^2`.
///
/// `updates` are pairs of weight and L2 norm, in any order; `sum_norm` is the L2 norm of their weighted sum. The result
/// is 1/n for n equal updates of equal weight and 1 for orthogonal ones; none where they cancel out or are all zero.
pub fn diversity(updates: &[(Weight, f64)], sum_norm: f64) -> Option<f64> {
    // Dividing before squaring keeps the squares of large norms finite.
    let share = |(weight, norm): &(Weight, f64)| (weight.as_f64() * norm / sum_norm).powi(2);
    let mut parts: Vec<f64> = updates.iter().map(share).collect();
    parts.sort_unstable_by(f64::total_cmp);
    let diversity: f64 = parts.iter().sum();
    (sum_norm > 0.0 && diversity.is_finite() && diversity > 0.0).then_some(diversity)
}

/// How many updates of equal weight a weighted sum is worth: `(sum w_k)^2 / sum w_k^2`, which is n for n equal weights
/// (Kish 1965). A sum of one heavy update and many light ones is worth little more than one. None without a weight.
pub fn effective_number(weights: impl Iterator<Item = Weight>) -> Option<f64> {
    // Sums of whole numbers, so their order changes nothing that is visible.
    let (sum, squares) = weights.fold((0.0, 0.0), |(sum, squares), weight| {
        let weight = weight.as_f64();
        (sum + weight, squares + weight * weight)
    });
    (squares > 0.0).then(|| sum * sum / squares)
}

/// Cosine of the angle between an update and the mean, from their dot product and L2 norms; none where a norm is zero.
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
    products: Products,
}

impl<C: Combined> MeanDot<C> {
    /// Starts at zero. `sum` holds at least one update.
    pub fn new(sum: C) -> Self {
        Self { sum, products: Products::default() }
    }

    /// The dot product of the blocks so far.
    #[must_use]
    pub fn finish(self) -> f64 {
        self.products.total()
    }
}

impl<C: Combined> DeltaSink for MeanDot<C> {
    fn dense(&mut self, first: usize, values: &[f32]) {
        let values = &values[..self.sum.parameters_total().saturating_sub(first).min(values.len())];
        for (number, block) in values.chunks(MEAN_VALUES).enumerate() {
            let first = first + number * MEAN_VALUES;
            let Some(means) = self.sum.mean(first..first + block.len()) else { return };
            self.products.add(first, block, &means);
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
                let number = first + *index as usize;
                self.products.add_one(number, f64::from(*value), means[number - begins]);
            }
            (indices, values) = (now.1, later.1);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tributary_protocol::fixed::Contribution;

    use super::*;
    use crate::aggregate::{Accumulator, SumCaps};

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

    fn mean_norm(sum: &dyn Combined) -> Option<f64> {
        let mut norm = Norm::default();
        norm.add(&sum.mean(0..sum.parameters_total())?);
        Some(norm.finish())
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
    fn the_same_update_with_other_weights_has_a_diversity_of_one_by_their_effective_number() {
        let weights = [1, 1, 1, 1, 1, 100];
        let got = diversity_of(&weights.map(|weight| (vec![3.0, -4.0], weight))).unwrap();
        let effective = effective_number(weights.into_iter().map(Weight::examples)).unwrap();
        assert!((effective - 105.0 * 105.0 / 10_005.0).abs() < 1e-12);
        assert!((got * effective - 1.0).abs() < 1e-6, "{got}");
        assert_eq!(effective_number([7; 5].into_iter().map(Weight::examples)), Some(5.0));
        assert_eq!(effective_number(std::iter::empty()), None);
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
        let indices: Vec<u32> = (0..parameters as u32 - 2).step_by(4_001).collect();
        let values: Vec<f32> = indices.iter().map(|index| (index % 7) as f32 - 3.0).collect();
        let mut dense = vec![0.0; parameters];
        dense.sparse(2, &indices, &values);
        let (mut one, mut other) = (MeanDot::new(&sum), MeanDot::new(&sum));
        one.sparse(2, &indices, &values);
        other.dense(0, &dense);
        assert_eq!(one.finish().to_bits(), other.finish().to_bits());
    }

    #[test]
    fn norms_and_dot_products_do_not_depend_on_how_a_vector_is_cut() {
        let delta: Vec<f32> = (0..2 * MEAN_VALUES + 5).map(|index| (index % 977) as f32 * 0.013 - 5.0).collect();
        let sum = sum_of(&[(delta.clone(), 3)]);
        let mut whole = MeanDot::new(&sum);
        whole.dense(0, &delta);
        let whole = whole.finish();
        let mut norm = Norm::default();
        delta.chunks(1000).for_each(|piece| norm.add(piece));
        let mut at_once = Norm::default();
        at_once.add(&delta);
        assert_eq!(norm.finish().to_bits(), at_once.finish().to_bits());
        let plain: f64 = delta.iter().map(|value| f64::from(*value).powi(2)).sum();
        for whole in [whole, norm.finish().powi(2)] {
            assert!((whole / plain - 1.0).abs() < 1e-9, "{whole} instead of {plain}");
        }
        for length in [1, 3, 8, 1000, MEAN_VALUES + 1] {
            let mut cut = MeanDot::new(&sum);
            for (number, piece) in delta.chunks(length).enumerate() {
                cut.dense(number * length, piece);
            }
            assert_eq!(cut.finish().to_bits(), whole.to_bits(), "{length}");
        }
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
