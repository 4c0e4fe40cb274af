//! What an open round waits for.

use tributary_protocol::operator::{Round, RoundBuffer};

use super::facts::RoundStory;
use crate::story::words::{count, duration, report_word};

pub(super) fn selecting(name: &str, story: &RoundStory<'_>, now_ms: i64) -> String {
    let seen = match story.available {
        // They came since it was last decided, or wait for others that it needs as well.
        Some((available, needed)) if available >= needed => {
            let clients = count(available, "client");
            let are = if available == 1 { "is" } else { "are" };
            format!("{clients} {are} checked in and eligible, and it needs {needed}")
        }
        Some((available, needed)) => {
            let are = if available == 1 { "is" } else { "are" };
            format!("{available} of the {needed} it needs {are} checked in and eligible")
        }
        None => "too few are checked in and eligible".to_owned(),
    };
    let seen = match story.lacking {
        Some(lacking) => format!("{seen}; {lacking}"),
        None => seen,
    };
    let seen = match story.wanted.and_then(|wanted| wanted.words(story.round.minimum)) {
        Some(wanted) => format!("{seen}, and {wanted}"),
        None => seen,
    };
    match story.selection_ends_at_ms {
        Some(at_ms) if at_ms > now_ms && story.lacking.is_some() => {
            format!("{name} waits for clients: {seen}; in {} it is abandoned.", duration(at_ms - now_ms))
        }
        Some(at_ms) if at_ms > now_ms => {
            let minimum = count(story.round.minimum, "client");
            format!(
                "{name} waits for clients: {seen}; in {} it starts with the clients that wait, or is abandoned with fewer \
                 than {minimum}.",
                duration(at_ms - now_ms)
            )
        }
        _ => format!("{name} waits for clients: {seen}."),
    }
}

pub(super) fn collecting(name: &str, round: &Round, now_ms: i64) -> String {
    let report = report_word(round.task);
    let missing = round.goal.saturating_sub(round.reported);
    let work = if round.assigned == 1 { "works" } else { "work" };
    let mut text = format!(
        "{name} waits for {missing} more of {} ({} still {work}",
        count(round.goal, report),
        count(round.assigned, "client")
    );
    let left_ms = round.deadline_at_ms.map(|at_ms| at_ms - now_ms);
    match left_ms {
        Some(left_ms) if left_ms > 0 => text.push_str(&format!(", the deadline is in {}", duration(left_ms))),
        _ => text.push_str(", the deadline has come"),
    }
    if round.reported < round.minimum {
        text.push_str(&format!("; with fewer than {} it is abandoned then", round.minimum));
    }
    text.push_str(").");
    text
}

pub(super) fn filling(name: &str, round: &Round, buffer: &RoundBuffer) -> String {
    let missing = round.goal.saturating_sub(round.reported);
    let of = count(round.goal, "update");
    let at_work = if round.assigned == 1 { "client is" } else { "clients are" };
    let mut text = format!("{name} waits for {missing} more of {of}; {} {at_work} at work", round.assigned);
    match buffer.concurrency.saturating_sub(round.assigned) {
        0 => text.push_str(", as many as the job allows."),
        1 => text.push_str(", and there is a place for another one."),
        places => text.push_str(&format!(", and there are places for {places} more.")),
    }
    text
}

/// A round of members with clocks. It closes with as many updates as there are members.
pub(super) fn in_step(name: &str, story: &RoundStory<'_>, slack: u32) -> String {
    let (round, clocks) = (story.round, story.clocks);
    let Some(slowest) = clocks.iter().min_by_key(|member| member.clock) else {
        return format!("{name} waits for clients: nobody is a member.");
    };
    let members = u32::try_from(clocks.len()).unwrap_or(u32::MAX);
    let missing = members.min(round.goal).saturating_sub(round.reported);
    let blocked = clocks.iter().filter(|member| !member.is_working && member.clock > slowest.clock + slack).count();
    let text = format!(
        "{name} waits for {missing} more of {}, one for each member; {} at work",
        count(members.min(round.goal), "update"),
        clocks.iter().filter(|member| member.is_working).count()
    );
    match blocked {
        0 => format!("{text}."),
        blocked => format!(
            "{text}, and {} for client {}, which has the slowest clock.",
            if blocked == 1 { "1 waits".to_owned() } else { format!("{blocked} wait") },
            slowest.client_number
        ),
    }
}
