//! Local training: the trait [`Trainer`], [`LayerTrainer`] and [`AcceleratedTrainer`] for networks as data, and
//! `BurnTrainer` for modules of burn (feature `burn`).
//!
//! A trainer knows neither network nor server: the session gives it a model and settings and takes its values back. It
//! is synchronous, or, where its results come later, called again until they are there.

#[cfg(feature = "layers")]
mod accelerator;
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
mod sets;
mod tensors;

#[cfg(feature = "layers")]
pub use self::accelerator::{AcceleratedTrainer, Accelerator, Dispatch, Kernel, Program, Step, Work};
pub use self::apart::{StopFlags, apart};
#[cfg(feature = "wgpu")]
pub use self::burn::Gpu;
#[cfg(feature = "burn")]
pub use self::burn::{BurnTrainer, LayeredNetwork, Network, Pass, parameters_of};
pub use self::contract::{
    Budget, Checkpoint, Checkpoints, Correction, DescribeTask, EvaluateTask, Evaluated, TrainError, TrainTask, Trained,
    Trainer,
};
#[cfg(feature = "layers")]
pub use self::layers::LayerTrainer;
#[cfg(all(test, feature = "layers"))]
pub(crate) use self::layers::evaluated;
pub use self::sets::{Sets, SetsError};
pub use self::tensors::{NamedTensor, tensors_of, values_of};
