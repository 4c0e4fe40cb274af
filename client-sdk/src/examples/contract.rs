//! What every example set promises.

/// Examples that a trainer reads in batches. Their indices are 0 to `len - 1`.
pub trait Examples: Send + Sync {
    /// Number of examples.
    fn len(&self) -> usize;

    /// Whether there are no examples.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Shape of one input: `[64]` for 64 values, `[1, 28, 28]` for an image of one channel (channels first).
    fn input_shape(&self) -> &[usize];

    /// The examples with these indices, in this order; an index may occur several times.
    ///
    /// # Errors
    /// [`ExamplesError`] for an index that does not exist or data that cannot be read.
    fn batch(&self, indices: &[usize]) -> Result<Batch, ExamplesError>;
}

/// Several examples.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Inputs as `[batch, ..input_shape]`, row by row. Token ids are whole numbers.
    pub inputs: Vec<f32>,
    /// What the network should predict, in the same order.
    pub targets: Targets,
}

/// What a network should predict.
#[derive(Clone, Debug, PartialEq)]
pub enum Targets {
    /// Classes, numbered from 0: one per example, or one per position if the network has an output for each position.
    Classes(Vec<u32>),
    /// Values as `[batch, width]`.
    Values {
        /// Row by row.
        values: Vec<f32>,
        /// Number of values per example.
        width: usize,
    },
}

impl Targets {
    /// Number of classes or values in all.
    pub fn count(&self) -> usize {
        match self {
            Self::Classes(classes) => classes.len(),
            Self::Values { values, .. } => values.len(),
        }
    }
}

/// Why an example set cannot be made or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExamplesError {
    /// The shape is empty, has a dimension of 0, or has too many values.
    #[error("{0:?} is not a shape of an input: it must have dimensions, each at least 1")]
    BadShape(Vec<usize>),
    /// The number of input values is not a multiple of the values of one example.
    #[error("{got} input values are not a whole number of examples of {each} values")]
    PartialInput {
        /// Number of values of one example.
        each: usize,
        /// Number of values given.
        got: usize,
    },
    /// The number of targets does not fit the number of examples.
    #[error("{got} targets do not fit {examples} examples")]
    WrongTargets {
        /// Number of examples, by their inputs.
        examples: usize,
        /// Number of targets given.
        got: usize,
    },
    /// A value of the example with this index is a NaN or an infinity.
    #[error("example {0} holds a value that is not finite")]
    NotFinite(usize),
    /// The index is not below the number of examples.
    #[error("example {index} does not exist: there are {len} examples")]
    NoSuchExample {
        /// The index asked for.
        index: usize,
        /// Number of examples.
        len: usize,
    },
    /// The app's own storage failed, with its reason.
    #[error("{0}")]
    Unreadable(String),
}
