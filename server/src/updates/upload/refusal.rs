//! Why an upload is refused or ends early.

use tributary_protocol::hash::Sha256Hash;

use crate::blob::BlobError;
use crate::db::DbError;
use crate::lifecycle::assignments::Refusal;

/// Why an upload is refused or ends early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UploadRefusal {
    #[error(transparent)]
    Report(#[from] Refusal),
    #[error("an update of this job has at most {bytes_max} bytes")]
    TooLarge { bytes_max: u64 },
    #[error("the body broke off: {0}")]
    BrokenOff(String),
    #[error("reading stopped: {0:?}")]
    Stopped(Stop),
    #[error("the body's SHA-256 is {0}")]
    WrongDigest(Sha256Hash),
    #[error("the upload that broke off is another body's; send this one from its beginning")]
    OtherBody,
    #[error("the upload continues at byte {bytes}")]
    WrongOffset { bytes: u64 },
    /// The update is malformed or outside the job's limits.
    #[error("{0}")]
    Rejected(String),
}

impl From<DbError> for UploadRefusal {
    fn from(error: DbError) -> Self {
        Self::Report(error.into())
    }
}

impl From<BlobError> for UploadRefusal {
    fn from(error: BlobError) -> Self {
        Self::Report(error.into())
    }
}

impl UploadRefusal {
    /// Whether the same request may succeed later: a database or store did not answer.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            Self::Report(Refusal::Blob(error)) => !matches!(error, BlobError::Superseded(_)),
            Self::Stopped(stop) => matches!(stop, Stop::Stopping | Stop::Closed),
            _ => false,
        }
    }
}

/// Why a body is not read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The deadline of its round has passed.
    Deadline,
    /// The coordinator stops.
    Stopping,
    /// Its round closed.
    Closed,
    /// A newer request sends the same update.
    Superseded,
}
