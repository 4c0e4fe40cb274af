//! Why a benchmark fails.

use std::process::ExitStatus;

use tributary::error::Failure;

#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    #[error("the coordinator's process did not start: {0}")]
    Start(String),
    #[error("a connection to the coordinator failed: {0}")]
    Connection(String),
    #[error("{call}: unexpected answer {status}: {body}")]
    Answer {
        /// Method and path.
        call: String,
        status: u16,
        /// Its first bytes.
        body: String,
    },
    #[error(
        "{wanted} connections need {needed} open files and the limit is {limit}: raise it (`ulimit -n {needed}`) or pass a smaller --held"
    )]
    OpenFiles { wanted: u32, needed: u64, limit: u64 },
    #[error("{0} clients were answered that should have been held")]
    NotHeld(usize),
    /// A codec could not write the delta, or not read what it wrote.
    #[error("{0}")]
    Codec(String),
    /// Training failed, or its examples or model could not be made.
    #[error("{0}")]
    Train(String),
    /// Members of a group could not add up.
    #[error("a ring: {0}")]
    Ring(String),
    /// What a soak found.
    #[error("broken promises: {0}")]
    Promises(String),
    #[error("stopped by a signal")]
    Stopped,
    #[error("{command}: {status}")]
    Ended { command: String, status: ExitStatus },
    #[error("{command} printed no {place}")]
    Figure {
        command: String,
        /// A JSON pointer.
        place: &'static str,
    },
    #[error("{what} did not happen within {limit_s} s")]
    TooSlow {
        /// A noun phrase: `the commit of a round`.
        what: &'static str,
        limit_s: u64,
    },
}

impl Failure for BenchError {}
