//! An object store that fails when a test says so.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use axum::body::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use tokio::sync::watch;
use tributary_protocol::id::JobId;

/// What is asked of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Put,
    Get,
    List,
    Delete,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Nothing.
    None,
    /// Every call of this kind is refused.
    Refuses(Call),
    /// No call of this kind is ever answered.
    Silent(Call),
    /// The call with this number (from 0, of any kind) is refused; those after it are not.
    RefusesNth(usize),
    /// The same, but the call is done all the same: only its answer is lost.
    LosesNth(usize),
    /// Storing a model of this job takes until something else goes wrong.
    HoldsModel(JobId),
    /// Storing a model of this job panics.
    PanicsAtModel(JobId),
}

/// What becomes of one call.
enum Fate {
    Done,
    Refused,
    Silence,
    AnswerLost,
    Held,
    Panic,
}

/// The store.
#[derive(Debug)]
pub(super) struct Faulty {
    inner: Arc<dyn ObjectStore>,
    fault: watch::Sender<Fault>,
    calls: AtomicUsize,
    struck: AtomicUsize,
}

impl Faulty {
    pub(super) fn new(inner: Arc<dyn ObjectStore>) -> Self {
        Self { inner, fault: watch::Sender::new(Fault::None), calls: AtomicUsize::new(0), struck: AtomicUsize::new(0) }
    }

    /// From now on this goes wrong.
    pub(super) fn set(&self, fault: Fault) {
        self.fault.send_replace(fault);
    }

    /// Calls so far.
    pub(super) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// Calls that were held or panicked.
    pub(super) fn struck(&self) -> usize {
        self.struck.load(Ordering::SeqCst)
    }

    fn fate(&self, call: Call, location: &str) -> Fate {
        let number = self.calls.fetch_add(1, Ordering::SeqCst);
        let is_model = |job: JobId| call == Call::Put && location.contains(&format!("model/{job}/"));
        match *self.fault.borrow() {
            Fault::HoldsModel(job) if is_model(job) => Fate::Held,
            Fault::PanicsAtModel(job) if is_model(job) => Fate::Panic,
            Fault::Refuses(refused) if refused == call => Fate::Refused,
            Fault::Silent(silent) if silent == call => Fate::Silence,
            Fault::RefusesNth(refused) if refused == number => Fate::Refused,
            Fault::LosesNth(lost) if lost == number => Fate::AnswerLost,
            _ => Fate::Done,
        }
    }

    async fn call<T>(&self, call: Call, location: &Path, done: impl Future<Output = Result<T>>) -> Result<T> {
        match self.fate(call, location.as_ref()) {
            Fate::Held => {
                let mut fault = self.fault.subscribe();
                self.struck.fetch_add(1, Ordering::SeqCst);
                let _ = fault.wait_for(|fault| !matches!(fault, Fault::HoldsModel(_))).await;
                done.await
            }
            Fate::Panic => {
                self.struck.fetch_add(1, Ordering::SeqCst);
                panic!("the test said so");
            }
            Fate::Done => done.await,
            Fate::Refused => Err(refused()),
            Fate::Silence => std::future::pending().await,
            Fate::AnswerLost => {
                done.await?;
                Err(refused())
            }
        }
    }
}

fn refused() -> Error {
    Error::Generic { store: "faulty", source: "the test said so".into() }
}

impl std::fmt::Display for Faulty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Faulty({})", self.inner)
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.call(Call::Put, location, self.inner.put_opts(location, payload, options)).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.call(Call::Put, location, self.inner.put_multipart_opts(location, options)).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.call(Call::Get, location, self.inner.get_opts(location, options)).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.call(Call::Get, location, self.inner.get_ranges(location, ranges)).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        match self.fate(Call::Delete, "") {
            Fate::Done | Fate::Held | Fate::Panic => self.inner.delete_stream(locations),
            Fate::Refused => stream::once(async { Err(refused()) }).boxed(),
            Fate::Silence => stream::pending().boxed(),
            Fate::AnswerLost => self.inner.delete_stream(locations).map(|_| Err(refused())).boxed(),
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.fate(Call::List, "") {
            Fate::Done | Fate::Held | Fate::Panic => self.inner.list(prefix),
            Fate::Refused | Fate::AnswerLost => stream::once(async { Err(refused()) }).boxed(),
            Fate::Silence => stream::pending().boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.call(Call::List, &Path::default(), self.inner.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.call(Call::Put, to, self.inner.copy_opts(from, to, options)).await
    }
}
