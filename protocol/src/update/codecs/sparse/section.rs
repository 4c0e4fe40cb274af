//! Sections of sparse codecs: which values are sent, and the section's bytes.

use super::values::{Quantised, Rounding, SparseValues, is_zero, quantise, read_scale, read_values};
use crate::update::coding::bits::BitWriter;
use crate::update::coding::fields::take;
use crate::update::coding::rice;
use crate::update::error::SectionError;
use crate::update::frame::{Section, read_length, write_length};

/// The values of a section that are sent.
#[derive(Debug, Default)]
pub(in crate::update::codecs) struct Chosen {
    /// Ascending indices in the section.
    pub(in crate::update::codecs) indices: Vec<u32>,
    /// The values at these indices, finite and not zero.
    pub(in crate::update::codecs) values: Vec<f32>,
}

impl Chosen {
    pub(in crate::update::codecs) fn clear(&mut self) {
        self.indices.clear();
        self.values.clear();
    }

    pub(in crate::update::codecs) fn push(&mut self, index: usize, value: f32) {
        self.indices.push(index as u32);
        self.values.push(value);
    }
}

/// Most bits of a section besides gaps and values: its length in the frame, count, parameter, scale and padding.
const SECTION_BITS: f64 = 8.0 * (3 + 3 + 1 + 4 + 2) as f64;
/// Least values per section, on average, for which [`bits_per_value_max`] holds.
const SECTION_VALUES: f64 = 4096.0;

/// Most bits per value of a delta at this density, for sections of 4,096 values or more on average.
///
/// The gaps of k among n values take at most k (b + 1) + (n - k) / 2^b bits with the Rice parameter b. The minimum over
/// b is concave in (k, n), so no distribution of the k values over sections takes more.
pub(in crate::update::codecs) fn bits_per_value_max(values: SparseValues, density: f64) -> f64 {
    let gaps = |parameter: u8| {
        let divisor = f64::from(1u32 << parameter);
        density * f64::from(parameter + 1) + (1.0 - density) / divisor
    };
    let gaps = (0..=rice::PARAMETER_MAX).map(gaps).fold(f64::INFINITY, f64::min);
    let value_bits = values.value_bits() as f64;
    let sparse = gaps + density * value_bits;
    let all = if values.has_zero() { sparse.min(value_bits) } else { sparse };
    all + SECTION_BITS / SECTION_VALUES
}

/// Longest section of `section_values` values in bytes, whichever of them are sent.
pub(in crate::update::codecs) fn section_bytes_max(values: SparseValues, section_values: usize) -> usize {
    let whole = length_bytes(section_values) + values.scale_bytes() + values.payload_bytes(section_values);
    if values.has_zero() {
        return whole;
    }
    // All values but one are sent: a bitmap (Rice codes with parameter 0) and as many signs.
    whole + 1 + section_values.div_ceil(8)
}

/// Bytes of a number in LEB128.
fn length_bytes(number: usize) -> usize {
    (number.max(1).ilog2() as usize / 7) + 1
}

/// Appends a section of `section_values` values to `out`.
pub(in crate::update::codecs) fn write(
    values: SparseValues,
    section_values: usize,
    chosen: &Chosen,
    rounding: &mut Rounding<'_>,
    out: &mut Vec<u8>,
) {
    let Quantised { scale, mut codes } = quantise(values, &chosen.values, rounding);
    let mut indices = chosen.indices.clone();
    // A value that quantises to zero is not sent.
    let mut kept = codes.iter().map(|code| !is_zero(values, *code));
    indices.retain(|_| kept.next().unwrap_or_default());
    codes.retain(|code| !is_zero(values, *code));
    if codes.is_empty() {
        write_length(0, out);
        return;
    }
    let gaps = rice::gaps(&indices);
    let (parameter, gap_bits) = rice::best_parameter(&gaps);
    let sparse_bytes = length_bytes(codes.len()) + 1 + gap_bits.div_ceil(8) + values.payload_bytes(codes.len());
    let whole_bytes = length_bytes(section_values) + values.payload_bytes(section_values);
    let whole = codes.len() == section_values || (values.has_zero() && whole_bytes <= sparse_bytes);
    if whole {
        let mut all = vec![0; section_values];
        for (index, code) in indices.iter().zip(&codes) {
            all[*index as usize] = *code;
        }
        codes = all;
    }
    write_length(codes.len(), out);
    if !whole {
        out.push(parameter);
    }
    out.extend_from_slice(&scale.to_le_bytes()[..values.scale_bytes()]);
    if !whole {
        rice::write(&gaps, parameter, out);
    }
    match values {
        SparseValues::F32 => out.extend(codes.iter().flat_map(|code| code.to_le_bytes())),
        SparseValues::F16 => out.extend(codes.iter().flat_map(|code| (*code as u16).to_le_bytes())),
        SparseValues::Int8 => out.extend(codes.iter().map(|code| *code as u8)),
        SparseValues::Sign => {
            let mut writer = BitWriter::new(out);
            codes.iter().for_each(|code| writer.push(*code, 1));
            writer.finish();
        }
    }
}

/// Reads a section of `section_values` values.
///
/// # Errors
/// [`SectionError`] for bytes that [`write`] never writes.
pub(in crate::update::codecs) fn read(
    values: SparseValues,
    mut bytes: &[u8],
    section_values: usize,
    out: &mut Section,
) -> Result<(), SectionError> {
    let count = read_length(&mut (0, 0), &mut bytes)?.ok_or(SectionError::Truncated)?;
    if count > section_values as u64 {
        return Err(SectionError::TooMany);
    }
    let count = count as usize;
    if count == 0 {
        out.sparse();
        return if bytes.is_empty() { Ok(()) } else { Err(SectionError::TrailingBytes) };
    }
    let whole = count == section_values;
    let parameter = if whole { 0 } else { take::<1>(&mut bytes)?[0] };
    let scale = read_scale(values, &mut bytes)?;
    // The count is trusted from here on: that many values are present, so the buffers below are no longer than the
    // input.
    let gap_bytes = bytes.len().checked_sub(values.payload_bytes(count)).ok_or(SectionError::Truncated)?;
    let (gaps, payload) = bytes.split_at(gap_bytes);
    let decoded = if whole {
        if !gaps.is_empty() {
            return Err(SectionError::TrailingBytes);
        }
        out.dense()
    } else {
        let (indices, decoded) = out.sparse();
        indices.resize(count, 0);
        rice::read(gaps, parameter, section_values, indices)?;
        decoded
    };
    decoded.resize(count, 0.0);
    read_values(values, payload, scale, whole, decoded)
}
