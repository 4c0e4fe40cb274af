//! `tributary bench`: measures this build on this machine. Traffic stays on the loopback address, and every run ends by
//! itself.

mod round;

use clap::Subcommand;

use crate::error::CliError;
use crate::output::Output;

/// `tributary bench ..`
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Wall time of a round: a coordinator on SQLite and clients whose training takes no time.
    Round(round::RoundArgs),
}

/// Runs a benchmark.
///
/// # Errors
/// When the coordinator or a client fails.
pub(crate) async fn run(command: &BenchCommand, output: &Output) -> Result<(), CliError> {
    match command {
        BenchCommand::Round(args) => round::run(args, output).await,
    }
}
