//! The result of a task.

use bytes::Bytes;

use crate::store::client_state::ClientState;
use crate::store::state::Work;

/// What a task gives the session.
#[derive(Debug)]
pub(crate) struct Completed {
    pub(crate) work: Work,
    /// The update's file, compressed unless it is sent in parts; empty for an evaluation.
    pub(crate) body: Bytes,
    /// What the job keeps on the device once the update is accepted.
    pub(crate) next_state: Option<ClientState>,
}
