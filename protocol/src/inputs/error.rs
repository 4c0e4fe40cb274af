//! What can be wrong with inputs and with their sums.

/// What is wrong with `[model.inputs]`.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InputsError {
    /// Two of the three forms are given.
    #[error("give one of columns, image and tokens")]
    Forms,
    /// Too many columns or categories.
    #[error("{what}: {count}, where {most} are the most")]
    TooMany {
        /// Columns, or the categories of which column.
        what: String,
        /// Number given.
        count: usize,
        /// Number allowed.
        most: usize,
    },
    /// A name is empty, too long, or not for people to read.
    #[error("{0:?} is no name: it needs 1 to 128 bytes, no space at its ends and no control characters")]
    Name(String),
    /// A name is given twice.
    #[error("{what} {name:?} is there twice")]
    Twice {
        /// A column, category or class.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// A number is not finite, or a deviation not above 0.
    #[error("{column}: {what}")]
    Value {
        /// Name of the column.
        column: String,
        /// What is wrong.
        what: &'static str,
    },
    /// The network reads another number of values.
    #[error("the columns make {columns} inputs, and the network reads {input:?}")]
    Width {
        /// Inputs that the columns make.
        columns: usize,
        /// The network's input shape.
        input: Vec<usize>,
    },
    /// The network has another number of outputs.
    #[error("{classes} classes, where the network has {outputs} outputs")]
    Classes {
        /// Number of names.
        classes: usize,
        /// The last length of the network's output.
        outputs: usize,
    },
    /// The loss is for the other kind of target.
    #[error("{0}")]
    Loss(&'static str),
    /// There is nothing that clients could find out.
    #[error("standardize = \"federated\" needs columns")]
    NothingToDescribe,
    /// Statistics that clients would overwrite.
    #[error("{0}: standardize = \"federated\" finds out mean and deviation; leave them out")]
    Given(String),
    /// Missing values have no replacement.
    #[error("{0}: missing = \"replace\" needs a replacement, a mean, or standardize = \"federated\"")]
    NoReplacement(String),
}

/// What is wrong with a description.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DescriptionError {
    /// It has no examples.
    #[error("a description needs 1 to 2^40 examples")]
    Examples,
    /// It has another number of columns.
    #[error("{got} columns are described, where the job has {expected}")]
    Columns {
        /// Columns of the job, its target included where that is a number.
        expected: usize,
        /// Columns of the description.
        got: usize,
    },
    /// A column is described as another kind.
    #[error("{0}: sums of another kind of column")]
    Kind(String),
    /// Counts or sums that no values can have.
    #[error("{0}: counts and sums that no values have")]
    Impossible(String),
}
