//! The states of jobs, rounds and assignments: one word each, the same in API, database and documentation.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A text that names no state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no such state")]
pub struct UnknownState(String);

macro_rules! states {
    ($(#[doc = $doc:literal])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $text)] $variant,)*
        }

        impl $name {
            /// Every value.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The word that stands for it.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.pad(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = UnknownState;

            fn from_str(text: &str) -> Result<Self, UnknownState> {
                match text {
                    $($text => Ok(Self::$variant),)*
                    _ => Err(UnknownState(text.chars().take(40).collect())),
                }
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                crate::schema::words(&[$($text),*], concat!($($doc),*))
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::ToSchema for $name {
            fn name() -> std::borrow::Cow<'static, str> {
                std::borrow::Cow::Borrowed(stringify!($name))
            }
        }

        impl TryFrom<String> for $name {
            type Error = UnknownState;

            fn try_from(text: String) -> Result<Self, UnknownState> {
                text.parse()
            }
        }
    };
}

states! {
    /// Where a job stands.
    JobState {
        /// Waits for the operator to upload model version 0.
        AwaitingModel = "awaiting_model",
        /// Opens one round after the other.
        Running = "running",
        /// Finishes its open round and opens no other until it is resumed.
        Paused = "paused",
        /// Ended by an operator.
        Stopped = "stopped",
        /// Ended by its own stop policy.
        Completed = "completed",
    }
}

states! {
    /// What the clients of a round do.
    Task {
        /// Train and send an update: makes the next model version.
        Train = "train",
        /// Measure the model on their examples: changes nothing.
        Evaluate = "evaluate",
    }
}

states! {
    /// Where a round stands; it only ever moves down this list.
    Phase {
        /// Waits for enough available clients.
        Selecting = "selecting",
        /// The cohort works.
        Training = "training",
        /// No more reports are taken; the result is being made.
        Aggregating = "aggregating",
        /// The result is stored.
        Committed = "committed",
        /// Ended without a result; the reason says why.
        Abandoned = "abandoned",
    }
}

states! {
    /// Why a round ended without a result.
    AbandonReason {
        /// Too few clients were available until the selection timeout.
        SelectionTimeout = "selection_timeout",
        /// Too few clients reported until the deadline, or too few were left to reach the minimum.
        TooFewReports = "too_few_reports",
        /// An operator stopped the job.
        JobStopped = "job_stopped",
        /// The new model was not finite.
        NotFinite = "not_finite",
        /// What the coordinator had stored could not be read; its log says more.
        Fault = "fault",
    }
}

states! {
    /// One client in one round.
    AssignmentState {
        /// The client works on it.
        Assigned = "assigned",
        /// Its update or report was accepted.
        Reported = "reported",
        /// Its update was refused; the reason says why.
        Rejected = "rejected",
        /// The client gave up; the reason says why.
        Failed = "failed",
        /// The round closed first: the client is a straggler.
        Expired = "expired",
    }
}

states! {
    /// Why a client gave up.
    FailureReason {
        /// The host asked it to stop: not charging, metered, in use.
        Interrupted = "interrupted",
        /// Not enough memory.
        OutOfMemory = "out_of_memory",
        /// No examples to learn from.
        NoData = "no_data",
        /// Loss or weights became NaN or infinite.
        Diverged = "diverged",
        /// The client's data or SDK does not fit the plan.
        DoesNotFit = "does_not_fit",
        /// Anything else; the detail says more.
        Other = "other",
    }
}

states! {
    /// What an operator did, as the audit log records it.
    AuditAction {
        PopulationCreate = "population.create",
        TokenCreate = "token.create",
        TokenRevoke = "token.revoke",
        JobCreate = "job.create",
        JobPause = "job.pause",
        JobResume = "job.resume",
        JobStop = "job.stop",
        JobRoundPolicy = "job.round_policy",
        ModelUpload = "model.upload",
    }
}

impl Phase {
    /// Whether the round still does something.
    #[must_use]
    pub fn is_open(self) -> bool {
        matches!(self, Self::Selecting | Self::Training | Self::Aggregating)
    }
}

impl JobState {
    /// Whether the job will never run again.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, Self::Stopped | Self::Completed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_reads_back_from_its_word() {
        for phase in Phase::ALL {
            assert_eq!(phase.as_str().parse(), Ok(*phase));
            assert_eq!(serde_json::to_value(phase).unwrap(), phase.as_str());
        }
        assert!("training ".parse::<Phase>().is_err());
    }

    #[test]
    fn phases_are_ordered_as_a_round_moves() {
        assert!(Phase::Selecting < Phase::Training && Phase::Training < Phase::Aggregating);
        assert!(Phase::Aggregating < Phase::Committed);
    }
}
