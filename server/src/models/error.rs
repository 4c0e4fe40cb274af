//! Why no model was made.

use tributary_engine::aggregate::AggregateError;
use tributary_protocol::model::ParameterListError;
use tributary_protocol::safetensors::ModelFileError;
use tributary_protocol::update::{EncodeError, FormError};

use super::version::VersionError;
use crate::blob::BlobError;
use crate::db::DbError;
use crate::relay::UpstreamError;
use crate::updates::stored::StoredError;

/// Errors of making a model. Updates were checked when they were accepted, so all but an unavailable database are
/// faults.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    #[error(transparent)]
    Stored(#[from] StoredError),
    #[error(transparent)]
    Blob(#[from] BlobError),
    #[error("the stored model cannot be read: {0}")]
    Model(#[from] ModelFileError),
    /// The stored base model does not have its parameters in the job's order.
    #[error("parameter {0} is out of order in the stored model")]
    Order(usize),
    #[error("the job's companions have no file: {0}")]
    Companion(#[from] ParameterListError),
    #[error(transparent)]
    Form(#[from] FormError),
    #[error(transparent)]
    Aggregate(#[from] AggregateError),
    /// The combination of a relay has a value that is not finite.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The parent of this relay cannot be told the sum.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
}

impl CommitError {
    /// Whether the model would have had a value that is not finite.
    pub(crate) fn is_not_finite(&self) -> bool {
        matches!(self, Self::Aggregate(AggregateError::NotFinite { .. }))
    }

    /// Whether the next attempt would fail in the same way, because stored data cannot be read.
    pub(crate) fn is_lasting(&self) -> bool {
        match self {
            Self::Stored(StoredError::Db(error)) => is_corrupt(error),
            Self::Stored(StoredError::Blob(error)) | Self::Blob(error) => is_damaged(error),
            Self::Upstream(_) => false,
            Self::Stored(StoredError::Update { .. } | StoredError::Sum { .. } | StoredError::Fold { .. })
            | Self::Model(_)
            | Self::Order(_)
            | Self::Companion(_)
            | Self::Form(_)
            | Self::Encode(_)
            | Self::Aggregate(_) => true,
        }
    }
}

fn is_corrupt(error: &DbError) -> bool {
    matches!(error, DbError::Corrupt(_))
}

fn is_damaged(error: &BlobError) -> bool {
    match error {
        BlobError::Missing(_) | BlobError::Damaged(_) => true,
        BlobError::Db(error) => is_corrupt(error),
        _ => false,
    }
}

impl From<DbError> for CommitError {
    fn from(error: DbError) -> Self {
        Self::Blob(error.into())
    }
}

impl From<VersionError> for CommitError {
    fn from(error: VersionError) -> Self {
        match error {
            VersionError::Blob(error) => error.into(),
            VersionError::Form(error) => error.into(),
        }
    }
}
