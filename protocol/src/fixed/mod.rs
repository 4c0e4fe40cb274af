//! Fixed-point numbers of sums. Integers have no order of addition, so whoever adds them, a coordinator, a relay or a
//! member of a group, gets the same bits.
//!
//! A weighted value `weight * value` becomes the integer [`quantise`]`(value * weight.factor(s))`. [`SumCaps`] gives
//! the binary point `s`.

mod caps;
mod rounding;
mod weight;

pub use caps::{CapsError, SumCaps};
pub use rounding::quantise;
pub use weight::{Contribution, Weight};
