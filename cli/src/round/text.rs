//! A round as text: a row of a table, a line of a log, a page.

use tributary_protocol::operator::{Assignment, Round};
use tributary_protocol::state::Task;

use crate::format::{bytes, duration_ms, measured, or_dash, spread, timestamp};
use crate::job::scalars::figure;
use crate::output;

/// Metrics that a line has room for. `job metrics` has all of them.
const SCALARS_SHOWN: usize = 4;

/// Headings of [`row`].
pub(crate) const HEADER: [&str; 11] =
    ["round", "phase", "reports", "spare", "lost", "failed", "accuracy", "loss", "training loss", "bytes", "took"];

pub(crate) fn row(round: &Round) -> Vec<String> {
    let phase = match round.reason {
        Some(reason) => format!("{} ({reason})", round.phase),
        None => round.phase.to_string(),
    };
    vec![
        round.number.to_string(),
        phase,
        if round.buffer.is_some() {
            format!("{}/{}, {} at work", round.reported, round.goal, round.assigned)
        } else {
            format!("{}/{} of {}", round.reported, round.goal, round.cohort)
        },
        round.spare.to_string(),
        lost(round).to_string(),
        (round.failed + round.rejected).to_string(),
        or_dash(round.accuracy, |accuracy| measured(accuracy, round.measured_on)),
        or_dash(round.loss, |loss| format!("{loss:.4}")),
        or_dash(round.training_loss, |loss| format!("{loss:.4}")),
        traffic(round),
        or_dash(took_ms(round), duration_ms),
    ]
}

/// Stragglers that the round needed.
fn lost(round: &Round) -> u32 {
    round.expired.saturating_sub(round.spare)
}

/// An ended round in one line.
pub(crate) fn line(round: &Round) -> String {
    let what = match (round.task, round.reason) {
        (_, Some(reason)) => format!("{} abandoned: {reason}", round.task),
        (Task::Train, None) => round.phase.to_string(),
        (Task::Evaluate, None) => "evaluated".into(),
        (Task::Describe, None) => "described".into(),
    };
    let mut parts = vec![format!("{} of {} reported", round.reported, round.cohort)];
    let counts =
        [(round.spare, "spare"), (lost(round), "lost"), (round.failed, "failed"), (round.rejected, "rejected")];
    parts.extend(counts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")));
    parts.extend(round.training_loss.map(|loss| format!("training loss {loss:.4}")));
    parts.extend(round.loss.map(|loss| format!("loss {loss:.4}")));
    parts.extend(round.accuracy.map(|accuracy| format!("accuracy {}", measured(accuracy, round.measured_on))));
    let metrics = round.metrics.iter().take(SCALARS_SHOWN);
    parts.extend(metrics.map(|metric| format!("{} {}", metric.name, figure(metric.mean))));
    parts.push(traffic(round));
    parts.extend(took_ms(round).map(duration_ms));
    format!("round {:>3} {what}: {}", round.number, parts.join(", "))
}

/// Bytes sent in both directions, and how much smaller they were than uncompressed files.
fn traffic(round: &Round) -> String {
    let up = smaller(round.traffic.raw_bytes_up, round.traffic.bytes_up);
    let down = smaller(round.traffic.raw_bytes_down, round.traffic.bytes_down);
    format!("{} up{up}, {} down{down}", bytes(round.traffic.bytes_up), bytes(round.traffic.bytes_down))
}

/// ` (1/4.0)` for a quarter of the size; empty below a factor of 1.05.
fn smaller(raw_bytes: u64, sent_bytes: u64) -> String {
    let ratio = raw_bytes as f64 / sent_bytes.max(1) as f64;
    if sent_bytes > 0 && ratio >= 1.05 { format!(" (1/{ratio:.1})") } else { String::new() }
}

/// Time from opening to end.
fn took_ms(round: &Round) -> Option<u64> {
    round.ended_at_ms.map(|ended_at_ms| ended_at_ms.abs_diff(round.opened_at_ms))
}

/// The round and its assignments as a page.
pub(crate) fn page(round: &Round, assignments: &[Assignment], width: Option<u16>) -> String {
    let pairs = [
        ("round", format!("{} ({})", round.number, round.task)),
        ("phase", round.phase.to_string()),
        ("reason", or_dash(round.reason, |reason| reason.to_string())),
        ("started from", format!("model version {}", round.base_version)),
        ("reports", reports(round)),
        ("examples", round.weight.to_string()),
        ("training loss", or_dash(round.training_loss, |loss| format!("{loss:.4}"))),
        ("loss", or_dash(round.loss, |loss| format!("{loss:.4}"))),
        ("accuracy", or_dash(round.accuracy, |accuracy| measured(accuracy, round.measured_on))),
        ("clients", or_dash(spread(round.measured_on), |spread| spread)),
        ("opened", timestamp(round.opened_at_ms)),
        ("selected", or_dash(round.selected_at_ms, timestamp)),
        ("deadline", or_dash(round.deadline_at_ms, timestamp)),
        ("ended", or_dash(round.ended_at_ms, timestamp)),
        ("bytes", traffic(round)),
        ("saved", saved(round)),
        ("seed", round.seed.0.to_string()),
    ];
    let header = ["client", "state", "reason", "examples", "loss", "norm", "worked", "up", "after"];
    let rows = assignments.iter().map(assignment_row);
    format!("{}\n\n{}", output::fields(&pairs, width), output::table(&header, rows, width))
}

fn reports(round: &Round) -> String {
    let Some(buffer) = &round.buffer else {
        return format!(
            "{} of {} selected; goal {}, minimum {}",
            round.reported, round.cohort, round.goal, round.minimum
        );
    };
    let staleness = buffer.staleness_mean.map_or_else(String::new, |mean| {
        format!("; {mean:.1} versions behind on average, which took the weight of {:.0} examples", buffer.lost_weight)
    });
    let (in_work, most) = (round.assigned, buffer.concurrency);
    if let Some(slack) = buffer.slack {
        return format!("{} of {most} members at most, {in_work} at work, with a slack of {slack}", round.reported);
    }
    format!("{} in a buffer of {}; {in_work} of at most {most} at work{staleness}", round.reported, round.goal)
}

/// The work that stragglers did not do because they were told that the round had closed.
fn saved(round: &Round) -> String {
    match round.saved_ms {
        0 => "-".to_owned(),
        ms => format!("at most {} of work, by stragglers that stopped early", duration_ms(ms)),
    }
}

fn assignment_row(assignment: &Assignment) -> Vec<String> {
    let state = if assignment.spare { "spare".to_owned() } else { assignment.state.to_string() };
    // A straggler took its own time, not that of its round.
    let ended_at_ms = match assignment.straggler {
        None => assignment.ended_at_ms,
        Some(_) => assignment.late_at_ms.or(assignment.stopped_at_ms),
    };
    vec![
        format!("#{}", assignment.client_number),
        state,
        assignment
            .explanation
            .clone()
            .or_else(|| assignment.reason.clone())
            .or_else(|| stands_for(assignment))
            .unwrap_or_default(),
        or_dash(assignment.weight, |weight| weight.to_string()),
        or_dash(assignment.loss, |loss| format!("{loss:.4}")),
        or_dash(assignment.update_norm, |norm| format!("{norm:.3}")),
        or_dash(assignment.work_ms, duration_ms),
        bytes(assignment.traffic.bytes_up),
        or_dash(ended_at_ms, |ended_at_ms| duration_ms(ended_at_ms.abs_diff(assignment.assigned_at_ms))),
    ]
}

/// Whom a relay stands for.
fn stands_for(assignment: &Assignment) -> Option<String> {
    let places = assignment.places?;
    Some(match assignment.updates {
        Some(updates) => format!("the sum of {updates} of {places} clients"),
        None => format!("a relay of {places} clients"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_protocol::operator::MeasuredOn;
    use tributary_protocol::traffic::Traffic;

    use crate::testing::round;
    use tributary_protocol::state::{AbandonReason, Phase};

    fn assignment(changes: serde_json::Value) -> Assignment {
        let mut assignment = serde_json::json!({
            "id": format!("assignment_{}", "0".repeat(32)), "client": format!("client_{}", "0".repeat(32)),
            "client_number": 7, "state": "expired", "assigned_at_ms": 0, "ended_at_ms": 1_300, "bytes_up": 0, "bytes_down": 0,
        });
        for (key, value) in changes.as_object().unwrap() {
            assignment[key] = value.clone();
        }
        serde_json::from_value(assignment).unwrap()
    }

    #[test]
    fn a_straggler_has_its_own_words_and_its_own_time() {
        let late = "finished 6.8 s after the round had enough reports";
        let late = assignment(serde_json::json!({
            "straggler": "finished_late", "spare": true, "late_at_ms": 8_100, "explanation": late,
        }));
        let row = assignment_row(&late);
        assert_eq!((row[1].as_str(), row[8].as_str()), ("spare", "8.1 s"));
        assert!(row[2].starts_with("finished 6.8 s after"), "{row:?}");
        let dead = assignment(serde_json::json!({ "straggler": "not_back", "explanation": "never came back" }));
        let row = assignment_row(&dead);
        assert_eq!((row[1].as_str(), row[2].as_str(), row[8].as_str()), ("expired", "never came back", "-"));
    }

    #[test]
    fn a_relay_is_shown_with_the_clients_that_it_stands_for() {
        let relay = |changes| assignment_row(&assignment(changes)).swap_remove(2);
        assert_eq!(relay(serde_json::json!({ "state": "assigned", "places": 5 })), "a relay of 5 clients");
        let sum = serde_json::json!({ "state": "reported", "places": 5, "updates": 4 });
        assert_eq!(relay(sum), "the sum of 4 of 5 clients");
    }

    #[test]
    fn a_round_tells_in_one_line_who_was_late_and_why_it_was_abandoned() {
        let committed = Round {
            cohort: 13,
            reported: 10,
            expired: 2,
            spare: 1,
            failed: 1,
            accuracy: Some(0.9431),
            measured_on: Some(MeasuredOn {
                examples: 190,
                clients: 0,
                low: 0.9005,
                high: 0.9681,
                worst: None,
                p10: None,
            }),
            traffic: Traffic { bytes_up: 210_000, raw_bytes_up: 840_000, ..Traffic::default() },
            ended_at_ms: Some(1_250),
            ..round(Task::Train, 7, Phase::Committed)
        };
        let text = "round   7 committed: 10 of 13 reported, 1 spare, 1 lost, 1 failed, accuracy 94.31 % (190 examples, 90 to 97 %), 210 kB up (1/4.0), 0 B down, 1.2 s";
        assert_eq!(line(&committed), text);
        let reason = Some(AbandonReason::TooFewReports);
        let abandoned = Round { reason, ..round(Task::Train, 8, Phase::Abandoned) };
        assert!(line(&abandoned).starts_with("round   8 train abandoned: too_few_reports: 0 of 13"));
    }
}
