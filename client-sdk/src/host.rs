//! What the app says about the device.

use tributary_protocol::device::DeviceState;

/// The app's view of the device. Implement it to train only when that disturbs nobody: while the device is charging,
/// idle, cool and on an unmetered network.
pub trait Host: Sync {
    /// Whether the session may continue. It is called before a session, before every batch of training and before an
    /// upload, so it must return at once.
    fn may_continue(&self) -> bool;

    /// Whether training should wait for [`Host::may_continue`] instead of ending, as long as its round is open. It is
    /// called, like `may_continue`, once a second meanwhile. Training waits only on a runtime with several threads.
    fn may_wait(&self) -> bool {
        false
    }

    /// Battery, charging and metering, which a check-in reports. The number of examples is overwritten with the
    /// trainer's.
    fn device_state(&self) -> DeviceState {
        DeviceState::default()
    }
}

/// A host that never stops a session, for servers, silos and tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlwaysOn;

impl Host for AlwaysOn {
    fn may_continue(&self) -> bool {
        true
    }
}
