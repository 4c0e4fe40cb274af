//! Decodes a safetensors file in pieces of any size to blocks of whole elements. Only the header is held in memory.

use std::mem;

use super::{Header, PREFIX_BYTES, SafetensorsError};

/// Receives the content of a file from a [`Decoder`].
pub trait Sink {
    /// Error of the decoding: the sink's own, or one of the format.
    type Error: From<SafetensorsError>;

    /// Receives the header, once, before any data.
    ///
    /// # Errors
    /// An error ends the decoding.
    fn header(&mut self, header: &Header) -> Result<(), Self::Error>;

    /// Receives the bytes of one or more whole elements of a tensor, from element `element` on. `tensor` is its index
    /// in the header. The elements of a tensor come in order and without gaps.
    ///
    /// # Errors
    /// An error ends the decoding.
    fn block(&mut self, tensor: usize, element: usize, bytes: &[u8]) -> Result<(), Self::Error>;
}

/// Decodes one file that arrives in pieces.
#[derive(Debug)]
pub struct Decoder {
    header_bytes_max: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The bytes of length and header so far.
    Header(Vec<u8>),
    Data(DataState),
    Failed,
}

#[derive(Debug)]
struct DataState {
    header: Header,
    /// Index of the current tensor, and the number of its elements that the sink has received.
    tensor: usize,
    element: usize,
    /// The first bytes of an element that is split between two pieces.
    partial: [u8; 8],
    partial_bytes: usize,
    missing_bytes: u64,
}

impl Decoder {
    /// Makes a decoder for a file whose header has at most `header_bytes_max` bytes, capped at
    /// [`super::HEADER_BYTES_MAX`].
    pub fn new(header_bytes_max: u64) -> Self {
        Self { header_bytes_max: header_bytes_max.min(super::HEADER_BYTES_MAX), state: State::Header(Vec::new()) }
    }

    /// Takes the next bytes of the file and passes what they complete to the sink.
    ///
    /// Memory grows with the bytes that arrive, not with the lengths that the file claims.
    ///
    /// # Errors
    /// [`SafetensorsError`] or the sink's own error. Every later call fails too.
    pub fn push<S: Sink>(&mut self, piece: &[u8], sink: &mut S) -> Result<(), S::Error> {
        let mut rest = piece;
        // An early return by an error leaves the failed state behind.
        let mut state = mem::replace(&mut self.state, State::Failed);
        while !rest.is_empty() {
            state = match state {
                State::Header(text) => self.read_header(text, &mut rest, sink)?,
                State::Data(mut data) => {
                    data.read(&mut rest, sink)?;
                    State::Data(data)
                }
                State::Failed => return Err(SafetensorsError::AlreadyFailed.into()),
            };
        }
        self.state = state;
        Ok(())
    }

    /// Ends the file.
    ///
    /// # Errors
    /// [`SafetensorsError`] if bytes are missing or an earlier call failed.
    pub fn finish(self) -> Result<Header, SafetensorsError> {
        match self.state {
            State::Header(_) => Err(SafetensorsError::TruncatedHeader),
            State::Data(DataState { missing_bytes: 0, header, .. }) => Ok(header),
            State::Data(DataState { missing_bytes, .. }) => Err(SafetensorsError::Truncated { missing_bytes }),
            State::Failed => Err(SafetensorsError::AlreadyFailed),
        }
    }

    fn read_header<S: Sink>(&self, mut text: Vec<u8>, rest: &mut &[u8], sink: &mut S) -> Result<State, S::Error> {
        let Some(prefix) = text.first_chunk::<PREFIX_BYTES>() else {
            text.extend_from_slice(take(rest, PREFIX_BYTES - text.len()));
            return Ok(State::Header(text));
        };
        let header_bytes = u64::from_le_bytes(*prefix);
        if header_bytes > self.header_bytes_max {
            return Err(SafetensorsError::HeaderTooLong { got: header_bytes, limit: self.header_bytes_max }.into());
        }
        // At most HEADER_BYTES_MAX, so it fits a usize.
        let end = PREFIX_BYTES + header_bytes as usize;
        text.extend_from_slice(take(rest, end - text.len()));
        if text.len() < end {
            return Ok(State::Header(text));
        }
        let header = Header::parse(&text[PREFIX_BYTES..])?;
        sink.header(&header)?;
        let missing_bytes = header.data_bytes();
        Ok(State::Data(DataState { header, tensor: 0, element: 0, partial: [0; 8], partial_bytes: 0, missing_bytes }))
    }
}

impl DataState {
    /// Passes on what the piece holds of the current tensor.
    fn read<S: Sink>(&mut self, rest: &mut &[u8], sink: &mut S) -> Result<(), S::Error> {
        let Some(info) = self.header.tensors().get(self.tensor) else {
            return Err(SafetensorsError::TrailingBytes.into());
        };
        let element_bytes = info.dtype.bytes();
        let elements_left = info.elements - self.element;
        if elements_left == 0 {
            self.tensor += 1;
            self.element = 0;
            return Ok(());
        }
        let whole = if self.partial_bytes == 0 { (rest.len() / element_bytes).min(elements_left) } else { 0 };
        if whole > 0 {
            let block = take(rest, whole * element_bytes);
            self.missing_bytes -= block.len() as u64;
            sink.block(self.tensor, self.element, block)?;
            self.element += whole;
            return Ok(());
        }
        let bytes = take(rest, element_bytes - self.partial_bytes);
        self.missing_bytes -= bytes.len() as u64;
        self.partial[self.partial_bytes..][..bytes.len()].copy_from_slice(bytes);
        self.partial_bytes += bytes.len();
        if self.partial_bytes == element_bytes {
            self.partial_bytes = 0;
            sink.block(self.tensor, self.element, &self.partial[..element_bytes])?;
            self.element += 1;
        }
        Ok(())
    }
}

/// Splits up to `count` bytes off the front.
fn take<'a>(rest: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (front, back) = rest.split_at(count.min(rest.len()));
    *rest = back;
    front
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::safetensors::{Data, Dtype, HEADER_BYTES_MAX, Tensor, write};

    /// Keeps the bytes of each tensor.
    #[derive(Default, PartialEq, Debug)]
    struct Collected {
        tensors: Vec<(String, Vec<u8>)>,
        /// Of each tensor, as the header says; a damaged header may say something else than the sample's.
        element_bytes: Vec<usize>,
    }

    impl Sink for Collected {
        type Error = SafetensorsError;

        fn header(&mut self, header: &Header) -> Result<(), SafetensorsError> {
            self.tensors = header.tensors().iter().map(|info| (info.name.clone(), Vec::new())).collect();
            self.element_bytes = header.tensors().iter().map(|info| info.dtype.bytes()).collect();
            Ok(())
        }

        fn block(&mut self, tensor: usize, element: usize, bytes: &[u8]) -> Result<(), SafetensorsError> {
            let element_bytes = self.element_bytes[tensor];
            assert_eq!(self.tensors[tensor].1.len(), element * element_bytes);
            assert_eq!(bytes.len() % element_bytes, 0);
            self.tensors[tensor].1.extend_from_slice(bytes);
            Ok(())
        }
    }

    fn sample() -> Vec<u8> {
        let bytes: Vec<u8> = (0..48).collect();
        let tensors = [
            Tensor { name: "half", shape: &[3], data: Data::Bytes(Dtype::F16, &bytes[..6]) },
            Tensor { name: "empty", shape: &[0, 4], data: Data::Bytes(Dtype::I16, &[]) },
            Tensor { name: "wide", shape: &[2, 2], data: Data::Bytes(Dtype::F64, &bytes[6..38]) },
        ];
        write(&tensors, &BTreeMap::from([("format".into(), "test".into())]))
    }

    fn decode(file: &[u8], pieces: &[usize]) -> Result<Collected, SafetensorsError> {
        let mut decoder = Decoder::new(HEADER_BYTES_MAX);
        let mut sink = Collected::default();
        let (mut rest, mut sizes) = (file, pieces.iter().cycle());
        while !rest.is_empty() {
            let size = *sizes.next().expect("there is at least one size");
            decoder.push(take(&mut rest, size), &mut sink)?;
        }
        decoder.finish()?;
        Ok(sink)
    }

    proptest! {
        #[test]
        fn the_size_of_the_pieces_does_not_matter(pieces in prop::collection::vec(1usize..200, 1..20)) {
            let file = sample();
            prop_assert_eq!(decode(&file, &pieces), decode(&file, &[file.len()]));
        }

        #[test]
        fn flipped_bytes_never_panic(flips in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 1..8)) {
            let mut file = sample();
            for (index, flip) in flips {
                let at = index.index(file.len());
                file[at] ^= flip;
            }
            let _ = decode(&file, &[7]);
        }

        #[test]
        fn random_bytes_never_panic(mut file in prop::collection::vec(any::<u8>(), 0..300), short in any::<bool>()) {
            if short && file.len() > 8 {
                file[1..8].fill(0);
            }
            let _ = decode(&file, &[5]);
        }
    }

    #[test]
    fn a_damaged_name_does_not_change_how_its_tensor_is_read() {
        let mut file = sample();
        let at = file.windows(4).position(|bytes| bytes == b"wide").unwrap();
        file[at] ^= 1;
        let read = decode(&file, &[7]).unwrap();
        assert_eq!(read.tensors[2].0, "vide");
        assert_eq!(read.tensors[2].1, (6..38).collect::<Vec<u8>>());
    }

    #[test]
    fn one_byte_at_a_time_gives_every_tensor() {
        let read = decode(&sample(), &[1]).unwrap();
        let bytes: Vec<u8> = (0..48).collect();
        let expected = [("half", &bytes[..6]), ("empty", &[]), ("wide", &bytes[6..38])];
        assert_eq!(read.tensors, expected.map(|(name, bytes)| (name.to_owned(), bytes.to_vec())));
    }

    #[test]
    fn a_file_that_ends_early_is_refused_wherever_it_ends() {
        let file = sample();
        for length in 0..file.len() {
            let missing_bytes = (file.len() - length) as u64;
            let expected = match missing_bytes {
                // The sample's data has 38 bytes.
                39.. => SafetensorsError::TruncatedHeader,
                _ => SafetensorsError::Truncated { missing_bytes },
            };
            assert_eq!(decode(&file[..length], &[length.max(1)]), Err(expected), "after {length} bytes");
        }
    }

    #[test]
    fn bytes_after_the_last_tensor_are_refused() {
        let mut file = sample();
        file.push(0);
        assert_eq!(decode(&file, &[3]), Err(SafetensorsError::TrailingBytes));
    }

    #[test]
    fn an_announced_length_reserves_no_memory() {
        let mut decoder = Decoder::new(u64::MAX);
        let mut sink = Collected::default();
        let long = |got: u64| Err(SafetensorsError::HeaderTooLong { got, limit: HEADER_BYTES_MAX });
        assert_eq!(Decoder::new(u64::MAX).push(&[255; 9], &mut sink), long(u64::MAX));
        decoder.push(&HEADER_BYTES_MAX.to_le_bytes(), &mut sink).unwrap();
        decoder.push(b"{", &mut sink).unwrap();
        let State::Header(text) = &decoder.state else { panic!("the header has not come") };
        assert!(text.capacity() < 100);
    }

    #[test]
    fn after_an_error_nothing_more_is_taken() {
        let mut decoder = Decoder::new(1000);
        let mut sink = Collected::default();
        assert!(decoder.push(&[255; 9], &mut sink).is_err());
        assert_eq!(decoder.push(&sample(), &mut sink), Err(SafetensorsError::AlreadyFailed));
        assert_eq!(decoder.finish().unwrap_err(), SafetensorsError::AlreadyFailed);
    }
}
