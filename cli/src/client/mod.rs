//! `tributary client`: a client on this machine, and the enrolled clients of a population.

mod answering;
mod check;
mod compute;
mod conditions;
mod connect;
mod examples;
mod fit;
mod fleet;
mod held_out;
mod kept_labels;
mod leave;
mod lines;
mod list;
mod load;
mod pairs;
mod released;
mod request;
mod run;
mod schema;
mod sessions;
mod settings;
mod show;
mod standing;
mod waiting;

use std::path::PathBuf;

use clap::Subcommand;
use tributary_protocol::id::{ClientId, Name};
use tributary_protocol::operator::{ChangeStanding, ClientOrder, Order};
use tributary_protocol::state::Standing;

use crate::error::CliError;
use crate::options::{GlobalArgs, LimitArgs, ReverseArgs, one_of};
use crate::output::Output;
use crate::profile;

pub(crate) use self::pairs::parse_names;

#[derive(Debug, Subcommand)]
pub(crate) enum ClientCommand {
    /// Takes part in rounds with examples from a table, from IDX files or from a built-in data set, until Ctrl-C: as
    /// one client, or as a fleet.
    Run(Box<run::ClientRunArgs>),
    /// Reads a table as `client run` would and says which job it fits, or what is wrong with it. Nobody is enrolled.
    Check(Box<run::ClientRunArgs>),
    /// Prints a request in PEM for a certificate of this client's key, for the authority of --peers-ca. The key is made
    /// if there is none yet.
    Request {
        /// The client's folder, as in `client run`.
        #[arg(long, env = "TRIBUTARY_STATE_DIR", value_name = "FOLDER")]
        state_dir: PathBuf,
    },
    /// Leaves, as the client of a folder: deletes the folder's contents, and has the coordinator delete what it has
    /// stored of the client. --token is an enrolment token of its population.
    Leave {
        /// The client's folder, as in `client run`.
        #[arg(long, env = "TRIBUTARY_STATE_DIR", value_name = "FOLDER")]
        state_dir: PathBuf,
    },
    /// Gets the model that was released on a channel, as an app would: for predictions, or to see what clients get.
    /// --token is an enrolment token of its population.
    Released(released::ReleasedArgs),
    /// Deletes what the coordinator has stored of a client, for good. Sums that it is part of stay.
    Erase {
        /// The client's id, as `client list` shows it.
        #[arg(value_name = "ID")]
        id: ClientId,
    },
    /// Lists the clients of a population, the newest first unless --sort says otherwise.
    List {
        /// The population's name.
        #[arg(long, value_name = "NAME")]
        population: Name,
        /// What the list is sorted by [default: the newest first].
        #[arg(long, value_name = "KEY", value_parser = one_of(ClientOrder::ALL, ClientOrder::as_str))]
        sort: Option<ClientOrder>,
        #[command(flatten)]
        reverse: ReverseArgs,
        #[command(flatten)]
        limit: LimitArgs,
    },
    /// Shows a client and its latest assignments.
    Show {
        /// The client's id, as `client list` shows it.
        #[arg(value_name = "ID")]
        id: ClientId,
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
    // A client has an address and a token of its own, never those of an operator's profile.
    let api = || profile::resolved(global)?.operator_api(output);
    match command {
        ClientCommand::Run(args) => run::run(*args, global, output).await,
        ClientCommand::Check(args) => check::run(*args, global, output).await,
        ClientCommand::Request { state_dir } => request::run(&state_dir, output),
        ClientCommand::Leave { state_dir } => leave::leave(&state_dir, global, output).await,
        ClientCommand::Released(args) => released::run(&args, global, output).await,
        ClientCommand::Erase { id } => leave::erase(id, &api()?, output).await,
        ClientCommand::List { population, sort, reverse, limit } => {
            let usual = sort.map_or((ClientOrder::Number, Order::Desc), |sort| (sort, sort.direction()));
            list::run(&population, (usual.0, reverse.of(usual.1)), limit, &api()?, output).await
        }
        ClientCommand::Show { id } => show::run(id, &api()?, output).await,
        ClientCommand::Quarantine { id, reason } => {
            standing::run(id, ChangeStanding { standing: Standing::Quarantined, reason }, &api()?, output).await
        }
        ClientCommand::Release { id } => {
            let change = ChangeStanding { standing: Standing::Active, reason: String::new() };
            standing::run(id, change, &api()?, output).await
        }
        ClientCommand::Revoke { id, reason } => {
            standing::run(id, ChangeStanding { standing: Standing::Revoked, reason }, &api()?, output).await
        }
    }
}
