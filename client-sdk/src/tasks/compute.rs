//! Running a trainer inside a session.

use tokio::runtime::{Handle, RuntimeFlavor};

use crate::trainer::TrainError;
use crate::trainer::panics::caught;

/// Runs a trainer. On a multi-threaded runtime the other tasks continue meanwhile.
pub(crate) fn computing<T>(compute: impl FnOnce() -> Result<T, TrainError>) -> Result<T, TrainError> {
    // The session does not look into the trainer after a panic.
    caught("trainer", || match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(compute),
        _ => compute(),
    })
}
