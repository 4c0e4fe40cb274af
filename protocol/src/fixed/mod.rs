//! Fixed-point numbers of sums. Integers have no order of addition, so whoever adds them, a coordinator, a relay or a
//! member of a group, gets the same bits.

mod weight;

pub use weight::{Contribution, Weight};
