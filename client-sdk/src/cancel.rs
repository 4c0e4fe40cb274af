//! Ending a session from outside it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Ends the sessions that were started with it, from any thread and for good: a session that starts later ends at once.
/// Clones cancel the same sessions.
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<Cancel>);

#[derive(Debug, Default)]
struct Cancel {
    is_cancelled: AtomicBool,
    cancelled: Notify,
}

impl CancelToken {
    /// A token that has cancelled nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the sessions. A trainer notices before its next batch, a waiting session at once.
    pub fn cancel(&self) {
        self.0.is_cancelled.store(true, Ordering::SeqCst);
        self.0.cancelled.notify_waiters();
    }

    /// Whether [`Self::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled.load(Ordering::SeqCst)
    }

    /// Completes once [`Self::cancel`] is called.
    pub async fn cancelled(&self) {
        let mut cancelled = std::pin::pin!(self.0.cancelled.notified());
        // Registered before the question, so that no call falls between the two.
        cancelled.as_mut().enable();
        if !self.is_cancelled() {
            cancelled.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_cancel_is_noticed_whether_it_comes_before_or_while_one_waits() {
        let token = CancelToken::new();
        let other = token.clone();
        let waiting = tokio::spawn(async move { other.cancelled().await });
        tokio::task::yield_now().await;
        assert!(!token.is_cancelled() && !waiting.is_finished());
        token.cancel();
        waiting.await.unwrap();
        token.cancelled().await;
        assert!(token.is_cancelled());
    }
}
