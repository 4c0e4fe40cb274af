//! What can go wrong, told apart by what an app can do about it.

use std::path::PathBuf;
use std::time::Duration;

use tributary_protocol::problem::{Problem, ProblemType};

use crate::trainer::TrainError;

/// Why a session failed. Nothing is lost by it: what was trained is on disk and goes up in a later session.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server's address is no http or https URL.
    #[error("{0:?} is not the address of a coordinator: it must start with http:// or https://")]
    BadServer(String),
    /// The enrolment token is none.
    #[error("the enrolment token is not one: it must start with \"tributary_enrolment_\"")]
    BadToken,
    /// The settings for requests cannot be used (certificates, TLS).
    #[error("cannot set up requests: {0}")]
    Setup(String),
    /// The state directory cannot be read or written.
    #[error("{}: {source}", path.display())]
    State {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The state directory belongs to a client of another coordinator.
    #[error("{}: this state belongs to a client of {server}; use another directory", path.display())]
    ForeignState {
        /// The file that says so.
        path: PathBuf,
        /// The other coordinator.
        server: String,
    },
    /// The coordinator could not be reached, again and again.
    #[error("the coordinator does not answer: {0}")]
    Unreachable(String),
    /// The coordinator refused.
    #[error("the coordinator refused: {0}")]
    Refused(Box<Problem>),
    /// The coordinator's answer makes no sense to this SDK.
    #[error("the coordinator's answer makes no sense: {0}")]
    BadAnswer(String),
    /// The trainer failed; the coordinator was told.
    #[error("training failed: {0}")]
    Training(#[from] TrainError),
}

impl ClientError {
    /// How long the coordinator wants to be left alone, where it said so.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused(problem) => problem.retry_after_ms.map(Duration::from_millis),
            _ => None,
        }
    }

    /// Whether the coordinator refused for this reason.
    pub(crate) fn is(&self, kind: ProblemType) -> bool {
        matches!(self, Self::Refused(problem) if problem.kind == kind)
    }

    /// Whether the same request may succeed later.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable(_) => true,
            Self::Refused(problem) => {
                // Of an upload that is at odds with itself the next try asks how far it is.
                let unsettled = [
                    ProblemType::TooManyRequests,
                    ProblemType::UploadOffset,
                    ProblemType::UploadSuperseded,
                    ProblemType::DigestMismatch,
                ];
                problem.status >= 500 || unsettled.contains(&problem.kind)
            }
            _ => false,
        }
    }
}
