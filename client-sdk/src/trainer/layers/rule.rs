//! Optimiser steps with PyTorch's formulas (`torch.optim`, version 2), so that settings carry over.

use pulp::{Simd, WithSimd};
use tributary_protocol::plan::Optimizer;

use super::super::contract::Correction;

/// One step of an optimiser, its factors worked out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    formula: Formula,
    /// The gradient of `pull / 2 |w - w_t|^2` is added, where w_t is the global model.
    pull: f32,
    /// Whether a constant is added to each gradient.
    is_shifted: bool,
}

#[derive(Clone, Copy, Debug)]
enum Formula {
    /// `g = g + penalty w`, `v = momentum v + g`, and `w = w - rate v`, with Nesterov `w - rate (g + momentum v)`.
    Sgd { rate: f32, penalty: f32, momentum: f32, nesterov: bool },
    /// Kingma and Ba (2015), algorithm 1, with the two bias corrections as PyTorch applies them.
    Adam(Adam),
}

/// `w = keep w`, `g = g + penalty w`, `m = beta1 m + (1 - beta1) g`, `v = beta2 v + (1 - beta2) g^2`, and
/// `w = w - rate m / (sqrt(v) / correction + epsilon)`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Adam {
    keep: f32,
    penalty: f32,
    /// `beta1` and `1 - beta1`.
    first: [f32; 2],
    /// `beta2` and `1 - beta2`.
    second: [f32; 2],
    /// `learning_rate / (1 - beta1^t)`.
    rate: f32,
    /// `sqrt(1 - beta2^t)`.
    correction: f32,
    epsilon: f32,
}

impl Rule {
    /// Step number `step`, counted from 1.
    pub(super) fn new(optimizer: &Optimizer, correction: &Correction<'_>, step: u64) -> Self {
        let (pull, is_shifted) = (correction.pull as f32, correction.constant.is_some());
        Self { formula: Formula::new(optimizer, step), pull, is_shifted }
    }

    /// How many numbers it keeps of each weight from step to step.
    pub(super) fn moments(&self) -> usize {
        match self.formula {
            Formula::Sgd { momentum: 0.0, .. } => 0,
            Formula::Sgd { .. } => 1,
            Formula::Adam(_) => 2,
        }
    }

    /// Whether it pulls each weight towards the value that it had before the first step.
    pub(super) fn is_proximal(&self) -> bool {
        self.pull > 0.0
    }

    /// Whether a weight without a gradient stays as it is.
    pub(super) fn keeps_without_gradient(&self) -> bool {
        !self.is_proximal()
            && !self.is_shifted
            && matches!(self.formula, Formula::Sgd { momentum: 0.0, penalty: 0.0, .. })
    }
}

impl Formula {
    fn new(optimizer: &Optimizer, step: u64) -> Self {
        match *optimizer {
            Optimizer::Sgd { learning_rate, momentum, weight_decay, nesterov } => Self::Sgd {
                rate: learning_rate as f32,
                penalty: weight_decay as f32,
                momentum: momentum as f32,
                nesterov,
            },
            Optimizer::Adam { learning_rate, beta1, beta2, epsilon, weight_decay } => {
                let adam = Adam::new(learning_rate, [beta1, beta2], epsilon, step);
                Self::Adam(Adam { penalty: weight_decay as f32, ..adam })
            }
            Optimizer::AdamW { learning_rate, beta1, beta2, epsilon, weight_decay } => {
                let adam = Adam::new(learning_rate, [beta1, beta2], epsilon, step);
                Self::Adam(Adam { keep: (1.0 - learning_rate * weight_decay) as f32, ..adam })
            }
        }
    }
}

impl Adam {
    fn new(learning_rate: f64, [beta1, beta2]: [f64; 2], epsilon: f64, step: u64) -> Self {
        let step = i32::try_from(step).unwrap_or(i32::MAX);
        Self {
            keep: 1.0,
            penalty: 0.0,
            first: [beta1 as f32, (1.0 - beta1) as f32],
            second: [beta2 as f32, (1.0 - beta2) as f32],
            rate: (learning_rate / (1.0 - beta1.powi(step))) as f32,
            correction: (1.0 - beta2.powi(step)).sqrt() as f32,
            epsilon: epsilon as f32,
        }
    }
}

/// A step of some weights. The moments are empty where the rule keeps none, the anchor where it pulls towards none, the
/// constants where none are added.
pub(super) struct Apply<'a> {
    pub(super) rule: &'a Rule,
    pub(super) weights: &'a mut [f32],
    pub(super) moments: [&'a mut [f32]; 2],
    pub(super) anchor: &'a [f32],
    pub(super) constant: &'a [f32],
    pub(super) gradient: &'a [f32],
}

impl WithSimd for Apply<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        // What is not used is not read either.
        let unread = self.gradient;
        let (anchor, constant) = (self.anchor, self.constant);
        match (self.rule.is_proximal(), !constant.is_empty()) {
            (false, false) => self.apply::<false, false>(unread, unread),
            (true, false) => self.apply::<true, false>(anchor, unread),
            (false, true) => self.apply::<false, true>(unread, constant),
            (true, true) => self.apply::<true, true>(anchor, constant),
        }
    }
}

impl Apply<'_> {
    #[inline(always)]
    fn apply<const PULLED: bool, const SHIFTED: bool>(self, anchor: &[f32], constant: &[f32]) {
        let Self { rule: Rule { formula, pull, .. }, weights, moments: [first, second], gradient, .. } = self;
        // The gradient with its corrections, which are left out rather than zero: adding zero would change -0.
        let corrected = |g: &f32, w: f32, (a, c): (&f32, &f32)| {
            let g = if PULLED { g + pull * (w - a) } else { *g };
            if SHIFTED { g + c } else { g }
        };
        let weights = weights.iter_mut().zip(gradient).zip(anchor.iter().zip(constant));
        match *formula {
            Formula::Sgd { rate, penalty: 0.0, momentum: 0.0, .. } => {
                weights.for_each(|((w, g), by)| *w -= rate * corrected(g, *w, by));
            }
            Formula::Sgd { rate, penalty, momentum: 0.0, .. } => {
                weights.for_each(|((w, g), by)| *w -= rate * (corrected(g, *w, by) + penalty * *w));
            }
            Formula::Sgd { rate, penalty, momentum, nesterov } => {
                // The gradient's own share of the direction, besides that of the velocity.
                let [own, share] = if nesterov { [1.0, momentum] } else { [0.0, 1.0] };
                for (((w, g), by), v) in weights.zip(first) {
                    let g = corrected(g, *w, by) + penalty * *w;
                    *v = momentum * *v + g;
                    *w -= rate * (own * g + share * *v);
                }
            }
            Formula::Adam(adam) => {
                for ((((w, g), by), m), v) in weights.zip(first).zip(second) {
                    let g = corrected(g, *w, by);
                    *w *= adam.keep;
                    let g = g + adam.penalty * *w;
                    *m = adam.first[0] * *m + adam.first[1] * g;
                    *v = adam.second[0] * *v + adam.second[1] * (g * g);
                    *w -= *m / (v.sqrt() / adam.correction + adam.epsilon) * adam.rate;
                }
            }
        }
    }
}
