//! Exact noise: draws of which no floating-point number is a part.
//!
//! | module | contents |
//! |---|---|
//! | `normal` | the normal distribution, rounded: the noise of a coordinator |
//! | `discrete` | the discrete Gaussian: the noise of a client |
//! | `spent` | what releases with noise in integers spend |
//! | `uniform` | numbers and coins that both are made of |

mod discrete;
mod normal;
mod spent;
mod uniform;

pub use discrete::DiscreteGaussian;
pub use normal::{FIXED_PLACES, NOISE_BLOCK, NOISE_PLACES, Normal, block_key};
pub use spent::{epsilon_at, epsilon_of_integers};
