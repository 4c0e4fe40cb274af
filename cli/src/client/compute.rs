//! What a client computes on: `--device`.

use std::sync::Arc;

use clap::ValueEnum;
use serde::Deserialize;
use tributary_client::examples::MemoryExamples;
#[cfg(feature = "gpu")]
use tributary_client::{BurnTrainer, Gpu};
use tributary_client::{LayerTrainer, Trainer};

use crate::error::Failure;

/// What the user asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Wanted {
    /// A GPU if there is one, else the processor.
    Auto,
    /// The processor.
    #[default]
    Cpu,
    /// A GPU; without one the client does not start.
    Gpu,
}

/// What trains the networks of jobs.
#[derive(Clone, Debug, Default)]
pub(super) struct Compute {
    /// None for the processor.
    #[cfg(feature = "gpu")]
    gpu: Option<Gpu>,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ComputeError {
    #[cfg(not(feature = "gpu"))]
    #[error("this program was built without support of GPUs")]
    NotBuilt,
    #[cfg(feature = "gpu")]
    #[error("no GPU with a working driver was found")]
    NoGpu,
}

impl Failure for ComputeError {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            #[cfg(not(feature = "gpu"))]
            Self::NotBuilt => "build it with --features gpu, or leave out --device",
            #[cfg(feature = "gpu")]
            Self::NoGpu => "install a driver with Vulkan, or use --device auto",
        };
        Some(hint.into())
    }
}

impl Compute {
    /// Opens a GPU if one is wanted.
    #[cfg(feature = "gpu")]
    pub(super) fn open(wanted: Wanted) -> Result<Self, ComputeError> {
        let gpu = if wanted == Wanted::Cpu { None } else { Gpu::preferred() };
        if gpu.is_none() && wanted == Wanted::Gpu { Err(ComputeError::NoGpu) } else { Ok(Self { gpu }) }
    }

    /// There is only the processor.
    #[cfg(not(feature = "gpu"))]
    pub(super) fn open(wanted: Wanted) -> Result<Self, ComputeError> {
        if wanted == Wanted::Gpu { Err(ComputeError::NotBuilt) } else { Ok(Self {}) }
    }

    /// The GPU's name; none for the processor.
    pub(super) fn gpu_name(&self) -> Option<&str> {
        #[cfg(feature = "gpu")]
        return self.gpu.as_ref().map(Gpu::name);
        #[cfg(not(feature = "gpu"))]
        None
    }

    pub(super) fn trainer(&self, examples: MemoryExamples) -> Box<dyn Trainer> {
        let examples = Arc::new(examples);
        #[cfg(feature = "gpu")]
        if let Some(gpu) = &self.gpu {
            return Box::new(BurnTrainer::new(examples).on_gpu(gpu.clone()));
        }
        Box::new(LayerTrainer::new(examples))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_demands_a_gpu_is_refused_without_one() {
        assert_eq!(Compute::open(Wanted::Cpu).unwrap().gpu_name(), None);
        let auto = Compute::open(Wanted::Auto).unwrap();
        let demanded = Compute::open(Wanted::Gpu);
        assert_eq!(demanded.is_ok(), auto.gpu_name().is_some());
        if let Err(refused) = demanded {
            assert!(refused.hint().unwrap().contains("--device"), "{refused}");
        }
    }
}
