//! A weight `[outputs][inputs]` with an optional bias: what linear and recurrent layers are made of.

use super::machine::Machine;
use super::parameter::{Learned, Parameter};
use super::stage::{Pass, Step};
use crate::kernels::{AddRows, Dots, Grid, PullBack, RowGradient, WindowProducts};

/// Outputs that the gradient by the inputs reads at once.
const PULL_OUTPUTS: usize = 16;
/// Values of the gradient by the inputs that are worked on at once: they stay in the second cache.
const PULL_VALUES: usize = 1 << 16;
/// Outputs and columns of the weight's gradient that are made and applied at once.
const GRADIENT_BLOCK: [usize; 2] = [32, 512];
/// Parts of a product that threads share.
const PARTS: usize = 8;
/// Rows from which packing the weight is worth it.
const PACKED_ROWS: usize = 28;
/// Rows of a part are a multiple of this, the rows of the largest tile.
const TILE_ROWS: usize = 14;

#[derive(Debug)]
pub(super) struct Matrix {
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    weight: Parameter,
    bias: Option<Parameter>,
    /// The weight in panels, while it does not change.
    packed: Vec<f32>,
    /// Results of threads before they are put in order.
    parts: Vec<f32>,
    /// A block of the weight's gradient for each task.
    gradient: Vec<f32>,
}

impl Matrix {
    pub(super) fn new(weight: &[f32], bias: Option<&[f32]>, outputs: usize) -> Self {
        let inputs = weight.len() / outputs;
        let (weight, bias) = (Parameter::new(weight), bias.map(Parameter::new));
        Self { inputs, outputs, weight, bias, packed: Vec::new(), parts: Vec::new(), gradient: Vec::new() }
    }

    /// Empty if there is none.
    fn bias(&self) -> &[f32] {
        self.bias.as_ref().map_or(&[], |bias| &bias.values)
    }

    /// `y = x W^T + bias` for each row of `x`, with ReLU if asked.
    pub(super) fn forward(&mut self, x: &[f32], y: &mut [f32], relu: bool, pass: &Pass<'_>) {
        // In an evaluation the weight does not change any more, so that it is packed once.
        match !pass.is_training() && x.len() >= PACKED_ROWS * self.inputs {
            true => self.forward_packed(x, y, relu, pass.machine),
            false => self.forward_plain(x, y, relu, pass.machine),
        }
    }

    fn forward_plain(&mut self, x: &[f32], y: &mut [f32], relu: bool, machine: Machine) {
        let Self { inputs, outputs, .. } = *self;
        let rows = x.len() / inputs;
        let (weight, bias) = (self.weight.values.as_slice(), self.bias.as_ref().map_or(&[][..], |bias| &bias.values));
        if !machine.shares(rows * inputs * outputs) {
            return machine.level.run(Dots { x, weight, bias, relu, inputs, y });
        }
        let part = outputs.div_ceil(PARTS).next_multiple_of(5);
        self.parts.resize(rows * outputs, 0.0);
        let parts = weight.chunks(part * inputs).zip(self.parts.chunks_mut(part * rows)).enumerate();
        machine.each(parts, |(index, (weight, y))| {
            let bias = if bias.is_empty() { bias } else { &bias[index * part..][..weight.len() / inputs] };
            machine.level.run(Dots { x, weight, bias, relu, inputs, y });
        });
        in_rows(&self.parts, part, rows, y);
    }

    fn forward_packed(&mut self, x: &[f32], y: &mut [f32], relu: bool, machine: Machine) {
        let Self { inputs, outputs, .. } = *self;
        let rows = x.len() / inputs;
        self.pack(machine);
        let (panels, bias) = (self.packed.as_slice(), self.bias());
        let part = match machine.shares(rows * inputs * outputs) {
            true => rows.div_ceil(PARTS).next_multiple_of(TILE_ROWS),
            false => rows,
        };
        machine.each(x.chunks(part * inputs).zip(y.chunks_mut(part * outputs)), |(x, y)| {
            let grid = Grid::rows(x.len() / inputs, inputs);
            machine.level.run(WindowProducts { image: x, grid: &grid, panels, bias, relu, outputs, out: y });
        });
    }

    /// To `[panel of outputs][input][output in the panel]`.
    fn pack(&mut self, machine: Machine) {
        let (inputs, width) = (self.inputs, machine.level.panel());
        if !self.packed.is_empty() {
            return;
        }
        self.packed.resize(self.outputs.div_ceil(width) * inputs * width, 0.0);
        let panels = self.packed.chunks_exact_mut(inputs * width).zip(self.weight.values.chunks(inputs * width));
        for (panel, rows) in panels {
            for (output, row) in rows.chunks_exact(inputs).enumerate() {
                panel.chunks_exact_mut(width).zip(row).for_each(|(to, weight)| to[output] = *weight);
            }
        }
    }

    /// `dx = dy W`.
    pub(super) fn pull_back(&mut self, dy: &[f32], dx: &mut [f32], machine: Machine) {
        let Self { inputs, outputs, .. } = *self;
        let rows = dx.len() / inputs;
        if !machine.shares(rows * inputs * outputs) {
            dx.fill(0.0);
            return self.pull_back_onto(dy, dx, machine);
        }
        let part = pulled_columns(rows).min(inputs.div_ceil(PARTS).max(256)).next_multiple_of(64);
        self.parts.resize(rows * inputs, 0.0);
        let weight = &self.weight.values;
        machine.each(self.parts.chunks_mut(part * rows).enumerate(), |(index, dx)| {
            dx.fill(0.0);
            let columns = dx.len() / rows;
            for o in (0..outputs).step_by(PULL_OUTPUTS) {
                machine.level.run(PullBack {
                    dy: &dy[o..],
                    dy_row: outputs,
                    weight: &weight[o * inputs + index * part..],
                    inputs,
                    outputs: PULL_OUTPUTS.min(outputs - o),
                    columns,
                    rows,
                    dx,
                    dx_row: columns,
                });
            }
        });
        in_rows(&self.parts, part, rows, dx);
    }

    /// `dx += dy W`, on this thread.
    pub(super) fn pull_back_onto(&self, dy: &[f32], dx: &mut [f32], machine: Machine) {
        let Self { inputs, outputs, .. } = *self;
        let rows = dx.len() / inputs;
        let part = pulled_columns(rows).next_multiple_of(64);
        for column in (0..inputs).step_by(part) {
            for o in (0..outputs).step_by(PULL_OUTPUTS) {
                machine.level.run(PullBack {
                    dy: &dy[o..],
                    dy_row: outputs,
                    weight: &self.weight.values[o * inputs + column..],
                    inputs,
                    outputs: PULL_OUTPUTS.min(outputs - o),
                    columns: part.min(inputs - column),
                    rows,
                    dx: &mut dx[column..],
                    dx_row: inputs,
                });
            }
        }
    }

    /// One step along the gradient `dy^T x` of the weight and the column sums of `dy` of the bias. A block of the
    /// gradient is applied as soon as it is made, so the whole gradient never exists.
    pub(super) fn learn(&mut self, dy: &[f32], x: &[f32], step: &Step) {
        let Self { inputs, outputs, .. } = *self;
        let (machine, rule, rows) = (step.machine, &step.rule, x.len() / inputs);
        if let Some(bias) = &mut self.bias {
            let mut sums = vec![0.0; outputs];
            machine.level.run(AddRows { sums: &mut sums, rows: dy });
            bias.learned(rule).step(machine.level, rule, &sums);
        }
        let shares = machine.shares(rows * inputs * outputs);
        let [block, columns] = GRADIENT_BLOCK;
        let tasks = if shares { outputs.div_ceil(block) } else { 1 };
        self.gradient.resize(tasks * block * columns, 0.0);
        let blocks = self.weight.learned(rule).chunks(block * inputs).into_iter().enumerate();
        let work = |index: usize, mut weights: Learned<'_>, gradient: &mut [f32]| {
            let outputs_here = weights.values.len() / inputs;
            for column in (0..inputs).step_by(columns) {
                let width = columns.min(inputs - column);
                let gradient = &mut gradient[..outputs_here * width];
                machine.level.run(RowGradient {
                    dy: &dy[index * block..],
                    dy_row: outputs,
                    x: &x[column..],
                    inputs,
                    columns: width,
                    rows,
                    gradient,
                });
                for (row, gradient) in gradient.chunks_exact(width).enumerate() {
                    let first = row * inputs + column;
                    weights.part(first..first + width).step(machine.level, rule, gradient);
                }
            }
        };
        if shares {
            let tasks = blocks.zip(self.gradient.chunks_exact_mut(block * columns));
            machine.each(tasks, |((index, weights), gradient)| work(index, weights, gradient));
        } else {
            blocks.for_each(|(index, weights)| work(index, weights, &mut self.gradient));
        }
    }

    pub(super) fn parameters(&mut self) -> Vec<&mut Parameter> {
        [&mut self.weight].into_iter().chain(&mut self.bias).collect()
    }

    /// Appends the weight.
    pub(super) fn export_weight(&self, values: &mut Vec<f32>) {
        values.extend_from_slice(&self.weight.values);
    }

    /// Appends the bias, if there is one.
    pub(super) fn export_bias(&self, values: &mut Vec<f32>) {
        values.extend_from_slice(self.bias());
    }
}

/// Columns of the gradient by so many rows of inputs that are worked on at once.
fn pulled_columns(rows: usize) -> usize {
    (PULL_VALUES / rows).max(256)
}

/// Blocks of so many columns, one behind the other, to rows.
fn in_rows(blocks: &[f32], part: usize, rows: usize, to: &mut [f32]) {
    let each = to.len() / rows;
    for (index, block) in blocks.chunks(part * rows).enumerate() {
        let width = block.len() / rows;
        for (row, from) in block.chunks_exact(width).enumerate() {
            to[row * each + index * part..][..width].copy_from_slice(from);
        }
    }
}
