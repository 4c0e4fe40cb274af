//! How a job is: one line with severity, cause and remedy.

use tributary_protocol::operator::Health;
use tributary_protocol::state::{AbandonReason, HealthKind, JobState, Severity};

use super::explain::{Undriven, Wanted};
use super::words::{count, duration};

/// Rounds that are looked at for abandoned ones.
const ROUNDS_SEEN: usize = 5;
/// Abandoned rounds among them that are a finding.
const ABANDONED_MIN: usize = 3;
/// Losses that are compared: the newest half with the half before.
const LOSSES_SEEN: usize = 6;
/// A loss that rises by less may be noise.
const LOSS_RISE: f64 = 1.1;
/// A disk that is full later is no finding.
const DISK_MS: u64 = 7 * 24 * 3600 * 1000;

/// The facts of a job's health.
#[derive(Clone, Debug)]
pub struct HealthFacts<'a> {
    pub state: JobState,
    /// While no coordinator drives the job.
    pub undriven: Option<Undriven<'a>>,
    /// The training round that waits for clients.
    pub selecting: Option<SelectingRound<'a>>,
    /// The newest ended training rounds, newest first.
    pub ended: Vec<EndedRound<'a>>,
    /// The evaluation that waits for clients.
    pub evaluation: Option<EvaluatorsWanted<'a>>,
    pub shut_out: Option<ShutOut>,
    /// Losses of the newest rounds, newest first: of evaluations where the job has them, else of training.
    pub losses: Vec<f64>,
    /// Time until the disk of the coordinator is full.
    pub disk_full_in_ms: Option<u64>,
    /// Time until the next round may open, if it may not open now.
    pub next_round_in_ms: Option<i64>,
}

/// A round that waits for clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectingRound<'a> {
    pub number: u32,
    /// Eligible clients that wait.
    pub available: u32,
    /// Clients that it wants, and those without which it is abandoned.
    pub needed: u32,
    pub minimum: u32,
    /// When it starts with those that are here, or is abandoned.
    pub ends_in_ms: i64,
    pub wanted: Option<Wanted<'a>>,
}

/// An evaluation that waits for clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvaluatorsWanted<'a> {
    pub round: SelectingRound<'a>,
    /// Whether the job waits for nothing else before it is complete.
    pub is_last: bool,
}

/// An ended training round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedRound<'a> {
    pub number: u32,
    /// Why it was abandoned; none for a committed one.
    pub abandoned: Option<AbandonReason>,
    /// [`super::explain`] of it.
    pub explanation: &'a str,
}

/// A device class whose updates never count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShutOut {
    pub attribute: String,
    pub value: String,
    pub clients: u64,
    pub assigned: u64,
}

/// How a job is: the most urgent finding.
pub fn health(facts: &HealthFacts<'_>, now_ms: i64) -> Health {
    at_rest(facts)
        .or_else(|| undriven(facts, now_ms))
        .or_else(|| rounds_abandoned(facts))
        .or_else(|| disk_fills(facts))
        .or_else(|| class_shut_out(facts))
        .or_else(|| loss_rises(facts))
        .or_else(|| evaluators_wanted(facts))
        .or_else(|| clients_wanted(facts))
        .unwrap_or_else(|| fine(facts))
}

fn found(severity: Severity, kind: HealthKind, text: String, remedy: &str) -> Health {
    Health { severity, kind, text, remedy: Some(remedy.to_owned()).filter(|remedy| !remedy.is_empty()) }
}

fn at_rest(facts: &HealthFacts<'_>) -> Option<Health> {
    let (severity, kind, text, remedy) = match facts.state {
        JobState::Running => return None,
        JobState::Completed => (Severity::Ok, HealthKind::Ended, "completed", ""),
        JobState::Stopped => (Severity::Ok, HealthKind::Ended, "stopped by an operator", ""),
        JobState::Paused => (Severity::Waiting, HealthKind::Paused, "paused: no round opens", "resume the job"),
        JobState::AwaitingModel => (
            Severity::Waiting,
            HealthKind::AwaitingModel,
            "waits for model version 0",
            "upload the first model, or create the job with initial_model = \"random\"",
        ),
    };
    Some(found(severity, kind, text.to_owned(), remedy))
}

fn undriven(facts: &HealthFacts<'_>, now_ms: i64) -> Option<Health> {
    let undriven = facts.undriven?;
    let text = format!("no coordinator drives the job: {}", undriven.words(now_ms));
    let remedy = format!("start {} again, or another coordinator on the same database", undriven.node);
    Some(found(Severity::Trouble, HealthKind::NoDriver, text, &remedy))
}

fn rounds_abandoned(facts: &HealthFacts<'_>) -> Option<Health> {
    let seen = &facts.ended[..facts.ended.len().min(ROUNDS_SEEN)];
    let abandoned: Vec<_> = seen.iter().filter_map(|round| Some((round, round.abandoned?))).collect();
    let (last, reason) = *abandoned.first()?;
    if abandoned.len() < ABANDONED_MIN {
        return None;
    }
    let now = match facts.selecting {
        Some(round) => {
            format!(" Round {} has {} of the {} clients it needs.", round.number, round.available, round.needed)
        }
        None => String::new(),
    };
    let text =
        format!("{} of the last {} rounds were abandoned. {}{now}", abandoned.len(), seen.len(), last.explanation);
    let remedy = match reason {
        AbandonReason::SelectionTimeout => {
            "start more clients that the job admits, or lower updates_goal, updates_min or over_selection"
        }
        AbandonReason::TooFewReports => "give the clients a longer deadline_ms, or lower updates_min",
        AbandonReason::NotFinite => "lower the learning rate or magnitude_max, in a new job",
        AbandonReason::Fault => "the coordinator's log names the data that it could not read",
        AbandonReason::JobStopped | AbandonReason::Superseded => "",
    };
    // A round that committed since shows that the job can recover by itself.
    let severity = if seen.first().is_some_and(|newest| newest.abandoned.is_some()) {
        Severity::Trouble
    } else {
        Severity::Warning
    };
    Some(found(severity, HealthKind::RoundsAbandoned, text, remedy))
}

fn disk_fills(facts: &HealthFacts<'_>) -> Option<Health> {
    let in_ms = facts.disk_full_in_ms.filter(|in_ms| *in_ms < DISK_MS)?;
    let text = format!(
        "the coordinator's disk is full in {}, if it fills as in the last 24 hours",
        duration(in_ms.cast_signed())
    );
    let remedy = "keep fewer model versions ([retention] models), or give the database a larger disk";
    Some(found(Severity::Warning, HealthKind::DiskFills, text, remedy))
}

fn class_shut_out(facts: &HealthFacts<'_>) -> Option<Health> {
    let ShutOut { attribute, value, clients, assigned } = facts.shut_out.as_ref()?;
    let (clients, were) = match clients {
        1 => ("1 client".to_owned(), "was"),
        clients => (format!("{clients} clients"), "were"),
    };
    let text =
        format!("{clients} of {attribute}={value} {were} drawn {assigned} times, and no update of theirs counted");
    let remedy =
        "give the clients a longer deadline_ms and draw fewer in addition (over_selection), or exclude the class";
    Some(found(Severity::Warning, HealthKind::ClassShutOut, text, remedy))
}

fn loss_rises(facts: &HealthFacts<'_>) -> Option<Health> {
    let seen = facts.losses.get(..LOSSES_SEEN)?;
    let (newer, older) = seen.split_at(LOSSES_SEEN / 2);
    let mean = |losses: &[f64]| losses.iter().sum::<f64>() / losses.len() as f64;
    let (now, before) = (mean(newer), mean(older));
    // Each newer loss above each older one: a mean alone would warn of a single noisy round.
    let is_above = newer.iter().all(|loss| older.iter().all(|old| loss > old));
    if !is_above || now <= before * LOSS_RISE {
        return None;
    }
    let text =
        format!("the loss rises: {now:.4} on average in the last 3 measured rounds, {before:.4} in the 3 before");
    let remedy = "export the best version and start a new job from it, with a lower learning rate";
    Some(found(Severity::Warning, HealthKind::LossRises, text, remedy))
}

fn evaluators_wanted(facts: &HealthFacts<'_>) -> Option<Health> {
    let EvaluatorsWanted { round, is_last } = facts.evaluation?;
    if round.minimum == 0 {
        let waits = format!("the evaluation of round {} waits for the test set of the job", round.number);
        let text = if is_last { format!("trained; only {waits}, and the job ends with it") } else { waits };
        let remedy = "upload it: `tributary job test-set upload JOB FILE`";
        return Some(found(Severity::Warning, HealthKind::WaitingForEvaluators, text, remedy));
    }
    let waits = format!(
        "the evaluation of round {} has {} of the {} it needs",
        round.number,
        round.available,
        count(round.needed, "evaluator")
    );
    let waits = if is_last { format!("trained; waits for its last evaluation: {waits}") } else { waits };
    match round.wanted.filter(|wanted| wanted.matching < u64::from(round.minimum)) {
        Some(Wanted { attributes, matching, enrolled }) => {
            let have = if matching == 1 { "has" } else { "have" };
            let text = format!("{waits}, and {matching} of {enrolled} enrolled clients {have} {attributes}");
            let remedy = format!("start clients with {attributes}, or change [evaluation] attributes in a new job");
            Some(found(Severity::Warning, HealthKind::WaitingForEvaluators, text, &remedy))
        }
        // Evaluators come and go as other clients do.
        None if is_last => Some(found(Severity::Waiting, HealthKind::WaitingForEvaluators, waits, "")),
        None => None,
    }
}

fn clients_wanted(facts: &HealthFacts<'_>) -> Option<Health> {
    let round = facts.selecting?;
    let SelectingRound { number, available, needed, minimum, ends_in_ms, wanted } = round;
    let mut text = format!("round {number} waits for clients: {available} of {needed} are here");
    match ends_in_ms {
        1.. => text.push_str(&format!(
            "; in {} it starts with those, or is abandoned with fewer than {minimum}",
            duration(ends_in_ms)
        )),
        _ => text.push_str(&format!("; fewer than {minimum} are too few")),
    }
    match wanted.filter(|wanted| wanted.matching < u64::from(minimum)) {
        Some(Wanted { attributes, matching, enrolled }) => {
            let whom = if attributes.is_empty() { "can join" } else { attributes };
            let have = if attributes.is_empty() {
                ""
            } else if matching == 1 {
                "has "
            } else {
                "have "
            };
            text.push_str(&format!("; {matching} of {enrolled} enrolled clients {have}{whom}"));
            let remedy = "enrol more clients that the job admits, or lower updates_goal, updates_min or over_selection";
            Some(found(Severity::Warning, HealthKind::WaitingForClients, text, remedy))
        }
        None => Some(found(Severity::Waiting, HealthKind::WaitingForClients, text, "")),
    }
}

fn fine(facts: &HealthFacts<'_>) -> Health {
    let text = match (facts.next_round_in_ms, facts.ended.first()) {
        (Some(in_ms), _) => format!("the next round opens in {}", duration(in_ms)),
        (None, Some(EndedRound { number, abandoned: None, .. })) => format!("round {number} is committed"),
        (None, Some(EndedRound { explanation, .. })) => (*explanation).to_owned(),
        (None, None) => "the first round is under way".to_owned(),
    };
    found(Severity::Ok, HealthKind::Fine, text, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running() -> HealthFacts<'static> {
        HealthFacts {
            state: JobState::Running,
            undriven: None,
            selecting: None,
            ended: Vec::new(),
            evaluation: None,
            shut_out: None,
            losses: Vec::new(),
            disk_full_in_ms: None,
            next_round_in_ms: None,
        }
    }

    fn selecting(available: u32) -> SelectingRound<'static> {
        SelectingRound { number: 4, available, needed: 13, minimum: 5, ends_in_ms: 213_000, wanted: None }
    }

    fn abandoned(number: u32) -> EndedRound<'static> {
        let explanation = "Round 3 was abandoned: fewer than 5 eligible clients checked in within 5 min.";
        EndedRound { number, abandoned: Some(AbandonReason::SelectionTimeout), explanation }
    }

    fn committed(number: u32) -> EndedRound<'static> {
        EndedRound { number, abandoned: None, explanation: "" }
    }

    #[track_caller]
    fn is(facts: &HealthFacts<'_>, severity: Severity, kind: HealthKind, text: &str) {
        let health = health(facts, 48_000);
        assert_eq!((health.severity, health.kind, health.text.as_str()), (severity, kind, text));
        let acts = matches!(severity, Severity::Warning | Severity::Trouble);
        assert!(health.remedy.is_some() || !acts, "a finding has a remedy: {health:?}");
    }

    #[test]
    fn a_job_that_waits_says_for_how_many_clients() {
        let facts = HealthFacts { selecting: Some(selecting(1)), ..running() };
        is(
            &facts,
            Severity::Waiting,
            HealthKind::WaitingForClients,
            "round 4 waits for clients: 1 of 13 are here; in 3 min 33 s it starts with those, or is abandoned with fewer \
             than 5",
        );
        let wanted = Some(Wanted { attributes: "", matching: 2, enrolled: 2 });
        let few = HealthFacts { selecting: Some(SelectingRound { wanted, ..selecting(1) }), ..running() };
        let text = health(&few, 0);
        assert!(
            text.severity == Severity::Warning && text.text.ends_with("; 2 of 2 enrolled clients can join"),
            "{text:?}"
        );
    }

    #[test]
    fn abandoned_rounds_say_how_many_and_why() {
        let ended = vec![abandoned(3), abandoned(2), committed(1), abandoned(1)];
        let facts = HealthFacts { ended, selecting: Some(selecting(1)), ..running() };
        is(
            &facts,
            Severity::Trouble,
            HealthKind::RoundsAbandoned,
            "3 of the last 4 rounds were abandoned. Round 3 was abandoned: fewer than 5 eligible clients checked in within \
             5 min. Round 4 has 1 of the 13 clients it needs.",
        );
        let ended = vec![committed(6), abandoned(5), abandoned(4), abandoned(3), committed(2), abandoned(1)];
        let recovers = health(&HealthFacts { ended, ..running() }, 0);
        assert_eq!((recovers.severity, recovers.kind), (Severity::Warning, HealthKind::RoundsAbandoned));
        let ended = vec![abandoned(3), abandoned(2), committed(1)];
        assert_eq!(health(&HealthFacts { ended, ..running() }, 0).kind, HealthKind::Fine);
    }

    #[test]
    fn the_most_urgent_finding_is_told() {
        let facts = HealthFacts {
            undriven: Some(Undriven { node: "south", seen_at_ms: 36_000, expires_at_ms: 46_000 }),
            ended: vec![abandoned(3), abandoned(2), abandoned(1)],
            ..running()
        };
        is(
            &facts,
            Severity::Trouble,
            HealthKind::NoDriver,
            "no coordinator drives the job: south was last seen 12 s ago, and no other coordinator has taken over",
        );
        let facts = HealthFacts { disk_full_in_ms: Some(3 * 24 * 3600 * 1000), ..running() };
        is(
            &facts,
            Severity::Warning,
            HealthKind::DiskFills,
            "the coordinator's disk is full in 3 d, if it fills as in the last 24 hours",
        );
        assert_eq!(health(&HealthFacts { disk_full_in_ms: Some(DISK_MS), ..running() }, 0).kind, HealthKind::Fine);
        let shut_out = ShutOut { attribute: "platform".into(), value: "pi".into(), clients: 4, assigned: 251 };
        is(
            &HealthFacts { shut_out: Some(shut_out), ..running() },
            Severity::Warning,
            HealthKind::ClassShutOut,
            "4 clients of platform=pi were drawn 251 times, and no update of theirs counted",
        );
    }

    #[test]
    fn a_rising_loss_is_no_wobble() {
        let kind = |losses: &[f64]| health(&HealthFacts { losses: losses.to_vec(), ..running() }, 0).kind;
        assert_eq!(kind(&[0.9, 0.8, 0.7, 0.5, 0.45, 0.5]), HealthKind::LossRises);
        assert_eq!(kind(&[0.5, 0.9, 0.7, 0.6, 0.45, 0.5]), HealthKind::Fine, "the newest is as low as before");
        assert_eq!(kind(&[0.51, 0.52, 0.51, 0.5, 0.5, 0.5]), HealthKind::Fine, "too little to tell");
        assert_eq!(kind(&[0.9, 0.8, 0.7, 0.5, 0.45]), HealthKind::Fine, "too few to tell");
    }

    #[test]
    fn an_evaluation_that_nobody_can_make_says_whom_it_wants() {
        let wanted = Some(Wanted { attributes: "role=nobody", matching: 0, enrolled: 18 });
        let round = SelectingRound { number: 8, available: 0, needed: 1, minimum: 1, ends_in_ms: 100_000, wanted };
        is(
            &HealthFacts { evaluation: Some(EvaluatorsWanted { round, is_last: true }), ..running() },
            Severity::Warning,
            HealthKind::WaitingForEvaluators,
            "trained; waits for its last evaluation: the evaluation of round 8 has 0 of the 1 evaluator it needs, and 0 of \
             18 enrolled clients have role=nobody",
        );
        let round = SelectingRound { wanted: None, ..round };
        let between = HealthFacts { evaluation: Some(EvaluatorsWanted { round, is_last: false }), ..running() };
        assert_eq!(health(&between, 0).kind, HealthKind::Fine, "they may come");
    }

    #[test]
    fn an_evaluation_on_the_coordinator_asks_for_its_test_set() {
        let round =
            SelectingRound { number: 8, available: 0, needed: 1, minimum: 0, ends_in_ms: 100_000, wanted: None };
        let facts = HealthFacts { evaluation: Some(EvaluatorsWanted { round, is_last: false }), ..running() };
        let health = health(&facts, 0);
        assert_eq!((health.severity, health.kind), (Severity::Warning, HealthKind::WaitingForEvaluators));
        assert!(health.remedy.is_some_and(|remedy| remedy.contains("test-set upload")), "{}", health.text);
        let facts = HealthFacts { evaluation: Some(EvaluatorsWanted { round, is_last: true }), ..running() };
        let text = super::health(&facts, 0).text;
        let expected =
            "trained; only the evaluation of round 8 waits for the test set of the job, and the job ends with it";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_job_at_rest_says_so() {
        let at_rest = |state| health(&HealthFacts { state, ended: vec![abandoned(1); 5], ..running() }, 0);
        assert_eq!(at_rest(JobState::Completed).text, "completed");
        assert_eq!(
            (at_rest(JobState::Paused).severity, at_rest(JobState::Paused).kind),
            (Severity::Waiting, HealthKind::Paused)
        );
        assert!(at_rest(JobState::AwaitingModel).remedy.is_some());
        let waits = HealthFacts { next_round_in_ms: Some(6_000), ..running() };
        assert_eq!(health(&waits, 0).text, "the next round opens in 6 s");
    }
}
