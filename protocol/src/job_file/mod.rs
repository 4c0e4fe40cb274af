//! What an operator writes: one job as TOML or JSON, the same types for both.

mod change;
mod schedule;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::download::Download;
use crate::id::Name;
use crate::layers::{ModelSpec, ModelSpecError};
use crate::plan::{Training, TrainingError};
use crate::seed::Seed;
use crate::update::{Codec, CodecError};

pub use change::RoundPolicyChange;
pub use schedule::{CRON_BYTES_MAX, HISTORY_DAYS_MAX, ModelsKept, Retention, Schedule, VERSIONS_MAX};

/// Largest job file in bytes.
pub const JOB_FILE_BYTES_MAX: usize = 256 * 1024;
/// Most clients of one cohort.
pub const COHORT_MAX: u32 = 10_000;
/// Longest time that a setting may name: 30 days in milliseconds.
pub const DURATION_MS_MAX: u64 = 30 * 24 * 3600 * 1000;

/// A job: what is learned, by whom, how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct JobFile {
    /// The job's name, unique in its population.
    pub name: Name,
    /// Whose clients learn it.
    pub population: Name,
    /// Every random choice of the job derives from it; drawn by the coordinator when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<Seed>,
    /// The network, or the names and shapes of an app's own.
    pub model: ModelSpec,
    /// Where model version 0 comes from.
    #[serde(default)]
    pub initial_model: InitialModel,
    /// Local training.
    pub training: Training,
    /// How updates travel and what they may be.
    #[serde(default)]
    pub update: UpdatePolicy,
    /// How models travel to the clients.
    #[serde(default)]
    pub download: Download,
    /// When a round opens, closes and gives up.
    #[serde(default)]
    pub round: RoundPolicy,
    /// Who may take part.
    #[serde(default)]
    pub eligibility: Eligibility,
    /// How updates become the next version.
    #[serde(default)]
    pub aggregation: Aggregation,
    /// Measuring the global model on clients; none when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluation: Option<EvaluationPolicy>,
    /// When the job is complete; it goes on for ever when left out.
    #[serde(default)]
    pub stop: StopPolicy,
    /// When rounds may start; at any time when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
    /// What is kept of the job's models and rounds.
    #[serde(default)]
    pub retention: Retention,
}

/// Where model version 0 comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum InitialModel {
    /// Drawn by the coordinator from the job's seed.
    #[default]
    Random,
    /// Uploaded by the operator before the first round.
    Upload,
}

/// How updates travel and what they may be (`[update]`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct UpdatePolicy {
    /// How weight deltas are encoded: a name, or a table with a name and settings.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::update::WrittenCodec))]
    pub codec: Codec,
    /// Largest weight (number of examples) of one update: clients cap theirs, the coordinator refuses more.
    pub weight_max: u32,
    /// Largest absolute value of one element of a delta: beyond it an update is refused.
    pub magnitude_max: f32,
}

impl Default for UpdatePolicy {
    fn default() -> Self {
        Self { codec: Codec::default(), weight_max: 10_000, magnitude_max: 32.0 }
    }
}

/// When a round opens, closes and gives up (`[round]`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct RoundPolicy {
    /// Updates that close a round early.
    pub updates_goal: u32,
    /// Updates without which the deadline abandons the round.
    pub updates_min: u32,
    /// Clients selected per update of the goal: the spare ones make up for stragglers.
    pub over_selection: f64,
    /// Clients that must be available before a cohort is drawn; at least the cohort's size.
    pub available_min: u32,
    /// How long a round waits for available clients.
    pub selection_timeout_ms: u64,
    /// How long a cohort has from its selection to its last counted update.
    pub deadline_ms: u64,
    /// Pause after an abandoned round; it doubles with each further one.
    pub backoff_ms: u64,
    /// Longest pause after abandoned rounds.
    pub backoff_max_ms: u64,
}

impl Default for RoundPolicy {
    fn default() -> Self {
        Self {
            updates_goal: 10,
            updates_min: 5,
            over_selection: 1.3,
            available_min: 0,
            selection_timeout_ms: 300_000,
            deadline_ms: 600_000,
            backoff_ms: 1_000,
            backoff_max_ms: 600_000,
        }
    }
}

impl RoundPolicy {
    /// Clients that a full cohort has: `ceil(goal x over_selection)`.
    #[must_use]
    pub fn cohort_size(&self) -> u32 {
        cohort_size(self.updates_goal, self.over_selection)
    }
}

fn cohort_size(goal: u32, over_selection: f64) -> u32 {
    // 10 x 1.1 is 11.000000000000002 in binary; a part in a billion is no client.
    (f64::from(goal) * over_selection - 1e-9).ceil() as u32
}

/// Who may take part (`[eligibility]`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Eligibility {
    /// Attributes that a client must have with these values.
    pub attributes: BTreeMap<String, String>,
    /// Fewest examples that a client must hold.
    pub examples_min: u64,
    /// Rounds that must pass before the same client is drawn again (0: it may be drawn every round).
    pub separation_rounds: u32,
}

impl Default for Eligibility {
    fn default() -> Self {
        Self { attributes: BTreeMap::new(), examples_min: 1, separation_rounds: 0 }
    }
}

/// How updates become the next version (`[aggregation]`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "rule", rename_all = "snake_case", deny_unknown_fields)]
pub enum Aggregation {
    /// Weighted mean of the deltas (McMahan et al. 2017), times a server learning rate.
    FedAvg {
        /// 1 is plain federated averaging.
        #[serde(default = "one")]
        server_learning_rate: f64,
    },
}

impl Default for Aggregation {
    fn default() -> Self {
        Self::FedAvg { server_learning_rate: one() }
    }
}

fn one() -> f64 {
    1.0
}

/// Measuring the global model on clients (`[evaluation]`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct EvaluationPolicy {
    /// A version is evaluated each time that this many rounds were committed, and at the end of the job.
    #[serde(default = "one_round")]
    pub every_rounds: u32,
    /// Attributes that make a client an evaluator. Evaluators do not train. When empty, any client that may train may
    /// evaluate, on the examples it has.
    #[serde(default)]
    pub attributes: BTreeMap<String, String>,
    /// Reports that close an evaluation early.
    #[serde(default = "one_round")]
    pub reports_goal: u32,
    /// Reports without which the deadline abandons it.
    #[serde(default = "one_round")]
    pub reports_min: u32,
    /// Clients selected per report of the goal.
    #[serde(default = "one")]
    pub over_selection: f64,
    /// How long an evaluation waits for available clients.
    #[serde(default = "evaluation_timeout_ms")]
    pub selection_timeout_ms: u64,
    /// How long its clients have.
    #[serde(default = "evaluation_timeout_ms")]
    pub deadline_ms: u64,
}

impl EvaluationPolicy {
    /// Clients that a full cohort has: `ceil(goal x over_selection)`.
    #[must_use]
    pub fn cohort_size(&self) -> u32 {
        cohort_size(self.reports_goal, self.over_selection)
    }
}

fn one_round() -> u32 {
    1
}
fn evaluation_timeout_ms() -> u64 {
    300_000
}

/// When a job is complete (`[stop]`); whichever comes first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct StopPolicy {
    /// Committed rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u32>,
    /// Accuracy of an evaluated version, between 0 and 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
}

/// Why a text is no job.
#[derive(Debug, thiserror::Error)]
pub enum JobFileError {
    /// More than [`JOB_FILE_BYTES_MAX`] bytes.
    #[error("a job file has at most {JOB_FILE_BYTES_MAX} bytes; this one has {0}")]
    TooLarge(usize),
    /// Not TOML, an unknown key, a value of the wrong type.
    #[error("not a job file: {0}")]
    Toml(#[from] toml::de::Error),
    /// Not JSON, an unknown key, a value of the wrong type.
    #[error("not a job file: {0}")]
    Json(#[from] serde_json::Error),
    /// The network does not fit together.
    #[error("[model] {0}")]
    Model(#[from] ModelSpecError),
    /// Local training that no client could follow.
    #[error(transparent)]
    Training(#[from] TrainingError),
    /// A codec's setting outside its range.
    #[error("[update] {0}")]
    Codec(#[from] CodecError),
    /// A setting outside its range.
    #[error("{setting} must be {range}")]
    OutOfRange {
        /// Section and key.
        setting: &'static str,
        /// What it may be, in words.
        range: String,
    },
}

impl JobFile {
    /// Reads a job from TOML, or from JSON when the first character is a brace, and checks it.
    ///
    /// # Errors
    /// [`JobFileError`] says which key or layer does not fit.
    pub fn parse(text: &str) -> Result<Self, JobFileError> {
        if text.len() > JOB_FILE_BYTES_MAX {
            return Err(JobFileError::TooLarge(text.len()));
        }
        let job: Self =
            if text.trim_start().starts_with('{') { serde_json::from_str(text)? } else { toml::from_str(text)? };
        job.check()?;
        Ok(job)
    }

    /// The job as the text of a file that [`Self::parse`] reads: TOML, or JSON where a number is too large for TOML's
    /// 64-bit integers.
    #[must_use]
    pub fn text(&self) -> String {
        let json = || serde_json::to_string_pretty(self).expect("a job file has no map with keys that JSON lacks");
        toml::to_string(self).unwrap_or_else(|_| json())
    }

    /// Checks what the types cannot: shapes that fit, numbers inside their ranges.
    ///
    /// # Errors
    /// [`JobFileError`] names the first setting that does not fit.
    pub fn check(&self) -> Result<(), JobFileError> {
        self.model.parameters()?;
        self.training.check()?;
        self.update.check()?;
        let download = "false with this codec: steps lead from one f32 model to the next";
        require(self.download.makes_sense(), "[download] delta", download)?;
        self.round.check()?;
        self.aggregation.check()?;
        if let Some(evaluation) = &self.evaluation {
            evaluation.check()?;
        }
        if let Some(schedule) = &self.schedule {
            schedule.check()?;
        }
        self.retention.check()?;
        let rounds = self.stop.rounds.is_none_or(|rounds| rounds > 0);
        require(rounds, "[stop] rounds", "at least 1")?;
        let accuracy = self.stop.accuracy.is_none_or(|accuracy| accuracy > 0.0 && accuracy <= 1.0);
        require(accuracy, "[stop] accuracy", "above 0 and at most 1")?;
        let measured = self.stop.accuracy.is_none() || self.evaluation.is_some();
        require(measured, "[stop] accuracy", "left out, or there must be an [evaluation] to measure it")
    }
}

impl UpdatePolicy {
    fn check(&self) -> Result<(), JobFileError> {
        self.codec.check()?;
        require((1..=1 << 24).contains(&self.weight_max), "[update] weight_max", "1 to 16777216")?;
        let magnitude = self.magnitude_max > 0.0 && self.magnitude_max <= 1e6;
        require(magnitude, "[update] magnitude_max", "above 0 and at most 1e6")
    }
}

impl RoundPolicy {
    fn check(&self) -> Result<(), JobFileError> {
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
        check_duration(self.backoff_max_ms, "[round] backoff_max_ms")
    }
}

impl EvaluationPolicy {
    fn check(&self) -> Result<(), JobFileError> {
        require(self.every_rounds > 0, "[evaluation] every_rounds", "at least 1")?;
        check_counts(
            self.reports_goal,
            self.reports_min,
            self.over_selection,
            ["[evaluation] reports_goal", "[evaluation] reports_min", "[evaluation] over_selection"],
        )?;
        check_duration(self.selection_timeout_ms, "[evaluation] selection_timeout_ms")?;
        check_duration(self.deadline_ms, "[evaluation] deadline_ms")
    }
}

impl Aggregation {
    fn check(&self) -> Result<(), JobFileError> {
        let Self::FedAvg { server_learning_rate } = *self;
        let sane = server_learning_rate > 0.0 && server_learning_rate <= 1e3;
        require(sane, "[aggregation] server_learning_rate", "above 0 and at most 1000")
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

fn require(holds: bool, setting: &'static str, range: &str) -> Result<(), JobFileError> {
    if holds { Ok(()) } else { Err(JobFileError::OutOfRange { setting, range: range.to_owned() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGITS: &str = r#"
        name = "digits"
        population = "demo"
        seed = 7

        [model]
        input = [64]
        layers = [
          { kind = "linear", out_features = 32 },
          { kind = "relu" },
          { kind = "linear", out_features = 10 },
        ]

        [training]
        epochs = 1
        batch_size = 10
        optimizer = { kind = "sgd", learning_rate = 0.1 }

        [round]
        updates_goal = 10
        over_selection = 1.3

        [aggregation]
        rule = "fed_avg"
    "#;

    #[test]
    fn toml_and_json_are_the_same_job() {
        let job = JobFile::parse(DIGITS).unwrap();
        let json = serde_json::to_string(&job).unwrap();
        assert_eq!(JobFile::parse(&json).unwrap(), job);
        assert_eq!(JobFile::parse(&toml::to_string(&job).unwrap()).unwrap(), job);
        assert_eq!(job.round.cohort_size(), 13);
    }

    #[test]
    fn a_job_reads_back_from_its_text() {
        let mut job = JobFile::parse(include_str!("../../../examples/digits.toml")).unwrap();
        job.schedule = Some(Schedule { rounds: "* 3 * * *".into(), time_zone: "UTC".into() });
        job.eligibility.attributes.insert("a b".into(), "\"quoted\"\nlines".into());
        job.stop.accuracy = Some(0.97);
        assert!(!job.text().starts_with('{'));
        assert_eq!(JobFile::parse(&job.text()).unwrap(), job);
        job.seed = Some(Seed(u64::MAX));
        assert_eq!(JobFile::parse(&job.text()).unwrap(), job, "too large for TOML");
    }

    #[test]
    fn the_example_file_is_a_job_and_its_defaults_are_the_defaults() {
        let job = JobFile::parse(include_str!("../../../examples/digits.toml")).unwrap();
        assert_eq!(job.update, UpdatePolicy::default());
        assert_eq!(job.download, Download::default());
        assert_eq!(job.round, RoundPolicy::default());
        assert_eq!(job.eligibility, Eligibility::default());
        assert_eq!(job.aggregation, Aggregation::default());
        assert_eq!(job.retention, Retention::default());
        let evaluation = job.evaluation.unwrap();
        let default: EvaluationPolicy = toml::from_str("").unwrap();
        assert_eq!(EvaluationPolicy { attributes: BTreeMap::new(), ..evaluation }, default);
    }

    #[test]
    fn ten_percent_of_ten_is_one_client() {
        let policy = RoundPolicy { updates_goal: 10, over_selection: 1.1, ..RoundPolicy::default() };
        assert_eq!(policy.cohort_size(), 11);
    }

    #[test]
    fn a_wrong_key_or_number_is_named() {
        let cases = [
            ("epochs = 1", "epoch = 1", "epoch"),
            ("updates_goal = 10", "updates_goal = 0", "[round] updates_goal"),
            ("updates_goal = 10", "updates_goal = 4", "[round] updates_min"),
            ("over_selection = 1.3", "over_selection = 0.5", "[round] over_selection"),
            ("over_selection = 1.3", "deadline_ms = 0", "[round] deadline_ms"),
            ("out_features = 10", "out_features = 0", "layers[2]"),
            ("kind = \"relu\"", "kind = \"rellu\"", "rellu"),
            ("learning_rate = 0.1", "learning_rate = -0.1", "learning_rate"),
            ("rule = \"fed_avg\"", "rule = \"fed_avg\"\n[stop]\naccuracy = 0.9", "[stop] accuracy"),
            ("name = \"digits\"", "name = \"di gits\"", "di gits"),
            ("rule = \"fed_avg\"", "rule = \"fed_avg\"\n[update]\ncodec = 'int7'", "unknown variant `int7`"),
            (
                "rule = \"fed_avg\"",
                "rule = \"fed_avg\"\n[update]\ncodec = { name = 'int8', blok = 64 }",
                "unknown field `blok`, expected `block`",
            ),
            (
                "rule = \"fed_avg\"",
                "rule = \"fed_avg\"\n[update]\ncodec = { name = 'int4', block = 0 }",
                "codec int4: block must be a multiple of 8",
            ),
            ("rule = \"fed_avg\"", "rule = \"fed_avg\"\n[download]\ncodec = 'int4'", "unknown variant `int4`"),
            (
                "rule = \"fed_avg\"",
                "rule = \"fed_avg\"\n[download]\ncodec = 'f16'\ndelta = true",
                "[download] delta must be false",
            ),
            ("rule = \"fed_avg\"", "rule = \"fed_avg\"\n[schedule]\nrounds = ''", "[schedule] rounds"),
            ("rule = \"fed_avg\"", "rule = \"fed_avg\"\n[schedule]\ntime_zone = 'UTC'", "rounds"),
            ("rule = \"fed_avg\"", "rule = \"fed_avg\"\n[retention]\nmodels = { last = 0 }", "[retention] models"),
        ];
        for (from, to, named) in cases {
            let error = JobFile::parse(&DIGITS.replacen(from, to, 1)).expect_err(to).to_string();
            assert!(error.contains(named), "{to}: {error}");
        }
    }

    #[test]
    fn a_codec_is_a_name_or_a_table_with_settings() {
        let codec = |codec: &str| {
            let job = JobFile::parse(&format!("{DIGITS}\n[update]\ncodec = {codec}")).unwrap();
            assert_eq!(JobFile::parse(&toml::to_string(&job).unwrap()).unwrap(), job);
            job.update.codec
        };
        assert_eq!(codec("'int8'"), codec("{ name = 'int8' }"));
        assert_eq!(codec("{ name = 'int8', block = 128 }").to_string(), r#"{"name":"int8","block":128}"#);
    }

    #[test]
    fn a_huge_job_file_is_refused_unread() {
        assert!(matches!(JobFile::parse(&" ".repeat(JOB_FILE_BYTES_MAX + 1)), Err(JobFileError::TooLarge(_))));
    }
}
