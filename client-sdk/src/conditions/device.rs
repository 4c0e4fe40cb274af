//! What is known about a device at a moment.

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
    /// Processor time that other programs use, in percent of all processors, 0 to 100.
    pub busy_percent: Option<u8>,
}
