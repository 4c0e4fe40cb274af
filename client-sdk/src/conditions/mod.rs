//! When training disturbs nobody: rules for a device that people use for other things.

mod device;
#[cfg(test)]
mod hand;
#[cfg(target_os = "linux")]
mod linux;

use std::fmt::{self, Debug};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tributary_protocol::device::DeviceState;

use crate::clock::{Clock, SystemClock};
use crate::host::Host;
use crate::locked::Locked;

pub use self::device::{Device, Thermal};
#[cfg(target_os = "linux")]
pub use self::linux::LinuxDevice;

/// How long an answer about the device holds. Asking a phone's system takes longer than many a batch.
const ASK_EVERY_MS: u64 = 1_000;

/// What must hold for a session to begin and to continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conditions {
    /// Only on networks that are not metered.
    pub unmetered: bool,
    /// Only while charging, or with at least this charge in percent; 0 asks nothing of the battery.
    pub battery_percent_min: u8,
    /// Only while the device is cooler than this; `None` asks nothing of its temperature.
    pub thermal_below: Option<Thermal>,
    /// Only while other programs use at most this share of the processors, in percent; 100 asks nothing.
    pub busy_percent_max: u8,
    /// Longest time of a session.
    pub time_budget: Duration,
}

/// Unmetered, charging or at least 30 % of the battery, cooler than moderate, ten minutes.
impl Default for Conditions {
    fn default() -> Self {
        Self {
            unmetered: true,
            battery_percent_min: 30,
            thermal_below: Some(Thermal::Moderate),
            busy_percent_max: 100,
            time_budget: Duration::from_secs(600),
        }
    }
}

/// A condition that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmet {
    /// The network is metered.
    Metered,
    /// The battery is low and is not being charged.
    Battery,
    /// The device is too warm.
    Thermal,
    /// Other programs use the processors.
    Busy,
    /// The time of the session is over.
    Time,
}

impl fmt::Display for Unmet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Metered => "the network is metered",
            Self::Battery => "the battery is low and is not being charged",
            Self::Thermal => "the device is too warm",
            Self::Busy => "other programs use the processors",
            Self::Time => "the time of the session is over",
        })
    }
}

impl Conditions {
    /// The first condition that does not hold on this device after `elapsed` of a session.
    pub fn unmet(&self, device: &Device, elapsed: Duration) -> Option<Unmet> {
        let has_power = device.charging == Some(true);
        let is_warm = self.thermal_below.is_some_and(|limit| device.thermal.is_some_and(|thermal| thermal >= limit));
        let is_low = device.battery_percent.is_some_and(|percent| percent < self.battery_percent_min);
        [
            (self.unmetered && device.metered == Some(true), Unmet::Metered),
            (is_low && !has_power, Unmet::Battery),
            (is_warm, Unmet::Thermal),
            (device.busy_percent.is_some_and(|percent| percent > self.busy_percent_max), Unmet::Busy),
            (elapsed >= self.time_budget, Unmet::Time),
        ]
        .into_iter()
        .find_map(|(is_unmet, unmet)| is_unmet.then_some(unmet))
    }
}

/// A [`Host`] that asks the app about the device at most once a second and compares the answer with [`Conditions`]. An
/// app that cannot answer (`None`) stops the session.
pub struct ConditionedHost<F> {
    conditions: Conditions,
    waits: bool,
    device: F,
    clock: Arc<dyn Clock>,
    started_ms: u64,
    /// The latest answer, and its time.
    latest: Mutex<Option<(u64, Option<Device>)>>,
}

impl<F> Debug for ConditionedHost<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ConditionedHost").field("conditions", &self.conditions).finish_non_exhaustive()
    }
}

impl<F: Fn() -> Option<Device> + Sync> ConditionedHost<F> {
    /// The time of the session begins now.
    pub fn new(conditions: Conditions, device: F) -> Self {
        Self::with_clock(conditions, device, Arc::new(SystemClock::default()))
    }

    /// The same, by this clock.
    pub fn with_clock(conditions: Conditions, device: F, clock: Arc<dyn Clock>) -> Self {
        let started_ms = clock.now_ms();
        Self { conditions, waits: false, device, clock, started_ms, latest: Mutex::new(None) }
    }

    /// Training waits for the conditions, as long as its round is open, instead of giving up the round.
    #[must_use]
    pub fn waiting(self) -> Self {
        Self { waits: true, ..self }
    }

    /// The first condition that does not hold now; `None` also for an app that cannot answer.
    pub fn unmet(&self) -> Option<Unmet> {
        let now_ms = self.clock.now_ms();
        let elapsed = Duration::from_millis(now_ms.saturating_sub(self.started_ms));
        self.device(now_ms).and_then(|device| self.conditions.unmet(&device, elapsed))
    }

    fn device(&self, now_ms: u64) -> Option<Device> {
        let mut latest = self.latest.locked();
        match *latest {
            Some((at_ms, device)) if now_ms.saturating_sub(at_ms) < ASK_EVERY_MS => device,
            _ => latest.insert((now_ms, (self.device)())).1,
        }
    }
}

impl<F: Fn() -> Option<Device> + Sync> Host for ConditionedHost<F> {
    fn may_continue(&self) -> bool {
        self.device(self.clock.now_ms()).is_some() && self.unmet().is_none()
    }

    fn may_wait(&self) -> bool {
        let is_answered = self.device(self.clock.now_ms()).is_some();
        self.waits && is_answered && self.unmet() != Some(Unmet::Time)
    }

    fn device_state(&self) -> DeviceState {
        let device = self.device(self.clock.now_ms()).unwrap_or_default();
        DeviceState {
            battery_percent: device.battery_percent.map(|percent| percent.min(100)),
            charging: device.charging,
            metered: device.metered,
            ..DeviceState::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::hand::Hand;
    use super::*;

    #[test]
    fn the_defaults_ask_for_free_network_power_and_a_cool_device() {
        let conditions = Conditions::default();
        let device = |metered, charging, percent, thermal| Device {
            metered: Some(metered),
            charging: Some(charging),
            battery_percent: Some(percent),
            thermal: Some(thermal),
            busy_percent: Some(100),
        };
        let cases = [
            (device(false, false, 30, Thermal::Light), 0, None),
            (device(false, true, 1, Thermal::None), 599, None),
            (Device::default(), 599, None),
            (device(true, true, 100, Thermal::None), 0, Some(Unmet::Metered)),
            (device(false, false, 29, Thermal::None), 0, Some(Unmet::Battery)),
            (device(false, true, 90, Thermal::Moderate), 0, Some(Unmet::Thermal)),
            (device(false, true, 90, Thermal::None), 600, Some(Unmet::Time)),
        ];
        for (device, seconds, unmet) in cases {
            assert_eq!(conditions.unmet(&device, Duration::from_secs(seconds)), unmet, "{device:?} after {seconds} s");
        }
    }

    #[test]
    fn what_is_not_asked_for_hinders_nothing_and_other_programs_may_come_first() {
        let conditions = Conditions { thermal_below: None, busy_percent_max: 50, ..Conditions::default() };
        let device = |busy_percent| Device { thermal: Some(Thermal::Severe), busy_percent, ..Device::default() };
        for (busy_percent, unmet) in [(None, None), (Some(50), None), (Some(51), Some(Unmet::Busy))] {
            assert_eq!(conditions.unmet(&device(busy_percent), Duration::ZERO), unmet);
        }
    }

    #[test]
    fn training_waits_for_a_condition_but_not_for_time_or_an_app_without_an_answer() {
        let host = |percent: Option<u8>, time_budget| {
            let device = move || percent.map(|percent| Device { battery_percent: Some(percent), ..Device::default() });
            let conditions = Conditions { time_budget, ..Conditions::default() };
            ConditionedHost::with_clock(conditions, device, Arc::new(Hand::default()))
        };
        let of = |host: &dyn Host| (host.may_continue(), host.may_wait());
        assert_eq!(of(&host(Some(29), Duration::MAX)), (false, false));
        assert_eq!(of(&host(Some(29), Duration::MAX).waiting()), (false, true));
        assert_eq!(of(&host(Some(30), Duration::ZERO).waiting()), (false, false));
        assert_eq!(of(&host(None, Duration::MAX).waiting()), (false, false));
    }

    #[test]
    fn the_app_is_asked_once_a_second_and_stops_a_session_when_it_cannot_answer() {
        let (clock, asked) = (Arc::new(Hand::default()), AtomicU64::new(0));
        let device = || (asked.fetch_add(1, Ordering::SeqCst) < 2).then(Device::default);
        let host = ConditionedHost::with_clock(Conditions::default(), device, Arc::clone(&clock) as Arc<dyn Clock>);
        let mut answers = Vec::new();
        for now_ms in [0, 999, 1_000, 2_000, 2_500] {
            clock.0.store(now_ms, Ordering::SeqCst);
            answers.push(host.may_continue());
        }
        assert_eq!((answers, asked.into_inner()), (vec![true, true, true, false, false], 3));
    }
}
