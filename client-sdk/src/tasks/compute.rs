//! Running a trainer inside a session.

use crate::platform;
use crate::trainer::TrainError;
use crate::trainer::panics::caught;

/// Runs a trainer. Where there are other threads, the other tasks continue meanwhile.
pub(crate) fn computing<T>(compute: impl FnOnce() -> Result<T, TrainError>) -> Result<T, TrainError> {
    // The session does not look into the trainer after a panic.
    caught("trainer", || platform::computing(compute))
}
