//! The health of a job, from what is stored.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_engine::story::{
    BufferWanted, EndedRound, EvaluatorsWanted, HealthFacts, Listeners, Lost, OtherTables, RoundStory, SelectingRound,
    Session, ShutOut, Unable, class_stats, explain, health, incapable,
};
use tributary_protocol::device::Attributes;
use tributary_protocol::operator::{Health, Round};
use tributary_protocol::state::{AbandonReason, ClassVerdict, HealthKind, JobState, Phase, Task};

use super::disk::Disk;
use super::enrolled::Enrolled;
use super::software::sdks;
use super::tables::other_tables;
use super::{Selection, groups, missed, missing_driver, rounds_not_before_ms, undriven};
use crate::app::App;
use crate::db::{DbError, JobRow, RoundFilter, RoundRow, Tx};
use crate::runtime::offload::blocking;

/// Newest jobs that the metrics count.
const JOBS_READ: u32 = 100;
/// Newest training rounds that are read.
const ROUNDS_READ: u32 = 24;
/// Newest sessions in which a class that is shut out is looked for.
const SESSIONS_READ: u32 = 2_000;
/// Attributes with more values identify clients, not classes.
const VALUES_MAX: usize = 20;

/// How a job is, most severe first.
pub(in crate::api) async fn of_job(app: &App, tx: &mut Tx, row: &JobRow, disk: Disk) -> Result<Vec<Health>, DbError> {
    if !row.state.is_final() {
        return read(app, tx, row, disk).await;
    }
    let now_ms = app.clock.now_ms();
    if let Some(health) = app.ended_health.get(&row.id, now_ms) {
        return Ok(health);
    }
    let health = read(app, tx, row, disk).await?;
    // Nothing of it changes once its last round has ended.
    if tx.open_rounds(row.id).await?.is_empty() {
        app.ended_health.keep(row.id, health.clone(), now_ms);
    }
    Ok(health)
}

async fn read(app: &App, tx: &mut Tx, row: &JobRow, disk: Disk) -> Result<Vec<Health>, DbError> {
    let now_ms = app.clock.now_ms();
    let mut facts = HealthFacts {
        state: row.state,
        undriven: None,
        selecting: None,
        ended: Vec::new(),
        evaluation: None,
        lost: Lost::default(),
        unmeasured: None,
        shut_out: None,
        buffer: None,
        group: None,
        unable: None,
        listeners: None,
        other_tables: None,
        losses: Vec::new(),
        disk_full_in_ms: disk.full_in_ms,
        next_round_in_ms: None,
    };
    if row.state == JobState::AwaitingModel {
        return Ok(health(&facts, now_ms));
    }
    let driver = missing_driver(app, tx, row.id).await?;
    let open = tx.open_rounds(row.id).await?;
    // Before its first training a job may wait for descriptions.
    let selecting = selection(app, tx, open.iter().find(|round| round.task != Task::Evaluate)).await?;
    let evaluation = open.iter().filter(|round| round.task == Task::Evaluate).max_by_key(|round| round.number);
    let evaluation = selection(app, tx, evaluation).await?;
    let ended = ended_rounds(tx, row, now_ms).await?;
    let unmeasured = unmeasured(tx, row, now_ms).await?;
    let is_trained = row.file.0.stop.rounds.is_some_and(|rounds| row.rounds_committed >= rounds);

    facts.undriven = driver.as_ref().map(undriven);
    facts.selecting = selecting.as_ref().map(|(number, selection)| wanted(*number, selection, now_ms));
    facts.evaluation = evaluation
        .as_ref()
        .map(|(number, selection)| EvaluatorsWanted { round: wanted(*number, selection, now_ms), is_last: is_trained });
    facts.ended = ended.iter().map(|(round, explanation)| ended_round(round, explanation)).collect();
    facts.losses = losses(&ended);
    facts.unmeasured = unmeasured.as_deref();
    facts.shut_out = shut_out(app, tx, row).await?;
    (facts.unable, facts.listeners) = cannot_follow(app, tx, row).await?;
    if let Some(buffer) = open.iter().find(|round| round.task == Task::Train && round.is_buffer()) {
        facts.group = groups::wanted(tx, &row.file.0, buffer).await?;
        facts.buffer = row.file.0.round.mode.per_client().map(|per_client| buffer_of(buffer, per_client));
    }
    if selecting.is_some() {
        facts.other_tables = Some(with_other_tables(app, tx, row).await?);
    }
    if row.state.is_final() {
        facts.lost = Lost { rounds: tx.lost_rounds(row.id).await?, of: row.rounds_opened };
    }
    facts.next_round_in_ms = match open.is_empty() {
        true => rounds_not_before_ms(row, now_ms)?.map(|at_ms| at_ms - now_ms),
        false => None,
    };
    Ok(health(&facts, now_ms))
}

/// The newest ended training rounds, newest first, with their explanations.
async fn ended_rounds(tx: &mut Tx, row: &JobRow, now_ms: i64) -> Result<Vec<(Round, String)>, DbError> {
    let task = if row.file.0.model.lacks_statistics() { Task::Describe } else { Task::Train };
    let rounds = tx.latest_rounds(row.id, task, RoundFilter::default(), i32::MAX.cast_unsigned(), ROUNDS_READ);
    let ended: Vec<Round> = rounds.await?.into_iter().map(Round::from).filter(|round| !round.phase.is_open()).collect();
    // Whom the rounds wanted is the same for all of them.
    let missing = match ended.iter().find(|round| round.reason == Some(AbandonReason::SelectionTimeout)) {
        Some(round) => missed(tx, &row.file.0, round).await?,
        None => None,
    };
    let told = |round: Round| {
        let wanted = missing.as_ref().map(Enrolled::wanted);
        let explanation = explain(&RoundStory { wanted, ..RoundStory::of(&round) }, now_ms);
        (round, explanation)
    };
    Ok(ended.into_iter().map(told).collect())
}

/// Why an ended job that has trained was never measured; none where it was, or asks for no evaluations.
async fn unmeasured(tx: &mut Tx, row: &JobRow, now_ms: i64) -> Result<Option<String>, DbError> {
    if !row.state.is_final() || row.file.0.evaluation.is_none() || row.rounds_committed == 0 {
        return Ok(None);
    }
    let mut newest = async |phase| {
        let filter = RoundFilter { phase, reason: None };
        tx.latest_rounds(row.id, Task::Evaluate, filter, i32::MAX.cast_unsigned(), 1).await
    };
    if !newest(Some(Phase::Committed)).await?.is_empty() {
        return Ok(None);
    }
    let Some(round) = newest(None).await?.pop().map(Round::from) else { return Ok(Some(String::new())) };
    let missing = missed(tx, &row.file.0, &round).await?;
    let wanted = missing.as_ref().map(Enrolled::wanted);
    Ok(Some(explain(&RoundStory { wanted, ..RoundStory::of(&round) }, now_ms)))
}

/// What the health of the newest running jobs is about, each by its most severe line.
pub(in crate::api) async fn of_running(app: &App) -> Result<Vec<HealthKind>, DbError> {
    let mut tx = app.db.read().await?;
    let disk = Disk::read(app, &mut tx).await?;
    let mut kinds = Vec::new();
    for row in tx.jobs_at_a_glance(None, false, JOBS_READ).await? {
        if row.state == JobState::Running {
            kinds.extend(of_job(app, &mut tx, &row, disk).await?.first().map(|line| line.kind));
        }
    }
    Ok(kinds)
}

async fn selection(app: &App, tx: &mut Tx, round: Option<&RoundRow>) -> Result<Option<(u32, Selection)>, DbError> {
    let Some(round) = round else { return Ok(None) };
    Ok(Selection::read(app, tx, round).await?.map(|selection| (round.number, selection)))
}

fn wanted(number: u32, selection: &Selection, now_ms: i64) -> SelectingRound<'_> {
    let Selection { available, needed, minimum, ends_at_ms, .. } = *selection;
    SelectingRound {
        number,
        available,
        needed,
        minimum,
        ends_in_ms: ends_at_ms - now_ms,
        wanted: selection.wanted(),
        lacking: selection.lacking.as_deref(),
    }
}

fn buffer_of(round: &RoundRow, per_client: u32) -> BufferWanted {
    BufferWanted {
        number: round.number,
        reported: round.reported,
        goal: round.goal,
        working: round.working(),
        per_client,
    }
}

fn ended_round<'a>(round: &Round, explanation: &'a str) -> EndedRound<'a> {
    let abandoned = round.reason.filter(|_| round.phase == Phase::Abandoned);
    let drawn = round.cohort.max(round.failed + round.rejected);
    EndedRound { number: round.number, abandoned, explanation, failed: round.failed + round.rejected, drawn }
}

/// Losses of evaluations where there are enough of them, else of training.
fn losses(ended: &[(Round, String)]) -> Vec<f64> {
    let measured: Vec<f64> = ended.iter().filter_map(|(round, _)| round.loss).collect();
    if measured.is_empty() { ended.iter().filter_map(|(round, _)| round.training_loss).collect() } else { measured }
}

/// The class with the most assignments among those whose updates never count.
async fn shut_out(app: &App, tx: &mut Tx, row: &JobRow) -> Result<Option<ShutOut>, DbError> {
    let read = async || {
        let sessions = tx.sessions_of_job(row.id, Task::Train, 0, SESSIONS_READ).await?;
        let clients = tx.client_attributes(&row.file.0.population).await?;
        Ok(blocking(move || worst_class(&sessions, &clients)).await)
    };
    app.shut_out.get_or_make(row.id, &app.clock, read).await
}

/// Clients that cannot follow the plan of a running job, and those that listen where it needs such.
async fn cannot_follow(app: &App, tx: &mut Tx, row: &JobRow) -> Result<(Option<Unable>, Option<Listeners>), DbError> {
    if row.state != JobState::Running {
        return Ok((None, None));
    }
    let file = &row.file.0;
    let needed = app.specs.of(row)?.needs.of(Task::Train);
    let members = file.group.as_ref().map(|_| file.round.updates_min.max(2));
    let read = async || {
        let sdks = sdks(tx, &file.population).await?;
        Ok((incapable(needed, &sdks), members.map(|members| Listeners::among(&sdks, members))))
    };
    app.unable.get_or_make(row.id, &app.clock, read).await
}

/// Waiting clients whose tables are not those of a job.
async fn with_other_tables(app: &App, tx: &mut Tx, row: &JobRow) -> Result<OtherTables, DbError> {
    let spec = app.specs.of(row)?;
    let read = async || other_tables(app, tx, &spec).await;
    app.other_tables.get_or_make(row.id, &app.clock, read).await
}

fn worst_class(sessions: &[(Arc<Attributes>, Session)], clients: &[(Attributes, u64)]) -> Option<ShutOut> {
    let mut found: Option<ShutOut> = None;
    for attribute in attributes(sessions.iter().map(|(attributes, _)| attributes)) {
        let clients = clients.iter().map(|(attributes, count)| (attributes, *count));
        let stats = class_stats(&attribute, clients, sessions.iter().map(|(of, session)| (&**of, session)));
        let worst = stats.into_iter().filter(|class| class.verdict == ClassVerdict::ShutOut);
        if let Some(class) = worst.max_by_key(|class| class.assigned)
            && found.as_ref().is_none_or(|found| found.assigned < class.assigned)
        {
            let (value, clients, assigned) = (class.value, class.clients, class.assigned);
            found = Some(ShutOut { attribute, value, clients, assigned });
        }
    }
    found
}

/// Names of the attributes that form classes.
fn attributes<'a>(of: impl Iterator<Item = &'a Arc<Attributes>>) -> Vec<String> {
    let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, value) in of.flat_map(|attributes| attributes.as_map()) {
        values.entry(name).or_default().insert(value);
    }
    let classes = values.into_iter().filter(|(_, values)| values.len() <= VALUES_MAX);
    classes.map(|(name, _)| name.to_owned()).collect()
}
