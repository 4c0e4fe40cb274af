//! Files derived from model versions: whole models in other forms, and model deltas.

use std::fmt;

use tributary_protocol::download::{ModelDeltaFile, ModelForm};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::JobId;

use super::tx::{execute, fetch, stored};
use super::{DbError, Tx};
use crate::blob::model_file_key;

/// The readers of a derived file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MadeFor {
    /// Clients that fetch the whole model in this form.
    Form(ModelForm),
    /// Clients that have the version before it.
    Delta,
}

/// A stored form that this release does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a form of a model")]
pub struct UnknownForm(String);

impl MadeFor {
    /// The value of the column `form`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Form(form) => form.as_str(),
            Self::Delta => "delta",
        }
    }
}

impl fmt::Display for MadeFor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

impl TryFrom<String> for MadeFor {
    type Error = UnknownForm;

    fn try_from(text: String) -> Result<Self, UnknownForm> {
        let all = ModelForm::ALL.into_iter().map(Self::Form).chain([Self::Delta]);
        all.into_iter().find(|made| made.as_str() == text).ok_or(UnknownForm(text))
    }
}

/// A file that is derived from a model version.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct ModelFileRow {
    #[sqlx(try_from = "i64")]
    pub version: u32,
    #[sqlx(try_from = "String")]
    pub form: MadeFor,
    /// SHA-256 of the body as it is sent.
    #[sqlx(try_from = "String")]
    pub sha256: Sha256Hash,
    /// Length of the body in bytes.
    #[sqlx(try_from = "i64")]
    pub bytes: u64,
    /// Whether the body is the file as one zstd frame.
    pub packed: bool,
}

#[derive(sqlx::FromRow)]
struct StepRow {
    #[sqlx(try_from = "i64")]
    version: u32,
    #[sqlx(try_from = "String")]
    base_sha256: Sha256Hash,
    #[sqlx(try_from = "String")]
    sha256: Sha256Hash,
    #[sqlx(try_from = "i64")]
    bytes: u64,
}

#[derive(sqlx::FromRow)]
struct FormOnly {
    #[sqlx(try_from = "String")]
    form: MadeFor,
}

impl Tx {
    /// # Errors
    /// [`DbError::Duplicate`] when the version has a file of this form.
    pub async fn insert_model_file(&mut self, job: JobId, file: &ModelFileRow) -> Result<(), DbError> {
        let sql = "insert into model_files (job, version, form, sha256, bytes, packed) values ($1, $2, $3, $4, $5, $6)";
        execute!(
            self,
            sql,
            job.to_string(),
            i64::from(file.version),
            file.form.as_str(),
            file.sha256.to_string(),
            stored(file.bytes),
            file.packed
        );
        Ok(())
    }

    pub async fn model_file(
        &mut self,
        job: JobId,
        version: u32,
        form: MadeFor,
    ) -> Result<Option<ModelFileRow>, DbError> {
        let sql = "select version, form, sha256, bytes, packed from model_files \
                   where job = $1 and version = $2 and form = $3";
        Ok(fetch!(self, ModelFileRow, fetch_optional, sql, job.to_string(), i64::from(version), form.as_str()))
    }

    /// The model deltas to the versions after `after` up to `to`, in order. Those of deleted versions are missing.
    pub async fn steps(&mut self, job: JobId, after: u32, to: u32) -> Result<Vec<ModelDeltaFile>, DbError> {
        let sql = "select f.version, m.sha256 as base_sha256, f.sha256, f.bytes from model_files f \
                   join models m on m.job = f.job and m.version = f.version - 1 \
                   where f.job = $1 and f.form = 'delta' and f.version > $2 and f.version <= $3 order by f.version";
        let rows = fetch!(self, StepRow, fetch_all, sql, job.to_string(), i64::from(after), i64::from(to));
        let step =
            |StepRow { version, base_sha256, sha256, bytes }| ModelDeltaFile { version, base_sha256, sha256, bytes };
        Ok(rows.into_iter().map(step).collect())
    }

    /// Deletes the files that are derived from a version, with their bodies.
    pub async fn delete_model_files(&mut self, job: JobId, version: u32) -> Result<(), DbError> {
        let sql = "delete from model_files where job = $1 and version = $2 returning form";
        let rows = fetch!(self, FormOnly, fetch_all, sql, job.to_string(), i64::from(version));
        for FormOnly { form } in rows {
            // An object in a store becomes an orphan here; the sweep deletes it.
            self.delete_blob(&model_file_key(job, version, form)).await?;
        }
        Ok(())
    }
}
