//! The model delta between two consecutive model versions, as an update of 8-bit numbers rounded to nearest.
//!
//! ```text
//! d' = Q8(d),   w_(v+1) = w_v + d',   in f32
//! ```
//!
//! The coordinator adds the rounded delta d', the one in the file, to its own model. A client that has version v and
//! adds the file therefore has version v+1, bit for bit, and a chain of files accumulates no error. The rounding error
//! d - d', at most half a quantisation step per value, is dropped and not carried into the next version.

use std::sync::Arc;

use super::codec::Codec;
use super::codecs::Blocks;
use super::codecs::nearest::{BlockWriter, Scales};
use super::decoder::{UpdateDecoder, UpdateLimits};
use super::error::UpdateError;
use super::header::UpdateHeader;
use super::sink::DeltaSink;
use super::size::bytes_max;
use crate::model::ParameterList;

/// The metadata of the model delta from `base_version` to the version after it.
pub fn model_delta_header(job: &str, base_version: u32) -> UpdateHeader {
    UpdateHeader { codec: model_delta_codec(), job: job.to_owned(), base_version: base_version.into() }
}

fn model_delta_codec() -> Codec {
    Codec::Int8(Blocks::default())
}

/// Longest file of a model delta, in bytes, before compression.
pub fn model_delta_bytes_max(parameters: &ParameterList) -> u64 {
    bytes_max(parameters, model_delta_codec())
}

/// The first pass over a model delta: collects the scale of each block. A second pass is needed because a parameter's
/// scales precede its numbers in the file, and neither pass holds the delta in memory.
#[derive(Debug)]
pub struct ModelDeltaSurvey(Scales);

impl ModelDeltaSurvey {
    /// Starts at the first value of the flat vector.
    pub fn new(parameters: Arc<ParameterList>) -> Self {
        Self(Scales::new(parameters, Blocks::default()))
    }

    /// Takes the next values of the flat vector, which must be finite.
    pub fn look(&mut self, values: &[f32]) {
        self.0.look(values);
    }

    /// Ends the first pass. Returns the writer for the second pass and the first bytes of the file.
    ///
    /// # Panics
    /// If fewer values came than the model has, a mistake of the caller.
    #[must_use]
    pub fn finish(self, header: &UpdateHeader) -> (ModelDeltaWriter, Vec<u8>) {
        let writer = BlockWriter::new(self.0);
        let beginning = writer.beginning(&header.metadata());
        (ModelDeltaWriter(writer), beginning)
    }
}

/// The second pass over a model delta: takes the same values in the same order and writes the file.
#[derive(Debug)]
pub struct ModelDeltaWriter(BlockWriter);

impl ModelDeltaWriter {
    /// Appends the next values to the file in `out`, and replaces them by the rounded ones that a reader decodes.
    pub fn write(&mut self, values: &mut [f32], out: &mut Vec<u8>) {
        self.0.write(values, out);
    }
}

/// Adds a model delta to the values of its base version. `body` is the file, plain or as one zstd frame.
///
/// # Errors
/// [`UpdateError`] if the body is not the model delta that `header` describes. `values` may then have changed in part
/// and must be discarded.
pub fn add_model_delta(
    values: &mut [f32],
    body: &[u8],
    parameters: &Arc<ParameterList>,
    header: UpdateHeader,
) -> Result<(), UpdateError> {
    let limits = UpdateLimits::of_magnitude(f32::MAX);
    let mut decoder = UpdateDecoder::new(Arc::clone(parameters), header, limits);
    decoder.push(body, &mut Adding(values))?;
    decoder.finish().map(drop)
}

struct Adding<'a>(&'a mut [f32]);

impl DeltaSink for Adding<'_> {
    fn dense(&mut self, first: usize, values: &[f32]) {
        for (sum, value) in self.0[first..].iter_mut().zip(values) {
            *sum += value;
        }
    }

    fn sparse(&mut self, first: usize, indices: &[u32], values: &[f32]) {
        for (index, value) in indices.iter().zip(values) {
            self.0[first + *index as usize] += value;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::body::shrink;
    use crate::model::ParameterSpec;
    use crate::seed::{Seed, Stream};

    fn parameters(lengths: &[usize]) -> Arc<ParameterList> {
        let spec = |(index, length): (usize, &usize)| ParameterSpec::new(format!("p{index}"), [*length]);
        Arc::new(ParameterList::new(lengths.iter().enumerate().map(spec).collect()).unwrap())
    }

    /// Values of all sizes, some of them zero.
    fn value(stream: &mut Stream) -> f32 {
        let size = stream.next_u64() % 60;
        let value = stream.uniform(-1.0, 1.0) * (size as f32 - 50.0).exp2();
        if size == 0 { 0.0 } else { value }
    }

    /// Writes the file in pieces; `delta` becomes what the file says.
    fn write(delta: &mut [f32], parameters: &Arc<ParameterList>, header: &UpdateHeader, piece: usize) -> Vec<u8> {
        let mut survey = ModelDeltaSurvey::new(Arc::clone(parameters));
        delta.chunks(piece).for_each(|values| survey.look(values));
        let (mut writer, mut file) = survey.finish(header);
        delta.chunks_mut(piece).for_each(|values| writer.write(values, &mut file));
        file
    }

    proptest! {
        /// Goal: a client that adds one model delta after the other has the coordinator's model, bit for bit.
        #[test]
        fn a_chain_of_model_deltas_is_the_whole_model_bit_for_bit(
            lengths in prop::collection::vec(1usize..300, 1..5), seed: u64, piece in 1usize..500, packed: bool,
        ) {
            let parameters = parameters(&lengths);
            let mut stream = Seed(seed).stream();
            let mut whole: Vec<f32> = (0..parameters.total()).map(|_| value(&mut stream)).collect();
            let mut client = whole.clone();
            for version in 1..=4 {
                let header = model_delta_header("job", version - 1);
                let mut delta: Vec<f32> = (0..parameters.total()).map(|_| value(&mut stream)).collect();
                let file = write(&mut delta, &parameters, &header, piece);
                whole.iter_mut().zip(&delta).for_each(|(sum, delta)| *sum += delta);
                let body = if packed { shrink(file.clone()) } else { file.clone() };
                add_model_delta(&mut client, &body, &parameters, header).unwrap();
                prop_assert!(file.len() as u64 <= model_delta_bytes_max(&parameters));
                let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
                prop_assert_eq!(bits(&client), bits(&whole));
            }
        }

        #[test]
        fn a_number_errs_by_half_a_quantisation_step_of_its_block(seed: u64) {
            let parameters = parameters(&[1000]);
            let mut stream = Seed(seed).stream();
            let delta: Vec<f32> = (0..1000).map(|_| value(&mut stream)).collect();
            let mut rounded = delta.clone();
            write(&mut rounded, &parameters, &model_delta_header("job", 0), 1000);
            for (block, rounded) in delta.chunks(64).zip(rounded.chunks(64)) {
                let largest = block.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
                // Scales are rounded up to 8 bits; denormal ones have fewer, and err by their last bit.
                let half = 0.5 * largest / 127.0 * (1.0 + 1.0 / 128.0) + 1e-40;
                for (value, rounded) in block.iter().zip(rounded) {
                    prop_assert!((value - rounded).abs() <= half, "{rounded} instead of {value}, {half}");
                }
            }
        }
    }

    #[test]
    fn the_nearest_number_is_taken_and_the_even_one_in_the_middle() {
        let parameters = parameters(&[8]);
        let mut delta = [127.0, 0.5, 1.5, -0.5, -1.5, 2.49, -2.51, 0.0];
        write(&mut delta, &parameters, &model_delta_header("job", 0), 3);
        assert_eq!(delta, [127.0, 0.0, 2.0, 0.0, -2.0, 2.0, -3.0, 0.0]);
    }

    #[test]
    fn a_model_delta_of_another_version_or_job_is_refused() {
        let parameters = parameters(&[8]);
        let file = write(&mut [1.0; 8], &parameters, &model_delta_header("job", 3), 8);
        let add = |header| add_model_delta(&mut [0.0; 8], &file, &parameters, header);
        assert_eq!(add(model_delta_header("job", 3)), Ok(()));
        assert!(matches!(add(model_delta_header("job", 4)), Err(UpdateError::WrongBaseVersion { .. })));
        assert!(matches!(add(model_delta_header("other", 3)), Err(UpdateError::WrongJob { .. })));
    }
}
