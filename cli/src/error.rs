//! What can go wrong at the command line: a sentence, a hint what to do next, and an exit code that means something.

use std::io;
use std::path::PathBuf;

use tributary_client::ClientError;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::IdError;
use tributary_protocol::job_file::JobFileError;
use tributary_protocol::problem::ProblemType;

use crate::api::ApiError;
use crate::bench::BenchError;
use crate::client_run::LoadError;
use crate::demo::mnist::MnistError;
use crate::demo::partition::TooFewExamples;

/// Exit codes, as `--help` documents them. Clap itself exits with 2 for a wrong command line.
pub(crate) mod exit {
    /// It did not work, for a reason that no other code names.
    pub(crate) const FAILED: u8 = 1;
    /// No such job, round, token or version.
    pub(crate) const NOT_FOUND: u8 = 3;
    /// The coordinator understood and refused.
    pub(crate) const REFUSED: u8 = 4;
    /// The coordinator is unreachable or cannot answer now.
    pub(crate) const UNREACHABLE: u8 = 5;
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// A call of the operator API failed.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The coordinator has no such thing.
    #[error("there is no {0}")]
    NotFound(String),
    /// One name, several jobs.
    #[error("{count} jobs are called {name:?}, in the populations {populations}")]
    AmbiguousJob {
        /// The name that was given.
        name: String,
        /// How many jobs have it.
        count: usize,
        /// Their populations, separated by commas.
        populations: String,
    },
    /// The job waits for version 0.
    #[error("the job {0} has no model yet")]
    NoModelYet(String),
    /// The given token is not one at all.
    #[error("the given token is not a Tributary token")]
    BadToken(#[source] IdError),
    /// A client's or an app's token where an operator's is needed, or the other way round.
    #[error("this command needs {needed} token, and the given one is {given} token")]
    WrongToken {
        /// What the command needs, with its article.
        needed: &'static str,
        /// What was given, with its article.
        given: &'static str,
    },
    /// A file could not be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// `read`, `write`, ...
        action: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The job file describes no job.
    #[error("{name}: {source}")]
    JobFile {
        /// The file's name, or `standard input`.
        name: String,
        /// What does not fit, with the key.
        source: JobFileError,
    },
    /// The downloaded bytes are not those of the version list.
    #[error("the downloaded model has the SHA-256 {got}, and the coordinator announced {expected}")]
    WrongHash {
        /// From the version list.
        expected: Sha256Hash,
        /// Of what arrived.
        got: Sha256Hash,
    },
    /// Examples of a client could not be read.
    #[error(transparent)]
    Examples(#[from] LoadError),
    /// MNIST could not be loaded.
    #[error(transparent)]
    Mnist(#[from] MnistError),
    /// Standard output is gone: the reader of a pipe went away, or the disk is full.
    #[error("cannot write to standard output: {0}")]
    Output(#[source] io::Error),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// What the operating system said.
        source: io::Error,
    },
    /// The coordinator cannot start or go on.
    #[error(transparent)]
    Serve(#[from] tributary_server::ServeError),
    /// A client cannot start or a session failed.
    #[error(transparent)]
    Client(#[from] tributary_client::ClientError),
    /// The configuration file cannot be used.
    #[error("{}: {source}", path.display())]
    Config {
        /// Which file.
        path: PathBuf,
        /// What does not fit, with its line.
        source: Box<toml::de::Error>,
    },
    /// A setting that cannot be used.
    #[error("{0}")]
    BadSetting(String),
    /// A token is needed and none was given.
    #[error("{0} token is needed")]
    NoToken(&'static str),
    /// The demo trains only networks that are data.
    #[error("the demo needs a job whose [model] has layers, and examples with one class each")]
    OwnNetwork,
    /// The demo's examples cannot be split as wanted.
    #[error(transparent)]
    Partition(#[from] TooFewExamples),
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
    /// A database could not be saved or restored.
    #[error(transparent)]
    Backup(#[from] tributary_server::backup::BackupError),
    /// A file is in the way.
    #[error("{} exists", .0.display())]
    Exists(PathBuf),
    /// MLflow refused, or answered what it should not.
    #[error("MLflow: {call}: {cause}")]
    Mlflow {
        /// The call of its REST API.
        call: String,
        /// What it said.
        cause: String,
    },
    /// No connection to MLflow, or a gateway without it.
    #[error("cannot reach MLflow at {server}: {cause}")]
    MlflowUnreachable {
        /// Where it should be.
        server: String,
        /// What the network said.
        cause: String,
    },
    /// A benchmark could not run to its end.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// Something that cannot happen did.
    #[error("internal error: {0}")]
    Internal(String),
    /// The tokio runtime could not start.
    #[error("cannot start: {0}")]
    Runtime(#[source] io::Error),
}

impl CliError {
    /// For `map_err` where an HTTP client is built.
    pub(crate) fn http(error: reqwest::Error) -> Self {
        Self::BadSetting(format!("cannot set up requests: {}", crate::http::causes(&error)))
    }

    /// For `map_err` on file operations.
    pub(crate) fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { action, path, source }
    }

    /// Whether the reader of our output simply stopped reading, which is no failure (`tributary job list | head`).
    pub(crate) fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// The process's exit code.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Api(ApiError::Unreachable { .. }) => exit::UNREACHABLE,
            Self::Api(ApiError::Problem(problem)) => match problem.status {
                404 => exit::NOT_FOUND,
                503 => exit::UNREACHABLE,
                400..=499 => exit::REFUSED,
                _ => exit::FAILED,
            },
            Self::NotFound(_) => exit::NOT_FOUND,
            Self::MlflowUnreachable { .. } => exit::UNREACHABLE,
            Self::Client(ClientError::Refused(_)) => exit::REFUSED,
            Self::Client(ClientError::Unreachable(_)) => exit::UNREACHABLE,
            _ => exit::FAILED,
        }
    }

    /// What the person at the terminal can do next.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Api(error) => api_hint(error),
            Self::NotFound(_) => Some("`tributary job list` shows what there is".into()),
            Self::AmbiguousJob { .. } => Some("add --population NAME, or give the job's id".into()),
            Self::NoModelYet(_) => {
                Some("upload version 0 with `tributary job create FILE --initial-model MODEL.safetensors`".into())
            }
            Self::BadToken(_) => Some("tokens start with `tributary_`; check that nothing was cut off".into()),
            Self::WrongToken { .. } => Some(
                "`tributary token create` makes both kinds: --operator for commands, --population for clients".into(),
            ),
            Self::MlflowUnreachable { .. } => Some("is --mlflow the address of a running `mlflow server`?".into()),
            Self::JobFile { .. } => Some("nothing was sent; correct the file and try again".into()),
            Self::WrongHash { .. } => {
                Some("nothing was written; try again, and look for a proxy that changes files".into())
            }
            Self::Mnist(error) => Some(error.hint().into()),
            Self::Examples(_) => {
                Some("`tributary client run --help` says how tables and IDX files are described".into())
            }
            Self::Listen { source, .. } if source.kind() == io::ErrorKind::AddrInUse => {
                Some("another program listens there; choose another address with --listen".into())
            }
            Self::Client(ClientError::Unreachable(_)) => {
                Some("is the coordinator running (`tributary serve`), and is --server right?".into())
            }
            Self::Exists(_) => Some("choose another name, or pass --force to replace it".into()),
            Self::NoToken(_) => Some("pass it with --token or TRIBUTARY_TOKEN".into()),
            Self::Partition(_) => Some("choose fewer --clients, or another --partition".into()),
            _ => None,
        }
    }
}

fn api_hint(error: &ApiError) -> Option<String> {
    let problem = match error {
        ApiError::Unreachable { .. } => {
            return Some("is the coordinator running (`tributary serve`), and is --server right?".into());
        }
        ApiError::BadAnswer { .. } => {
            return Some("is --server a Tributary coordinator, of the same release as this program?".into());
        }
        ApiError::Problem(problem) => problem,
    };
    let hint = match problem.kind {
        ProblemType::Unauthorized => {
            "pass an operator token with --token or TRIBUTARY_TOKEN; a coordinator shows its first one when it first starts"
        }
        ProblemType::Forbidden => "an operator token is needed: `tributary token create --operator` makes one",
        ProblemType::NotFound => "`tributary job list` and `tributary population list` show what there is",
        ProblemType::NameTaken => "choose another name; `tributary job list` shows those in use",
        ProblemType::Internal => "the coordinator's log says why",
        ProblemType::TooManyRequests | ProblemType::Unavailable => match problem.retry_after_ms {
            Some(wait_ms) => return Some(format!("try again in {}", crate::format::duration_ms(wait_ms))),
            None => "try again in a moment",
        },
        _ => return None,
    };
    Some(hint.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_protocol::problem::Problem;

    fn problem(kind: ProblemType) -> CliError {
        ApiError::from(Problem::new(kind, "said so")).into()
    }

    #[test]
    fn exit_codes_tell_not_found_refused_and_unreachable_apart() {
        let unreachable = ApiError::Unreachable { server: "http://127.0.0.1:1/".into(), cause: "refused".into() };
        let cases = [
            (problem(ProblemType::NotFound), exit::NOT_FOUND),
            (CliError::NotFound("job \"x\"".into()), exit::NOT_FOUND),
            (problem(ProblemType::Unauthorized), exit::REFUSED),
            (problem(ProblemType::JobFileInvalid), exit::REFUSED),
            (problem(ProblemType::Unavailable), exit::UNREACHABLE),
            (unreachable.into(), exit::UNREACHABLE),
            (problem(ProblemType::Internal), exit::FAILED),
            (CliError::NoModelYet("x".into()), exit::FAILED),
        ];
        for (error, code) in cases {
            assert_eq!(error.exit_code(), code, "{error}");
        }
    }

    #[test]
    fn a_retry_time_becomes_the_hint() {
        let busy = ApiError::from(Problem::new(ProblemType::Unavailable, "stopping").retry_after_ms(2500));
        assert_eq!(CliError::from(busy).hint().as_deref(), Some("try again in 2.5 s"));
    }

    #[test]
    fn a_reader_that_went_away_is_no_failure() {
        let gone = CliError::Output(io::Error::from(io::ErrorKind::BrokenPipe));
        let full = CliError::Output(io::Error::from(io::ErrorKind::StorageFull));
        assert!(gone.is_closed_pipe() && !full.is_closed_pipe());
    }
}
