//! Losses and their gradients by the scores.

use super::super::score::Aim;

/// The loss of a batch: the mean over its rows (cross-entropy) or over all its outputs (squared error). `gradient`
/// becomes its gradient by the scores.
pub(super) fn loss(scores: &[f32], aim: &Aim<'_>, gradient: &mut Vec<f32>) -> f64 {
    gradient.resize(scores.len(), 0.0);
    match aim {
        Aim::Classes(classes) => cross_entropy(scores, classes, gradient),
        Aim::Values(values) => squared_error(scores, values, gradient),
    }
}

/// `-log softmax(scores)[class]`; the gradient is `softmax(scores) - 1[class]`.
fn cross_entropy(scores: &[f32], classes: &[u32], gradient: &mut [f32]) -> f64 {
    let outputs = scores.len() / classes.len();
    let share = 1.0 / classes.len() as f32;
    let rows = scores.chunks_exact(outputs).zip(gradient.chunks_exact_mut(outputs)).zip(classes);
    let mut losses = 0.0;
    for ((scores, gradient), class) in rows {
        let class = *class as usize;
        let highest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let mut sum = 0.0;
        for (gradient, score) in gradient.iter_mut().zip(scores) {
            *gradient = (score - highest).exp();
            sum += *gradient;
        }
        losses += f64::from(sum.ln() - (scores[class] - highest));
        gradient.iter_mut().for_each(|gradient| *gradient *= share / sum);
        gradient[class] -= share;
    }
    losses / classes.len() as f64
}

/// `(score - value)^2`; the gradient is `2 (score - value)`.
fn squared_error(scores: &[f32], values: &[f32], gradient: &mut [f32]) -> f64 {
    let share = 2.0 / values.len() as f32;
    let mut losses = 0.0;
    for ((score, value), gradient) in scores.iter().zip(values).zip(gradient) {
        let error = score - value;
        losses += f64::from(error * error);
        *gradient = share * error;
    }
    losses / values.len() as f64
}
