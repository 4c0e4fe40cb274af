//! `tributary bench`: measures this build on this machine. Traffic stays on the loopback address, and every run ends by
//! itself.

mod aggregate;
mod codec;
mod device;
mod fleet;
mod load;
mod process;
mod recovery;
mod round;
mod sink;
pub(crate) mod training;

use clap::Subcommand;

use crate::error::CliError;
use crate::output::Output;

/// Why a benchmark could not run to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    /// The coordinator's process did not start.
    #[error("the coordinator's process did not start: {0}")]
    Start(String),
    /// A device's connection failed.
    #[error("a connection to the coordinator failed: {0}")]
    Connection(String),
    /// The coordinator did not answer as the benchmark expects.
    #[error("{call}: unexpected answer {status}: {body}")]
    Answer {
        /// Method and path.
        call: String,
        /// The status.
        status: u16,
        /// The beginning of the body.
        body: String,
    },
    /// More connections than the process may have.
    #[error(
        "{wanted} connections need {needed} open files and the limit is {limit}: raise it (`ulimit -n {needed}`) or pass a smaller --held"
    )]
    OpenFiles {
        /// Connections asked for.
        wanted: u32,
        /// Files that they need.
        needed: u64,
        /// The limit.
        limit: u64,
    },
    /// A client was answered that should have been held.
    #[error("{0} clients were answered that should have been held")]
    NotHeld(usize),
    /// A codec could not write the delta, or not read what it wrote.
    #[error("{0}")]
    Codec(String),
    /// It took too long.
    #[error("{what} did not happen within {limit_s} s")]
    TooSlow {
        /// What was waited for.
        what: &'static str,
        /// For how long.
        limit_s: u64,
    },
}

/// `tributary bench ..`
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Wall time of a round: a coordinator on SQLite and clients whose training takes no time.
    Round(round::RoundArgs),
    /// Check-ins and updates per second, and memory per held client, of a coordinator in a process of its own.
    Load(load::LoadArgs),
    /// Time from the start of a killed coordinator until it serves and has its open round's sum again.
    Recovery(recovery::RecoveryArgs),
    /// Processor time, memory and wall time of rounds of large updates, of a coordinator in a process of its own.
    Aggregate(aggregate::AggregateArgs),
    /// Bits per parameter, error and speed of update codecs, in this process.
    Codec(codec::CodecArgs),
    /// Rounds, bytes and accuracy of the same training with different update codecs.
    Training(training::TrainingArgs),
    /// Receives bodies and drops them: the yardstick of `bench aggregate`.
    #[command(hide = true)]
    Sink,
}

/// Runs a benchmark.
///
/// # Errors
/// When the coordinator or a client fails.
pub(crate) async fn run(command: &BenchCommand, output: &Output) -> Result<(), CliError> {
    match command {
        BenchCommand::Round(args) => round::run(args, output).await,
        BenchCommand::Load(args) => load::run(args, output).await,
        BenchCommand::Recovery(args) => recovery::run(args, output).await,
        BenchCommand::Aggregate(args) => aggregate::run(args, output).await,
        BenchCommand::Codec(args) => codec::run(args, output).await,
        BenchCommand::Sink => sink::run(output).await,
        BenchCommand::Training(args) => training::run(args, output).await,
    }
}

/// What a database URL names.
fn engine(database: &str) -> &'static str {
    if database.starts_with("postgres") { "postgres" } else { "sqlite" }
}
