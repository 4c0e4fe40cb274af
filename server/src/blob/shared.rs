//! Chunks of bodies that several requests read at the same time. Each chunk is read once and held once.
//!
//! All clients of a round download the same model. However many and however slow they are, the chunks that they hold
//! are together at most one copy of it. A chunk is dropped with the last response that uses it.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, Weak};

use bytes::Bytes;
use tokio::sync::OnceCell;

use super::{BlobError, Blobs, StoredBody};
use crate::db::{BLOB_CHUNK_BYTES, Db};
use crate::runtime::lock::Locked;

/// The chunks that are in use.
#[derive(Debug, Default)]
pub struct SharedChunks {
    held: Mutex<HashMap<(String, u64), Weak<Chunk>>>,
}

/// A chunk; empty until it is read.
type Chunk = OnceCell<Bytes>;

/// Keeps a chunk shared while a response uses its bytes.
struct Held(Arc<Chunk>);

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        self.0.get().map_or(&[], Bytes::as_ref)
    }
}

impl SharedChunks {
    /// The first bytes of a range, at most [`BLOB_CHUNK_BYTES`]; none past the end. The body of this name must never
    /// change.
    pub async fn chunk(
        &self,
        blobs: &Blobs,
        db: &Db,
        body: &StoredBody,
        wanted: Range<u64>,
    ) -> Result<Option<Bytes>, BlobError> {
        let number = wanted.start / BLOB_CHUNK_BYTES as u64;
        let begins = number * BLOB_CHUNK_BYTES as u64;
        let chunk = self.held(body.name(), number);
        let read = async || {
            let data = blobs.chunk(db, body, begins..begins + BLOB_CHUNK_BYTES as u64).await?;
            Ok::<_, BlobError>(data.unwrap_or_default())
        };
        let bytes = chunk.get_or_try_init(read).await?.len();
        let from = usize::try_from(wanted.start - begins).unwrap_or(usize::MAX);
        let to = usize::try_from(wanted.end - begins).unwrap_or(usize::MAX).min(bytes);
        if from < to {
            return Ok(Some(Bytes::from_owner(Held(chunk)).slice(from..to)));
        }
        // The chunks of this body are shorter than the shared ones.
        blobs.chunk(db, body, wanted).await
    }

    fn held(&self, name: &str, number: u64) -> Arc<Chunk> {
        let mut held = self.held.locked();
        let key = (name.to_owned(), number);
        if let Some(chunk) = held.get(&key).and_then(Weak::upgrade) {
            return chunk;
        }
        // Removes the unused entries. There are as many entries as chunks in use, so this is far cheaper than reading a
        // chunk.
        held.retain(|_, chunk| chunk.strong_count() > 0);
        let chunk = Arc::default();
        held.insert(key, Arc::downgrade(&chunk));
        chunk
    }
}
