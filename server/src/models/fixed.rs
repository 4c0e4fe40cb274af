//! The models of a job that only evaluates: copies of versions of other jobs.

use tributary_engine::job::JobSpec;
use tributary_protocol::id::Name;
use tributary_protocol::version_of::{JobRef, VersionOf};

use super::first::copied;
use super::version::{NewVersion, VersionError};
use crate::blob::{Workbench, model_key};
use crate::db::{DbError, JobRow, Tx};
use crate::services::Services;

/// Why a model cannot be evaluated by a job.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FixedError {
    #[error("[evaluation] models: population {population} has no {version}")]
    Missing { version: VersionOf, population: Name },
    #[error("[evaluation] models: {0} was deleted under its job's retention policy")]
    Deleted(VersionOf),
    #[error("[evaluation] models: {0} has other parameters than [model]")]
    Parameters(VersionOf),
    #[error(transparent)]
    Version(#[from] VersionError),
}

impl From<DbError> for FixedError {
    fn from(error: DbError) -> Self {
        Self::Version(VersionError::Blob(error.into()))
    }
}

/// Copies the models that a job names, in their order.
pub(crate) async fn fixed_models(
    services: &Services,
    bench: &Workbench,
    spec: &JobSpec,
) -> Result<Vec<NewVersion>, FixedError> {
    let models = spec.file.evaluation.as_ref().map_or(&[][..], |evaluation| &evaluation.models);
    let mut versions = Vec::with_capacity(models.len());
    for (number, of) in (0..).zip(models) {
        let population = &spec.file.population;
        let missing = || FixedError::Missing { version: of.clone(), population: population.clone() };
        let mut tx = services.db.read().await?;
        let row = job_of(&mut tx, population, &of.job).await?.ok_or_else(missing)?;
        let stored = tx.model(row.id, of.version).await?.ok_or_else(missing)?;
        drop(tx);
        if stored.deleted_at_ms.is_some() {
            return Err(FixedError::Deleted(of.clone()));
        }
        if services.specs.of(&row)?.model != spec.model {
            return Err(FixedError::Parameters(of.clone()));
        }
        let body = (model_key(row.id, of.version), stored.sha256);
        versions.push(copied(services, bench, spec, number, body).await?);
    }
    Ok(versions)
}

/// The job of a population that a reference names.
async fn job_of(tx: &mut Tx, population: &Name, job: &JobRef) -> Result<Option<JobRow>, DbError> {
    match job {
        JobRef::Id(id) => Ok(tx.job(*id).await?.filter(|row| row.file.0.population == *population)),
        JobRef::Name(name) => tx.job_named(population, name).await,
    }
}
