//! What can go wrong, by what an app can do about it.

use std::time::Duration;

use tributary_protocol::problem::{Problem, ProblemType};
use tributary_protocol::relay::RELAY_ATTRIBUTE;

use crate::attest::AttestError;
use crate::keys::KeyError;
use crate::store::StoreError;
use crate::trainer::TrainError;
use crate::transport::TransportError;

/// Longest wait that is believed, in milliseconds: a day.
const RETRY_MS_MAX: u64 = 24 * 3_600_000;

/// Why a session failed. Finished work is stored before it is sent, so a later session can still deliver it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The server's address is not an http or https URL.
    #[error("{0:?} is not the address of a coordinator: it must start with http:// or https://")]
    BadServer(String),
    /// Requests would cross a network without encryption, which
    /// [`Builder::allow_plaintext`](crate::Builder::allow_plaintext) allows, unless the enrolment token names the CA of
    /// a coordinator with TLS.
    #[error("{0} is plain HTTP to another machine: everyone on the way could read models and updates; use https")]
    Exposed(String),
    /// The text is not an enrolment token.
    #[error("the enrolment token is invalid: it must start with \"tributary_enrolment_\"")]
    BadToken,
    /// A setting of the builder cannot be used: an attribute that is too long, certificates that cannot be loaded.
    #[error("cannot set up the client: {0}")]
    Setup(String),
    /// A [`BlockingClient`](crate::BlockingClient) does one call at a time, and none on a thread of an async runtime.
    #[error("this client runs a session in another thread, or this thread belongs to an async runtime")]
    Busy,
    /// A [`BlockingClient`](crate::BlockingClient) works only in the process that made it.
    #[error("this client was made in another process: make it after the fork")]
    Forked,
    /// The client's state cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The client's state belongs to another coordinator.
    #[error("{place}: this state belongs to a client of {server}; use another directory")]
    ForeignState {
        /// The entry that says so, as [`Store::place`](crate::store::Store::place) describes it.
        place: String,
        /// The URL of the other coordinator.
        server: String,
    },
    /// The device's key cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The platform makes no statement about the device, which
    /// [`Builder::attestation`](crate::Builder::attestation) asked for.
    #[error(transparent)]
    Attest(#[from] AttestError),
    /// No usable response after several attempts: the coordinator, or the way to it, is down.
    #[error("the coordinator does not answer: {0}")]
    Unreachable(String),
    /// The server's certificate is not one that the client trusts for its name: of another CA, for another name, or
    /// expired. Nothing was sent, and asking again changes nothing.
    #[error("the server's certificate is not trusted: {0}")]
    Untrusted(String),
    /// The coordinator refused the request, with the reason.
    #[error("the coordinator refused: {0}")]
    Refused(Box<Problem>),
    /// A response that this SDK cannot use: of another release, or not of a coordinator.
    #[error("the coordinator's answer cannot be used: {0}")]
    BadAnswer(String),
    /// The cached model cannot predict.
    #[error("the cached model cannot be used: {0}")]
    Unusable(String),
    /// The update was kept back: the group that was to add it up is not one to which the client gives it.
    #[error("the update is kept back: {0}")]
    Privacy(String),
    /// The client is a relay, and its enrolment token does not let it be one.
    #[error("the enrolment token must grant relays: it needs the attribute `{RELAY_ATTRIBUTE}` with the value `true`")]
    NoRelay,
    /// The trainer failed. The failure was reported to the coordinator.
    #[error("training failed: {0}")]
    Training(#[from] TrainError),
}

impl From<TransportError> for ClientError {
    fn from(error: TransportError) -> Self {
        match error {
            TransportError::Failed(what) => Self::Unreachable(what),
            TransportError::Untrusted(what) => Self::Untrusted(what),
        }
    }
}

impl ClientError {
    /// How long to wait before the next session, where the coordinator said so: a day at most.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused(problem) => problem.retry_after_ms.map(|ms| Duration::from_millis(ms.min(RETRY_MS_MAX))),
            _ => None,
        }
    }

    /// Whether the coordinator refused for this reason.
    pub(crate) fn is(&self, kind: ProblemType) -> bool {
        matches!(self, Self::Refused(problem) if problem.kind == kind)
    }

    /// Whether the coordinator wants no report of this assignment any more.
    pub(crate) fn ends_assignment(&self) -> bool {
        let ends = [
            ProblemType::AssignmentClosed,
            ProblemType::UpdateStale,
            ProblemType::GroupFailed,
            ProblemType::GroupClosed,
        ];
        ends.iter().any(|kind| self.is(*kind))
    }

    /// Whether the coordinator refused, and will refuse the same request again.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Self::Refused(_)) && !self.is_temporary()
    }

    /// Whether the same request may succeed later.
    pub(crate) fn is_temporary(&self) -> bool {
        match self {
            Self::Unreachable(_) => true,
            Self::Refused(problem) => {
                // The last three concern an upload: the next attempt asks first how much of it has arrived.
                let temporary = [
                    ProblemType::TooManyRequests,
                    ProblemType::UploadOffset,
                    ProblemType::UploadSuperseded,
                    ProblemType::DigestMismatch,
                ];
                problem.status >= 500 || temporary.contains(&problem.kind)
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_untrusted_server_is_not_asked_again() {
        let error = ClientError::from(TransportError::Untrusted("UnknownIssuer".to_owned()));
        assert!(matches!(error, ClientError::Untrusted(_)) && !error.is_temporary());
        assert!(ClientError::from(TransportError::Failed("reset".to_owned())).is_temporary());
    }

    #[test]
    fn no_wait_of_more_than_a_day_is_believed() {
        let wait = |ms| {
            let problem = Problem::new(ProblemType::TooManyRequests, "wait").retry_after_ms(ms);
            ClientError::Refused(Box::new(problem)).retry_after()
        };
        assert_eq!(wait(1_500), Some(Duration::from_millis(1_500)));
        assert_eq!(wait(u64::MAX), Some(Duration::from_secs(86_400)));
    }
}
