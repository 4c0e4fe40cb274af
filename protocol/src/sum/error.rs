//! Why a sum cannot be read or written.

use crate::fixed::Weight;

/// A body that is not the encoding of the expected sum, or a sum with the wrong number of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SumError {
    /// The tag is another one.
    #[error("the sum is of another job, base version or binary point, or the body is no sum")]
    Tag,
    /// Nothing was added up.
    #[error("the sum is of no updates")]
    NoUpdates,
    /// There are more updates than the reader allows.
    #[error("the sum is of {got} updates, more than {updates_max}")]
    TooManyUpdates {
        /// Updates of the sum.
        got: u32,
        /// Most updates that were expected.
        updates_max: u32,
    },
    /// The weight is zero.
    #[error("the weight of the sum is 0")]
    ZeroWeight,
    /// The weight is more than so many updates may have.
    #[error("the weight of the sum is {got}, more than the {weight_max} that its updates may have")]
    WeightTooLarge {
        /// Weight of the sum.
        got: Weight,
        /// Largest weight of so many updates.
        weight_max: Weight,
    },
    /// The sum belongs to another number of parameters, or the writer got another number than it was announced.
    #[error("the sum has {got} values instead of {expected}")]
    Values {
        /// Values of the sum.
        got: u64,
        /// Values that were expected.
        expected: u32,
    },
    /// A value is more than so many updates can add up to.
    #[error("value {place} of the sum is {got}, beyond the magnitude of {magnitude_max} that its updates may have")]
    ValueTooLarge {
        /// Place of the value.
        place: usize,
        /// The value.
        got: i64,
        /// Largest magnitude of a value.
        magnitude_max: u64,
    },
    /// No block has this width with this shift.
    #[error("block {block} has a width of {width} bits and a shift of {shift} bits, which no block has")]
    Shape {
        /// Number of the block.
        block: u32,
        /// Bits of a value.
        width: u8,
        /// Zero bits that are left out.
        shift: u8,
    },
    /// Fewer bits hold the values.
    #[error("block {block} is wider than its values")]
    Width {
        /// Number of the block.
        block: u32,
    },
    /// The values end with more zero bits than were left out.
    #[error("the shift of block {block} leaves zero bits at the end of all its values")]
    Shift {
        /// Number of the block.
        block: u32,
    },
    /// The bits behind the last value of a block are not zero.
    #[error("the bits after the last value of block {block} are not zero")]
    StrayBits {
        /// Number of the block.
        block: u32,
    },
    /// It ends too early.
    #[error("the sum ends after {0} bytes")]
    Truncated(u64),
    /// It does not end where it should.
    #[error("there are bytes after the last block")]
    TooLong,
}
