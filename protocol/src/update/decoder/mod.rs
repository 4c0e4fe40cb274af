//! The server's half of all codecs: decodes the bytes of an update to checked blocks of the delta.

mod tagged;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::codec::Codec;
use super::codecs::blocks::BlocksReader;
use super::codecs::plain;
use super::error::UpdateError;
use super::format::FORMAT;
use super::frame::{FrameReader, Section};
use super::header::UpdateHeader;
use super::shards::Shard;
use super::sink::{BLOCK_VALUES_MAX, DeltaSink};
use super::size::{bytes_max, header_bytes_max};
use super::statistics::{LANES, largest_bits, magnitude_bits, square, statistics};
use crate::body::Unpacker;
use crate::cpu::{Cpu, prefetch};
use crate::model::ParameterList;
use crate::safetensors::{Decoder, Dtype, Header, Sink, match_tensors, shortened, tensor_per_parameter};
use tagged::TaggedFrame;

/// Limits on the values of a delta.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpdateLimits {
    /// Largest allowed magnitude.
    pub magnitude_max: f32,
    /// Largest allowed L2 norm, but for [`NORM_TOLERANCE`].
    pub norm_max: f64,
    /// Number of leading values that make up the norm. What an update carries behind its delta does not move the model.
    pub norm_values: usize,
}

/// How far a norm may exceed its bound, relative to it. Rounding in the encoder changes the norm of a delta that was
/// scaled to the bound.
pub const NORM_TOLERANCE: f64 = 0.01;

/// Statistics of a delta that was accepted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpdateStatistics {
    /// L2 norm of the delta. Its squares are summed in f64 in a fixed order, so it does not depend on the pieces.
    pub norm: f64,
    /// Largest magnitude of the delta.
    pub magnitude_max: f32,
}

/// Decodes one update that arrives in pieces, as a plain file or as one zstd frame.
#[derive(Debug)]
pub struct UpdateDecoder {
    unpacker: Unpacker,
    content: Content,
    check: Check,
    /// Of a part: the shard whose places its values have.
    shard: Option<Shard>,
}

#[derive(Debug)]
enum Content {
    /// A safetensors file.
    Tensors {
        file: Decoder,
        /// The required metadata; `None` for a whole model, which has none of these entries.
        expected: Option<UpdateHeader>,
        reader: Reader,
    },
    /// A tag and a frame of sections.
    Frame(TaggedFrame),
}

/// Decodes tensors to values.
#[derive(Debug)]
enum Reader {
    /// One tensor for each parameter.
    Plain {
        dtype: Dtype,
        /// The parameter index of each tensor of the file.
        parameter_of_tensor: Vec<usize>,
    },
    /// Two tensors for each parameter.
    Blocks(BlocksReader),
}

/// Checks every value before it is passed on, and computes the statistics.
#[derive(Debug)]
struct Check {
    parameters: Arc<ParameterList>,
    limits: UpdateLimits,
    /// Bits of the largest allowed magnitude, which is finite even if the limit is not.
    magnitude_bits_max: i32,
    /// Bits of the largest magnitude so far.
    magnitude_bits: i32,
    norm_squared: [f64; LANES],
}

impl UpdateLimits {
    /// Without a bound on the norm.
    pub const fn of_magnitude(magnitude_max: f32) -> Self {
        Self { magnitude_max, norm_max: f64::INFINITY, norm_values: usize::MAX }
    }

    /// Whether the bound allows a delta of this norm.
    #[must_use]
    pub fn allow_norm(&self, norm: f64) -> bool {
        norm <= self.norm_max * (1.0 + NORM_TOLERANCE)
    }
}

impl UpdateDecoder {
    /// Makes a decoder for an update of a model with these parameters.
    pub fn new(parameters: Arc<ParameterList>, expected: UpdateHeader, limits: UpdateLimits) -> Self {
        Self::reading(parameters, expected.codec, Some(expected), limits)
    }

    pub(super) fn reading(
        parameters: Arc<ParameterList>,
        codec: Codec,
        expected: Option<UpdateHeader>,
        limits: UpdateLimits,
    ) -> Self {
        let unpacker = Unpacker::new(bytes_max(&parameters, codec));
        let reader = match (codec.plain_dtype(), codec) {
            (Some(dtype), _) => Some(Reader::Plain { dtype, parameter_of_tensor: Vec::new() }),
            (None, Codec::Int8(blocks)) => Some(Reader::Blocks(BlocksReader::new(Arc::clone(&parameters), 8, blocks))),
            (None, Codec::Int4(blocks)) => Some(Reader::Blocks(BlocksReader::new(Arc::clone(&parameters), 4, blocks))),
            (None, _) => None,
        };
        let content = match reader {
            Some(reader) => {
                let file = Decoder::new(header_bytes_max(&parameters, codec));
                Content::Tensors { file, expected, reader }
            }
            None => {
                let sections = codec.sections().expect("every other codec writes sections");
                let expected = expected.expect("whole models are never frames");
                Content::Frame(TaggedFrame::new(
                    expected.clone(),
                    expected.tag(),
                    FrameReader::new(&parameters, sections),
                ))
            }
        };
        Self { unpacker, content, check: Check::new(parameters, limits), shard: None }
    }

    /// Makes a decoder for the part of a shard. The sink has one place for each value of the shard; the norm is that of
    /// the part.
    pub fn of_shard(
        parameters: Arc<ParameterList>,
        shard: &Shard,
        expected: UpdateHeader,
        limits: UpdateLimits,
    ) -> Self {
        let (codec, _) = expected.codec.shard_sections();
        let frame = FrameReader::of(shard.sections(&parameters, expected.codec), codec);
        Self {
            unpacker: Unpacker::new(shard.bytes_max(&parameters, expected.codec)),
            content: Content::Frame(TaggedFrame::new(expected.clone(), shard.tag(&expected), frame)),
            check: Check::new(parameters, limits),
            shard: Some(shard.clone()),
        }
    }

    /// Takes the next bytes of the body and passes the values that they complete to the sink.
    ///
    /// Each value is checked before it is passed on, but only [`Self::finish`] establishes that the update is complete
    /// and valid. Until then the receiver must be able to undo what it did with the values.
    ///
    /// # Errors
    /// [`UpdateError`] for the first check that fails. Every later call fails too.
    pub fn push(&mut self, piece: &[u8], sink: &mut impl DeltaSink) -> Result<(), UpdateError> {
        let Self { unpacker, content, check, shard } = self;
        let sink = &mut Placed { shard: shard.as_ref(), sink };
        match content {
            Content::Tensors { file, expected, reader } => {
                let checked = &mut Checked { expected: expected.as_ref(), reader, check, sink };
                unpacker.push(piece, &mut |piece| file.push(piece, checked))
            }
            Content::Frame(frame) => unpacker
                .push(piece, &mut |piece| frame.push(piece, &mut |first, section| check.section(first, section, sink))),
        }
    }

    /// Whether the body is known to be uncompressed, which its first bytes show.
    pub fn is_plain(&self) -> bool {
        self.unpacker.is_plain()
    }

    /// Ends the body. The sink has received every value at most once; the others are zero.
    ///
    /// # Errors
    /// [`UpdateError`] if bytes are missing, an earlier call failed, or the norm is above its bound.
    pub fn finish(self) -> Result<UpdateStatistics, UpdateError> {
        match self.content {
            Content::Tensors { file, .. } => {
                file.finish()?;
                self.unpacker.finish()?;
            }
            Content::Frame(frame) => {
                // It remembers that a piece was refused.
                self.unpacker.finish()?;
                frame.finish()?;
            }
        }
        let norm = self.check.norm_squared.iter().sum::<f64>().sqrt();
        if !self.check.limits.allow_norm(norm) {
            return Err(UpdateError::NormTooLarge { norm, norm_max: self.check.limits.norm_max });
        }
        Ok(UpdateStatistics { norm, magnitude_max: f32::from_bits(self.check.magnitude_bits as u32) })
    }
}

/// Hands values on, those of a part at their places in its shard.
struct Placed<'a, S> {
    shard: Option<&'a Shard>,
    sink: &'a mut S,
}

impl<S: DeltaSink> DeltaSink for Placed<'_, S> {
    fn dense(&mut self, first: usize, values: &[f32]) {
        self.sink.dense(self.shard.map_or(first, |shard| shard.place(first)), values);
    }

    fn sparse(&mut self, first: usize, indices: &[u32], values: &[f32]) {
        self.sink.sparse(self.shard.map_or(first, |shard| shard.place(first)), indices, values);
    }
}

struct Checked<'a, S> {
    expected: Option<&'a UpdateHeader>,
    reader: &'a mut Reader,
    check: &'a mut Check,
    sink: &'a mut S,
}

impl<S: DeltaSink> Sink for Checked<'_, S> {
    type Error = UpdateError;

    fn header(&mut self, header: &Header) -> Result<(), UpdateError> {
        if let Some(expected) = self.expected {
            check_metadata(header.metadata(), expected)?;
        }
        match self.reader {
            Reader::Plain { dtype, parameter_of_tensor } => {
                *parameter_of_tensor = match_tensors(header, &tensor_per_parameter(&self.check.parameters, *dtype))?;
            }
            Reader::Blocks(blocks) => blocks.header(header)?,
        }
        Ok(())
    }

    fn block(&mut self, tensor: usize, element: usize, bytes: &[u8]) -> Result<(), UpdateError> {
        let Self { reader, check, sink, .. } = self;
        match reader {
            Reader::Plain { dtype, parameter_of_tensor } => {
                let first = check.parameters.range(parameter_of_tensor[tensor]).start + element;
                let mut values = [0.0; BLOCK_VALUES_MAX];
                // Prefetching the next block saves a tenth of the time when the bytes are in no cache.
                let mut later = bytes;
                for (number, block) in bytes.chunks(BLOCK_VALUES_MAX * dtype.bytes()).enumerate() {
                    later = &later[block.len()..];
                    prefetch(&later[..later.len().min(block.len())]);
                    let values = &mut values[..block.len() / dtype.bytes()];
                    plain::decode(block, *dtype, values);
                    check.dense(first + number * BLOCK_VALUES_MAX, values, *sink)?;
                }
                Ok(())
            }
            Reader::Blocks(blocks) => {
                blocks.block(tensor, element, bytes, &mut |first, values| check.dense(first, values, *sink))
            }
        }
    }
}

impl Check {
    fn new(parameters: Arc<ParameterList>, limits: UpdateLimits) -> Self {
        // A limit that is NaN or negative allows only zeros.
        let magnitude_max = if limits.magnitude_max > 0.0 { limits.magnitude_max.min(f32::MAX) } else { 0.0 };
        let magnitude_bits_max = magnitude_bits(magnitude_max);
        Self { parameters, limits, magnitude_bits_max, magnitude_bits: 0, norm_squared: [0.0; LANES] }
    }

    /// Checks and passes on the values from index `first` of the flat vector on.
    fn dense(&mut self, first: usize, values: &[f32], sink: &mut impl DeltaSink) -> Result<(), UpdateError> {
        let (delta, others) = values.split_at(self.limits.norm_values.saturating_sub(first).min(values.len()));
        let (largest, lanes) = statistics(Cpu::best(), self.norm_squared, first, delta);
        let largest = if others.is_empty() { largest } else { largest.max(largest_bits(Cpu::best(), others)) };
        if largest > self.magnitude_bits_max {
            let at = values.iter().position(|value| magnitude_bits(*value) > self.magnitude_bits_max);
            let at = at.unwrap_or_default();
            return Err(self.refusal(first + at, values[at]));
        }
        self.magnitude_bits = self.magnitude_bits.max(largest);
        self.norm_squared = lanes;
        sink.dense(first, values);
        Ok(())
    }

    /// Checks and passes on a section that begins at index `first` of the flat vector.
    fn section(&mut self, first: usize, section: &Section, sink: &mut impl DeltaSink) -> Result<(), UpdateError> {
        if !section.sparse {
            for (number, block) in section.values.chunks(BLOCK_VALUES_MAX).enumerate() {
                self.dense(first + number * BLOCK_VALUES_MAX, block, sink)?;
            }
            return Ok(());
        }
        for (index, value) in section.indices.iter().zip(&section.values) {
            let place = first + *index as usize;
            if magnitude_bits(*value) > self.magnitude_bits_max {
                return Err(self.refusal(place, *value));
            }
            self.magnitude_bits = self.magnitude_bits.max(magnitude_bits(*value));
            if place < self.limits.norm_values {
                self.norm_squared[place % LANES] += square(*value);
            }
        }
        sink.sparse(first, &section.indices, &section.values);
        Ok(())
    }

    fn refusal(&self, at: usize, value: f32) -> UpdateError {
        let parameter = self.parameters.parameter_at(at);
        let tensor = self.parameters.specs()[parameter].name.clone();
        let index = at - self.parameters.range(parameter).start;
        if value.is_finite() {
            UpdateError::TooLarge { tensor, index, value, magnitude_max: self.limits.magnitude_max }
        } else {
            UpdateError::NotFinite { tensor, index }
        }
    }
}

/// Checks format, codec, job and base version. Other entries are ignored.
fn check_metadata(metadata: &BTreeMap<String, String>, expected: &UpdateHeader) -> Result<(), UpdateError> {
    let entry = |key| metadata.get(key).ok_or(UpdateError::MissingMetadata(key));
    let format = entry("format")?;
    if format != FORMAT {
        return Err(UpdateError::WrongFormat(shortened(format)));
    }
    let codec = entry("codec")?;
    if !is_text_of(codec, &expected.codec) {
        return Err(UpdateError::WrongCodec { expected: expected.codec.to_string(), got: shortened(codec) });
    }
    let job = entry("job")?;
    if *job != expected.job {
        return Err(UpdateError::WrongJob { expected: expected.job.clone(), got: shortened(job) });
    }
    let base_version = entry("base_version")?;
    if *base_version != expected.base_version.to_string() {
        let got = shortened(base_version);
        return Err(UpdateError::WrongBaseVersion { expected: expected.base_version, got });
    }
    Ok(())
}

/// Longest text of a codec that is parsed, in bytes.
const CODEC_BYTES_MAX: usize = 1_024;

/// Whether a text means this codec. Libraries write numbers in other ways than the plan, such as 0 for 0.0.
fn is_text_of(text: &str, codec: &Codec) -> bool {
    let is_same = || serde_json::from_str::<Codec>(text).is_ok_and(|other| other == *codec);
    text == codec.to_string() || (text.len() <= CODEC_BYTES_MAX && is_same())
}

#[cfg(test)]
mod tests;
