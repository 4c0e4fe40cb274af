//! What a client learns from: numbered examples, each an input of one shape and its targets.
//!
//! [`MemoryExamples`] holds them in memory; [`read_csv`] and [`read_idx_examples`] fill it. An app whose data lies
//! elsewhere implements [`Examples`] itself.

mod csv;
mod idx;
mod memory;

pub use self::csv::{CSV_LINE_BYTES_MAX, Column, CsvError, CsvOptions, CsvProblem, CsvTarget, read_csv};
pub use self::idx::{IDX_BYTES_MAX, Idx, IdxError, IdxShape, read_idx, read_idx_examples};
pub use self::memory::MemoryExamples;

/// Numbered examples that a trainer asks for in batches.
pub trait Examples: Send + Sync {
    /// How many examples there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Shape of one input, for example `[64]` or `[1, 28, 28]` (channels first).
    fn input_shape(&self) -> &[usize];

    /// The examples of these numbers, in this order.
    ///
    /// # Errors
    /// [`ExamplesError`] for a number that does not exist or data that cannot be read.
    fn batch(&self, indices: &[usize]) -> Result<Batch, ExamplesError>;
}

/// Some examples, one behind the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Inputs, row by row: `[batch, ..input_shape]`. Token ids are whole numbers.
    pub inputs: Vec<f32>,
    /// What the network should answer.
    pub targets: Targets,
}

/// What a network should answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Targets {
    /// Class numbers from 0: one for each example, or `positions` for each where the network puts out a sequence.
    Classes(Vec<u32>),
    /// Numbers: `[batch, width]`.
    Values {
        /// Row by row.
        values: Vec<f32>,
        /// Numbers of one example.
        width: usize,
    },
}

impl Targets {
    /// How many targets there are: class numbers, or values.
    #[must_use]
    pub fn count(&self) -> usize {
        match self {
            Self::Classes(classes) => classes.len(),
            Self::Values { values, .. } => values.len(),
        }
    }
}

/// Why examples cannot be held or given out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExamplesError {
    /// The shape has no numbers.
    #[error("{0:?} is no shape of an input: each dimension must be at least 1")]
    BadShape(Vec<usize>),
    /// The inputs are not a whole number of examples.
    #[error("{got} input values are no whole number of examples of {each} values")]
    PartialInput {
        /// Values of one example.
        each: usize,
        /// Values in all.
        got: usize,
    },
    /// Not as many targets as examples need.
    #[error("{got} targets do not belong to {examples} examples")]
    WrongTargets {
        /// How many examples the inputs make.
        examples: usize,
        /// How many targets there are.
        got: usize,
    },
    /// A NaN or an infinity.
    #[error("example {0} holds a value that is not finite")]
    NotFinite(usize),
    /// No example has this number.
    #[error("there is no example {index}: there are {len}")]
    NoSuchExample {
        /// The number asked for.
        index: usize,
        /// How many there are.
        len: usize,
    },
    /// The app's own storage failed.
    #[error("{0}")]
    Unreadable(String),
}
