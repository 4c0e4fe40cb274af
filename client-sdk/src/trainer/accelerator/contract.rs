//! What a host brings that has an accelerator.

use futures_util::future::BoxFuture;

use super::program::Program;

/// Runs programs of kernels.
pub trait Accelerator: Send {
    /// Begins this work, after all that was begun before. The answer is what [`Work`] says, or why there is none, as
    /// text for a person.
    fn run(&mut self, work: Work) -> BoxFuture<'static, Result<Vec<f32>, String>>;
}

/// Something that an accelerator does.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// Begins a training, in place of the one before. Its buffers hold zeros, and those of the parameters these values,
    /// one parameter after the other. The answer is empty.
    Begin {
        /// Buffers and kernels.
        program: Program,
        /// The model's values.
        values: Vec<f32>,
    },
    /// Trains on one batch after the other. The answer has the loss of each example.
    Steps {
        /// Number of examples of each batch; the program has a [`Step`](super::program::Step) for each.
        batches: Vec<usize>,
        /// The inputs of all examples.
        inputs: Vec<f32>,
        /// Their classes.
        classes: Vec<u32>,
    },
    /// Ends the training. The answer has the values of all parameters.
    Values,
}
