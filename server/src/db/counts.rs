//! What the metrics count when the transaction of a recorded transition commits.

use tributary_protocol::state::{AbandonReason, Phase};

use super::tx::fetch;
use super::{Became, DbError, Transition, Tx};
use crate::metrics::{AssignmentOutcome, Counted, RoundEnd};

/// When the phases of a round began.
#[derive(Clone, Copy, Debug, PartialEq, sqlx::FromRow)]
struct Began {
    opened_at_ms: i64,
    selected_at_ms: Option<i64>,
    closed_at_ms: Option<i64>,
}

impl Tx {
    /// Prepares what the metrics count when the transaction of a recorded transition commits.
    pub(super) async fn count_transition(
        &mut self,
        transition: &Transition<'_>,
        population: &str,
        now_ms: i64,
    ) -> Result<(), DbError> {
        if !self.is_counted() {
            return Ok(());
        }
        let population = population.to_owned();
        let (key, phase, reason) = match *transition {
            Transition::Job { .. } | Transition::TakenOver { .. } => return Ok(()),
            Transition::Assignment { round, became, .. } => {
                let outcome = match became {
                    Became::State(state) => AssignmentOutcome::Became(state),
                    Became::Spare => AssignmentOutcome::Spare,
                    Became::Late => AssignmentOutcome::Late,
                    Became::Stopped => AssignmentOutcome::Stopped,
                };
                self.counts(Counted::Assignment { job: round.job, population, task: round.task, outcome });
                return Ok(());
            }
            Transition::Round { round, phase: Phase::Selecting, .. } => {
                self.counts(Counted::Opened { population, task: round.task });
                return Ok(());
            }
            Transition::Round { round, phase, reason } => (round, phase, reason),
        };
        let sql = "select opened_at_ms, selected_at_ms, closed_at_ms from rounds \
                   where job = $1 and task = $2 and number = $3";
        let (job, number) = (key.job.to_string(), i64::from(key.number));
        let began = fetch!(self, Began, fetch_optional, sql, job.as_str(), key.task.as_str(), number);
        let Some(began) = began else { return Ok(()) };
        let (left, began_at_ms) = phase_left(phase, began);
        let ended = match phase {
            Phase::Committed => Some(RoundEnd::Committed),
            Phase::Abandoned => Some(RoundEnd::Abandoned(reason.unwrap_or(AbandonReason::Fault))),
            Phase::Selecting | Phase::Training | Phase::Aggregating => None,
        };
        let after_ms = (now_ms - began_at_ms).max(0);
        self.counts(Counted::Moved { population, task: key.task, left, after_ms, ended });
        Ok(())
    }
}

/// The phase that a round left when it came into this one, and when that phase had begun.
fn phase_left(became: Phase, began: Began) -> (Phase, i64) {
    let Began { opened_at_ms, selected_at_ms, closed_at_ms } = began;
    let selecting = (Phase::Selecting, opened_at_ms);
    let training = selected_at_ms.map_or(selecting, |at_ms| (Phase::Training, at_ms));
    let aggregating = closed_at_ms.map_or(training, |at_ms| (Phase::Aggregating, at_ms));
    match became {
        Phase::Selecting | Phase::Training => selecting,
        Phase::Aggregating => training,
        Phase::Committed | Phase::Abandoned => aggregating,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_leaves_the_phase_in_which_it_was() {
        let began = |selected_at_ms, closed_at_ms| Began { opened_at_ms: 1, selected_at_ms, closed_at_ms };
        let cases = [
            (Phase::Training, began(Some(5), None), (Phase::Selecting, 1)),
            (Phase::Aggregating, began(Some(5), Some(9)), (Phase::Training, 5)),
            (Phase::Committed, began(Some(5), Some(9)), (Phase::Aggregating, 9)),
            (Phase::Abandoned, began(None, None), (Phase::Selecting, 1)),
            (Phase::Abandoned, began(Some(5), None), (Phase::Training, 5)),
            (Phase::Abandoned, began(Some(5), Some(9)), (Phase::Aggregating, 9)),
        ];
        for (became, began, left) in cases {
            assert_eq!(phase_left(became, began), left, "{became} {began:?}");
        }
    }
}
