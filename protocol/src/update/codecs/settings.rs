//! Checks and defaults that the settings of several codecs share.

/// The name of a setting that is out of range, and the allowed values in words.
pub(in crate::update) type BadSetting = (&'static str, &'static str);

/// Default age in rounds after which a device drops its residual.
pub const RESIDUAL_AGE_ROUNDS_MAX: u32 = 100;

/// Checks the share of the values that a sparse codec sends.
pub(super) fn check_density(density: f64) -> Result<(), BadSetting> {
    if density > 0.0 && density <= 1.0 { Ok(()) } else { Err(("density", "above 0 and at most 1")) }
}
