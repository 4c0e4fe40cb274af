//! Figures of single clients that come from nowhere else, so that a text which has one tells it.

use serde_json::{Value, json};

/// What the three clients of a round report, and the norms of their updates. No port and no time is as large.
pub(super) const EXAMPLES: [f64; 3] = [71_713.0, 82_839.0, 93_951.0];
pub(super) const LOSSES: [f64; 3] = [123.456_789, 234.567_891, 345.678_912];
const STEPS: [f64; 3] = [8_117.0, 9_239.0, 7_349.0];
const METRICS: [f64; 3] = [4_321.987_6, 5_432.876_5, 6_543.765_4];
pub(super) const NORMS: [f64; 3] = [11.812_347, 13.734_561, 16.645_783];
/// What a client quotes that gives up.
pub(super) const EXAMPLES_FAILED: f64 = 75_697.0;
/// What refused updates have: a weight and a value above the job's largest.
pub(super) const EXAMPLES_REFUSED: f64 = 1_234_577.0;
pub(super) const VALUE_REFUSED: f64 = 61_234.5;
/// What clients say of themselves when they check in, which is outside of the promise.
pub(super) const EXAMPLES_TOLD: f64 = 87_654_323.0;

/// Numbers whose ratio differs by less from 1 are the same: a rounded figure tells as much.
const NEAR: f64 = 5e-5;

/// What the client in this place reports with an update.
pub(super) fn reported(examples: f64, place: usize) -> Value {
    json!({
        "weight": examples as u32, "loss": LOSSES[place], "steps": STEPS[place] as u32, "train_ms": 12,
        "metrics": format!("perplexity:{}", METRICS[place]),
    })
}

/// The figures of clients that a text tells, and sums and means of several.
pub(super) fn figures_in(text: &str) -> Vec<f64> {
    // "244.5µs" is a word, and no number.
    let is_of_word = |letter: char| letter.is_alphanumeric() || "+-._".contains(letter);
    let words = text.split(|letter| !is_of_word(letter)).map(|word| word.trim_end_matches('.'));
    let figures = figures();
    let figure_of = |number: f64| figures.iter().copied().find(|figure| (number / figure - 1.0).abs() < NEAR);
    words.filter_map(|word| figure_of(word.parse().ok()?)).collect()
}

fn figures() -> Vec<f64> {
    let mut figures = vec![EXAMPLES_FAILED, EXAMPLES_REFUSED, VALUE_REFUSED, EXAMPLES_TOLD];
    for several in [EXAMPLES, LOSSES, STEPS, METRICS, NORMS] {
        let sum: f64 = several.iter().sum();
        let weighted: f64 = several.iter().zip(EXAMPLES).map(|(figure, examples)| figure * examples).sum();
        figures.extend(several);
        figures.extend([sum, sum / 3.0, weighted / EXAMPLES.iter().sum::<f64>()]);
    }
    figures
}
