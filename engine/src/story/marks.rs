//! Marks of a learning curve: what happened to the job itself.

use tributary_protocol::operator::{CurveMark, Event};

use super::CurveRow;

/// Causes of events that change nothing that is learned.
const FILING: &str = "filing";

/// The events of the job that belong into its curve, each with the last round of `rows` that had ended.
pub fn marks(created_at_ms: i64, events: &[Event], rows: &[CurveRow]) -> Vec<CurveMark> {
    // The first event is the creation.
    let events = events.iter().filter(|event| event.round.is_none() && event.sequence > 1);
    let told = events.filter(|event| event.cause.as_deref() != Some(FILING));
    told.map(|event| CurveMark {
        at_ms: event.at_ms,
        wall_ms: event.at_ms.saturating_sub(created_at_ms),
        round: rows.iter().take_while(|row| row.ended_at_ms <= event.at_ms).last().map_or(0, |row| row.round),
        became: event.became.clone(),
        cause: event.cause.clone(),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_protocol::id::JobId;

    fn event(sequence: u64, at_ms: i64, became: &str, cause: Option<&str>) -> Event {
        let job = JobId::from_random([1; 16]);
        let cause = cause.map(str::to_owned);
        Event { sequence, at_ms, job, round: None, task: None, assignment: None, became: became.into(), cause }
    }

    fn row(round: u32, ended_at_ms: i64) -> CurveRow {
        CurveRow {
            round,
            abandoned: false,
            ended_at_ms,
            cohort: 1,
            reported: 1,
            clients_ms: 0,
            bytes_up: 0,
            bytes_down: 0,
            training_loss: None,
            loss: None,
            accuracy: None,
            measured_on: None,
        }
    }

    #[test]
    fn a_mark_stands_at_the_last_round_that_had_ended() {
        let events = [
            event(1, 100, "running", None),
            event(2, 150, "paused", Some("operator")),
            event(9, 250, "running", Some("filing")),
            event(12, 300, "running", Some("round_policy")),
        ];
        let marks = marks(100, &events, &[row(1, 200), row(2, 300)]);
        let places: Vec<_> = marks.iter().map(|mark| (mark.round, mark.wall_ms, mark.became.as_str())).collect();
        assert_eq!(places, [(0, 50, "paused"), (2, 200, "running")]);
    }
}
