//! A body of unknown length: in memory while it is small, in stored parts of a name of its own when it is not.

use std::ops::Range;

use bytes::Bytes;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::AssignmentId;

use super::blobs::hex;
use super::staged::Place;
use super::{BlobError, Blobs, Reader, Staged, Store, Workbench};
use crate::db::{BLOB_CHUNK_BYTES, DbError, NewStaged, ObjectRow, StagedRow, Tx, part_name};
use crate::runtime::entropy;

/// Bodies that get no more memory than they need.
const SMALL_BYTES: usize = 64 << 10;

/// What a body is for.
#[derive(Clone, Debug)]
pub struct Owner {
    /// What it will be called once it counts.
    pub name: String,
    /// Whose update it is; none for a model.
    pub assignment: Option<AssignmentId>,
    /// What its sender says that its hash will be.
    pub sha256: Option<Sha256Hash>,
    /// When it is deleted unless it counts by then.
    pub expires_at_ms: i64,
}

/// A body that is being written. At most one part of it is in memory.
#[derive(Debug)]
pub struct Spool {
    bench: Workbench,
    owner: Owner,
    /// Length of the parts of a body that is begun anew.
    new_part_bytes: usize,
    /// What is stored; none while all of it is in memory.
    row: Option<StagedRow>,
    /// Parts that are stored and full.
    full_parts: u64,
    /// What follows them. It may be stored too, as the last part.
    tail: Vec<u8>,
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
    #[must_use]
    pub fn spool(&self, owner: Owner) -> Spool {
        Spool::new(self.clone(), owner)
    }

    /// A body that an earlier request left unfinished.
    ///
    /// # Errors
    /// When its last part cannot be read.
    pub async fn resume(&self, owner: Owner, row: StagedRow) -> Result<Spool, BlobError> {
        self.note_parts(&row);
        Spool::resume(self.clone(), owner, row).await
    }
}

impl Spool {
    /// An empty body.
    #[must_use]
    pub(super) fn new(bench: Workbench, owner: Owner) -> Self {
        Self { bench, owner, new_part_bytes: BLOB_CHUNK_BYTES, row: None, full_parts: 0, tail: Vec::new(), whole: None }
    }

    /// Parts of another length for a body that is begun anew: as much of it is in memory at a time.
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

    /// How much there is of it.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.full_parts * self.part_bytes() + self.tail().len() as u64
    }

    /// Whether all of it is in memory.
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        self.row.is_none()
    }

    /// Takes the next bytes; stores each part that they fill, once more follows it.
    ///
    /// # Errors
    /// [`BlobError::Superseded`] when somebody else goes on with this body, or it is of no more use; otherwise when
    /// database or store do not answer.
    pub async fn push(&mut self, mut data: &[u8]) -> Result<(), BlobError> {
        let part_bytes = usize::try_from(self.part_bytes()).unwrap_or(usize::MAX);
        while !data.is_empty() {
            if self.tail.len() == part_bytes {
                self.store_tail().await?;
                self.tail.clear();
                self.full_parts += 1;
            }
            if self.tail.len() + data.len() > SMALL_BYTES {
                // At once: growing by and by would leave as much again to the allocator.
                self.tail.reserve_exact(part_bytes - self.tail.len());
            }
            let (now, later) = data.split_at(data.len().min(part_bytes - self.tail.len()));
            self.tail.extend_from_slice(now);
            data = later;
        }
        Ok(())
    }

    /// Stores all of it so far and keeps it, so that another request can go on with it.
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
        if self.row.as_ref().is_some_and(|row| row.bytes == self.bytes()) || self.bytes() == 0 {
            return Ok(());
        }
        self.store_tail().await
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
            store.sync(self.objects(&row).await?).await?;
        }
        Ok(Staged::new(self.bench.clone(), name, Bytes::new(), Place::Parts(row)))
    }

    /// Reads all of it from its beginning.
    ///
    /// # Errors
    /// [`BlobError`] when database or store do not answer.
    pub async fn replay(&self) -> Result<Replay<'_>, BlobError> {
        self.read(0..self.bytes()).await
    }

    /// Reads these bytes of it, as far as there are any.
    ///
    /// # Errors
    /// As [`Self::replay`].
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

    /// Stores the tail as the part that it is.
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
                // A key of its own: what is in use already stays as it is until the transaction is done.
                let name = part_name(&row.id, self.full_parts);
                let object = store.key(&format!("{name}-{}", hex(&entropy::random::<8>())));
                // Lent, not copied: many may be storing at a time. Bytes that nobody else holds become the same Vec
                // again.
                let part = self.whole.clone().unwrap_or_else(|| Bytes::from(std::mem::take(&mut self.tail)));
                let put = store.put(&object, part.clone()).await;
                if self.whole.is_none() {
                    self.tail = Vec::from(part);
                }
                put?;
                Some(ObjectRow::of(object, self.tail()))
            }
        };
        // What counts is made durable by the transaction that makes it count.
        let mut tx = self.bench.db.begin_losable().await?;
        self.store_row(&mut tx, &row).await?;
        let part = self.full_parts;
        let is_new = self.row.as_ref().is_none_or(|row| row.bytes <= part * row.part_bytes);
        let former = match &object {
            None => {
                tx.put_part(&row.id, part, self.tail()).await?;
                None
            }
            Some(object) if is_new => {
                tx.insert_object(&part_name(&row.id, part), object).await?;
                None
            }
            Some(object) => tx.put_object(&part_name(&row.id, part), object).await?,
        };
        self.bench.note_parts(&row);
        tx.commit().await?;
        self.row = Some(row);
        self.bench.blobs.delete(former.into_iter().collect()).await;
        Ok(())
    }

    /// The objects of the body's parts.
    async fn objects(&self, row: &StagedRow) -> Result<Vec<String>, DbError> {
        let objects = self.bench.db.read().await?.objects(&row.part_names(0..row.parts())).await?;
        Ok(objects.into_iter().map(|(_, row)| row.object).collect())
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

/// Where the parts of a body go, unless into the database.
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
