//! Job files: the description of one job as TOML or JSON, written by an operator.

mod adapt;
mod aggregation;
mod analysis;
mod change;
mod coded;
mod coded_tree;
mod combine;
mod creation;
mod error;
mod evaluation;
mod group;
mod mode;
mod norm;
mod number;
mod optimizer;
mod privacy;
mod schedule;
mod secure;
mod selection;
mod stop;
mod validity;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::analysis::Analysis;
use crate::download::Download;
use crate::id::{ClientId, Name};
use crate::job_model::JobModel;
use crate::layers::ModelSpec;
use crate::plan::{Loss, Training};
use crate::seed::Seed;
use crate::update::Codec;

pub use adapt::Adapt;
pub use aggregation::{Aggregation, Shards};
pub use change::RoundPolicyChange;
pub use coded::Coded;
pub use coded_tree::CodedTree;
pub use combine::{
    AdaptiveClip, CenteredClipping, Combine, GeometricMedian, Krum, MultiKrum, NormClipping, QFedAvg, TrimmedMean,
};
pub use creation::{BATCH_VALUES_MAX, COORDINATOR_VALUES_MAX};
use error::require;
pub use error::{JOB_FILE_BYTES_MAX, JobFileError};
pub use evaluation::{COORDINATOR_PARAMETERS_MAX, EVALUATORS_MAX, EvaluationPlace, EvaluationPolicy, MODELS_MAX};
pub use group::{Every, Group, Links, Order, Topology};
pub use mode::{Buffered, Divisor, Mode, StalenessWeight};
pub use norm::{AdaptiveNorm, NormMax};
pub use optimizer::{BiasCorrection, ServerOptimizer};
pub use privacy::{AdaptiveNoisedClip, Clip, Mechanism, NoiseBuffers, Privacy, Sampling, Unit};
pub use schedule::{CRON_BYTES_MAX, HISTORY_DAYS_MAX, ModelsKept, Retention, Schedule, VERSIONS_MAX};
pub use secure::SecureAggregation;
pub use selection::{Selection, Utility};
pub use stop::StopPolicy;

/// Most clients of one cohort.
pub const COHORT_MAX: u32 = 10_000;
/// Most clients that a job may leave out.
pub const WITHOUT_MAX: usize = 1_000;
/// Largest duration in a setting: 30 days in milliseconds.
pub const DURATION_MS_MAX: u64 = 30 * 24 * 3600 * 1000;

/// A job file: model, clients, training and rounds of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct JobFile {
    /// Name of the job, unique in its population.
    pub name: Name,
    /// Population whose clients train the model.
    pub population: Name,
    /// The example set that clients train on: those draw work that have one of this name. Default: the examples without
    /// a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Name>,
    /// Seed of all random choices of the job. Default: drawn by the coordinator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<Seed>,
    /// The network as layers, or the names and shapes of the parameters of an app's own network; and which parameters
    /// are shared, frozen and personal. An analysis has none: its answers are the model.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub model: JobModel,
    /// Source of model version 0. Default: `random`.
    #[serde(default)]
    pub initial_model: InitialModel,
    /// Local training on a client. An analysis has none.
    #[serde(default, skip_serializing_if = "Training::is_none")]
    pub training: Training,
    /// Encoding and limits of updates.
    #[serde(default)]
    pub update: UpdatePolicy,
    /// Encoding of downloads.
    #[serde(default)]
    pub download: Download,
    /// When a training round opens, closes and is abandoned.
    #[serde(default)]
    pub round: RoundPolicy,
    /// Which clients may train.
    #[serde(default)]
    pub eligibility: Eligibility,
    /// How updates become the next model version.
    #[serde(default)]
    pub aggregation: Aggregation,
    /// Evaluation of the global model, on clients or on the coordinator. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluation: Option<EvaluationPolicy>,
    /// Questions to the clients' tables, in the place of a model that they train. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub analysis: Option<Analysis>,
    /// Differential privacy. Default: none, and models may tell what single clients sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub privacy: Option<Privacy>,
    /// Secure aggregation: the coordinator adds up updates that it cannot read. Default: none, it reads each update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secure_aggregation: Option<SecureAggregation>,
    /// Who adds up the updates: the members of a group among themselves. Default: the coordinator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Group>,
    /// Parts of the data that several clients hold, so that a round does without some of them. Default: none, clients
    /// train on what they have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coded: Option<Coded>,
    /// When the job is complete. Default: never.
    #[serde(default)]
    pub stop: StopPolicy,
    /// When training rounds may start. Default: at any time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
    /// Which model versions and how much history are kept. Default: everything.
    #[serde(default)]
    pub retention: Retention,
}

/// Source of model version 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum InitialModel {
    /// Drawn by the coordinator from the job's seed.
    #[default]
    Random,
    /// Uploaded by the operator. The first round opens after that.
    Upload,
}

/// Encoding and limits of updates (`[update]`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct UpdatePolicy {
    /// Codec of the weight deltas: a name, or a table of a name and settings. Default: `int8`.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::update::WrittenCodec))]
    pub codec: Codec,
    /// Largest weight (number of examples) of one update. Clients cap their weight; the coordinator refuses a larger
    /// one. Default: 10,000.
    pub weight_max: u32,
    /// Largest magnitude of a value of a delta. The coordinator refuses an update with a larger one. Default: 32.
    pub magnitude_max: f32,
    /// Largest L2 norm of a delta: a number, or a table for a bound that follows recent rounds. The coordinator refuses
    /// an update with a larger one. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub norm_max: Option<NormMax>,
}

impl Default for UpdatePolicy {
    fn default() -> Self {
        Self { codec: Codec::default(), weight_max: 10_000, magnitude_max: 32.0, norm_max: None }
    }
}

/// When a training round opens, closes and is abandoned (`[round]`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct RoundPolicy {
    /// When updates meet. Default: `synchronous`. In the other modes, `deadline_ms` is the time of each client, and
    /// `updates_goal`, `updates_min`, `over_selection`, `available_min` and `selection` have no meaning; with
    /// `buffered`, neither has `selection_timeout_ms`.
    #[serde(skip_serializing_if = "Mode::is_synchronous")]
    pub mode: Mode,
    /// Updates after which a round closes before its deadline. Default: 10.
    pub updates_goal: u32,
    /// Fewest updates for a result. A round with fewer at its deadline is abandoned. Default: 5.
    pub updates_min: u32,
    /// Clients drawn per update of the goal, 1 to 10. The surplus makes up for stragglers. Default: 1.3.
    pub over_selection: f64,
    /// Clients that must be available before a cohort is drawn. At least the size of the cohort is always required.
    /// Default: 0.
    pub available_min: u32,
    /// Longest wait for available clients, in milliseconds. Default: 300,000.
    pub selection_timeout_ms: u64,
    /// Time from the draw of the cohort to its deadline, in milliseconds. Later updates do not count. Default: 600,000.
    pub deadline_ms: u64,
    /// Pause after an abandoned round, in milliseconds. It doubles with each further one in a row. Default: 1,000.
    pub backoff_ms: u64,
    /// Longest pause after abandoned rounds, in milliseconds. Default: 600,000.
    pub backoff_max_ms: u64,
    /// Which of the available clients form the cohort. Default: uniform.
    #[serde(skip_serializing_if = "Selection::is_uniform")]
    pub selection: Selection,
    /// Deadlines and cohorts that follow the measured times. Default: none, every round has `deadline_ms`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapt: Option<Adapt>,
}

impl Default for RoundPolicy {
    fn default() -> Self {
        Self {
            mode: Mode::Synchronous,
            updates_goal: 10,
            updates_min: 5,
            over_selection: 1.3,
            available_min: 0,
            selection_timeout_ms: 300_000,
            deadline_ms: 600_000,
            backoff_ms: 1_000,
            backoff_max_ms: 600_000,
            selection: Selection::Uniform,
            adapt: None,
        }
    }
}

impl RoundPolicy {
    /// Most updates of one version: the size of a full cohort, `ceil(goal * over_selection)`, or of the buffer.
    pub fn cohort_size(&self) -> u32 {
        self.buffer().unwrap_or_else(|| cohort_size(self.updates_goal, self.over_selection))
    }

    /// Updates that close a round early: the goal, or the size of the buffer.
    pub fn goal(&self) -> u32 {
        self.buffer().unwrap_or(self.updates_goal)
    }

    /// Fewest updates of a version. Members of a stale-synchronous job may leave.
    pub fn minimum(&self) -> u32 {
        match self.mode {
            Mode::Synchronous => self.updates_min,
            Mode::Buffered { buffer, .. } => buffer,
            Mode::StaleSynchronous { .. } => 1,
        }
    }

    fn buffer(&self) -> Option<u32> {
        self.mode.buffered().map(|buffered| buffered.buffer)
    }
}

fn cohort_size(goal: u32, over_selection: f64) -> u32 {
    // 10 x 1.1 is 11.000000000000002 in binary, which must not round up to 12.
    (f64::from(goal) * over_selection - 1e-9).ceil() as u32
}

/// Eligibility rules: which clients may train (`[eligibility]`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Eligibility {
    /// Attributes that a client must have, with these values. Default: none.
    pub attributes: BTreeMap<String, String>,
    /// Fewest training examples that a client must have. Default: 1.
    pub examples_min: u64,
    /// Rounds that must pass before a client is drawn again. Default: 0, it may be drawn in every round.
    pub separation_rounds: u32,
    /// Clients that take no part, by id, at most 1,000. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<ClientId>,
}

impl Default for Eligibility {
    fn default() -> Self {
        Self { attributes: BTreeMap::new(), examples_min: 1, separation_rounds: 0, without: Vec::new() }
    }
}

fn one() -> f64 {
    1.0
}

impl JobFile {
    /// Whether the job only evaluates models that are there already.
    pub fn only_evaluates(&self) -> bool {
        self.evaluation.as_ref().is_some_and(|evaluation| evaluation.only)
    }

    /// Reads and checks a job file: JSON if the first character is a brace, else TOML.
    ///
    /// # Errors
    /// [`JobFileError`] names the key or layer that is wrong.
    pub fn parse(text: &str) -> Result<Self, JobFileError> {
        if text.len() > JOB_FILE_BYTES_MAX {
            return Err(JobFileError::TooLarge(text.len()));
        }
        let job: Self =
            if text.trim_start().starts_with('{') { serde_json::from_str(text)? } else { toml::from_str(text)? };
        let job = job.completed()?;
        job.check()?;
        Ok(job)
    }

    /// The job as a file that [`Self::parse`] reads: TOML, or JSON if a number exceeds TOML's signed 64-bit integers.
    pub fn text(&self) -> String {
        let json = || serde_json::to_string_pretty(self).expect("a job file has no map with keys that JSON lacks");
        toml::to_string(self).unwrap_or_else(|_| json())
    }

    /// Checks what the types do not: the shapes of the model, numbers in range, settings that depend on each other.
    ///
    /// # Errors
    /// [`JobFileError`] names the first setting that fails.
    pub fn check(&self) -> Result<(), JobFileError> {
        self.check_analysis()?;
        self.model.parts()?;
        if self.analysis.is_none() {
            self.training.check()?;
        }
        let readable = "a text of at most 1000 bytes";
        require(self.model.has_readable_license(), "[model] license", readable)?;
        if let Some(inputs) = &self.model.inputs {
            inputs.check(&self.model.spec, self.training.loss)?;
        }
        self.update.check()?;
        let download = "false with this codec: model deltas lead from one f32 model to the next";
        require(self.download.is_consistent(), "[download] delta", download)?;
        self.round.check()?;
        let few = self.eligibility.without.len() <= WITHOUT_MAX;
        require(few, "[eligibility] without", "at most 1000 clients")?;
        self.aggregation.check()?;
        if let Some(evaluation) = &self.evaluation {
            evaluation.check()?;
            evaluation.check_place(self)?;
            evaluation.check_only(self)?;
        }
        if let Some(schedule) = &self.schedule {
            schedule.check()?;
        }
        self.retention.check()?;
        self.stop.check(self.evaluation.is_some())?;
        self.check_together()?;
        self.check_loss()?;
        validity::check(self)
    }

    /// Checks how updates meet: with noise, under masks, or in groups that add up among themselves.
    fn check_together(&self) -> Result<(), JobFileError> {
        if let Some(privacy) = &self.privacy {
            privacy.check(self)?;
        }
        if let Some(secure) = &self.secure_aggregation {
            secure.check(self)?;
        }
        if let Some(group) = &self.group {
            group.check(self)?;
        }
        if let Some(coded) = &self.coded {
            coded.check(self)?;
        }
        self.aggregation.check_shards(self)
    }

    /// Lists of layers are trained by the SDK, which computes no loss of an app.
    fn check_loss(&self) -> Result<(), JobFileError> {
        let is_other = self.training.loss == Loss::Other;
        let has_layers = matches!(self.model.spec, ModelSpec::Layers(_));
        let known = "\"cross_entropy\" or \"mse\" for a list of layers: \"other\" is a loss of an app's own trainer";
        require(!(is_other && has_layers), "[training] loss", known)?;
        let counted = "left out with the loss \"other\", which counts no classes; a [stop] metric can be measured";
        require(!is_other || self.stop.accuracy.is_none(), "[stop] accuracy", counted)
    }
}

impl UpdatePolicy {
    fn check(&self) -> Result<(), JobFileError> {
        self.codec.check()?;
        require((1..=1 << 24).contains(&self.weight_max), "[update] weight_max", "1 to 16777216")?;
        let magnitude = self.magnitude_max > 0.0 && self.magnitude_max <= 1e6;
        require(magnitude, "[update] magnitude_max", "above 0 and at most 1e6")?;
        self.norm_max.map_or(Ok(()), |norm_max| norm_max.check())
    }
}

impl RoundPolicy {
    fn check(&self) -> Result<(), JobFileError> {
        self.mode.check()?;
        check_counts(
            self.updates_goal,
            self.updates_min,
            self.over_selection,
            ["[round] updates_goal", "[round] updates_min", "[round] over_selection"],
        )?;
        require(self.available_min <= 10 * COHORT_MAX, "[round] available_min", "at most 100000")?;
        check_duration(self.selection_timeout_ms, "[round] selection_timeout_ms")?;
        check_duration(self.deadline_ms, "[round] deadline_ms")?;
        check_duration(self.backoff_ms, "[round] backoff_ms")?;
        check_duration(self.backoff_max_ms, "[round] backoff_max_ms")?;
        if let Some(adapt) = &self.adapt {
            adapt.check(DURATION_MS_MAX, self.updates_min..=self.updates_goal)?;
        }
        self.selection.check(self.cohort_size())
    }
}

fn check_counts(goal: u32, minimum: u32, over_selection: f64, names: [&'static str; 3]) -> Result<(), JobFileError> {
    require((1..=COHORT_MAX).contains(&goal), names[0], "1 to 10000")?;
    require((1..=goal).contains(&minimum), names[1], "at least 1 and at most the goal")?;
    let fits = (1.0..=10.0).contains(&over_selection) && cohort_size(goal, over_selection) <= COHORT_MAX;
    require(fits, names[2], "1 to 10, and the cohort at most 10000 clients")
}

fn check_duration(duration_ms: u64, name: &'static str) -> Result<(), JobFileError> {
    require((1..=DURATION_MS_MAX).contains(&duration_ms), name, "1 ms to 30 days")
}

#[cfg(test)]
mod tests;
