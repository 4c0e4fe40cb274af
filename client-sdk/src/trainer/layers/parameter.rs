//! Learned values, each with what the optimiser keeps of it.

use std::ops::Range;

use super::kernels::Level;
use super::rule::{Apply, Rule};

/// A tensor that is learned, in the layout that its layer computes with.
#[derive(Debug)]
pub(super) struct Parameter {
    pub(super) values: Vec<f32>,
    /// Made in the first step, as many as the optimiser needs.
    moments: [Vec<f32>; 2],
    /// The values before the first step, where the optimiser pulls towards them.
    anchor: Vec<f32>,
}

impl Parameter {
    pub(super) fn new(values: &[f32]) -> Self {
        Self::of(values.to_vec())
    }

    pub(super) fn of(values: Vec<f32>) -> Self {
        Self { values, moments: [Vec::new(), Vec::new()], anchor: Vec::new() }
    }

    /// The whole parameter, to be stepped in parts.
    pub(super) fn learned(&mut self, rule: &Rule) -> Learned<'_> {
        for moments in self.moments.iter_mut().take(rule.moments()) {
            moments.resize(self.values.len(), 0.0);
        }
        if rule.is_proximal() && self.anchor.is_empty() {
            self.anchor.clone_from(&self.values);
        }
        let moments = self.moments.each_mut().map(Vec::as_mut_slice);
        Learned { values: &mut self.values, moments, anchor: &self.anchor }
    }
}

/// A part of a parameter.
#[derive(Debug)]
pub(super) struct Learned<'a> {
    pub(super) values: &'a mut [f32],
    moments: [&'a mut [f32]; 2],
    anchor: &'a [f32],
}

impl<'a> Learned<'a> {
    pub(super) fn part(&mut self, range: Range<usize>) -> Learned<'_> {
        let part = |all: &'_ mut [f32]| if all.is_empty() { 0..0 } else { range.clone() };
        let [first, second] = &mut self.moments;
        let ranges = [part(first), part(second)];
        let anchor = if self.anchor.is_empty() { self.anchor } else { &self.anchor[range.clone()] };
        Learned {
            anchor,
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
            let anchor = self.anchor.split_off(..count.min(self.anchor.len())).unwrap_or_default();
            chunks.push(Learned { values, moments: [take(first), take(second)], anchor });
        }
        chunks
    }

    /// One optimiser step along this gradient.
    pub(super) fn step(self, level: Level, rule: &Rule, gradient: &[f32]) {
        level.run(Apply { rule, weights: self.values, moments: self.moments, anchor: self.anchor, gradient });
    }
}
