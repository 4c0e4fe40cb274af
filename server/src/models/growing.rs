//! A file of a version that grows, and that may go from one coordinator to the next.

use serde::{Deserialize, Serialize};
use tributary_protocol::hash::{Sha256Hash, Sha256Hasher};
use tributary_protocol::model::Companion;

use super::version::Role;
use crate::blob::{BlobError, Spool, Staged, Workbench};
use crate::db::{MadeFor, ModelFileRow};

/// A file while it is written.
pub(super) struct Growing {
    pub(super) spool: Spool,
    pub(super) hasher: Sha256Hasher,
}

/// A file that is not whole, as another coordinator takes it over.
#[derive(Serialize, Deserialize)]
pub(super) struct Kept {
    /// The name under which its chunks are stored.
    id: String,
    bytes: u64,
    /// The inner state of its hash.
    hash: Vec<u8>,
}

/// A whole file.
pub(super) struct Grown {
    pub(super) staged: Staged,
    pub(super) sha256: Sha256Hash,
    pub(super) bytes: u64,
}

impl Grown {
    /// The file as a companion of this version.
    pub(super) fn companion(self, version: u32, companion: Companion) -> (Role, Staged) {
        let Self { staged, sha256, bytes } = self;
        let form = MadeFor::Companion(companion);
        (Role::Made(ModelFileRow { version, form, sha256, bytes, packed: false }), staged)
    }
}

impl Growing {
    /// An empty file.
    pub(super) fn begin(spool: Spool) -> Self {
        Self { spool, hasher: Sha256Hasher::new() }
    }

    /// The file that another coordinator has kept. None for the state of another hash.
    ///
    /// # Errors
    /// [`BlobError::Superseded`] when it was kept for too long.
    pub(super) async fn take_over(bench: &Workbench, empty: &Spool, kept: &Kept) -> Result<Option<Self>, BlobError> {
        let Some(hasher) = Sha256Hasher::of_state(&kept.hash) else { return Ok(None) };
        let spool = bench.take_over(empty.owner().clone(), &kept.id, kept.bytes).await?;
        Ok(Some(Self { spool, hasher }))
    }

    pub(super) async fn push(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        self.hasher.update(bytes);
        self.spool.push(bytes).await
    }

    /// Keeps the file for the next coordinator.
    pub(super) async fn keep(mut self) -> Result<Kept, BlobError> {
        self.spool.keep().await?;
        let id = self.spool.id().unwrap_or_default().to_owned();
        Ok(Kept { id, bytes: self.spool.bytes(), hash: self.hasher.state() })
    }

    /// The file is whole.
    pub(super) async fn finish(mut self, now_ms: i64) -> Result<Grown, BlobError> {
        let staged = self.spool.finish(now_ms).await?;
        Ok(Grown { staged, sha256: self.hasher.finish(), bytes: self.spool.bytes() })
    }
}
