//! Why a command fails: a sentence, a hint for the next step, and an exit code.
//!
//! This file imports none of the modules whose errors it carries: each implements [`Failure`] for its own, and `?`
//! boxes them.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use tributary_client::ClientError;
use tributary_protocol::problem::Problem;

/// Exit codes, as `--help` lists them. Clap itself exits with 2 for a wrong command line.
pub mod exit {
    pub const FAILED: u8 = 1;
    pub const NOT_FOUND: u8 = 3;
    pub const REFUSED: u8 = 4;
    pub const UNREACHABLE: u8 = 5;
}

/// An error that ends a command.
pub trait Failure: Error + Send + Sync + 'static {
    fn exit_code(&self) -> u8 {
        exit::FAILED
    }

    /// What the person at the terminal can do next.
    fn hint(&self) -> Option<String> {
        None
    }

    /// What the coordinator answered.
    fn problem(&self) -> Option<&Problem> {
        None
    }

    /// Whether the same call may succeed later. Commands that follow a job try it again.
    fn is_temporary(&self) -> bool {
        self.exit_code() == exit::UNREACHABLE
    }
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    #[error("{0}")]
    Failed(Box<dyn Failure>),
    /// With what was looked for, and where: `job "digits" in the population demo`.
    #[error("there is no {0}")]
    NotFound(String),
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// A verb: `read`, `write`, ..
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// Standard output is closed, or its disk is full.
    #[error("cannot write to standard output: {0}")]
    Output(#[source] io::Error),
    #[error("{0}")]
    BadSetting(String),
    /// An error that the code excludes.
    #[error("internal error: {0}")]
    Internal(String),
    #[error("cannot start: {0}")]
    Runtime(#[source] io::Error),
}

impl<E: Failure> From<E> for CliError {
    fn from(error: E) -> Self {
        Self::Failed(Box::new(error))
    }
}

impl CliError {
    /// For `map_err` where an HTTP client is built.
    pub fn http(error: impl Error) -> Self {
        Self::BadSetting(format!("cannot set up requests: {error}"))
    }

    /// For `map_err` on file operations; `action` is a verb.
    pub fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { action, path, source }
    }

    /// For `map_err` where a task is joined.
    pub fn task(error: tokio::task::JoinError) -> Self {
        Self::Internal(error.to_string())
    }

    /// Whether the reader of our output stopped reading, as in `tributary job list | head`. That is no failure.
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Failed(error) => error.exit_code(),
            Self::NotFound(_) => exit::NOT_FOUND,
            _ => exit::FAILED,
        }
    }

    /// What the person at the terminal can do next.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Failed(error) => error.hint(),
            Self::NotFound(_) => Some("`tributary job list` shows what there is".into()),
            _ => None,
        }
    }

    /// What the coordinator answered.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Failed(error) => error.problem(),
            _ => None,
        }
    }

    /// Whether the same call may succeed later.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Failed(error) if error.is_temporary())
    }

    /// The boxed error, if it is of this type.
    #[cfg(test)]
    pub fn cause<E: Failure>(&self) -> Option<&E> {
        match self {
            Self::Failed(error) => (error.as_ref() as &dyn Error).downcast_ref(),
            _ => None,
        }
    }
}

impl Failure for ClientError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Refused(_) => exit::REFUSED,
            Self::Unreachable(_) | Self::Untrusted(_) => exit::UNREACHABLE,
            _ => exit::FAILED,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Unreachable(cause) => Some(scheme_hint(cause).unwrap_or(COORDINATOR_UNREACHABLE).into()),
            _ => None,
        }
    }

    fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Refused(problem) => Some(problem),
            _ => None,
        }
    }
}

/// The hint when no coordinator answers.
pub const COORDINATOR_UNREACHABLE: &str = "is the coordinator running (`tributary serve`), and is --server right?";

/// The hint when an answer came that is not of the address's scheme. No later attempt can succeed.
pub fn scheme_hint(cause: &str) -> Option<&'static str> {
    let hints = [
        // What hyper says of TLS's alert that a request is no TLS.
        ("invalid HTTP version", "the coordinator expects TLS: try https:// in --server"),
        // What rustls says of an answer that is no TLS.
        ("InvalidContentType", "the coordinator may speak plain HTTP: try http:// in --server"),
    ];
    hints.iter().find(|(said, _)| cause.contains(said)).map(|(_, hint)| *hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_went_away_is_no_failure() {
        let gone = CliError::Output(io::Error::from(io::ErrorKind::BrokenPipe));
        let full = CliError::Output(io::Error::from(io::ErrorKind::StorageFull));
        assert!(gone.is_closed_pipe() && !full.is_closed_pipe());
    }

    #[test]
    fn a_boxed_error_keeps_its_sentence_hint_and_exit_code() {
        #[derive(Debug, thiserror::Error)]
        #[error("the tide is out")]
        struct LowTide;
        impl Failure for LowTide {
            fn exit_code(&self) -> u8 {
                exit::UNREACHABLE
            }
            fn hint(&self) -> Option<String> {
                Some("wait six hours".into())
            }
        }
        let error = CliError::from(LowTide);
        assert_eq!((error.to_string(), error.hint()), ("the tide is out".into(), Some("wait six hours".into())));
        assert!(error.exit_code() == exit::UNREACHABLE && error.is_temporary() && error.cause::<LowTide>().is_some());
        let missing = CliError::NotFound("job \"x\"".into());
        assert!(missing.exit_code() == exit::NOT_FOUND && !missing.is_temporary());
    }
}
