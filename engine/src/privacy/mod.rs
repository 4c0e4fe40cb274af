//! Differential privacy: the noise of a secret key, clips in integers.
//!
//! | item | what it is |
//! |---|---|
//! | [`Normal`], [`block_key`] | exact draws of the normal distribution; the key of a block of parameters |
//! | [`SquareSum`], [`IntegerClip`], [`next_clip`] | clipping in integers, and the clip that follows its updates |

mod blt;
mod clip;
pub mod gaussian;
mod normal;
mod search;

pub use blt::{Blt, Buffers, Distance, Participation, in_steps};
pub use clip::{IntegerClip, NoiseSplit, SquareSum, next_clip};
pub use normal::{FIXED_PLACES, NOISE_BLOCK, Normal, block_key};

/// Binary places of the noise of a sum: its standard deviation is 2^20 steps of the grid.
pub const NOISE_PLACES: u32 = 20;
