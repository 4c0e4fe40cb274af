//! A test set on its way in: checked while it arrives, stored part by part.

use tributary_engine::job::JobSpec;
use tributary_protocol::hash::Sha256Hasher;
use tributary_protocol::id::JobId;
use tributary_protocol::operator::TestSet;

use super::test_set::{TestSetError, TestSetReader};
use crate::blob::{BlobError, Spool, Staged, Workbench};
use crate::db::{TestSetRow, Tx, test_set_key};
use crate::models::version::spool;
use crate::runtime::clock::Clock;
use crate::runtime::entropy;

/// A test set that is being uploaded.
pub(crate) struct UploadedTestSet {
    reader: TestSetReader,
    hasher: Sha256Hasher,
    spool: Spool,
    body: String,
}

/// A test set that a transaction stores.
#[derive(Debug)]
pub(crate) struct NewTestSet {
    row: TestSetRow,
    body: Staged,
}

/// Why a test set is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UploadError {
    #[error(transparent)]
    TestSet(#[from] TestSetError),
    #[error(transparent)]
    Blob(#[from] BlobError),
}

impl UploadedTestSet {
    pub(crate) fn begin(bench: &Workbench, clock: &Clock, spec: &JobSpec) -> Result<Self, TestSetError> {
        let reader = TestSetReader::checking(&spec.file.model, spec.file.training.loss)?;
        // A name of its own: the body of an earlier test set may be read while this one arrives.
        let body = test_set_key(spec.id, u64::from_le_bytes(entropy::random()));
        let spool = spool(bench, clock, body.clone());
        Ok(Self { reader, hasher: Sha256Hasher::new(), spool, body })
    }

    /// Bytes that were received.
    pub(crate) fn bytes(&self) -> u64 {
        self.spool.bytes()
    }

    /// Takes the next bytes of the file.
    pub(crate) async fn push(&mut self, data: &[u8]) -> Result<(), UploadError> {
        self.reader.push(data)?;
        self.hasher.update(data);
        Ok(self.spool.push(data).await?)
    }

    pub(crate) async fn finish(mut self, now_ms: i64) -> Result<NewTestSet, UploadError> {
        let (examples, _) = self.reader.finish()?;
        let row = TestSetRow {
            body: self.body,
            sha256: self.hasher.finish(),
            bytes: self.spool.bytes(),
            examples,
            uploaded_at_ms: now_ms,
        };
        Ok(NewTestSet { row, body: self.spool.finish(now_ms).await? })
    }
}

impl NewTestSet {
    /// Makes it the test set of its job, from the transaction's commit on. Returns the object of the one that it
    /// replaces, which the caller deletes after the commit.
    pub(crate) async fn store(&mut self, tx: &mut Tx, job: JobId) -> Result<Option<String>, BlobError> {
        let former = tx.put_test_set(job, &self.row).await?;
        self.body.settle(tx, self.row.uploaded_at_ms).await?;
        match former {
            Some(former) => Ok(tx.delete_blob(&former).await?),
            None => Ok(None),
        }
    }

    pub(crate) fn view(&self) -> TestSet {
        self.row.view()
    }
}
