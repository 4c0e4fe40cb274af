//! When a client of this machine trains: `--battery-min`, `--unmetered`, `--cool`, `--busy-max`.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;
use tributary_client::{ConditionedHost, Conditions, Device, Host, Thermal, Unmet};
use tributary_protocol::device::DeviceState;

use super::lines::Lines;

#[derive(Clone, Debug, Default, Args, Deserialize)]
#[command(next_help_heading = "Conditions of this machine (in the file: the table `conditions`)")]
#[serde(deny_unknown_fields, default)]
pub(super) struct ConditionArgs {
    /// Trains only with external power, or with at least this charge of the battery in percent.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    battery_min: Option<u8>,
    /// Trains only while NetworkManager does not say that the network is metered.
    #[arg(long)]
    unmetered: bool,
    /// Trains only while the machine is too cool to be slowed down.
    #[arg(long)]
    cool: bool,
    /// Trains only while other programs use at most this share of the processors, in percent.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    busy_max: Option<u8>,
}

impl ConditionArgs {
    /// Flags, and the file for what they leave open.
    pub(super) fn over(self, file: Self) -> Self {
        Self {
            battery_min: self.battery_min.or(file.battery_min),
            unmetered: self.unmetered || file.unmetered,
            cool: self.cool || file.cool,
            busy_max: self.busy_max.or(file.busy_max),
        }
    }

    /// Nothing is asked that was not set, and nothing of time: the daemon runs until it is stopped.
    fn conditions(&self) -> Conditions {
        Conditions {
            unmetered: self.unmetered,
            battery_percent_min: self.battery_min.unwrap_or(0),
            thermal_below: self.cool.then_some(Thermal::Moderate),
            busy_percent_max: self.busy_max.unwrap_or(100),
            time_budget: Duration::MAX,
        }
    }

    /// The host of all clients of this process, which says in `lines` that it pauses.
    pub(super) fn machine(&self, lines: Arc<Lines>) -> Machine {
        let host = ConditionedHost::new(self.conditions(), this_device()).waiting();
        Machine { off: CancellationToken::new(), host, lines }
    }
}

type Ask = Box<dyn Fn() -> Option<Device> + Send + Sync>;

#[cfg(target_os = "linux")]
fn this_device() -> Ask {
    let device = tributary_client::conditions::LinuxDevice::default();
    Box::new(move || Some(device.read()))
}

/// Other systems are not asked: everything is unknown, which hinders nothing.
#[cfg(not(target_os = "linux"))]
fn this_device() -> Ask {
    Box::new(|| Some(Device::default()))
}

/// Lets clients work until Ctrl-C, while the conditions hold. Training waits for them; after Ctrl-C it stops at the
/// next batch.
pub(super) struct Machine {
    pub(super) off: CancellationToken,
    host: ConditionedHost<Ask>,
    lines: Arc<Lines>,
}

impl Machine {
    /// The condition that does not hold.
    pub(super) fn unmet(&self) -> Option<Unmet> {
        self.host.unmet()
    }
}

impl Host for Machine {
    fn may_continue(&self) -> bool {
        !self.off.is_cancelled() && self.host.may_continue()
    }

    fn may_wait(&self) -> bool {
        if let Some(unmet) = self.unmet() {
            // Training does not end because nobody reads the lines.
            let _ = self.lines.paused(unmet);
        }
        !self.off.is_cancelled() && self.host.may_wait()
    }

    fn device_state(&self) -> DeviceState {
        self.host.device_state()
    }
}
