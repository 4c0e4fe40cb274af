//! `int8` and `int4`: integers of 8 or 4 bits, and one scale for each block of values.
//!
//! For a block x of at most [`Blocks::block`] values and Q = 2^(bits - 1) - 1 (127 or 7):
//!
//! ```text
//! s = max |x_i| / Q, rounded up to bf16;   q_i = x_i / s, rounded to an adjacent integer;   x_i' = s q_i
//! ```
//!
//! The fraction of x_i / s is the probability of rounding up, so the expectation of x' is x. That is stochastic
//! rounding (QSGD, Alistarh et al. 2017, arXiv:1610.02132, section 3.1) with the largest magnitude in place of the
//! norm, as in TernGrad (Wen et al. 2017, arXiv:1705.07878, equation 3). Rounding to nearest would halve the squared
//! error of one client (s^2 / 12 instead of s^2 / 6), but its errors would not average out over several clients.
//!
//! The scale is rounded up, so no value is clipped. It has 8 bits and q at most 7, so every product s q is exact in
//! f32. The scale is bf16 and not f16, which has three more bits, because f16 loses bits below 6e-5 and is zero below
//! 6e-8. For normal deltas of deviation 1e-3, 1e-5 and 1e-6 the relative squared error of 8 bits is 7.2e-5, 9.4e-5 and
//! 59e-5 with f16 scales, and 7.2e-5 in all three cases with bf16 scales (7.1e-5 with scales that are not rounded).
//!
//! In the file each parameter `NAME` has two tensors. `NAME.scales` is BF16, one element per block; blocks do not cross
//! parameters. `NAME.values` follows it: for 8 bits I8 of the parameter's shape; for 4 bits U8 with two numbers in a
//! byte, the first in the lower half, and zero in the upper half of the last byte if their count is odd. The codes -128
//! and -8 are not used.

mod encoder;
mod layout;
mod reader;
#[cfg(test)]
mod tests;

pub(in crate::update) use encoder::encode;
pub use layout::Blocks;
pub(in crate::update) use layout::{all_specs, data_bytes, scale_bytes, values_bytes};
pub(super) use layout::{from_bf16, scale_for};
pub(in crate::update) use reader::{BlockSections, BlocksReader};
