//! A link with a measure of how fast it takes what is sent.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::clock::Clock;

/// Shortest time of waiting that says something, in milliseconds.
const WAITED_MS_MIN: u64 = 50;

/// What a link has taken, and how long its sender had to wait for it to take more. A link that is faster than its
/// sender never makes it wait.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    bytes: AtomicU64,
    waited_ms: AtomicU64,
}

impl Meter {
    /// Kilobits in a second; none where the link was never too slow.
    pub(crate) fn kbit_s(&self) -> Option<u64> {
        let (bytes, waited_ms) = (self.bytes.load(Relaxed), self.waited_ms.load(Relaxed));
        (waited_ms >= WAITED_MS_MIN).then(|| bytes.saturating_mul(8) / waited_ms)
    }
}

/// The link.
pub(crate) struct Metered<'a, L> {
    link: L,
    meter: &'a Meter,
    clock: &'a dyn Clock,
    /// Since when a write waits.
    waits_since_ms: Option<u64>,
}

impl<'a, L> Metered<'a, L> {
    pub(crate) fn new(link: L, meter: &'a Meter, clock: &'a dyn Clock) -> Self {
        Self { link, meter, clock, waits_since_ms: None }
    }

    /// Notes whether the link makes its sender wait.
    fn note<T>(&mut self, polled: &Poll<T>) {
        let now_ms = self.clock.now_ms();
        if polled.is_pending() {
            self.waits_since_ms.get_or_insert(now_ms);
        } else if let Some(since_ms) = self.waits_since_ms.take() {
            self.meter.waited_ms.fetch_add(now_ms.saturating_sub(since_ms), Relaxed);
        }
    }
}

impl<L: AsyncRead + Unpin> AsyncRead for Metered<'_, L> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.link).poll_read(cx, into)
    }
}

impl<L: AsyncWrite + Unpin> AsyncWrite for Metered<'_, L> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.link).poll_write(cx, bytes);
        self.note(&written);
        if let Poll::Ready(Ok(bytes)) = written {
            self.meter.bytes.fetch_add(bytes as u64, Relaxed);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.link).poll_flush(cx);
        self.note(&flushed);
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.link).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;
    use crate::group::tests::fixtures::HandClock;

    #[tokio::test]
    async fn the_time_that_a_link_makes_its_sender_wait_is_measured() {
        let (clock, meter) = (HandClock::new(), Meter::default());
        let (near, mut far) = duplex(1_000);
        let mut link = Metered::new(near, &meter, &*clock);
        link.write_all(&[0; 1_000]).await.unwrap();
        assert_eq!(meter.kbit_s(), None, "it has taken all at once");
        let taken = async {
            // The sender waits by now.
            tokio::task::yield_now().await;
            clock.advance(80);
            far.read_exact(&mut [0; 2_000]).await.unwrap();
        };
        tokio::join!(async { link.write_all(&[0; 1_000]).await.unwrap() }, taken);
        // 16,000 bits in 80 ms.
        assert_eq!(meter.kbit_s(), Some(200));
        assert_eq!(clock.now_ms(), Duration::from_millis(80).as_millis() as u64);
    }
}
