//! What follows from a job file: parameters, plan, caps.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tributary_protocol::device::Plan;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::JobId;
use tributary_protocol::job_file::{JobFile, JobFileError};
use tributary_protocol::model::ParameterList;
use tributary_protocol::safetensors::{model_file_beginning, model_metadata};
use tributary_protocol::seed::Seed;
use tributary_protocol::update::{UpdateHeader, UpdateLimits, bytes_max};

use crate::aggregate::{Accumulator, SumCaps};
use crate::db::{DbError, JobRow};
use crate::metrics::Metrics;
use crate::round::{Calendar, CalendarError};

/// A job, ready for use.
#[derive(Clone, Debug)]
pub struct JobSpec {
    /// Its id.
    pub id: JobId,
    /// Its file.
    pub file: JobFile,
    /// Names and shapes of its model.
    pub parameters: Arc<ParameterList>,
    /// What its clients do.
    pub plan: Plan,
    /// Version of the plan.
    pub plan_hash: Sha256Hash,
    /// Limits of a round's sum.
    pub caps: SumCaps,
    /// Largest body of an update.
    pub update_bytes_max: u64,
    /// Bytes of its model as a plain file.
    pub plain_bytes: u64,
    /// The minutes in which training rounds may open; any when there is none.
    pub calendar: Option<Calendar>,
}

/// Why a job cannot run.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// The file describes no job.
    #[error(transparent)]
    File(#[from] JobFileError),
    /// Weight, magnitude and cohort together leave the exact sum no room.
    #[error("[update] weight_max and magnitude_max and the cohort's size: {0}")]
    Caps(#[from] crate::aggregate::CapsError),
    /// There is no such calendar.
    #[error("[schedule] {0}")]
    Schedule(#[from] CalendarError),
}

impl JobSpec {
    /// Works out what follows from a job file.
    ///
    /// # Errors
    /// [`SpecError`] when the file describes no job that can run.
    pub fn new(id: JobId, file: JobFile) -> Result<Self, SpecError> {
        file.check()?;
        let parameters = Arc::new(file.model.parameters().map_err(JobFileError::from)?);
        let caps = SumCaps {
            weight_max: file.update.weight_max,
            magnitude_max: file.update.magnitude_max,
            updates_max: file.round.cohort_size(),
        };
        Accumulator::new(0, caps)?;
        let calendar = calendar_of(&file)?;
        let plan = plan_of(&file);
        let update_bytes_max = bytes_max(&parameters, plan.codec);
        let beginning = model_file_beginning(&parameters, &model_metadata()).len();
        let plain_bytes = beginning as u64 + 4 * parameters.total() as u64;
        Ok(Self { plain_bytes, id, plan_hash: plan.hash(), plan, caps, update_bytes_max, calendar, parameters, file })
    }

    /// The same for a round that was opened for a cohort of this size: its sum has room for that, whatever the job's
    /// policy says by now. Whoever sums it up does so under the same caps, so that the sum is the same to the last bit.
    #[must_use]
    pub fn with_cohort(self: &Arc<Self>, cohort_size: u32) -> Arc<Self> {
        if self.caps.updates_max == cohort_size {
            return Arc::clone(self);
        }
        let caps = SumCaps { updates_max: cohort_size, ..self.caps };
        Arc::new(Self { caps, ..Self::clone(self) })
    }

    /// The job's seed.
    #[must_use]
    pub fn seed(&self) -> Seed {
        self.file.seed.expect("a stored job has a seed")
    }

    /// What every update of a round must say of itself.
    #[must_use]
    pub fn update_header(&self, base_version: u32) -> UpdateHeader {
        UpdateHeader { codec: self.plan.codec, job: self.id.to_string(), base_version: base_version.into() }
    }

    /// What every update must keep to.
    #[must_use]
    pub fn update_limits(&self) -> UpdateLimits {
        UpdateLimits { magnitude_max: self.file.update.magnitude_max }
    }
}

/// The minutes in which a job's training rounds may open; none when they may at any time.
///
/// # Errors
/// [`CalendarError`] when the file names no such minutes or zone.
pub fn calendar_of(file: &JobFile) -> Result<Option<Calendar>, CalendarError> {
    file.schedule.as_ref().map(|schedule| Calendar::parse(&schedule.rounds, &schedule.time_zone)).transpose()
}

/// What the clients of a job do.
#[must_use]
pub fn plan_of(file: &JobFile) -> Plan {
    Plan {
        model: file.model.clone(),
        training: file.training.clone(),
        codec: file.update.codec,
        weight_max: file.update.weight_max,
        download: file.download,
    }
}

/// The specs of the jobs in use. Of a job only the round policy changes, and whoever asks brings the stored one; those
/// that end are forgotten.
#[derive(Debug)]
pub struct Specs {
    metrics: Arc<Metrics>,
    jobs: Mutex<HashMap<JobId, Arc<JobSpec>>>,
}

impl Specs {
    /// No job yet; the metrics learn what its codec is.
    #[must_use]
    pub fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, jobs: Mutex::default() }
    }

    /// The spec of a stored job.
    ///
    /// # Errors
    /// [`DbError::Corrupt`] when the stored file describes no job.
    pub fn of(&self, row: &JobRow) -> Result<Arc<JobSpec>, DbError> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        // All that ever changes of a job's file.
        if let Some(spec) = jobs.get(&row.id).filter(|spec| spec.file.round == row.file.0.round) {
            return Ok(Arc::clone(spec));
        }
        let spec = JobSpec::new(row.id, row.file.0.clone()).map_err(|error| DbError::Corrupt(error.to_string()))?;
        let spec = Arc::new(spec);
        self.metrics.job_learned(row.id, &spec.plan.codec);
        jobs.insert(row.id, Arc::clone(&spec));
        Ok(spec)
    }

    /// A job has ended.
    pub fn forget(&self, job: JobId) {
        self.metrics.job_forgotten(job);
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).remove(&job);
    }
}
