//! Helpers for the tests of sparse codecs.

use crate::model::{ParameterList, ParameterSpec};
use crate::seed::Seed;
use crate::update::frame::{FrameReader, Section, SectionCodec};
use crate::update::{DeltaSink, UpdateError};

/// Parameters of these lengths.
pub(in crate::update) fn parameters(lengths: &[usize]) -> ParameterList {
    let spec = |(index, length): (usize, &usize)| ParameterSpec::new(format!("p{index}"), [*length]);
    ParameterList::new(lengths.iter().enumerate().map(spec).collect()).unwrap()
}

/// Standard normal values (Box and Muller 1958).
pub(in crate::update) fn normal(count: usize, seed: u64) -> Vec<f32> {
    let mut stream = Seed(seed).stream();
    let mut value = || {
        let (radius, angle) = ((-2.0 * (1.0 - stream.unit()).ln()).sqrt(), std::f64::consts::TAU * stream.unit());
        (radius * angle.cos()) as f32
    };
    (0..count).map(|_| value()).collect()
}

/// Decodes a frame that comes in two pieces.
pub(in crate::update) fn decoded_frame(
    frame: &[u8],
    parameters: &ParameterList,
    codec: impl SectionCodec + 'static,
) -> Result<Vec<f32>, UpdateError> {
    let mut delta = vec![0.0; parameters.total()];
    let mut reader = FrameReader::new(parameters, Box::new(codec));
    let accept = &mut |first: usize, section: &Section| {
        match section.sparse {
            true => delta.sparse(first, &section.indices, &section.values),
            false => delta.dense(first, &section.values),
        }
        Ok(())
    };
    let (front, back) = frame.split_at(frame.len() / 2);
    reader.push(front, accept)?;
    reader.push(back, accept)?;
    reader.finish()?;
    Ok(delta)
}

/// |decoded - delta|^2 / |delta|^2.
pub(in crate::update) fn error(decoded: &[f32], delta: &[f32]) -> f64 {
    let square = |value: f64| value * value;
    let lost: f64 =
        decoded.iter().zip(delta).map(|(decoded, value)| square(f64::from(*decoded) - f64::from(*value))).sum();
    lost / delta.iter().map(|value| square(f64::from(*value))).sum::<f64>()
}
