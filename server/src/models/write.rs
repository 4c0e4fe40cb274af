//! Writes the files of a version from the values of its base and from the combined updates, piece by piece.

use std::sync::Arc;

use tributary_engine::aggregate::{BLOCK_VALUES, Made, MadeNorms, Maker};
use tributary_engine::job::JobSpec;
use tributary_protocol::hash::Sha256Hasher;
use tributary_protocol::sharing::{Part, Parts, Run};
use tributary_protocol::update::UpdateHeader;

use super::companion::Former;
use super::error::CommitError;

/// The values of the base version in, the bytes of the new files out.
pub(super) struct Writer {
    parts: Arc<Parts>,
    maker: Maker,
    hasher: Sha256Hasher,
    /// The file's header, until it is written.
    beginning: Vec<u8>,
    /// Values of the base model that were read and not used.
    base: Vec<f32>,
    /// The place in the model of the next value.
    values: usize,
}

/// The next bytes of all files.
#[derive(Default)]
pub(super) struct Pieces {
    pub(super) model: Vec<u8>,
    pub(super) delta: Vec<u8>,
    pub(super) companions: Vec<Vec<u8>>,
}

impl Writer {
    /// Writes from this value of the model on. `beginning` comes before it; `hasher` has hashed what others wrote.
    pub(super) fn new(spec: &JobSpec, maker: Maker, hasher: Sha256Hasher, beginning: Vec<u8>, first: usize) -> Self {
        Self { parts: Arc::clone(&spec.parts), maker, hasher, beginning, base: Vec::new(), values: first }
    }

    #[cfg(test)]
    pub(super) fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Looks at the next values of the step, with the former values of the companions.
    pub(super) fn survey(&mut self, count: usize, mut former: Former) -> Result<(), CommitError> {
        for at in (0..count).step_by(BLOCK_VALUES) {
            let length = BLOCK_VALUES.min(count - at);
            self.maker.survey(length, former.block(length))?;
        }
        Ok(())
    }

    /// The beginning of the delta's file, once the whole step was looked at.
    pub(super) fn begin_delta(&mut self, header: &UpdateHeader) -> Vec<u8> {
        self.maker.begin_delta(header)
    }

    /// Takes the next values of the base model.
    ///
    /// # Errors
    /// [`CommitError::Order`] for others: stored models have their parameters in order.
    pub(super) fn take(&mut self, first: usize, values: &[f32]) -> Result<(), CommitError> {
        if first != self.values + self.base.len() {
            return Err(CommitError::Order(first));
        }
        self.base.extend_from_slice(values);
        Ok(())
    }

    /// Shared values among those that were taken and not used.
    pub(super) fn completed(&self) -> usize {
        let completed = self.values..self.values + self.base.len();
        let shared = self.parts.runs(completed).filter(|run| run.part == Part::Shared);
        shared.map(|run| run.values.len()).sum()
    }

    /// The next bytes of the new files from the values that were read, and from the former values of the companions.
    /// Frozen and personal parameters are copied.
    pub(super) fn make(&mut self, mut former: Former) -> Result<Pieces, CommitError> {
        let base = std::mem::take(&mut self.base);
        let mut pieces = Pieces { model: std::mem::take(&mut self.beginning), ..Pieces::default() };
        // In one step: growing in several would leave as much again to the allocator.
        pieces.model.reserve_exact(4 * base.len());
        let (parts, start) = (Arc::clone(&self.parts), self.values);
        for Run { part, values, first } in parts.runs(start..start + base.len()) {
            let base = &base[values.start - start..values.end - start];
            if part != Part::Shared {
                pieces.model.extend(bytes(base));
                continue;
            }
            for (block, first) in base.chunks(BLOCK_VALUES).zip((first..).step_by(BLOCK_VALUES)) {
                pieces.add(&self.maker.make(block, first, former.block(block.len()))?, 4 * base.len());
            }
        }
        self.values += base.len();
        self.hasher.update(&pieces.model);
        Ok(pieces)
    }

    /// The hash of the model's file so far, and the norms of what was made.
    pub(super) fn finish(self) -> (Sha256Hasher, MadeNorms) {
        let norms = self.maker.norms();
        (self.hasher, norms)
    }
}

impl Pieces {
    /// Appends what was made of a block. A companion takes room for so many bytes at once.
    fn add(&mut self, made: &Made, companion_bytes: usize) {
        self.model.extend(bytes(&made.model));
        self.delta.extend_from_slice(&made.delta);
        self.companions.resize_with(made.companions.len(), || Vec::with_capacity(companion_bytes));
        for (file, values) in self.companions.iter_mut().zip(&made.companions) {
            file.extend(bytes(values));
        }
    }
}

fn bytes(values: &[f32]) -> impl Iterator<Item = u8> {
    values.iter().flat_map(|value| value.to_le_bytes())
}
