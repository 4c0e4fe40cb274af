//! Size, error and speed of each codec on one core.
//!
//! Two deltas are encoded: normal values, and the same with a third of exact zeros, as in the first layer of a network
//! with constant inputs. `tributary-bench training` measures accuracy.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tributary_protocol::body::shrink;
use tributary_protocol::model::{ParameterList, ParameterSpec};
use tributary_protocol::seed::Seed;
use tributary_protocol::update::{
    Codec, CodecName, DeltaSink, UpdateDecoder, UpdateError, UpdateHeader, UpdateLimits, encode,
};

use crate::error::BenchError;
use tributary::error::CliError;
use tributary::options::parse_codec;
use tributary::output::Output;
use tributary::stopwatch::Stopwatch;

/// Standard deviation of the values: about that of a client's delta after an epoch.
const DEVIATION: f64 = 1e-3;
/// Values in a row of the model's matrix.
const ROW_VALUES: usize = 1000;
/// Bytes that the coordinator's decoder gets at once.
const PIECE_BYTES: usize = 64 << 10;
/// Each measurement is repeated for this time, and at least `REPETITIONS_MIN` times. The fastest counts.
const REPEATED_FOR: Duration = Duration::from_millis(300);
const REPETITIONS_MIN: u32 = 3;

#[derive(Clone, Debug, Args)]
pub(crate) struct CodecArgs {
    /// Parameters of the delta.
    #[arg(long, default_value_t = 1_000_000, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=500_000_000))]
    params: u32,
    /// A codec to measure: its name (`int8`), or a JSON object with its settings (`{"name":"qsgd","levels":16}`). May
    /// be repeated [default: every codec with its default settings].
    #[arg(long = "codec", value_name = "CODEC", value_parser = parse_codec)]
    codecs: Vec<Codec>,
}

/// Programs rely on the names of its members.
#[derive(Debug, Serialize)]
struct Measured {
    codec: Codec,
    /// `normal` or `third_zeros`.
    data: &'static str,
    params: u32,
    /// Of the body: the file, or its zstd frame if that is smaller.
    bits_per_parameter: f64,
    /// Of the file.
    file_bits_per_parameter: f64,
    /// `|decoded - delta|^2 / |delta|^2`.
    relative_squared_error: f64,
    /// Whether the expected decoded delta equals the encoded one.
    unbiased: bool,
    /// Bytes of f32 per second and core, into a file.
    encode_gb_per_s: f64,
    /// Bytes of f32 per second and core, from a file to validated values.
    decode_gb_per_s: f64,
    /// Bytes of f32 per second and core, to compress the file with zstd.
    shrink_gb_per_s: f64,
}

pub(crate) async fn run(args: &CodecArgs, output: &Output) -> Result<(), CliError> {
    let all = || CodecName::ALL.map(CodecName::with_defaults).to_vec();
    let codecs = if args.codecs.is_empty() { all() } else { args.codecs.clone() };
    let parameters = parameters_of(args.params as usize)?;
    for codec in codecs {
        for (data, zeros_every) in [("normal", None), ("third_zeros", Some(3))] {
            let parameters = Arc::clone(&parameters);
            // The computation takes seconds and would block other tasks.
            let measured = tokio::task::spawn_blocking(move || {
                let delta = normal(parameters.total(), zeros_every, Seed(1));
                measure(codec, data, &delta, &parameters)
            });
            let measured = measured.await.map_err(CliError::task)??;
            output.object(&measured, || text(&measured))?;
        }
    }
    Ok(())
}

/// A model of one matrix.
pub(crate) fn parameters_of(count: usize) -> Result<Arc<ParameterList>, BenchError> {
    let shape = if count.is_multiple_of(ROW_VALUES) { vec![count / ROW_VALUES, ROW_VALUES] } else { vec![count] };
    let parameters = ParameterList::new(vec![ParameterSpec::new("w", shape)]);
    parameters.map(Arc::new).map_err(|error| BenchError::Codec(error.to_string()))
}

/// Normal values (Box and Muller 1958), of which every `zeros_every`th is zero.
pub(crate) fn normal(count: usize, zeros_every: Option<usize>, seed: Seed) -> Vec<f32> {
    let mut stream = seed.stream();
    let mut pair = || {
        let (radius, angle) = ((-2.0 * (1.0 - stream.unit()).ln()).sqrt(), std::f64::consts::TAU * stream.unit());
        [angle.cos(), angle.sin()].map(|unit| (DEVIATION * radius * unit) as f32)
    };
    let mut values: Vec<f32> = (0..count.div_ceil(2)).flat_map(|_| pair()).take(count).collect();
    if let Some(every) = zeros_every {
        values.iter_mut().step_by(every).for_each(|value| *value = 0.0);
    }
    values
}

fn measure(
    codec: Codec,
    data: &'static str,
    delta: &[f32],
    parameters: &Arc<ParameterList>,
) -> Result<Measured, BenchError> {
    let failed = |error: &dyn std::error::Error| BenchError::Codec(format!("{codec}: {error}"));
    let header = UpdateHeader { codec, job: "bench".into(), base_version: 1 };
    // A codec with a warm-up sends more in its first rounds. This is its last round.
    let encoded = || encode(delta, parameters, &header, u32::MAX, Seed(2)).map_err(|error| failed(&error));
    let file = encoded()?;
    let mut decoded = vec![0.0; delta.len()];
    decode(&file, parameters, &header, &mut decoded).map_err(|error| failed(&error))?;
    let encode_s = fastest_s(|| drop(std::hint::black_box(encoded())));
    let decode_s = fastest_s(|| drop(std::hint::black_box(decode(&file, parameters, &header, &mut Look))));
    let shrink_s = fastest_s(|| drop(std::hint::black_box(shrink(file.clone()))));
    let file_bytes = file.len();
    let body = shrink(file);

    let square = |value: f32| f64::from(value) * f64::from(value);
    let error: f64 = delta.iter().zip(&decoded).map(|(value, decoded)| square(decoded - value)).sum();
    let bits = |bytes: usize| 8.0 * bytes as f64 / delta.len() as f64;
    let gb_per_s = |seconds: f64| size_of_val(delta) as f64 / seconds / 1e9;
    Ok(Measured {
        codec,
        data,
        params: delta.len() as u32,
        bits_per_parameter: bits(body.len()),
        file_bits_per_parameter: bits(file_bytes),
        relative_squared_error: error / delta.iter().map(|value| square(*value)).sum::<f64>(),
        unbiased: codec.properties().unbiased,
        encode_gb_per_s: gb_per_s(encode_s),
        decode_gb_per_s: gb_per_s(decode_s),
        shrink_gb_per_s: gb_per_s(shrink_s),
    })
}

pub(crate) fn decode(
    file: &[u8],
    parameters: &Arc<ParameterList>,
    header: &UpdateHeader,
    sink: &mut impl DeltaSink,
) -> Result<(), UpdateError> {
    let limits = UpdateLimits::of_magnitude(f32::MAX);
    let mut decoder = UpdateDecoder::new(Arc::clone(parameters), header.clone(), limits);
    for piece in file.chunks(PIECE_BYTES) {
        decoder.push(piece, sink)?;
    }
    decoder.finish().map(drop)
}

/// Discards the values.
struct Look;

impl DeltaSink for Look {
    fn dense(&mut self, _first: usize, values: &[f32]) {
        std::hint::black_box(values);
    }

    fn sparse(&mut self, _first: usize, indices: &[u32], values: &[f32]) {
        std::hint::black_box((indices, values));
    }
}

fn fastest_s(mut work: impl FnMut()) -> f64 {
    let (all, mut fastest, mut repetitions) = (Stopwatch::start(), Duration::MAX, 0);
    while repetitions < REPETITIONS_MIN || all.elapsed() < REPEATED_FOR {
        let one = Stopwatch::start();
        work();
        fastest = fastest.min(one.elapsed());
        repetitions += 1;
    }
    fastest.as_secs_f64()
}

fn text(measured: &Measured) -> String {
    format!(
        "{:<44} {:<12} {:>7.3} bits ({:>7.3} without zstd)  error {:>9.2e}  encode {:>6.2} GB/s  decode {:>6.2} GB/s",
        measured.codec.to_string(),
        measured.data,
        measured.bits_per_parameter,
        measured.file_bits_per_parameter,
        measured.relative_squared_error,
        measured.encode_gb_per_s,
        measured.decode_gb_per_s,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_codec_is_measured_and_an_exact_one_has_no_error() {
        let parameters = Arc::new(ParameterList::new(vec![ParameterSpec::new("w", [2, 1000])]).unwrap());
        let delta = normal(2000, Some(3), Seed(1));
        assert!(delta.iter().step_by(3).all(|value| *value == 0.0) && delta[1] != 0.0);
        for name in CodecName::ALL {
            let measured = measure(name.with_defaults(), "third_zeros", &delta, &parameters).unwrap();
            assert!(measured.bits_per_parameter <= measured.file_bits_per_parameter && measured.decode_gb_per_s > 0.0);
            assert_eq!(measured.relative_squared_error == 0.0, name == CodecName::F32, "{name}");
        }
    }
}
