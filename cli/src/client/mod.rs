//! `tributary client`: a client on this machine, and the enrolled clients of a population.

mod examples;
mod list;
mod run;
mod settings;

use clap::Subcommand;
use tributary_protocol::id::Name;

use crate::error::CliError;
use crate::options::{GlobalArgs, LimitArgs};
use crate::output::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum ClientCommand {
    /// Takes part in rounds with examples from a table or from IDX files, until Ctrl-C.
    Run(Box<run::ClientRunArgs>),
    /// Lists the clients of a population.
    List {
        /// The population's name.
        #[arg(long, value_name = "NAME")]
        population: Name,
        #[command(flatten)]
        limit: LimitArgs,
    },
}

pub(crate) async fn run(command: ClientCommand, global: &GlobalArgs, output: &Output) -> Result<(), CliError> {
    match command {
        ClientCommand::Run(args) => run::run(*args, global, output).await,
        ClientCommand::List { population, limit } => {
            list::run(&population, limit, &global.operator_api(output)?, output).await
        }
    }
}
