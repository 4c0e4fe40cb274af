//! Several populations of one coordinator, with one live job in each.

use hyper::header::HeaderValue;
use tributary_protocol::id::{JobId, Name, Secret};
use tributary_protocol::job_file::JobFile;

use crate::device::Server;
use crate::fleet;
use crate::process::{CoordinatorProcess, population_name};
use tributary::api::JobChange;
use tributary::error::CliError;

/// Names and enrolment tokens.
pub(crate) struct Populations(Vec<(Name, Secret)>);

impl Populations {
    pub(crate) async fn create(coordinator: &CoordinatorProcess, count: u32) -> Result<Self, CliError> {
        let mut populations = Vec::new();
        for _ in 0..count {
            let name = population_name()?;
            let token = coordinator.population(&name).await?;
            populations.push((name, token));
        }
        Ok(Self(populations))
    }

    /// Enrols `each` clients in every population. Client `i` of the result is in population `i % count`.
    pub(crate) async fn enrol(&self, server: &Server, each: u32) -> Result<Vec<HeaderValue>, CliError> {
        let mut enrolled = Vec::new();
        for (_, token) in &self.0 {
            enrolled.push(fleet::enrol(server, token, each).await?);
        }
        Ok((0..each as usize).flat_map(|client| enrolled.iter().map(move |clients| clients[client].clone())).collect())
    }

    /// Creates a job in every population, from the job file that `file` makes for it.
    pub(crate) async fn create_jobs(
        &self,
        coordinator: &CoordinatorProcess,
        file: impl Fn(&Name) -> Result<JobFile, CliError>,
    ) -> Result<Vec<JobId>, CliError> {
        let mut jobs = Vec::new();
        for (name, _) in &self.0 {
            jobs.push(coordinator.api.create_job(file(name)?).await?.head.id);
        }
        Ok(jobs)
    }
}

pub(crate) async fn stop_jobs(coordinator: &CoordinatorProcess, jobs: &[JobId]) -> Result<(), CliError> {
    for job in jobs {
        coordinator.api.change_job(*job, JobChange::Stop).await?;
    }
    Ok(())
}
