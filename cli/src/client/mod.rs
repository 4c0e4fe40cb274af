//! `tributary client`: a client on this machine, and the enrolled clients of a population.

mod examples;
mod list;
mod run;
mod settings;
mod standing;

use clap::Subcommand;
use tributary_protocol::id::{ClientId, Name};
use tributary_protocol::operator::ChangeStanding;
use tributary_protocol::state::Standing;

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
    /// Gives a client no more work until it is released. Its open assignment ends.
    Quarantine {
        /// The client's id, as `client list` shows it.
        #[arg(value_name = "ID")]
        id: ClientId,
        /// Why, for people.
        #[arg(long, default_value = "", value_name = "TEXT")]
        reason: String,
    },
    /// Ends the quarantine of a client.
    Release {
        /// The client's id, as `client list` shows it.
        #[arg(value_name = "ID")]
        id: ClientId,
    },
    /// Refuses all requests of a client, for good.
    Revoke {
        /// The client's id, as `client list` shows it.
        #[arg(value_name = "ID")]
        id: ClientId,
        /// Why, for people.
        #[arg(long, default_value = "", value_name = "TEXT")]
        reason: String,
    },
}

pub(crate) async fn run(command: ClientCommand, global: &GlobalArgs, output: &Output) -> Result<(), CliError> {
    match command {
        ClientCommand::Run(args) => run::run(*args, global, output).await,
        ClientCommand::List { population, limit } => {
            list::run(&population, limit, &global.operator_api(output)?, output).await
        }
        ClientCommand::Quarantine { id, reason } => {
            standing::run(id, ChangeStanding { standing: Standing::Quarantined, reason }, global, output).await
        }
        ClientCommand::Release { id } => {
            let change = ChangeStanding { standing: Standing::Active, reason: String::new() };
            standing::run(id, change, global, output).await
        }
        ClientCommand::Revoke { id, reason } => {
            standing::run(id, ChangeStanding { standing: Standing::Revoked, reason }, global, output).await
        }
    }
}
