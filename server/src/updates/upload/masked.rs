//! A masked update: checked for its form alone, because nobody can read it, and stored until its group opens the sum.

use bytes::Bytes;
use tributary_protocol::hash::Sha256Hash;

use super::group::Group;
use super::receiving::Receiving;
use super::{Target, Upload, UploadRefusal, Uploaded};
use crate::blob::Staged;
use crate::lifecycle::assignments::{Received, Refusal};
use crate::lifecycle::groups;

impl Receiving<'_> {
    /// Stores a masked update that is in memory.
    pub(super) async fn held_masked(
        &self,
        group: &Group,
        body: Bytes,
        sha256: Sha256Hash,
        received: Received,
    ) -> Result<Uploaded, UploadRefusal> {
        let Self { upload, target, bench, .. } = self;
        let mut reader = group.reader();
        let checked = reader.read(&body, |_| ()).and_then(|()| reader.finish());
        if let Err(error) = checked {
            return upload.reject(target, error.to_string(), received).await;
        }
        let mut staged = bench.stage(target.key(), body, upload.services.clock.now_ms()).await?;
        upload.keep_masked(target, group, &mut staged, sha256, received).await
    }
}

impl Upload {
    /// Stores a masked update with the note that its member has sent it.
    pub(super) async fn keep_masked(
        &self,
        target: &Target,
        group: &Group,
        staged: &mut Staged,
        sha256: Sha256Hash,
        received: Received,
    ) -> Result<Uploaded, UploadRefusal> {
        let stored = groups::mask(&self.services, &target.assignment, group.id(), staged, sha256, received).await;
        match stored {
            Ok(true) => Ok(Uploaded::Accepted),
            // Another request stored it before, or the group went on without it.
            Ok(false) => {
                let now = self.target().await?;
                let body = now.group.as_ref().and_then(|group| group.body);
                match body {
                    Some(body) if body == sha256 => Ok(Uploaded::Accepted),
                    Some(_) => self.refuse(target, received, Refusal::Conflict(self.id).into()).await,
                    None => {
                        now.require_open(&self.services).await?;
                        Err(group.passed().into())
                    }
                }
            }
            Err(refusal) => self.refuse(target, received, refusal.into()).await,
        }
    }
}
