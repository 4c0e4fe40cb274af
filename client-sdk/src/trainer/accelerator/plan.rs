//! The program of a network: its buffers, and what a batch dispatches.

use tributary_protocol::layers::{HeightWidth, Layer, LayeredModel};

use super::super::contract::TrainTask;
use super::cover::Descent;
use super::program::{Dispatch, Kernel, Program, Step};

/// Length of the sides of a tile of a product, which one workgroup computes.
const TILE: usize = 16;
/// Threads of a workgroup of all other kernels.
const THREADS: usize = 256;
/// Most workgroups in one direction that every WebGPU allows.
const GROUPS_MAX: usize = 65_535;
/// Largest buffer that every WebGPU can bind.
const BUFFER_BYTES_MAX: usize = 128 << 20;
/// Most bytes of all buffers together. Phones share their memory with the GPU.
const ALL_BYTES_MAX: usize = 512 << 20;
/// Workgroups that keep a GPU busy. The gradient of a small matrix is cut into copies to have so many.
const GROUPS_WANTED: usize = 64;
/// Fewest terms of a sum for which a copy is worth it.
const TERMS_MIN: usize = 256;

/// The program of a training on batches of these sizes; the first is the largest.
///
/// # Errors
/// What has no kernel or is too large, as text for a person.
pub(super) fn program(
    network: &LayeredModel,
    task: &TrainTask<'_>,
    descent: Descent,
    batches: &[usize],
) -> Result<Program, String> {
    let examples = batches[0];
    let mut plan = Plan::new(network, task, examples)?;
    let copies = batches.iter().flat_map(|examples| plan.nodes.iter().map(|node| node.gradient_values(*examples)));
    let gradient = copies.max().unwrap_or_default();
    plan.buffers[Plan::GRADIENT] = gradient;
    let bytes = |values: &usize| values.checked_mul(4).filter(|bytes| *bytes <= BUFFER_BYTES_MAX);
    let all = plan.buffers.iter().map(bytes).try_fold(0_usize, |sum, bytes| sum.checked_add(bytes?));
    if all.is_none_or(|bytes| bytes > ALL_BYTES_MAX) {
        return Err(format!("{examples} examples in a batch need buffers that are too large"));
    }
    let steps = batches.iter().map(|examples| plan.step(*examples, descent)).collect::<Result<_, String>>()?;
    Ok(Program { parameters: plan.parameters, buffers: plan.buffers, steps })
}

/// A parameter that a kernel steps, with its velocity.
#[derive(Clone, Copy, Debug)]
struct Learned {
    values: usize,
    velocity: usize,
    count: usize,
    is_frozen: bool,
}

/// Where the windows of a convolution or a pool are.
#[derive(Clone, Copy, Debug)]
struct Window {
    channels: usize,
    input: [usize; 2],
    out_channels: usize,
    kernel: [usize; 2],
    stride: [usize; 2],
    zeros: [usize; 2],
    output: [usize; 2],
}

#[derive(Debug)]
enum Operation {
    /// `positions` rows of an example, each of `inputs` values, become rows of `outputs`.
    Linear {
        positions: usize,
        inputs: usize,
        outputs: usize,
    },
    Conv(Window),
    /// `places` is the buffer of the places of the largest values.
    MaxPool {
        window: Window,
        places: usize,
    },
    Function {
        forward: Kernel,
        back: Kernel,
    },
}

/// One layer with its buffers.
#[derive(Debug)]
struct Node {
    operation: Operation,
    x: usize,
    y: usize,
    /// Values of an example that it reads and writes.
    inputs: usize,
    outputs: usize,
    weight: Option<Learned>,
    /// Where a layer has none, a buffer of zeros that no step changes.
    bias: Option<Learned>,
}

struct Plan {
    buffers: Vec<usize>,
    parameters: Vec<usize>,
    nodes: Vec<Node>,
    /// Values that the network puts out for an example.
    outputs: usize,
}

impl Plan {
    /// The gradient of one parameter after the other, in copies.
    const GRADIENT: usize = 3;
    /// The gradient by the outputs of a layer, and by its inputs. Layers take turns with the two.
    const BACK: [usize; 2] = [4, 5];

    fn new(network: &LayeredModel, task: &TrainTask<'_>, examples: usize) -> Result<Self, String> {
        let shapes = network.shapes().map_err(|error| error.to_string())?;
        let parameters = task.model.parameters().specs();
        let counts: Vec<usize> = parameters.iter().map(|spec| spec.shape.iter().product()).collect();
        let mut plan = Self { buffers: vec![0; 6], parameters: Vec::new(), nodes: Vec::new(), outputs: 0 };
        let (mut shape, mut x) = (network.input.as_slice(), Program::INPUTS);
        plan.buffers[Program::INPUTS] = batch_values(examples, shape.iter().product())?;
        for (index, (layer, output)) in network.layers.iter().zip(&shapes).enumerate() {
            let mut next = || {
                let place = plan.parameters.len();
                let values = plan.buffers.len();
                plan.buffers.extend([counts[place]; 2]);
                plan.parameters.push(values);
                Learned { values, velocity: values + 1, count: counts[place], is_frozen: task.is_frozen(place) }
            };
            let (inputs, outputs) = (shape.iter().product(), output.iter().product());
            let (weight, bias) = match layer {
                Layer::Linear { bias, .. } | Layer::Conv2d { bias, .. } => (Some(next()), bias.then(next)),
                _ => (None, None),
            };
            let operation = plan.operation(layer, shape, output, examples);
            let operation = operation.map_err(|what| format!("layers[{index}]: {what}"))?;
            shape = output;
            let Some(operation) = operation else { continue };
            let y = plan.buffer(batch_values(examples, outputs)?);
            let bias = weight.map(|_| bias.unwrap_or_else(|| plan.zeros(output)));
            plan.nodes.push(Node { operation, x, y, inputs, outputs, weight, bias });
            x = y;
        }
        plan.outputs = shape.iter().product();
        if plan.nodes.is_empty() || shape.last() != Some(&plan.outputs) {
            return Err("an example has several rows of scores".to_owned());
        }
        plan.buffers[Program::CLASSES] = examples;
        plan.buffers[Program::LOSSES] = examples;
        let most = plan.nodes.iter().map(|node| node.outputs).max().unwrap_or_default();
        for buffer in Self::BACK {
            plan.buffers[buffer] = batch_values(examples, most)?;
        }
        Ok(plan)
    }

    /// `None` for a layer that leaves values as they are.
    fn operation(
        &mut self,
        layer: &Layer,
        shape: &[usize],
        output: &[usize],
        examples: usize,
    ) -> Result<Option<Operation>, String> {
        let last = |shape: &[usize]| shape.last().copied().unwrap_or(1);
        let function = |forward, back| Ok(Some(Operation::Function { forward, back }));
        match *layer {
            Layer::Linear { out_features: outputs, .. } => {
                let positions = output.iter().product::<usize>() / outputs;
                Ok(Some(Operation::Linear { positions, inputs: last(shape), outputs }))
            }
            Layer::Conv2d { kernel_size, stride, padding, .. } => {
                let [before, _] = padding.zeros(kernel_size);
                Ok(Some(Operation::Conv(Window::new(shape, output, kernel_size.into(), stride, before))))
            }
            Layer::MaxPool2d { kernel_size, stride } => {
                let window = Window::new(shape, output, kernel_size.into(), stride.unwrap_or(kernel_size), [0, 0]);
                let places = self.buffer(batch_values(examples, output.iter().product())?);
                Ok(Some(Operation::MaxPool { window, places }))
            }
            Layer::Relu {} => function(Kernel::Relu, Kernel::ReluBack),
            Layer::Tanh {} => function(Kernel::Tanh, Kernel::TanhBack),
            Layer::Sigmoid {} => function(Kernel::Sigmoid, Kernel::SigmoidBack),
            Layer::Flatten {} => Ok(None),
            _ => Err(format!("there is no kernel for {}", layer.kind())),
        }
    }

    fn buffer(&mut self, values: usize) -> usize {
        self.buffers.push(values);
        self.buffers.len() - 1
    }

    /// What stands in for the bias of a layer that puts out this shape.
    fn zeros(&mut self, output: &[usize]) -> Learned {
        // The channels of an image, or the last dimension.
        let count = if output.len() == 3 { output[0] } else { output[output.len() - 1] };
        let values = self.buffer(count);
        Learned { values, velocity: values, count, is_frozen: true }
    }

    fn step(&self, examples: usize, descent: Descent) -> Result<Step, String> {
        let mut dispatches = Vec::new();
        for node in &self.nodes {
            dispatches.push(node.forward(examples)?);
        }
        let [mut dy, mut dx] = Self::BACK;
        let scores = self.nodes[self.nodes.len() - 1].y;
        let buffers = vec![scores, Program::CLASSES, dy, Program::LOSSES];
        let share = (1.0 / examples as f32).to_bits();
        let numbers = vec![number(examples)?, number(self.outputs)?, share];
        dispatches.push(Dispatch { kernel: Kernel::CrossEntropy, buffers, numbers, groups: over(examples)? });
        // Nothing before the first layer that learns needs a gradient.
        let first = self.nodes.iter().position(Node::learns).unwrap_or(self.nodes.len());
        for (index, node) in self.nodes.iter().enumerate().skip(first).rev() {
            // With the weights of the forward pass, so before they are stepped.
            if index > first {
                dispatches.push(node.back(examples, dy, dx)?);
            }
            node.learn(examples, dy, descent, &mut dispatches)?;
            std::mem::swap(&mut dy, &mut dx);
        }
        Ok(Step { examples, dispatches })
    }
}

impl Window {
    fn new(shape: &[usize], output: &[usize], kernel: [usize; 2], stride: HeightWidth, zeros: [usize; 2]) -> Self {
        // Shape inference accepts only images here.
        let (input, out) = ([shape[1], shape[2]], [output[1], output[2]]);
        let stride = stride.into();
        Self { channels: shape[0], input, out_channels: output[0], kernel, stride, zeros, output: out }
    }

    fn numbers(&self) -> impl Iterator<Item = usize> {
        let Self { channels, input, out_channels, kernel, stride, zeros, output } = *self;
        let pairs = [kernel, stride, zeros, output];
        [channels, input[0], input[1], out_channels].into_iter().chain(pairs.into_iter().flatten())
    }

    /// Values of one window in all channels.
    fn values(&self) -> usize {
        self.channels * self.kernel[0] * self.kernel[1]
    }

    fn pixels(&self) -> usize {
        self.output[0] * self.output[1]
    }
}

impl Node {
    fn learns(&self) -> bool {
        [self.weight, self.bias].into_iter().flatten().any(|learned| !learned.is_frozen)
    }

    /// Rows, columns and terms of the product that is the gradient by the weight.
    fn learned_product(&self, examples: usize) -> Option<[usize; 3]> {
        match &self.operation {
            Operation::Linear { positions, inputs, outputs } => Some([*outputs, *inputs, examples * positions]),
            Operation::Conv(window) => Some([window.out_channels, window.values(), examples * window.pixels()]),
            _ => None,
        }
    }

    /// Values of the largest gradient that it makes for its parameters, with all copies.
    fn gradient_values(&self, examples: usize) -> usize {
        let Some([m, n, k]) = self.learned_product(examples) else { return 0 };
        (m * n).saturating_mul(k.div_ceil(slice(m, n, k))).max(m)
    }

    fn forward(&self, examples: usize) -> Result<Dispatch, String> {
        let Self { x, y, .. } = *self;
        let with_parameters = || {
            let parameters = [self.weight, self.bias].into_iter().flatten().map(|learned| learned.values);
            let mut buffers: Vec<usize> = [x].into_iter().chain(parameters).collect();
            buffers.insert(2, y);
            buffers
        };
        match &self.operation {
            Operation::Linear { positions, inputs, outputs } => {
                let size = [examples * positions, *outputs, *inputs];
                product(Kernel::Linear, with_parameters(), size, *inputs, None)
            }
            Operation::Conv(window) => {
                let size = [examples * window.pixels(), window.out_channels, window.values()];
                product(Kernel::Conv, with_parameters(), size, window.values(), Some(window))
            }
            Operation::MaxPool { window, places } => {
                pool(Kernel::MaxPool, vec![x, y, *places], examples * self.outputs, window)
            }
            Operation::Function { forward, .. } => each(*forward, vec![x, y], examples * self.outputs),
        }
    }

    fn back(&self, examples: usize, dy: usize, dx: usize) -> Result<Dispatch, String> {
        let with_weight =
            || [Some(dy), self.weight.map(|weight| weight.values), Some(dx)].into_iter().flatten().collect();
        match &self.operation {
            Operation::Linear { positions, inputs, outputs } => {
                let size = [examples * positions, *inputs, *outputs];
                product(Kernel::LinearBack, with_weight(), size, *outputs, None)
            }
            Operation::Conv(window) => {
                let terms = window.out_channels * window.kernel[0] * window.kernel[1];
                let size = [examples * window.input[0] * window.input[1], window.channels, terms];
                product(Kernel::ConvBack, with_weight(), size, terms, Some(window))
            }
            Operation::MaxPool { window, places } => {
                pool(Kernel::MaxPoolBack, vec![dy, *places, dx], examples * self.inputs, window)
            }
            Operation::Function { back, .. } => each(*back, vec![self.y, dy, dx], examples * self.outputs),
        }
    }

    /// The gradients by the parameters, each with its step.
    fn learn(
        &self,
        examples: usize,
        dy: usize,
        descent: Descent,
        dispatches: &mut Vec<Dispatch>,
    ) -> Result<(), String> {
        let Some(size @ [m, n, k]) = self.learned_product(examples) else { return Ok(()) };
        let (kernel, window, pixels) = match &self.operation {
            Operation::Conv(window) => (Kernel::ConvLearn, Some(window), window.pixels()),
            _ => (Kernel::LinearLearn, None, 1),
        };
        if let Some(weight) = self.weight.filter(|weight| !weight.is_frozen) {
            let slice = slice(m, n, k);
            dispatches.push(product(kernel, vec![dy, self.x, Plan::GRADIENT], size, slice, window)?);
            dispatches.push(sgd(weight, k.div_ceil(slice), descent)?);
        }
        if let Some(bias) = self.bias.filter(|bias| !bias.is_frozen) {
            let numbers = vec![number(k / pixels)?, number(m)?, number(pixels)?];
            let (buffers, groups) = (vec![dy, Plan::GRADIENT], [groups(m)?, 1, 1]);
            dispatches.push(Dispatch { kernel: Kernel::BiasLearn, buffers, numbers, groups });
            dispatches.push(sgd(bias, 1, descent)?);
        }
        Ok(())
    }
}

/// How many of the `k` terms one copy of a product of `m` rows and `n` columns sums.
fn slice(m: usize, n: usize, k: usize) -> usize {
    let tiles = m.div_ceil(TILE) * n.div_ceil(TILE);
    let copies = (GROUPS_WANTED / tiles).clamp(1, k.div_ceil(TERMS_MIN));
    k.div_ceil(copies).next_multiple_of(TILE)
}

fn product(
    kernel: Kernel,
    buffers: Vec<usize>,
    size: [usize; 3],
    slice: usize,
    window: Option<&Window>,
) -> Result<Dispatch, String> {
    let [m, n, k] = size;
    let numbers = size.into_iter().chain([slice]).chain(window.into_iter().flat_map(Window::numbers));
    let numbers = numbers.map(number).collect::<Result<_, String>>()?;
    let groups = [groups(n.div_ceil(TILE))?, groups(m.div_ceil(TILE))?, groups(k.div_ceil(slice))?];
    Ok(Dispatch { kernel, buffers, numbers, groups })
}

/// A thread for each value of all examples.
fn pool(kernel: Kernel, buffers: Vec<usize>, count: usize, window: &Window) -> Result<Dispatch, String> {
    let numbers = [count].into_iter().chain(window.numbers());
    Ok(Dispatch { kernel, buffers, numbers: numbers.map(number).collect::<Result<_, String>>()?, groups: over(count)? })
}

fn each(kernel: Kernel, buffers: Vec<usize>, count: usize) -> Result<Dispatch, String> {
    Ok(Dispatch { kernel, buffers, numbers: vec![number(count)?], groups: over(count)? })
}

fn sgd(learned: Learned, copies: usize, descent: Descent) -> Result<Dispatch, String> {
    let Descent { rate, penalty, momentum, nesterov } = descent;
    // The step is `rate (own g + share v)`. Without a momentum the velocity is the gradient.
    let [own, share] = if nesterov { [1.0, momentum] } else { [0.0, 1.0] };
    let factors = [rate, penalty, momentum, own, share].map(f32::to_bits);
    let numbers = [number(learned.count)?, number(copies)?].into_iter().chain(factors).collect();
    let buffers = vec![learned.values, Plan::GRADIENT, learned.velocity];
    Ok(Dispatch { kernel: Kernel::Sgd, buffers, numbers, groups: over(learned.count)? })
}

/// Workgroups with a thread for each of so many values.
fn over(count: usize) -> Result<[u32; 3], String> {
    let all = count.div_ceil(THREADS);
    let across = all.min(GROUPS_MAX);
    Ok([groups(across)?, groups(all.div_ceil(across.max(1)))?, 1])
}

fn groups(count: usize) -> Result<u32, String> {
    match count {
        0..=GROUPS_MAX => number(count),
        _ => Err("a layer has too many values".to_owned()),
    }
}

fn number(value: usize) -> Result<u32, String> {
    u32::try_from(value).map_err(|_| "a layer has too many values".to_owned())
}

fn batch_values(examples: usize, values: usize) -> Result<usize, String> {
    examples.checked_mul(values).ok_or_else(|| "a layer has too many values".to_owned())
}
