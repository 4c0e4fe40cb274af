//! An object store whose calls all end: each has a time limit, and reads and lists come in pages.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, PutPayload};

use super::StoreError;
use crate::metrics::{BlobCall, Metrics};
use crate::runtime::clock::Stopwatch;

/// Longest time for one call, including the retries of the store's client.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes that one call sends. A longer body takes several calls, so that the time limit of a call does not limit the
/// size of a body. S3 requires at least 5 MiB.
const PUT_PART_BYTES: usize = 8 << 20;

#[derive(Debug)]
pub struct Store {
    objects: PrefixStore<Arc<dyn ObjectStore>>,
    call_timeout: Duration,
    metrics: Arc<Metrics>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    /// Its key below the prefix.
    pub(super) object: String,
    /// When the object was put, by the store's clock, in milliseconds since 1970.
    pub(super) put_at_ms: i64,
}

pub(super) struct Listing<'a> {
    store: &'a Store,
    objects: BoxStream<'static, object_store::Result<ObjectMeta>>,
}

impl Store {
    #[must_use]
    pub fn new(store: Arc<dyn ObjectStore>, prefix: Path, call_timeout: Duration, metrics: Arc<Metrics>) -> Self {
        Self { objects: PrefixStore::new(store, prefix), call_timeout, metrics }
    }

    /// Stores an object, wholly or not at all.
    pub(super) async fn put(&self, object: &str, body: Bytes) -> Result<(), StoreError> {
        let path = Path::from(object);
        if body.len() <= PUT_PART_BYTES {
            self.call(BlobCall::Put, "store a body", self.objects.put(&path, body.into())).await?;
            return Ok(());
        }
        let mut upload = self.call(BlobCall::Put, "begin to store a body", self.objects.put_multipart(&path)).await?;
        let stored = async {
            let mut rest = body;
            while !rest.is_empty() {
                let part = rest.split_to(rest.len().min(PUT_PART_BYTES));
                self.call(BlobCall::Put, "store a part of a body", upload.put_part(PutPayload::from(part))).await?;
            }
            self.call(BlobCall::Put, "complete a body", upload.complete()).await
        };
        if let Err(error) = stored.await {
            // No list shows the parts of an unfinished upload, but the provider keeps and bills them.
            if let Err(error) = self.call(BlobCall::Delete, "abort a body", upload.abort()).await {
                tracing::warn!(%error, object, "parts of an unfinished body may be left in the store");
            }
            return Err(error);
        }
        Ok(())
    }

    /// A range of an object, in one call; none when there is no such object.
    pub(super) async fn part(&self, object: &str, range: Range<u64>) -> Result<Option<Bytes>, StoreError> {
        match self.call(BlobCall::Read, "read a body", self.objects.get_range(&Path::from(object), range)).await {
            Err(StoreError::Refused { source: object_store::Error::NotFound { .. }, .. }) => Ok(None),
            read => read.map(Some),
        }
    }

    /// Deletes objects, many in one call if the store can. Missing objects are no error. A failure does not stop the
    /// deletion of the others.
    pub(super) async fn delete(&self, objects: Vec<String>) -> Result<(), StoreError> {
        if objects.is_empty() {
            return Ok(());
        }
        let paths: VecDeque<_> = objects.iter().map(|object| Ok(Path::from(object.as_str()))).collect();
        let mut deleted = self.objects.delete_stream(stream::iter(paths).boxed());
        let mut failed = None;
        loop {
            match self.call(BlobCall::Delete, "delete bodies", deleted.try_next()).await {
                Ok(Some(_)) | Err(StoreError::Refused { source: object_store::Error::NotFound { .. }, .. }) => {}
                Ok(None) => return failed.map_or(Ok(()), Err),
                // A store that timed out once will do so for the rest.
                Err(error @ StoreError::TimedOut { .. }) => return Err(error),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
    }

    /// Lists all objects below the prefix.
    pub(super) fn list(&self) -> Listing<'_> {
        Listing { store: self, objects: self.objects.list(None) }
    }

    async fn call<T>(
        &self,
        kind: BlobCall,
        doing: &'static str,
        call: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, StoreError> {
        let stopwatch = Stopwatch::start();
        let answer = match tokio::time::timeout(self.call_timeout, call).await {
            Ok(answer) => answer.map_err(|source| StoreError::Refused { doing, source }),
            Err(_) => Err(StoreError::TimedOut { doing, after: self.call_timeout }),
        };
        // A missing object is an answer, not a failure of the store.
        let is_answer =
            matches!(&answer, Ok(_) | Err(StoreError::Refused { source: object_store::Error::NotFound { .. }, .. }));
        self.metrics.blob_call(kind, stopwatch, !is_answer);
        answer
    }
}

impl Listing<'_> {
    /// The next objects, at most `objects_max`; none at the end.
    pub(super) async fn page(&mut self, objects_max: usize) -> Result<Vec<Listed>, StoreError> {
        let mut page = Vec::new();
        while page.len() < objects_max {
            let Some(meta) = self.store.call(BlobCall::List, "list bodies", self.objects.try_next()).await? else {
                break;
            };
            page.push(Listed { object: meta.location.into(), put_at_ms: meta.last_modified.timestamp_millis() });
        }
        Ok(page)
    }
}
