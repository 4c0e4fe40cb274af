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

    /// The same with the places that f64 has, for examples that a job's `[model.inputs]` scales; `None` where `batch`
    /// has all there is.
    ///
    /// # Errors
    /// As [`Self::batch`].
    fn raw(&self, _indices: &[usize]) -> Result<Option<RawBatch>, ExamplesError> {
        Ok(None)
    }
}

/// Several examples as a table has them.
#[derive(Clone, Debug, PartialEq)]
pub struct RawBatch {
    /// Values as `[batch, columns]`, row by row: numbers, codes of categories, days since 1970; NaN where one is
    /// missing.
    pub inputs: Vec<f64>,
    /// What the network should predict, in the same order.
    pub targets: RawTargets,
}

/// What a network should predict, before it is scaled.
#[derive(Clone, Debug, PartialEq)]
pub enum RawTargets {
    /// Classes, numbered from 0, one per example.
    Classes(Vec<u32>),
    /// Numbers as `[batch, width]`.
    Values {
        /// Row by row.
        values: Vec<f64>,
        /// Number of values per example.
        width: usize,
    },
}

impl RawTargets {
    /// The numbers; empty for classes.
    pub(super) fn numbers(&self) -> Vec<f64> {
        match self {
            Self::Classes(_) => Vec::new(),
            Self::Values { values, .. } => values.clone(),
        }
    }

    /// The same as f32.
    pub(super) fn narrowed(self) -> Targets {
        match self {
            Self::Classes(classes) => Targets::Classes(classes),
            Self::Values { values, width } => {
                Targets::Values { values: values.into_iter().map(|value| value as f32).collect(), width }
            }
        }
    }
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
    /// The example with this index does not fit what the job feeds its network.
    #[error("example {index}: {why}")]
    Unfit {
        /// Index of the example.
        index: usize,
        /// The column, and what is wrong with its value.
        why: String,
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
