//! Learned values, each with what the optimiser keeps of it.

use std::ops::Range;

use super::rule::{Apply, Rule};
use crate::kernels::Level;

/// A tensor that is learned, in the layout that its layer computes with.
#[derive(Debug)]
pub(super) struct Parameter {
    pub(super) values: Vec<f32>,
    /// Made in the first step, as many as the optimiser needs.
    moments: [Vec<f32>; 2],
    /// The values before the first step, where the optimiser pulls towards them.
    anchor: Vec<f32>,
    /// Added to each gradient; empty where nothing is.
    constant: Vec<f32>,
    /// Whether no step changes it.
    pub(super) is_frozen: bool,
}

impl Parameter {
    pub(super) fn new(values: &[f32]) -> Self {
        Self::of(values.to_vec())
    }

    pub(super) fn of(values: Vec<f32>) -> Self {
        Self { values, moments: [Vec::new(), Vec::new()], anchor: Vec::new(), constant: Vec::new(), is_frozen: false }
    }

    /// Adds the values of another parameter to each gradient from now on.
    pub(super) fn shift_by(&mut self, other: &mut Self) {
        self.constant = std::mem::take(&mut other.values);
    }

    /// Pulls towards the values of another parameter, instead of those before the next step.
    pub(super) fn anchor_at(&mut self, other: &mut Self) {
        self.anchor = std::mem::take(&mut other.values);
    }

    /// Goes on with the values of another parameter as this moment.
    pub(super) fn set_moment(&mut self, which: usize, other: &mut Self) {
        self.moments[which] = std::mem::take(&mut other.values);
    }

    /// Exchanges the values with this moment, which is zeros before the first step.
    pub(super) fn swap_moment(&mut self, which: usize) {
        self.moments[which].resize(self.values.len(), 0.0);
        std::mem::swap(&mut self.values, &mut self.moments[which]);
    }

    /// The whole parameter, to be stepped in parts; nothing if it is frozen.
    pub(super) fn learned(&mut self, rule: &Rule) -> Learned<'_> {
        if self.is_frozen {
            return Learned { values: &mut [], moments: [&mut [], &mut []], anchor: &[], constant: &[] };
        }
        for moments in self.moments.iter_mut().take(rule.moments()) {
            moments.resize(self.values.len(), 0.0);
        }
        if rule.is_proximal() && self.anchor.is_empty() {
            self.anchor.clone_from(&self.values);
        }
        let moments = self.moments.each_mut().map(Vec::as_mut_slice);
        Learned { values: &mut self.values, moments, anchor: &self.anchor, constant: &self.constant }
    }
}

/// A part of a parameter.
#[derive(Debug)]
pub(super) struct Learned<'a> {
    pub(super) values: &'a mut [f32],
    moments: [&'a mut [f32]; 2],
    anchor: &'a [f32],
    constant: &'a [f32],
}

impl<'a> Learned<'a> {
    pub(super) fn part(&mut self, range: Range<usize>) -> Learned<'_> {
        let part = |all: &'_ mut [f32]| if all.is_empty() { 0..0 } else { range.clone() };
        let [first, second] = &mut self.moments;
        let ranges = [part(first), part(second)];
        let read = |all: &'a [f32]| if all.is_empty() { all } else { &all[range.clone()] };
        Learned {
            anchor: read(self.anchor),
            constant: read(self.constant),
            values: &mut self.values[range],
            moments: [&mut first[ranges[0].clone()], &mut second[ranges[1].clone()]],
        }
    }

    /// Parts of so many values; the last may be shorter.
    pub(super) fn chunks(mut self, size: usize) -> Vec<Learned<'a>> {
        let mut chunks = Vec::new();
        while !self.values.is_empty() {
            let count = size.min(self.values.len());
            let take = |all: &mut &'a mut [f32]| all.split_off_mut(..count.min(all.len())).unwrap_or_default();
            let values = take(&mut self.values);
            let [first, second] = &mut self.moments;
            let read = |all: &mut &'a [f32]| all.split_off(..count.min(all.len())).unwrap_or_default();
            let (anchor, constant) = (read(&mut self.anchor), read(&mut self.constant));
            chunks.push(Learned { values, moments: [take(first), take(second)], anchor, constant });
        }
        chunks
    }

    /// One optimiser step along this gradient.
    pub(super) fn step(self, level: Level, rule: &Rule, gradient: &[f32]) {
        let Self { values: weights, moments, anchor, constant } = self;
        level.run(Apply { rule, weights, moments, anchor, constant, gradient });
    }
}
