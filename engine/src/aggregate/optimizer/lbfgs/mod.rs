//! L-BFGS with a line search over rounds (Nocedal 1980, "Updating quasi-Newton matrices with limited storage"; Dean et
//! al. 2012, "Large scale distributed deep networks", section 4.2).
//!
//! Every client takes one step of SGD over all its examples, so a round's combined update is `-r g`, with the clients'
//! learning rate r and the gradient g at the base version. The clients' mean loss f at the base version comes with it.
//! The base version is the trial point `x + t d` of the last accepted point x, the direction d and the step t:
//!
//! - If `f <= f(x) + c t <g(x), d>` (Armijo 1966, with c = 1e-4), the trial point is accepted. The pair `s = t d`,
//!   `y = g - g(x)` joins the history, unless `<s, y>` is too small to be a curvature. The next direction is `-H g`.
//! - Otherwise the step shrinks to the minimum of the parabola through what is known, within 0.1 t to 0.5 t.
//!
//! The next version is the next trial point. A trial so costs one round and brings loss and gradient at once.
//!
//! `H g` is a linear combination of g and the pairs, whose coefficients need inner products only (Chen et al. 2014,
//! "Large-scale L-BFGS using MapReduce"). A first pass over the vectors adds up the inner products, a second one writes
//! the step. With m pairs, each pass reads 2 m + 2 vectors, block by block.

mod products;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use tributary_protocol::model::Companion;

use super::step::{AggregateError, Optimizer, Survey};
use products::Products;

/// Share of the decrease that the slope promises which a step must reach.
const ARMIJO: f64 = 1e-4;
/// Rise of the loss, relative to it, that counts as rounding: clients compute in f32.
const LOSS_NOISE: f64 = 1e-6;
/// Least cosine between the two vectors of a pair.
const CURVATURE_MIN: f64 = 1e-6;
/// Bounds of a shrunken step, as shares of the last one.
const SHRINK: [f64; 2] = [0.1, 0.5];
/// Trials along a direction. After this many, clients of other rounds have other losses: the search begins again.
const TRIALS_MAX: u32 = 8;

/// The entry of the history's file that holds the line search.
const NOTE: &str = "line_search";
/// Vectors of the history before its pairs: the gradient at the accepted point, and the direction.
const FIRST_PAIR: usize = 2;
/// Vectors of the basis before the stored pairs: g, and the pair that the round brings.
const FIRST_STORED: usize = 3;

/// The optimiser. The history is one companion of the model with `2 pairs + 2` values per parameter: the gradient at
/// the accepted point, the direction, then s and y of each pair, the newest first.
#[derive(Clone, Debug)]
pub(super) struct Lbfgs {
    /// Learning rate of the clients' step.
    rate: f64,
    /// Most pairs.
    pairs: usize,
    /// Loss of the round.
    loss: f64,
    /// The search until the base version.
    search: Search,
    products: Products,
    decision: Decision,
    /// The search until the next version.
    next: Search,
}

/// What the line search remembers from round to round.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Search {
    /// Loss at the accepted point.
    loss: f64,
    /// Inner product of gradient and direction at the accepted point.
    slope: f64,
    /// The base version is the accepted point plus this many directions.
    step: f64,
    /// Pairs of the history.
    pairs: usize,
    /// Trials along the direction.
    trials: u32,
}

/// What happens to the vectors.
#[derive(Clone, Debug, PartialEq)]
enum Decision {
    /// The model moves by this many directions.
    Along(f64),
    /// The base version is accepted.
    Accepted {
        /// Whether the round's pair joins the history.
        joins: bool,
        /// The next direction, as coefficients of the basis.
        direction: Vec<f64>,
        /// The next step.
        step: f64,
    },
}

impl Lbfgs {
    pub(super) fn new(rate: f64, pairs: usize) -> Self {
        let products = Products::zeros(FIRST_STORED + 2 * pairs);
        let (search, decision) = (Search::FIRST, Decision::Along(0.0));
        Self { rate, pairs, loss: f64::NAN, search, products, decision, next: search }
    }

    /// The basis at one parameter: g, s and y of the round, then those of the stored pairs.
    fn basis(&self, update: f64, history: &[f64]) -> impl Iterator<Item = f64> {
        let gradient = -update / self.rate;
        let round = [gradient, self.search.step * history[1], gradient - history[0]];
        round.into_iter().chain(history[FIRST_PAIR..].iter().copied())
    }

    /// Goes on from the base version, and forgets the pairs if the search was in vain.
    fn accept(&mut self, is_descent: bool) {
        let is_curved = self.products.cosine(1, 2) > CURVATURE_MIN;
        let mut joins = is_descent && is_curved;
        let mut places = match is_descent {
            true => places(joins, self.search.pairs, self.pairs),
            false => Vec::new(),
        };
        let (mut direction, mut slope) = self.products.direction(&places);
        if !places.is_empty() && (slope >= 0.0 || slope.is_nan()) {
            (joins, places) = (false, Vec::new());
            (direction, slope) = self.products.direction(&places);
        }
        // Without a curvature the length of the gradient says nothing about the length of the step.
        let step = match places.is_empty() {
            true => (1.0 / self.products.of(0, 0).sqrt()).min(1.0),
            false => 1.0,
        };
        self.next = Search { loss: self.loss, slope, step, pairs: places.len(), trials: 0 };
        self.decision = Decision::Accepted { joins, direction, step };
    }

    /// Shortens the step.
    fn shrink(&mut self) {
        let Search { loss, slope, step, trials, .. } = self.search;
        let curvature = self.loss - loss - slope * step;
        let least = -slope * step * step / (2.0 * curvature);
        let shorter =
            if least.is_finite() { least.clamp(SHRINK[0] * step, SHRINK[1] * step) } else { SHRINK[1] * step };
        self.next = Search { step: shorter, trials: trials + 1, ..self.search };
        self.decision = Decision::Along(shorter - step);
    }
}

/// Places in the basis of s and y of at most this many pairs, the newest first.
fn places(joins: bool, stored: usize, most: usize) -> Vec<(usize, usize)> {
    let round = joins.then_some((1, 2));
    let stored = (0..stored).map(|pair| (FIRST_STORED + 2 * pair, FIRST_STORED + 2 * pair + 1));
    round.into_iter().chain(stored).take(most).collect()
}

impl Survey for Lbfgs {
    fn begin(&mut self, notes: &BTreeMap<String, String>, loss: f64) -> Result<(), AggregateError> {
        self.search = match notes.get(NOTE) {
            None => Search::FIRST,
            Some(note) => note.parse().map_err(|NoSearch| AggregateError::Notes(note.clone()))?,
        };
        self.loss = loss;
        Ok(())
    }

    fn look(&mut self, block: &[f64], companions: &[Vec<f64>]) {
        let [history] = companions else { return };
        let mut basis = Vec::with_capacity(self.products.vectors);
        for (update, history) in block.iter().zip(history.chunks_exact(self.width(Companion::History))) {
            basis.clear();
            basis.extend(self.basis(*update, history));
            self.products.add(&basis);
        }
    }

    fn seen(&self) -> Vec<u64> {
        self.products.bits()
    }

    fn go_on(&mut self, seen: &[u64]) -> Result<(), AggregateError> {
        let is_such = self.products.go_on(seen);
        is_such.then_some(()).ok_or_else(|| AggregateError::Notes(format!("{} inner products", seen.len())))
    }

    fn decide(&mut self) {
        let Search { loss, slope, step, trials, .. } = self.search;
        let is_descent = self.loss <= loss + ARMIJO * step * slope + LOSS_NOISE * loss.abs();
        match is_descent || trials + 1 >= TRIALS_MAX {
            true => self.accept(is_descent),
            false => self.shrink(),
        }
    }
}

impl Optimizer for Lbfgs {
    fn companions(&self) -> &'static [Companion] {
        &[Companion::History]
    }

    fn initial(&self, _: Companion) -> f64 {
        0.0
    }

    fn width(&self, _: Companion) -> usize {
        FIRST_PAIR + 2 * self.pairs
    }

    fn survey(&mut self) -> Option<&mut dyn Survey> {
        Some(self)
    }

    fn notes(&self, _: Companion) -> BTreeMap<String, String> {
        BTreeMap::from([(NOTE.to_owned(), self.next.to_string())])
    }

    fn step(&self, block: &mut [f64], companions: &mut [Vec<f64>]) {
        let [history] = companions else { return };
        let width = self.width(Companion::History);
        for (value, history) in block.iter_mut().zip(history.chunks_exact_mut(width)) {
            match &self.decision {
                Decision::Along(step) => *value = step * history[1],
                Decision::Accepted { joins, direction, step } => {
                    let mut basis = self.basis(*value, history);
                    let [gradient, s, y] = [0; 3].map(|_| basis.next().expect("three vectors of the round"));
                    let rest = basis.zip(&direction[FIRST_STORED..]).map(|(vector, share)| vector * share);
                    let next = direction[0] * gradient + direction[1] * s + direction[2] * y + rest.sum::<f64>();
                    // As it is stored, so that the next pair is what the model moved by.
                    let next = f64::from(next as f32);
                    if *joins {
                        history.copy_within(FIRST_PAIR..width - 2, FIRST_PAIR + 2);
                        (history[FIRST_PAIR], history[FIRST_PAIR + 1]) = (s, y);
                    }
                    (history[0], history[1]) = (gradient, next);
                    *value = step * next;
                }
            }
        }
    }
}

impl Search {
    /// Before the first round: any loss is a descent.
    const FIRST: Self = Self { loss: f64::INFINITY, slope: 0.0, step: 0.0, pairs: 0, trials: 0 };
}

/// The shortest decimals that give the same bits again, so every coordinator continues alike.
impl fmt::Display for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { loss, slope, step, pairs, trials } = self;
        write!(f, "loss {loss} slope {slope} step {step} pairs {pairs} trials {trials}")
    }
}

/// A text that is no search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NoSearch;

impl FromStr for Search {
    type Err = NoSearch;

    fn from_str(text: &str) -> Result<Self, NoSearch> {
        let words: Vec<&str> = text.split(' ').collect();
        let ["loss", loss, "slope", slope, "step", step, "pairs", pairs, "trials", trials] = words[..] else {
            return Err(NoSearch);
        };
        let number = |text: &str| text.parse::<f64>().map_err(|_| NoSearch);
        Ok(Self {
            loss: number(loss)?,
            slope: number(slope)?,
            step: number(step)?,
            pairs: pairs.parse().map_err(|_| NoSearch)?,
            trials: trials.parse().map_err(|_| NoSearch)?,
        })
    }
}
