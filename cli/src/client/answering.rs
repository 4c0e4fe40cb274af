//! The table from which a client answers analyses.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tributary_client::examples::{MemoryExamples, Targets};
use tributary_client::{Cell, Table, TrainError};
use tributary_protocol::device::OpenJob;
use tributary_protocol::hash::Sha256Hash;

use super::examples::Loaded;
use super::schema;
use crate::error::CliError;
use crate::table::read_cells;

/// A file that is read anew for each answer: analyses ask for other columns, and rows may have come.
#[derive(Clone, Debug)]
pub(super) struct FileTable {
    path: PathBuf,
    delimiter: Option<u8>,
    is_parquet: bool,
    /// The name in the table of a column, where it is another one.
    names: BTreeMap<String, String>,
    /// The number of the member (from 0) and the number of all members in a fleet that shares the rows.
    part: (usize, usize),
}

impl FileTable {
    pub(super) fn of(table: &schema::Table<'_>) -> Self {
        let path = absolute(table.path);
        let (names, is_parquet) = (table.options.names.clone(), table.options.is_parquet);
        Self { path, delimiter: table.delimiter, is_parquet, names, part: (0, 1) }
    }

    /// The part of one member of a fleet.
    pub(super) fn part(&self, member: usize, of: usize) -> Self {
        Self { part: (member, of), ..self.clone() }
    }

    fn read(&self, columns: &[&str]) -> Result<Vec<Vec<Cell>>, CliError> {
        let rows = read_cells(&self.path, self.delimiter, self.is_parquet, columns, &self.names)?;
        let (member, of) = self.part;
        Ok(rows.into_iter().skip(member).step_by(of).collect())
    }

    /// What a client runs with where all running jobs are analyses: rows that no training reads.
    ///
    /// # Errors
    /// The first analysis that this table cannot answer, if it can answer none.
    pub(super) fn answering(&self, jobs: &[OpenJob]) -> Result<Option<Loaded>, CliError> {
        let asked: Vec<_> = jobs.iter().filter_map(|job| job.analysis.as_ref()).collect();
        if asked.is_empty() || asked.len() < jobs.len() {
            return Ok(None);
        }
        let mut first = None;
        for analysis in asked {
            match self.read(&analysis.columns()) {
                Ok(rows) => return self.rows(rows.len()).map(Some),
                Err(error) => first = first.or(Some(error)),
            }
        }
        first.map_or(Ok(None), Err)
    }

    fn rows(&self, count: usize) -> Result<Loaded, CliError> {
        if count == 0 {
            return Err(CliError::BadSetting(format!("{}: there is no row in it", self.path.display())));
        }
        let examples = MemoryExamples::new(vec![1], vec![0.0; count], Targets::Classes(vec![0; count]));
        let examples = examples.map_err(|error| CliError::Internal(error.to_string()))?;
        // A schema that no job has: the client gets no training.
        let schema = Some(Sha256Hash::of(b"a table that answers analyses alone"));
        Ok(Loaded { examples, labels: None, classes: None, notes: Vec::new(), schema })
    }
}

impl Table for FileTable {
    fn rows(&self, columns: &[&str]) -> Result<Vec<Vec<Cell>>, TrainError> {
        self.read(columns).map_err(|error| TrainError::DoesNotFit(error.to_string()))
    }
}

/// A service may change its folder.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
