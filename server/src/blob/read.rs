//! Reading bodies, at most [`BLOB_CHUNK_BYTES`] at a time: one path for downloads, commits and folding.

use std::ops::Range;

use bytes::Bytes;
use tributary_protocol::hash::{Sha256Hash, Sha256Hasher};

use super::{BlobError, Blobs, Store};
use crate::db::{BLOB_CHUNK_BYTES, Db, Tx};

/// Where a body was found.
#[derive(Clone, Debug)]
pub struct StoredBody {
    name: String,
    /// Its key in the store and its length; none when it is in the database.
    object: Option<(String, u64)>,
}

/// A body that is read from its beginning to its end; in the database, in one snapshot.
#[derive(Debug)]
pub struct Reader<'a> {
    name: String,
    at: u64,
    source: Source<'a>,
}

#[derive(Debug)]
enum Source<'a> {
    Database(Tx),
    Store { store: &'a Store, object: String, bytes: u64, hasher: Sha256Hasher, sha256: Sha256Hash },
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
            (None, _) => chunk(&mut db.read().await?, &body.name, wanted).await,
            (Some((object, bytes)), Self::Store(store)) => piece(store, &body.name, object, *bytes, wanted).await,
            (Some(_), Self::Database) => Err(BlobError::NoStore),
        }
    }

    /// Begins to read a whole body. One from a store is checked against its hash: unlike a database, a store is shared
    /// with others.
    ///
    /// # Errors
    /// [`BlobError`] when the database does not answer, or the body is in a store that is not configured.
    pub async fn reader(&self, db: &Db, name: String, sha256: Sha256Hash) -> Result<Reader<'_>, BlobError> {
        let stored = self.find(db, name).await?;
        let source = match (stored.object, self) {
            (None, _) => Source::Database(db.read().await?),
            (Some((object, bytes)), Self::Store(store)) => {
                Source::Store { store, object, bytes, hasher: Sha256Hasher::new(), sha256 }
            }
            (Some(_), Self::Database) => return Err(BlobError::NoStore),
        };
        Ok(Reader { name: stored.name, at: 0, source })
    }

    /// Reads a whole body into memory.
    ///
    /// # Errors
    /// As [`Self::reader`] and [`Reader::next`].
    pub async fn read(&self, db: &Db, name: String, sha256: Sha256Hash) -> Result<Vec<u8>, BlobError> {
        let mut reader = self.reader(db, name, sha256).await?;
        let mut body = Vec::new();
        while let Some(data) = reader.next().await? {
            body.extend_from_slice(&data);
        }
        Ok(body)
    }
}

impl Reader<'_> {
    /// The next bytes, at most [`BLOB_CHUNK_BYTES`]; none at the end, and only after the hash was right. An empty body
    /// reads as a missing one.
    ///
    /// # Errors
    /// [`BlobError`] when database or store do not answer, or the body is not what was stored.
    pub async fn next(&mut self) -> Result<Option<Bytes>, BlobError> {
        let data = match &mut self.source {
            Source::Database(tx) => chunk(tx, &self.name, self.at..u64::MAX).await?,
            Source::Store { store, object, bytes, hasher, sha256 } => {
                let data = piece(store, &self.name, object, *bytes, self.at..u64::MAX).await?;
                match &data {
                    Some(data) => hasher.update(data),
                    None if std::mem::take(hasher).finish() != *sha256 => {
                        return Err(BlobError::Damaged(self.name.clone()));
                    }
                    None => {}
                }
                data
            }
        };
        if data.is_none() && self.at == 0 {
            return Err(BlobError::Missing(self.name.clone()));
        }
        self.at += data.as_ref().map_or(0, |data| data.len() as u64);
        Ok(data)
    }
}

/// The wanted bytes of an object, as many as one part has.
async fn piece(
    store: &Store,
    name: &str,
    object: &str,
    bytes: u64,
    wanted: Range<u64>,
) -> Result<Option<Bytes>, BlobError> {
    let end = wanted.end.min(bytes).min(wanted.start.saturating_add(BLOB_CHUNK_BYTES as u64));
    if wanted.start >= end {
        return Ok(None);
    }
    let data = store.part(object, wanted.start..end).await?;
    let data = data.ok_or_else(|| BlobError::Missing(name.to_owned()))?;
    let whole = data.len() as u64 == end - wanted.start;
    if whole { Ok(Some(data)) } else { Err(BlobError::Damaged(name.to_owned())) }
}

/// The wanted bytes that are in the part where the range begins.
async fn chunk(tx: &mut Tx, name: &str, wanted: Range<u64>) -> Result<Option<Bytes>, BlobError> {
    let chunk = BLOB_CHUNK_BYTES as u64;
    let part = wanted.start / chunk;
    let Some(data) = tx.blob_part(name, part).await?.map(Bytes::from) else { return Ok(None) };
    let from = usize::try_from(wanted.start % chunk).unwrap_or(usize::MAX);
    let to = usize::try_from(wanted.end - part * chunk).unwrap_or(usize::MAX).min(data.len());
    Ok((from < to).then(|| data.slice(from..to)))
}
