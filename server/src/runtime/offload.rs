//! Computation on threads that may block, so that no task keeps one of tokio's threads for long.

use std::sync::Arc;
use std::thread::available_parallelism;

use tokio::sync::Semaphore;

/// Runs a computation on a blocking thread.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime ends, and drops the caller.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Runs a long computation on a separate thread, of the lowest priority where the system has one per thread. None if
/// it panics.
pub(crate) async fn in_background<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, result) = tokio::sync::oneshot::channel();
    let run = move || {
        // Of the calling thread; elsewhere it would be that of the whole process.
        #[cfg(target_os = "linux")]
        if let Err(error) = rustix::process::setpriority_process(None, LOWEST_PRIORITY) {
            tracing::debug!(%error, "the thread keeps its priority");
        }
        // Nobody waits for the result any more when the coordinator stops.
        let _ = done.send(work());
    };
    match std::thread::Builder::new().name(name.to_owned()).spawn(run) {
        Ok(_) => result.await.ok(),
        Err(error) => {
            tracing::error!(%error, "no thread could be started");
            None
        }
    }
}

/// The "nice" value of a thread that runs when no other wants to.
#[cfg(target_os = "linux")]
const LOWEST_PRIORITY: i32 = 19;

/// The cores, for computations whose length a client chooses: one computation per core at a time, in the order of
/// arrival. More would take the cores away from requests, and memory with them.
#[derive(Clone, Debug)]
pub struct Cores(Arc<Semaphore>);

impl Default for Cores {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(available_parallelism().map_or(1, usize::from))))
    }
}

/// A value that computes on blocking threads, one call after the other.
#[derive(Debug)]
pub(crate) struct Offload<S>(Option<S>);

impl<S: Send + 'static> Offload<S> {
    pub(crate) fn new(value: S) -> Self {
        Self(Some(value))
    }

    /// Calls `work` with the value on a blocking thread.
    ///
    /// # Panics
    /// If an earlier call was cancelled, since the value was lost with it. A cancelled future is not polled again, so
    /// this would be a mistake of the caller.
    pub(crate) async fn run<T: Send + 'static>(&mut self, work: impl FnOnce(&mut S) -> T + Send + 'static) -> T {
        let mut value = self.0.take().expect("an earlier call was cancelled");
        let (value, result) = blocking(move || {
            let result = work(&mut value);
            (value, result)
        })
        .await;
        self.0 = Some(value);
        result
    }

    /// As [`Self::run`], as soon as a core is free for it.
    pub(crate) async fn run_in_turn<T: Send + 'static>(
        &mut self,
        cores: &Cores,
        work: impl FnOnce(&mut S) -> T + Send + 'static,
    ) -> T {
        let permit = Arc::clone(&cores.0).acquire_owned().await.expect("the semaphore is never closed");
        self.run(move |value| {
            // Kept by the computation, which goes on when its caller is cancelled.
            let _permit = permit;
            work(value)
        })
        .await
    }

    /// # Panics
    /// As [`Self::run`].
    pub(crate) fn get(&self) -> &S {
        self.0.as_ref().expect("an earlier call was cancelled")
    }

    /// The value, for work that is known to be short.
    ///
    /// # Panics
    /// As [`Self::run`].
    pub(crate) fn get_mut(&mut self) -> &mut S {
        self.0.as_mut().expect("an earlier call was cancelled")
    }

    /// # Panics
    /// As [`Self::run`].
    pub(crate) fn into_inner(self) -> S {
        self.0.expect("an earlier call was cancelled")
    }
}
