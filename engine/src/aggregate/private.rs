//! The private sum: updates that are clipped in integers, noise that is added once, a fixed divisor.
//!
//! A value becomes a multiple of a grid whose step is the clip times the noise multiplier divided by 2^20, so the noise
//! has a standard deviation of exactly 2^20 steps in every job. From there on everything is an integer: no rounding
//! stands between what a client sent and what is released, and the bound on one update is a fact, whatever it was. The
//! norm of an update is known only once it was read, so an update is read three times: for its norm, for the norm of
//! its integers, and into the sum.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tributary_protocol::fixed::Weight;
use tributary_protocol::update::DeltaSink;

use super::combine::Combined;
use super::statistics::NormOf;
use super::stripes::Stripes;
use crate::privacy::{IntegerClip, NOISE_PLACES, SquareSum};

/// Values that are rounded at a time: they stay in the processor's cache.
const BLOCK_VALUES: usize = 1 << 12;

/// What an update counts for that is not late.
const WHOLE: Weight = Weight::examples(1);

/// How the values of a round's updates become integers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grid {
    /// Largest L2 norm of an update.
    clip: f64,
    /// Distance of two neighbouring values.
    step: f64,
    /// Largest L2 norm of an update's integers.
    bound: u64,
}

impl Grid {
    /// The grid of updates clipped to this norm, to whose sum noise with a standard deviation of `noise_multiplier`
    /// clips is added. Both are finite and above 0.
    pub fn new(clip: f64, noise_multiplier: f64) -> Self {
        let deviation = f64::from(1u32 << NOISE_PLACES);
        Self { clip, step: noise_multiplier * clip / deviation, bound: (deviation / noise_multiplier).floor() as u64 }
    }

    /// How an update with this norm is scaled first; nothing of one whose norm is no number.
    pub fn scaling(&self, norm: f64) -> Scaling {
        let factor = if norm.is_finite() { (self.clip / norm).min(1.0) } else { 0.0 };
        Scaling { factor: factor / self.step, is_whole: norm <= self.clip }
    }

    /// By what integers with these squares are shortened so that they keep the bound; nothing if they keep it already.
    #[must_use]
    pub fn shortening(&self, squares: SquareSum) -> Option<IntegerClip> {
        squares.clip(self.bound)
    }
}

/// What one update is multiplied by before it is rounded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scaling {
    factor: f64,
    /// Whether the clip leaves the update as it is.
    pub is_whole: bool,
}

impl Scaling {
    /// A conversion saturates, and makes 0 of what is no number.
    fn integer(self, value: f32) -> i64 {
        (f64::from(value) * self.factor).round() as i64
    }
}

/// The second reading of an update, after that of its norm: the squares of its integers.
#[derive(Debug)]
pub struct SquaresOf {
    scaling: Scaling,
    squares: SquareSum,
}

impl SquaresOf {
    /// Goes on from the squares of what was read before; from none at the beginning of an update.
    pub fn going_on(scaling: Scaling, squares: SquareSum) -> Self {
        Self { scaling, squares }
    }

    /// The squares so far.
    #[must_use]
    pub fn finish(&self) -> SquareSum {
        self.squares
    }

    fn add(&mut self, values: &[f32]) {
        for block in values.chunks(BLOCK_VALUES) {
            let integers: Vec<i64> = block.iter().map(|value| self.scaling.integer(*value)).collect();
            self.squares.add(&integers);
        }
    }
}

impl DeltaSink for SquaresOf {
    fn dense(&mut self, _first: usize, values: &[f32]) {
        self.add(values);
    }

    fn sparse(&mut self, _first: usize, _indices: &[u32], values: &[f32]) {
        self.add(values);
    }
}

/// The third reading of an update: into the sum.
#[derive(Debug)]
pub struct ClippedInto {
    sum: Arc<PrivateSum>,
    scaling: Scaling,
    clip: Option<IntegerClip>,
    /// What the update counts for, of [`WHOLE`].
    weight: Weight,
}

impl ClippedInto {
    /// Adds the update with this scaling and this integer clip to a sum.
    pub fn new(sum: Arc<PrivateSum>, scaling: Scaling, clip: Option<IntegerClip>) -> Self {
        Self { sum, scaling, clip, weight: WHOLE }
    }

    /// The same of a late update, which counts for less. Its integers are rounded towards 0, so they keep the bound.
    #[must_use]
    pub fn weighing(self, weight: Weight) -> Self {
        Self { weight: weight.min(WHOLE), ..self }
    }

    fn integers(&self, values: &[f32]) -> Vec<i64> {
        let mut integers: Vec<i64> = values.iter().map(|value| self.scaling.integer(*value)).collect();
        if let Some(clip) = &self.clip {
            clip.apply(&mut integers);
        }
        if self.weight < WHOLE {
            let (units, whole) = (i128::from(self.weight.units()), i128::from(WHOLE.units()));
            integers.iter_mut().for_each(|integer| *integer = (i128::from(*integer) * units / whole) as i64);
        }
        integers
    }
}

impl DeltaSink for ClippedInto {
    fn dense(&mut self, first: usize, values: &[f32]) {
        for (block, values) in values.chunks(BLOCK_VALUES).enumerate() {
            self.sum.stripes.add_integers(first + block * BLOCK_VALUES, &self.integers(values));
        }
    }

    fn sparse(&mut self, first: usize, indices: &[u32], values: &[f32]) {
        for (index, integer) in indices.iter().zip(self.integers(values)) {
            self.sum.stripes.add_integers(first + *index as usize, &[integer]);
        }
    }
}

/// Integers of the updates of a round, with the noise once it is added.
#[derive(Debug)]
pub struct PrivateSum {
    stripes: Stripes,
    /// By which a sum of steps is divided to give the mean: the fixed number of updates over the grid's step.
    divisor: f64,
    /// The parameters that the round releases; none for all.
    released: Option<Vec<Range<usize>>>,
    /// Updates that the clip left whole, and those that it shortened.
    whole: AtomicU32,
    clipped: AtomicU32,
}

impl PrivateSum {
    /// An empty sum of this many parameters, 8 bytes each, that is divided by `divisor` whatever number of updates
    /// comes: the number would tell who took part.
    pub fn new(parameters_total: usize, grid: Grid, divisor: f64) -> Self {
        let (whole, clipped) = (AtomicU32::new(0), AtomicU32::new(0));
        let stripes = Stripes::zeros(parameters_total);
        Self { stripes, divisor: divisor / grid.step, released: None, whole, clipped }
    }

    /// The same of a round that releases these parameters alone: the others stay as they are, without noise.
    #[must_use]
    pub fn releasing(self, released: Option<Vec<Range<usize>>>) -> Self {
        Self { released, ..self }
    }

    /// Adds an update that is in memory, and counts it.
    pub fn add(self: &Arc<Self>, grid: Grid, update: &[f32]) {
        let mut norm = NormOf::default();
        norm.dense(0, update);
        let scaling = grid.scaling(norm.finish());
        let mut squares = SquaresOf::going_on(scaling, SquareSum::default());
        squares.dense(0, update);
        self.count(scaling.is_whole);
        ClippedInto::new(Arc::clone(self), scaling, grid.shortening(squares.finish())).dense(0, update);
    }

    /// Counts an update for the clip that follows the counts.
    pub fn count(&self, is_whole: bool) {
        let counter = if is_whole { &self.whole } else { &self.clipped };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// The share of updates that the clip left whole, with noise that has so many steps and a standard deviation of
    /// `deviation` updates; 0 to 1. The bit of an update is 1/2 or -1/2, as an integer like its values.
    pub fn clip_share(&self, deviation: f64, divisor: f64, noise: i64) -> f64 {
        let steps = f64::from(1u32 << NOISE_PLACES);
        let bit = (steps / (2.0 * deviation)).floor() as i64;
        let released = bit * self.bits() + noise;
        (released as f64 * deviation / steps / divisor + 0.5).clamp(0.0, 1.0)
    }

    /// Twice the sum of the bits.
    fn bits(&self) -> i64 {
        i64::from(self.whole.load(Ordering::Relaxed)) - i64::from(self.clipped.load(Ordering::Relaxed))
    }

    /// Number of parameters.
    pub fn total(&self) -> usize {
        self.stripes.parameters_total()
    }

    /// Adds noise, in steps of the grid, to the parameters from `first` on. It is added once.
    ///
    /// # Panics
    /// If the noise reaches past the last parameter, which is a mistake of the caller.
    pub fn add_noise(&self, first: usize, noise: &[i64]) {
        self.stripes.add_integers(first, noise);
    }
}

impl Combined for PrivateSum {
    fn parameters_total(&self) -> usize {
        self.stripes.parameters_total()
    }

    /// There is always a mean: without updates it is noise, as it must be.
    fn mean(&self, block: Range<usize>) -> Option<Vec<f64>> {
        let Some(released) = &self.released else { return Some(self.stripes.quotients(block, self.divisor)) };
        let mut means = vec![0.0; block.len()];
        for part in released {
            let both = part.start.max(block.start)..part.end.min(block.end);
            if both.start < both.end {
                let quotients = self.stripes.quotients(both.clone(), self.divisor);
                means[both.start - block.start..both.end - block.start].copy_from_slice(&quotients);
            }
        }
        Some(means)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads an update as a coordinator does.
    fn add(sum: &Arc<PrivateSum>, grid: Grid, update: &[f32], is_sparse: bool) {
        add_weighing(sum, grid, (update, WHOLE), is_sparse);
    }

    fn add_weighing(sum: &Arc<PrivateSum>, grid: Grid, (update, weight): (&[f32], Weight), is_sparse: bool) {
        let read = |sink: &mut dyn DeltaSink| match is_sparse {
            false => sink.dense(0, update),
            true => {
                let indices: Vec<u32> = (0..update.len() as u32).filter(|at| update[*at as usize] != 0.0).collect();
                let values: Vec<f32> = indices.iter().map(|at| update[*at as usize]).collect();
                sink.sparse(0, &indices, &values);
            }
        };
        let mut norm = NormOf::default();
        read(&mut norm);
        let scaling = grid.scaling(norm.finish());
        let mut squares = SquaresOf::going_on(scaling, SquareSum::default());
        read(&mut squares);
        sum.count(scaling.is_whole);
        read(&mut ClippedInto::new(Arc::clone(sum), scaling, grid.shortening(squares.finish())).weighing(weight));
    }

    fn integers(sum: &PrivateSum) -> Vec<i64> {
        let means = sum.mean(0..sum.parameters_total()).unwrap();
        means.iter().map(|mean| (mean * sum.divisor).round() as i64).collect()
    }

    #[test]
    fn an_update_within_the_clip_is_its_mean_and_one_beyond_it_is_scaled_down() {
        let grid = Grid::new(5.0, 1.0);
        assert_eq!(grid.bound, 1 << 20);
        let sum = Arc::new(PrivateSum::new(2, grid, 4.0));
        add(&sum, grid, &[3.0, -4.0], false);
        let near = |got: &[f64], wanted: [f64; 2]| got.iter().zip(wanted).all(|(got, want)| (got - want).abs() < 1e-5);
        assert!(near(&sum.mean(0..2).unwrap(), [0.75, -1.0]), "{:?}", sum.mean(0..2));
        add(&sum, grid, &[30.0, -40.0], false);
        assert!(near(&sum.mean(0..2).unwrap(), [1.5, -2.0]), "{:?}", sum.mean(0..2));
        assert_eq!(sum.bits(), 0, "one was left whole, one was shortened");
        assert_eq!((sum.clip_share(1.0, 2.0, 0), sum.clip_share(1.0, 2.0, 1 << 19)), (0.5, 0.75));
        sum.add_noise(1, &[1 << 20]);
        assert!(near(&sum.mean(0..2).unwrap(), [1.5, -0.75]), "the noise of one deviation is one clip");
    }

    #[test]
    fn a_sparse_update_is_clipped_as_the_dense_one() {
        let grid = Grid::new(5.0, 1.0);
        for (update, bits) in [([3.0, 0.0, -4.0], 1), ([30.0, 0.0, -40.0], -1)] {
            let of = |is_sparse| {
                let sum = Arc::new(PrivateSum::new(3, grid, 1.0));
                add(&sum, grid, &update, is_sparse);
                assert_eq!(sum.bits(), bits);
                integers(&sum)
            };
            assert_eq!(of(true), of(false));
        }
    }

    #[test]
    fn a_client_that_sends_a_million_times_its_norm_changes_nothing_more() {
        let grid = Grid::new(0.5, 0.7);
        let of = |factor: f32| {
            let sum = Arc::new(PrivateSum::new(3, grid, 1.0));
            add(&sum, grid, &[0.6 * factor, -0.2 * factor, 0.3 * factor], false);
            integers(&sum)
        };
        let (one, many) = (of(1.0), of(1e6));
        assert!(one.iter().zip(&many).all(|(one, many)| (one - many).abs() <= 1), "{one:?} {many:?}");
    }

    #[test]
    fn a_late_update_counts_for_its_part_and_never_for_more_than_one() {
        let grid = Grid::new(5.0, 1.0);
        let of = |weight: Weight| {
            let sum = Arc::new(PrivateSum::new(2, grid, 1.0));
            add_weighing(&sum, grid, (&[3.0, -4.0], weight), false);
            integers(&sum)
        };
        let (whole, half) = (of(WHOLE), of(WHOLE.discounted(0.5)));
        assert_eq!(of(Weight::examples(900)), whole);
        assert_eq!(half, [whole[0] / 2, whole[1] / 2], "both are rounded towards 0");
    }

    #[test]
    fn a_round_releases_the_parameters_that_it_asks_for() {
        let grid = Grid::new(1.0, 1.0);
        let sum = Arc::new(PrivateSum::new(6, grid, 1.0).releasing(Some(vec![1..3, 4..5])));
        sum.add(grid, &[0.1; 6]);
        sum.add_noise(0, &[1 << 20; 6]);
        let released = |block| sum.mean(block).unwrap().iter().map(|value| value.round()).collect::<Vec<_>>();
        assert_eq!(released(0..6), [0.0, 1.0, 1.0, 0.0, 1.0, 0.0]);
        assert_eq!((released(2..5), released(5..6)), (vec![1.0, 0.0, 1.0], vec![0.0]));
    }

    proptest! {
        /// Goal: no client moves the integer sum by more than the bound, whatever it sends. Method: arbitrary values,
        /// those that are no numbers among them, dense and sparse, late and in time.
        #[test]
        fn no_update_moves_the_sum_by_more_than_the_bound(
            update in prop::collection::vec(prop_oneof![
                any::<f32>(), -1.0f32..1.0, Just(f32::NAN), Just(f32::INFINITY), Just(f32::MAX), Just(0.0),
            ], 1..40),
            clip in 1e-9f64..1e9, noise in 0.01f64..100.0, is_sparse in any::<bool>(), factor in 0.0f64..1.5,
        ) {
            let grid = Grid::new(clip, noise);
            let sum = Arc::new(PrivateSum::new(update.len(), grid, 1.0));
            add_weighing(&sum, grid, (&update, WHOLE.discounted(factor)), is_sparse);
            let squares: u128 = integers(&sum).iter().map(|value| u128::from(value.unsigned_abs()).pow(2)).sum();
            prop_assert!(squares <= u128::from(grid.bound).pow(2), "{} {}", squares, grid.bound);
        }

        #[test]
        fn order_does_not_change_a_bit(updates in prop::collection::vec(prop::collection::vec(-2.0f32..2.0, 5), 1..9)) {
            let grid = Grid::new(1.0, 2.0);
            let of = |updates: &mut dyn Iterator<Item = &Vec<f32>>| {
                let sum = Arc::new(PrivateSum::new(5, grid, 3.0));
                updates.for_each(|update| sum.add(grid, update));
                integers(&sum)
            };
            prop_assert_eq!(of(&mut updates.iter()), of(&mut updates.iter().rev()));
        }
    }
}
