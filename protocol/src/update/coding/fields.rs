//! Fields of fixed length at the beginning of a section, and sums over its values.

use half::bf16;

use crate::cpu::Cpu;
use crate::update::error::SectionError;
use crate::update::statistics::largest_bits;

/// Takes the next `N` bytes.
///
/// # Errors
/// [`SectionError::Truncated`] if fewer are left.
pub(in crate::update) fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], SectionError> {
    let (taken, rest) = bytes.split_first_chunk().ok_or(SectionError::Truncated)?;
    *bytes = rest;
    Ok(*taken)
}

/// Takes a little-endian f32 that must be finite and not negative. `what` names it in the error.
///
/// # Errors
/// [`SectionError::BadNumber`] if it is not finite or has a minus sign.
pub(in crate::update) fn take_magnitude(bytes: &mut &[u8], what: &'static str) -> Result<f32, SectionError> {
    let number = f32::from_le_bytes(take(bytes)?);
    match number.is_finite() && number.is_sign_positive() {
        true => Ok(number),
        false => Err(SectionError::BadNumber(what)),
    }
}

/// Rounds a magnitude up to a finite bf16. Beyond the largest one it becomes that.
pub(in crate::update) fn bf16_above(magnitude: f32) -> bf16 {
    // Magnitudes have the order of their bits, so adding to the bits rounds up.
    let up = ((magnitude.to_bits() + 0xFFFF) >> 16) as u16;
    bf16::from_bits(up.min(bf16::MAX.to_bits()))
}

/// The sum of `f` over the values. Eight partial sums, each in the order of the values, vectorise and give the same
/// result on every CPU.
pub(in crate::update) fn sum(values: &[f32], f: impl Fn(f64) -> f64) -> f64 {
    const LANES: usize = 8;
    let mut lanes = [0.0; LANES];
    let (rows, rest) = values.as_chunks::<LANES>();
    for row in rows {
        for (lane, value) in lanes.iter_mut().zip(row) {
            *lane += f(f64::from(*value));
        }
    }
    for (lane, value) in lanes.iter_mut().zip(rest) {
        *lane += f(f64::from(*value));
    }
    lanes.iter().sum()
}

/// The largest magnitude of finite values.
pub(in crate::update) fn magnitude_max(values: &[f32]) -> f32 {
    f32::from_bits(largest_bits(Cpu::best(), values) as u32)
}
