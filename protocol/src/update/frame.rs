//! Frames: the bytes of a whole delta, cut into sections.
//!
//! A section holds at most [`SECTION_VALUES_MAX`] consecutive values: those of one parameter, or with a codec that
//! joins parameters also those of several. In the frame it is its length (LEB128, at most 5 bytes) and its bytes. A
//! reader therefore holds one section at a time, and refuses a length beyond what the codec can need.
//!
//! A parameter begins a new part. One with more values than a section holds is cut into parts of that many values and
//! a rest. Without joining, every part is a section. With joining, a section takes parts while they fit.

use std::cmp::Ordering;
use std::ops::Range;

use super::error::{SectionError, UpdateError};
use crate::model::ParameterList;

/// Most values of a section. At this length the scales and statistics of a section take negligible space, and the
/// buffers of a reader stay small (1 MiB of f32).
pub(super) const SECTION_VALUES_MAX: usize = 1 << 18;

/// Longest encoding of a section's length in LEB128.
const LENGTH_BYTES_MAX: usize = 5;

/// The server's half of a codec that writes sections.
pub(super) trait SectionCodec: std::fmt::Debug + Send + Sync {
    /// Whether a section may hold several parameters.
    fn joins(&self) -> bool {
        false
    }

    /// Longest section of these parts (at least one, together at most [`SECTION_VALUES_MAX`] values), in bytes.
    fn section_bytes_max(&self, parts: &[Part]) -> usize;

    /// Decodes a whole section of these parts into `out`. The bytes are untrusted.
    ///
    /// # Errors
    /// [`SectionError`] if the codec never writes these bytes. The caller checks that the values are finite and within
    /// their cap.
    fn decode(&self, bytes: &[u8], parts: &[Part], out: &mut Section) -> Result<(), SectionError>;
}

/// Consecutive values of one parameter within a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Number of values, at least one.
    pub(super) values: usize,
    /// Length of a row: the product of all dimensions but the first, which is the number of inputs of one output. At
    /// most `values`. Codecs that use neighbouring values need it.
    pub(super) row_values: usize,
}

#[cfg(test)]
impl Part {
    /// A part of one row.
    pub(super) fn row(values: usize) -> Self {
        Self { values, row_values: values }
    }
}

/// Number of values of all parts.
pub(super) fn values(parts: &[Part]) -> usize {
    parts.iter().map(|part| part.values).sum()
}

/// Checks the length of a section that has one.
pub(super) fn require_bytes(section: &[u8], bytes: usize) -> Result<(), SectionError> {
    match section.len().cmp(&bytes) {
        Ordering::Less => Err(SectionError::Truncated),
        Ordering::Equal => Ok(()),
        Ordering::Greater => Err(SectionError::TrailingBytes),
    }
}

/// The values of a section. Its buffers are reused.
#[derive(Debug, Default)]
pub(super) struct Section {
    /// All values, or those at `indices`.
    pub(super) values: Vec<f32>,
    /// Ascending, below the section's length; only when `sparse`.
    pub(super) indices: Vec<u32>,
    /// Whether values that are not listed are zero.
    pub(super) sparse: bool,
}

impl Section {
    /// Clears the section and makes it dense.
    pub(super) fn dense(&mut self) -> &mut Vec<f32> {
        self.sparse = false;
        self.indices.clear();
        self.values.clear();
        &mut self.values
    }

    /// Clears the section and makes it sparse.
    pub(super) fn sparse(&mut self) -> (&mut Vec<u32>, &mut Vec<f32>) {
        self.sparse = true;
        self.indices.clear();
        self.values.clear();
        (&mut self.indices, &mut self.values)
    }
}

/// Where a section lies in the flat vector, and its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) range: Range<usize>,
    pub(super) parts: Vec<Part>,
}

/// The sections of a model in order. `joins` is [`SectionCodec::joins`].
pub(super) fn sections(parameters: &ParameterList, joins: bool) -> Vec<Place> {
    sections_of(parameters, joins, SECTION_VALUES_MAX)
}

/// The same, with at most so many values in a section, which are no more than [`SECTION_VALUES_MAX`].
pub(super) fn sections_of(parameters: &ParameterList, joins: bool, values_max: usize) -> Vec<Place> {
    let mut sections: Vec<Place> = Vec::new();
    for (number, spec) in parameters.specs().iter().enumerate() {
        let range = parameters.range(number);
        for first in range.clone().step_by(values_max) {
            let end = range.end.min(first + values_max);
            let values = end - first;
            let row_values = match spec.shape.as_slice() {
                [] | [_] => values,
                [_, row @ ..] => row.iter().product::<usize>().min(values),
            };
            let part = Part { values, row_values };
            match sections.last_mut().filter(|last| joins && last.range.len() + values <= values_max) {
                Some(last) => {
                    last.range.end = end;
                    last.parts.push(part);
                }
                None => sections.push(Place { range: first..end, parts: vec![part] }),
            }
        }
    }
    sections
}

/// Writes a frame. `encode` appends the bytes of each section.
pub(super) fn write(parameters: &ParameterList, joins: bool, mut encode: impl FnMut(Place, &mut Vec<u8>)) -> Vec<u8> {
    let mut frame = Vec::new();
    let mut section = Vec::new();
    for place in sections(parameters, joins) {
        section.clear();
        // Into a buffer first: the length precedes the bytes, and is not known before them.
        encode(place, &mut section);
        write_length(section.len(), &mut frame);
        frame.extend_from_slice(&section);
    }
    frame
}

/// Longest frame, in bytes.
pub(super) fn bytes_max(parameters: &ParameterList, codec: &dyn SectionCodec) -> u64 {
    bytes_max_of(&sections(parameters, codec.joins()), codec)
}

/// Longest frame of these sections, in bytes.
pub(super) fn bytes_max_of(sections: &[Place], codec: &dyn SectionCodec) -> u64 {
    sections.iter().map(|place| (LENGTH_BYTES_MAX + codec.section_bytes_max(&place.parts)) as u64).sum()
}

/// Appends a number of at most 32 bits in LEB128: 7 bits in a byte, the lowest first; the top bit marks that more
/// follow.
pub(super) fn write_length(mut number: usize, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Decodes a frame that arrives in pieces.
#[derive(Debug)]
pub(super) struct FrameReader {
    codec: Box<dyn SectionCodec>,
    sections: Vec<Place>,
    /// Number of complete sections.
    done: usize,
    /// The bits of the next section's length so far, and their number.
    length: (u64, u32),
    /// Length of the next section in bytes; `None` until it is complete.
    wanted: Option<usize>,
    partial: Vec<u8>,
    section: Section,
}

impl FrameReader {
    pub(super) fn new(parameters: &ParameterList, codec: Box<dyn SectionCodec>) -> Self {
        Self::of(sections(parameters, codec.joins()), codec)
    }

    /// Reads some of the sections.
    pub(super) fn of(sections: Vec<Place>, codec: Box<dyn SectionCodec>) -> Self {
        Self {
            sections,
            codec,
            done: 0,
            length: (0, 0),
            wanted: None,
            partial: Vec::new(),
            section: Section::default(),
        }
    }

    /// Takes the next bytes of the frame and passes each section that they complete to `accept`, with the index of its
    /// first value in the flat vector.
    pub(super) fn push(
        &mut self,
        mut bytes: &[u8],
        accept: &mut impl FnMut(usize, &Section) -> Result<(), UpdateError>,
    ) -> Result<(), UpdateError> {
        while !bytes.is_empty() {
            let Some(place) = self.sections.get(self.done) else {
                return Err(UpdateError::Section { section: self.done, source: SectionError::TrailingBytes });
            };
            let refused = |source| UpdateError::Section { section: self.done, source };
            let Some(wanted) = self.wanted else {
                self.wanted = read_length(&mut self.length, &mut bytes)
                    .and_then(|length| match length {
                        Some(length) if length > self.codec.section_bytes_max(&place.parts) as u64 => {
                            Err(SectionError::BadLength)
                        }
                        length => Ok(length.map(|length| length as usize)),
                    })
                    .map_err(refused)?;
                // No codec writes an empty section, and one would never be decoded: the loop ends with the bytes.
                if self.wanted == Some(0) {
                    return Err(refused(SectionError::Truncated));
                }
                continue;
            };
            let (piece, rest) = bytes.split_at(bytes.len().min(wanted - self.partial.len()));
            bytes = rest;
            // A section that arrives whole is decoded where it lies, without a copy.
            let whole = piece.len() == wanted;
            if !whole {
                self.partial.extend_from_slice(piece);
                if self.partial.len() < wanted {
                    continue;
                }
            }
            let section = if whole { piece } else { &self.partial };
            self.codec.decode(section, &place.parts, &mut self.section).map_err(refused)?;
            accept(place.range.start, &self.section)?;
            self.partial.clear();
            (self.length, self.wanted) = ((0, 0), None);
            self.done += 1;
        }
        Ok(())
    }

    /// Ends the frame.
    pub(super) fn finish(&self) -> Result<(), UpdateError> {
        if self.done == self.sections.len() {
            return Ok(());
        }
        Err(UpdateError::Section { section: self.done, source: SectionError::Truncated })
    }
}

/// Continues to read a length in LEB128. `None` until it is complete.
pub(super) fn read_length(length: &mut (u64, u32), bytes: &mut &[u8]) -> Result<Option<u64>, SectionError> {
    while let Some((byte, rest)) = bytes.split_first() {
        *bytes = rest;
        let (value, bits) = *length;
        // A last byte of 0 would be a second encoding of a shorter length.
        if bits as usize >= 7 * LENGTH_BYTES_MAX || (bits > 0 && *byte == 0) {
            return Err(SectionError::BadLength);
        }
        *length = (value | u64::from(byte & 0x7F) << bits, bits + 7);
        if byte & 0x80 == 0 {
            return Ok(Some(length.0));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::ParameterSpec;

    /// A byte for each value; 255 is not used.
    #[derive(Debug)]
    struct Bytes;

    impl SectionCodec for Bytes {
        fn section_bytes_max(&self, parts: &[Part]) -> usize {
            values(parts)
        }

        fn decode(&self, bytes: &[u8], parts: &[Part], out: &mut Section) -> Result<(), SectionError> {
            let values = values(parts);
            if bytes.len() != values {
                let short = bytes.len() < values;
                return Err(if short { SectionError::Truncated } else { SectionError::TrailingBytes });
            }
            if bytes.contains(&255) {
                return Err(SectionError::BadCode);
            }
            out.dense().extend(bytes.iter().map(|byte| f32::from(*byte)));
            Ok(())
        }
    }

    fn list(lengths: &[usize]) -> ParameterList {
        let spec = |(index, length): (usize, &usize)| ParameterSpec::new(format!("p{index}"), [*length]);
        ParameterList::new(lengths.iter().enumerate().map(spec).collect()).unwrap()
    }

    fn encode(delta: &[u8], parameters: &ParameterList) -> Vec<u8> {
        write(parameters, false, |place, out| out.extend_from_slice(&delta[place.range]))
    }

    fn decode(frame: &[u8], parameters: &ParameterList, piece_bytes: usize) -> Result<Vec<u8>, UpdateError> {
        let mut reader = FrameReader::new(parameters, Box::new(Bytes));
        let mut delta = Vec::new();
        for piece in frame.chunks(piece_bytes) {
            reader.push(piece, &mut |first, section| {
                assert_eq!(first, delta.len());
                delta.extend(section.values.iter().map(|value| *value as u8));
                Ok(())
            })?;
        }
        reader.finish()?;
        Ok(delta)
    }

    fn refused(frame: &[u8], parameters: &ParameterList) -> (usize, SectionError) {
        let refusals: Vec<_> =
            [1, 2, 1000].map(|piece_bytes| decode(frame, parameters, piece_bytes).unwrap_err()).into();
        assert!(refusals.iter().all(|refusal| *refusal == refusals[0]));
        let UpdateError::Section { section, source } = refusals[0] else { panic!("{:?}", refusals[0]) };
        (section, source)
    }

    proptest! {
        #[test]
        fn the_size_of_the_pieces_does_not_matter(
            lengths in prop::collection::vec(1usize..400, 1..5),
            piece_bytes in 1usize..600,
        ) {
            let parameters = list(&lengths);
            let delta: Vec<u8> = (0..parameters.total()).map(|index| (index % 251) as u8).collect();
            let frame = encode(&delta, &parameters);
            prop_assert!(frame.len() as u64 <= bytes_max(&parameters, &Bytes));
            prop_assert_eq!(decode(&frame, &parameters, piece_bytes).unwrap(), delta);
        }

        #[test]
        fn any_bytes_are_a_frame_or_refused(frame in prop::collection::vec(any::<u8>(), 0..40), piece in 1usize..9) {
            let parameters = list(&[3, 1, 5]);
            if let Ok(delta) = decode(&frame, &parameters, piece) {
                prop_assert_eq!(delta.len(), 9);
            }
        }
    }

    #[test]
    fn a_long_parameter_has_several_sections_and_a_section_one_parameter() {
        let parameters = list(&[2, 2 * SECTION_VALUES_MAX + 1, SECTION_VALUES_MAX]);
        let lengths: Vec<_> = sections(&parameters, false).iter().map(|place| place.range.len()).collect();
        assert_eq!(lengths, [2, SECTION_VALUES_MAX, SECTION_VALUES_MAX, 1, SECTION_VALUES_MAX]);
        let delta: Vec<u8> = (0..parameters.total()).map(|index| (index % 253) as u8).collect();
        let frame = encode(&delta, &parameters);
        // 2^18 takes three bytes of seven bits.
        assert_eq!(frame.len(), delta.len() + 2 + 3 * 3);
        for piece_bytes in [frame.len(), 1 << 16, 1013] {
            assert_eq!(decode(&frame, &parameters, piece_bytes).unwrap(), delta);
        }
    }

    #[test]
    fn parts_are_joined_while_they_fit() {
        let shapes: [&[usize]; 8] =
            [&[], &[5], &[3, 4], &[2, 3, 3, 3], &[2, SECTION_VALUES_MAX], &[4, 1 << 16], &[1], &[3, 1 << 17]];
        let specs = shapes.iter().enumerate().map(|(at, shape)| ParameterSpec::new(at.to_string(), *shape)).collect();
        let parameters = ParameterList::new(specs).unwrap();
        let parts = |joins| -> Vec<Vec<_>> {
            let sections = sections(&parameters, joins);
            let mut end = 0;
            for section in &sections {
                assert_eq!((section.range.start, section.range.len()), (end, values(&section.parts)));
                end = section.range.end;
            }
            assert_eq!(end, parameters.total());
            let pairs = |part: &Part| (part.values, part.row_values);
            sections.iter().map(|section| section.parts.iter().map(pairs).collect()).collect()
        };
        let (most, half) = ((SECTION_VALUES_MAX, SECTION_VALUES_MAX), (SECTION_VALUES_MAX, 1 << 16));
        let small = [(1, 1), (5, 5), (12, 4), (54, 27)];
        let last = [(SECTION_VALUES_MAX, 1 << 17), (1 << 17, 1 << 17)];
        let apart: Vec<_> = small.into_iter().chain([most, most, half, (1, 1)]).chain(last).collect();
        assert_eq!(parts(false), apart.iter().map(|part| vec![*part]).collect::<Vec<_>>());
        let joined = [&small[..], &[most], &[most], &[half], &[(1, 1)], &last[..1], &last[1..]];
        assert_eq!(parts(true), joined.map(<[_]>::to_vec));
    }

    #[test]
    fn lengths_are_leb128() {
        for (number, bytes) in [(1, &[1][..]), (127, &[127]), (128, &[128, 1]), (300, &[0xAC, 2])] {
            let mut out = Vec::new();
            write_length(number, &mut out);
            assert_eq!(out, bytes);
            assert_eq!(read_length(&mut (0, 0), &mut &out[..]), Ok(Some(number as u64)));
        }
        let mut out = Vec::new();
        write_length(u32::MAX as usize, &mut out);
        assert_eq!(out.len(), LENGTH_BYTES_MAX);
        assert_eq!(read_length(&mut (0, 0), &mut &out[..]), Ok(Some(u64::from(u32::MAX))));
    }

    #[test]
    fn a_length_that_cannot_be_is_refused_before_its_bytes_come() {
        let parameters = list(&[3, 2]);
        for length in [&[4][..], &[0x80, 1], &[0xFF, 0xFF, 0xFF, 0xFF, 0x7F], &[0x80; 6], &[0x83, 0]] {
            assert_eq!(refused(length, &parameters), (0, SectionError::BadLength), "{length:?}");
        }
        assert_eq!(refused(&[0], &parameters), (0, SectionError::Truncated));
        assert_eq!(refused(&[3, 1, 2, 3, 3], &parameters), (1, SectionError::BadLength));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_section() {
        let parameters = list(&[3, 2]);
        let frame = [3, 1, 2, 3, 2, 4, 5];
        assert_eq!(decode(&frame, &parameters, 3).unwrap(), [1, 2, 3, 4, 5]);
        for length in 1..frame.len() {
            assert_eq!(refused(&frame[..length], &parameters).1, SectionError::Truncated, "{length} bytes");
        }
        assert_eq!(
            decode(&[], &parameters, 1).unwrap_err(),
            UpdateError::Section { section: 0, source: SectionError::Truncated }
        );
        assert_eq!(refused(&[&frame[..], &[1]].concat(), &parameters), (2, SectionError::TrailingBytes));
        assert_eq!(refused(&[3, 1, 2, 3, 1, 4], &parameters), (1, SectionError::Truncated));
        assert_eq!(refused(&[3, 1, 255, 3, 2, 4, 5], &parameters), (0, SectionError::BadCode));
    }

    #[test]
    fn an_announced_section_reserves_no_memory() {
        let parameters = list(&[SECTION_VALUES_MAX]);
        let mut reader = FrameReader::new(&parameters, Box::new(Bytes));
        reader.push(&[0x80, 0x80, 0x10, 1, 2], &mut |_, _| Ok(())).unwrap();
        assert_eq!(reader.wanted, Some(SECTION_VALUES_MAX));
        assert!(reader.partial.capacity() < 100);
    }
}
