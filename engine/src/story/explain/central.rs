//! An evaluation that the coordinator computes itself.

use tributary_protocol::state::{AbandonReason, Phase};

use super::ended::abandoned;
use super::facts::RoundStory;
use crate::story::words::duration;

/// An evaluation without clients.
pub(super) fn on_coordinator(name: &str, story: &RoundStory<'_>) -> String {
    let round = story.round;
    let took_ms = round.ended_at_ms.map_or(0, |at_ms| at_ms - round.opened_at_ms);
    match round.phase {
        Phase::Selecting => {
            format!("{name} waits for the test set of the job: `tributary job test-set upload JOB FILE`.")
        }
        Phase::Training | Phase::Aggregating => format!("{name} is computed on the coordinator."),
        Phase::Committed => {
            format!("{name} took {} on the coordinator, with {} examples.", duration(took_ms), round.weight)
        }
        Phase::Abandoned if round.reason == Some(AbandonReason::SelectionTimeout) => {
            format!("{name} was abandoned: no test set was uploaded within {}.", duration(took_ms))
        }
        Phase::Abandoned => abandoned(name, story),
    }
}
