//! Reading bodies, at most [`BLOB_CHUNK_BYTES`] at a time: one path for downloads, commits and folding.

use std::ops::Range;
use std::sync::Mutex;

use bytes::Bytes;
use tributary_protocol::hash::{Sha256Hash, Sha256Hasher};

use super::{BlobError, Blobs, Store};
use crate::db::{BLOB_CHUNK_BYTES, Db, DbError, ObjectRow, StagedRow, StoredChunk, Tx, chunk_name};
use crate::runtime::lock::Locked;

/// The place where a body was found.
#[derive(Clone, Debug)]
pub struct StoredBody {
    name: String,
    place: Place,
}

#[derive(Clone, Debug)]
enum Place {
    /// In the database under its name, or missing.
    Here,
    /// In the store, in one object.
    Object(ObjectRow),
    /// In chunks, under another name.
    Chunks(StagedRow, Ahead),
}

/// Chunks whose objects are looked up at once. A transaction for each chunk would cost as much as copying it.
const AHEAD_CHUNKS: u64 = 16;

/// The objects of the next chunks of a body, by the names of the chunks. They do not change: a chunk that was deleted
/// since is missing, as it would be if it was deleted a moment later.
#[derive(Debug, Default)]
struct Ahead(Mutex<Vec<(String, ObjectRow)>>);

impl Clone for Ahead {
    /// Another reader is elsewhere in the body.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Ahead {
    async fn object(&self, db: &Db, chunks: &StagedRow, chunk: u64) -> Result<Option<ObjectRow>, DbError> {
        let name = chunk_name(&chunks.id, chunk);
        let find = |objects: &[(String, ObjectRow)]| {
            objects.iter().find(|(found, _)| *found == name).map(|(_, object)| object.clone())
        };
        if let Some(object) = find(&self.0.locked()) {
            return Ok(Some(object));
        }
        let names = chunks.chunk_names(chunk..chunks.chunks().min(chunk + AHEAD_CHUNKS));
        let objects = db.look().await?.objects(&names).await?;
        let object = find(&objects);
        *self.0.locked() = objects;
        Ok(object)
    }
}

/// Reads a body from beginning to end.
#[derive(Debug)]
pub struct Reader<'a> {
    blobs: &'a Blobs,
    db: &'a Db,
    body: StoredBody,
    /// Where reading ends, if the length is known.
    end: u64,
    at: u64,
    /// A body in the database may be read in one snapshot.
    snapshot: Option<Tx>,
    check: Check,
}

/// How a whole body is checked while it is read.
#[derive(Debug)]
enum Check {
    /// Each chunk has been compared with its checksum.
    Chunks,
    /// An object of several chunks, against its checksum.
    Object(crc32fast::Hasher, u32),
    /// The body against its hash.
    Hash(Sha256Hasher, Sha256Hash),
}

impl Check {
    fn update(&mut self, data: &[u8]) {
        match self {
            Self::Chunks => {}
            Self::Object(hasher, _) => hasher.update(data),
            Self::Hash(hasher, _) => hasher.update(data),
        }
    }

    /// Whether the body is as it was stored, at its end.
    fn holds(&mut self) -> bool {
        match std::mem::replace(self, Self::Chunks) {
            Self::Chunks => true,
            Self::Object(hasher, crc) => hasher.finalize() == crc,
            Self::Hash(hasher, sha256) => hasher.finish() == sha256,
        }
    }
}

impl StoredBody {
    pub fn name(&self) -> &str {
        &self.name
    }

    fn is_in_store(&self) -> bool {
        match &self.place {
            Place::Here => false,
            Place::Object(_) => true,
            Place::Chunks(chunks, _) => chunks.in_store,
        }
    }
}

impl Blobs {
    /// Looks up where a body of this length is. This takes a query if a store is configured that has small bodies, and
    /// for a body of more than one chunk, because only those may be staged.
    pub async fn find(&self, db: &Db, name: String, bytes: u64) -> Result<StoredBody, BlobError> {
        let stores_small = matches!(self, Self::Store(store) if store.takes_small());
        match bytes <= BLOB_CHUNK_BYTES as u64 && !stores_small {
            true => Ok(StoredBody { name, place: Place::Here }),
            false => Ok(locate(&mut db.read().await?, name).await?),
        }
    }

    /// Begins to read a whole body without a snapshot, so that no connection is held between two chunks: several bodies
    /// can be read side by side.
    pub async fn chunks<'a>(&'a self, db: &'a Db, name: String, sha256: Sha256Hash) -> Result<Reader<'a>, BlobError> {
        let body = locate(&mut db.read().await?, name).await?;
        let check = self.check(&body, sha256)?;
        Ok(self.read_on(db, None, body, check))
    }

    /// The first bytes of a range, at most [`BLOB_CHUNK_BYTES`]; none past the end.
    pub async fn chunk(&self, db: &Db, body: &StoredBody, wanted: Range<u64>) -> Result<Option<Bytes>, BlobError> {
        match &body.place {
            Place::Object(object) => piece(self.store()?, &body.name, object, wanted).await,
            Place::Chunks(chunks, ahead) if chunks.in_store => {
                let wanted = wanted.start..wanted.end.min(chunks.bytes);
                if wanted.is_empty() {
                    return Ok(None);
                }
                let chunk = wanted.start / chunks.chunk_bytes;
                let object = ahead.object(db, chunks, chunk).await?;
                let object = object.ok_or_else(|| BlobError::Missing(body.name.clone()))?;
                self.stored_chunk(chunks, chunk, &object, wanted).await
            }
            _ => chunk_in(&mut db.look().await?, body, wanted).await,
        }
    }

    /// The bytes of a range from the store, up to the end of the chunk where the range begins.
    async fn stored_chunk(
        &self,
        chunks: &StagedRow,
        chunk: u64,
        object: &ObjectRow,
        wanted: Range<u64>,
    ) -> Result<Option<Bytes>, BlobError> {
        let (name, before) = (chunk_name(&chunks.id, chunk), chunk * chunks.chunk_bytes);
        let wanted = wanted.start - before..wanted.end - before;
        let data = piece(self.store()?, &name, object, wanted).await?;
        match &data {
            Some(data) if data.len() as u64 == object.bytes && differs(data, object.crc) => {
                Err(BlobError::Damaged(name))
            }
            _ => Ok(data),
        }
    }

    /// Begins to read a whole body. A body in the database is read in one snapshot.
    pub async fn reader<'a>(&'a self, db: &'a Db, name: String, sha256: Sha256Hash) -> Result<Reader<'a>, BlobError> {
        let mut tx = db.read().await?;
        let body = locate(&mut tx, name).await?;
        let check = self.check(&body, sha256)?;
        Ok(self.read_on(db, Some(tx), body, check))
    }

    /// Begins to read the stored chunks of a body that may be unfinished.
    pub(super) async fn chunks_reader<'a>(&'a self, db: &'a Db, chunks: StagedRow) -> Result<Reader<'a>, BlobError> {
        let tx = db.read().await?;
        let body = StoredBody { name: chunks.id.clone(), place: Place::Chunks(chunks, Ahead::default()) };
        if body.is_in_store() {
            self.store()?;
        }
        Ok(self.read_on(db, Some(tx), body, Check::Chunks))
    }

    /// How to check this body. The database and the files beside it are ours: a checksum finds what a disk or a crash
    /// did to them. Other programs can write to a store, so a body from there is compared with its hash.
    fn check(&self, body: &StoredBody, sha256: Sha256Hash) -> Result<Check, BlobError> {
        if !body.is_in_store() {
            return Ok(Check::Chunks);
        }
        match &body.place {
            Place::Object(ObjectRow { crc, .. }) if self.store()?.is_beside() => {
                Ok(Check::Object(crc32fast::Hasher::new(), *crc))
            }
            Place::Chunks(..) if self.store()?.is_beside() => Ok(Check::Chunks),
            _ => Ok(Check::Hash(Sha256Hasher::new(), sha256)),
        }
    }

    fn read_on<'a>(&'a self, db: &'a Db, tx: Option<Tx>, body: StoredBody, check: Check) -> Reader<'a> {
        // A store may be slow, so no snapshot is held meanwhile.
        let snapshot = tx.filter(|_| !body.is_in_store());
        let end = if let Place::Chunks(chunks, _) = &body.place { chunks.bytes } else { u64::MAX };
        Reader { blobs: self, db, body, end, at: 0, snapshot, check }
    }

    fn store(&self) -> Result<&Store, BlobError> {
        match self {
            Self::Store(store) => Ok(store),
            Self::Database => Err(BlobError::NoStore),
        }
    }
}

impl Reader<'_> {
    /// Begins at this byte of a body whose chunks are checked one by one.
    pub(super) fn skip(&mut self, bytes: u64) {
        self.at = bytes;
    }

    /// The next bytes, at most [`BLOB_CHUNK_BYTES`]; none at the end, after the body was checked. An empty body is
    /// reported as missing.
    pub async fn next(&mut self) -> Result<Option<Bytes>, BlobError> {
        let wanted = self.at..self.end;
        let data = match &mut self.snapshot {
            Some(tx) => chunk_in(tx, &self.body, wanted).await?,
            None => self.blobs.chunk(self.db, &self.body, wanted).await?,
        };
        match &data {
            None if self.at == 0 => return Err(BlobError::Missing(self.body.name.clone())),
            None if !self.check.holds() => return Err(BlobError::Damaged(self.body.name.clone())),
            None => {}
            Some(data) => self.check.update(data),
        }
        self.at += data.as_ref().map_or(0, |data| data.len() as u64);
        Ok(data)
    }
}

async fn locate(tx: &mut Tx, name: String) -> Result<StoredBody, DbError> {
    let place = match tx.object(&name).await? {
        Some(object) => Place::Object(object),
        None => tx.staged_body(&name).await?.map_or(Place::Here, |chunks| Place::Chunks(chunks, Ahead::default())),
    };
    Ok(StoredBody { name, place })
}

/// The bytes of a range of an object, at most one chunk.
async fn piece(store: &Store, name: &str, object: &ObjectRow, wanted: Range<u64>) -> Result<Option<Bytes>, BlobError> {
    let end = wanted.end.min(object.bytes).min(wanted.start.saturating_add(BLOB_CHUNK_BYTES as u64));
    if wanted.start >= end {
        return Ok(None);
    }
    let data = store.range(&object.object, object.begins + wanted.start..object.begins + end).await?;
    let data = data.ok_or_else(|| BlobError::Missing(name.to_owned()))?;
    let whole = data.len() as u64 == end - wanted.start;
    if whole { Ok(Some(data)) } else { Err(BlobError::Damaged(name.to_owned())) }
}

/// The bytes of a range of a body in the database, up to the end of the chunk where the range begins.
async fn chunk_in(tx: &mut Tx, body: &StoredBody, wanted: Range<u64>) -> Result<Option<Bytes>, BlobError> {
    let Place::Chunks(chunks, _) = &body.place else {
        return chunk(tx, &body.name, BLOB_CHUNK_BYTES as u64, wanted).await;
    };
    let wanted = wanted.start..wanted.end.min(chunks.bytes);
    if wanted.is_empty() {
        return Ok(None);
    }
    let data = chunk(tx, &chunks.id, chunks.chunk_bytes, wanted).await?;
    data.map(Some).ok_or_else(|| BlobError::Missing(body.name.clone()))
}

/// The bytes of a range, up to the end of the chunk where the range begins.
async fn chunk(tx: &mut Tx, name: &str, chunk_bytes: u64, wanted: Range<u64>) -> Result<Option<Bytes>, BlobError> {
    let number = wanted.start / chunk_bytes;
    let Some(StoredChunk { data, crc }) = tx.blob_chunk(name, number).await? else { return Ok(None) };
    if differs(&data, crc) {
        return Err(BlobError::Damaged(name.to_owned()));
    }
    let data = Bytes::from(data);
    let from = usize::try_from(wanted.start % chunk_bytes).unwrap_or(usize::MAX);
    let to = usize::try_from(wanted.end - number * chunk_bytes).unwrap_or(usize::MAX).min(data.len());
    Ok((from < to).then(|| data.slice(from..to)))
}

/// Whether bytes are other ones than those that were stored with this checksum.
fn differs(data: &[u8], crc: u32) -> bool {
    crc32fast::hash(data) != crc
}
