//! When training disturbs nobody: rules for a device in someone's hands.

use std::fmt::{self, Debug};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tributary_protocol::device::DeviceState;

use crate::clock::{Clock, SystemClock};
use crate::host::Host;

/// How long an answer about the device holds. Asking a phone's system takes longer than many a batch.
const ASK_EVERY_MS: u64 = 1_000;

/// How warm a device is, as Android's `PowerManager` and iOS's `ProcessInfo.ThermalState` distinguish it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Thermal {
    /// No sign of heat (iOS: nominal).
    None,
    /// Warm, without a loss of speed (iOS: fair).
    Light,
    /// The system slows down what is not in the foreground.
    Moderate,
    /// The system slows down everything (iOS: serious), or is about to switch off.
    Severe,
}

/// The device at a moment. What is unknown hinders nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// Whether the network connection is metered.
    pub metered: Option<bool>,
    /// Whether the device has external power.
    pub charging: Option<bool>,
    /// Charge of the battery, 0 to 100; `None` without a battery.
    pub battery_percent: Option<u8>,
    /// How warm the device is.
    pub thermal: Option<Thermal>,
}

/// What must hold for a session to begin and to continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conditions {
    /// Only on networks that are not metered.
    pub unmetered: bool,
    /// Only while charging, or with at least this charge in percent; 0 asks nothing of the battery.
    pub battery_percent_min: u8,
    /// Only while the device is cooler than this.
    pub thermal_below: Thermal,
    /// Longest time of a session.
    pub time_budget: Duration,
}

/// Unmetered, charging or at least 30 % of the battery, cooler than moderate, ten minutes.
impl Default for Conditions {
    fn default() -> Self {
        Self {
            unmetered: true,
            battery_percent_min: 30,
            thermal_below: Thermal::Moderate,
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
    /// The time of the session is over.
    Time,
}

impl Conditions {
    /// The first condition that does not hold on this device after `elapsed` of a session.
    #[must_use]
    pub fn unmet(&self, device: &Device, elapsed: Duration) -> Option<Unmet> {
        let has_power = device.charging == Some(true);
        let is_low = device.battery_percent.is_some_and(|percent| percent < self.battery_percent_min);
        [
            (self.unmetered && device.metered == Some(true), Unmet::Metered),
            (is_low && !has_power, Unmet::Battery),
            (device.thermal.is_some_and(|thermal| thermal >= self.thermal_below), Unmet::Thermal),
            (elapsed >= self.time_budget, Unmet::Time),
        ]
        .into_iter()
        .find_map(|(is_unmet, unmet)| is_unmet.then_some(unmet))
    }
}

/// A [`Host`] for one session: it asks the app about the device at most once a second and compares the answer with
/// [`Conditions`]. An app that cannot answer (`None`) stops the session.
pub struct ConditionedHost<F> {
    conditions: Conditions,
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
    #[must_use]
    pub fn new(conditions: Conditions, device: F) -> Self {
        Self::with_clock(conditions, device, Arc::new(SystemClock::default()))
    }

    /// The same, by this clock.
    #[must_use]
    pub fn with_clock(conditions: Conditions, device: F, clock: Arc<dyn Clock>) -> Self {
        let started_ms = clock.now_ms();
        Self { conditions, device, clock, started_ms, latest: Mutex::new(None) }
    }

    fn device(&self, now_ms: u64) -> Option<Device> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        match *latest {
            Some((at_ms, device)) if now_ms.saturating_sub(at_ms) < ASK_EVERY_MS => device,
            _ => latest.insert((now_ms, (self.device)())).1,
        }
    }
}

impl<F: Fn() -> Option<Device> + Sync> Host for ConditionedHost<F> {
    fn may_continue(&self) -> bool {
        let now_ms = self.clock.now_ms();
        let elapsed = Duration::from_millis(now_ms.saturating_sub(self.started_ms));
        self.device(now_ms).is_some_and(|device| self.conditions.unmet(&device, elapsed).is_none())
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
    use std::future::{Future, ready};
    use std::pin::Pin;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[derive(Debug, Default)]
    struct Hand(AtomicU64);

    impl Clock for Hand {
        fn now_ms(&self) -> u64 {
            self.0.load(Ordering::SeqCst)
        }

        fn sleep(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
            Box::pin(ready(()))
        }
    }

    #[test]
    fn the_defaults_ask_for_free_network_power_and_a_cool_device() {
        let conditions = Conditions::default();
        let device = |metered, charging, percent, thermal| Device {
            metered: Some(metered),
            charging: Some(charging),
            battery_percent: Some(percent),
            thermal: Some(thermal),
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
