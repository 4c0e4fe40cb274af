//! Networks that cannot be built, and predictions that cannot be made.

use tributary_protocol::layers::ModelSpecError;

/// A network that cannot be built, or a prediction that it cannot make.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PredictError {
    /// The list of layers is invalid.
    #[error(transparent)]
    Network(#[from] ModelSpecError),
    /// The model has other parameters than the network.
    #[error("{0}")]
    OtherParameters(String),
    /// A convolution's image with the zeros around it does not fit into memory.
    #[error("layers[{index}] conv2d: an image with the zeros around it is too large")]
    ImageTooLarge {
        /// Index of the layer, from 0.
        index: usize,
    },
    /// The inputs are not one example.
    #[error("{got} input values, and the network reads {expected}: one example of the shape {shape:?}")]
    Inputs {
        /// Shape of an example.
        shape: Vec<usize>,
        /// Number of values of an example.
        expected: usize,
        /// Number of values given.
        got: usize,
    },
    /// The buffer for the outputs has another length.
    #[error("a buffer for {got} outputs, and the network has {expected}")]
    Outputs {
        /// Number of outputs of an example.
        expected: usize,
        /// Length of the buffer.
        got: usize,
    },
    /// An input of an embedding is not a whole number below the size of the vocabulary.
    #[error("{id} is not a token id: those are 0 to {}", tokens - 1)]
    NotAToken {
        /// The input.
        id: f32,
        /// Size of the vocabulary.
        tokens: usize,
    },
}
