//! Sessions of clients on this machine.

use std::time::Duration;

use tributary_client::{Client, Sets};

use super::conditions::Machine;
use super::lines::Lines;
use crate::error::{COORDINATOR_UNREACHABLE, CliError, Failure};

/// Pause after a failed session that names no other.
const FAILED_PAUSE: Duration = Duration::from_secs(5);
/// How often a paused client looks whether its conditions hold.
const PAUSED_LOOK: Duration = Duration::from_secs(10);

/// A client that is enrolled.
pub(super) struct Enrolled {
    /// Its name in a fleet.
    pub(super) name: Option<String>,
    pub(super) client: Client,
    /// The same client, for the first session: its check-in is held for a moment only, so that a person soon sees what
    /// it waits for.
    pub(super) impatient: Client,
    pub(super) trainer: Sets,
}

impl Enrolled {
    /// Runs session after session. A failed session is reported and tried again, so that a client survives restarts of
    /// its coordinator.
    pub(super) async fn run(&mut self, machine: &Machine, lines: &Lines) -> Result<(), CliError> {
        let mut is_first = true;
        loop {
            if let Some(unmet) = machine.unmet() {
                lines.paused(unmet)?;
                tokio::time::sleep(PAUSED_LOOK).await;
                continue;
            }
            let client = if is_first { &self.impatient } else { &self.client };
            is_first = false;
            let pause = match client.run_once(&mut self.trainer, machine).await {
                Ok(outcome) => {
                    lines.outcome(self.name.as_deref(), &outcome)?;
                    outcome.retry_after()
                }
                Err(error) => {
                    let pause = error.retry_after().unwrap_or(FAILED_PAUSE);
                    let name = self.name.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
                    let wrong_scheme = error.hint().filter(|hint| hint != COORDINATOR_UNREACHABLE);
                    let hint = wrong_scheme.map_or_else(String::new, |hint| format!(" ({hint})"));
                    lines.note(&format!("{name}{error}{hint}; trying again in {:.0} s", pause.as_secs_f64()));
                    pause
                }
            };
            tokio::time::sleep(pause).await;
        }
    }
}
