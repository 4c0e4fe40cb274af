//! The cyclic code: its matrix, and the weights by which any `n - s` rows give the sum of all parts.
//!
//! With a random `H` of `s` rows whose sum over the columns is zero, the row of member `i` is 1 for part `i`, and
//! `-H[rest]^-1 H[i]` for the `s` parts after it. Each row is then orthogonal to `H`, and so is the row of ones; any
//! `n - s` rows span that space (Tandon et al. 2017, arXiv 1612.03301, theorem 3). How large the weights become depends
//! on `H`, so the best of several is kept.

use tributary_protocol::seed::{Seed, Stream};

use super::solve::least_squares;

/// Matrices that are drawn, of which the one with the smallest largest weight is kept.
const DRAWN: u64 = 200;
/// Largest weight of a code that is used. Rounding errors of f32 updates grow by it: 100 leaves five digits.
pub const WEIGHT_MAX: f64 = 100.0;
/// Most sets of survivors over which the largest weight is found.
const SETS_MAX: usize = 2_000;
const SEED: Seed = Seed(0);

/// A cyclic code.
#[derive(Clone, Debug, PartialEq)]
pub struct Cyclic {
    /// Of each member, the coefficients of its part and of the `s` parts after it.
    rows: Vec<Vec<f64>>,
    /// The largest weight of any member in any set of survivors.
    weight_max: f64,
}

impl Cyclic {
    /// The best of 200 codes of so many parts. None if `stragglers` is 0 or too many, if there are more than 2,000 sets
    /// of survivors, or if some set of them needs a weight above [`WEIGHT_MAX`] in each of the codes.
    #[must_use]
    pub fn best(parts: usize, stragglers: usize) -> Option<Self> {
        if stragglers == 0 || stragglers + 1 >= parts || sets(parts, stragglers).is_none_or(|sets| sets > SETS_MAX) {
            return None;
        }
        let mut best: Option<Self> = None;
        for draw in 0..DRAWN {
            let rows = drawn(parts, stragglers, &mut SEED.derive("cyclic", draw).stream());
            let limit = best.as_ref().map_or(WEIGHT_MAX, |best| best.weight_max);
            let Some(rows) = rows else { continue };
            if let Some(weight_max) = largest_weight(&rows, stragglers, limit) {
                best = Some(Self { rows, weight_max });
            }
        }
        best
    }

    /// Members of the code: as many as parts.
    #[must_use]
    pub fn members(&self) -> usize {
        self.rows.len()
    }

    /// The parts of a member with their coefficients.
    #[must_use]
    pub fn row(&self, member: usize) -> Vec<(usize, f64)> {
        let parts = self.rows.len();
        self.rows[member].iter().enumerate().map(|(after, value)| ((member + after) % parts, *value)).collect()
    }
}

/// The weights with which these rows, each with an entry for every part, add up to a row of ones. None if they do not.
#[must_use]
pub fn decode(rows: &[&[f64]]) -> Option<Vec<f64>> {
    let parts = rows.first()?.len();
    let columns: Vec<Vec<f64>> = rows.iter().map(|row| row.to_vec()).collect();
    let weights = least_squares(columns, vec![1.0; parts])?;
    let is_one = |part: usize| {
        let sum: f64 = rows.iter().zip(&weights).map(|(row, weight)| row[part] * weight).sum();
        (sum - 1.0).abs() < 1e-9
    };
    (0..parts).all(is_one).then_some(weights)
}

/// Sets of survivors; none if they are too many to count.
fn sets(parts: usize, stragglers: usize) -> Option<usize> {
    (0..stragglers).try_fold(1usize, |sets, place| sets.checked_mul(parts - place).map(|sets| sets / (place + 1)))
}

/// The coefficients of each member, from one random matrix. None if a part of it is singular.
fn drawn(parts: usize, stragglers: usize, stream: &mut Stream) -> Option<Vec<Vec<f64>>> {
    let mut columns: Vec<Vec<f64>> = (1..parts).map(|_| (0..stragglers).map(|_| normal(stream)).collect()).collect();
    let last = (0..stragglers).map(|row| -columns.iter().map(|column| column[row]).sum::<f64>()).collect();
    columns.push(last);
    let of_member = |member: usize| {
        let rest: Vec<Vec<f64>> = (1..=stragglers).map(|after| columns[(member + after) % parts].clone()).collect();
        let first = columns[member].iter().map(|value| -value).collect();
        let solved = least_squares(rest, first)?;
        Some(std::iter::once(1.0).chain(solved).collect())
    };
    (0..parts).map(of_member).collect()
}

/// A normal value, by the method of Box and Muller.
fn normal(stream: &mut Stream) -> f64 {
    let radius = (-2.0 * (1.0 - stream.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * stream.unit()).cos()
}

/// A row with an entry for each part.
fn dense(member: usize, row: &[f64], parts: usize) -> Vec<f64> {
    let mut dense = vec![0.0; parts];
    row.iter().enumerate().for_each(|(after, value)| dense[(member + after) % parts] = *value);
    dense
}

/// The largest weight over all sets of survivors. None if one is above the limit, or a set does not decode.
fn largest_weight(rows: &[Vec<f64>], stragglers: usize, limit: f64) -> Option<f64> {
    let parts = rows.len();
    let dense: Vec<Vec<f64>> = rows.iter().enumerate().map(|(member, row)| dense(member, row, parts)).collect();
    let mut lost: Vec<usize> = (0..stragglers).collect();
    let mut largest: f64 = 0.0;
    loop {
        let picked: Vec<&[f64]> =
            (0..parts).filter(|member| !lost.contains(member)).map(|member| dense[member].as_slice()).collect();
        let weights = decode(&picked)?;
        largest = weights.iter().fold(largest, |largest, weight| largest.max(weight.abs()));
        if largest >= limit {
            return None;
        }
        // The next set in lexicographic order.
        let Some(place) = (0..stragglers).rev().find(|place| lost[*place] < parts - stragglers + place) else {
            return Some(largest);
        };
        let next = lost[place] + 1;
        (place..stragglers).for_each(|later| lost[later] = next + later - place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The code of three parts in the paper: rows (1/2, 1, 0), (0, 1, -1), (1/2, 0, 1).
    #[test]
    fn three_members_decode_with_the_weights_of_the_paper() {
        let rows = [[0.5, 1.0, 0.0], [0.0, 1.0, -1.0], [0.5, 0.0, 1.0]];
        for (set, weights) in [([0, 1], [2.0, -1.0]), ([0, 2], [1.0, 1.0]), ([1, 2], [1.0, 2.0])] {
            let picked: Vec<&[f64]> = set.iter().map(|row| rows[*row].as_slice()).collect();
            let got = decode(&picked).unwrap();
            assert!(got.iter().zip(weights).all(|(got, wanted)| (got - wanted).abs() < 1e-12), "{set:?}: {got:?}");
        }
        assert_eq!(decode(&[&rows[0]]), None, "one row lacks a part");
        assert_eq!(decode(&[]), None);
    }

    /// The figures of an independent search with another generator: 3.0, 14.3, 78.9 and 204.
    #[test]
    fn the_best_of_two_hundred_has_small_weights_and_one_above_the_limit_is_none() {
        let largest = |parts, stragglers| Cyclic::best(parts, stragglers).map(|code| code.weight_max);
        assert!(largest(5, 2).unwrap() < 4.0, "{:?}", largest(5, 2));
        assert!(largest(8, 3).unwrap() < 20.0, "{:?}", largest(8, 3));
        assert_eq!(largest(11, 4), None, "its weights are in the hundreds");
        assert_eq!(largest(3, 2), None, "one member would have all parts");
        assert_eq!(largest(3, 0), None);
    }

    #[test]
    fn sets_of_survivors_are_counted() {
        assert_eq!([(12, 3), (12, 1), (5, 2)].map(|(parts, lost)| sets(parts, lost)), [Some(220), Some(12), Some(10)]);
        assert_eq!(Cyclic::best(16, 7), None, "11,440 sets");
    }
}
