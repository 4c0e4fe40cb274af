//! Embeddings (`torch.nn.Embedding`).

use super::parameter::Parameter;
use super::stage::{Pass, Stage, Step};

/// A row of the weight for each token id. Ids were checked to be below the number of tokens.
#[derive(Debug)]
pub(super) struct Embedding {
    /// `[tokens, size]`.
    weight: Parameter,
    size: usize,
    /// Tokens of one example.
    time: usize,
}

impl Embedding {
    pub(super) fn new(weight: &[f32], size: usize, time: usize) -> Self {
        Self { weight: Parameter::new(weight), size, time }
    }
}

impl Stage for Embedding {
    fn outputs(&self) -> usize {
        self.time * self.size
    }

    fn forward(&mut self, x: &[f32], y: &mut [f32], _pass: &mut Pass<'_>) {
        for (id, y) in x.iter().zip(y.chunks_exact_mut(self.size)) {
            y.copy_from_slice(&self.weight.values[*id as usize * self.size..][..self.size]);
        }
    }

    /// It is the first layer, so nobody asks for `dx`. Tokens are visited in order, each with the sum of the gradients
    /// of its places.
    fn backward(&mut self, x: &[f32], _y: &[f32], dy: &mut [f32], _dx: Option<&mut [f32]>, step: &Step) {
        let mut places: Vec<(usize, usize)> = x.iter().enumerate().map(|(place, id)| (*id as usize, place)).collect();
        places.sort_unstable();
        let mut gradient = vec![0.0; self.size];
        let skip = step.rule.keeps_without_gradient();
        let mut next = 0;
        for (token, row) in self.weight.learned(&step.rule).chunks(self.size).into_iter().enumerate() {
            let first = next;
            gradient.fill(0.0);
            while let Some((_, place)) = places.get(next).filter(|(id, _)| *id == token) {
                let dy = &dy[place * self.size..][..self.size];
                gradient.iter_mut().zip(dy).for_each(|(gradient, dy)| *gradient += dy);
                next += 1;
            }
            if next > first || !skip {
                row.step(step.machine.level, &step.rule, &gradient);
            }
        }
    }

    fn parameters(&mut self) -> Vec<&mut Parameter> {
        vec![&mut self.weight]
    }

    fn export(&self, values: &mut Vec<f32>) {
        values.extend_from_slice(&self.weight.values);
    }
}
