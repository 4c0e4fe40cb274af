//! Why an upload is refused or ends early.

use crate::blob::BlobError;
use crate::db::DbError;
use crate::lifecycle::assignments::Refusal;

/// A body that breaks off before this many bytes costs the coordinator more than its sender.
const ATTEMPT_BYTES: u64 = 64 << 10;

/// The part of what is stored that a further body must bring: all of it is read and decoded again for each.
const CHUNK_PART: u64 = 8;

/// Whether a body that does not end the update, a chunk or one that broke off, costs the coordinator more than its
/// sender. `offset` is where it begins. A sender whose bodies break off after a fortieth of the update still ends it:
/// the first eight bring an eighth, and 32 attempts follow.
pub(super) fn is_small_body(bytes: u64, offset: Option<u64>) -> bool {
    bytes < ATTEMPT_BYTES.max(offset.unwrap_or(0) / CHUNK_PART)
}

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
    /// Which one it has is not told: the audit log quotes this, and a private job keeps nothing of a client's update.
    #[error("the body has another SHA-256 than was announced: it was damaged on the way")]
    WrongDigest,
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

    /// Whether the sender could repeat such bodies for ever at the coordinator's cost. Bodies that broke off count if
    /// they brought little beside what is stored, those that were outpaced if they brought next to nothing.
    pub(super) fn is_attempt(&self, bytes: u64, offset: Option<u64>) -> bool {
        match self {
            Self::WrongDigest => true,
            Self::BrokenOff(_) | Self::Stopped(Stop::Superseded) => is_small_body(bytes, offset),
            Self::Stopped(Stop::Outpaced) => bytes < ATTEMPT_BYTES,
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
    /// It brought too few bytes while other uploads waited for memory.
    Outpaced,
}
