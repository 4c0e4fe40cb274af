use proptest::prelude::*;

use super::*;
use crate::aggregate::step;

fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

/// The two loops on whole vectors, as in Nocedal 1980.
fn two_loops(gradient: &[f64], pairs: &[(Vec<f64>, Vec<f64>)]) -> Vec<f64> {
    let mut q = gradient.to_vec();
    let mut taken = Vec::new();
    for (s, y) in pairs {
        let share = dot(s, &q) / dot(s, y);
        q.iter_mut().zip(y).for_each(|(q, y)| *q -= share * y);
        taken.push(share);
    }
    if let Some((s, y)) = pairs.first() {
        let scale = dot(s, y) / dot(y, y);
        q.iter_mut().for_each(|q| *q *= scale);
    }
    for ((s, y), share) in pairs.iter().zip(taken).rev() {
        let share = share - dot(y, &q) / dot(s, y);
        q.iter_mut().zip(s).for_each(|(q, s)| *q += share * s);
    }
    q.iter().map(|q| -q).collect()
}

/// The direction by inner products, and the slope along it.
fn by_products(gradient: &[f64], pairs: &[(Vec<f64>, Vec<f64>)]) -> (Vec<f64>, f64) {
    let vectors: Vec<&[f64]> =
        std::iter::once(gradient).chain(pairs.iter().flat_map(|(s, y)| [s.as_slice(), y.as_slice()])).collect();
    let mut products = Products::zeros(vectors.len());
    for index in 0..gradient.len() {
        products.add(&vectors.iter().map(|vector| vector[index]).collect::<Vec<f64>>());
    }
    let places: Vec<(usize, usize)> = (0..pairs.len()).map(|pair| (1 + 2 * pair, 2 + 2 * pair)).collect();
    let (shares, slope) = products.direction(&places);
    let at = |index: usize| vectors.iter().zip(&shares).map(|(vector, share)| vector[index] * share).sum();
    ((0..gradient.len()).map(at).collect(), slope)
}

/// A pair with the curvature of a positive definite matrix.
fn pair(values: Vec<(f64, f64)>) -> (Vec<f64>, Vec<f64>) {
    values.into_iter().map(|(s, curvature)| (s, s * curvature)).unzip()
}

proptest! {
    #[test]
    fn a_direction_by_inner_products_is_that_of_the_two_loops(
        gradient in prop::collection::vec(-1.0f64..1.0, 12),
        pairs in prop::collection::vec(prop::collection::vec((0.1f64..1.0, 0.5f64..4.0), 12).prop_map(pair), 0..6),
    ) {
        let (direction, slope) = by_products(&gradient, &pairs);
        let expected = two_loops(&gradient, &pairs);
        let norm = dot(&expected, &expected).sqrt();
        for (got, expected) in direction.iter().zip(&expected) {
            prop_assert!((got - expected).abs() <= 1e-12 * norm.max(1.0), "{got} instead of {expected}");
        }
        prop_assert!((slope - dot(&gradient, &direction)).abs() <= 1e-10 * norm.max(1.0));
    }
}

/// `f(x) = sum a_i (x_i - b_i)^2 / 2`.
const CURVATURES: [f64; 6] = [1.0, 3.0, 0.2, 9.0, 30.0, 0.5];
const OPTIMUM: [f64; 6] = [0.3, -1.0, 2.0, 0.1, -0.7, 1.5];

fn gradient(x: &[f64]) -> Vec<f64> {
    (0..6).map(|index| CURVATURES[index] * (x[index] - OPTIMUM[index])).collect()
}

#[test]
fn a_quadratic_of_six_parameters_is_solved_in_seven_exact_steps() {
    let (mut x, mut pairs) = (vec![0.0; 6], Vec::new());
    for _ in 0..7 {
        let g = gradient(&x);
        let (direction, slope) = by_products(&g, &pairs);
        let curvature: f64 = (0..6).map(|index| CURVATURES[index] * direction[index].powi(2)).sum();
        let s: Vec<f64> = direction.iter().map(|d| d * -slope / curvature).collect();
        x.iter_mut().zip(&s).for_each(|(x, s)| *x += s);
        let y = gradient(&x).iter().zip(&g).map(|(new, old)| new - old).collect();
        pairs.insert(0, (s, y));
    }
    let rest = gradient(&x);
    assert!(dot(&rest, &rest).sqrt() < 1e-9, "{rest:?}");
}

/// Learning rate of the clients in these tests.
const RATE: f64 = 0.5;

/// A model and its history, as a coordinator keeps them: in f32, with the notes of the history's file.
struct Play {
    pairs: usize,
    x: Vec<f64>,
    history: Vec<f64>,
    notes: BTreeMap<String, String>,
}

impl Play {
    fn from(x: &[f64], pairs: usize) -> Self {
        let history = vec![0.0; x.len() * (FIRST_PAIR + 2 * pairs)];
        Self { pairs, x: x.to_vec(), history, notes: BTreeMap::new() }
    }

    /// A round with this loss and gradient at the model, looked at and stepped in blocks of this length.
    fn round(&mut self, loss: f64, gradient: &[f64], block: usize) {
        let mut optimizer = Lbfgs::new(RATE, self.pairs);
        let width = optimizer.width(Companion::History);
        let update: Vec<f64> = gradient.iter().map(|g| -RATE * g).collect();
        optimizer.begin(&self.notes, loss).unwrap();
        for (update, history) in update.chunks(block).zip(self.history.chunks(block * width)) {
            optimizer.look(update, &[history.to_vec()]);
        }
        optimizer.decide();
        let (mut x, mut next) = (Vec::new(), Vec::new());
        for first in (0..update.len()).step_by(block) {
            let end = update.len().min(first + block);
            let mut companions = vec![self.history[first * width..end * width].to_vec()];
            let moved = step(&optimizer, &update, first..end, &mut companions).unwrap();
            x.extend(self.x[first..end].iter().zip(moved).map(|(x, step)| f64::from((x + step) as f32)));
            next.extend(companions[0].iter().map(|value| f64::from(*value as f32)));
        }
        self.notes = optimizer.notes(Companion::History);
        (self.x, self.history) = (x, next);
    }

    fn search(&self) -> Search {
        self.notes[NOTE].parse().unwrap()
    }
}

/// Rosenbrock's valley, with its minimum at (1, 1).
fn valley(x: &[f64]) -> (f64, Vec<f64>) {
    let (a, b) = (1.0 - x[0], x[1] - x[0] * x[0]);
    (a * a + 100.0 * b * b, vec![-2.0 * a - 400.0 * x[0] * b, 200.0 * b])
}

#[test]
fn a_curved_valley_is_followed_to_its_minimum_and_the_loss_never_rises() {
    let mut play = Play::from(&[-1.2, 1.0], 5);
    let (mut accepted, mut least) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..80 {
        let (loss, gradient) = valley(&play.x);
        play.round(loss, &gradient, 2);
        let now = play.search().loss;
        assert!(now <= accepted * (1.0 + LOSS_NOISE), "{now} after {accepted}");
        (accepted, least) = (now, least.min(loss));
    }
    assert!(least < 1e-8, "{least} at {:?}", play.x);
}

#[test]
fn blocks_of_any_length_give_the_same_bits() {
    let play = |block: usize| {
        let mut play = Play::from(&[0.0; 6], 3);
        for _ in 0..25 {
            let g = gradient(&play.x);
            let loss = (0..6).map(|index| g[index] * (play.x[index] - OPTIMUM[index])).sum::<f64>() / 2.0;
            play.round(loss, &g, block);
        }
        (play.x, play.history, play.notes)
    };
    let whole = play(6);
    assert!(dot(&gradient(&whole.0), &gradient(&whole.0)) < 1e-2, "the rounds lead near the optimum: {:?}", whole.0);
    for block in 1..6 {
        assert_eq!(play(block), whole);
    }
}

#[test]
fn a_step_that_does_not_pay_shrinks_and_at_last_the_search_begins_anew() {
    let mut play = Play::from(&[4.0], 2);
    play.round(1.0, &[1.0], 1);
    assert_eq!(play.search(), Search { loss: 1.0, slope: -1.0, step: 1.0, pairs: 0, trials: 0 });
    assert_eq!(play.x, [3.0], "without a curvature the first step has length 1");
    let mut last = 1.0;
    for trial in 1..TRIALS_MAX {
        play.round(2.0, &[-1.0], 1);
        let Search { step, trials, loss, .. } = play.search();
        assert!(step >= SHRINK[0] * last && step <= SHRINK[1] * last && loss == 1.0, "{step} after {last}");
        assert!((play.x[0] - (4.0 - step)).abs() < 1e-6 && trials == trial, "{:?}", play.x);
        last = step;
    }
    play.round(2.0, &[-1.0], 1);
    assert_eq!(play.search(), Search { loss: 2.0, slope: -1.0, step: 1.0, pairs: 0, trials: 0 });
}

/// The parabola through a loss of 1 with a slope of -1 and the loss of the trial at t: `t^2 / (2 (f - 1 + t))`.
#[test]
fn a_step_shrinks_to_the_minimum_of_the_parabola_within_its_bounds() {
    for (losses, steps) in [
        (&[2.0, 1.0 + 1.0 / 64.0][..], &[0.25, 0.0625 / (2.0 * (0.25 + 1.0 / 64.0))][..]),
        (&[1e9, 1e9], &[0.1, 0.010_000_000_000_000_002]),
        (&[f64::NAN, f64::INFINITY, 1.0], &[0.5, 0.05, 0.025]),
    ] {
        let mut play = Play::from(&[4.0], 2);
        play.round(1.0, &[1.0], 1);
        for (loss, step) in losses.iter().zip(steps) {
            play.round(*loss, &[-1.0], 1);
            assert_eq!(play.search().step, *step, "{losses:?}");
        }
    }
}

#[test]
fn a_loss_within_the_bound_of_armijo_or_of_rounding_is_accepted() {
    // The step is 1 / |g| along -g: the slope is -16, and 1 - 1e-4 x 0.25 x 16 the bound, with 1e-6 for rounding.
    for (loss, is_accepted) in [(0.999_6, true), (0.999_600_9, true), (0.999_602, false), (1.0, false)] {
        let mut play = Play::from(&[4.0], 2);
        play.round(1.0, &[4.0], 1);
        assert_eq!(play.search(), Search { loss: 1.0, slope: -16.0, step: 0.25, pairs: 0, trials: 0 });
        assert_eq!(play.x, [3.0]);
        play.round(loss, &[2.0], 1);
        assert_eq!(play.search().loss == loss && play.search().trials == 0, is_accepted, "{loss}");
    }
}

/// Rounding or damage may leave a pair without a curvature in the history.
#[test]
fn a_direction_that_leads_upwards_is_forgotten_with_its_pairs() {
    let mut play = Play::from(&[4.0], 1);
    // The gradient and the direction of the accepted point, then s = 1 and y = -1.
    play.history = vec![1.0, -1.0, 1.0, -1.0];
    let search = Search { loss: 9.0, slope: -1.0, step: 1.0, pairs: 1, trials: 0 };
    play.notes = BTreeMap::from([(NOTE.to_owned(), search.to_string())]);
    play.round(2.0, &[1.0], 1);
    assert_eq!(play.search(), Search { loss: 2.0, slope: -1.0, step: 1.0, pairs: 0, trials: 0 });
    assert_eq!(play.x, [3.0], "along the gradient");
}

#[test]
fn a_gradient_of_zero_moves_nothing() {
    let mut play = Play::from(&[4.0, 1.0], 2);
    for _ in 0..3 {
        play.round(0.5, &[0.0, 0.0], 1);
        assert_eq!(play.x, [4.0, 1.0]);
    }
}

#[test]
fn damaged_notes_are_refused() {
    let note = Search { loss: 0.1 + 0.2, slope: -1e-300, step: 1.0 / 3.0, pairs: 3, trials: 1 }.to_string();
    assert_eq!(note.parse::<Search>().unwrap().to_string(), note);
    for text in ["", "loss 1", "loss x slope 0 step 0 pairs 0 trials 0", "loss 1 slope 0 step 0 pairs -1 trials 0"] {
        let notes = BTreeMap::from([(NOTE.to_owned(), text.to_owned())]);
        assert_eq!(Lbfgs::new(RATE, 1).begin(&notes, 1.0), Err(AggregateError::Notes(text.to_owned())));
    }
}
