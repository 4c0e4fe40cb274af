//! A new model version: a set of staged bodies that one transaction stores together.

use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::JobId;
use tributary_protocol::operator::ModelVersion;
use tributary_protocol::update::FormError;

use crate::blob::{BlobError, Owner, Spool, Staged, Workbench};
use crate::db::{ModelFileRow, RoundRow, Tx};
use crate::runtime::clock::Clock;

/// Time that a new version may take until the transaction that stores it: an hour in milliseconds.
const UNFINISHED_KEPT_MS: i64 = 60 * 60 * 1_000;

/// The role of a body in its version.
#[derive(Debug)]
pub(crate) enum Role {
    /// The model's plain file.
    Model,
    /// A file derived from the model, which clients download instead of it or on top of the previous version.
    Made(ModelFileRow),
}

/// A version whose bodies are staged.
#[derive(Debug)]
pub(crate) struct NewVersion {
    pub(crate) row: ModelVersion,
    pub(crate) bodies: Vec<(Role, Staged)>,
    /// Of a private round whose clip follows its updates: the noised share of updates within it.
    pub(crate) clip_share: Option<f64>,
}

impl NewVersion {
    /// Makes this the job's newest version, from the transaction's commit on.
    ///
    /// # Errors
    /// [`crate::db::DbError::Duplicate`] when the job has this version; otherwise as [`Staged::settle`].
    pub(crate) async fn store(&mut self, tx: &mut Tx, job: JobId, now_ms: i64) -> Result<(), BlobError> {
        tx.insert_model(job, &self.row).await?;
        for (role, body) in &mut self.bodies {
            if let Role::Made(file) = role {
                tx.insert_model_file(job, file).await?;
            }
            body.settle(tx, now_ms).await?;
        }
        Ok(())
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum VersionError {
    #[error(transparent)]
    Blob(#[from] BlobError),
    #[error(transparent)]
    Form(#[from] FormError),
}

/// The version that a round has made.
pub(super) fn made_by(round: &RoundRow, sha256: Sha256Hash, bytes: u64, now_ms: i64) -> ModelVersion {
    ModelVersion {
        version: round.base_version + 1,
        round: Some(round.number),
        sha256,
        bytes,
        created_at_ms: now_ms,
        deleted_at_ms: None,
        accuracy: None,
        measured_on: None,
        loss: None,
        best: false,
        pinned_at_ms: None,
    }
}

/// An empty body for a file of a version that is not stored yet.
pub(crate) fn spool(bench: &Workbench, clock: &Clock, name: String) -> Spool {
    let expires_at_ms = clock.now_ms().saturating_add(UNFINISHED_KEPT_MS);
    bench.spool(Owner { name, assignment: None, sha256: None, expires_at_ms })
}
