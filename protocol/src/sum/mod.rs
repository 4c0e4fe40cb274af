//! Sums: exact partial sums of updates, as a body that others add to their sum.
//!
//! The values of a sum are the integers of [`fixed`](crate::fixed). A sum of sums is the sum of all their updates, bit
//! for bit, so it does not matter who adds up. A sum has one encoding, so its SHA-256 identifies it. Integers are
//! little-endian.
//!
//! | bytes | field |
//! |---|---|
//! | 8 | [`tag`](tag()): job, base version and binary point |
//! | 4 | number of updates |
//! | 4 | number of values |
//! | 8 | weight, in units of 2^-16 examples |
//! | | blocks of 256 values, the last one shorter |
//!
//! | bytes of a block of n values | field |
//! |---|---|
//! | 1 | `width`: the fewest bits of two's complement that hold all values after the shift; 0 if all values are zero |
//! | 1 | `shift`: the zero bits that all values end with; 0 if all values are zero |
//! | ceil(n * width / 8) | the values, shifted right by `shift`, low bits first; zeros up to the byte |

mod block;
mod decoder;
mod error;
mod header;
mod packed;
#[cfg(test)]
mod tests;
mod writer;

pub use block::{BLOCK_BYTES_MAX, BLOCK_VALUES};
pub use decoder::{Expected, IntegerSink, SumDecoder};
pub use error::SumError;
pub use header::{HEADER_BYTES, tag};
pub use packed::{PackedReader, pack_run};
pub use writer::SumWriter;

/// Most bytes of a sum of so many values: each block has 64 bits per value.
pub fn body_bytes_max(values: u32) -> u64 {
    let blocks = u64::from(values).div_ceil(block::BLOCK_VALUES as u64);
    header::HEADER_BYTES as u64 + blocks * block::HEAD_BYTES as u64 + 8 * u64::from(values)
}
