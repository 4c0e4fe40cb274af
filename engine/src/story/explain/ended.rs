//! Why an ended round took as long as it did, or has no result.

use tributary_protocol::operator::Round;
use tributary_protocol::state::{AbandonReason, Task};

use super::facts::{RoundStory, Takeover};
use crate::story::words::{count, duration, report_word};

pub(super) fn committed(name: &str, story: &RoundStory<'_>) -> String {
    let round = story.round;
    let report = report_word(round.task);
    let ended_at_ms = round.ended_at_ms.unwrap_or(round.opened_at_ms);
    let selected_at_ms = round.selected_at_ms.unwrap_or(round.opened_at_ms);
    let closed_at_ms = round.closed_at_ms.unwrap_or(ended_at_ms);
    let took_ms = ended_at_ms - round.opened_at_ms;
    let (selecting_ms, working_ms) = (selected_at_ms - round.opened_at_ms, closed_at_ms - selected_at_ms);
    let away = story.takeover.map(|takeover| {
        let from_ms = takeover.seen_at_ms.max(round.opened_at_ms);
        (takeover, (takeover.at_ms.min(ended_at_ms) - from_ms).max(0))
    });
    let away_ms = away.map_or(0, |(_, ms)| ms);
    let making_ms = (ended_at_ms - closed_at_ms - away_ms).max(0);
    let at_deadline = round.deadline_at_ms.is_some_and(|deadline_at_ms| closed_at_ms >= deadline_at_ms);

    let why = if let Some((Takeover { from, to, .. }, _)) = away.filter(|(_, ms)| *ms > making_ms && *ms * 2 > took_ms)
    {
        format!("{} of it without a coordinator, until {to} took over from {from}", duration(away_ms))
    } else if selecting_ms > working_ms && selecting_ms > making_ms {
        format!("{} of it waiting for enough eligible clients", duration(selecting_ms))
    } else if making_ms > working_ms {
        let made = if round.task == Task::Train { "making the new version" } else { "adding up the result" };
        format!("{} of it {made}", duration(making_ms))
    } else if at_deadline {
        format!("its whole deadline, because only {} of {} came", round.reported, count(round.goal, report))
    } else if round.reported >= round.goal {
        let slowest =
            story.slowest.map(|(number, ms)| format!(", the last from client {number} after {}", duration(ms)));
        let were = if round.goal == 1 { "was" } else { "were" };
        format!("until {} {were} in{}", count(round.goal, report), slowest.unwrap_or_default())
    } else if round.expired > 0 {
        // An evaluation by all that are here, which does not wait for the last ones for ever.
        format!("with {} of {}", round.reported, count(round.goal, report))
    } else {
        format!("until no client was still working, with {} of {}", round.reported, count(round.goal, report))
    };
    let lost = losses(round);
    let lost = if lost.is_empty() { String::new() } else { format!("; {lost}") };
    format!("{name} took {}: {why}{lost}.", duration(took_ms))
}

pub(super) fn abandoned(name: &str, story: &RoundStory<'_>) -> String {
    let round = story.round;
    let report = report_word(round.task);
    let lost = losses(round);
    let lost = if lost.is_empty() { String::new() } else { format!(" ({lost})") };
    let took_ms = round.ended_at_ms.map_or(0, |at_ms| at_ms - round.opened_at_ms);
    let why = match round.reason {
        Some(AbandonReason::SelectionTimeout) => {
            let minimum = count(round.minimum, "eligible client");
            let wanted = story.wanted.and_then(|wanted| wanted.words(round.minimum));
            let wanted = wanted.map_or_else(String::new, |wanted| format!("; {wanted}"));
            format!("fewer than {minimum} checked in within {}{wanted}", duration(took_ms))
        }
        Some(AbandonReason::TooFewReports) => {
            let in_time = round.deadline_at_ms.zip(round.ended_at_ms).is_some_and(|(deadline, ended)| ended < deadline);
            let needed = count(round.minimum, report);
            match in_time {
                true => format!("too few clients were left to reach {needed}: {} came{lost}", round.reported),
                false => format!("at the deadline {} of the {needed} it needs had come{lost}", round.reported),
            }
        }
        Some(AbandonReason::JobStopped) => "an operator stopped the job".to_owned(),
        Some(AbandonReason::NotFinite) => {
            "the new model was not finite; a lower learning rate or magnitude_max may help".to_owned()
        }
        Some(AbandonReason::Superseded) if round.buffer.is_some() => {
            "the job reached its result while the buffer was open".to_owned()
        }
        Some(AbandonReason::Superseded) => "no evaluators came, and the last version was evaluated instead".to_owned(),
        Some(AbandonReason::Overdrawn) => {
            "the secret draw took more clients than a round may have, which is as rare as delta says".to_owned()
        }
        Some(AbandonReason::Upstream) => {
            "the parent of this relay had closed its round, or takes no sum of it any more".to_owned()
        }
        Some(AbandonReason::Fault) => "its stored data could not be read; the coordinator's log says more".to_owned(),
        None => "no reason was stored".to_owned(),
    };
    format!("{name} was abandoned: {why}.")
}

/// The outcomes of the clients without an accepted report.
fn losses(round: &Round) -> String {
    let in_deadline = round.expired.saturating_sub(round.spare);
    let parts = [
        (round.spare, "spare was not needed", "spares were not needed"),
        (in_deadline, "did not report in time", "did not report in time"),
        (round.failed, "gave up", "gave up"),
        (round.rejected, "was rejected", "were rejected"),
    ];
    let parts = parts.into_iter().filter(|(lost, ..)| *lost > 0);
    parts
        .map(|(lost, one, many)| format!("{lost} {}", if lost == 1 { one } else { many }))
        .collect::<Vec<_>>()
        .join(", ")
}
