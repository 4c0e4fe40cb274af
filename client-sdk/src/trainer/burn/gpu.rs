//! GPUs of this machine, in the order in which they are preferred.

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::tensor::{Device, DeviceKind, DeviceType};

/// A GPU on which [`BurnTrainer`](super::BurnTrainer) can train.
#[derive(Clone, Debug)]
pub struct Gpu {
    device: Device,
    name: String,
}

impl Gpu {
    /// The GPU that is preferred, if there is one: first one of NVIDIA through CUDA (feature `cuda`), then, through
    /// Vulkan, Metal, DirectX 12 or WebGPU (feature `wgpu`), a discrete, an integrated, or a virtual one. Drivers that
    /// compute on the CPU do not count.
    ///
    /// It opens the GPU, which takes some tenths of a second. A GPU whose driver does not work counts as absent.
    #[must_use]
    pub fn preferred() -> Option<Self> {
        candidates().into_iter().find_map(|candidate| Self::opened(&candidate))
    }

    /// A driver of Vulkan that computes on the CPU, such as lavapipe of Mesa. It is slower than
    /// [`LayerTrainer`](crate::LayerTrainer) and serves for tests of an app's network on machines without a GPU.
    #[cfg(feature = "wgpu")]
    #[must_use]
    pub fn software() -> Option<Self> {
        Self::opened(&|| reachable_by_wgpu(DeviceKind::Cpu))
    }

    /// What the driver calls it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn into_device(self) -> Device {
        self.device
    }

    /// Drivers that are broken, or libraries that are missing, make burn panic.
    fn opened(candidate: &dyn Fn() -> Option<Device>) -> Option<Self> {
        let open = || {
            let device = candidate()?;
            let name = device.identity()?.name;
            Some(Self { device, name })
        };
        catch_unwind(AssertUnwindSafe(open)).ok().flatten()
    }
}

type Candidate = Box<dyn Fn() -> Option<Device>>;

/// The devices that [`Gpu::preferred`] tries, in its order.
fn candidates() -> Vec<Candidate> {
    let mut candidates: Vec<Candidate> = Vec::new();
    #[cfg(feature = "cuda")]
    candidates.push(Box::new(|| Device::enumerate(DeviceType::Cuda).into_vec().into_iter().next()));
    #[cfg(feature = "wgpu")]
    for kind in [DeviceKind::DiscreteGpu(0), DeviceKind::IntegratedGpu(0), DeviceKind::VirtualGpu(0)] {
        candidates.push(Box::new(move || reachable_by_wgpu(kind.clone())));
    }
    candidates
}

#[cfg(feature = "wgpu")]
fn reachable_by_wgpu(kind: DeviceKind) -> Option<Device> {
    let device = Device::wgpu(kind);
    Device::enumerate(DeviceType::Wgpu).into_vec().contains(&device).then_some(device)
}
