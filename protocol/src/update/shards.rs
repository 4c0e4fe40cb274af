//! Shards: ranges of the shared parameters that are sent and added apart, so that no coordinator holds the whole sum.
//!
//! An update is encoded as one file and then cut into a part for each shard: one stream of randomness runs through all
//! sections, so that the values are those of the update that is not cut. A part is the tag of its shard and a frame of
//! its [sections](super::frame). Of a codec that writes tensors, a section holds the values as they lie in the tensor,
//! with `int8` and `int4` behind the scales of their blocks.
//!
//! An algorithm that sends a second vector sends its values of the same parameters in the same part.

use std::ops::Range;

use super::codec::Codec;
use super::codecs::blocks::{scale_bytes, values_bytes};
use super::error::{SectionError, UpdateError};
use super::frame::{Place, SECTION_VALUES_MAX, bytes_max_of, read_length, sections_of, write_length};
use super::header::{TAG_BYTES, UpdateHeader};
use crate::model::ParameterList;
use crate::safetensors::Dtype;

/// Most shards of a job.
pub const SHARDS_MAX: u16 = 64;

/// Fewest values of a vector in a shard, a section. The calls for less would cost more than they save.
pub const SHARD_VALUES_MIN: usize = SECTION_VALUES_MAX;

/// One of the ranges into which the shared parameters are cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 0.
    pub number: u16,
    /// Shards of the job.
    pub count: u16,
    /// Its shared parameters.
    pub range: Range<usize>,
    /// Shared parameters of the model: each vector of an update has so many values.
    stride: usize,
    /// Vectors of an update.
    vectors: usize,
}

impl Shard {
    /// Cuts the parameters of an update of so many vectors into at most `wanted` ranges of near-equal size, between
    /// sections of the codec. Fewer, down to one, where the vectors are too short or have too few such places.
    ///
    /// # Panics
    /// If the vectors have different lengths, a mistake of the caller.
    #[must_use]
    pub fn all(parameters: &ParameterList, vectors: usize, codec: Codec, wanted: u16) -> Vec<Self> {
        assert!(parameters.total().is_multiple_of(vectors), "all vectors of an update have the same parameters");
        let stride = parameters.total() / vectors;
        let borders = borders(&sections_for(parameters, codec), stride, vectors);
        let wanted = usize::from(wanted.clamp(1, SHARDS_MAX)).min(stride / SHARD_VALUES_MIN).max(1);
        let mut cuts = vec![0];
        for shard in 1..wanted {
            let ideal = shard * stride / wanted;
            let nearest = borders.iter().copied().min_by_key(|border| border.abs_diff(ideal)).unwrap_or(0);
            if nearest > *cuts.last().unwrap_or(&0) {
                cuts.push(nearest);
            }
        }
        cuts.push(stride);
        let count = u16::try_from(cuts.len() - 1).unwrap_or(SHARDS_MAX);
        let ranges = cuts.windows(2).map(|pair| pair[0]..pair[1]);
        (0..).zip(ranges).map(|(number, range)| Self { number, count, range, stride, vectors }).collect()
    }

    /// Values of a part: those of its range in each vector.
    #[must_use]
    pub fn values(&self) -> usize {
        self.range.len() * self.vectors
    }

    /// Where in the shard a value of an update is.
    ///
    /// # Panics
    /// If the shard has no such value, a mistake of the caller.
    #[must_use]
    pub fn place(&self, value: usize) -> usize {
        let (vector, parameter) = (value / self.stride, value % self.stride);
        assert!(self.range.contains(&parameter), "the value {value} is of another shard");
        vector * self.range.len() + parameter - self.range.start
    }

    /// Longest part, in bytes, before compression.
    #[must_use]
    pub fn bytes_max(&self, parameters: &ParameterList, codec: Codec) -> u64 {
        let (sections, _) = codec.shard_sections();
        TAG_BYTES as u64 + bytes_max_of(&self.sections(parameters, codec), &*sections)
    }

    /// The sections of an update that are the shard's.
    pub(super) fn sections(&self, parameters: &ParameterList, codec: Codec) -> Vec<Place> {
        let mut sections = sections_for(parameters, codec);
        sections.retain(|section| self.range.contains(&(section.range.start % self.stride)));
        sections
    }

    /// The bytes before its frame.
    pub(super) fn tag(&self, header: &UpdateHeader) -> [u8; TAG_BYTES] {
        header.tag_with(&format!("{}\n{}\n", self.number, self.count))
    }
}

/// Cuts an update that [`super::encode`] has written, uncompressed, into a part for each shard, in their order.
///
/// # Errors
/// [`UpdateError::Section`] for a file that is no such update.
pub fn cut(
    file: &[u8],
    parameters: &ParameterList,
    header: &UpdateHeader,
    shards: &[Shard],
) -> Result<Vec<Vec<u8>>, UpdateError> {
    let sections = sections_for(parameters, header.codec);
    let bytes = match header.codec.sections() {
        Some(_) => of_frame(file, sections.len())?,
        None => of_tensors(file, parameters, header.codec, &sections)?,
    };
    let part = |shard: &Shard| {
        let mut part = shard.tag(header).to_vec();
        let is_own = |place: &Place| shard.range.contains(&(place.range.start % shard.stride));
        for (_, bytes) in sections.iter().zip(&bytes).filter(|(place, _)| is_own(place)) {
            write_length(bytes.iter().map(|bytes| bytes.len()).sum(), &mut part);
            bytes.iter().for_each(|bytes| part.extend_from_slice(bytes));
        }
        part
    };
    Ok(shards.iter().map(part).collect())
}

/// All sections of an update, as shards have them.
fn sections_for(parameters: &ParameterList, codec: Codec) -> Vec<Place> {
    let (sections, values_max) = codec.shard_sections();
    sections_of(parameters, sections.joins(), values_max)
}

/// The parameters before which every vector can be cut, in ascending order. None where a section holds values of two
/// vectors.
fn borders(sections: &[Place], stride: usize, vectors: usize) -> Vec<usize> {
    let starts: Vec<usize> = sections.iter().map(|section| section.range.start).collect();
    let is_start = |value: usize| starts.binary_search(&value).is_ok();
    if !(0..vectors).all(|vector| is_start(vector * stride)) {
        return Vec::new();
    }
    let first = starts.iter().copied().take_while(|start| *start < stride);
    first.filter(|start| (0..vectors).all(|vector| is_start(vector * stride + start))).collect()
}

/// The bytes of each section of a frame, which follows its tag.
fn of_frame(file: &[u8], sections: usize) -> Result<Vec<Vec<&[u8]>>, UpdateError> {
    let mut rest = file.get(TAG_BYTES..).unwrap_or_default();
    let mut all = Vec::with_capacity(sections);
    for section in 0..sections {
        let refused = |source| UpdateError::Section { section, source };
        let length = read_length(&mut (0, 0), &mut rest).map_err(refused)?;
        let length = length.and_then(|length| usize::try_from(length).ok()).filter(|length| *length <= rest.len());
        let (bytes, after) = rest.split_at(length.ok_or_else(|| refused(SectionError::Truncated))?);
        rest = after;
        all.push(vec![bytes]);
    }
    match rest.is_empty() {
        true => Ok(all),
        false => Err(UpdateError::Section { section: sections, source: SectionError::TrailingBytes }),
    }
}

/// The bytes of each section of a file of tensors in the order of the parameters.
fn of_tensors<'a>(
    file: &'a [u8],
    parameters: &ParameterList,
    codec: Codec,
    sections: &[Place],
) -> Result<Vec<Vec<&'a [u8]>>, UpdateError> {
    let wrong = |source| UpdateError::Section { section: 0, source };
    let data = super::size::data_bytes(parameters, codec);
    let begins = usize::try_from(data).ok().and_then(|data| file.len().checked_sub(data));
    let data = &file[begins.ok_or_else(|| wrong(SectionError::Truncated))?..];
    let of_blocks = |bits: u32, blocks, place: &Place| {
        let parameter = parameters.parameter_at(place.range.start);
        let before: usize = (0..parameter)
            .map(|parameter| parameters.range(parameter).len())
            .map(|values| scale_bytes(values, blocks) + values_bytes(values, bits))
            .sum();
        let whole = parameters.range(parameter);
        let (first, end) = (place.range.start - whole.start, place.range.end - whole.start);
        let numbers = before + scale_bytes(whole.len(), blocks);
        vec![
            &data[before + scale_bytes(first, blocks)..before + scale_bytes(end, blocks)],
            &data[numbers + values_bytes(first, bits)..numbers + values_bytes(end, bits)],
        ]
    };
    let bytes = |place: &Place| match codec {
        Codec::Int8(blocks) => of_blocks(8, blocks, place),
        Codec::Int4(blocks) => of_blocks(4, blocks, place),
        codec => {
            let width = codec.plain_dtype().map_or(0, Dtype::bytes);
            vec![&data[place.range.start * width..place.range.end * width]]
        }
    };
    Ok(sections.iter().map(bytes).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::ParameterSpec;
    use crate::seed::Seed;
    use crate::update::{Blocks, CodecName, UpdateDecoder, UpdateLimits, encode};

    const SECTION: usize = SECTION_VALUES_MAX;

    /// The parameters of an update of so many vectors.
    fn parameters(shapes: &[&[usize]], vectors: usize) -> Arc<ParameterList> {
        let of = |vector: usize| {
            let spec = move |(at, shape): (usize, &&[usize])| ParameterSpec::new(format!("{vector}.{at}"), *shape);
            shapes.iter().enumerate().map(spec)
        };
        Arc::new(ParameterList::new((0..vectors).flat_map(of).collect()).unwrap())
    }

    fn header(codec: Codec) -> UpdateHeader {
        UpdateHeader { codec, job: "job_1".into(), base_version: 3 }
    }

    fn limits() -> UpdateLimits {
        UpdateLimits::of_magnitude(1e3)
    }

    fn whole(file: &[u8], parameters: &Arc<ParameterList>, codec: Codec) -> (Vec<f32>, f64) {
        let mut decoder = UpdateDecoder::new(Arc::clone(parameters), header(codec), limits());
        let mut values = vec![0.0; parameters.total()];
        decoder.push(file, &mut values).unwrap();
        (values, decoder.finish().unwrap().norm)
    }

    fn part(
        part: &[u8],
        parameters: &Arc<ParameterList>,
        codec: Codec,
        shard: &Shard,
    ) -> Result<(Vec<f32>, f64), UpdateError> {
        let mut decoder = UpdateDecoder::of_shard(Arc::clone(parameters), shard, header(codec), limits());
        let mut values = vec![0.0; shard.values()];
        for piece in part.chunks(100_003) {
            decoder.push(piece, &mut values)?;
        }
        Ok((values, decoder.finish()?.norm))
    }

    /// Goal: with every codec the parts of an update hold its values.
    #[test]
    fn the_parts_of_an_update_have_its_values() {
        let shapes: &[&[usize]] = &[&[300, 1_000], &[7], &[2, SECTION], &[1 << 17]];
        let odd = |block| [Codec::Int8(Blocks { block }), Codec::Int4(Blocks { block })];
        let codecs = CodecName::ALL.into_iter().map(CodecName::with_defaults).chain(odd(24)).chain(odd(4_096));
        for codec in codecs {
            for vectors in [1, 2] {
                let parameters = parameters(shapes, vectors);
                let delta: Vec<f32> =
                    (0..parameters.total()).map(|index| ((index * 37 % 1_001) as f32 - 500.0) / 977.0).collect();
                let file = encode(&delta, &parameters, &header(codec), 2, Seed(7)).unwrap();
                let (values, norm) = whole(&file, &parameters, codec);
                let shards = Shard::all(&parameters, vectors, codec, 3);
                assert_eq!(shards.len(), 3, "{codec}");
                let parts = cut(&file, &parameters, &header(codec), &shards).unwrap();
                let mut squares = 0.0;
                for (shard, bytes) in shards.iter().zip(&parts) {
                    assert!(bytes.len() as u64 <= shard.bytes_max(&parameters, codec));
                    let (of_part, norm) = part(bytes, &parameters, codec, shard).unwrap();
                    squares += norm * norm;
                    for vector in 0..vectors {
                        let first = vector * parameters.total() / vectors;
                        let whole = &values[first + shard.range.start..first + shard.range.end];
                        let place = shard.place(first + shard.range.start);
                        assert_eq!(&of_part[place..place + whole.len()], whole, "{codec} {shard:?}");
                    }
                    // Neither another shard's part nor one that was cut short is taken for it.
                    let next = &shards[(usize::from(shard.number) + 1) % shards.len()];
                    assert!(part(bytes, &parameters, codec, next).is_err());
                    assert!(part(&bytes[..bytes.len() - 1], &parameters, codec, shard).is_err());
                }
                assert!((squares.sqrt() - norm).abs() <= norm * 1e-12, "{codec}: {} for {norm}", squares.sqrt());
                assert!(cut(&file[..file.len() / 2], &parameters, &header(codec), &shards).is_err());
            }
        }
    }

    #[test]
    fn shards_cover_the_parameters_once_and_are_near_equal() {
        let parameters = parameters(&[&[10 * SECTION + 5]], 1);
        for wanted in [1, 2, 3, 5, 10, 64] {
            let shards = Shard::all(&parameters, 1, Codec::F32, wanted);
            assert_eq!(shards.len(), usize::from(wanted.min(10)));
            assert_eq!(shards[0].range.start, 0);
            assert!(shards.windows(2).all(|pair| pair[0].range.end == pair[1].range.start));
            assert_eq!(shards.last().unwrap().range.end, parameters.total());
            let ideal = parameters.total() / shards.len();
            assert!(shards.iter().all(|shard| shard.range.len().abs_diff(ideal) <= SECTION), "{wanted}");
        }
    }

    /// Goal: a model that is too small, or whose sections hold values of two vectors, is one shard.
    #[test]
    fn what_cannot_be_cut_is_one_shard() {
        let small = parameters(&[&[SECTION - 1], &[SECTION - 1]], 1);
        assert_eq!(Shard::all(&small, 1, Codec::F32, 3).len(), 1);
        let shifted = parameters(&[&[3 * SECTION], &[5]], 2);
        for name in CodecName::ALL {
            let shards = Shard::all(&shifted, 2, name.with_defaults(), 3);
            assert!(shards.iter().all(|shard| shard.count as usize == shards.len()), "{name}");
            let covered: usize = shards.iter().map(Shard::values).sum();
            assert_eq!(covered, shifted.total(), "{name}");
        }
    }
}
