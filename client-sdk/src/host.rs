//! What the app says about the device.

use tributary_protocol::device::DeviceState;

/// The app's view of the device. Implement it to train only when it does not disturb: while charging, on an unmetered
/// network, idle, cool.
pub trait Host: Sync {
    /// Whether the session may go on. Asked before a check-in, before every batch of training and before an upload;
    /// must be quick.
    fn may_continue(&self) -> bool;

    /// Battery, charging, metered; told at check-in. The number of examples comes from the trainer.
    fn device_state(&self) -> DeviceState {
        DeviceState::default()
    }
}

/// A host that always may: servers, silos, tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlwaysOn;

impl Host for AlwaysOn {
    fn may_continue(&self) -> bool {
        true
    }
}
