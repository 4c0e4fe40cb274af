//! An accelerator that computes each kernel by its definition, one value after the other.

use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;

use super::super::{Accelerator, Dispatch, Kernel, Program, Work};
use crate::locked::Locked;

/// Clones share what they have done.
#[derive(Clone, Default)]
pub(super) struct Simulated(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    program: Option<Program>,
    buffers: Vec<Vec<f32>>,
    /// Sizes of the batches of each piece.
    pieces: Vec<Vec<usize>>,
    /// After so many pieces it answers with an error.
    pieces_max: Option<usize>,
}

impl Simulated {
    pub(super) fn that_fails_after(pieces: usize) -> Self {
        let simulated = Self::default();
        simulated.state(|state| state.pieces_max = Some(pieces));
        simulated
    }

    pub(super) fn pieces(&self) -> Vec<Vec<usize>> {
        self.state(|state| state.pieces.clone())
    }

    pub(super) fn kernels(&self) -> Vec<Kernel> {
        let program = self.state(|state| state.program.clone()).unwrap();
        program.steps[0].dispatches.iter().map(|dispatch| dispatch.kernel).collect()
    }

    fn state<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.0.locked())
    }
}

impl Accelerator for Simulated {
    fn run(&mut self, work: Work) -> BoxFuture<'static, Result<Vec<f32>, String>> {
        let answer = self.state(|state| state.run(work));
        Box::pin(async move { answer })
    }
}

impl State {
    fn run(&mut self, work: Work) -> Result<Vec<f32>, String> {
        match work {
            Work::Begin { program, values } => {
                self.buffers = program.buffers.iter().map(|length| vec![0.0; *length]).collect();
                let mut values = values.into_iter();
                for buffer in &program.parameters {
                    self.buffers[*buffer].iter_mut().for_each(|value| *value = values.next().unwrap());
                }
                self.program = Some(program);
                Ok(Vec::new())
            }
            Work::Steps { batches, inputs, classes } => {
                if self.pieces_max == Some(self.pieces.len()) {
                    return Err("it was unplugged".to_owned());
                }
                self.pieces.push(batches.clone());
                let program = self.program.clone().unwrap();
                let width = inputs.len() / classes.len();
                let (mut inputs, mut classes, mut losses) = (inputs.as_slice(), classes.as_slice(), Vec::new());
                for examples in batches {
                    let (own, labels);
                    (own, inputs) = inputs.split_at(examples * width);
                    (labels, classes) = classes.split_at(examples);
                    self.buffers[Program::INPUTS][..own.len()].copy_from_slice(own);
                    let labels = labels.iter().map(|class| *class as f32);
                    self.buffers[Program::CLASSES].iter_mut().zip(labels).for_each(|(place, class)| *place = class);
                    let step = program.steps.iter().find(|step| step.examples == examples).unwrap();
                    step.dispatches.iter().for_each(|dispatch| self.dispatch(dispatch));
                    losses.extend_from_slice(&self.buffers[Program::LOSSES][..examples]);
                }
                Ok(losses)
            }
            Work::Values => {
                let parameters = self.program.iter().flat_map(|program| &program.parameters);
                Ok(parameters.flat_map(|buffer| self.buffers[*buffer].clone()).collect())
            }
        }
    }

    fn dispatch(&mut self, dispatch: &Dispatch) {
        let Dispatch { kernel, buffers, numbers, groups } = dispatch;
        assert!(numbers.len() <= 16, "{dispatch:?}");
        // What a kernel does not write keeps a wrong value, so that nobody relies on it.
        let mut bound: Vec<Vec<f32>> = buffers.iter().map(|buffer| self.buffers[*buffer].clone()).collect();
        compute(*kernel, &mut bound, numbers, groups[2] as usize);
        for (buffer, values) in buffers.iter().zip(bound) {
            self.buffers[*buffer] = values;
        }
    }
}

/// Numbers of a window, as [`Kernel`] lists them.
struct Window([usize; 12]);

impl Window {
    fn of(numbers: &[u32]) -> Self {
        let numbers: Vec<usize> = numbers.iter().map(|number| *number as usize).collect();
        Self(numbers.try_into().unwrap())
    }

    /// Every triple of an output place in its plane, a place in the window and the pixel of the plane below both.
    fn triples(&self) -> Vec<[usize; 3]> {
        let [_, height, width, _, tall, wide, down, across, top, left, out_height, out_width] = self.0;
        let mut triples = Vec::new();
        for (out, part) in (0..out_height * out_width).flat_map(|out| (0..tall * wide).map(move |part| (out, part))) {
            let row = (out / out_width * down + part / wide).checked_sub(top).filter(|row| *row < height);
            let column = (out % out_width * across + part % wide).checked_sub(left).filter(|column| *column < width);
            if let (Some(row), Some(column)) = (row, column) {
                triples.push([out, part, row * width + column]);
            }
        }
        triples
    }

    /// Pixels of an input plane, those of an output plane, and those of a window.
    fn sizes(&self) -> [usize; 3] {
        let [_, height, width, _, tall, wide, .., out_height, out_width] = self.0;
        [height * width, out_height * out_width, tall * wide]
    }
}

fn compute(kernel: Kernel, bound: &mut [Vec<f32>], numbers: &[u32], copies: usize) {
    let [count, second, third, fourth] = [0, 1, 2, 3].map(|at| numbers.get(at).map_or(0, |number| *number as usize));
    let function = |bound: &mut [Vec<f32>], of: fn(f32) -> f32| {
        let [x, y] = bound else { panic!("{kernel:?}") };
        y.iter_mut().zip(x).take(count).for_each(|(y, x)| *y = of(*x));
    };
    let slope = |bound: &mut [Vec<f32>], of: fn(f32) -> f32| {
        let [y, dy, dx] = bound else { panic!("{kernel:?}") };
        (0..count).for_each(|at| dx[at] = dy[at] * of(y[at]));
    };
    match (kernel, bound) {
        (Kernel::Linear, [x, w, y, b]) => {
            let (n, k) = (second, third);
            for (m, at) in (0..count).flat_map(|m| (0..n).map(move |at| (m, at))) {
                y[m * n + at] = b[at] + (0..k).map(|k_at| x[m * k + k_at] * w[at * k + k_at]).sum::<f32>();
            }
        }
        (Kernel::LinearBack, [dy, w, dx]) => {
            let (n, k) = (second, third);
            for (m, at) in (0..count).flat_map(|m| (0..n).map(move |at| (m, at))) {
                dx[m * n + at] = (0..k).map(|k_at| dy[m * k + k_at] * w[k_at * n + at]).sum();
            }
        }
        (Kernel::LinearLearn, [dy, x, dw]) => {
            let (m, n, k, slice) = (count, second, third, fourth);
            dw[..copies * m * n].fill(0.0);
            for at in 0..k {
                for (row, column) in (0..m).flat_map(|row| (0..n).map(move |column| (row, column))) {
                    dw[(at / slice * m + row) * n + column] += dy[at * m + row] * x[at * n + column];
                }
            }
        }
        (Kernel::Conv, [x, w, y, b]) => {
            let window = Window::of(&numbers[4..]);
            let ([pixels, places, parts], channels, outputs) = (window.sizes(), window.0[0], window.0[3]);
            for (image, output) in (0..count / places).flat_map(|image| (0..outputs).map(move |out| (image, out))) {
                let first = (image * outputs + output) * places;
                y[first..first + places].fill(b[output]);
                for ([out, part, pixel], channel) in each_channel(&window) {
                    let weight = w[(output * channels + channel) * parts + part];
                    y[first + out] += weight * x[(image * channels + channel) * pixels + pixel];
                }
            }
        }
        (Kernel::ConvBack, [dy, w, dx]) => {
            let window = Window::of(&numbers[4..]);
            let ([pixels, places, parts], channels, outputs) = (window.sizes(), window.0[0], window.0[3]);
            dx[..count * channels].fill(0.0);
            for (image, output) in (0..count / pixels).flat_map(|image| (0..outputs).map(move |out| (image, out))) {
                for ([out, part, pixel], channel) in each_channel(&window) {
                    let weight = w[(output * channels + channel) * parts + part];
                    let gradient = dy[(image * outputs + output) * places + out];
                    dx[(image * channels + channel) * pixels + pixel] += weight * gradient;
                }
            }
        }
        (Kernel::ConvLearn, [dy, x, dw]) => {
            let window = Window::of(&numbers[4..]);
            let ([pixels, places, parts], channels, outputs) = (window.sizes(), window.0[0], window.0[3]);
            dw[..copies * count * second].fill(0.0);
            for (image, output) in (0..third / places).flat_map(|image| (0..outputs).map(move |out| (image, out))) {
                for ([out, part, pixel], channel) in each_channel(&window) {
                    let copy = (image * places + out) / fourth;
                    let weight = (copy * outputs + output) * second + channel * parts + part;
                    let gradient = dy[(image * outputs + output) * places + out];
                    dw[weight] += gradient * x[(image * channels + channel) * pixels + pixel];
                }
            }
        }
        (Kernel::BiasLearn, [dy, db]) => {
            let (rows, channels, pixels) = (count, second, third);
            db[..channels].fill(0.0);
            (0..rows * channels * pixels).for_each(|at| db[at / pixels % channels] += dy[at]);
        }
        (Kernel::Sgd, [w, gradient, velocity]) => {
            let factors: Vec<f32> = numbers[2..].iter().map(|bits| f32::from_bits(*bits)).collect();
            let [rate, penalty, momentum, own, share] = factors[..] else { panic!("{factors:?}") };
            for at in 0..count {
                let sum: f32 = (0..second).map(|copy| gradient[copy * count + at]).sum();
                let sum = sum + penalty * w[at];
                velocity[at] = momentum * velocity[at] + sum;
                w[at] -= rate * (own * sum + share * velocity[at]);
            }
        }
        (Kernel::CrossEntropy, [scores, classes, gradient, losses]) => {
            let share = f32::from_bits(numbers[2]);
            for row in 0..count {
                let range = row * second..(row + 1) * second;
                let class = classes[row] as usize;
                let sum: f32 = scores[range.clone()].iter().map(|score| score.exp()).sum();
                losses[row] = sum.ln() - scores[range.start + class];
                for at in range.clone() {
                    gradient[at] = share * scores[at].exp() / sum;
                }
                gradient[range.start + class] -= share;
            }
        }
        (Kernel::MaxPool, [x, y, found]) => {
            let window = Window::of(&numbers[1..]);
            let [pixels, places, _] = window.sizes();
            y[..count].fill(f32::NEG_INFINITY);
            for (plane, [out, _, pixel]) in
                (0..count / places).flat_map(|plane| window.triples().into_iter().map(move |triple| (plane, triple)))
            {
                let (value, at) = (x[plane * pixels + pixel], plane * places + out);
                if value > y[at] {
                    (y[at], found[at]) = (value, pixel as f32);
                }
            }
        }
        (Kernel::MaxPoolBack, [dy, found, dx]) => {
            let [pixels, places, _] = Window::of(&numbers[1..]).sizes();
            dx[..count].fill(0.0);
            (0..count / pixels * places).for_each(|at| dx[at / places * pixels + found[at] as usize] += dy[at]);
        }
        (Kernel::Relu, bound) => function(bound, |x| x.max(0.0)),
        (Kernel::Tanh, bound) => function(bound, f32::tanh),
        (Kernel::Sigmoid, bound) => function(bound, |x| 1.0 / (1.0 + (-x).exp())),
        (Kernel::ReluBack, bound) => slope(bound, |y| if y > 0.0 { 1.0 } else { 0.0 }),
        (Kernel::TanhBack, bound) => slope(bound, |y| 1.0 - y * y),
        (Kernel::SigmoidBack, bound) => slope(bound, |y| y * (1.0 - y)),
        (kernel, bound) => panic!("{kernel:?} is bound to {} buffers", bound.len()),
    }
}

fn each_channel(window: &Window) -> impl Iterator<Item = ([usize; 3], usize)> {
    let channels = window.0[0];
    window.triples().into_iter().flat_map(move |triple| (0..channels).map(move |channel| (triple, channel)))
}
