//! `tributary job ..`: the commands and their options.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use tributary_protocol::id::{ClientId, Name};
use tributary_protocol::sealed::Sealed;

use crate::options::{LimitArgs, ReverseArgs};
use crate::table::Missing;
use crate::units::{HttpUrl, HumanDuration};

/// What a list of jobs is sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum JobSort {
    /// The newest first.
    Newest,
    /// By name.
    Name,
    /// By state: those that wait and run first, those that have ended last.
    State,
    /// By health: the most urgent first.
    Health,
    /// By population, then by name.
    Population,
    /// By committed rounds: the most first.
    Rounds,
    /// By parameters: the most first.
    Parameters,
}

#[derive(Debug, Subcommand)]
pub(crate) enum JobCommand {
    /// Creates a job from a TOML or JSON file; it starts as soon as it has a model and clients.
    Create(JobCreateArgs),
    /// Lists jobs.
    List {
        /// Only jobs of this population.
        #[arg(long, value_name = "NAME")]
        population: Option<Name>,
        /// Only jobs with this tag.
        #[arg(long, value_name = "TAG")]
        tag: Option<Name>,
        /// Archived jobs too.
        #[arg(long)]
        archived: bool,
        /// What the list is sorted by.
        #[arg(long, value_name = "KEY", default_value = "newest")]
        sort: JobSort,
        #[command(flatten)]
        reverse: ReverseArgs,
        #[command(flatten)]
        limit: LimitArgs,
    },
    /// Has the coordinator check a job file, and shows the layers of its model. Nothing is created.
    Check {
        /// The job file; `-` reads standard input.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Shows a job and its last rounds.
    Show(JobArgs),
    /// Follows a job until it ends: with a progress bar on a terminal, else with one line per round.
    Watch {
        #[command(flatten)]
        job: JobArgs,
        /// Begins with this many past rounds.
        #[arg(long, default_value_t = 10, value_name = "ROUNDS")]
        last: u32,
    },
    /// Shows the metrics that the job's clients report beside loss and accuracy, such as AUC: the newest mean of each,
    /// weighted by examples, and its distribution over the clients.
    Metrics(JobArgs),
    /// Shows the clients of a buffered or stale-synchronous job whose updates are the most versions behind, and the
    /// share of their weight that this took: the 20 stalest of the newest 20,000 updates.
    Stale(JobArgs),
    /// Shows the results of jobs side by side, and the settings that differ.
    Compare(JobCompareArgs),
    /// Trains a job again without some clients, from before their first update: what a model has learned of a client
    /// can be taken away in no other way. Says what that costs; --yes creates the job.
    Rerun(JobRerunArgs),
    /// Creates a job that only evaluates: some versions of a job, at each of its clients, without any training.
    Evaluate(JobEvaluateArgs),
    /// Shows what each client measured of each model, of a job that only evaluates: with the number of examples and the
    /// 95 % interval, or the reason why there is no result.
    Sites(JobArgs),
    /// Prints the job's file as TOML, to read it or to create another job from it.
    File(JobArgs),
    /// Shows the job's round policy, or changes it from the next round on.
    Policy(JobPolicyArgs),
    /// The examples on which the coordinator evaluates new versions.
    TestSet {
        #[command(subcommand)]
        command: TestSetCommand,
    },
    /// Lets the open round finish and opens no other until the job is resumed.
    Pause(JobArgs),
    /// Resumes a paused job.
    Resume(JobArgs),
    /// Ends a job for good; its model versions stay.
    Stop(JobArgs),
    /// Gives a job another name.
    Rename(JobRenameArgs),
    /// Adds tags to a job or removes them; without any, shows those that it has.
    Tag(JobTagArgs),
    /// Stores notes about a job; without a text, shows them.
    Note(JobNoteArgs),
    /// Leaves a job that has ended out of the lists.
    Archive(JobArchiveArgs),
    /// Deletes a job that has ended, with its rounds and model versions. Needs the role admin.
    Delete(JobDeleteArgs),
    /// Lists the versions of a job's model, the newest first, with the results of their evaluation.
    Versions(JobVersionsArgs),
    /// Keeps a model version whatever the retention of its job says.
    Pin(JobPinArgs),
    /// Leaves a pinned model version to the retention of its job again.
    Unpin(JobPinArgs),
    /// Downloads a model version as a safetensors file and checks its SHA-256, or exports the metrics of the rounds: as
    /// a table, to MLflow, or for TensorBoard. With metrics, the model is downloaded only if --version or --output is
    /// given.
    Export(Box<JobExportArgs>),
}

/// Which job.
#[derive(Clone, Debug, Args)]
pub(crate) struct JobArgs {
    /// The job's id or name.
    #[arg(value_name = "JOB")]
    pub(crate) job: String,
    /// The job's population, where several populations have a job of this name.
    #[arg(long, value_name = "NAME")]
    pub(crate) population: Option<Name>,
}

#[derive(Debug, Args)]
pub(crate) struct JobRerunArgs {
    #[command(flatten)]
    pub(crate) job: JobArgs,
    /// Id of a client that takes no part. May be repeated.
    #[arg(long, value_name = "CLIENT", required = true)]
    pub(crate) without: Vec<ClientId>,
    /// The version to begin with [default: the newest one in which none of the clients has a part].
    #[arg(long, value_name = "VERSION")]
    pub(crate) from: Option<u32>,
    /// Name of the new job [default: the job's name and `-rerun`].
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<Name>,
    /// Creates the job.
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct JobEvaluateArgs {
    #[command(flatten)]
    pub(crate) job: JobArgs,
    /// The versions, 1 to 20.
    #[arg(value_name = "VERSION", num_args = 1.., required = true)]
    pub(crate) versions: Vec<u32>,
    /// Name of the new job [default: the job's name, `-versions-` and the versions].
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<Name>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TestSetCommand {
    /// Uploads the test set of a job whose file says `[evaluation] where = "coordinator"`. It replaces an earlier one:
    /// accuracies of versions that were evaluated on another test set do not compare.
    Upload(Box<UploadArgs>),
    /// Shows the test set of a job.
    Show(JobArgs),
}

#[derive(Debug, Args)]
pub(crate) struct UploadArgs {
    #[command(flatten)]
    pub(crate) job: JobArgs,
    /// A safetensors file with the tensors `inputs` and `labels`, or a table (CSV) as `tributary client run` reads it.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The target's column of a table: a name, or a number from 0 [default: the last column].
    #[arg(long, value_name = "COLUMN")]
    pub(crate) target_column: Option<String>,
    /// The target is a number to be predicted, not a class.
    #[arg(long)]
    pub(crate) regression: bool,
    /// Text labels by class, as the clients have them: the first is class 0.
    #[arg(long, value_name = "LABELS", value_delimiter = ',', conflicts_with = "regression")]
    pub(crate) label_map: Option<Vec<String>>,
    /// What becomes of missing values: mean (of the column), or drop (the line is left out) [default: refused].
    #[arg(long, value_name = "mean|drop")]
    pub(crate) missing: Option<Missing>,
    /// Shifts and scales each column of inputs to a mean of 0 and a variance of 1, as clients with `--standardize` do.
    #[arg(long, conflicts_with = "input_scale")]
    pub(crate) standardize: bool,
    /// Each input is multiplied by this, as the clients' are.
    #[arg(long, value_name = "FACTOR")]
    pub(crate) input_scale: Option<f32>,
}

#[derive(Debug, Args)]
pub(crate) struct JobCompareArgs {
    /// Ids or names of two jobs or more.
    #[arg(value_name = "JOB", num_args = 2.., required = true)]
    pub(crate) jobs: Vec<String>,
    /// The population of jobs that are given by name, where several populations have jobs of these names.
    #[arg(long, value_name = "NAME")]
    pub(crate) population: Option<Name>,
}

#[derive(Debug, Args)]
pub(crate) struct JobRenameArgs {
    #[command(flatten)]
    pub(crate) job: JobArgs,
    /// The new name, unique in the population.
    #[arg(value_name = "NAME")]
    pub(crate) name: Name,
}

#[derive(Debug, Args)]
pub(crate) struct JobTagArgs {
    #[command(flatten)]
    pub(crate) job: JobArgs,
    /// Tags to add: letters, digits, `-`, `_` and `.`.
    #[arg(value_name = "TAG")]
    pub(crate) tags: Vec<Name>,
    /// A tag to remove. Repeatable.
    #[arg(long, value_name = "TAG")]
    pub(crate) remove: Vec<Name>,
}

#[derive(Debug, Args)]
pub(crate) struct JobNoteArgs {
    #[command(flatten)]
    pub(crate) job: JobArgs,
    /// The notes, which replace the present ones; an empty text removes them.
    #[arg(value_name = "TEXT")]
    pub(crate) text: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct JobArchiveArgs {
    #[command(flatten)]
    pub(crate) job: JobArgs,
    /// Brings an archived job back.
    #[arg(long)]
    pub(crate) undo: bool,
}

#[derive(Debug, Args)]
pub(crate) struct JobDeleteArgs {
    #[command(flatten)]
    pub(crate) job: JobArgs,
    /// Deletes without asking for the job's name.
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct JobVersionsArgs {
    #[command(flatten)]
    pub(crate) job: JobArgs,
    #[command(flatten)]
    pub(crate) limit: LimitArgs,
}

#[derive(Debug, Args)]
pub(crate) struct JobPinArgs {
    #[command(flatten)]
    pub(crate) job: JobArgs,
    /// Number of the version.
    #[arg(value_name = "VERSION")]
    pub(crate) version: u32,
}

#[derive(Debug, Args)]
pub(crate) struct JobPolicyArgs {
    #[command(flatten)]
    pub(crate) job: JobArgs,
    /// Updates that close a round before its deadline.
    #[arg(long, value_name = "UPDATES")]
    pub(crate) updates_goal: Option<u32>,
    /// A round with fewer updates at its deadline is abandoned.
    #[arg(long, value_name = "UPDATES")]
    pub(crate) updates_min: Option<u32>,
    /// Clients selected per update of the goal.
    #[arg(long, value_name = "FACTOR")]
    pub(crate) over_selection: Option<f64>,
    /// Clients that must be available before a cohort is selected.
    #[arg(long, value_name = "CLIENTS")]
    pub(crate) available_min: Option<u32>,
    /// How long a round waits for available clients (90s, 5min).
    #[arg(long, value_name = "DURATION")]
    pub(crate) selection_timeout: Option<HumanDuration>,
    /// Time from the selection of the cohort to the end of the round.
    #[arg(long, value_name = "DURATION")]
    pub(crate) deadline: Option<HumanDuration>,
    /// Pause after an abandoned round; it doubles with each further one.
    #[arg(long, value_name = "DURATION")]
    pub(crate) backoff: Option<HumanDuration>,
    /// Longest pause after abandoned rounds.
    #[arg(long, value_name = "DURATION")]
    pub(crate) backoff_max: Option<HumanDuration>,
}

#[derive(Debug, Args)]
pub(crate) struct JobCreateArgs {
    /// The job file; `-` reads standard input. It is checked before anything is sent.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Model version 0, for a job file that says `initial_model = "upload"`.
    #[arg(long, value_name = "MODEL.safetensors")]
    pub(crate) initial_model: Option<PathBuf>,
    /// Lets the coordinator check the file and creates nothing, as `job check`.
    #[arg(long, conflicts_with = "initial_model")]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct JobExportArgs {
    #[command(flatten)]
    pub(crate) job: JobArgs,
    /// The model version [default: the newest].
    #[arg(long, value_name = "NUMBER")]
    pub(crate) version: Option<u32>,
    /// The version with the best evaluation: the highest lower bound of its accuracy, or without accuracies the lowest
    /// loss.
    #[arg(long, conflicts_with = "version")]
    pub(crate) best: bool,
    /// Form of the file: f32 is the model itself, f16 is rounded, and onnx is the network with its model for ONNX
    /// Runtime and others.
    #[arg(long, value_enum, value_name = "FORM", default_value_t = ExportForm::F32)]
    pub(crate) form: ExportForm,
    /// Where to write [default: JOB-vVERSION.safetensors in the working directory, JOB-vVERSION-f16.safetensors or
    /// JOB-vVERSION.onnx]. An existing file is replaced.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) sinks: MetricsSinks,
}

impl JobExportArgs {
    /// Metrics alone do not download a model.
    pub(crate) fn wants_model(&self) -> bool {
        !self.sinks.any()
            || self.version.is_some()
            || self.best
            || self.form != ExportForm::F32
            || self.output.is_some()
    }
}

/// Form of an exported model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportForm {
    /// A safetensors file of 32-bit values.
    F32,
    /// A safetensors file of half precision.
    F16,
    /// An ONNX file, for networks that are lists of layers.
    Onnx,
}

impl ExportForm {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Onnx => "onnx",
        }
    }
}

/// Where the metrics of rounds go.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Metrics of the rounds")]
pub(crate) struct MetricsSinks {
    /// Writes a table with a row per training round; the name of the file ends in .csv or .json.
    #[arg(long, value_name = "FILE")]
    pub(crate) metrics: Option<PathBuf>,
    /// Writes an event file for TensorBoard into a folder per job in this one (`tensorboard --logdir DIR`).
    #[arg(long, value_name = "DIR")]
    pub(crate) tensorboard: Option<PathBuf>,
    /// Writes a run to this MLflow server. A repeated export adds to the same run.
    #[arg(long, value_name = "URL")]
    pub(crate) mlflow: Option<HttpUrl>,
    /// The experiment of the run; it is created if it does not exist.
    #[arg(long, value_name = "NAME", env = "MLFLOW_EXPERIMENT_NAME", default_value = "tributary")]
    pub(crate) experiment: String,
    /// A bearer token for an MLflow server that asks for one.
    #[arg(long, value_name = "TOKEN", env = "MLFLOW_TRACKING_TOKEN", hide_env_values = true)]
    pub(crate) mlflow_token: Option<Sealed<String>>,
    /// Exports further rounds until the job ends.
    #[arg(long)]
    pub(crate) follow: bool,
}

impl MetricsSinks {
    pub(crate) fn any(&self) -> bool {
        self.metrics.is_some() || self.tensorboard.is_some() || self.mlflow.is_some()
    }
}
