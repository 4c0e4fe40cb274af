//! The command line: every option with its sentence, so that `--help` is the reference.

mod commands;

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand};
use reqwest::Url;
use tributary_protocol::id::{Secret, SecretKind};

use crate::backup::{BackupArgs, RestoreArgs};
use crate::bench::BenchCommand;
use crate::demo::args::DemoArgs;
use crate::error::CliError;
use crate::serve::ServeArgs;

pub(crate) use commands::{
    ClientCommand, JobArgs, JobCommand, JobCreateArgs, JobExportArgs, JobPolicyArgs, LimitArgs, MetricsSinks,
    NodeCommand, PopulationCommand, RoundCommand, ScheduleCommand, SecretArgument, TokenCommand,
};

/// What `--help` says below the options.
const AFTER_HELP: &str = "\
Exit codes:
  0  done
  1  failed
  2  the command line is wrong
  3  there is no such job, round, token or version
  4  the coordinator refused
  5  the coordinator is unreachable or cannot answer now

With --json, results are JSON objects on standard output, one per line; messages for people stay on standard error.";

/// Federated learning for real fleets: data stays on the devices, only weight deltas travel.
#[derive(Debug, Parser)]
#[command(name = "tributary", version, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    /// Options that every command understands.
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options that every command understands.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct GlobalArgs {
    /// The coordinator's address.
    #[arg(long, global = true, env = "TRIBUTARY_SERVER", value_name = "URL")]
    #[arg(default_value = "http://127.0.0.1:7300", value_parser = parse_server)]
    pub(crate) server: Url,
    /// The credential: an operator token, or for `client run` an enrolment token. Prefer the environment variable: other
    /// users of the machine can see command lines.
    #[arg(long, global = true, env = "TRIBUTARY_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    pub(crate) token: Option<TokenText>,
    /// Prints JSON objects, one per line, instead of text.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Starts a coordinator and clients on this machine and trains a model on real data, to show how it works.
    Demo(DemoArgs),
    /// Serves as coordinator until Ctrl-C or a SIGTERM.
    Serve(ServeArgs),
    /// Creates, watches and steers jobs, and downloads their models.
    #[command(subcommand)]
    Job(JobCommand),
    /// Shows the rounds of a job.
    #[command(subcommand)]
    Round(RoundCommand),
    /// Makes and revokes tokens.
    #[command(subcommand)]
    Token(TokenCommand),
    /// Makes and lists populations: the clients of one app or model family.
    #[command(subcommand)]
    Population(PopulationCommand),
    /// Runs a client on this machine, and lists enrolled ones.
    #[command(subcommand)]
    Client(ClientCommand),
    /// Shows the coordinators that share the database, and which jobs each drives.
    #[command(subcommand)]
    Node(NodeCommand),
    /// Shows what the coordinators do by the clock.
    #[command(subcommand)]
    Schedule(ScheduleCommand),
    /// Saves a SQLite database in a file, also while a coordinator serves it.
    Backup(BackupArgs),
    /// Makes a SQLite database of a backup.
    Restore(RestoreArgs),
    /// Measures this build on this machine.
    #[command(subcommand)]
    Bench(BenchCommand),
}

/// A token as it was typed. Checked only when it is used, so that clap cannot repeat it in an error message.
#[derive(Clone)]
pub(crate) struct TokenText(String);

impl FromStr for TokenText {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for TokenText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("TokenText(..)")
    }
}

impl GlobalArgs {
    /// The token, if there is one, checked to be of the kind that the command needs.
    ///
    /// # Errors
    /// When it is no token, or one of another kind.
    pub(crate) fn secret(&self, needed: SecretKind) -> Result<Option<Secret>, CliError> {
        self.token.as_ref().map(|token| token.secret(needed)).transpose()
    }
}

impl TokenText {
    /// The token, checked to be of the kind that is needed.
    ///
    /// # Errors
    /// When it is no token, or one of another kind.
    pub(crate) fn secret(&self, needed: SecretKind) -> Result<Secret, CliError> {
        let secret: Secret = self.0.trim().parse().map_err(CliError::BadToken)?;
        if secret.kind() == needed {
            return Ok(secret);
        }
        Err(CliError::WrongToken { needed: kind_name(needed), given: kind_name(secret.kind()) })
    }
}

fn kind_name(kind: SecretKind) -> &'static str {
    match kind {
        SecretKind::Operator => "an operator",
        SecretKind::Enrolment => "an enrolment",
        SecretKind::Client => "a client's own",
    }
}

fn parse_server(text: &str) -> Result<Url, String> {
    let url: Url = text.parse().map_err(|error| format!("{error}"))?;
    match url.scheme() {
        "http" | "https" if url.query().is_none() && url.fragment().is_none() => Ok(url),
        _ => Err("it must be http://HOST:PORT or https://HOST, without `?` and `#`".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use clap::error::ErrorKind;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
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
        Cli::command().debug_assert();
        check(&Cli::command());
    }

    #[test]
    fn a_token_is_for_a_population_or_for_an_operator_and_nothing_else() {
        assert!(parse("tributary token create --operator --valid-for 30d").is_ok());
        assert!(parse("tributary token create --population demo --label phones").is_ok());
        let neither = parse("tributary token create").expect_err("no kind");
        assert_eq!(neither.kind(), ErrorKind::MissingRequiredArgument);
        let both = parse("tributary token create --operator --population demo").expect_err("both kinds");
        assert_eq!(both.kind(), ErrorKind::ArgumentConflict);
        assert_eq!(both.exit_code(), 2);
    }

    #[test]
    fn a_server_is_an_http_url() {
        let server = |url: &str| parse(&format!("tributary --server {url} job list"));
        assert_eq!(server("https://fl.example.org/a").unwrap().global.server.path(), "/a");
        for wrong in ["localhost:7300", "ftp://x", "http://", "http://x/?a=b"] {
            assert!(server(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_mistyped_token_is_not_repeated() {
        let wrong = parse("tributary job list --token tributary_operator_5ecret").unwrap();
        assert!(!format!("{wrong:?}").contains("5ecret"));
        let error = wrong.global.secret(SecretKind::Operator).expect_err("too short");
        assert!(!format!("{error} {error:?}").contains("5ecret"));
    }

    #[test]
    fn an_enrolment_token_is_told_apart_from_an_operators() {
        let text = Secret::from_random(SecretKind::Enrolment, [7; 32]).expose();
        let cli = parse(&format!("tributary job list --token {text}")).unwrap();
        assert!(cli.global.secret(SecretKind::Enrolment).unwrap().is_some());
        let error = cli.global.secret(SecretKind::Operator).expect_err("of another kind");
        assert_eq!(error.to_string(), "this command needs an operator token, and the given one is an enrolment token");
    }
}
