//! The command line. `--help` is the reference for every option.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use crate::account::AccountCommand;
use crate::analysis::AnalysisCommand;
use crate::audit::AuditCommand;
use crate::client::ClientCommand;
#[cfg(feature = "coordinator")]
use crate::coordinator::CoordinatorCommand;
use crate::events::EventArgs;
use crate::example::ExampleCommand;
use crate::job::args::JobCommand;
use crate::node::NodeCommand;
use crate::options::GlobalArgs;
use crate::population::PopulationCommand;
use crate::predict::PredictArgs;
use crate::profile::LoginArgs;
use crate::release::ReleaseArgs;
use crate::round::RoundCommand;
use crate::schedule::ScheduleCommand;
use crate::token::TokenCommand;

const AFTER_HELP: &str = "\
Exit codes:
  0  done
  1  failed
  2  the command line is wrong
  3  there is no such job, round, population, client, token, version or profile
  4  the coordinator refused
  5  the coordinator is unreachable or temporarily unavailable

With --json, results are JSON objects on standard output, one per line, and an error is one on standard error. Colours are
for terminals, and NO_COLOR=1 turns them off.";

/// Federated learning for real fleets: data stays on the devices, only weight deltas travel.
#[derive(Debug, Parser)]
#[command(name = "tributary", version, after_help = AFTER_HELP)]
pub(crate) struct CommandLine {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[cfg(feature = "coordinator")]
    #[command(flatten)]
    Coordinator(CoordinatorCommand),
    /// Creates, follows and controls jobs, and downloads their models.
    #[command(subcommand)]
    Job(JobCommand),
    /// Asks the clients' tables: counts, histograms, means, quantiles, frequent words.
    #[command(subcommand)]
    Analysis(AnalysisCommand),
    /// Releases a model version to the apps of a population, widens or withdraws a release, and lists releases.
    Release(Box<ReleaseArgs>),
    /// Shows the rounds of a job.
    #[command(subcommand)]
    Round(RoundCommand),
    /// Creates, lists and revokes tokens.
    #[command(subcommand)]
    Token(TokenCommand),
    /// Creates, lists and revokes accounts: people who sign in to the dashboard.
    #[command(subcommand)]
    Account(AccountCommand),
    /// Lists, exports and verifies the audit log.
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Creates and lists populations: the clients of one app or model family.
    #[command(subcommand)]
    Population(PopulationCommand),
    /// Runs a client on this machine, or lists the enrolled clients.
    #[command(subcommand)]
    Client(ClientCommand),
    /// Prints the events of a job: transitions of its rounds, their assignments, and its own.
    Events(EventArgs),
    /// Stores a coordinator's address and an operator token, which is asked for, for later commands: in a file that
    /// only you can read.
    Login(LoginArgs),
    /// Forgets the address and token of `login`. The token stays valid.
    Logout,
    /// Prints the completions for a shell, for example: tributary completions bash > /etc/bash_completion.d/tributary
    Completions {
        /// The shell for which it is.
        #[arg(value_enum, value_name = "SHELL")]
        shell: Shell,
    },
    /// Writes a man page for each command, for example: tributary man /usr/local/share/man/man1
    Man {
        /// The folder, which is created.
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
    },
    /// Prints job files to begin with, and writes a table of digits. Needs no coordinator.
    #[command(subcommand)]
    Example(ExampleCommand),
    /// Says what an exported model predicts for each row of a table. Needs no coordinator.
    Predict(PredictArgs),
    /// Lists the coordinators that share the database.
    #[command(subcommand)]
    Node(NodeCommand),
    /// Lists the recurring work of the coordinators.
    #[command(subcommand)]
    Schedule(ScheduleCommand),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use clap::error::ErrorKind;

    use crate::output::Output;

    fn parse(line: &str) -> Result<CommandLine, clap::Error> {
        CommandLine::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_command_line_is_consistent_and_every_option_has_a_sentence() {
        fn check(command: &clap::Command) {
            for argument in command.get_arguments() {
                let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
                let is_ours = !matches!(argument.get_id().as_str(), "help" | "version" if help.starts_with("Print"));
                assert!(!is_ours || help.len() > 10, "{} {}", command.get_name(), argument.get_id());
            }
            command.get_subcommands().for_each(check);
        }
        CommandLine::command().debug_assert();
        check(&CommandLine::command());
    }

    #[test]
    fn a_token_is_for_a_population_or_for_an_operator_and_nothing_else() {
        assert!(parse("tributary token create --operator viewer --valid-for 30d").is_ok());
        assert!(parse("tributary token create --operator viewer --population demo").is_ok());
        assert!(parse("tributary token create --population demo --label phones").is_ok());
        let neither = parse("tributary token create").expect_err("no kind");
        assert_eq!(neither.kind(), ErrorKind::MissingRequiredArgument);
        let both = parse("tributary token create --operator admin --uses 3").expect_err("both kinds");
        assert_eq!(both.kind(), ErrorKind::ArgumentConflict);
        assert_eq!(both.exit_code(), 2);
    }

    #[test]
    fn a_release_is_a_version_of_a_job_or_one_of_its_commands() {
        assert!(parse("tributary release digits 12 --channel beta --share 5%").is_ok());
        assert!(parse("tributary release back --population demo").is_ok());
        assert!(parse("tributary release list --population demo").is_ok());
        assert!(parse("tributary release digits").is_err() && parse("tributary release").is_err());
        assert!(parse("tributary release digits 12 --share 0%").is_err());
    }

    #[test]
    fn a_global_option_may_stand_anywhere_and_a_mistyped_token_is_not_repeated() {
        let url = "https://fl.example.org/a";
        for line in [format!("tributary --server {url} job list"), format!("tributary job list --server {url}")] {
            assert_eq!(parse(&line).unwrap().global.server.unwrap().url().as_str(), url);
        }
        assert!(parse("tributary job list --server ftp://localhost").is_err());
        let wrong = parse("tributary job list --token tributary_operator_5ecret").unwrap();
        assert!(!format!("{wrong:?}").contains("5ecret"));
        let error = wrong.global.operator_api(&Output::of_process(false, 0)).expect_err("too short");
        assert!(!format!("{error} {error:?}").contains("5ecret"));
    }
}
