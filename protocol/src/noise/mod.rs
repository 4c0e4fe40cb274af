//! Exact noise: draws of which no floating-point number is a part.
//!
//! | module | contents |
//! |---|---|
//! | `normal` | the normal distribution, rounded: the noise of a coordinator |
//! | `discrete` | the discrete Gaussian: the noise of a client |
//! | `clip` | clipping in integers |
//! | `local` | the noise of one client alone |
//! | `spent` | what releases with noise in integers spend |
//! | `uniform` | numbers and coins that both are made of |

mod clip;
mod discrete;
mod local;
mod normal;
mod spent;
mod uniform;

pub use clip::{IntegerClip, SquareSum};
pub use discrete::DiscreteGaussian;
pub use local::{LOCAL_NOISE_MAX, add_local_noise, local_magnitude_max};
pub use normal::{FIXED_PLACES, NOISE_BLOCK, NOISE_PLACES, Normal, block_key};
pub use spent::{epsilon_at, epsilon_of_integers};
