//! What the clients of this process print.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::json;
use tributary_client::{Outcome, Unmet};
use tributary_protocol::device::WaitsFor;

use super::waiting::sentence;
use crate::error::CliError;
use crate::output::Output;
use crate::stopwatch::Stopwatch;

/// Least time between two lines that say what clients wait for.
const WAITING_EVERY: Duration = Duration::from_secs(20);

/// The lines that the clients of this process print.
pub(super) struct Lines {
    output: Output,
    /// Since the last line that said what clients wait for.
    waiting: Mutex<Option<Stopwatch>>,
    /// Why the last line said that this machine pauses.
    paused: Mutex<Option<Unmet>>,
}

impl Lines {
    pub(super) fn new(output: Output) -> Self {
        Self { output, waiting: Mutex::default(), paused: Mutex::default() }
    }

    pub(super) fn note(&self, text: &str) {
        self.output.note(text);
    }

    /// Prints how a session ended.
    pub(super) fn outcome(&self, name: Option<&str>, outcome: &Outcome) -> Result<(), CliError> {
        let (event, round, text) = match outcome {
            Outcome::Contributed { round, .. } => ("contributed", round, format!("contributed to round {round}")),
            Outcome::Evaluated { round, .. } => ("evaluated", round, format!("evaluated the model of round {round}")),
            Outcome::Described { round, .. } => ("described", round, "told the sums of its table".to_owned()),
            Outcome::TooLate { round, .. } => ("too_late", round, format!("round {round} closed without this client")),
            Outcome::NothingToDo { waits_for: Some(waits_for), .. } => return self.waiting(name, waits_for),
            Outcome::Interrupted { .. } => {
                return self.output.object(&json!({ "event": "interrupted", "client": name }), || "interrupted".into());
            }
            _ => return Ok(()),
        };
        *self.lock() = None;
        *self.paused.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let name_of_line = name.map(|name| format!("{name} ")).unwrap_or_default();
        let object = json!({ "event": event, "client": name, "round": round });
        self.output.object(&object, || format!("{name_of_line}{text}"))
    }

    /// Says once why nothing begins, however many clients it concerns.
    pub(super) fn paused(&self, unmet: Unmet) -> Result<(), CliError> {
        let before = self.paused.lock().unwrap_or_else(PoisonError::into_inner).replace(unmet);
        if before == Some(unmet) {
            return Ok(());
        }
        let text = unmet.to_string();
        self.output.object(&json!({ "event": "paused", "reason": text }), || format!("paused: {text}"))
    }

    fn waiting(&self, name: Option<&str>, waits_for: &WaitsFor) -> Result<(), CliError> {
        // In a fleet some clients are always left out of a round.
        let is_usual = name.is_some() && matches!(waits_for, WaitsFor::NextRound { .. });
        let mut last = self.lock();
        if is_usual || last.as_ref().is_some_and(|last| last.elapsed() < WAITING_EVERY) {
            return Ok(());
        }
        *last = Some(Stopwatch::start());
        drop(last);
        let object = json!({ "event": "waiting", "client": name, "waits_for": waits_for });
        self.output.object(&object, || format!("waiting: {}", sentence(waits_for)))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Stopwatch>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::output;

    #[test]
    fn a_pause_is_said_once_and_again_when_its_reason_changes() {
        let (output, printed) = output(false);
        let lines = Lines::new(output);
        for unmet in [Unmet::Battery, Unmet::Battery, Unmet::Metered] {
            lines.paused(unmet).unwrap();
        }
        lines.outcome(None, &Outcome::Contributed { round: 3, retry_after: Duration::ZERO }).unwrap();
        lines.paused(Unmet::Metered).unwrap();
        let battery = "paused: the battery is low and is not being charged";
        let metered = "paused: the network is metered";
        let expected = format!("{battery}\n{metered}\ncontributed to round 3\n{metered}\n");
        assert_eq!(*printed.lock().unwrap(), expected);
    }

    #[test]
    fn each_wait_is_one_line_however_many_clients_wait() {
        let (output, printed) = output(false);
        let lines = Lines::new(output);
        let retry_after = Duration::ZERO;
        let waits = Outcome::NothingToDo { waits_for: Some(WaitsFor::Job), retry_after };
        for name in ["client-01", "client-02"] {
            lines.outcome(Some(name), &waits).unwrap();
        }
        lines.outcome(Some("client-02"), &Outcome::Contributed { round: 3, retry_after }).unwrap();
        lines.outcome(Some("client-01"), &waits).unwrap();
        let expected = "waiting: no job of its population is running\nclient-02 contributed to round 3\n\
                        waiting: no job of its population is running\n";
        assert_eq!(*printed.lock().unwrap(), expected);
    }
}
