//! Test sets of the coordinator's own evaluations.

use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::JobId;
use tributary_protocol::operator::TestSet;

use super::tx::{execute, fetch, stored};
use super::{DbError, Tx};

#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct TestSetRow {
    /// Name of the body.
    pub body: String,
    #[sqlx(try_from = "String")]
    pub sha256: Sha256Hash,
    #[sqlx(try_from = "i64")]
    pub bytes: u64,
    #[sqlx(try_from = "i64")]
    pub examples: u64,
    pub uploaded_at_ms: i64,
}

impl TestSetRow {
    pub fn view(&self) -> TestSet {
        let Self { sha256, bytes, examples, uploaded_at_ms, .. } = *self;
        TestSet { sha256, bytes, examples, uploaded_at_ms }
    }
}

impl Tx {
    /// The test set of a job.
    pub async fn test_set(&mut self, job: JobId) -> Result<Option<TestSetRow>, DbError> {
        let sql = "select body, sha256, bytes, examples, uploaded_at_ms from test_sets where job = $1";
        Ok(fetch!(self, TestSetRow, fetch_optional, sql, job.to_string()))
    }

    /// Deletes the test set of a job, with its body.
    pub async fn delete_test_set(&mut self, job: JobId) -> Result<(), DbError> {
        let sql = "delete from test_sets where job = $1 returning body";
        if let Some((body,)) = fetch!(self, (String,), fetch_optional, sql, job.to_string()) {
            // An object in a store is an orphan from here on; the sweep deletes it.
            self.delete_blob(&body).await?;
        }
        Ok(())
    }

    /// Stores the test set of a job. Returns the name of the body that it replaces.
    pub async fn put_test_set(&mut self, job: JobId, row: &TestSetRow) -> Result<Option<String>, DbError> {
        let former = self.test_set(job).await?.map(|row| row.body);
        let sql = "insert into test_sets (job, body, sha256, bytes, examples, uploaded_at_ms) \
                   values ($1, $2, $3, $4, $5, $6) on conflict (job) do update set body = excluded.body, \
                   sha256 = excluded.sha256, bytes = excluded.bytes, examples = excluded.examples, \
                   uploaded_at_ms = excluded.uploaded_at_ms";
        execute!(
            self,
            sql,
            job.to_string(),
            row.body.as_str(),
            row.sha256.to_string(),
            stored(row.bytes),
            stored(row.examples),
            row.uploaded_at_ms
        );
        Ok(former)
    }
}
