//! Signals of the process, such as Ctrl-C, which Python handles.

use std::time::Duration;

use pyo3::prelude::*;

/// How often a session that waits for the coordinator lets Python handle its signals.
const SIGNALS: Duration = Duration::from_millis(100);

/// Lets Python run its signal handlers, if this is its main thread.
pub(crate) fn handle_signals(py: Python<'_>) -> PyResult<()> {
    py.check_signals()
}

/// Returns what a signal handler of Python raises.
pub(crate) async fn interrupted() -> PyErr {
    loop {
        tokio::time::sleep(SIGNALS).await;
        if let Err(raised) = Python::attach(handle_signals) {
            return raised;
        }
    }
}
