//! Commands that run a coordinator on this machine or work on its database: everything behind the feature
//! `coordinator`. Without it, the program is a client and a tool of operators.

use clap::Subcommand;
use tributary_server::ServeError;
use tributary_server::db::ClaimError;

use crate::backup::{self, BackupArgs, RestoreArgs};
use crate::demo::args::DemoArgs;
use crate::error::{CliError, Failure, exit};
use crate::options::GlobalArgs;
use crate::output::Output;
use crate::privacy::PrivacyCommand;
use crate::relay::RelayArgs;
use crate::serve::ServeArgs;
use crate::tree::TreeCommand;
use crate::{demo, privacy, relay, serve, tree};

#[derive(Debug, Subcommand)]
pub(crate) enum CoordinatorCommand {
    /// Starts a coordinator and clients on this machine and trains a model on real data, to show how it works.
    Demo(Box<DemoArgs>),
    /// Runs a coordinator until Ctrl-C or SIGTERM.
    Serve(Box<ServeArgs>),
    /// Runs a coordinator whose rounds are parts of another coordinator's rounds: it adds up the updates of its own
    /// clients, and sends the sums on. It has the settings of `serve`.
    Relay(Box<RelayArgs>),
    /// Writes a copy of a SQLite database to a file, also while a coordinator serves it.
    Backup(BackupArgs),
    /// Creates a SQLite database from a backup.
    Restore(RestoreArgs),
    /// Says what the privacy of a job comes to, and what it has spent.
    #[command(subcommand)]
    Privacy(PrivacyCommand),
    /// Plans how the sums of a round meet: in a star, in a tree of relays, in a ring, and with codes.
    #[command(subcommand)]
    Tree(TreeCommand),
}

pub(crate) async fn run(command: CoordinatorCommand, global: &GlobalArgs, output: &Output) -> Result<(), CliError> {
    match command {
        CoordinatorCommand::Demo(args) => demo::run(&args, output).await,
        CoordinatorCommand::Serve(args) => serve::run(*args, None, output).await,
        CoordinatorCommand::Relay(args) => relay::run(*args, global.token.as_ref(), global.ca.as_deref(), output).await,
        CoordinatorCommand::Backup(args) => backup::backup(&args, output).await,
        CoordinatorCommand::Restore(args) => backup::restore(&args, output).await,
        CoordinatorCommand::Privacy(command) => privacy::run(command, global, output).await,
        CoordinatorCommand::Tree(command) => tree::run(&command, output),
    }
}

impl Failure for ServeError {}

impl Failure for ClaimError {
    fn exit_code(&self) -> u8 {
        if matches!(self, Self::Taken { .. }) { exit::REFUSED } else { exit::FAILED }
    }

    fn hint(&self) -> Option<String> {
        let hint =
            "stop it first, name another file with --database, or use PostgreSQL, which several coordinators share";
        matches!(self, Self::Taken { .. }).then(|| hint.into())
    }
}
