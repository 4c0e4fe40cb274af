//! How a session ended.

use tributary_client::Outcome as Ended;

/// How a session ended without an error. Each says how long to wait before the next one.
#[derive(Clone, Debug, PartialEq, Eq, uniffi::Enum)]
pub enum Outcome {
    /// The coordinator accepted an update.
    Contributed {
        /// The round's number in its job, from 1.
        round: u32,
        /// Wait this long.
        retry_after_ms: u64,
    },
    /// The coordinator accepted an evaluation.
    Evaluated {
        /// Number of the evaluation round in its job, from 1.
        round: u32,
        /// Wait this long.
        retry_after_ms: u64,
    },
    /// The coordinator accepted the sums of the client's examples.
    Described {
        /// Number of the description in its job, from 1.
        round: u32,
        /// Wait this long.
        retry_after_ms: u64,
    },
    /// The coordinator had no work for this client.
    NothingToDo {
        /// What the client waits for as JSON, if the coordinator said so.
        waits_for: Option<String>,
        /// Wait this long.
        retry_after_ms: u64,
    },
    /// The round closed before this client had reported.
    TooLate {
        /// The round's number in its job, from 1.
        round: u32,
        /// Wait this long.
        retry_after_ms: u64,
    },
    /// The host or the app stopped the session.
    Interrupted {
        /// Wait this long.
        retry_after_ms: u64,
    },
}

impl From<Ended> for Outcome {
    fn from(ended: Ended) -> Self {
        let retry_after_ms = u64::try_from(ended.retry_after().as_millis()).unwrap_or(u64::MAX);
        match ended {
            Ended::Contributed { round, .. } => Self::Contributed { round, retry_after_ms },
            Ended::Evaluated { round, .. } => Self::Evaluated { round, retry_after_ms },
            Ended::Described { round, .. } => Self::Described { round, retry_after_ms },
            Ended::TooLate { round, .. } => Self::TooLate { round, retry_after_ms },
            Ended::NothingToDo { waits_for, .. } => {
                let waits_for = waits_for.and_then(|waits_for| serde_json::to_string(&waits_for).ok());
                Self::NothingToDo { waits_for, retry_after_ms }
            }
            _ => Self::Interrupted { retry_after_ms },
        }
    }
}
