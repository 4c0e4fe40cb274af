//! Programs: buffers, and the kernels that are dispatched over them.

use serde::Serialize;

/// Buffers and kernels of a training.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Program {
    /// The length of each buffer in values of 4 bytes: `f32`, and `u32` where a kernel says so.
    pub buffers: Vec<usize>,
    /// The buffers of the model's parameters, in its order.
    pub parameters: Vec<usize>,
    /// One for each size of a batch that occurs.
    pub steps: Vec<Step>,
}

impl Program {
    /// The buffer with the inputs of a batch.
    pub const INPUTS: usize = 0;
    /// The buffer with its classes, as `u32`.
    pub const CLASSES: usize = 1;
    /// The buffer with the loss of each of its examples.
    pub const LOSSES: usize = 2;
}

/// What a batch of so many examples dispatches, in this order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// Size of the batch.
    pub examples: usize,
    /// Each sees what those before it have written.
    pub dispatches: Vec<Dispatch>,
}

/// One kernel with what it is bound to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Dispatch {
    /// The kernel.
    pub kernel: Kernel,
    /// Its buffers, in the order of its bindings.
    pub buffers: Vec<usize>,
    /// The numbers that it reads, at most 16. A rate is there as the bits of its `f32`.
    pub numbers: Vec<u32>,
    /// Number of workgroups along x, y and z.
    pub groups: [u32; 3],
}

/// The kernels. Images are `[channels][height][width]`, as in the model.
///
/// A product is `sum over k of left(m, k) right(k, n)`. Its numbers are those of [`Kernel::Linear`] and, of images,
/// those of a window: channels, height, width, output channels, height and width of the window, distance
/// between windows (down, across), zeros above and to the left, height and width of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kernel {
    /// `y = x W^T + b`. Buffers x, W, y, b; numbers m, n, k and the part of k that one copy of the product sums.
    Linear,
    /// `dx = dy W`. Buffers dy, W, dx.
    LinearBack,
    /// `dW = dy^T x`, in as many copies as there are groups along z. Buffers dy, x, dW.
    LinearLearn,
    /// The cross-correlation of images. Buffers x, W, y, b.
    Conv,
    /// Its gradient by the image. Buffers dy, W, dx.
    ConvBack,
    /// Its gradient by the windows, in copies. Buffers dy, x, dW.
    ConvLearn,
    /// The gradient by a bias: the sum of `dy` over rows and pixels. Buffers dy, db; numbers rows, channels, pixels.
    BiasLearn,
    /// One step of stochastic gradient descent. Buffers w, gradient, velocity; numbers: count, copies of the gradient,
    /// rate, penalty, momentum, share of the gradient, share of the velocity.
    Sgd,
    /// Softmax and cross-entropy. Buffers scores, classes, gradient, losses; numbers rows, outputs, 1 / rows.
    CrossEntropy,
    /// The largest value of each window. Buffers x, y, and the place of the value in its plane, as `u32`; numbers count
    /// and those of a window.
    MaxPool,
    /// Its gradient. Buffers dy, places, dx.
    MaxPoolBack,
    /// `max(x, 0)`. Buffers x, y; number count, as for the other functions.
    Relu,
    /// Buffers y, dy, dx, as for the other functions.
    ReluBack,
    /// The hyperbolic tangent.
    Tanh,
    /// Its gradient.
    TanhBack,
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// Its gradient.
    SigmoidBack,
}
