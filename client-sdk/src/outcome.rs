//! How a session ended.

use std::time::Duration;

use tributary_protocol::device::WaitsFor;

/// How a session ended without an error, and how long to wait before the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The coordinator accepted an update.
    Contributed {
        /// The round's number in its job, from 1.
        round: u32,
        /// Wait this long before the next session.
        retry_after: Duration,
    },
    /// The coordinator accepted an evaluation.
    Evaluated {
        /// Number of the evaluation round in its job, from 1.
        round: u32,
        /// Wait this long before the next session.
        retry_after: Duration,
    },
    /// The coordinator accepted the sums of the client's examples.
    Described {
        /// Number of the description in its job, from 1.
        round: u32,
        /// Wait this long before the next session.
        retry_after: Duration,
    },
    /// The coordinator had no work for this client.
    NothingToDo {
        /// What the client waits for, if the coordinator said so.
        waits_for: Option<WaitsFor>,
        /// Wait this long before the next session.
        retry_after: Duration,
    },
    /// The round closed before this client had reported, and its work was dropped. This is normal on a slow device.
    TooLate {
        /// The round's number in its job, from 1.
        round: u32,
        /// Wait this long before the next session.
        retry_after: Duration,
    },
    /// The host asked the session to stop.
    Interrupted {
        /// Wait this long before the next session.
        retry_after: Duration,
    },
}

impl Outcome {
    /// How long to wait before the next session.
    pub fn retry_after(&self) -> Duration {
        match *self {
            Self::Contributed { retry_after, .. }
            | Self::Evaluated { retry_after, .. }
            | Self::Described { retry_after, .. }
            | Self::NothingToDo { retry_after, .. }
            | Self::TooLate { retry_after, .. }
            | Self::Interrupted { retry_after } => retry_after,
        }
    }
}
