//! The client's half of all codecs: a delta becomes a file.

use std::collections::BTreeMap;

use super::codec::Codec;
use super::error::EncodeError;
use super::header::UpdateHeader;
use super::{codecs, statistics};
use crate::cpu::Cpu;
use crate::model::ParameterList;
use crate::safetensors::{Data, Dtype, Tensor, f32_file, write};
use crate::seed::Seed;

/// Encodes a delta as a file. The same delta, round and seed give the same bytes.
///
/// `round` is the round's number in its job, which codecs with a warm-up need. `seed` drives stochastic rounding and
/// the choice of values.
///
/// # Errors
/// [`EncodeError`] for a value that is not finite or beyond the codec's range.
///
/// # Panics
/// If the delta has not one value for each parameter, a mistake of the caller.
pub fn encode(
    delta: &[f32],
    parameters: &ParameterList,
    header: &UpdateHeader,
    round: u32,
    seed: Seed,
) -> Result<Vec<u8>, EncodeError> {
    assert_eq!(delta.len(), parameters.total(), "a delta has one value for each parameter");
    check_finite(delta)?;
    let metadata = header.metadata();
    let stream = &mut seed.stream();
    let frame = match header.codec {
        Codec::F32 => return Ok(f32_file(parameters, delta, &metadata)),
        Codec::F16 => return plain_file(delta, parameters, Dtype::F16, &metadata),
        Codec::Bf16 => return plain_file(delta, parameters, Dtype::Bf16, &metadata),
        Codec::Int8(blocks) => return codecs::blocks::encode(delta, parameters, 8, blocks, stream, &metadata),
        Codec::Int4(blocks) => return codecs::blocks::encode(delta, parameters, 4, blocks, stream, &metadata),
        Codec::Ternary(ternary) => ternary.encode(delta, parameters, stream),
        Codec::Qsgd(qsgd) => qsgd.encode(delta, parameters, stream),
        Codec::Sign => codecs::sign::encode(delta, parameters),
        Codec::RandomK(random_k) => random_k.encode(delta, parameters, stream),
        Codec::TopK(top_k) => top_k.encode(delta, parameters),
        Codec::Dgc(dgc) => dgc.encode(delta, parameters, round),
        Codec::Eden(eden) => eden.encode(delta, parameters, stream),
        Codec::Hierarchical(hierarchical) => hierarchical.encode(delta, parameters),
    };
    Ok([&header.tag()[..], &frame].concat())
}

/// Refuses a delta with a NaN or an infinity. One pass finds the largest magnitude; only a refusal needs a second one.
pub(super) fn check_finite(delta: &[f32]) -> Result<(), EncodeError> {
    if statistics::largest_bits(Cpu::best(), delta) < statistics::magnitude_bits(f32::INFINITY) {
        return Ok(());
    }
    let index = delta.iter().position(|value| !value.is_finite()).expect("something is not finite");
    Err(EncodeError::NotFinite { index })
}

fn plain_file(
    delta: &[f32],
    parameters: &ParameterList,
    dtype: Dtype,
    metadata: &BTreeMap<String, String>,
) -> Result<Vec<u8>, EncodeError> {
    let bytes = codecs::plain::encode_16(delta, dtype)?;
    let tensors: Vec<_> = parameters
        .specs()
        .iter()
        .enumerate()
        .map(|(index, spec)| {
            let range = parameters.range(index);
            let data = Data::Bytes(dtype, &bytes[2 * range.start..2 * range.end]);
            Tensor { name: &spec.name, shape: &spec.shape, data }
        })
        .collect();
    Ok(write(&tensors, metadata))
}
