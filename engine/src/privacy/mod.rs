//! Differential privacy: what releases spend, the noise of a secret key, clips in integers.
//!
//! | item | what it is |
//! |---|---|
//! | [`resolve`], [`check_rounds`], [`Terms`] | from a budget to the noise of a job and the rests of its units |
//! | [`Charge`], [`spent`] | what releases spend, by two accountants of which one checks the other |
//! | [`spent_by`] | the same from the entries of a ledger alone |
//! | [`Together`] | what several jobs spend of a budget that they share |
//! | [`rdp`], [`pld`], [`gaussian`] | Rényi divergences; distributions of privacy losses; one Gaussian release exactly |
//! | [`Blt`], [`Buffers`] | noise that is correlated from version to version |
//! | [`Normal`], [`block_key`] | exact draws of the normal distribution; the key of a block of parameters |
//! | [`SquareSum`], [`IntegerClip`], [`next_clip`] | clipping in integers, and the clip that follows its updates |

mod accountant;
mod blt;
mod charge;
mod clip;
pub mod gaussian;
mod ledger;
#[cfg(test)]
mod others;
pub mod pld;
pub mod rdp;
mod resolve;
mod search;
mod shared;
mod terms;

pub use accountant::{AccountantError, Spent, spent};
pub use blt::{Blt, Buffers, Distance, Participation, in_steps};
pub use charge::Charge;
pub use clip::{NoiseSplit, next_clip};
pub use ledger::spent_by;
pub use resolve::{BudgetError, check_rounds, resolve, units_needed};
pub use shared::Together;
pub use terms::{Charged, RoundNoise, Terms};
pub use tributary_protocol::noise::{
    FIXED_PLACES, IntegerClip, NOISE_BLOCK, NOISE_PLACES, Normal, SquareSum, block_key,
};
