//! A body of unknown length: in memory while it is small, in chunks under a name of its own when it is large.

use std::ops::Range;

use bytes::Bytes;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::AssignmentId;

use super::staged::Place;
use super::{BlobError, Blobs, Reader, Staged, Store, Workbench, hex};
use crate::db::{BLOB_CHUNK_BYTES, Db, DbError, NewStaged, StagedRow, Tx, part_name};
use crate::runtime::entropy;

/// Up to this length a body gets no more memory than it needs.
const SMALL_BYTES: usize = 64 << 10;

/// The purpose of a body.
#[derive(Clone, Debug)]
pub struct Owner {
    /// The name of the body once it counts.
    pub name: String,
    /// The assignment of an update; none for a model.
    pub assignment: Option<AssignmentId>,
    /// The hash of the whole body, as its sender announced it.
    pub sha256: Option<Sha256Hash>,
    /// When an unfinished body becomes obsolete.
    pub expires_at_ms: i64,
}

/// A body that is being written. At most one chunk of it is in memory.
#[derive(Debug)]
pub struct Spool {
    bench: Workbench,
    owner: Owner,
    /// Length of the chunks, for a new body.
    new_part_bytes: usize,
    /// The stored part of the body; none while the whole body is in memory.
    row: Option<StagedRow>,
    /// Number of chunks that are stored and full.
    full_parts: u64,
    /// The bytes after the full chunks. They may be stored as well, as the last chunk.
    tail: Vec<u8>,
    /// The tail of a complete body that is wholly in memory, so that storing it makes no copy.
    whole: Option<Bytes>,
}

/// Reads a body again from its beginning: the stored chunks, then the bytes in memory.
#[derive(Debug)]
pub struct Replay<'a> {
    stored: Option<Reader<'a>>,
    tail: Bytes,
}

impl Spool {
    #[must_use]
    pub(super) fn new(bench: Workbench, owner: Owner) -> Self {
        Self { bench, owner, new_part_bytes: BLOB_CHUNK_BYTES, row: None, full_parts: 0, tail: Vec::new(), whole: None }
    }

    /// Sets the chunk length of a new body, which is also its share of memory.
    #[must_use]
    pub fn in_parts_of(mut self, bytes: usize) -> Self {
        self.new_part_bytes = bytes.clamp(1, BLOB_CHUNK_BYTES);
        self
    }

    pub(super) async fn resume(bench: Workbench, owner: Owner, row: StagedRow) -> Result<Self, BlobError> {
        let (full_parts, rest) = (row.bytes / row.part_bytes, row.bytes % row.part_bytes);
        let mut tail = Vec::new();
        if rest > 0 {
            let mut reader = bench.blobs.parts_reader(&bench.db, row.clone()).await?;
            reader.skip(row.bytes - rest);
            while let Some(data) = reader.next().await? {
                tail.extend_from_slice(&data);
            }
        }
        Ok(Self { bench, owner, new_part_bytes: BLOB_CHUNK_BYTES, row: Some(row), full_parts, tail, whole: None })
    }

    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.full_parts * self.part_bytes() + self.tail().len() as u64
    }

    /// Whether the whole body is in memory.
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        self.row.is_none()
    }

    /// Appends bytes. A full chunk is stored when further bytes follow it.
    ///
    /// # Errors
    /// [`BlobError::Superseded`] when another request continues this body, or it is obsolete.
    pub async fn push(&mut self, mut data: &[u8]) -> Result<(), BlobError> {
        let part_bytes = usize::try_from(self.part_bytes()).unwrap_or(usize::MAX);
        while !data.is_empty() {
            if self.tail.len() == part_bytes {
                self.store_tail().await?;
                self.tail.clear();
                self.full_parts += 1;
            }
            if self.tail.len() + data.len() > SMALL_BYTES {
                // In one allocation: growth by doubling would leave as much again to the allocator.
                self.tail.reserve_exact(part_bytes - self.tail.len());
            }
            let (now, later) = data.split_at(data.len().min(part_bytes - self.tail.len()));
            self.tail.extend_from_slice(now);
            data = later;
        }
        Ok(())
    }

    /// Stores the whole body so far and keeps it, so that another request can resume it.
    pub async fn keep(&mut self) -> Result<(), BlobError> {
        self.store_all().await?;
        if let Some(row) = &self.row {
            self.bench.release(&row.id);
        }
        Ok(())
    }

    async fn store_all(&mut self) -> Result<(), BlobError> {
        if self.row.as_ref().is_some_and(|row| row.bytes == self.bytes()) || self.bytes() == 0 {
            return Ok(());
        }
        self.store_tail().await
    }

    /// Completes the body. `now_ms` is the current time.
    pub async fn finish(&mut self, now_ms: i64) -> Result<Staged, BlobError> {
        let name = self.owner.name.clone();
        if self.is_in_memory() {
            let body = self.whole.insert(Bytes::from(std::mem::take(&mut self.tail))).clone();
            return self.bench.stage(name, body, now_ms).await;
        }
        self.store_all().await?;
        let row = self.row.clone().expect("a body that is not in memory is stored");
        Ok(Staged::new(self.bench.clone(), name, Bytes::new(), Place::Parts(row)))
    }

    /// Reads the body from its beginning.
    pub async fn replay(&self) -> Result<Replay<'_>, BlobError> {
        self.read(0..self.bytes()).await
    }

    /// Reads a range of the body, as far as its bytes exist.
    pub async fn read(&self, wanted: Range<u64>) -> Result<Replay<'_>, BlobError> {
        let stored_bytes = self.full_parts * self.part_bytes();
        let stored = match &self.row {
            Some(row) if wanted.start < wanted.end.min(stored_bytes) => {
                let mut full = row.clone();
                full.bytes = wanted.end.min(stored_bytes);
                let mut reader = self.bench.blobs.parts_reader(&self.bench.db, full).await?;
                reader.skip(wanted.start);
                Some(reader)
            }
            _ => None,
        };
        let in_tail =
            |byte: u64| usize::try_from(byte.saturating_sub(stored_bytes)).unwrap_or(usize::MAX).min(self.tail().len());
        let tail = in_tail(wanted.start)..in_tail(wanted.end).max(in_tail(wanted.start));
        Ok(Replay { stored, tail: Bytes::copy_from_slice(&self.tail()[tail]) })
    }

    fn tail(&self) -> &[u8] {
        self.whole.as_deref().unwrap_or(&self.tail)
    }

    fn part_bytes(&self) -> u64 {
        self.row.as_ref().map_or(self.new_part_bytes as u64, |row| row.part_bytes)
    }

    /// Stores the tail as the last chunk.
    async fn store_tail(&mut self) -> Result<(), BlobError> {
        let fresh = || {
            let id = format!("staged/{}", hex(&entropy::random::<16>()));
            StagedRow::begun(id, self.in_new_store(), self.new_part_bytes)
        };
        let mut row = self.row.clone().unwrap_or_else(fresh);
        row.bytes = self.bytes();
        let object = match store_of(&self.bench.blobs, &row)? {
            None => None,
            Some(store) => {
                // A key of its own: a chunk that is in use stays unchanged until the transaction commits.
                let object = format!("{}-{}", part_name(&row.id, self.full_parts), hex(&entropy::random::<8>()));
                // The bytes are lent to the store, not copied, because many uploads may store chunks at a time.
                // Afterwards they become the same Vec again.
                let part = self.whole.clone().unwrap_or_else(|| Bytes::from(std::mem::take(&mut self.tail)));
                let put = store.put(&object, part.clone()).await;
                if self.whole.is_none() {
                    self.tail = Vec::from(part);
                }
                put?;
                Some(object)
            }
        };
        // The transaction that makes the body count makes its chunks durable.
        let mut tx = self.bench.db.begin_losable().await?;
        self.store_row(&mut tx, &row).await?;
        let former = match &object {
            None => {
                tx.put_part(&row.id, self.full_parts, self.tail()).await?;
                None
            }
            Some(object) => {
                tx.put_object(&part_name(&row.id, self.full_parts), object, self.tail().len() as u64).await?
            }
        };
        self.bench.note_parts(&row);
        tx.commit().await?;
        self.row = Some(row);
        self.bench.blobs.delete(former.into_iter().collect()).await;
        Ok(())
    }

    async fn store_row(&self, tx: &mut Tx, row: &StagedRow) -> Result<(), BlobError> {
        let superseded = || BlobError::Superseded(self.owner.name.clone());
        if self.row.is_some() {
            return if tx.extend_staged(&row.id, row.attempt, row.bytes).await? { Ok(()) } else { Err(superseded()) };
        }
        let staged = NewStaged {
            id: &row.id,
            assignment: self.owner.assignment,
            in_store: row.in_store,
            part_bytes: row.part_bytes,
            bytes: row.bytes,
            sha256: self.owner.sha256,
            expires_at_ms: self.owner.expires_at_ms,
        };
        match tx.insert_staged(&staged).await {
            Err(DbError::Duplicate) => Err(superseded()),
            stored => Ok(stored?),
        }
    }

    fn in_new_store(&self) -> bool {
        matches!(self.bench.blobs, Blobs::Store(_))
    }
}

/// The store of a body's chunks; none when they are in the database.
fn store_of<'a>(blobs: &'a Blobs, row: &StagedRow) -> Result<Option<&'a Store>, BlobError> {
    match (blobs, row.in_store) {
        (_, false) => Ok(None),
        (Blobs::Store(store), true) => Ok(Some(store)),
        (Blobs::Database, true) => Err(BlobError::NoStore),
    }
}

impl Blobs {
    /// Reads a stored body from its beginning.
    pub async fn replay<'a>(&'a self, db: &'a Db, name: String, sha256: Sha256Hash) -> Result<Replay<'a>, BlobError> {
        Ok(Replay { stored: Some(self.reader(db, name, sha256).await?), tail: Bytes::new() })
    }
}

impl Replay<'_> {
    /// The next bytes; none at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, BlobError> {
        if let Some(reader) = &mut self.stored {
            if let Some(data) = reader.next().await? {
                return Ok(Some(data));
            }
            self.stored = None;
        }
        let tail = std::mem::take(&mut self.tail);
        Ok(if tail.is_empty() { None } else { Some(tail) })
    }
}
