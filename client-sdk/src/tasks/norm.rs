//! The norm bound of a plan: an update whose decoded norm exceeds it is scaled down.
//!
//! The coordinator bounds the norm that it decodes, to which a codec adds: a stochastic codec sends a delta of a larger
//! norm, and error feedback adds a residual. So the finished file is measured, and where it exceeds the bound
//! everything that it was made of is scaled by what is missing. What scaling takes away is not kept for later updates,
//! since the residual would grow without end otherwise.

use std::sync::Arc;

use tributary_protocol::model::ParameterList;
use tributary_protocol::update::{DeltaSink, Residual, UpdateDecoder, UpdateError, UpdateHeader, UpdateLimits};

/// Attempts to write a file within the bound. Scaling is linear but for rounding, so the second fits.
pub(super) const ATTEMPTS_MAX: u32 = 8;

/// The L2 norm of a delta.
pub(super) fn norm(delta: &[f32]) -> f64 {
    delta.iter().map(|value| f64::from(*value) * f64::from(*value)).sum::<f64>().sqrt()
}

/// Scales a delta, and what it is added to, from one norm down to another.
pub(super) fn scale(delta: &mut [f32], residual: Option<&mut Residual>, from: f64, to: f64) {
    let factor = to / from;
    let scaled = |value: &mut f32| *value = (f64::from(*value) * factor) as f32;
    delta.iter_mut().for_each(scaled);
    if let Some(residual) = residual {
        residual.values.iter_mut().for_each(scaled);
        residual.momentum.iter_mut().flatten().for_each(scaled);
    }
}

/// The norm of the delta of a file as the coordinator decodes it. The delta is the first so many values.
pub(super) fn sent_norm(file: &[u8], parameters: &Arc<ParameterList>, header: &UpdateHeader, values: usize) -> f64 {
    decode(file, parameters, header, values, &mut Ignore)
}

/// The values of a file as the coordinator decodes them.
pub(super) fn sent(file: &[u8], parameters: &Arc<ParameterList>, header: &UpdateHeader) -> Vec<f32> {
    let mut values = vec![0.0; parameters.total()];
    decode(file, parameters, header, usize::MAX, &mut values);
    values
}

/// The values of a stored file.
pub(super) fn read(
    file: &[u8],
    parameters: &Arc<ParameterList>,
    header: &UpdateHeader,
) -> Result<Vec<f32>, UpdateError> {
    let mut values = vec![0.0; parameters.total()];
    let limits = UpdateLimits::of_magnitude(f32::MAX);
    let mut decoder = UpdateDecoder::new(Arc::clone(parameters), header.clone(), limits);
    decoder.push(file, &mut values)?;
    decoder.finish().map(|_| values)
}

fn decode(
    file: &[u8],
    parameters: &Arc<ParameterList>,
    header: &UpdateHeader,
    norm_values: usize,
    sink: &mut impl DeltaSink,
) -> f64 {
    let limits = UpdateLimits { norm_values, ..UpdateLimits::of_magnitude(f32::MAX) };
    let mut decoder = UpdateDecoder::new(Arc::clone(parameters), header.clone(), limits);
    decoder.push(file, sink).expect("what was encoded can be decoded");
    decoder.finish().expect("what was encoded is whole").norm
}

struct Ignore;

impl DeltaSink for Ignore {
    fn dense(&mut self, _: usize, _: &[f32]) {}

    fn sparse(&mut self, _: usize, _: &[u32], _: &[f32]) {}
}
