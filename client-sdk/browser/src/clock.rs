//! The browser's monotonic clock and its timers.

use std::pin::Pin;
use std::time::Duration;

use futures_channel::oneshot;
use tributary_client::clock::Clock;

use crate::errands::{Errand, Errands, answered};
use crate::script::performance_now;

#[derive(Debug)]
pub(crate) struct BrowserClock(pub(crate) Errands);

impl Clock for BrowserClock {
    fn now_ms(&self) -> u64 {
        performance_now() as u64
    }

    fn sleep(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let (over, slept) = oneshot::channel();
        self.0.leave(Errand::Sleep { ms: time.as_secs_f64() * 1000.0, over });
        Box::pin(async move {
            answered(slept).await;
        })
    }
}
