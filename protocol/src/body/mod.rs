//! Bodies: files of models and updates, compressed to one zstd frame (RFC 8878) where that saves bytes.
//!
//! Deltas of models with dead inputs, quantised values and sparse models compress by a third to three quarters. Random
//! bits do not compress, and [`shrink`] then leaves the file unchanged. Readers accept both: [`Unpacker`] recognises a
//! frame by its magic number. No safetensors file begins with it, since as the length of a header it would be 4 GB.
//!
//! Without the crate's feature `zstd` files are not compressed. Frames are then read in Rust with the feature `unzstd`,
//! and refused as [`UnpackError::NotSupported`] without it.

#[cfg(feature = "zstd")]
mod frame;
mod shrinker;
#[cfg(any(feature = "unzstd", test))]
mod unzstd;

use std::mem;

pub use shrinker::{Shrinker, packed_bytes_max};

/// The magic number of a zstd frame (RFC 8878, section 3.1.1).
const MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];

/// Longest window of a frame, as a power of two: 128 KiB, the length of a block. A reader then needs about 700 KB in
/// all. Weights compress because some bytes are more frequent than others; a longer window would not help.
pub const WINDOW_LOG_MAX: u32 = 17;

/// A frame is used if it saves at least one byte in 33 (3 %). A smaller saving is not worth the work of decompression.
const SAVED_ONE_BYTE_IN: usize = 33;

/// Compression level: the default of zstd, several hundred MB per second. Higher levels save one or two percent more.
#[cfg(feature = "zstd")]
const LEVEL: i32 = 3;

/// Compresses a file to one zstd frame, or returns the file itself if that would save less than 3 %.
///
/// The result is the same for the same file and version of zstd. Another version may produce another frame.
#[must_use]
pub fn shrink(file: Vec<u8>) -> Vec<u8> {
    packed(&file, packed_bytes_wanted(&file)).unwrap_or(file)
}

/// Whether [`shrink`] would compress the file.
#[cfg(feature = "zstd")]
fn shrinks(file: &[u8]) -> bool {
    packed(file, packed_bytes_wanted(file)).is_some()
}

/// Length in bytes of the longest frame that is used.
fn packed_bytes_wanted(file: &[u8]) -> usize {
    file.len() - file.len().div_ceil(SAVED_ONE_BYTE_IN)
}

/// Whether a body that begins like this is a zstd frame and not a safetensors file.
pub fn is_packed(beginning: &[u8]) -> bool {
    beginning.starts_with(&MAGIC)
}

/// Compresses a file to at most `bytes_max` bytes. Stops where the frame would exceed them.
#[cfg(feature = "zstd")]
fn packed(file: &[u8], bytes_max: usize) -> Option<Vec<u8>> {
    use zstd::zstd_safe::{CCtx, CParameter};

    let mut context = CCtx::try_create()?;
    // The other parameters are zstd's defaults: one thread, no checksum, the length of the file in the frame's header.
    for parameter in [CParameter::CompressionLevel(LEVEL), CParameter::WindowLog(WINDOW_LOG_MAX)] {
        context.set_parameter(parameter).ok()?;
    }
    let mut frame = Vec::with_capacity(bytes_max);
    context.compress2(&mut frame, file).ok()?;
    frame.shrink_to_fit();
    Some(frame)
}

#[cfg(not(feature = "zstd"))]
fn packed(_file: &[u8], _bytes_max: usize) -> Option<Vec<u8>> {
    None
}

/// A body that cannot be decompressed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnpackError {
    /// The body is a zstd frame, and this build has no zstd.
    #[error("the body is a zstd frame, which this build cannot read")]
    NotSupported,
    /// zstd cannot read the frame, or its window is too long.
    #[error("the body's zstd frame cannot be read: {0}")]
    Damaged(&'static str),
    /// The decompressed file exceeds its limit.
    #[error("the body unpacks to more than the {limit} bytes allowed")]
    TooLong {
        /// The limit in bytes.
        limit: u64,
    },
    /// The frame is incomplete.
    #[error("the body's zstd frame ends too early")]
    Truncated,
    /// Bytes follow the frame.
    #[error("bytes follow the zstd frame of the body")]
    TrailingBytes,
    /// The unpacker was used again after an error.
    #[error("the body was already refused")]
    AlreadyFailed,
}

/// Decompresses a body that arrives in pieces. An uncompressed body passes unchanged.
#[derive(Debug)]
pub struct Unpacker {
    limit: u64,
    /// Bytes of the file that are still within the limit.
    left: u64,
    /// Whether a frame is read in Rust although this build has zstd.
    in_rust: bool,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Only this number of bytes of the magic number has arrived.
    Start(usize),
    Plain,
    Packed(Frame),
    Ended,
    Failed,
}

/// A frame that is being decompressed.
#[derive(Debug)]
enum Frame {
    #[cfg(feature = "zstd")]
    Zstd(Box<frame::Frame>),
    #[cfg(any(feature = "unzstd", test))]
    Rust(Box<unzstd::Frame>),
}

impl Frame {
    /// Begins a frame whose magic number has arrived.
    #[cfg_attr(not(feature = "zstd"), expect(unused_variables, reason = "there is only one reader, or none"))]
    fn begin(in_rust: bool) -> Result<Self, UnpackError> {
        #[cfg(feature = "zstd")]
        if !in_rust {
            return Ok(Self::Zstd(Box::new(frame::Frame::begin()?)));
        }
        #[cfg(any(feature = "unzstd", test))]
        {
            Ok(Self::Rust(Box::new(unzstd::Frame::begin())))
        }
        #[cfg(not(any(feature = "unzstd", test)))]
        {
            Err(UnpackError::NotSupported)
        }
    }

    /// Decompresses until the piece is used up or the frame ends. Returns whether it ended.
    #[cfg_attr(
        not(any(feature = "zstd", feature = "unzstd", test)),
        expect(unused_variables, reason = "without a reader there is no frame")
    )]
    fn step<E: From<UnpackError>>(
        &mut self,
        piece: &mut &[u8],
        accept: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<bool, E> {
        match *self {
            #[cfg(feature = "zstd")]
            Self::Zstd(ref mut frame) => frame.step(piece, accept),
            #[cfg(any(feature = "unzstd", test))]
            Self::Rust(ref mut frame) => frame.step(piece, accept),
        }
    }
}

impl Unpacker {
    /// Makes an unpacker for a file of at most `limit` bytes.
    pub fn new(limit: u64) -> Self {
        Self { limit, left: limit, in_rust: !cfg!(feature = "zstd"), state: State::Start(0) }
    }

    /// An unpacker that reads a frame in Rust, as builds without zstd do.
    #[cfg(any(feature = "unzstd", test))]
    pub fn in_rust(limit: u64) -> Self {
        Self { in_rust: true, ..Self::new(limit) }
    }

    /// Takes the next bytes of the body and passes the bytes of the file that they yield to the sink.
    ///
    /// # Errors
    /// [`UnpackError`] or the sink's own error. Every later call fails too.
    pub fn push<E: From<UnpackError>>(
        &mut self,
        mut piece: &[u8],
        sink: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        // An early return by an error leaves the failed state behind.
        let mut state = mem::replace(&mut self.state, State::Failed);
        while let Some(first) = piece.first() {
            state = match state {
                State::Start(seen) if *first != MAGIC[seen] => {
                    self.hand_out(&MAGIC[..seen], sink)?;
                    State::Plain
                }
                State::Start(seen) => {
                    piece = &piece[1..];
                    match seen + 1 == MAGIC.len() {
                        true => State::Packed(Frame::begin(self.in_rust)?),
                        false => State::Start(seen + 1),
                    }
                }
                State::Plain => {
                    self.hand_out(mem::take(&mut piece), sink)?;
                    State::Plain
                }
                State::Packed(mut frame) => {
                    let ended = frame.step(&mut piece, &mut |bytes| self.hand_out(bytes, sink))?;
                    if ended { State::Ended } else { State::Packed(frame) }
                }
                State::Ended => return Err(UnpackError::TrailingBytes.into()),
                State::Failed => return Err(UnpackError::AlreadyFailed.into()),
            };
        }
        self.state = state;
        Ok(())
    }

    /// Whether the body is known to be uncompressed.
    pub fn is_plain(&self) -> bool {
        matches!(self.state, State::Plain)
    }

    /// Ends the body.
    ///
    /// # Errors
    /// [`UnpackError`] if a frame is incomplete or an earlier call failed.
    pub fn finish(self) -> Result<(), UnpackError> {
        match self.state {
            State::Start(0) | State::Plain => Ok(()),
            State::Start(_) | State::Packed(_) => Err(UnpackError::Truncated),
            State::Ended => Ok(()),
            State::Failed => Err(UnpackError::AlreadyFailed),
        }
    }

    fn hand_out<E: From<UnpackError>>(
        &mut self,
        bytes: &[u8],
        sink: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let too_long = UnpackError::TooLong { limit: self.limit };
        self.left = self.left.checked_sub(bytes.len() as u64).ok_or(too_long)?;
        sink(bytes)
    }
}

#[cfg(all(test, feature = "zstd"))]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::seed::Seed;

    const LIMIT: u64 = 4 << 20;

    /// What zstd makes of the body. Rust makes the same of it, but for the words about a damage.
    pub(super) fn unpack(body: &[u8], piece_bytes: usize, limit: u64) -> Result<Vec<u8>, UnpackError> {
        let unpacked = unpack_with(Unpacker::new(limit), body, piece_bytes);
        match (&unpacked, unpack_with(Unpacker::in_rust(limit), body, piece_bytes)) {
            (Err(UnpackError::Damaged(_)), in_rust) => assert!(matches!(in_rust, Err(UnpackError::Damaged(_)))),
            (unpacked, in_rust) => assert!(*unpacked == in_rust),
        }
        unpacked
    }

    fn unpack_with(mut unpacker: Unpacker, body: &[u8], piece_bytes: usize) -> Result<Vec<u8>, UnpackError> {
        let mut file = Vec::new();
        for piece in body.chunks(piece_bytes.max(1)) {
            unpacker.push::<UnpackError>(piece, &mut |bytes| {
                file.extend_from_slice(bytes);
                Ok(())
            })?;
        }
        unpacker.finish()?;
        Ok(file)
    }

    /// Random words of eight bytes, masked.
    fn words(bytes: usize, seed: Seed, mask: u64) -> Vec<u8> {
        let mut stream = seed.stream();
        let mut words: Vec<u8> =
            (0..bytes.div_ceil(8)).flat_map(|_| (stream.next_u64() & mask).to_le_bytes()).collect();
        words.truncate(bytes);
        words
    }

    /// Bytes of which most are zero.
    pub(super) fn sparse(bytes: usize) -> Vec<u8> {
        words(bytes, Seed(3), 0xFF << 24)
    }

    pub(super) fn random(bytes: usize) -> Vec<u8> {
        words(bytes, Seed(4), u64::MAX)
    }

    proptest! {
        #[test]
        fn the_size_of_the_pieces_does_not_matter(bytes in 40usize..10_000, piece_bytes in 1usize..12_000) {
            let file = sparse(bytes);
            let body = shrink(file.clone());
            prop_assert_eq!(unpack(&body, piece_bytes, LIMIT), Ok(file));
        }

        #[test]
        fn a_damaged_frame_never_panics_and_never_exceeds_its_limit(
            flips in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 1..4),
        ) {
            let mut body = shrink(sparse(5000));
            for (index, flip) in flips {
                let at = index.index(body.len());
                body[at] ^= flip;
            }
            for unpacker in [Unpacker::new(6000), Unpacker::in_rust(6000)] {
                if let Ok(file) = unpack_with(unpacker, &body, 100) {
                    prop_assert!(file.len() <= 6000);
                }
            }
        }
    }

    #[test]
    fn what_shrinks_becomes_a_frame_and_what_does_not_stays() {
        let (file, noise) = (sparse(3 << 20), random(3 << 20));
        let body = shrink(file.clone());
        assert!(body.starts_with(&MAGIC) && body.len() < 1 << 20);
        for piece_bytes in [1000, 1 << 20] {
            assert!(unpack(&body, piece_bytes, LIMIT).unwrap() == file);
        }
        assert!(shrink(noise.clone()) == noise);
        for bytes in 0..20 {
            assert_eq!(shrink(random(bytes)), random(bytes));
        }
    }

    #[test]
    fn a_file_that_is_not_packed_passes_through_even_if_it_begins_like_a_frame() {
        for file in [&b""[..], b"plain", &[0x28, 0xB5, 0x2F, 0], &[0x28, 0], &[0x28, 0xB5, 0x28, 0xB5, 0x2F, 0xFD]] {
            for piece_bytes in 1..5 {
                assert_eq!(unpack(file, piece_bytes, 6).unwrap(), file);
            }
        }
        assert_eq!(unpack(b"plain", 2, 4), Err(UnpackError::TooLong { limit: 4 }));
    }

    #[test]
    fn a_bomb_is_refused_before_it_unpacks() {
        let bomb = shrink(vec![0; 256 << 20]);
        assert!(bomb.len() < 100_000);
        for mut unpacker in [Unpacker::new(1 << 20), Unpacker::in_rust(1 << 20)] {
            let mut given = 0;
            let refusal = unpacker.push::<UnpackError>(&bomb, &mut |bytes| {
                given += bytes.len();
                Ok(())
            });
            assert_eq!(refusal, Err(UnpackError::TooLong { limit: 1 << 20 }));
            assert!(given <= 1 << 20);
            assert_eq!(unpacker.push(&[0], &mut |_| Ok(())), Err(UnpackError::AlreadyFailed));
            assert_eq!(unpacker.finish(), Err(UnpackError::AlreadyFailed));
        }
    }

    #[test]
    fn a_file_of_exactly_the_limit_is_taken() {
        let body = shrink(vec![7; 1 << 20]);
        assert_eq!(unpack(&body, 10, 1 << 20).unwrap().len(), 1 << 20);
        assert_eq!(unpack(&body, 10, (1 << 20) - 1), Err(UnpackError::TooLong { limit: (1 << 20) - 1 }));
    }

    #[test]
    fn a_frame_that_wants_a_longer_window_is_refused() {
        let mut compressor = zstd::bulk::Compressor::new(3).unwrap();
        compressor.set_parameter(zstd::zstd_safe::CParameter::WindowLog(WINDOW_LOG_MAX + 1)).unwrap();
        let body = compressor.compress(&sparse(3 << 20)).unwrap();
        assert!(matches!(unpack(&body, 1000, LIMIT), Err(UnpackError::Damaged(_))));
    }

    #[test]
    fn a_frame_cut_short_or_drawn_out_is_refused() {
        let body = shrink(sparse(1000));
        for length in 1..body.len() {
            assert_eq!(unpack(&body[..length], 16, LIMIT), Err(UnpackError::Truncated), "{length} bytes");
        }
        for more in [&b"x"[..], &body] {
            let longer = [&body, more].concat();
            assert_eq!(unpack(&longer, 16, LIMIT), Err(UnpackError::TrailingBytes));
            assert_eq!(unpack(&longer, longer.len(), LIMIT), Err(UnpackError::TrailingBytes));
        }
    }

    #[test]
    fn a_sink_that_refuses_ends_the_body() {
        let mut unpacker = Unpacker::new(LIMIT);
        let refusal = unpacker.push(&shrink(sparse(1000)), &mut |_| Err(UnpackError::Truncated));
        assert_eq!(refusal, Err(UnpackError::Truncated));
        assert_eq!(unpacker.push(&[0], &mut |_| Ok(())), Err(UnpackError::AlreadyFailed));
    }
}
