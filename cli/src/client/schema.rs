//! By which job's columns a client's table is read.

use std::path::{Path, PathBuf};

use tributary_client::examples::MemoryExamples;
use tributary_protocol::device::OpenJob;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::Name;
use tributary_protocol::inputs::Inputs;

use crate::error::{CliError, Failure};
use crate::files;
use crate::table::{SchemaOptions, read_by_schema};

/// A client's table, and how its settings want it read.
pub(super) struct Table<'a> {
    pub(super) path: &'a Path,
    pub(super) delimiter: Option<u8>,
    pub(super) options: SchemaOptions,
    /// The job whose columns count, where several jobs name columns.
    pub(super) job: Option<&'a Name>,
    /// Whether the settings scale the table by its own means.
    pub(super) standardizes: bool,
}

/// A table as a job's columns read it.
#[derive(Debug)]
pub(super) struct Applied {
    pub(super) job: Name,
    pub(super) schema: Sha256Hash,
    pub(super) examples: MemoryExamples,
    pub(super) classes: Option<usize>,
    pub(super) notes: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum SchemaMisfit {
    #[error("{} does not fit the job {job}: {error}", path.display())]
    Table { path: PathBuf, job: Name, error: Box<CliError> },
    #[error("no running job {0} names columns")]
    NoJob(Name),
    #[error("the job {0} standardises its columns over all clients, and --standardize would scale these by themselves")]
    Twice(Name),
}

impl Failure for SchemaMisfit {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Table { error, .. } => error.hint(),
            Self::NoJob(_) => Some("`tributary job list` shows what runs".into()),
            Self::Twice(_) => Some("leave out --standardize".into()),
        }
    }
}

/// Reads the table by the first job whose columns it has; none if no job names columns. Where none fits, the first
/// misfit is the error.
pub(super) fn apply(jobs: &[OpenJob], table: &Table<'_>) -> Result<Option<Applied>, CliError> {
    let named =
        jobs.iter().filter_map(|job| Some((&job.name, job.inputs.as_ref().filter(|it| !it.columns.is_empty())?)));
    let named: Vec<_> = named.filter(|(name, _)| table.job.is_none_or(|wanted| wanted == *name)).collect();
    if let (true, Some(wanted)) = (named.is_empty(), table.job) {
        return Err(SchemaMisfit::NoJob(wanted.clone()).into());
    }
    let mut first = None;
    for (name, inputs) in named {
        match table.read(name, inputs) {
            Ok(applied) => return Ok(Some(applied)),
            Err(error) => first = first.or(Some(error)),
        }
    }
    first.map_or(Ok(None), |error| Err(error.into()))
}

impl Table<'_> {
    fn read(&self, job: &Name, inputs: &Inputs) -> Result<Applied, SchemaMisfit> {
        if self.standardizes && inputs.standardize.is_some() {
            return Err(SchemaMisfit::Twice(job.clone()));
        }
        let misfit =
            |error| SchemaMisfit::Table { path: self.path.to_owned(), job: job.clone(), error: Box::new(error) };
        let raw = read_by_schema(self.path, inputs, self.delimiter, &self.options).map_err(misfit)?;
        let notes = raw.notes.clone();
        let examples = raw.examples(inputs).map_err(|error| misfit(CliError::BadSetting(error.to_string())))?;
        let classes = inputs.target.as_ref().filter(|target| !target.is_number()).map(|target| target.classes.len());
        Ok(Applied { job: job.clone(), schema: inputs.schema_hash(), examples, classes, notes })
    }
}

/// The jobs whose columns an earlier run applied, for a start while the coordinator is away.
pub(super) fn kept(state_dir: &Path) -> Result<Vec<OpenJob>, CliError> {
    let path = path(state_dir);
    match std::fs::read(&path) {
        Ok(bytes) => {
            serde_json::from_slice(&bytes).map_err(|error| CliError::BadSetting(format!("{}: {error}", path.display())))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(CliError::file("read", &path)(error)),
    }
}

/// Keeps the jobs that name columns, and those that ask for them.
pub(super) fn keep(state_dir: &Path, jobs: &[OpenJob]) -> Result<(), CliError> {
    let jobs: Vec<&OpenJob> = jobs.iter().filter(|job| job.inputs.is_some() || job.analysis.is_some()).collect();
    let path = path(state_dir);
    if jobs.is_empty() && !path.exists() {
        return Ok(());
    }
    std::fs::create_dir_all(state_dir).map_err(CliError::file("create", state_dir))?;
    let text = serde_json::to_vec(&jobs).map_err(|error| CliError::Internal(error.to_string()))?;
    files::replace(&path, &text).map_err(CliError::file("write", &path))
}

fn path(state_dir: &Path) -> PathBuf {
    state_dir.join("jobs.json")
}
