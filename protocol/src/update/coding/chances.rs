//! Adaptive probabilities that are learned in batches, and the probability that nothing happens in a group.
//!
//! A group of values is coded as one outcome, "all zero", whose probability is the product of the values' own. Products
//! are sums of logarithms, so each probability is kept with its cost: the bits that a zero takes. All arithmetic is
//! integer, so the bytes are the same on every platform.

use super::ans::ONE;

/// The unit of costs: 2^-20 bits. The smallest probability of a one, 2^-16, costs 23 units.
const COST_BITS: u32 = 20;
const BIT: u32 = 1 << COST_BITS;

/// Intervals of the tables of logarithms and powers. Interpolation between 256 points has an error below 3e-6.
const POINTS: usize = 256;
const POINT_BITS: u32 = POINTS.trailing_zeros();

/// `2^(-i / 256)` in units of 2^-32, except that the first is one unit less, so that it fits.
const POWERS: [u32; POINTS + 1] = {
    /// 2^(-1/256)
    const STEP: f64 = 0.997_296_056_085_470_1;
    let mut powers = [u32::MAX; POINTS + 1];
    let (mut power, mut place) = (1.0, 1);
    while place <= POINTS {
        power *= STEP;
        powers[place] = (power * 4_294_967_296.0 + 0.5) as u32;
        place += 1;
    }
    powers
};

/// `log2(1 + i / 256)` in units of costs.
const LOGARITHMS: [u32; POINTS + 1] = {
    let mut logarithms = [0; POINTS + 1];
    let mut place = 0;
    while place <= POINTS {
        // 2 / ln 2 times the series of the inverse hyperbolic tangent, whose argument is at most 1/3.
        let x = place as f64 / POINTS as f64;
        let root = x / (2.0 + x);
        let (mut power, mut sum, mut exponent) = (root, 0.0, 1);
        while exponent < 40 {
            sum += power / exponent as f64;
            power *= root * root;
            exponent += 2;
        }
        logarithms[place] = (sum * 2.0 * std::f64::consts::LOG2_E * BIT as f64 + 0.5) as u32;
        place += 1;
    }
    logarithms
};

/// `-log2(1 - one)` in units of 2^-20 bits, for a probability in units of 2^-16.
#[inline(always)]
pub(super) const fn cost(one: u32) -> u32 {
    // log2 of the probability of a zero, by its leading bit and the bits after it.
    let zero = ONE - one;
    let magnitude = zero.ilog2();
    let fraction = (zero << (31 - magnitude)) << 1;
    let place = (fraction >> (32 - POINT_BITS)) as usize;
    let between = (fraction << POINT_BITS) >> 16;
    let (low, high) = (LOGARITHMS[place], LOGARITHMS[place + 1]);
    let logarithm = low + (((high - low) as u64 * between as u64) >> 16) as u32;
    16 * BIT - (magnitude * BIT + logarithm)
}

/// The probability of at least one one among values with this total cost, in units of 2^-32.
#[inline(always)]
pub(super) fn any(cost: u32) -> u32 {
    let fraction = cost & (BIT - 1);
    let place = (fraction >> (COST_BITS - POINT_BITS)) as usize;
    let between = u64::from(fraction & (BIT / POINTS as u32 - 1));
    let (high, low) = (POWERS[place], POWERS[place + 1]);
    let none = high - ((u64::from(high - low) * between) >> (COST_BITS - POINT_BITS)) as u32;
    u32::MAX - none.checked_shr(cost >> COST_BITS).unwrap_or(0)
}

/// A probability of a one and what follows from it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chance {
    /// In units of 2^-16, 1 to 2^16 - 1.
    pub(super) one: u32,
    /// Bits of a zero, in units of 2^-20.
    pub(super) cost: u32,
}

impl Chance {
    pub(super) const fn new(one: u32) -> Self {
        Self { one, cost: cost(one) }
    }
}

/// Number of bits over which an estimate averages, if its batches are shorter.
const MEMORY: u32 = 1023;
/// Values that an initial probability counts as. Half of one makes deltas of McMahan's 2NN 1 % larger; eight are no
/// better than four.
const INITIAL_WEIGHT: u32 = 4;

/// The adaptive probabilities of `N` contexts. Outcomes are counted at once and change the probabilities at the end of
/// their batch, so that the probabilities of many values can be looked up together.
#[derive(Clone, Debug)]
pub(super) struct Chances<const N: usize> {
    now: [Chance; N],
    /// Probabilities in units of 2^-32.
    estimates: [u32; N],
    /// Outcomes behind an estimate, at most [`MEMORY`].
    seen: [u32; N],
    /// Outcomes of the current batch.
    values: [u32; N],
    ones: [u32; N],
}

impl<const N: usize> Chances<N> {
    pub(super) fn new(initial: [Chance; N]) -> Self {
        Self {
            estimates: initial.map(|chance| chance.one << 16),
            now: initial,
            seen: [0; N],
            values: [0; N],
            ones: [0; N],
        }
    }

    #[inline(always)]
    pub(super) fn get(&self, context: usize) -> Chance {
        self.now[context]
    }

    /// Counts a value of each of the contexts.
    #[inline(always)]
    pub(super) fn count(&mut self, contexts: &[u8]) {
        for context in contexts {
            self.values[usize::from(*context)] += 1;
        }
    }

    /// Counts that the value was a one.
    #[inline(always)]
    pub(super) fn count_one(&mut self, context: usize) {
        self.ones[context] += 1;
    }

    /// Ends a batch. The initial probability has the weight of [`INITIAL_WEIGHT`] values, and each value weighs one. Of
    /// earlier batches at most [`MEMORY`] values count.
    pub(super) fn learn(&mut self) {
        for context in 0..N {
            let (values, ones) = (self.values[context], self.ones[context]);
            if values == 0 {
                continue;
            }
            (self.values[context], self.ones[context]) = (0, 0);
            let (before, seen) = (u64::from(self.estimates[context]), self.seen[context]);
            let weight = u64::from(seen + INITIAL_WEIGHT);
            let sum = before * weight + (u64::from(ones) << 32);
            let estimate = (sum / (weight + u64::from(values))).min(u64::from(u32::MAX)) as u32;
            self.estimates[context] = estimate;
            self.seen[context] = (seen + values).min(MEMORY);
            self.now[context] = Chance::new((estimate >> 16).clamp(1, ONE - 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_the_logarithm_of_a_zeros_probability() {
        for one in (1..200).chain((200..ONE).step_by(97)).chain([ONE - 2, ONE - 1]) {
            let exact = -(1.0 - f64::from(one) / f64::from(ONE)).log2() * f64::from(BIT);
            let error = (f64::from(cost(one)) - exact).abs();
            assert!(error <= 1.0 + exact * 0.003, "{one}: {} and not {exact}", cost(one));
        }
    }

    #[test]
    fn something_happens_as_often_as_the_costs_say() {
        for cost in (0..4096).chain((4096..40 * BIT).step_by(7919)) {
            let exact = 1.0 - (-f64::from(cost) / f64::from(BIT)).exp2();
            let got = f64::from(any(cost)) / 4_294_967_296.0;
            assert!((got - exact).abs() <= 1e-9 + exact * 0.003, "{cost}: {got} and not {exact}");
        }
        assert_eq!(any(0), 0);
        // Values cost at most 16 bits each; a group of them stays below 2^32 units.
        assert_eq!(any(u32::MAX), u32::MAX);
    }

    #[test]
    fn a_batch_counts_like_single_outcomes() {
        let mut chances = Chances::new([Chance::new(ONE / 2)]);
        chances.count(&[0]);
        chances.count_one(0);
        chances.learn();
        // (4 * 0.5 + 1) / 5
        assert_eq!(chances.get(0).one, ONE * 3 / 5);
        (0..1000).for_each(|_| chances.count(&[0]));
        chances.learn();
        assert_eq!(chances.get(0).one, (65_536.0 * 3.0 / 1005.0) as u32);
        for _ in 0..3000 {
            chances.count(&[0]);
            chances.learn();
        }
        assert!(chances.get(0).one < 40);
        for _ in 0..30 {
            (0..10_000).for_each(|_| chances.count(&[0]));
            (0..10_000).for_each(|_| chances.count_one(0));
            chances.learn();
        }
        assert_eq!(chances.get(0).one, ONE - 1);
    }
}
