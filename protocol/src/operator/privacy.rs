//! What a private job promises, and what it has spent.

use serde::{Deserialize, Serialize};

use super::BudgetState;
use super::ledger::LedgerEntry;
use crate::job_file::Privacy;

/// The epsilons of a promise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EpsilonPair {
    /// Against those who see the models, and not who took part.
    pub models: f64,
    /// Against those who also know who took part in which round; with `distributed`, against the coordinator as well,
    /// which sees the sum of each group.
    pub cohorts: f64,
}

/// The privacy of a job: its terms, what it has spent, its ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobPrivacy {
    /// The terms of the job, with everything that the coordinator filled in.
    pub terms: Privacy,
    /// What was spent; absent in a job with a `test_key`, whose noise everybody can repeat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<EpsilonPair>,
    /// Whether the budget allows no further round.
    pub is_spent: bool,
    /// The L2 norm of the noise in the last model, divided by the longest way that the model can have gone: all steps
    /// in one direction, each as long as the clip. Above 1, the model is mostly noise.
    pub noise_ratio: f64,
    /// Units without which the job cannot have all its versions.
    pub units_needed: u64,
    /// The releases, oldest first.
    pub ledger: Vec<LedgerEntry>,
}

/// The privacy of a job, if its file has `[privacy]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobPrivacyState {
    /// Absent in a job whose models may tell what single clients sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub privacy: Option<JobPrivacy>,
    /// The budget that the jobs of the population share; absent where they share none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<BudgetState>,
}
