//! Local training: the trait [`Trainer`], [`LayerTrainer`] for networks as data, and `BurnTrainer` for modules of burn
//! (feature `burn`).
//!
//! A trainer is synchronous and knows neither network nor server: the session gives it a model and settings and takes
//! its values back.

mod apart;
#[cfg(any(feature = "layers", feature = "burn"))]
mod batches;
#[cfg(feature = "burn")]
mod burn;
mod contract;
#[cfg(any(feature = "layers", feature = "burn"))]
mod dropout;
#[cfg(any(feature = "layers", feature = "burn"))]
mod fit;
#[cfg(test)]
mod fixtures;
#[cfg(feature = "layers")]
mod layers;
pub(crate) mod panics;
#[cfg(any(feature = "layers", feature = "burn"))]
mod score;
mod tensors;

pub use self::apart::{StopFlags, apart};
#[cfg(feature = "wgpu")]
pub use self::burn::Gpu;
#[cfg(feature = "burn")]
pub use self::burn::{BurnTrainer, LayeredNetwork, Network, Pass, parameters_of};
pub use self::contract::{
    Budget, Checkpoint, Correction, EvaluateTask, Evaluated, TrainError, TrainTask, Trained, Trainer,
};
#[cfg(feature = "layers")]
pub use self::layers::LayerTrainer;
pub use self::tensors::{NamedTensor, tensors_of, values_of};
