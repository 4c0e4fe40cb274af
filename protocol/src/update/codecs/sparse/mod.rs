//! The section that sparse codecs share: Rice-coded gaps between the indices that are sent, and quantised values.
//!
//! | field | bytes | present if |
//! |---|---|---|
//! | count of values sent | LEB128, at most 3 | always; 0 ends the section |
//! | parameter of the Rice code | 1 | the count is below the section's length |
//! | scale | `f16`: 1 (a power of two), `int8` and `sign`: 4 (an f32), `f32`: none | the count is not 0 |
//! | gaps | [Rice codes](crate::update::coding::rice), padded with zeros to a whole byte | like the parameter |
//! | values | 4, 2 or 1 each, or one bit each, padded to a whole byte | the count is not 0 |
//!
//! Zeros are not sent, unless all values take fewer bytes than the gaps would: then the count is the section's length
//! and all values follow. Scales are per section, so at density 1 % half precision takes 16 + 8.1 bits for each value
//! sent: 0.24 bits for each value of the delta.
//!
//! Decoding reads these bytes once and writes 8 bytes (an index and a value) for each value sent. A third of the time
//! is the chain through the bit reader, where a code begins only where the one before it ends. Next is the receiver of
//! the values, since each lies in another cache line.

mod section;
#[cfg(test)]
pub(super) mod testing;
#[cfg(test)]
mod tests;
mod values;

pub(super) use section::{Chosen, bits_per_value_max, read, section_bytes_max, write};
pub(super) use values::Rounding;
pub use values::SparseValues;
