//! The SDK's errors as exceptions, and exceptions of trainers as the SDK's errors.

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tributary_client::{Checkpoint, ClientError, TrainError};

create_exception!(tributary, TributaryError, PyException, "A session failed. Finished work is kept and sent later.");
create_exception!(tributary, Unreachable, TributaryError, "The coordinator does not answer.");
create_exception!(
    tributary,
    Untrusted,
    TributaryError,
    "The server's certificate is not trusted: of another CA, for another name, or expired."
);
create_exception!(tributary, Refused, TributaryError, "The coordinator refused a request: `kind` says why.");
create_exception!(tributary, Interrupted, TributaryError, "The session or the round ended: training stops here.");
create_exception!(
    tributary,
    Suspended,
    Interrupted,
    "Training stops here, and a later session goes on from the `Checkpoint` that is the argument."
);
create_exception!(tributary, DoesNotFit, TributaryError, "Examples, settings, model and network do not match.");
create_exception!(tributary, Diverged, TributaryError, "The loss or a weight is not finite.");
create_exception!(tributary, NoExamples, TributaryError, "There is nothing to learn from.");

/// The exception for an error, with `retry_after_s` where the coordinator said so.
pub(crate) fn exception(py: Python<'_>, error: &ClientError) -> PyErr {
    let text = error.to_string();
    let exception = match error {
        ClientError::Unreachable(_) => Unreachable::new_err(text),
        ClientError::Untrusted(_) => Untrusted::new_err(text),
        ClientError::Refused(_) => Refused::new_err(text),
        ClientError::Training(error) => of_trainer(error, text),
        ClientError::Busy | ClientError::Forked => PyRuntimeError::new_err(text),
        _ => TributaryError::new_err(text),
    };
    let value = exception.value(py);
    let retry_after_s = error.retry_after().map(|pause| pause.as_secs_f64());
    let kind = match error {
        ClientError::Refused(problem) => problem.kind.uri().rsplit(':').next(),
        _ => None,
    };
    match value.setattr("retry_after_s", retry_after_s).and_then(|()| value.setattr("kind", kind)) {
        Ok(()) => exception,
        Err(error) => error,
    }
}

fn of_trainer(error: &TrainError, text: String) -> PyErr {
    match error {
        TrainError::Interrupted | TrainError::Suspended(_) | TrainError::Pending => Interrupted::new_err(text),
        TrainError::NoExamples => NoExamples::new_err(text),
        TrainError::Diverged => Diverged::new_err(text),
        TrainError::DoesNotFit(_)
        | TrainError::CannotFollow(_)
        | TrainError::CannotExchange
        | TrainError::CannotDescribe
        | TrainError::CannotAnswer => DoesNotFit::new_err(text),
        _ => PyRuntimeError::new_err(text),
    }
}

/// The report to the coordinator for an exception of a trainer; with `reports_text`, of any kind as text.
pub(crate) fn told(py: Python<'_>, exception: &PyErr, reports_text: bool) -> TrainError {
    if exception.is_instance_of::<Suspended>(py) {
        match checkpoint(exception.value(py)) {
            Ok(checkpoint) => checkpoint.suspended(),
            Err(raised) => TrainError::Other(format!("Suspended without a Checkpoint: {raised}")),
        }
    } else if exception.is_instance_of::<Interrupted>(py) || !exception.is_instance_of::<PyException>(py) {
        // Ctrl-C and `sys.exit()` are no failures of the training.
        TrainError::Interrupted
    } else if exception.is_instance_of::<NoExamples>(py) {
        TrainError::NoExamples
    } else if exception.is_instance_of::<Diverged>(py) {
        TrainError::Diverged
    } else if exception.is_instance_of::<DoesNotFit>(py) {
        TrainError::DoesNotFit(exception.value(py).to_string())
    } else if reports_text {
        TrainError::Other(exception.to_string())
    } else {
        let kind =
            exception.get_type(py).qualname().map_or_else(|_| "an exception".to_owned(), |kind| kind.to_string());
        TrainError::Thrown { kind, text: exception.to_string() }
    }
}

/// The `Checkpoint` of a `Suspended`.
fn checkpoint(suspended: &Bound<'_, PyAny>) -> PyResult<Checkpoint> {
    let checkpoint = suspended.getattr("args")?.get_item(0)?;
    let kept = Checkpoint::new(checkpoint.getattr("steps")?.extract()?, checkpoint.getattr("losses")?.extract()?);
    Ok(kept.with_bytes(checkpoint.getattr("state")?.cast::<PyBytes>()?.as_bytes().to_vec()))
}
