//! Time as an argument: apps use the system's clock, tests their own.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

#[cfg(feature = "native")]
pub use self::system::SystemClock;

/// The source of a client's time.
pub trait Clock: Debug + Send + Sync {
    /// Milliseconds since some fixed moment. Must never decrease.
    fn now_ms(&self) -> u64;

    /// Completes after this time.
    fn sleep(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// What the work gives; `None` if it takes longer than this by the clock.
#[cfg(any(not(feature = "native"), feature = "group"))]
pub(crate) async fn within<T>(clock: &dyn Clock, time: Duration, work: impl Future<Output = T>) -> Option<T> {
    use futures_util::future::{Either, select};

    match select(std::pin::pin!(work), clock.sleep(time)).await {
        Either::Left((done, _)) => Some(done),
        Either::Right(_) => None,
    }
}

#[cfg(feature = "native")]
mod system {
    use std::future::Future;
    use std::pin::Pin;
    use std::time::{Duration, Instant};

    use super::Clock;

    /// The machine's monotonic clock.
    #[derive(Clone, Copy, Debug)]
    pub struct SystemClock {
        start: Instant,
    }

    impl Default for SystemClock {
        #[expect(clippy::disallowed_methods, reason = "the only place in the SDK that asks the machine for the time")]
        fn default() -> Self {
            Self { start: Instant::now() }
        }
    }

    impl Clock for SystemClock {
        fn now_ms(&self) -> u64 {
            u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
        }

        fn sleep(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
            Box::pin(tokio::time::sleep(time))
        }
    }
}
