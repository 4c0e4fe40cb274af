//! The product of a matrix `[outputs][inputs]` with one row, as in a prediction: every weight is read once, in order.

use pulp::{Simd, WithSimd};

use super::vectors::vectors;

/// Outputs that are summed at once: one sum each, as many as hide the latency of an addition.
const OUTPUTS: usize = 8;

/// `y[o] = bias[o] + x weight[o]`, with ReLU if asked.
pub(crate) struct Product<'a> {
    pub(crate) x: &'a [f32],
    pub(crate) weight: &'a [f32],
    /// Empty if there is none.
    pub(crate) bias: &'a [f32],
    pub(crate) relu: bool,
    pub(crate) y: &'a mut [f32],
}

impl WithSimd for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let outputs = self.y.len();
        let whole = outputs / OUTPUTS * OUTPUTS;
        for first in (0..whole).step_by(OUTPUTS) {
            self.block::<S, OUTPUTS>(simd, first);
        }
        let pairs = (outputs - whole) / 2 * 2;
        for first in (whole..whole + pairs).step_by(2) {
            self.block::<S, 2>(simd, first);
        }
        if whole + pairs < outputs {
            self.block::<S, 1>(simd, outputs - 1);
        }
    }
}

impl Product<'_> {
    /// O outputs. The sum of an output does not depend on O.
    #[inline(always)]
    fn block<S: Simd, const O: usize>(&mut self, simd: S, first: usize) {
        let inputs = self.x.len();
        let whole = inputs / S::F32_LANES;
        let rows: [&[f32]; O] = std::array::from_fn(|o| &self.weight[(first + o) * inputs..][..inputs]);
        let weights: [&[S::f32s]; O] = std::array::from_fn(|o| &vectors::<S>(rows[o])[..whole]);
        let mut sums = [simd.splat_f32s(0.0); O];
        for (k, x) in vectors::<S>(self.x).iter().enumerate().take(whole) {
            for o in 0..O {
                sums[o] = simd.mul_add_e_f32s(*x, weights[o][k], sums[o]);
            }
        }
        let done = whole * S::F32_LANES;
        if done < inputs {
            let x = simd.partial_load_f32s(&self.x[done..]);
            for o in 0..O {
                sums[o] = simd.mul_add_e_f32s(x, simd.partial_load_f32s(&rows[o][done..]), sums[o]);
            }
        }
        for (o, sum) in sums.iter().enumerate() {
            let bias = if self.bias.is_empty() { 0.0 } else { self.bias[first + o] };
            let value = bias + simd.reduce_sum_f32s(*sum);
            // A NaN stays a NaN: a divergence must not be hidden.
            self.y[first + o] = if self.relu && value < 0.0 { 0.0 } else { value };
        }
    }
}

#[cfg(test)]
mod tests {
    use tributary_protocol::seed::Seed;

    use super::super::Level;
    use super::*;

    #[test]
    fn products_of_every_size_are_those_of_plain_sums_at_every_level() {
        let mut stream = Seed(3).stream();
        for (inputs, outputs) in [(1, 1), (3, 2), (16, 8), (17, 9), (33, 19), (64, 31), (5, 16)] {
            let mut draw = |count: usize| (0..count).map(|_| stream.uniform(-1.0, 1.0)).collect::<Vec<f32>>();
            let (x, weight, bias) = (draw(inputs), draw(inputs * outputs), draw(outputs));
            for (level, relu) in Level::all().into_iter().flat_map(|level| [(level, false), (level, true)]) {
                let mut y = vec![f32::NAN; outputs];
                level.run(Product { x: &x, weight: &weight, bias: &bias, relu, y: &mut y });
                for (o, row) in weight.chunks_exact(inputs).enumerate() {
                    let sum: f64 = row.iter().zip(&x).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum();
                    let expected = f64::from(bias[o]) + sum;
                    let expected = if relu { expected.max(0.0) } else { expected };
                    assert!((f64::from(y[o]) - expected).abs() < 1e-5, "{inputs} to {outputs}: {} {expected}", y[o]);
                }
            }
        }
    }
}
