//! The way of an update to the coordinator: the job's codec, and the bytes of its body.

use std::sync::Arc;

use tributary_engine::job::JobSpec;
use tributary_protocol::body::shrink;
use tributary_protocol::seed::Seed;
use tributary_protocol::update::{Codec, UpdateDecoder, UpdateLimits, encode};

use crate::error::SimulationError;

/// What the coordinator reads of a delta, and the bytes of the body that a client uploads. `f32` values arrive as they
/// are; masked updates have a codec of their own, whose rounding is left out.
pub(crate) fn travelled(
    spec: &JobSpec,
    delta: Vec<f32>,
    round: u32,
    seed: Seed,
) -> Result<(Vec<f32>, u64), SimulationError> {
    let codec = spec.file.update.codec;
    if codec == Codec::F32 || spec.file.secure_aggregation.is_some() {
        let bytes = size_of_val(delta.as_slice()) as u64;
        return Ok((delta, bytes));
    }
    let header = spec.update_header(round);
    let body = encode(&delta, &spec.update, &header, round, seed)?;
    let mut values = vec![0.0; delta.len()];
    let mut decoder = UpdateDecoder::new(Arc::clone(&spec.update), header, UpdateLimits::of_magnitude(f32::MAX));
    decoder.push(&body, &mut values)?;
    decoder.finish()?;
    Ok((values, shrink(body).len() as u64))
}
