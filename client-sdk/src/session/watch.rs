//! While a client works, a task of its own asks whether the round is still open, so that a straggler stops early.
//!
//! The coordinator says how often to ask. The trainer is asked between batches whether it should stop; the first such
//! moment after the time has passed sends the question, and a later one finds the answer. So no timer runs, and work
//! that is finished before the first question causes none.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tributary_protocol::device::Assignment;
use tributary_protocol::id::{AssignmentId, Secret};

use super::context::Context;
use crate::clock::Clock;
use crate::locked::Locked;
use crate::platform::Background;
use crate::transport::coordinator::Coordinator;

/// The questions about one assignment.
#[derive(Debug)]
pub(super) struct Watch {
    questions: Arc<Questions>,
    /// `None`: there are no questions. On a single thread there is no other task while the trainer computes, so the
    /// client learns of the end at the deadline.
    background: Option<Background>,
}

#[derive(Debug)]
struct Questions {
    coordinator: Arc<Coordinator>,
    clock: Arc<dyn Clock>,
    secret: Secret,
    assignment: AssignmentId,
    every: Duration,
    /// When to ask next, by the client's clock; never while a question is on its way, or if nothing changes any more.
    next_ms: AtomicU64,
    is_closed: AtomicBool,
    /// How long the coordinator asks to wait before the next session, once the round has closed.
    retry_after: Mutex<Duration>,
}

const NEVER: u64 = u64::MAX;

impl Watch {
    pub(super) fn begin(context: &Context, secret: &Secret, assignment: &Assignment) -> Self {
        let questions = Questions {
            coordinator: Arc::clone(&context.coordinator),
            clock: Arc::clone(&context.clock),
            secret: secret.clone(),
            assignment: assignment.id,
            every: Duration::from_millis(assignment.ask_every_ms.max(1)),
            next_ms: AtomicU64::new(NEVER),
            is_closed: AtomicBool::new(false),
            retry_after: Mutex::default(),
        };
        questions.ask_after(questions.clock.now_ms());
        Self { questions: Arc::new(questions), background: Background::here() }
    }

    /// Whether the coordinator has said that the round is closed. Asks it if it is time.
    pub(super) fn is_closed(&self) -> bool {
        let Some(background) = &self.background else { return false };
        let (questions, now_ms) = (&self.questions, self.questions.clock.now_ms());
        let next_ms = questions.next_ms.load(Ordering::SeqCst);
        let is_mine = || questions.next_ms.compare_exchange(next_ms, NEVER, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if now_ms >= next_ms && is_mine() {
            let questions = Arc::clone(questions);
            background.run(async move { questions.ask(now_ms).await });
        }
        questions.is_closed.load(Ordering::SeqCst)
    }

    /// The coordinator has said elsewhere that the round is closed.
    #[cfg(feature = "group")]
    pub(super) fn close(&self, retry_after: Duration) {
        *self.questions.retry_after.locked() = retry_after;
        self.questions.is_closed.store(true, Ordering::SeqCst);
    }

    /// When to come back, if the round is closed.
    pub(super) fn closed(&self) -> Option<Duration> {
        let questions = &self.questions;
        questions.is_closed.load(Ordering::SeqCst).then(|| *questions.retry_after.locked())
    }
}

impl Questions {
    async fn ask(&self, now_ms: u64) {
        match self.coordinator.ask(&self.secret, self.assignment).await {
            Err(error) if error.ends_assignment() => {
                *self.retry_after.locked() = error.retry_after().unwrap_or_default();
                self.is_closed.store(true, Ordering::SeqCst);
            }
            // Its work is finished and accepted, or was refused: nothing changes any more.
            Ok(status) if status.reported => {}
            Err(error) if !error.is_temporary() => {}
            // The round is open, or the coordinator is away for a moment.
            Ok(_) | Err(_) => self.ask_after(now_ms),
        }
    }

    /// The next question is due a pause after this time.
    fn ask_after(&self, now_ms: u64) {
        let pause_ms = u64::try_from(self.coordinator.spread(self.every).as_millis()).unwrap_or(NEVER);
        self.next_ms.store(now_ms.saturating_add(pause_ms), Ordering::SeqCst);
    }
}
