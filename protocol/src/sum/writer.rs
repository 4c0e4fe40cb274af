//! Writes a sum piece by piece.

use super::block::BLOCK_VALUES;
use super::error::SumError;
use super::header::Header;
use super::packed::pack_run;
use crate::fixed::Contribution;

/// The writer of a sum. It holds at most one block of values, and the bytes that were not taken yet.
#[derive(Clone, Debug)]
pub struct SumWriter {
    announced: u32,
    pushed: u64,
    /// Values of a block that is not whole yet.
    waiting: Vec<i64>,
    ready: Vec<u8>,
}

impl SumWriter {
    /// Begins the body of a sum with this [`tag`](super::tag()) and so many values.
    pub fn new(tag: [u8; 8], contribution: Contribution, values: u32) -> Self {
        let ready = Header { tag, contribution, values }.to_bytes();
        Self { announced: values, pushed: 0, waiting: Vec::new(), ready }
    }

    /// Writes the next values. Pieces of any size give the same bytes.
    pub fn push(&mut self, mut values: &[i64]) {
        self.pushed += values.len() as u64;
        if !self.waiting.is_empty() {
            let (now, later) = values.split_at(values.len().min(BLOCK_VALUES - self.waiting.len()));
            self.waiting.extend_from_slice(now);
            values = later;
            if self.waiting.len() < BLOCK_VALUES {
                return;
            }
            pack_run(&self.waiting, &mut self.ready);
            self.waiting.clear();
        }
        let (blocks, rest) = values.as_chunks::<BLOCK_VALUES>();
        pack_run(blocks.as_flattened(), &mut self.ready);
        self.waiting.extend_from_slice(rest);
    }

    /// The bytes that are ready and were not taken before.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.ready)
    }

    /// Ends the sum. Returns the bytes that were not taken.
    ///
    /// # Errors
    /// [`SumError::Values`] if another number of values was pushed than was announced.
    pub fn finish(mut self) -> Result<Vec<u8>, SumError> {
        if self.pushed != u64::from(self.announced) {
            return Err(SumError::Values { got: self.pushed, expected: self.announced });
        }
        pack_run(&self.waiting, &mut self.ready);
        Ok(self.ready)
    }
}
