//! Checkpoints of a training that goes on: a process that is killed loses at most the time between two of them.

use std::cell::Cell;
use std::fmt;

use super::given::Given;
use crate::store::suspended::Suspended;
use crate::trainer::{Checkpoint, Checkpoints};

/// Stores a checkpoint of an assignment's training from time to time.
pub(super) struct Periodic<'a> {
    given: Given<'a>,
    /// How long earlier sessions have trained.
    earlier_ms: u64,
    every_ms: u64,
    next_ms: Cell<u64>,
}

impl<'a> Periodic<'a> {
    /// `None` if the client keeps no such checkpoints.
    pub(super) fn begin(given: &Given<'a>, earlier_ms: u64) -> Option<Self> {
        let every_ms = given.checkpoint_every_ms?;
        let next_ms = Cell::new(given.clock.now_ms().saturating_add(every_ms));
        Some(Self { given: *given, earlier_ms, every_ms, next_ms })
    }
}

impl Checkpoints for Periodic<'_> {
    fn is_due(&self) -> bool {
        self.given.clock.now_ms() >= self.next_ms.get()
    }

    fn keep(&self, checkpoint: Checkpoint) {
        let Given { assignment, state, clock, .. } = self.given;
        let (steps, train_ms) = (checkpoint.steps, self.given.elapsed_ms().saturating_add(self.earlier_ms));
        match state.save_suspended(assignment, Suspended { checkpoint, train_ms }) {
            Ok(()) => tracing::debug!(steps, "a checkpoint is stored"),
            Err(error) => tracing::warn!(%error, "a checkpoint is not stored"),
        }
        // Counted from its end: a slow disk must not leave training without time.
        self.next_ms.set(clock.now_ms().saturating_add(self.every_ms));
    }
}

impl fmt::Debug for Periodic<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Periodic").field("every_ms", &self.every_ms).finish_non_exhaustive()
    }
}
