//! Explanation of a round: its phases, one sentence on what it waits for or why it ended as it did, and the effect of
//! other deadlines.

use tributary_protocol::operator::{PhaseSpan, Round, RoundBuffer, WhatIf};
use tributary_protocol::state::{AbandonReason, Phase, Task};

/// Deadlines that [`what_if`] tries: tenths of the real one, up to twice its length.
const WHAT_IF_TENTHS: u64 = 20;

/// The facts that explain a round.
#[derive(Clone, Copy, Debug)]
pub struct RoundStory<'a> {
    pub round: &'a Round,
    /// While the round selects: eligible clients that wait now, and how many it needs.
    pub available: Option<(u32, u32)>,
    /// While the round selects: when it is abandoned.
    pub selection_ends_at_ms: Option<i64>,
    /// The client whose accepted report came last, by number, and the time after the selection in milliseconds.
    pub slowest: Option<(u64, i64)>,
    /// While the round selects: the enrolled clients whose attributes the job asks for.
    pub wanted: Option<Wanted<'a>>,
    /// While no coordinator drives the job.
    pub undriven: Option<Undriven<'a>>,
    /// The last change of coordinators while the round was open.
    pub takeover: Option<Takeover<'a>>,
}

impl<'a> RoundStory<'a> {
    /// The story of a round of which no more is known than its own figures.
    #[must_use]
    pub fn of(round: &'a Round) -> Self {
        Self {
            round,
            available: None,
            selection_ends_at_ms: None,
            slowest: None,
            wanted: None,
            undriven: None,
            takeover: None,
        }
    }
}

/// The enrolled clients that a round may draw by their attributes, whether they wait or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// As `role=evaluator`.
    pub attributes: &'a str,
    pub matching: u64,
    pub enrolled: u64,
}

/// A job whose coordinator does not renew its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undriven<'a> {
    /// The coordinator that has the lease.
    pub node: &'a str,
    pub seen_at_ms: i64,
    /// When another one may take the job over.
    pub expires_at_ms: i64,
}

/// A job changed hands because its coordinator died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Takeover<'a> {
    pub from: &'a str,
    pub to: &'a str,
    /// When the dead coordinator was last seen.
    pub seen_at_ms: i64,
    pub at_ms: i64,
}

impl Undriven<'_> {
    /// As `south was last seen 4 s ago, and another coordinator takes over in 6 s`.
    pub(super) fn words(&self, now_ms: i64) -> String {
        let Self { node, seen_at_ms, expires_at_ms } = self;
        let seen = duration(now_ms - seen_at_ms);
        match expires_at_ms - now_ms {
            left_ms @ 1.. => {
                format!("{node} was last seen {seen} ago, and another coordinator takes over in {}", duration(left_ms))
            }
            _ => format!("{node} was last seen {seen} ago, and no other coordinator has taken over"),
        }
    }
}

/// One sentence: what an open round waits for, why an ended one took as long as it did, or why it was abandoned.
#[must_use]
pub fn explain(story: &RoundStory<'_>, now_ms: i64) -> String {
    let round = story.round;
    let name = match round.task {
        Task::Train => format!("Round {}", round.number),
        Task::Evaluate => format!("The evaluation of round {}", round.number),
    };
    if let Some(undriven) = story.undriven.filter(|_| round.phase.is_open()) {
        return format!("{name} waits for a coordinator: {}.", undriven.words(now_ms));
    }
    if round.task == Task::Evaluate && round.goal == 0 {
        return on_coordinator(&name, story, now_ms);
    }
    match round.phase {
        Phase::Selecting => selecting(&name, story, now_ms),
        Phase::Training => match &round.buffer {
            Some(buffer) => filling(&name, round, buffer),
            None => collecting(&name, round, now_ms),
        },
        Phase::Aggregating if round.task == Task::Train => {
            format!("{name} has its {} and makes the next version.", count(round.reported, "update"))
        }
        Phase::Aggregating => format!("{name} has its {} and adds them up.", count(round.reported, "report")),
        Phase::Committed => committed(&name, story),
        Phase::Abandoned => abandoned(&name, round),
    }
}

/// An evaluation without clients.
fn on_coordinator(name: &str, story: &RoundStory<'_>, now_ms: i64) -> String {
    let round = story.round;
    let took_ms = round.ended_at_ms.map_or(0, |at_ms| at_ms - round.opened_at_ms);
    match round.phase {
        Phase::Selecting => {
            let left_ms = story.selection_ends_at_ms.map_or(0, |at_ms| at_ms - now_ms);
            let ends = if left_ms > 0 { format!("; in {} it is abandoned", duration(left_ms)) } else { String::new() };
            format!("{name} waits for the test set of the job (`tributary job test-set upload`){ends}.")
        }
        Phase::Training | Phase::Aggregating => format!("{name} is computed on the coordinator."),
        Phase::Committed => {
            format!("{name} took {} on the coordinator, with {} examples.", duration(took_ms), round.weight)
        }
        Phase::Abandoned if round.reason == Some(AbandonReason::SelectionTimeout) => {
            format!("{name} was abandoned: no test set was uploaded within {}.", duration(took_ms))
        }
        Phase::Abandoned => abandoned(name, round),
    }
}

fn selecting(name: &str, story: &RoundStory<'_>, now_ms: i64) -> String {
    let seen = match story.available {
        Some((available, needed)) => {
            let are = if available == 1 { "is" } else { "are" };
            format!("{available} of the {needed} it needs {are} checked in and eligible")
        }
        None => "too few are checked in and eligible".to_owned(),
    };
    let seen = match story.wanted {
        Some(Wanted { attributes, matching, enrolled })
            if !attributes.is_empty() && matching < u64::from(story.round.minimum) =>
        {
            let have = if matching == 1 { "has" } else { "have" };
            format!("{seen}, and {matching} of {enrolled} enrolled clients {have} {attributes}")
        }
        _ => seen,
    };
    match story.selection_ends_at_ms {
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

fn collecting(name: &str, round: &Round, now_ms: i64) -> String {
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

fn filling(name: &str, round: &Round, buffer: &RoundBuffer) -> String {
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

fn committed(name: &str, story: &RoundStory<'_>) -> String {
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
        format!("until {} were in{}", count(round.goal, report), slowest.unwrap_or_default())
    } else {
        format!("until no client was still working, with {} of {}", round.reported, count(round.goal, report))
    };
    let lost = losses(round);
    let lost = if lost.is_empty() { String::new() } else { format!("; {lost}") };
    format!("{name} took {}: {why}{lost}.", duration(took_ms))
}

fn abandoned(name: &str, round: &Round) -> String {
    let report = report_word(round.task);
    let lost = losses(round);
    let lost = if lost.is_empty() { String::new() } else { format!(" ({lost})") };
    let took_ms = round.ended_at_ms.map_or(0, |at_ms| at_ms - round.opened_at_ms);
    let why = match round.reason {
        Some(AbandonReason::SelectionTimeout) => {
            let minimum = count(round.minimum, "eligible client");
            format!("fewer than {minimum} checked in within {}", duration(took_ms))
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

fn report_word(task: Task) -> &'static str {
    match task {
        Task::Train => "update",
        Task::Evaluate => "report",
    }
}

pub(super) fn count(number: u32, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// A duration for people: `340 ms`, `7.5 s`, `3 min 20 s`, `2 h 5 min`, `4 d 3 h`.
pub fn duration(ms: i64) -> String {
    const SECOND: i64 = 1_000;
    const MINUTE: i64 = 60 * SECOND;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    let two = |large: i64, large_name: &str, small: i64, small_name: &str| match ms % large / small {
        0 => format!("{} {large_name}", ms / large),
        rest => format!("{} {large_name} {rest} {small_name}", ms / large),
    };
    match ms {
        ..SECOND => format!("{} ms", ms.max(0)),
        SECOND..MINUTE => match ms % SECOND / 100 {
            0 => format!("{} s", ms / SECOND),
            tenths => format!("{}.{tenths} s", ms / SECOND),
        },
        MINUTE..HOUR => two(MINUTE, "min", SECOND, "s"),
        HOUR..DAY => two(HOUR, "h", MINUTE, "min"),
        DAY.. => two(DAY, "d", HOUR, "h"),
    }
}

/// The phases of a round, in order.
#[must_use]
pub fn phases(round: &Round) -> Vec<PhaseSpan> {
    let begins = [
        (Phase::Selecting, Some(round.opened_at_ms)),
        (Phase::Training, round.selected_at_ms),
        (Phase::Aggregating, round.closed_at_ms),
    ];
    let begun: Vec<_> = begins.into_iter().filter_map(|(phase, at_ms)| Some((phase, at_ms?))).collect();
    let ends = begun.iter().skip(1).map(|(_, at_ms)| Some(*at_ms)).chain([round.ended_at_ms]);
    begun
        .iter()
        .zip(ends)
        .map(|(&(phase, began_at_ms), ended_at_ms)| PhaseSpan { phase, began_at_ms, ended_at_ms })
        .collect()
}

/// What other deadlines would have dropped of a cohort. `came_ms` has the arrival time of each report, late ones
/// included, in milliseconds after the selection.
#[must_use]
pub fn what_if(deadline_ms: u64, cohort: u32, came_ms: &[u64]) -> Vec<WhatIf> {
    let tenths = 1..=WHAT_IF_TENTHS;
    let deadlines = tenths.map(|tenths| u128::from(deadline_ms) * u128::from(tenths) / 10);
    let what_if = |deadline_ms: u128| {
        let deadline_ms = u64::try_from(deadline_ms).unwrap_or(u64::MAX);
        let in_time = came_ms.iter().filter(|came_ms| **came_ms < deadline_ms).count();
        WhatIf { deadline_ms, dropped: cohort.saturating_sub(u32::try_from(in_time).unwrap_or(u32::MAX)) }
    };
    deadlines.map(what_if).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A round with a goal of 10, a minimum of 5 and a cohort of 13, in which time passes in seconds, with these
    /// changes.
    fn round(changes: serde_json::Value) -> Round {
        let mut round = json!({
            "number": 7, "task": "train", "phase": "training", "base_version": 6, "seed": 1, "goal": 10, "minimum": 5,
            "cohort": 13, "reported": 0, "assigned": 0, "rejected": 0, "failed": 0, "expired": 0, "opened_at_ms": 0,
            "selected_at_ms": 3_000, "deadline_at_ms": 603_000, "weight": 0, "bytes_up": 0, "bytes_down": 0,
        });
        for (key, value) in changes.as_object().unwrap() {
            round[key] = value.clone();
        }
        serde_json::from_value(round).unwrap()
    }

    fn story(round: &Round) -> RoundStory<'_> {
        RoundStory::of(round)
    }

    #[test]
    fn a_buffer_says_what_it_waits_for_and_who_is_at_work() {
        let told = |changes: serde_json::Value| {
            let mut buffer = json!({
                "goal": 3, "minimum": 3, "deadline_at_ms": null,
                "buffer": { "concurrency": 4, "staleness_max": 8, "lost_weight": 0.0 },
            });
            buffer.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
            let round = round(buffer);
            explain(&story(&round), 10_000)
        };
        let waits = "Round 7 waits for 2 more of 3 updates;";
        let open = told(json!({ "reported": 1, "assigned": 1 }));
        assert_eq!(open, format!("{waits} 1 client is at work, and there are places for 3 more."));
        let nearly = told(json!({ "reported": 1, "assigned": 3 }));
        assert_eq!(nearly, format!("{waits} 3 clients are at work, and there is a place for another one."));
        let full = told(json!({ "reported": 1, "assigned": 4 }));
        assert_eq!(full, format!("{waits} 4 clients are at work, as many as the job allows."));
        let ended = told(json!({ "phase": "abandoned", "reason": "superseded", "ended_at_ms": 9_000 }));
        assert_eq!(ended, "Round 7 was abandoned: the job reached its result while the buffer was open.");
    }

    #[test]
    fn an_evaluation_on_the_coordinator_is_about_its_test_set() {
        let told = |changes: serde_json::Value| {
            let mut own = json!({ "task": "evaluate", "goal": 0, "minimum": 0, "cohort": 0 });
            own.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
            let round = round(own);
            explain(&RoundStory { selection_ends_at_ms: Some(5_000), ..story(&round) }, 2_000)
        };
        let waits = told(json!({ "phase": "selecting" }));
        assert!(waits.contains("waits for the test set") && waits.ends_with("; in 3 s it is abandoned."), "{waits}");
        assert!(told(json!({ "phase": "aggregating" })).contains("computed on the coordinator"));
        let done = told(json!({ "phase": "committed", "ended_at_ms": 1_500, "weight": 40 }));
        assert_eq!(done, "The evaluation of round 7 took 1.5 s on the coordinator, with 40 examples.");
        let late = json!({ "phase": "abandoned", "reason": "selection_timeout", "ended_at_ms": 60_000 });
        assert!(told(late).ends_with("no test set was uploaded within 1 min."));
    }

    #[test]
    fn an_open_round_says_what_it_waits_for() {
        let selecting = round(json!({ "phase": "selecting", "cohort": 0, "selected_at_ms": null }));
        let waits = RoundStory { available: Some((4, 13)), selection_ends_at_ms: Some(300_000), ..story(&selecting) };
        assert_eq!(
            explain(&waits, 100_000),
            "Round 7 waits for clients: 4 of the 13 it needs are checked in and eligible; in 3 min 20 s it starts with \
             the clients that wait, or is abandoned with fewer than 5 clients."
        );
        assert_eq!(
            explain(&RoundStory { available: Some((1, 13)), ..waits }, 300_000),
            "Round 7 waits for clients: 1 of the 13 it needs is checked in and eligible."
        );
        let cases = [
            (
                json!({ "reported": 7, "assigned": 5 }),
                "Round 7 waits for 3 more of 10 updates (5 clients still work, the deadline is in 9 min 50 s).",
            ),
            (
                json!({ "reported": 2, "assigned": 1, "task": "evaluate" }),
                "The evaluation of round 7 waits for 8 more of 10 reports (1 client still works, the deadline is in \
                 9 min 50 s; with fewer than 5 it is abandoned then).",
            ),
            (
                json!({ "reported": 7, "assigned": 5, "deadline_at_ms": 13_000 }),
                "Round 7 waits for 3 more of 10 updates (5 clients still work, the deadline has come).",
            ),
            (
                json!({ "phase": "aggregating", "reported": 10 }),
                "Round 7 has its 10 updates and makes the next version.",
            ),
            (
                json!({ "phase": "aggregating", "reported": 1, "task": "evaluate" }),
                "The evaluation of round 7 has its 1 report and adds them up.",
            ),
        ];
        for (changes, expected) in cases {
            assert_eq!(explain(&story(&round(changes)), 13_000), expected);
        }
    }

    #[test]
    fn a_committed_round_says_where_its_time_went() {
        let committed = |changes: serde_json::Value| {
            let mut all =
                json!({ "phase": "committed", "reported": 10, "closed_at_ms": 45_000, "ended_at_ms": 46_000 });
            for (key, value) in changes.as_object().unwrap() {
                all[key] = value.clone();
            }
            round(all)
        };
        let cases = [
            (
                json!({ "expired": 3, "spare": 3 }),
                "Round 7 took 46 s: until 10 updates were in, the last from client 4 after 42 s; 3 spares were not needed.",
            ),
            (
                json!({ "reported": 8, "expired": 1, "failed": 2, "rejected": 2, "closed_at_ms": 603_000, "ended_at_ms": 604_500 }),
                "Round 7 took 10 min 4 s: its whole deadline, because only 8 of 10 updates came; 1 did not report in \
                 time, 2 gave up, \
                 2 were rejected.",
            ),
            (
                json!({ "reported": 9, "failed": 4 }),
                "Round 7 took 46 s: until no client was still working, with 9 of 10 updates; 4 gave up.",
            ),
            (
                json!({ "selected_at_ms": 40_000, "expired": 1, "spare": 1 }),
                "Round 7 took 46 s: 40 s of it waiting for enough eligible clients; 1 spare was not \
                 needed.",
            ),
            (json!({ "ended_at_ms": 100_400 }), "Round 7 took 1 min 40 s: 55.4 s of it making the new version."),
        ];
        for (changes, expected) in cases {
            let round = committed(changes);
            assert_eq!(explain(&RoundStory { slowest: Some((4, 42_000)), ..story(&round) }, 0), expected);
        }
    }

    #[test]
    fn a_dead_coordinator_is_named_while_it_is_missing_and_afterwards() {
        let open = round(json!({ "phase": "aggregating", "reported": 10, "closed_at_ms": 45_000 }));
        let undriven = Undriven { node: "south", seen_at_ms: 44_000, expires_at_ms: 54_000 };
        let waits = RoundStory { undriven: Some(undriven), ..story(&open) };
        assert_eq!(
            explain(&waits, 48_000),
            "Round 7 waits for a coordinator: south was last seen 4 s ago, and another coordinator takes over in 6 s."
        );
        assert!(explain(&waits, 54_000).ends_with("10 s ago, and no other coordinator has taken over."));
        let ended = json!({
            "phase": "committed", "selected_at_ms": 100, "reported": 10, "closed_at_ms": 1_700, "ended_at_ms": 10_600,
        });
        let ended = round(ended);
        let takeover = Takeover { from: "south", to: "north", seen_at_ms: 1_900, at_ms: 10_500 };
        let told = RoundStory { takeover: Some(takeover), undriven: Some(undriven), ..story(&ended) };
        assert_eq!(
            explain(&told, 0),
            "Round 7 took 10.6 s: 8.6 s of it without a coordinator, until north took over from south."
        );
    }

    #[test]
    fn a_round_that_nobody_can_join_says_whom_it_wants() {
        let selecting = round(json!({
            "task": "evaluate", "phase": "selecting", "cohort": 0, "selected_at_ms": null, "minimum": 1,
        }));
        let wanted = Some(Wanted { attributes: "role=nobody", matching: 0, enrolled: 18 });
        let waits = RoundStory { available: Some((0, 2)), wanted, ..story(&selecting) };
        assert_eq!(
            explain(&waits, 0),
            "The evaluation of round 7 waits for clients: 0 of the 2 it needs are checked in and eligible, and 0 of 18 \
             enrolled clients have role=nobody."
        );
        let some = RoundStory { wanted: wanted.map(|wanted| Wanted { matching: 1, ..wanted }), ..waits };
        assert!(!explain(&some, 0).contains("role"), "enough are enrolled: they are only not here");
    }

    #[test]
    fn an_abandoned_round_says_why() {
        let cases = [
            (
                json!({ "reason": "selection_timeout", "ended_at_ms": 300_000, "selected_at_ms": null, "deadline_at_ms": null }),
                "fewer than 5 eligible clients checked in within 5 min",
            ),
            (
                json!({ "reason": "too_few_reports", "ended_at_ms": 603_000, "reported": 3, "expired": 9, "failed": 1 }),
                "at the deadline 3 of the 5 updates it needs had come (9 did not report in time, 1 gave up)",
            ),
            (
                json!({ "reason": "too_few_reports", "ended_at_ms": 90_000, "reported": 1, "failed": 12 }),
                "too few clients were left to reach 5 updates: 1 came (12 gave up)",
            ),
            (json!({ "reason": "job_stopped", "ended_at_ms": 5_000 }), "an operator stopped the job"),
            (
                json!({ "reason": "not_finite", "ended_at_ms": 5_000 }),
                "the new model was not finite; a lower learning rate or magnitude_max may help",
            ),
            (
                json!({ "reason": "fault", "ended_at_ms": 5_000 }),
                "its stored data could not be read; the coordinator's log says more",
            ),
        ];
        for (mut changes, why) in cases {
            changes["phase"] = "abandoned".into();
            assert_eq!(explain(&story(&round(changes)), 0), format!("Round 7 was abandoned: {why}."));
        }
    }

    #[test]
    fn durations_read_well() {
        let cases = [
            (-5, "0 ms"),
            (340, "340 ms"),
            (7_000, "7 s"),
            (7_590, "7.5 s"),
            (59_999, "59.9 s"),
            (60_000, "1 min"),
            (200_000, "3 min 20 s"),
            (7_500_000, "2 h 5 min"),
            (356_400_000, "4 d 3 h"),
        ];
        for (ms, text) in cases {
            assert_eq!(duration(ms), text);
        }
    }

    #[test]
    fn phases_follow_each_other_without_gaps() {
        let span = |phase, began_at_ms, ended_at_ms| PhaseSpan { phase, began_at_ms, ended_at_ms };
        let open = round(json!({ "phase": "selecting", "selected_at_ms": null }));
        assert_eq!(phases(&open), [span(Phase::Selecting, 0, None)]);
        let ended = round(json!({ "phase": "committed", "closed_at_ms": 9_000, "ended_at_ms": 10_000 }));
        let expected = [
            span(Phase::Selecting, 0, Some(3_000)),
            span(Phase::Training, 3_000, Some(9_000)),
            span(Phase::Aggregating, 9_000, Some(10_000)),
        ];
        assert_eq!(phases(&ended), expected);
        let abandoned = round(json!({ "phase": "abandoned", "ended_at_ms": 10_000 }));
        assert_eq!(phases(&abandoned)[1], span(Phase::Training, 3_000, Some(10_000)));
    }

    #[test]
    fn another_deadline_drops_others() {
        let cases = what_if(1_000, 5, &[50, 350, 900, 1_500]);
        assert_eq!(cases.len(), 20);
        let dropped = |deadline_ms| cases.iter().find(|case| case.deadline_ms == deadline_ms).unwrap().dropped;
        assert_eq!([100, 400, 1_000, 1_500, 1_600].map(dropped), [4, 3, 2, 2, 1]);
        assert_eq!(what_if(u64::MAX, 0, &[1]).last().unwrap().dropped, 0);
    }
}
