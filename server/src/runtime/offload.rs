//! Computation on threads that may block, so that no task keeps one of tokio's threads for long.

/// Runs a computation on a blocking thread.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(failed) => std::panic::resume_unwind(failed.into_panic()),
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

    /// # Panics
    /// As [`Self::run`].
    pub(crate) fn into_inner(self) -> S {
        self.0.expect("an earlier call was cancelled")
    }
}
