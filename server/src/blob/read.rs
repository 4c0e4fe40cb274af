//! Reading bodies, at most [`BLOB_CHUNK_BYTES`] at a time: one path for downloads, commits and folding.

use std::ops::Range;

use bytes::Bytes;
use tributary_protocol::hash::{Sha256Hash, Sha256Hasher};

use super::{BlobError, Blobs};
use crate::db::{BLOB_CHUNK_BYTES, Db};

/// Where a body was found.
#[derive(Clone, Debug)]
pub struct StoredBody {
    name: String,
    /// Its key in the store and its length; none when it is in the database.
    object: Option<(String, u64)>,
}

impl StoredBody {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Blobs {
    /// Looks up where a body is. Costs a query only where there is a store.
    ///
    /// # Errors
    /// [`BlobError::Db`].
    pub async fn find(&self, db: &Db, name: String) -> Result<StoredBody, BlobError> {
        let object = match self {
            Self::Database => None,
            Self::Store(_) => db.read().await?.object(&name).await?,
        };
        Ok(StoredBody { name, object })
    }

    /// The first bytes of a wanted range, at most [`BLOB_CHUNK_BYTES`]; none past the end.
    ///
    /// # Errors
    /// [`BlobError`] when database or store do not answer, or the body is not what was stored.
    pub async fn part(&self, db: &Db, body: &StoredBody, wanted: Range<u64>) -> Result<Option<Bytes>, BlobError> {
        match (&body.object, self) {
            (None, _) => chunk(db, &body.name, wanted).await,
            (Some((object, bytes)), Self::Store(store)) => {
                let end = wanted.end.min(*bytes).min(wanted.start.saturating_add(BLOB_CHUNK_BYTES as u64));
                if wanted.start >= end {
                    return Ok(None);
                }
                let data = store.part(object, wanted.start..end).await?;
                let data = data.ok_or_else(|| BlobError::Missing(body.name.clone()))?;
                let whole = data.len() as u64 == end - wanted.start;
                if whole { Ok(Some(data)) } else { Err(BlobError::Damaged(body.name.clone())) }
            }
            (Some(_), Self::Database) => Err(BlobError::NoStore),
        }
    }

    /// Reads a whole body. One from a store is checked against its hash: unlike a database, a store is shared with
    /// others. An empty body reads as a missing one.
    ///
    /// # Errors
    /// As [`Self::part`], and [`BlobError::Missing`] when there is none.
    pub async fn read(&self, db: &Db, name: String, sha256: Sha256Hash) -> Result<Vec<u8>, BlobError> {
        let stored = self.find(db, name).await?;
        let mut body = Vec::new();
        let mut hasher = Sha256Hasher::new();
        while let Some(data) = self.part(db, &stored, body.len() as u64..u64::MAX).await? {
            if stored.object.is_some() {
                hasher.update(&data);
            }
            body.extend_from_slice(&data);
        }
        if body.is_empty() {
            return Err(BlobError::Missing(stored.name));
        }
        if stored.object.is_some() && hasher.finish() != sha256 {
            return Err(BlobError::Damaged(stored.name));
        }
        Ok(body)
    }
}

/// The wanted bytes that are in the part where the range begins.
async fn chunk(db: &Db, name: &str, wanted: Range<u64>) -> Result<Option<Bytes>, BlobError> {
    let chunk = BLOB_CHUNK_BYTES as u64;
    let part = wanted.start / chunk;
    let Some(data) = db.read().await?.blob_part(name, part).await?.map(Bytes::from) else { return Ok(None) };
    let from = usize::try_from(wanted.start % chunk).unwrap_or(usize::MAX);
    let to = usize::try_from(wanted.end - part * chunk).unwrap_or(usize::MAX).min(data.len());
    Ok((from < to).then(|| data.slice(from..to)))
}
