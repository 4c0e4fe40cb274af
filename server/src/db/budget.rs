//! Budgets that the jobs of a population share, and the jobs that spend them.

use serde::{Deserialize, Serialize};
use tributary_engine::privacy::Together;
use tributary_protocol::id::Name;
use tributary_protocol::operator::SharedBudget;

use super::jobs::job_columns;
use super::tx::{Json, execute, fetch};
use super::{DbError, JobRow, Tx};

/// A budget as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredBudget {
    pub budget: SharedBudget,
    /// Of jobs that were deleted: the square of what one unit could change, in deviations of the noise.
    gone: f64,
    gone_of_integers: bool,
}

#[derive(sqlx::FromRow)]
struct BudgetRow {
    budget: Option<String>,
}

impl StoredBudget {
    pub fn new(budget: SharedBudget) -> Self {
        Self { budget, gone: 0.0, gone_of_integers: false }
    }

    /// The same with other numbers.
    #[must_use]
    pub fn with(self, budget: SharedBudget) -> Self {
        Self { budget, ..self }
    }

    /// What jobs have spent that were deleted.
    pub fn gone(&self) -> Together {
        Together { squares: self.gone, of_integers: self.gone_of_integers }
    }

    /// The same with what one more deleted job has spent.
    #[must_use]
    pub fn with_gone(self, spent: Together) -> Self {
        let Together { squares, of_integers } = self.gone().with(spent);
        Self { gone: squares, gone_of_integers: of_integers, ..self }
    }
}

impl Tx {
    /// The budget that the jobs of a population share, if they share one.
    pub async fn budget(&mut self, population: &Name) -> Result<Option<StoredBudget>, DbError> {
        let sql = "select budget from populations where name = $1";
        let text = fetch!(self, BudgetRow, fetch_optional, sql, population.as_str()).and_then(|row| row.budget);
        let read = |text: String| serde_json::from_str(&text);
        text.map(read).transpose().map_err(|error| DbError::corrupt("populations.budget", error))
    }

    /// The same, with the population locked until the transaction ends, so that two jobs do not spend the same rest.
    pub async fn budget_locked(&mut self, population: &Name) -> Result<Option<StoredBudget>, DbError> {
        self.lock_population(population).await?;
        self.budget(population).await
    }

    pub async fn set_budget(&mut self, population: &Name, budget: &StoredBudget) -> Result<(), DbError> {
        let sql = "update populations set budget = $2 where name = $1";
        execute!(self, sql, population.as_str(), Json::text(budget)?);
        Ok(())
    }

    /// The jobs of a population that have spent something of a budget, or have not ended; oldest first.
    pub async fn spenders(&mut self, population: &Name) -> Result<Vec<JobRow>, DbError> {
        let sql = concat!(
            "select ",
            job_columns!(),
            " from jobs where population = $1 and (state not in ('stopped', 'completed') \
             or exists (select 1 from privacy_ledger where job = jobs.id)) order by created_at_ms, id"
        );
        Ok(fetch!(self, JobRow, fetch_all, sql, population.as_str()))
    }
}
