//! Evaluation of the global model (`[evaluation]`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::error::require;
use super::{InitialModel, JobFile, JobFileError, Mode, StopPolicy, check_counts, check_duration, cohort_size, one};
use crate::layers::ModelSpec;
use crate::version_of::VersionOf;

/// The setting that says who evaluates.
pub(super) const PLACE: &str = "[evaluation] where";

/// Largest model that is evaluated on the coordinator, in parameters. It is in memory three times meanwhile: as it is
/// read, in the network, and packed for the network's products.
pub const COORDINATOR_PARAMETERS_MAX: usize = 1 << 25;

/// Most clients of an evaluation without a goal.
pub const EVALUATORS_MAX: u32 = 100;

/// Most models of a job that only evaluates.
pub const MODELS_MAX: usize = 20;

/// Who evaluates the global model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum EvaluationPlace {
    /// Clients, on their own examples.
    #[default]
    Clients,
    /// The coordinator, on the test set that an operator uploads. The model must be a list of layers with at most
    /// 33,554,432 parameters.
    Coordinator,
}

/// Evaluation of the global model (`[evaluation]`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct EvaluationPolicy {
    /// Who evaluates. Default: `clients`. With `coordinator`, an evaluation waits for its test set for
    /// `selection_timeout_ms`, and settings of clients and reports have no meaning.
    #[serde(rename = "where", default, skip_serializing_if = "EvaluationPlace::is_clients")]
    pub place: EvaluationPlace,
    /// Whether the job only evaluates: fixed models, one after the other, without any training. It is complete when
    /// each has been evaluated or abandoned. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only: bool,
    /// Of a job that only evaluates: the models, 1 to 20, each as `job:version` with the name or id of a job of the
    /// same population. They have the parameters of this job's model. Left out with `initial_model = "upload"`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub models: Vec<VersionOf>,
    /// Committed rounds between evaluated versions. The last version of a job is always evaluated. Default: 1.
    #[serde(default = "one_round")]
    pub every_rounds: u32,
    /// Attributes of evaluators, which then do not train. Default: none, and every client that may train may also
    /// evaluate.
    #[serde(default)]
    pub attributes: BTreeMap<String, String>,
    /// Reports after which an evaluation closes before its deadline; as many clients are drawn anew for each
    /// evaluation. Default: every client that may evaluate and is here takes part, at most 100. Of more, the same ones
    /// take part each time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reports_goal: Option<u32>,
    /// Fewest reports for a result. An evaluation with fewer at its deadline is abandoned. Default: 1.
    #[serde(default = "one_round")]
    pub reports_min: u32,
    /// Clients drawn per report of `reports_goal`, 1 to 10. Default: 1.
    #[serde(default = "one")]
    pub over_selection: f64,
    /// Longest wait for available clients, in milliseconds. Default: 300,000.
    #[serde(default = "evaluation_timeout_ms")]
    pub selection_timeout_ms: u64,
    /// Time from the draw of the evaluators to the deadline, in milliseconds. Default: 300,000.
    #[serde(default = "evaluation_timeout_ms")]
    pub deadline_ms: u64,
}

impl EvaluationPlace {
    fn is_clients(&self) -> bool {
        *self == Self::Clients
    }
}

impl Default for EvaluationPolicy {
    /// What an empty `[evaluation]` says.
    fn default() -> Self {
        Self {
            place: EvaluationPlace::default(),
            only: false,
            models: Vec::new(),
            every_rounds: one_round(),
            attributes: BTreeMap::new(),
            reports_goal: None,
            reports_min: one_round(),
            over_selection: one(),
            selection_timeout_ms: evaluation_timeout_ms(),
            deadline_ms: evaluation_timeout_ms(),
        }
    }
}

impl EvaluationPolicy {
    /// Size of a full cohort: `ceil(goal * over_selection)`, or [`EVALUATORS_MAX`] without a goal.
    pub fn cohort_size(&self) -> u32 {
        self.reports_goal.map_or(EVALUATORS_MAX, |goal| cohort_size(goal, self.over_selection))
    }

    pub(super) fn check(&self) -> Result<(), JobFileError> {
        require(self.every_rounds > 0, "[evaluation] every_rounds", "at least 1")?;
        let names = ["[evaluation] reports_goal", "[evaluation] reports_min", "[evaluation] over_selection"];
        match self.reports_goal {
            Some(goal) => check_counts(goal, self.reports_min, self.over_selection, names)?,
            None => {
                let fits = (1..=EVALUATORS_MAX).contains(&self.reports_min);
                require(fits, names[1], "1 to 100, or at most reports_goal")?;
                require(self.over_selection == one(), names[2], "left out without reports_goal")?;
            }
        }
        check_duration(self.selection_timeout_ms, "[evaluation] selection_timeout_ms")?;
        check_duration(self.deadline_ms, "[evaluation] deadline_ms")
    }

    /// A job that only evaluates has models to evaluate, and no setting of what trains them.
    pub(super) fn check_only(&self, job: &JobFile) -> Result<(), JobFileError> {
        let uploads = job.initial_model == InitialModel::Upload;
        if !self.only {
            return require(self.models.is_empty(), "[evaluation] models", "left out unless only = true");
        }
        let range = match uploads {
            true => "left out with initial_model = \"upload\"",
            false => "1 to 20 models as \"job:version\", or initial_model = \"upload\"",
        };
        let fits = if uploads { self.models.is_empty() } else { (1..=MODELS_MAX).contains(&self.models.len()) };
        require(fits, "[evaluation] models", range)?;
        require(self.every_rounds == 1, "[evaluation] every_rounds", "left out where only = true")?;
        let trains_nothing = "left out with [evaluation] only = true: the job trains nothing";
        require(job.stop == StopPolicy::default(), "[stop]", trains_nothing)?;
        require(job.schedule.is_none(), "[schedule]", trains_nothing)?;
        require(job.privacy.is_none(), "[privacy]", trains_nothing)?;
        require(job.secure_aggregation.is_none(), "[secure_aggregation]", trains_nothing)?;
        require(job.analysis.is_none(), "[analysis]", trains_nothing)?;
        require(job.coded.is_none(), "[coded]", trains_nothing)?;
        require(job.round.mode == Mode::Synchronous, "[round] mode", trains_nothing)?;
        let fixed = "with means and deviations, where [evaluation] only = true: no round fixes them";
        require(!job.model.lacks_statistics(), "[model] inputs", fixed)
    }

    /// The coordinator computes networks that are lists of layers, within a bounded memory.
    pub(super) fn check_place(&self, job: &JobFile) -> Result<(), JobFileError> {
        if self.place == EvaluationPlace::Clients {
            return Ok(());
        }
        let is_known = matches!(job.model.spec, ModelSpec::Layers(_));
        require(is_known, PLACE, "\"clients\" here: the coordinator cannot compute an app's own network")?;
        let is_small = job.model.parameters()?.total() <= COORDINATOR_PARAMETERS_MAX;
        require(is_small, PLACE, "\"clients\" for a model of more than 33554432 parameters")?;
        // A goal of 1 was the default once, and is in files that were written then.
        let goal_is_set = self.reports_goal.is_some_and(|goal| goal != 1);
        let has_clients = !self.attributes.is_empty() || goal_is_set || self.over_selection != one();
        let range = "left out where the coordinator evaluates: no client takes part";
        require(!has_clients, "[evaluation] attributes, reports_goal and over_selection", range)
    }
}

fn one_round() -> u32 {
    1
}
fn evaluation_timeout_ms() -> u64 {
    300_000
}
