//! GPUs of this machine, in the order in which they are preferred.

use burn::tensor::{Device, DeviceKind, DeviceType};

use super::super::panics::caught;

/// What panics in burn where a driver is broken.
const DRIVER: &str = "driver of the GPU";

/// The GPUs that are tried, the preferred one first.
const PREFERRED: [DeviceKind; 3] =
    [DeviceKind::DiscreteGpu(0), DeviceKind::IntegratedGpu(0), DeviceKind::VirtualGpu(0)];

/// A GPU on which [`BurnTrainer`](super::BurnTrainer) can train.
#[derive(Clone, Debug)]
pub struct Gpu {
    device: Device,
    name: String,
}

impl Gpu {
    /// The GPU that is preferred, if there is one: a discrete, an integrated, or a virtual one, through Vulkan, Metal
    /// or DirectX 12. Drivers that compute on the CPU do not count.
    ///
    /// It opens the GPU, which takes some tenths of a second. A GPU whose driver does not work counts as absent.
    pub fn preferred() -> Option<Self> {
        Self::first_of(&PREFERRED)
    }

    /// A driver of Vulkan that computes on the CPU, such as lavapipe of Mesa. It is slower than
    /// [`LayerTrainer`](crate::LayerTrainer) and serves for tests of an app's network on machines without a GPU.
    pub fn software() -> Option<Self> {
        Self::first_of(&[DeviceKind::Cpu])
    }

    /// What the driver calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn into_device(self) -> Device {
        self.device
    }

    fn first_of(kinds: &[DeviceKind]) -> Option<Self> {
        let found = caught(DRIVER, || Ok(Device::enumerate(DeviceType::Wgpu).into_vec())).ok()?;
        let mut present = kinds.iter().map(|kind| Device::wgpu(kind.clone())).filter(|device| found.contains(device));
        present.find_map(|device| {
            let name = caught(DRIVER, || Ok(device.identity())).ok()??.name;
            Some(Self { device, name })
        })
    }
}
