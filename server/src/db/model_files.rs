//! Files of model versions beside the model: whole models in other forms, steps, and companions.

use tributary_protocol::download::ModelDeltaFile;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::JobId;

use super::names::{MadeFor, model_file_key};
use super::tx::{execute, fetch, stored};
use super::{DbError, Tx};

/// A file that is made of a model version.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct ModelFileRow {
    /// The version.
    #[sqlx(try_from = "i64")]
    pub version: u32,
    /// What for.
    #[sqlx(try_from = "String")]
    pub form: MadeFor,
    /// Hash of the body as it is sent.
    #[sqlx(try_from = "String")]
    pub sha256: Sha256Hash,
    /// Its length.
    #[sqlx(try_from = "i64")]
    pub bytes: u64,
    /// Whether it is the file as one zstd frame.
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
    /// Stores what file is made of a version.
    ///
    /// # Errors
    /// [`DbError::Duplicate`] when the version has one for that.
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

    /// A version's file for this.
    ///
    /// # Errors
    /// [`DbError`].
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

    /// The steps to versions after `after` up to `to`, in order. Those of deleted versions are missing.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn steps(&mut self, job: JobId, after: u32, to: u32) -> Result<Vec<ModelDeltaFile>, DbError> {
        let sql = "select f.version, m.sha256 as base_sha256, f.sha256, f.bytes from model_files f \
                   join models m on m.job = f.job and m.version = f.version - 1 \
                   where f.job = $1 and f.form = 'delta' and f.version > $2 and f.version <= $3 order by f.version";
        let rows = fetch!(self, StepRow, fetch_all, sql, job.to_string(), i64::from(after), i64::from(to));
        let step =
            |StepRow { version, base_sha256, sha256, bytes }| ModelDeltaFile { version, base_sha256, sha256, bytes };
        Ok(rows.into_iter().map(step).collect())
    }

    /// Deletes the companions of a version, with their bodies. Returns the objects that had them, which the caller
    /// deletes after the commit.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn delete_companions(&mut self, job: JobId, version: u32) -> Result<Vec<String>, DbError> {
        // Most jobs have none.
        let sql = "select form from model_files where job = $1 and version = $2";
        let files = fetch!(self, FormOnly, fetch_all, sql, job.to_string(), i64::from(version));
        let mut objects = Vec::new();
        for FormOnly { form } in files {
            if let MadeFor::Companion(_) = form {
                let sql = "delete from model_files where job = $1 and version = $2 and form = $3";
                execute!(self, sql, job.to_string(), i64::from(version), form.as_str());
                objects.extend(self.delete_blob(&model_file_key(job, version, form)).await?);
            }
        }
        Ok(objects)
    }

    /// Deletes the files of a version beside the model, with their bodies.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn delete_model_files(&mut self, job: JobId, version: u32) -> Result<(), DbError> {
        let sql = "delete from model_files where job = $1 and version = $2 returning form";
        let rows = fetch!(self, FormOnly, fetch_all, sql, job.to_string(), i64::from(version));
        for FormOnly { form } in rows {
            // An object in a store is an orphan from here on; the sweep deletes it.
            self.delete_blob(&model_file_key(job, version, form)).await?;
        }
        Ok(())
    }
}
