//! How a job is: lines with severity, cause and remedy.

use std::cmp::Reverse;

use tributary_protocol::operator::Health;
use tributary_protocol::state::{AbandonReason, HealthKind, JobState, Severity};

use super::buffers::{BufferWanted, contributors_wanted};
use super::explain::{Undriven, Wanted};
use super::groups::{GroupWanted, members_wanted};
use super::listeners::{Listeners, clients_listen};
use super::software::{Unable, many_are_unable};
use super::tables::{OtherTables, tables_differ};
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
    /// Training rounds that came to nothing, of all: neither stopped with their job nor superseded by its result.
    pub lost: Lost,
    /// Why a job that has trained has no measurement, where it asks for evaluations and has none: the explanation of
    /// its newest evaluation, or empty where none was opened.
    pub unmeasured: Option<&'a str>,
    pub shut_out: Option<ShutOut>,
    /// The open buffer of a buffered job.
    pub buffer: Option<BufferWanted>,
    /// Of a buffer whose updates are masked.
    pub group: Option<GroupWanted>,
    /// Clients that cannot follow the plan.
    pub unable: Option<Unable>,
    /// Of a job whose members add up among themselves.
    pub listeners: Option<Listeners>,
    pub other_tables: Option<OtherTables>,
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
    /// Of a coded round: which parts are held too rarely.
    pub lacking: Option<&'a str>,
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
    /// Clients that gave up or whose updates were refused, and those that were drawn.
    pub failed: u32,
    pub drawn: u32,
}

/// Training rounds that came to nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    pub rounds: u32,
    pub of: u32,
}

/// A device class whose updates never count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShutOut {
    pub attribute: String,
    pub value: String,
    pub clients: u64,
    pub assigned: u64,
}

/// How a job is: what there is to say, most severe first; at least one line.
pub fn health(facts: &HealthFacts<'_>, now_ms: i64) -> Vec<Health> {
    let is_running = facts.state == JobState::Running;
    let now = |finding: Option<Health>| finding.filter(|_| is_running);
    let listening = facts.listeners.filter(|_| is_running).map(clients_listen);
    let (few_listen, listening) = listening.into_iter().partition::<Vec<_>, _>(|line| line.remedy.is_some());
    let few_listen = few_listen.into_iter().next();
    let findings = [
        now(undriven(facts, now_ms)),
        rounds_abandoned(facts),
        now(disk_fills(facts)),
        not_measured(facts),
        class_shut_out(facts),
        now(few_listen),
        now(many_are_unable(facts.unable.as_ref())),
        now(facts.other_tables.as_ref().filter(|_| lacks_clients(facts)).and_then(tables_differ)),
        now(loss_rises(facts)),
        now(evaluators_wanted(facts)),
        now(clients_wanted(facts)),
        now(members_wanted(facts.group)),
        now(contributors_wanted(facts.buffer)),
        at_rest(facts),
    ];
    let mut lines: Vec<Health> = findings.into_iter().flatten().collect();
    lines.sort_by_key(|line| Reverse(line.severity));
    if lines.is_empty() {
        lines.push(fine(facts));
    }
    lines.extend(listening);
    lines
}

fn found(severity: Severity, kind: HealthKind, text: String, remedy: &str) -> Health {
    Health { severity, kind, text, remedy: Some(remedy.to_owned()).filter(|remedy| !remedy.is_empty()) }
}

fn at_rest(facts: &HealthFacts<'_>) -> Option<Health> {
    let (severity, kind, text, remedy) = match facts.state {
        JobState::Running | JobState::Relaying => return None,
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
    let lost = |round: &&EndedRound<'_>| round.abandoned.is_some_and(is_lost);
    let newest = seen.iter().find(lost);
    let lost = seen.iter().filter(lost).count();
    let is_over = facts.state.is_final();
    let (text, last) = match newest {
        Some(last) if lost >= ABANDONED_MIN => {
            (format!("{lost} of the last {} rounds were abandoned. {}", seen.len(), last.explanation), last)
        }
        // An ended job is not about its last rounds.
        _ if is_over && facts.lost.rounds as usize >= ABANDONED_MIN => {
            let last = facts.ended.iter().find(|round| round.abandoned.is_some_and(is_lost))?;
            let Lost { rounds, of } = facts.lost;
            (format!("{rounds} of {of} rounds were abandoned. {}", last.explanation), last)
        }
        _ => return None,
    };
    let remedy = match last.abandoned? {
        AbandonReason::SelectionTimeout => {
            "start more clients that the job admits, or lower updates_goal, updates_min or over_selection"
        }
        AbandonReason::TooFewReports if 2 * last.failed > last.drawn => {
            "see at the round's sessions why the clients gave up: no deadline changes that"
        }
        AbandonReason::TooFewReports => "give the clients a longer deadline_ms, or lower updates_min",
        AbandonReason::NotFinite => "lower the learning rate or magnitude_max, in a new job",
        AbandonReason::Fault => "the coordinator's log names the data that it could not read",
        AbandonReason::Upstream => "see the round at the parent: it may have had enough updates without this relay",
        AbandonReason::JobStopped | AbandonReason::Superseded | AbandonReason::Overdrawn => "",
    };
    // A round that committed since shows that the job can recover by itself.
    let is_trouble = !is_over && seen.first().is_some_and(|newest| newest.abandoned.is_some_and(is_lost));
    let severity = if is_trouble { Severity::Trouble } else { Severity::Warning };
    Some(found(severity, HealthKind::RoundsAbandoned, text, remedy))
}

/// Whether a round that was abandoned for this reason came to nothing.
fn is_lost(reason: AbandonReason) -> bool {
    !matches!(reason, AbandonReason::JobStopped | AbandonReason::Superseded | AbandonReason::Upstream)
}

fn not_measured(facts: &HealthFacts<'_>) -> Option<Health> {
    let why = facts.unmeasured.filter(|_| facts.state.is_final())?;
    let why = if why.is_empty() { "No evaluation was opened." } else { why };
    let text = format!("the job ended, and its model was never measured. {why}");
    let remedy = "start clients that may evaluate, or evaluate on the coordinator ([evaluation] where), in a new job";
    Some(found(Severity::Warning, HealthKind::NotMeasured, text, remedy))
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
    match round.wanted.and_then(|wanted| Some((wanted.attributes, wanted.words(round.minimum)?))) {
        Some((attributes, wanted)) => {
            let text = format!("{waits}, and {wanted}");
            let remedy = format!("start clients with {attributes}, or change [evaluation] attributes in a new job");
            Some(found(Severity::Warning, HealthKind::WaitingForEvaluators, text, &remedy))
        }
        // Evaluators come and go as other clients do.
        None if is_last => Some(found(Severity::Waiting, HealthKind::WaitingForEvaluators, waits, "")),
        None => None,
    }
}

/// Whether the open round would be abandoned with those that are here. Until then, clients that wait for another job
/// do not matter.
fn lacks_clients(facts: &HealthFacts<'_>) -> bool {
    facts.selecting.is_some_and(|round| round.available < round.minimum || round.lacking.is_some())
}

fn clients_wanted(facts: &HealthFacts<'_>) -> Option<Health> {
    let round = facts.selecting?;
    let SelectingRound { number, available, needed, minimum, ends_in_ms, wanted, lacking } = round;
    let mut text = format!("round {number} waits for clients: {available} of {needed} are here");
    match ends_in_ms {
        1.. if let Some(lacking) = lacking => {
            text.push_str(&format!("; {lacking}; in {} it is abandoned", duration(ends_in_ms)));
        }
        1.. => text.push_str(&format!(
            "; in {} it starts with those, or is abandoned with fewer than {minimum}",
            duration(ends_in_ms)
        )),
        _ => text.push_str(&format!("; fewer than {minimum} are too few")),
    }
    match wanted.filter(|wanted| wanted.matching < u64::from(minimum)) {
        Some(wanted) => {
            let Wanted { matching, enrolled, .. } = wanted;
            let can_join = format!("{matching} of {enrolled} enrolled clients can join");
            text.push_str(&format!("; {}", wanted.words(minimum).unwrap_or(can_join)));
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
mod tests;
