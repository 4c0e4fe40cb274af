//! A cache of job specs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tributary_engine::job::JobSpec;
use tributary_protocol::id::JobId;

use crate::db::{DbError, JobRow};
use crate::metrics::Metrics;
use crate::runtime::lock::Locked;

/// The specs of the jobs in use, derived from their stored files. Jobs that have ended are forgotten.
#[derive(Debug)]
pub struct Specs {
    metrics: Arc<Metrics>,
    jobs: Mutex<HashMap<JobId, Arc<JobSpec>>>,
}

impl Specs {
    /// The metrics learn the codec of each job that enters the cache.
    pub fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, jobs: Mutex::default() }
    }

    /// The spec of a stored job.
    ///
    /// # Errors
    /// [`DbError::Corrupt`] when the stored file describes no valid job.
    pub fn of(&self, row: &JobRow) -> Result<Arc<JobSpec>, DbError> {
        let mut jobs = self.jobs.locked();
        // Round policy, name and inputs are the only parts of a job's file that ever change.
        let is_same = |spec: &&Arc<JobSpec>| {
            let (known, stored) = (&spec.file, &row.file.0);
            known.round == stored.round && known.name == stored.name && known.model.inputs == stored.model.inputs
        };
        if let Some(spec) = jobs.get(&row.id).filter(is_same) {
            return Ok(Arc::clone(spec));
        }
        let spec = JobSpec::new(row.id, row.file.0.clone()).map_err(|error| DbError::Corrupt(error.to_string()))?;
        let spec = Arc::new(spec);
        // A late client may ask for the spec of a job that has ended; nothing would remove it from the cache again.
        if row.state.is_final() {
            return Ok(spec);
        }
        self.metrics.job_learned(row.id, &spec.plan.codec);
        jobs.insert(row.id, Arc::clone(&spec));
        Ok(spec)
    }

    /// The spec of a job that is in use. Round policy and name may be older than the stored ones.
    pub(crate) fn known(&self, job: JobId) -> Option<Arc<JobSpec>> {
        self.jobs.locked().get(&job).cloned()
    }

    pub fn forget(&self, job: JobId) {
        self.metrics.job_forgotten(job);
        self.jobs.locked().remove(&job);
    }
}
