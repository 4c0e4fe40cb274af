//! The commands that ask a coordinator, with their options.

use std::convert::Infallible;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{ArgGroup, Args, Subcommand};
use reqwest::Url;
use tributary_protocol::id::{Name, TokenId};
use tributary_protocol::state::Task;

use crate::client_run::ClientRunArgs;
use crate::format::parse_duration_ms;

/// `tributary job ..`
#[derive(Debug, Subcommand)]
pub(crate) enum JobCommand {
    /// Creates a job from a TOML or JSON file; it starts as soon as it has a model and clients.
    Create(JobCreateArgs),
    /// Lists jobs.
    List {
        /// Only jobs of this population.
        #[arg(long, value_name = "NAME")]
        population: Option<Name>,
        /// How much of the list.
        #[command(flatten)]
        limit: LimitArgs,
    },
    /// Shows a job and its last rounds.
    Show(JobArgs),
    /// Follows a job until it ends: a progress bar on a terminal, else one line per round.
    Watch {
        /// Which job.
        #[command(flatten)]
        job: JobArgs,
        /// Shows this many rounds of before at the start.
        #[arg(long, default_value_t = 10, value_name = "ROUNDS")]
        last: u32,
    },
    /// Finishes the open round and opens no other until the job is resumed.
    Pause(JobArgs),
    /// Goes on with a paused job.
    Resume(JobArgs),
    /// Ends a job for good; its model versions stay.
    Stop(JobArgs),
    /// Downloads a model version as a safetensors file and checks its SHA-256, or exports the figures of the rounds: as a
    /// table, to MLflow, or for TensorBoard.
    Export(Box<JobExportArgs>),
}

/// Which job.
#[derive(Clone, Debug, Args)]
pub(crate) struct JobArgs {
    /// The job's id or name.
    #[arg(value_name = "JOB")]
    pub(crate) job: String,
    /// The job's population, where several have a job of this name.
    #[arg(long, value_name = "NAME")]
    pub(crate) population: Option<Name>,
}

/// `tributary job create`
#[derive(Debug, Args)]
pub(crate) struct JobCreateArgs {
    /// The job file; `-` reads standard input. A mistake is named before anything is sent.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Model version 0, for a job file that says `initial_model = "upload"`.
    #[arg(long, value_name = "MODEL.safetensors")]
    pub(crate) initial_model: Option<PathBuf>,
}

/// `tributary job export`
#[derive(Debug, Args)]
pub(crate) struct JobExportArgs {
    /// Which job.
    #[command(flatten)]
    pub(crate) job: JobArgs,
    /// The model version; the newest unless given.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) version: Option<u32>,
    /// Where to write; JOB-vVERSION.safetensors in the working directory unless given. An existing file is replaced.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Figures of the rounds; with them, the model is only downloaded when --version or --output asks for it.
    #[command(flatten)]
    pub(crate) sinks: MetricsSinks,
}

impl JobExportArgs {
    /// Whether a model is wanted, too.
    pub(crate) fn wants_model(&self) -> bool {
        !self.sinks.any() || self.version.is_some() || self.output.is_some()
    }
}

/// Where the figures of rounds go.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Figures of the rounds")]
pub(crate) struct MetricsSinks {
    /// Writes a row per training round to this file, whose name ends in .csv or .json.
    #[arg(long, value_name = "FILE")]
    pub(crate) metrics: Option<PathBuf>,
    /// Writes an event file for TensorBoard in a folder of the job's below this one (`tensorboard --logdir DIR`).
    #[arg(long, value_name = "DIR")]
    pub(crate) tensorboard: Option<PathBuf>,
    /// Writes a run to this MLflow server; exported again, the same run gets what is new.
    #[arg(long, value_name = "URL", value_parser = parse_mlflow)]
    pub(crate) mlflow: Option<Url>,
    /// The experiment of the run; made where it is missing.
    #[arg(long, value_name = "NAME", env = "MLFLOW_EXPERIMENT_NAME", default_value = "tributary")]
    pub(crate) experiment: String,
    /// A bearer token for MLflow, where it wants one.
    #[arg(long, value_name = "TOKEN", env = "MLFLOW_TRACKING_TOKEN", hide_env_values = true)]
    pub(crate) mlflow_token: Option<SecretArgument>,
    /// Goes on until the job ends.
    #[arg(long)]
    pub(crate) follow: bool,
}

impl MetricsSinks {
    /// Whether figures are wanted at all.
    pub(crate) fn any(&self) -> bool {
        self.metrics.is_some() || self.tensorboard.is_some() || self.mlflow.is_some()
    }
}

/// A secret of another service: `Debug` does not show it.
#[derive(Clone)]
pub(crate) struct SecretArgument(String);

impl SecretArgument {
    /// The secret.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl FromStr for SecretArgument {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for SecretArgument {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SecretArgument(..)")
    }
}

fn parse_mlflow(text: &str) -> Result<Url, String> {
    let url: Url = text.parse().map_err(|error| format!("{error}"))?;
    let is_http = matches!(url.scheme(), "http" | "https");
    if is_http { Ok(url) } else { Err("it must be the http:// or https:// address of an MLflow server".into()) }
}

/// `tributary round ..`
#[derive(Debug, Subcommand)]
pub(crate) enum RoundCommand {
    /// Lists the newest rounds of a job, oldest of them first.
    List {
        /// Which job.
        #[command(flatten)]
        job: JobArgs,
        /// `train` or `evaluate`.
        #[arg(long, default_value = "train", value_name = "TASK")]
        task: Task,
        /// How much of the list.
        #[command(flatten)]
        limit: LimitArgs,
    },
    /// Shows one round: who was assigned, what became of it, and why.
    Show {
        /// Which job.
        #[command(flatten)]
        job: JobArgs,
        /// The round's number, from 1.
        #[arg(value_name = "NUMBER")]
        round: u32,
        /// `train` or `evaluate`.
        #[arg(long, default_value = "train", value_name = "TASK")]
        task: Task,
    },
}

/// `tributary token ..`
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Makes a token and shows its secret, this once.
    #[command(group(ArgGroup::new("kind").required(true)))]
    Create {
        /// An enrolment token: apps that carry it may enrol clients in this population.
        #[arg(long, value_name = "NAME", group = "kind")]
        population: Option<Name>,
        /// An operator token: whoever has it may do everything.
        #[arg(long, group = "kind")]
        operator: bool,
        /// What it is for, for people.
        #[arg(long, default_value = "", value_name = "TEXT")]
        label: String,
        /// How long it works (30d, 12h, 90min); for ever unless given.
        #[arg(long, value_name = "DURATION", value_parser = parse_duration_ms)]
        valid_for: Option<u64>,
    },
    /// Lists tokens, without their secrets.
    List {
        /// How much of the list.
        #[command(flatten)]
        limit: LimitArgs,
    },
    /// Makes a token stop working. Clients that were enrolled with it stay enrolled.
    Revoke {
        /// The token's id (not its secret), as `token list` shows it.
        #[arg(value_name = "ID")]
        id: TokenId,
    },
}

/// `tributary population ..`
#[derive(Debug, Subcommand)]
pub(crate) enum PopulationCommand {
    /// Makes a population.
    Create {
        /// Its name: 1 to 64 letters, digits, `-`, `_` and `.`.
        #[arg(value_name = "NAME")]
        name: Name,
    },
    /// Lists populations.
    List {
        /// How much of the list.
        #[command(flatten)]
        limit: LimitArgs,
    },
}

/// `tributary node ..`
#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// Lists coordinators with their leases.
    List {
        /// How much of the list.
        #[command(flatten)]
        limit: LimitArgs,
    },
}

/// `tributary client ..`
#[derive(Debug, Subcommand)]
pub(crate) enum ClientCommand {
    /// Takes part in rounds with examples from a table or from IDX files, until Ctrl-C.
    Run(Box<ClientRunArgs>),
    /// Lists the clients of a population.
    List {
        /// Whose clients.
        #[arg(long, value_name = "NAME")]
        population: Name,
        /// How much of the list.
        #[command(flatten)]
        limit: LimitArgs,
    },
}

/// `tributary schedule ..`
#[derive(Debug, Subcommand)]
pub(crate) enum ScheduleCommand {
    /// Lists scheduled work: retention and upkeep, with the last run and the next one.
    List {
        /// How much of the list.
        #[command(flatten)]
        limit: LimitArgs,
    },
}

/// How much of a list.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct LimitArgs {
    /// Shows at most this many items; 0 shows all.
    #[arg(long, default_value_t = 100, value_name = "ITEMS")]
    limit: usize,
}

impl LimitArgs {
    /// Most items wanted; nothing for all.
    pub(crate) fn items_max(self) -> Option<usize> {
        (self.limit > 0).then_some(self.limit)
    }
}
