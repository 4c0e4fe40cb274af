//! Errors, by what an app can do about them.

use tributary_client::examples::ExamplesError;
use tributary_client::{ClientError, TrainError};

use crate::checkpoint::Checkpoint;

/// Why a call failed. After a failed session finished work is kept, and a later session delivers it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, uniffi::Error)]
pub enum TributaryError {
    /// A setting, an example or another argument cannot be used.
    #[error("{detail}")]
    BadInput {
        /// Which one, and why.
        detail: String,
    },
    /// The coordinator does not answer. The next session may succeed.
    #[error("{detail}")]
    Unreachable {
        /// The last attempt's error.
        detail: String,
    },
    /// The server's certificate is not one that the client trusts for its name: of another CA, for another name, or
    /// expired.
    #[error("{detail}")]
    Untrusted {
        /// What is wrong with it.
        detail: String,
    },
    /// The coordinator refused a request, or its answer cannot be used.
    #[error("{detail}")]
    Refused {
        /// The coordinator's reason.
        detail: String,
        /// The last word of the problem's type, such as `unauthorized`; empty for an unusable answer.
        problem: String,
        /// Wait this long before the next session, where the coordinator said so.
        retry_after_ms: Option<u64>,
    },
    /// The job is weaker than the app's [`PrivacyFloor`](crate::PrivacyFloor). Nothing was sent but this reason.
    #[error("{detail}")]
    Privacy {
        /// What it lacks.
        detail: String,
    },
    /// The client runs a session in another thread.
    #[error("{detail}")]
    Busy {
        /// What it does.
        detail: String,
    },
    /// The client's folder or key cannot be used.
    #[error("{detail}")]
    State {
        /// Which part, and why.
        detail: String,
    },
    /// There is nothing to learn from.
    #[error("{detail}")]
    NoExamples {
        /// As text.
        detail: String,
    },
    /// The loss or a weight is not finite.
    #[error("{detail}")]
    Diverged {
        /// As text.
        detail: String,
    },
    /// Examples, labels or returned tensors do not fit the job's model.
    #[error("{detail}")]
    DoesNotFit {
        /// What does not fit.
        detail: String,
    },
    /// The trainer failed otherwise.
    #[error("{detail}")]
    Training {
        /// The trainer's reason.
        detail: String,
    },
}

impl TributaryError {
    pub(crate) fn bad_input(detail: impl Into<String>) -> Self {
        Self::BadInput { detail: detail.into() }
    }
}

impl From<ClientError> for TributaryError {
    fn from(error: ClientError) -> Self {
        let detail = error.to_string();
        match &error {
            ClientError::BadServer(_) | ClientError::Exposed(_) | ClientError::BadToken | ClientError::Setup(_) => {
                Self::BadInput { detail }
            }
            ClientError::Unreachable(_) => Self::Unreachable { detail },
            ClientError::Untrusted(_) => Self::Untrusted { detail },
            ClientError::Refused(problem) => Self::Refused {
                detail,
                problem: problem.kind.uri().rsplit(':').next().unwrap_or_default().to_owned(),
                retry_after_ms: problem.retry_after_ms,
            },
            ClientError::BadAnswer(_) => Self::Refused { detail, problem: String::new(), retry_after_ms: None },
            ClientError::Privacy(_) => Self::Privacy { detail },
            ClientError::Busy | ClientError::Forked => Self::Busy { detail },
            ClientError::Store(_) | ClientError::ForeignState { .. } | ClientError::Key(_) | ClientError::Attest(_) => {
                Self::State { detail }
            }
            ClientError::Training(error) => match error {
                TrainError::NoExamples => Self::NoExamples { detail },
                TrainError::Diverged => Self::Diverged { detail },
                TrainError::DoesNotFit(_)
                | TrainError::CannotFollow(_)
                | TrainError::CannotExchange
                | TrainError::CannotDescribe
                | TrainError::CannotAnswer => Self::DoesNotFit { detail },
                _ => Self::Training { detail },
            },
            // Of a newer SDK, for which this border has no kind yet.
            _ => Self::State { detail },
        }
    }
}

impl From<ExamplesError> for TributaryError {
    fn from(error: ExamplesError) -> Self {
        Self::bad_input(error.to_string())
    }
}

/// What a trainer of the app throws. Anything else that it throws is [`TrainerError::Thrown`].
#[derive(Clone, Debug, PartialEq, thiserror::Error, uniffi::Error)]
pub enum TrainerError {
    /// [`Stop::is_set`](crate::Stop::is_set) said so.
    #[error("training was interrupted")]
    Interrupted,
    /// The same, and a later session goes on from here ([`TrainTask::may_suspend`](crate::TrainTask::may_suspend)).
    #[error("training was interrupted")]
    Suspended {
        /// What a later session receives as [`TrainTask::resume`](crate::TrainTask::resume).
        checkpoint: Checkpoint,
    },
    /// There is nothing to learn from.
    #[error("there are no examples")]
    NoExamples,
    /// The loss or a weight is not finite.
    #[error("training diverged")]
    Diverged,
    /// Examples, settings and model do not match.
    #[error("{detail}")]
    DoesNotFit {
        /// What does not fit.
        detail: String,
    },
    /// Any other exception. The session throws it with this text; the operator learns only the kind that the text
    /// begins with, as in `java.io.IOException: ..`.
    #[error("{detail}")]
    Thrown {
        /// The exception as text.
        detail: String,
    },
    /// Any other reason, as text for the operator.
    #[error("{detail}")]
    Other {
        /// The reason.
        detail: String,
    },
}

impl From<uniffi::UnexpectedUniFFICallbackError> for TrainerError {
    fn from(error: uniffi::UnexpectedUniFFICallbackError) -> Self {
        Self::Thrown { detail: error.reason }
    }
}

/// The kind of an exception: what stands before its message or its values, if that is one name.
fn kind_of(exception: &str) -> String {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || "_.$".contains(letter);
    let kind = exception.find(|letter| !is_name(letter)).map_or((exception, ""), |end| exception.split_at(end));
    match kind {
        (kind, rest) if !kind.is_empty() && (rest.is_empty() || rest.starts_with([':', '('])) => kind.to_owned(),
        _ => "an exception of the app".to_owned(),
    }
}

impl From<TrainerError> for TrainError {
    fn from(error: TrainerError) -> Self {
        match error {
            TrainerError::Interrupted => Self::Interrupted,
            TrainerError::Suspended { checkpoint } => tributary_client::Checkpoint::from(checkpoint).suspended(),
            TrainerError::NoExamples => Self::NoExamples,
            TrainerError::Diverged => Self::Diverged,
            TrainerError::DoesNotFit { detail } => Self::DoesNotFit(detail),
            TrainerError::Thrown { detail } => Self::Thrown { kind: kind_of(&detail), text: detail },
            TrainerError::Other { detail } => Self::Other(detail),
        }
    }
}

/// What a host or a key store of the app throws.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, uniffi::Error)]
pub enum CallbackError {
    /// The device does not answer or the key does not sign.
    #[error("{detail}")]
    Failed {
        /// The reason.
        detail: String,
    },
}

impl From<uniffi::UnexpectedUniFFICallbackError> for CallbackError {
    fn from(error: uniffi::UnexpectedUniFFICallbackError) -> Self {
        Self::Failed { detail: error.reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_exception_only_the_kind_is_reported() {
        for (exception, kind) in [
            ("java.io.IOException: patient_17 not found", "java.io.IOException"),
            ("kotlin.KotlinNothingValueException", "kotlin.KotlinNothingValueException"),
            ("fileNotFound(\"/data/secret.csv\")", "fileNotFound"),
            ("Patient 17 is not found.", "an exception of the app"),
            (": patient_17", "an exception of the app"),
            ("", "an exception of the app"),
        ] {
            let thrown = TrainError::from(TrainerError::Thrown { detail: exception.to_owned() });
            assert_eq!(thrown, TrainError::Thrown { kind: kind.to_owned(), text: exception.to_owned() });
        }
    }
}
