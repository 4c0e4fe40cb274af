//! A body of unknown length: in memory while it is small, in stored chunks of a name of its own when it is not.
//!
//! In files, chunks are appended to the file of the body, and the database learns of several at once: a transaction for
//! each chunk would cost as much as writing it.

use std::collections::BTreeSet;
use std::ops::Range;

use bytes::Bytes;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::AssignmentId;

use super::appended::Appended;
use super::blobs::hex;
use super::staged::Place;
use super::{BlobError, Blobs, Reader, Staged, Store, Workbench};
use crate::db::{BLOB_CHUNK_BYTES, DbError, NewStaged, ObjectRow, StagedRow, Tx, chunk_name};
use crate::runtime::entropy;

/// Bodies that get no more memory than they need.
const SMALL_BYTES: usize = 64 << 10;
/// Bytes of chunks in a file that the database does not know yet, at most. An upload that was interrupted by the end of
/// this process loses this many.
const UNRECORDED_BYTES_MAX: u64 = 8 << 20;

/// What a body is for.
#[derive(Clone, Debug)]
pub struct Owner {
    /// What it will be called once it counts.
    pub name: String,
    /// Whose update it is, and which part of it; none for a model.
    pub assignment: Option<(AssignmentId, u16)>,
    /// What its sender says that its hash will be.
    pub sha256: Option<Sha256Hash>,
    /// When it is deleted unless it counts by then.
    pub expires_at_ms: i64,
}

/// A body that is being written. At most one chunk of it is in memory.
#[derive(Debug)]
pub struct Spool {
    bench: Workbench,
    owner: Owner,
    /// Length of the chunks of a body that is begun anew.
    new_chunk_bytes: usize,
    /// What is stored; none while all of it is in memory.
    row: Option<StagedRow>,
    /// How much of it the database knows.
    recorded_bytes: u64,
    /// Chunks that are stored and full.
    full_chunks: u64,
    /// What follows them. It may be stored too, as the last chunk.
    tail: Vec<u8>,
    /// The file to which chunks are appended, where they are no objects of their own.
    file: Option<Appended>,
    /// Chunks in it that no row describes yet: their number and place.
    unrecorded: Vec<(u64, ObjectRow)>,
    /// The same once a body that is all in memory is whole: whoever stores it shares it.
    whole: Option<Bytes>,
}

/// A body that is read again from its beginning: what is stored, then what is in memory.
#[derive(Debug)]
pub struct Replay<'a> {
    stored: Option<Reader<'a>>,
    tail: Bytes,
}

impl Workbench {
    /// An empty body.
    pub fn spool(&self, owner: Owner) -> Spool {
        Spool::new(self.clone(), owner)
    }

    /// A body that an earlier request left unfinished.
    ///
    /// # Errors
    /// When its last chunk cannot be read.
    pub async fn resume(&self, owner: Owner, row: StagedRow) -> Result<Spool, BlobError> {
        self.note_chunks(&row);
        Spool::resume(self.clone(), owner, row).await
    }

    /// A body that another coordinator has kept for this one at so many bytes ([`Spool::keep`]). What was written of it
    /// since is dropped.
    ///
    /// # Errors
    /// [`BlobError::Superseded`] when it is of no more use.
    pub async fn take_over(&self, owner: Owner, id: &str, bytes: u64) -> Result<Spool, BlobError> {
        let mut tx = self.db.begin().await?;
        let taken = tx.take_staged(id, bytes).await?;
        let (row, former) = taken.ok_or_else(|| BlobError::Superseded(owner.name.clone()))?;
        let objects = match row.in_store {
            true => tx.forget_objects(&former.chunk_names(row.chunks()..former.chunks())).await?,
            false => Vec::new(),
        };
        // The chunks of a body may be in one object.
        let known = tx.known_objects(&objects).await?;
        tx.commit().await?;
        self.blobs.delete(objects.into_iter().filter(|object| !known.contains(object)).collect()).await;
        Spool::resume(self.clone(), owner, row).await
    }
}

impl Spool {
    /// An empty body.
    pub(super) fn new(bench: Workbench, owner: Owner) -> Self {
        Self {
            bench,
            owner,
            new_chunk_bytes: BLOB_CHUNK_BYTES,
            row: None,
            recorded_bytes: 0,
            full_chunks: 0,
            tail: Vec::new(),
            file: None,
            unrecorded: Vec::new(),
            whole: None,
        }
    }

    /// Chunks of another length for a body that is begun anew: as much of it is in memory at a time.
    #[must_use]
    pub fn in_chunks_of(mut self, bytes: usize) -> Self {
        self.new_chunk_bytes = bytes.clamp(1, BLOB_CHUNK_BYTES);
        self
    }

    pub(super) async fn resume(bench: Workbench, owner: Owner, row: StagedRow) -> Result<Self, BlobError> {
        let (full_chunks, rest) = (row.bytes / row.chunk_bytes, row.bytes % row.chunk_bytes);
        let mut tail = Vec::new();
        if rest > 0 {
            let mut reader = bench.blobs.chunks_reader(&bench.db, row.clone()).await?;
            reader.skip(row.bytes - rest);
            while let Some(data) = reader.next().await? {
                tail.extend_from_slice(&data);
            }
        }
        Ok(Self { full_chunks, recorded_bytes: row.bytes, row: Some(row), tail, ..Self::new(bench, owner) })
    }

    /// How much there is of it.
    pub fn bytes(&self) -> u64 {
        self.full_chunks * self.chunk_bytes() + self.tail().len() as u64
    }

    /// What it is for.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// The name under which its chunks are stored; none while all of it is in memory.
    pub fn id(&self) -> Option<&str> {
        self.row.as_ref().map(|row| row.id.as_str())
    }

    /// Whether all of it is in memory.
    pub fn is_in_memory(&self) -> bool {
        self.row.is_none()
    }

    /// Takes the next bytes; stores each chunk that they fill, as soon as a further byte follows it.
    ///
    /// # Errors
    /// [`BlobError::Superseded`] when somebody else continues with this body, or it is of no more use; otherwise when
    /// database or store do not answer.
    pub async fn push(&mut self, mut data: &[u8]) -> Result<(), BlobError> {
        let chunk_bytes = usize::try_from(self.chunk_bytes()).unwrap_or(usize::MAX);
        while !data.is_empty() {
            if self.tail.len() == chunk_bytes {
                self.store_tail().await?;
                self.tail.clear();
                self.full_chunks += 1;
            }
            if self.tail.len() + data.len() > SMALL_BYTES {
                // At once: growing by and by would leave as much again to the allocator.
                self.tail.reserve_exact(chunk_bytes - self.tail.len());
            }
            let (now, later) = data.split_at(data.len().min(chunk_bytes - self.tail.len()));
            self.tail.extend_from_slice(now);
            data = later;
        }
        Ok(())
    }

    /// Stores all of it so far and keeps it, so that another request can continue with it.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub async fn keep(&mut self) -> Result<(), BlobError> {
        self.store_all().await?;
        if let Some(row) = &self.row {
            self.bench.release(&row.id);
        }
        Ok(())
    }

    async fn store_all(&mut self) -> Result<(), BlobError> {
        let is_stored = self.row.as_ref().is_some_and(|row| row.bytes == self.bytes());
        if !is_stored && self.bytes() > 0 {
            self.store_tail().await?;
        }
        self.record().await
    }

    /// The body is whole. `now_ms` is when.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub async fn finish(&mut self, now_ms: i64) -> Result<Staged, BlobError> {
        let name = self.owner.name.clone();
        if self.is_in_memory() {
            let body = self.whole.insert(Bytes::from(std::mem::take(&mut self.tail))).clone();
            return self.bench.stage(name, body, now_ms).await;
        }
        self.store_all().await?;
        let row = self.row.clone().expect("a body that is not in memory is stored");
        if let Some(store) = store_of(&self.bench.blobs, &row)? {
            self.file = None;
            store.sync(self.objects(&row).await?).await?;
        }
        Ok(Staged::new(self.bench.clone(), name, Bytes::new(), Place::Chunks(row)))
    }

    /// Reads all of it from its beginning.
    ///
    /// # Errors
    /// [`BlobError`] when database or store do not answer.
    pub async fn replay(&mut self) -> Result<Replay<'_>, BlobError> {
        self.read(0..self.bytes()).await
    }

    /// Reads these bytes of it, as far as there are any.
    ///
    /// # Errors
    /// As [`Self::replay`].
    pub async fn read(&mut self, wanted: Range<u64>) -> Result<Replay<'_>, BlobError> {
        self.record().await?;
        let stored_bytes = self.full_chunks * self.chunk_bytes();
        let stored = match &self.row {
            Some(row) if wanted.start < wanted.end.min(stored_bytes) => {
                let mut full = row.clone();
                full.bytes = wanted.end.min(stored_bytes);
                let mut reader = self.bench.blobs.chunks_reader(&self.bench.db, full).await?;
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

    fn chunk_bytes(&self) -> u64 {
        self.row.as_ref().map_or(self.new_chunk_bytes as u64, |row| row.chunk_bytes)
    }

    /// Stores the tail as the chunk that it is.
    async fn store_tail(&mut self) -> Result<(), BlobError> {
        let fresh = || {
            let id = format!("staged/{}", hex(&entropy::random::<16>()));
            StagedRow::begun(id, self.in_new_store(), self.new_chunk_bytes)
        };
        let mut row = self.row.clone().unwrap_or_else(fresh);
        row.bytes = self.bytes();
        let blobs = self.bench.blobs.clone();
        let Some(store) = store_of(&blobs, &row)? else { return self.store_in_database(row).await };
        let chunk = self.full_chunks;
        // Lent, not copied: many may be storing at a time. Bytes that nobody else holds become the same Vec again.
        let data = self.whole.clone().unwrap_or_else(|| Bytes::from(std::mem::take(&mut self.tail)));
        let object = self.put(store, &chunk_name(&row.id, chunk), data.clone()).await;
        if self.whole.is_none() {
            self.tail = Vec::from(data);
        }
        let object = object?;
        self.unrecorded.retain(|(unrecorded, _)| *unrecorded != chunk);
        self.unrecorded.push((chunk, object));
        self.row = Some(row);
        let unrecorded_bytes: u64 = self.unrecorded.iter().map(|(_, object)| object.bytes).sum();
        // Each object of its own is recorded at once: a file is deleted as a whole, but objects are by their rows.
        if self.file.is_none() || unrecorded_bytes >= UNRECORDED_BYTES_MAX { self.record().await } else { Ok(()) }
    }

    async fn store_in_database(&mut self, row: StagedRow) -> Result<(), BlobError> {
        // What counts is made durable by the transaction that makes it count.
        let mut tx = self.bench.db.begin_losable().await?;
        self.store_row(&mut tx, &row).await?;
        tx.put_chunk(&row.id, self.full_chunks, self.tail()).await?;
        self.bench.note_chunks(&row);
        tx.commit().await?;
        self.recorded_bytes = row.bytes;
        self.row = Some(row);
        Ok(())
    }

    /// Puts a chunk into the store. What is in use already stays as it is until a transaction replaces it.
    async fn put(&mut self, store: &Store, name: &str, data: Bytes) -> Result<ObjectRow, BlobError> {
        let key = format!("{name}-{}", hex(&entropy::random::<8>()));
        if self.file.is_none() {
            self.file = store.begin_file(&key).await?;
            if let Some(file) = &self.file {
                self.bench.note_object(file.key());
            }
        }
        let Some(file) = &mut self.file else {
            let object = store.key(&key);
            store.put(&object, data.clone()).await?;
            return Ok(ObjectRow::of(object, &data));
        };
        let begins = store.append(file, data.clone()).await?;
        Ok(ObjectRow::range(file.key().to_owned(), begins, &data))
    }

    /// Lets the database know of all chunks that are stored.
    async fn record(&mut self) -> Result<(), BlobError> {
        let Some(row) = self.row.clone().filter(|_| !self.unrecorded.is_empty()) else { return Ok(()) };
        // What counts is made durable by the transaction that makes it count.
        let mut tx = self.bench.db.begin_losable().await?;
        self.store_row(&mut tx, &row).await?;
        // The last chunk of a body that broke off was shorter.
        let is_known = |chunk: u64| chunk * row.chunk_bytes < self.recorded_bytes;
        let named = |(chunk, object): &(u64, ObjectRow)| (chunk_name(&row.id, *chunk), object.clone());
        let (again, new): (Vec<_>, Vec<_>) = self.unrecorded.iter().partition(|(chunk, _)| is_known(*chunk));
        let mut former = Vec::new();
        for (name, object) in again.into_iter().map(named) {
            former.extend(tx.put_object(&name, &object).await?);
        }
        tx.insert_objects(&new.into_iter().map(named).collect::<Vec<_>>()).await?;
        // Other chunks may be in the same file.
        let known = tx.known_objects(&former).await?;
        self.bench.note_chunks(&row);
        tx.commit().await?;
        if let Some(file) = &self.file {
            self.bench.release(file.key());
        }
        self.recorded_bytes = row.bytes;
        self.unrecorded.clear();
        former.retain(|object| !known.contains(object));
        self.bench.blobs.delete(former).await;
        Ok(())
    }

    /// The objects of the body's chunks.
    async fn objects(&self, row: &StagedRow) -> Result<Vec<String>, DbError> {
        let objects = self.bench.db.look().await?.objects(&row.chunk_names(0..row.chunks())).await?;
        Ok(objects.into_iter().map(|(_, row)| row.object).collect::<BTreeSet<_>>().into_iter().collect())
    }

    async fn store_row(&self, tx: &mut Tx, row: &StagedRow) -> Result<(), BlobError> {
        let superseded = || BlobError::Superseded(self.owner.name.clone());
        if self.recorded_bytes > 0 {
            return if tx.extend_staged(&row.id, row.attempt, row.bytes).await? { Ok(()) } else { Err(superseded()) };
        }
        let staged = NewStaged {
            id: &row.id,
            assignment: self.owner.assignment,
            in_store: row.in_store,
            chunk_bytes: row.chunk_bytes,
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

/// Where the chunks of a body go, unless into the database.
fn store_of<'a>(blobs: &'a Blobs, row: &StagedRow) -> Result<Option<&'a Store>, BlobError> {
    match (blobs, row.in_store) {
        (_, false) => Ok(None),
        (Blobs::Store(store), true) => Ok(Some(store)),
        (Blobs::Database, true) => Err(BlobError::NoStore),
    }
}

impl Replay<'_> {
    /// The next bytes; none at the end.
    ///
    /// # Errors
    /// [`BlobError`] when database or store do not answer.
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
