//! Local training: the trait [`Trainer`], and its implementation with burn behind the feature `burn`.
//!
//! A trainer is synchronous and knows neither network nor server: the session gives it a model and settings and takes
//! its values back.

#[cfg(feature = "burn")]
mod burn;
mod contract;
pub(crate) mod panics;

#[cfg(feature = "burn")]
pub use self::burn::{BurnTrainer, LayeredNetwork, Network, Pass, parameters_of};
pub use self::contract::{EvaluateTask, Evaluated, TrainError, TrainTask, Trained, Trainer};
