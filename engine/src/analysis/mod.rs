//! What the answers of an analysis say: estimates with the 95 % interval of their noise.
//!
//! Intervals are those of the noise alone. They say nothing of clients that were not asked or gave no answer.

mod tree;

use tributary_protocol::analysis::{Analysis, DEVIATIONS, Found, Query};
use tributary_protocol::operator::{Answer, Estimate};

use crate::privacy::gaussian;
use tree::Tree;

/// Deviations of noise that the rows of a ratio must have at least, so that it says something.
const DEVIATIONS_MIN: f64 = 10.0;

/// The answers after so many rounds, from the values of the newest version. `delta` is that of the job's privacy.
#[must_use]
pub fn answers(analysis: &Analysis, rounds: u32, values: &[f32], delta: Option<f64>) -> Vec<Answer> {
    let one = |(index, query): (usize, &Query)| Answer {
        name: query.name().clone(),
        kind: query.kind().to_owned(),
        column: query.columns().next().unwrap_or_default().to_owned(),
        epsilon: analysis.noise.zip(delta).map(|(noise, delta)| gaussian::epsilon(mu(analysis, index, noise), delta)),
        noise: analysis.deviation(index, 1),
        estimates: if rounds == 0 { Vec::new() } else { estimates(analysis, index, rounds, values) },
    };
    analysis.queries.iter().enumerate().map(one).collect()
}

/// What a unit can change in all rounds of a query, in deviations of their noise.
fn mu(analysis: &Analysis, index: usize, noise: f64) -> f64 {
    (1..=analysis.rounds()).map(|round| analysis.share(index, round)).sum::<f64>().sqrt() / noise
}

fn estimates(analysis: &Analysis, index: usize, rounds: u32, values: &[f32]) -> Vec<Estimate> {
    let Some(numbers) = analysis.section(index, 1).and_then(|section| values.get(section)) else { return Vec::new() };
    let (factor, sigma) = (analysis.factor(index, 1), analysis.deviation(index, 1));
    let numbers: Vec<f64> = numbers.iter().map(|number| f64::from(*number) / factor).collect();
    let counted = |label: String, count: f64, sigma: f64| around(label, count, DEVIATIONS * sigma);
    match &analysis.queries[index] {
        Query::Count { values, .. } => vec![counted(values.join(", "), numbers[0], sigma)],
        Query::Histogram { edges, categories, .. } => {
            let labels: Vec<String> = match edges.is_empty() {
                true => categories.clone(),
                false => edges.windows(2).map(|pair| format!("{} to {}", pair[0], pair[1])).collect(),
            };
            labels.into_iter().zip(numbers).map(|(label, count)| counted(label, count, sigma)).collect()
        }
        Query::Mean { range, .. } => moments(&numbers, *range, sigma),
        Query::Quantiles { range, at, levels, .. } => {
            let tree = Tree::of(&numbers, *levels as usize);
            let scaled = |place: f64| range[0] + place * (range[1] - range[0]);
            let quantile = |share: &f64| match enough(tree.total(), sigma) {
                false => unknown(share.to_string()),
                true => {
                    let [low, value, high] = tree.quantile(*share, DEVIATIONS * sigma).map(scaled);
                    known(share.to_string(), value, [low, high])
                }
            };
            at.iter().map(quantile).collect()
        }
        Query::HeavyHitters { length_max, top, .. } => {
            let mut words = analysis.words(index, rounds, values).map(|words| words.whole).unwrap_or_default();
            words.sort_by(|one, other| other.count.total_cmp(&one.count));
            let sigma = |word: &str| analysis.deviation(index, rounds.min(word.chars().count() as u32 + 1));
            let estimate = |word: Found| {
                // A word of so many letters may be the beginning of a longer one.
                let is_cut = word.word.chars().count() == *length_max as usize;
                let sigma = sigma(&word.word);
                counted(word.word + if is_cut { "…" } else { "" }, word.count, sigma)
            };
            words.into_iter().take(*top as usize).map(estimate).collect()
        }
        Query::Rate { groups, .. } => {
            let rate = |(group, counts): (&String, &[f64])| match enough(counts[0], sigma) {
                false => unknown(group.clone()),
                true => {
                    let rate = (counts[1] / counts[0]).clamp(0.0, 1.0);
                    let within = DEVIATIONS * sigma * (1.0 + rate * rate).sqrt() / counts[0];
                    known(group.clone(), rate, [(rate - within).max(0.0), (rate + within).min(1.0)])
                }
            };
            groups.iter().zip(numbers.chunks(2)).map(rate).collect()
        }
    }
}

/// Mean and deviation from the number of rows, their sum and the sum of their squares, all scaled to 0 to 1. Intervals
/// by the delta method.
fn moments(numbers: &[f64], [low, high]: [f64; 2], sigma: f64) -> Vec<Estimate> {
    let [rows, sum, squares] = numbers else { return Vec::new() };
    if !enough(*rows, sigma) {
        return vec![unknown("mean".into()), unknown("deviation".into())];
    }
    let width = high - low;
    let mean = sum / rows;
    let variance = (squares / rows - mean * mean).max(0.0);
    let deviation = variance.sqrt();
    let of_mean = sigma * (1.0 + mean * mean).sqrt() / rows;
    // The gradient of squares / rows - (sum / rows)^2 by rows, sum and squares is
    // (mean^2 - variance, -2 mean, 1) / rows.
    let of_variance = sigma * ((mean * mean - variance).powi(2) + 4.0 * mean * mean + 1.0).sqrt() / rows;
    let ends = [-1.0, 1.0].map(|side| (variance + side * DEVIATIONS * of_variance).max(0.0).sqrt() * width);
    vec![
        around("mean".into(), low + mean * width, DEVIATIONS * of_mean * width),
        known("deviation".into(), deviation * width, ends),
    ]
}

/// Whether a ratio by so many rows says something.
fn enough(rows: f64, sigma: f64) -> bool {
    rows > 0.0 && rows >= DEVIATIONS_MIN * sigma
}

fn known(label: String, value: f64, [low, high]: [f64; 2]) -> Estimate {
    Estimate { label, value: Some(value), low: Some(low), high: Some(high) }
}

fn around(label: String, value: f64, within: f64) -> Estimate {
    known(label, value, [value - within, value + within])
}

fn unknown(label: String) -> Estimate {
    Estimate { label, value: None, low: None, high: None }
}

#[cfg(test)]
mod tests;
