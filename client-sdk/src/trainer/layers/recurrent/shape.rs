//! Sizes and orders of a recurrent layer.

/// Sizes of a recurrent layer.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Shape {
    pub(in super::super) time: usize,
    pub(in super::super) features: usize,
    pub(in super::super) hidden: usize,
    /// Whether it puts out the state after every time step instead of the last one.
    pub(in super::super) sequences: bool,
}

impl Shape {
    pub(super) fn outputs(&self) -> usize {
        if self.sequences { self.time * self.hidden } else { self.hidden }
    }

    pub(super) fn batch(&self, x: &[f32]) -> usize {
        x.len() / (self.time * self.features)
    }

    /// The inputs `[batch][features]` of one time step.
    pub(super) fn input(&self, x: &[f32], step: usize, to: &mut [f32]) {
        for (x, to) in x.chunks_exact(self.time * self.features).zip(to.chunks_exact_mut(self.features)) {
            to.copy_from_slice(&x[step * self.features..][..self.features]);
        }
    }

    /// Puts the state `[batch][hidden]` after a time step where it belongs among the outputs.
    pub(super) fn output(&self, state: &[f32], step: usize, y: &mut [f32]) {
        if !self.sequences {
            if step + 1 == self.time {
                y.copy_from_slice(state);
            }
            return;
        }
        for (state, y) in state.chunks_exact(self.hidden).zip(y.chunks_exact_mut(self.time * self.hidden)) {
            y[step * self.hidden..][..self.hidden].copy_from_slice(state);
        }
    }

    /// Adds the gradient by the outputs of a time step to that by its state.
    pub(super) fn add_gradient(&self, dy: &[f32], step: usize, state: &mut [f32]) {
        let add = |state: &mut [f32], dy: &[f32]| state.iter_mut().zip(dy).for_each(|(state, dy)| *state += dy);
        if !self.sequences {
            if step + 1 == self.time {
                add(state, dy);
            }
            return;
        }
        for (state, dy) in state.chunks_exact_mut(self.hidden).zip(dy.chunks_exact(self.time * self.hidden)) {
            add(state, &dy[step * self.hidden..][..self.hidden]);
        }
    }

    /// `[time][batch][features]` to `[batch][time][features]`.
    pub(super) fn by_example(&self, from: &[f32], to: &mut [f32]) {
        let batch = self.batch(from);
        for (example, to) in to.chunks_exact_mut(self.time * self.features).enumerate() {
            for (step, to) in to.chunks_exact_mut(self.features).enumerate() {
                to.copy_from_slice(&from[(step * batch + example) * self.features..][..self.features]);
            }
        }
    }
}
