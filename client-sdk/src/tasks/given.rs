//! What every task is given.

use tributary_protocol::device::Assignment;

use crate::clock::Clock;
use crate::models::Base;
use crate::store::state::State;
use crate::trainer::Checkpoint;

/// An assignment with what its task needs. Times are in milliseconds by the client's clock; a training that is called
/// again keeps them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given<'a> {
    pub(crate) assignment: &'a Assignment,
    pub(crate) base: &'a Base,
    pub(crate) state: &'a State,
    pub(crate) clock: &'a dyn Clock,
    /// When its computation began.
    pub(crate) started_ms: u64,
    pub(crate) deadline_ms: u64,
    /// How often a training that goes on is stored; `None` for never.
    pub(crate) checkpoint_every_ms: Option<u64>,
    /// Where the members of its group exchange while they train.
    pub(crate) exchange: Option<Exchanging<'a>>,
}

/// A training between two exchanges.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchanging<'a> {
    /// Steps after which it pauses; `None` if the member goes on alone.
    pub(crate) every: Option<u32>,
    /// Where it goes on; `None` to begin.
    pub(crate) resume: Option<&'a Checkpoint>,
    /// Trainings that the group has begun without the coordinator.
    #[cfg(feature = "group")]
    pub(crate) again: u64,
}

impl Given<'_> {
    /// How long its computation has taken.
    pub(super) fn elapsed_ms(&self) -> u64 {
        self.clock.now_ms().saturating_sub(self.started_ms)
    }
}
