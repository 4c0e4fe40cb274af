//! An object store whose calls all end: each has a time limit, and reads and lists come in pages.

use std::collections::{BTreeSet, VecDeque};
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, PutPayload};

use super::appended::Appended;
use super::error::StoreError;
use crate::db::BLOB_CHUNK_BYTES;
use crate::metrics::{BlobCall, Metrics};
use crate::runtime::clock::Stopwatch;
use crate::runtime::offload::blocking;

/// Longest time for one call, including the retries of the store's client.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Keys of the objects beside a database begin with this, so that they are found when another store is named later.
pub(super) const BESIDE: &str = "beside/";

/// Bytes that one call sends. A longer body takes several calls, so that the time limit of a call does not limit the
/// size of a body. S3 requires at least 5 MiB.
const PUT_PART_BYTES: usize = 8 << 20;

/// An object store with its prefix and its time limit.
#[derive(Clone, Debug)]
pub struct OpenedStore {
    pub objects: Arc<dyn ObjectStore>,
    /// The common prefix of all keys.
    pub prefix: Path,
    /// Longest time for one call.
    pub call_timeout: Duration,
    /// The folder of a store of files. What is put there is durable after a sync, and not before.
    pub folder: Option<PathBuf>,
    /// Whether it is the folder beside a database. Bodies of at most one chunk stay in the database then.
    pub is_beside: bool,
    /// The folder beside the database, where bodies may be from before this store was named.
    pub beside: Option<Box<Self>>,
}

impl OpenedStore {
    /// A store whose writes are durable when they return.
    pub fn new(objects: Arc<dyn ObjectStore>, prefix: Path, call_timeout: Duration) -> Self {
        Self { objects, prefix, call_timeout, folder: None, is_beside: false, beside: None }
    }
}

#[derive(Debug)]
pub struct Store {
    objects: PrefixStore<Arc<dyn ObjectStore>>,
    call_timeout: Duration,
    /// The folder of the objects, where they are files.
    folder: Option<PathBuf>,
    is_beside: bool,
    /// The store of the objects whose keys begin with [`BESIDE`], if it is not this one.
    beside: Option<Box<Self>>,
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
    /// The objects of one deployment.
    pub(super) fn new(opened: OpenedStore, deployment: &str, metrics: &Arc<Metrics>) -> Self {
        let OpenedStore { objects, prefix, call_timeout, folder, is_beside, beside } = opened;
        Self {
            objects: PrefixStore::new(objects, prefix.join(deployment)),
            call_timeout,
            folder: folder.map(|folder| folder.join(deployment)),
            is_beside,
            beside: beside.map(|beside| Box::new(Self::new(*beside, deployment, metrics))),
            metrics: Arc::clone(metrics),
        }
    }

    /// Whether a body that fits into one chunk is stored here.
    pub(super) fn takes_small(&self) -> bool {
        !self.is_beside
    }

    /// Whether it is the folder beside the database, which no other program writes to.
    pub(super) fn is_beside(&self) -> bool {
        self.is_beside
    }

    /// The key of a new object. It tells where the object is.
    pub(super) fn key(&self, name: &str) -> String {
        if self.is_beside { format!("{BESIDE}{name}") } else { name.to_owned() }
    }

    /// The store that has this object, if it is not this one.
    fn other(&self, object: &str) -> Option<&Self> {
        self.beside.as_deref().filter(|_| object.starts_with(BESIDE))
    }

    /// Stores an object, wholly or not at all. Files are durable after [`Self::sync`].
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

    /// Begins a file for the chunks of a body. None where each chunk is an object of its own.
    pub(super) async fn begin_file(&self, name: &str) -> Result<Option<Appended>, StoreError> {
        let Some(folder) = &self.folder else { return Ok(None) };
        Appended::create(folder, self.key(name)).await.map(Some).map_err(StoreError::Write)
    }

    /// Appends a chunk to the file of its body. Returns where it begins. The chunk is durable after [`Self::sync`].
    pub(super) async fn append(&self, file: &mut Appended, chunk: Bytes) -> Result<u64, StoreError> {
        let stopwatch = Stopwatch::start();
        let begins = file.append(chunk).await;
        self.metrics.blob_call(BlobCall::Put, stopwatch, begins.is_err());
        begins.map_err(StoreError::Write)
    }

    /// Makes objects durable. Other stores than files are durable anyway.
    pub(super) async fn sync(&self, objects: Vec<String>) -> Result<(), StoreError> {
        let Some(folder) = self.folder.clone() else { return Ok(()) };
        let stopwatch = Stopwatch::start();
        let synced = blocking(move || sync_files(&folder, &objects)).await;
        self.metrics.blob_call(BlobCall::Put, stopwatch, synced.is_err());
        synced.map_err(StoreError::Sync)
    }

    /// A range of an object, in one call; none when there is no such object. What a truncated file lacks is left out.
    pub(super) async fn range(&self, object: &str, range: Range<u64>) -> Result<Option<Bytes>, StoreError> {
        if let Some(other) = self.other(object) {
            return Box::pin(other.range(object, range)).await;
        }
        let path = Path::from(object);
        let read = match &self.folder {
            Some(folder) => {
                let file = folder.join(object);
                let read =
                    async { blocking(move || read_file(&file, range)).await.map_err(|error| refused(path, error)) };
                self.call(BlobCall::Read, "read a body", read).await
            }
            None => self.call(BlobCall::Read, "read a body", self.objects.get_range(&path, range)).await,
        };
        match read {
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
        let (others, objects): (Vec<_>, Vec<_>) = objects.into_iter().partition(|object| self.other(object).is_some());
        if let Some(beside) = &self.beside {
            Box::pin(beside.delete(others)).await?;
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

/// Reads a range of a file, at most [`BLOB_CHUNK_BYTES`], as far as there is any of it: a power failure may truncate a
/// file that was not synced.
fn read_file(path: &FilePath, range: Range<u64>) -> std::io::Result<Bytes> {
    let mut file = std::fs::File::open(path)?;
    file.seek(SeekFrom::Start(range.start))?;
    // Room for a whole chunk, whatever is read: the coordinator's allocator keeps an area of 4 MiB in each thread for
    // each size up to 512 KiB, and the last chunks of models have many sizes. Room that is not used takes no memory.
    let mut data = Vec::with_capacity(BLOB_CHUNK_BYTES);
    file.take(range.end - range.start).read_to_end(&mut data)?;
    Ok(data.into())
}

/// The error of a store for one of a file.
fn refused(path: Path, error: std::io::Error) -> object_store::Error {
    let (path, kind, source) = (path.to_string(), error.kind(), error.into());
    match kind {
        std::io::ErrorKind::NotFound => object_store::Error::NotFound { path, source },
        _ => object_store::Error::Generic { store: "files", source },
    }
}

/// Syncs files, then the folders that lead to them.
fn sync_files(root: &FilePath, objects: &[String]) -> std::io::Result<()> {
    let mut folders = BTreeSet::new();
    for object in objects {
        let file = root.join(object);
        std::fs::File::open(&file)?.sync_all()?;
        folders.extend(file.ancestors().skip(1).take_while(|folder| folder.starts_with(root)).map(PathBuf::from));
    }
    // The folder of the deployment is new at the first body.
    folders.extend(root.parent().map(PathBuf::from));
    folders.iter().rev().try_for_each(|folder| sync_folder(folder))
}

/// Windows has no such call, and needs none: its file systems keep a journal of names.
fn sync_folder(folder: &FilePath) -> std::io::Result<()> {
    if cfg!(unix) { std::fs::File::open(folder)?.sync_all() } else { Ok(()) }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blob::open_beside;
    use crate::metrics::MetricsAccess;

    fn store(database: &FilePath) -> Store {
        Store::new(open_beside(database).unwrap(), "deployment", &Metrics::new(MetricsAccess::default(), 0))
    }

    /// Goal: files are synced where they are, and leave no folders behind.
    #[tokio::test]
    async fn files_are_synced_and_deleted_with_their_folders() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder.path().join("a.db"));
        let object = store.key("staged/body/0-x");
        store.put(&object, Bytes::from_static(b"abcdef")).await.unwrap();
        store.sync(vec![object.clone()]).await.unwrap();
        assert_eq!(store.range(&object, 1..3).await.unwrap(), Some(Bytes::from_static(b"bc")));
        assert_eq!(store.range(&object, 4..9).await.unwrap(), Some(Bytes::from_static(b"ef")));
        std::fs::write(folder.path().join("a.db.bodies/deployment").join(&object), []).unwrap();
        assert_eq!(store.range(&object, 1..3).await.unwrap(), Some(Bytes::new()), "a truncated file");
        store.delete(vec![object.clone()]).await.unwrap();
        assert_eq!(store.range(&object, 1..3).await.unwrap(), None);
        assert!(matches!(store.sync(vec![object]).await, Err(StoreError::Sync(_))));
        assert_eq!(std::fs::read_dir(folder.path().join("a.db.bodies")).unwrap().count(), 0);
        #[cfg(unix)]
        {
            let metadata = folder.path().join("a.db.bodies").metadata().unwrap();
            assert_eq!(std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777, 0o700);
        }
    }

    /// Goal: a store that is named later reads and deletes what is in the files of before.
    #[tokio::test]
    async fn a_store_that_is_named_later_has_what_was_stored_before() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("a.db");
        let before = store(&database);
        let object = before.key("model/0");
        before.put(&object, Bytes::from_static(b"before")).await.unwrap();
        let memory = Arc::new(object_store::memory::InMemory::new());
        let opened = OpenedStore::new(memory, Path::default(), CALL_TIMEOUT);
        let opened = OpenedStore { beside: Some(Box::new(open_beside(&database).unwrap())), ..opened };
        let named = Store::new(opened, "deployment", &Metrics::new(MetricsAccess::default(), 0));
        assert_eq!(named.range(&object, 0..6).await.unwrap(), Some(Bytes::from_static(b"before")));
        named.put("model/1", Bytes::from_static(b"after")).await.unwrap();
        assert_eq!(before.range("model/1", 0..5).await.unwrap(), None);
        named.delete(vec![object.clone(), "model/1".into()]).await.unwrap();
        assert_eq!(named.range(&object, 0..6).await.unwrap(), None);
        assert_eq!(named.range("model/1", 0..5).await.unwrap(), None);
    }
}
