//! While a client works, a task of its own asks whether the round is still open, so that a straggler stops early.
//!
//! The coordinator says how often to ask; work that is finished before the first question causes none.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::JoinHandle;
use tributary_protocol::device::Assignment;
use tributary_protocol::id::Secret;
use tributary_protocol::problem::ProblemType;

use super::context::Context;

/// The questions about one assignment; they end when this is dropped.
#[derive(Debug)]
pub(super) struct Watch {
    asked: Arc<Asked>,
    task: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Asked {
    is_closed: AtomicBool,
    /// How long the coordinator asks to wait before the next session, once the round has closed.
    retry_after: Mutex<Duration>,
}

impl Watch {
    /// Begins to ask. A runtime with a single thread has no other task while the trainer computes: there the client
    /// learns of the end at the deadline.
    pub(super) fn begin(context: &Context, secret: &Secret, assignment: &Assignment) -> Self {
        let asked = Arc::<Asked>::default();
        let is_multi = |handle: Handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread;
        if !Handle::try_current().is_ok_and(is_multi) {
            return Self { asked, task: None };
        }
        let (coordinator, clock, secret) =
            (Arc::clone(&context.coordinator), Arc::clone(&context.clock), secret.clone());
        let (id, every) = (assignment.id, Duration::from_millis(assignment.ask_every_ms.max(1)));
        let told = Arc::clone(&asked);
        let task = tokio::spawn(async move {
            loop {
                clock.sleep(coordinator.spread(every)).await;
                match coordinator.ask(&secret, id).await {
                    Err(error) if error.is(ProblemType::AssignmentClosed) => {
                        *told.retry_after.lock().unwrap_or_else(PoisonError::into_inner) =
                            error.retry_after().unwrap_or_default();
                        told.is_closed.store(true, Ordering::SeqCst);
                        return;
                    }
                    // Its work is finished and accepted, or was refused: nothing changes any more.
                    Ok(status) if status.reported => return,
                    Err(error) if !error.is_temporary() => return,
                    // The round is open, or the coordinator is away for a moment.
                    Ok(_) | Err(_) => {}
                }
            }
        });
        Self { asked, task: Some(task) }
    }

    /// Whether the coordinator has said that the round is closed.
    pub(super) fn is_closed(&self) -> bool {
        self.asked.is_closed.load(Ordering::SeqCst)
    }

    /// When to come back, if the round is closed.
    pub(super) fn closed(&self) -> Option<Duration> {
        self.is_closed().then(|| *self.asked.retry_after.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}
