//! Compression of a file that comes in pieces.

use super::shrink;

/// Bytes at the beginning of a file that are compressed to decide whether compression pays.
const TRIED_BYTES: usize = 1 << 20;

/// Longest body of a file of `file_bytes` bytes. zstd adds three bytes to each block that does not compress, where a
/// block has at least 1 KiB, and a header and an end to the frame.
pub fn packed_bytes_max(file_bytes: u64) -> u64 {
    file_bytes + file_bytes / 256 + 1024
}

/// [`super::shrink`] for a file that comes in pieces. Its first MiB decides whether it is compressed.
#[derive(Debug)]
pub struct Shrinker(State);

#[derive(Debug)]
enum State {
    /// The beginning of the file, undecided.
    Trying(Vec<u8>),
    Plain,
    #[cfg(feature = "zstd")]
    Packing(packer::Packer),
}

impl Default for Shrinker {
    fn default() -> Self {
        Self(State::Trying(Vec::new()))
    }
}

impl Shrinker {
    /// Takes the next bytes of the file and appends the bytes of the body that they yield.
    pub fn push(&mut self, mut piece: &[u8], body: &mut Vec<u8>) {
        if let State::Trying(beginning) = &mut self.0 {
            let (tried, rest) = piece.split_at(piece.len().min(TRIED_BYTES - beginning.len()));
            beginning.extend_from_slice(tried);
            piece = rest;
            if beginning.len() == TRIED_BYTES {
                self.decide(body);
            }
        }
        match &mut self.0 {
            State::Trying(_) => {}
            State::Plain => body.extend_from_slice(piece),
            #[cfg(feature = "zstd")]
            State::Packing(packer) => packer.push(piece, body),
        }
    }

    /// Ends the file and appends the end of the body.
    pub fn finish(mut self, body: &mut Vec<u8>) {
        match &mut self.0 {
            // The whole file is shorter than the beginning that would decide.
            State::Trying(file) => body.extend(shrink(std::mem::take(file))),
            State::Plain => {}
            #[cfg(feature = "zstd")]
            State::Packing(packer) => packer.finish(body),
        }
    }

    /// Compresses the beginning on trial, and continues compressed or plain.
    fn decide(&mut self, body: &mut Vec<u8>) {
        let State::Trying(beginning) = std::mem::replace(&mut self.0, State::Plain) else { return };
        #[cfg(feature = "zstd")]
        if super::shrinks(&beginning)
            && let Some(mut packer) = packer::Packer::begin()
        {
            packer.push(&beginning, body);
            self.0 = State::Packing(packer);
            return;
        }
        body.extend_from_slice(&beginning);
    }
}

/// A frame that is being written.
#[cfg(feature = "zstd")]
mod packer {
    use std::fmt;

    use zstd::zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer};

    use super::super::{LEVEL, WINDOW_LOG_MAX};

    /// Bytes of the frame that are taken from zstd at once: its longest block.
    const STEP_BYTES: usize = 128 << 10;

    pub(super) struct Packer {
        context: CCtx<'static>,
        packed: Vec<u8>,
    }

    impl fmt::Debug for Packer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Packer")
        }
    }

    impl Packer {
        /// `None` if there is too little memory.
        pub(super) fn begin() -> Option<Self> {
            let mut context = CCtx::try_create()?;
            for parameter in [CParameter::CompressionLevel(LEVEL), CParameter::WindowLog(WINDOW_LOG_MAX)] {
                context.set_parameter(parameter).ok()?;
            }
            Some(Self { context, packed: vec![0; STEP_BYTES] })
        }

        pub(super) fn push(&mut self, piece: &[u8], body: &mut Vec<u8>) {
            let mut input = InBuffer::around(piece);
            while input.pos() < piece.len() {
                let mut output = OutBuffer::around(self.packed.as_mut_slice());
                let step = self.context.compress_stream(&mut output, &mut input);
                let given = output.pos();
                step.expect("compression fails only without memory, which the context has");
                body.extend_from_slice(&self.packed[..given]);
            }
        }

        pub(super) fn finish(&mut self, body: &mut Vec<u8>) {
            loop {
                let mut output = OutBuffer::around(self.packed.as_mut_slice());
                let left = self.context.end_stream(&mut output);
                let given = output.pos();
                body.extend_from_slice(&self.packed[..given]);
                if left.expect("compression fails only without memory, which the context has") == 0 {
                    return;
                }
            }
        }
    }
}

#[cfg(all(test, feature = "zstd"))]
mod tests {
    use super::super::tests::{random, sparse, unpack};
    use super::*;

    fn shrunk(file: &[u8], piece_bytes: usize) -> Vec<u8> {
        let (mut shrinker, mut body) = (Shrinker::default(), Vec::new());
        file.chunks(piece_bytes).for_each(|piece| shrinker.push(piece, &mut body));
        shrinker.finish(&mut body);
        body
    }

    #[test]
    fn a_file_in_pieces_shrinks_like_a_whole_one() {
        for bytes in [0, 1, 1000, TRIED_BYTES - 1, TRIED_BYTES, TRIED_BYTES + 1, 3 * TRIED_BYTES + 7] {
            let (file, noise) = (sparse(bytes), random(bytes));
            for piece_bytes in [1 << 16, 777_777, 5 << 20] {
                let body = shrunk(&file, piece_bytes);
                assert!(unpack(&body, 1 << 16, bytes as u64).unwrap() == file, "{bytes}");
                if bytes > 100 {
                    assert!(body.len() < bytes / 2, "{bytes} became {}", body.len());
                }
                assert!(shrunk(&noise, piece_bytes) == noise, "{bytes}");
            }
        }
        assert_eq!(shrunk(&sparse(1000), 10), shrink(sparse(1000)));
    }

    #[test]
    fn a_file_whose_beginning_promises_too_much_grows_by_less_than_its_bound() {
        let file = [sparse(TRIED_BYTES), random(3 << 20)].concat();
        let body = shrunk(&file, 100_000);
        assert!(unpack(&body, 1 << 16, file.len() as u64).unwrap() == file);
        assert!(body.len() as u64 - (TRIED_BYTES as u64 / 2) < packed_bytes_max(3 << 20));
    }
}
