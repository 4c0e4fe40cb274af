//! Training of networks as data on an accelerator that the host drives, such as a browser's WebGPU.
//!
//! The SDK decides what is computed: it turns a network into a list of kernels over buffers. The host runs them. Its
//! answers come later, so a training is called again until it is done
//! ([`TrainError::Pending`](super::TrainError::Pending)).
//!
//! | module | what it is |
//! |---|---|
//! | `contract` | what the host brings: [`Accelerator`] |
//! | `program`, `plan` | kernels and buffers; those of a network |
//! | `cover` | which trainings have kernels |
//! | `trainer` | the training itself, in pieces of several batches |

mod contract;
mod cover;
mod plan;
mod program;
#[cfg(test)]
mod tests;
mod trainer;

pub use self::contract::{Accelerator, Work};
pub use self::program::{Dispatch, Kernel, Program, Step};
pub use self::trainer::AcceleratedTrainer;
