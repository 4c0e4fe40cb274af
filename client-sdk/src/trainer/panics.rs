//! Panics of an app's code as errors: they must not end the app.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::contract::TrainError;

/// Runs `work`; a panic becomes [`TrainError::Other`] with its message. `what` names the code that may panic. The
/// caller must not use anything that `work` may have left half changed.
pub(crate) fn caught<T>(what: &str, work: impl FnOnce() -> Result<T, TrainError>) -> Result<T, TrainError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let message = panic.downcast_ref::<String>().map(String::as_str);
        let message = message.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(TrainError::Other(format!("the {what} panicked: {message}")))
    })
}
