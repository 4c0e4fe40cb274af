//! The time of members in this process: the system's.

use std::pin::Pin;
use std::time::Duration;

use tributary_collective::Timer;

pub(crate) struct Waits;

impl Timer for Waits {
    fn sleep(&self, ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep(Duration::from_millis(ms)))
    }
}
