//! What the app says about the device.

use std::time::Duration;

use tributary_client::conditions;

use crate::errors::{CallbackError, TributaryError};

/// How warm a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, uniffi::Enum)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, uniffi::Record)]
pub struct Device {
    /// Whether the network connection is metered.
    #[uniffi(default = None)]
    pub metered: Option<bool>,
    /// Whether the device has external power.
    #[uniffi(default = None)]
    pub charging: Option<bool>,
    /// Charge of the battery, 0 to 100; none without a battery.
    #[uniffi(default = None)]
    pub battery_percent: Option<u8>,
    /// How warm the device is.
    #[uniffi(default = None)]
    pub thermal: Option<Thermal>,
}

/// What must hold for a session to begin and to continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, uniffi::Record)]
pub struct Conditions {
    /// Only on networks that are not metered.
    #[uniffi(default = true)]
    pub unmetered: bool,
    /// Only while charging, or with at least this charge in percent; 0 asks nothing of the battery.
    #[uniffi(default = 30)]
    pub battery_percent_min: u8,
    /// Only while the device is cooler than moderate.
    #[uniffi(default = true)]
    pub cool: bool,
    /// Longest time of a session.
    #[uniffi(default = 600000)]
    pub time_budget_ms: u64,
}

impl Default for Conditions {
    fn default() -> Self {
        let conditions::Conditions { unmetered, battery_percent_min, time_budget, .. } = Default::default();
        let time_budget_ms = u64::try_from(time_budget.as_millis()).unwrap_or(u64::MAX);
        Self { unmetered, battery_percent_min, cool: true, time_budget_ms }
    }
}

impl Conditions {
    pub(crate) fn checked(self) -> Result<conditions::Conditions, TributaryError> {
        let Self { unmetered, battery_percent_min, cool, time_budget_ms } = self;
        if battery_percent_min > 100 {
            return Err(TributaryError::bad_input(format!("a battery never has {battery_percent_min} %")));
        }
        let limit = if cool { conditions::Thermal::Moderate } else { conditions::Thermal::Severe };
        let (thermal_below, time_budget) = (Some(limit), Duration::from_millis(time_budget_ms));
        let asked =
            conditions::Conditions { unmetered, battery_percent_min, thermal_below, time_budget, ..Default::default() };
        Ok(asked)
    }
}

/// The app's view of the device, asked at most once a second.
#[uniffi::export(with_foreign)]
pub trait Host: Send + Sync {
    /// The device now. A session ends where this throws.
    ///
    /// # Errors
    /// [`CallbackError`] where the device does not say.
    fn device(&self) -> Result<Device, CallbackError>;
}

/// The device as the SDK's conditions read it; `None` where the app failed.
pub(crate) fn ask(host: Option<&dyn Host>) -> Option<conditions::Device> {
    let device = match host {
        Some(host) => host.device().ok()?,
        None => Device::default(),
    };
    let thermal = device.thermal.map(|thermal| match thermal {
        Thermal::None => conditions::Thermal::None,
        Thermal::Light => conditions::Thermal::Light,
        Thermal::Moderate => conditions::Thermal::Moderate,
        Thermal::Severe => conditions::Thermal::Severe,
    });
    let Device { metered, charging, battery_percent, .. } = device;
    Some(conditions::Device { metered, charging, battery_percent, thermal, ..conditions::Device::default() })
}
