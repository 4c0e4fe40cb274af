//! The step from one model version to the next as an update of 8-bit numbers, rounded to nearest.
//!
//! ```text
//! s' = Q8(s),   w_(v+1) = w_v + s',   in f32
//! ```
//!
//! The coordinator adds the rounded step s', which is what the file says: whoever has version v and adds the file has
//! version v+1, bit for bit. What the rounding takes from the step, a round of training, is lost and not remembered.

use std::sync::Arc;

use super::codecs::Blocks;
use super::codecs::nearest::{BlockWriter, Scales};
use super::{Codec, DeltaSink, UpdateDecoder, UpdateError, UpdateHeader, UpdateLimits, bytes_max};
use crate::model::ParameterList;

/// What the file of a step says of itself.
#[must_use]
pub fn step_header(job: &str, base_version: u32) -> UpdateHeader {
    UpdateHeader { codec: step_codec(), job: job.to_owned(), base_version: base_version.into() }
}

fn step_codec() -> Codec {
    Codec::Int8(Blocks::default())
}

/// Longest file of a step, in bytes.
#[must_use]
pub fn step_bytes_max(parameters: &ParameterList) -> u64 {
    bytes_max(parameters, step_codec())
}

/// The first pass over a step, whose values come in order.
#[derive(Debug)]
pub struct StepSurvey(Scales);

impl StepSurvey {
    /// A survey of a step of these parameters.
    #[must_use]
    pub fn new(parameters: Arc<ParameterList>) -> Self {
        Self(Scales::new(parameters, Blocks::default()))
    }

    /// Takes the next values, which are finite.
    pub fn look(&mut self, values: &[f32]) {
        self.0.look(values);
    }

    /// Every value came: the step can be written. Also returns the beginning of its file.
    ///
    /// # Panics
    /// If values are missing, a mistake of the caller.
    #[must_use]
    pub fn finish(self, header: &UpdateHeader) -> (StepWriter, Vec<u8>) {
        let writer = BlockWriter::new(self.0);
        let beginning = writer.beginning(&header.metadata());
        (StepWriter(writer), beginning)
    }
}

/// The second pass: the same values in the same order.
#[derive(Debug)]
pub struct StepWriter(BlockWriter);

impl StepWriter {
    /// Appends the file's bytes of the next values, which become those that the file says.
    pub fn write(&mut self, values: &mut [f32], out: &mut Vec<u8>) {
        self.0.write(values, out);
    }
}

/// Adds a step's body, a file or one zstd frame, to the values of the version before it.
///
/// # Errors
/// [`UpdateError`] when the body is something else; some of it may have been added then.
pub fn add_step(
    values: &mut [f32],
    body: &[u8],
    parameters: &Arc<ParameterList>,
    header: UpdateHeader,
) -> Result<(), UpdateError> {
    let limits = UpdateLimits { magnitude_max: f32::MAX };
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

    /// The file of a step in pieces; the step becomes what it says.
    fn write(step: &mut [f32], parameters: &Arc<ParameterList>, header: &UpdateHeader, piece: usize) -> Vec<u8> {
        let mut survey = StepSurvey::new(Arc::clone(parameters));
        step.chunks(piece).for_each(|values| survey.look(values));
        let (mut writer, mut file) = survey.finish(header);
        step.chunks_mut(piece).for_each(|values| writer.write(values, &mut file));
        file
    }

    proptest! {
        /// Goal: a client that adds one step after the other has the coordinator's model, bit for bit.
        #[test]
        fn a_chain_of_steps_is_the_whole_model_bit_for_bit(
            lengths in prop::collection::vec(1usize..300, 1..5), seed: u64, piece in 1usize..500, packed: bool,
        ) {
            let parameters = parameters(&lengths);
            let mut stream = Seed(seed).stream();
            let mut whole: Vec<f32> = (0..parameters.total()).map(|_| value(&mut stream)).collect();
            let mut client = whole.clone();
            for version in 1..=4 {
                let header = step_header("job", version - 1);
                let mut step: Vec<f32> = (0..parameters.total()).map(|_| value(&mut stream)).collect();
                let file = write(&mut step, &parameters, &header, piece);
                whole.iter_mut().zip(&step).for_each(|(sum, step)| *sum += step);
                let body = if packed { shrink(file.clone()) } else { file.clone() };
                add_step(&mut client, &body, &parameters, header).unwrap();
                prop_assert!(file.len() as u64 <= step_bytes_max(&parameters));
                let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
                prop_assert_eq!(bits(&client), bits(&whole));
            }
        }

        #[test]
        fn a_number_errs_by_half_a_step_of_its_block(seed: u64) {
            let parameters = parameters(&[1000]);
            let mut stream = Seed(seed).stream();
            let step: Vec<f32> = (0..1000).map(|_| value(&mut stream)).collect();
            let mut rounded = step.clone();
            write(&mut rounded, &parameters, &step_header("job", 0), 1000);
            for (block, rounded) in step.chunks(64).zip(rounded.chunks(64)) {
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
        let mut step = [127.0, 0.5, 1.5, -0.5, -1.5, 2.49, -2.51, 0.0];
        write(&mut step, &parameters, &step_header("job", 0), 3);
        assert_eq!(step, [127.0, 0.0, 2.0, 0.0, -2.0, 2.0, -3.0, 0.0]);
    }

    #[test]
    fn a_step_of_another_version_or_job_is_refused() {
        let parameters = parameters(&[8]);
        let file = write(&mut [1.0; 8], &parameters, &step_header("job", 3), 8);
        let add = |header| add_step(&mut [0.0; 8], &file, &parameters, header);
        assert_eq!(add(step_header("job", 3)), Ok(()));
        assert!(matches!(add(step_header("job", 4)), Err(UpdateError::WrongBaseVersion { .. })));
        assert!(matches!(add(step_header("other", 3)), Err(UpdateError::WrongJob { .. })));
    }
}
