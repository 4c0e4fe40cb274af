//! What a population is wanted for, read from the database when something has changed, at least once a second.
//!
//! Each answer without work depends on it, and most of them are given while nothing changes.

use std::sync::Arc;

use tributary_engine::job::JobSpec;
use tributary_protocol::id::Name;
use tributary_protocol::state::Phase;

use crate::db::{ClientRow, DbError, RoundRow};
use crate::runtime::kept::Kept;
use crate::services::Services;

/// Jobs that are looked at.
const JOBS_MAX: u32 = 10;
/// How long what was read is used again, in milliseconds.
const FRESH_MS: i64 = 1_000;

/// The work of a population.
#[derive(Debug)]
pub struct Wanted {
    pub has_running_job: bool,
    /// The newest running jobs.
    pub jobs: Vec<WantedJob>,
}

/// A running job.
#[derive(Debug)]
pub struct WantedJob {
    pub spec: Arc<JobSpec>,
    /// Its rounds that draw clients.
    pub selecting: Vec<RoundRow>,
}

/// What populations are wanted for, each with the number of changes before it was read.
#[derive(Debug)]
pub struct Wants(Kept<Name, (u64, Arc<Wanted>)>);

impl Default for Wants {
    fn default() -> Self {
        Self(Kept::new(FRESH_MS))
    }
}

impl Wants {
    /// What a client's population is wanted for. `changes` is the number of changes before this was asked.
    /// Unless it must be `exact`, a job that ran a moment ago still runs: reports are changes, too, and thousands of
    /// them may come in a second.
    pub async fn read(
        &self,
        services: &Services,
        client: &ClientRow,
        changes: u64,
        exact: bool,
    ) -> Result<Arc<Wanted>, DbError> {
        let (population, now_ms) = (&client.population, services.clock.now_ms());
        if let Some((before, wanted)) = self.0.get(population, now_ms)
            && (before == changes || (wanted.has_running_job && !exact))
        {
            return Ok(wanted);
        }
        let mut tx = services.db.read().await?;
        let mut jobs = Vec::new();
        for row in tx.jobs_at_a_glance(Some(population), false, JOBS_MAX).await? {
            if row.state.is_running() {
                let mut selecting = tx.open_rounds(row.id).await?;
                selecting.retain(|round| round.phase == Phase::Selecting);
                jobs.push(WantedJob { spec: services.specs.of(&row)?, selecting });
            }
        }
        // What the parent of a relay runs is not known here before the first order.
        let has_running_job = !jobs.is_empty() || services.upstream.is_some() || tx.has_running_job(population).await?;
        let wanted = Arc::new(Wanted { has_running_job, jobs });
        self.0.keep(population.clone(), (changes, Arc::clone(&wanted)), now_ms);
        Ok(wanted)
    }
}
