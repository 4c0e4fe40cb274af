//! The budget that all private jobs and analyses of a population share.

use serde::{Deserialize, Serialize};

use crate::id::{JobId, Name};
use crate::job_file::{Privacy, Unit};

/// What all jobs of a population together may tell about a unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SharedBudget {
    /// The budget: no job opens a round that would pass it, above 0 and at most 100.
    pub epsilon: f64,
    /// The chance that the promise does not hold, above 0 and at most 0.001.
    pub delta: f64,
    /// Who is protected: the `unit` that every job must have. Default: `client`.
    #[serde(default, skip_serializing_if = "Unit::is_client")]
    pub unit: Unit,
}

/// A shared budget and what of it is spent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BudgetState {
    /// The budget.
    pub budget: SharedBudget,
    /// The epsilon that the releases of all jobs spend together, as if one unit had been in each job as often as any
    /// unit was. It counts on no draw.
    pub spent: f64,
    /// The jobs that have spent something or may still, oldest first. Deleted jobs are in `spent` alone.
    pub jobs: Vec<BudgetPart>,
}

/// What one job has spent of a shared budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BudgetPart {
    /// Id of the job.
    pub job: JobId,
    /// Its name.
    pub name: Name,
    /// The epsilon that it would have spent alone, at the delta of the shared budget. Such numbers add up to more than
    /// jobs spend together.
    pub epsilon: f64,
}

/// The budget of a population, if it has one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PopulationBudget {
    /// Absent in a population whose jobs share none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetState>,
}

impl SharedBudget {
    /// What is wrong with its numbers, if something is.
    #[must_use]
    pub fn wrong(&self) -> Option<&'static str> {
        if !Privacy::is_epsilon(self.epsilon) {
            return Some("epsilon must be above 0 and at most 100");
        }
        if !Privacy::is_delta(self.delta) {
            return Some("delta must be above 0 and at most 0.001");
        }
        match &self.unit {
            Unit::Attribute(name) if name.is_empty() => Some("unit.attribute must be an attribute that tokens grant"),
            Unit::Client | Unit::Attribute(_) => None,
        }
    }
}
