//! The bytes of a stored file, from one of them on.

use std::ops::Range;

use bytes::Bytes;

use super::error::CommitError;
use crate::blob::{BlobError, StoredBody};
use crate::services::Services;

/// Bytes that are read in order. One chunk of them is in memory.
pub(super) struct StoredRange<'a> {
    services: &'a Services,
    body: StoredBody,
    /// The bytes that are to be read.
    wanted: Range<u64>,
    rest: Bytes,
}

impl<'a> StoredRange<'a> {
    /// These of the bytes of a file that has so many.
    pub(super) async fn open(
        services: &'a Services,
        (name, bytes): (String, u64),
        wanted: Range<u64>,
    ) -> Result<Self, CommitError> {
        let body = services.blobs.find(&services.db, name, bytes).await?;
        Ok(Self { services, body, wanted, rest: Bytes::new() })
    }

    /// The next bytes, at most so many.
    ///
    /// # Errors
    /// [`BlobError::Missing`] behind the last.
    pub(super) async fn piece(&mut self, most: usize) -> Result<Bytes, CommitError> {
        if self.rest.is_empty() {
            let Services { blobs, db, .. } = self.services;
            let missing = || BlobError::Missing(self.body.name().to_owned());
            self.rest = blobs.chunk(db, &self.body, self.wanted.clone()).await?.ok_or_else(missing)?;
            self.wanted.start += self.rest.len() as u64;
        }
        Ok(self.rest.split_to(most.min(self.rest.len())))
    }
}
