//! Phases of rounds: Selecting, Training, Aggregating, then Committed or Abandoned.

use std::sync::Arc;

use tributary_engine::inputs::described;
use tributary_engine::round::{Candidate, Opening, Tempo, Term, measured_centrally, places, summaries};
use tributary_protocol::device::EvaluationReport;
use tributary_protocol::id::AssignmentId;
use tributary_protocol::state::{AbandonReason, Phase, Task};

use super::drawn::{assign, commit_and_give, stand_up, told};
use super::expiry::{Need, expire_one};
use super::open_groups;
use super::privacy;
use super::{budget, buffers, shards};
use crate::blob::BlobError;
use crate::db::{
    DbError, EvaluationSummary, JobCause, NewAssignment, NewRound, RoundKey, RoundRow, RoundStatistics, Transition, Tx,
};
use crate::fleet::Fleet;
use crate::models::version::NewVersion;
use crate::notify::{self, About, Notice};
use crate::runtime::entropy;
use crate::services::Services;

/// Opens a round, unless its job has moved on. A buffer takes over the open assignments of the round before.
pub(crate) async fn open(services: &Services, key: RoundKey, mut opening: Opening) -> Result<(), DbError> {
    let now_ms = services.clock.now_ms();
    let mut tx = services.db.begin().await?;
    let Some(job) = tx.job_locked(key.job).await? else { return Ok(()) };
    let base_version = match key.task {
        Task::Train | Task::Describe => job.version()?,
        // Not the newest version: a further round may have been committed since.
        Task::Evaluate => tx.version_of_round(key.job, key.number).await?,
    };
    let Some(base_version) = base_version else { return Ok(()) };
    let tempo = opening.policy.tempo;
    let may_train = tempo.opens_in(job.state) && job.rounds_opened + 1 == key.number;
    if job.state.is_final() || (key.task == Task::Train && !may_train) {
        return Ok(());
    }
    if opening.policy.is_private {
        let spec = services.specs.of(&job)?;
        if !budget::may_open(services, &mut tx, &spec).await? {
            // A round of another job was faster.
            return Ok(());
        }
        // From the job's seed, which people know, everybody could tell who was drawn.
        opening.seed = entropy::seed();
    }
    let round = NewRound { key, base_version, opening };
    match tx.insert_round(&round, now_ms).await {
        // Another driver opened it.
        Err(DbError::Duplicate) => return Ok(()),
        opened => opened?,
    }
    if key.task == Task::Train && job.file.0.aggregation.shards().is_some() {
        shards::share_out(services, &mut tx, &*services.specs.of(&job)?, key.number, now_ms).await?;
    }
    tx.record(Transition::of_round(key, Phase::Selecting), now_ms).await?;
    if tempo.is_buffer() {
        buffers::begin(&mut tx, &round, now_ms).await?;
    }
    tx.commit().await
}

/// Selecting to Training: stores the cohort, then calls its clients.
pub(crate) async fn start(
    services: &Services,
    fleet: &Fleet,
    round: &RoundRow,
    cohort: &[Arc<Candidate>],
) -> Result<(), DbError> {
    let (key, now_ms) = (round.key(), services.clock.now_ms());
    let mut tx = services.db.begin().await?;
    tx.lock_job(key.job).await?;
    if !tx.start_round(key, places(cohort), now_ms, Some(now_ms + round.policy().deadline_ms)).await? {
        return Ok(());
    }
    tx.record(Transition::of_round(key, Phase::Training), now_ms).await?;
    let assignments: Vec<_> = cohort.iter().map(|candidate| drawn(round, candidate)).collect();
    if !assign(&mut tx, fleet, key, &assignments, now_ms).await? {
        drop(tx);
        return stand_up(services, fleet, cohort).await;
    }
    commit_and_give(services, tx, fleet, round, &assignments, now_ms).await
}

/// Draws further clients into a panel that is training. Nothing happens when another driver was faster.
pub(crate) async fn join(
    services: &Services,
    fleet: &Fleet,
    round: &RoundRow,
    clients: &[Arc<Candidate>],
) -> Result<(), DbError> {
    let (key, now_ms) = (round.key(), services.clock.now_ms());
    let mut tx = services.db.begin().await?;
    tx.lock_job(key.job).await?;
    if !tx.widen_round(key, round.cohort, places(clients)).await? {
        return Ok(());
    }
    let assignments: Vec<_> = clients.iter().map(|candidate| drawn(round, candidate)).collect();
    if !assign(&mut tx, fleet, key, &assignments, now_ms).await? {
        drop(tx);
        return stand_up(services, fleet, clients).await;
    }
    commit_and_give(services, tx, fleet, round, &assignments, now_ms).await
}

/// The assignment of a client that has the terms of its round.
fn drawn(round: &RoundRow, candidate: &Candidate) -> NewAssignment {
    NewAssignment {
        id: AssignmentId::from_random(entropy::random()),
        round: round.key(),
        client: candidate.client,
        base_version: round.base_version,
        examples: told(round, candidate),
        places: match &candidate.share {
            Some(share) => u32::from(share.is_sum()) * share.updates(),
            None => candidate.relay.unwrap_or(0),
        },
        share: candidate.share.clone(),
        term: Term::Round,
    }
}

/// Training to Aggregating: assignments of a cohort without a report expire.
pub(crate) async fn close(services: &Services, round: &RoundRow) -> Result<(), DbError> {
    let now_ms = services.clock.now_ms();
    let mut tx = services.db.begin().await?;
    tx.lock_job(round.job).await?;
    close_in(services, &mut tx, round, now_ms).await?;
    tx.commit().await
}

/// Updates that close a round now. Members of a stale-synchronous job may have left since it opened.
pub(super) async fn goal_of(tx: &mut Tx, round: &RoundRow) -> Result<u32, DbError> {
    match round.policy().tempo {
        Tempo::Members { .. } => Ok(round.policy().goal_with(tx.count_members(round.job).await?)),
        Tempo::Cohort | Tempo::Coordinator | Tempo::Panel { .. } | Tempo::Buffer { .. } => Ok(round.goal),
    }
}

/// [`close`] as part of a transaction: the report that meets the goal closes its round, so that no later report is
/// accepted before the driver looks.
pub(super) async fn close_in(services: &Services, tx: &mut Tx, round: &RoundRow, now_ms: i64) -> Result<(), DbError> {
    let key = round.key();
    if tx.close_round(key, now_ms).await? {
        if round.policy().is_private {
            let spec = services.spec(tx, key.job).await?.ok_or_else(DbError::lost)?;
            privacy::charge(tx, &spec, round, now_ms).await?;
        }
        // Open assignments and groups of a buffer move on when the next round opens.
        if !round.is_buffer() {
            if round.policy().is_private {
                open_groups::end(tx, key, now_ms).await?;
            }
            // What this transaction has accepted is in the stored row.
            let is_met = tx.round(key).await?.is_some_and(|round| round.reported >= round.goal);
            expire(tx, key, if is_met { Need::Spare } else { Need::Needed }, now_ms).await?;
        }
        tx.record(Transition::of_round(key, Phase::Aggregating), now_ms).await?;
    }
    Ok(())
}

/// Aggregating to Committed: the next model version, the end of the round and the deletion of its updates are one
/// transaction. False when another driver was faster.
pub(crate) async fn commit(
    services: &Services,
    key: RoundKey,
    version: &mut NewVersion,
    statistics: &RoundStatistics,
) -> Result<bool, BlobError> {
    let now_ms = version.row.created_at_ms;
    let committed = commit_with(services, key, now_ms, async |tx| {
        version.store(tx, key.job, services.clock.now_ms()).await?;
        tx.store_statistics(key, statistics).await?;
        store_scalars(tx, key).await?;
        if let Some(share) = version.clip_share {
            tx.store_clip_share(key, share).await?;
        }
        tx.delete_round_key(key).await?;
        tx.forget_making(key).await?;
        let mut objects = tx.delete_updates(key).await?;
        // The next round starts from the new version's companions; no round starts from an older version again.
        if let Some(former) = version.row.version.checked_sub(1) {
            objects.extend(tx.delete_companions(key.job, former).await?);
        }
        Ok::<_, BlobError>(objects)
    });
    let Some(objects) = committed.await? else { return Ok(false) };
    delete_bodies(services, objects).await;
    Ok(true)
}

/// Aggregating to Committed for an evaluation: stores the weighted means of its reports.
pub(crate) async fn commit_evaluation(services: &Services, key: RoundKey) -> Result<(), DbError> {
    let committed = commit_with(services, key, services.clock.now_ms(), async |tx| {
        let summary = tx.evaluation_summary(key).await?;
        tx.store_evaluation(key, summary).await?;
        store_scalars(tx, key).await
    });
    committed.await.map(drop)
}

/// Aggregating to Committed for the part of a relay: its parent has the sum. Order and updates are deleted with it.
pub(crate) async fn commit_part(services: &Services, key: RoundKey) -> Result<(), BlobError> {
    let committed = commit_with(services, key, services.clock.now_ms(), async |tx| {
        match key.task {
            Task::Train => {}
            Task::Evaluate => {
                let summary = tx.evaluation_summary(key).await?;
                tx.store_evaluation(key, summary).await?;
            }
            Task::Describe => tx.store_description(key, None).await?,
        }
        store_scalars(tx, key).await?;
        tx.delete_order(key).await?;
        tx.delete_updates(key).await
    });
    if let Some(objects) = committed.await? {
        delete_bodies(services, objects).await;
    }
    Ok(())
}

/// Aggregating to Committed for a description: its sums fix the job's inputs, and are not kept. Every coordinator reads
/// the stored file, so all assignments from now on have them.
pub(crate) async fn commit_description(services: &Services, key: RoundKey) -> Result<(), DbError> {
    let now_ms = services.clock.now_ms();
    let committed = commit_with(services, key, now_ms, async |tx| {
        let sums = tx.description(key).await?;
        let job = tx.job(key.job).await?.ok_or_else(DbError::lost)?;
        let (Some(sums), Some(inputs)) = (sums, job.file.0.model.inputs.clone()) else {
            return Err(DbError::Corrupt(format!("description {} of {} has no sums", key.number, key.job)));
        };
        let mut file = job.file.0;
        file.model.inputs = Some(described(&inputs, &sums));
        tx.set_job_file(key.job, &file).await?;
        tx.store_description(key, None).await?;
        tx.record(Transition::Job { job: key.job, state: job.state, cause: Some(JobCause::Inputs) }, now_ms).await
    });
    committed.await.map(drop)
}

/// Aggregating to Committed for an evaluation on the coordinator: stores its report. Nothing happens when another
/// coordinator was faster.
pub(crate) async fn commit_own_evaluation(
    services: &Services,
    key: RoundKey,
    report: &EvaluationReport,
) -> Result<(), DbError> {
    let committed = commit_with(services, key, services.clock.now_ms(), async |tx| {
        let accuracy = report.accuracy.map(|accuracy| (accuracy, measured_centrally(accuracy, report.examples)));
        let summary = EvaluationSummary { loss: Some(report.loss), accuracy };
        tx.store_evaluation(key, summary).await?;
        tx.store_examples(key, report.examples).await?;
        tx.store_round_scalars(key, &summaries([(&report.metrics, report.examples)])).await?;
        match &report.classes {
            Some(classes) => tx.store_class_counts(key, classes).await,
            None => Ok(()),
        }
    });
    committed.await.map(drop)
}

/// Aggregating to Committed, with what `store` keeps of the result. None when another driver was faster.
async fn commit_with<T, E: From<DbError>>(
    services: &Services,
    key: RoundKey,
    now_ms: i64,
    store: impl AsyncFnOnce(&mut Tx) -> Result<T, E>,
) -> Result<Option<T>, E> {
    let mut tx = services.db.begin().await?;
    tx.lock_job(key.job).await?;
    if !tx.commit_round(key, now_ms).await? {
        return Ok(None);
    }
    let stored = store(&mut tx).await?;
    tx.record(Transition::of_round(key, Phase::Committed), now_ms).await?;
    tx.commit().await?;
    Ok(Some(stored))
}

/// Stores what the named scalars of a round's reports come to.
async fn store_scalars(tx: &mut Tx, key: RoundKey) -> Result<(), DbError> {
    let reports = tx.reported_scalars(key).await?;
    let summaries = summaries(reports.iter().map(|(scalars, weight)| (scalars, *weight)));
    tx.store_round_scalars(key, &summaries).await
}

/// Any open phase to Abandoned: the model is unchanged, and the round's updates are deleted.
pub(crate) async fn abandon(services: &Services, key: RoundKey, reason: AbandonReason) -> Result<(), DbError> {
    let now_ms = services.clock.now_ms();
    let mut tx = services.db.begin().await?;
    tx.lock_job(key.job).await?;
    let before = tx.round(key).await?;
    if !tx.abandon_round(key, reason, now_ms).await? {
        return Ok(());
    }
    if let Some(round) = before.filter(|round| round.phase == Phase::Training && round.policy().is_private) {
        let spec = services.spec(&mut tx, key.job).await?.ok_or_else(DbError::lost)?;
        privacy::charge_abandoned(&mut tx, &spec, &round, now_ms).await?;
    }
    // When a buffer comes to no model, the clients at work go on: their updates count in the next one.
    let goes_on = matches!(reason, AbandonReason::Fault | AbandonReason::NotFinite);
    if !goes_on || tx.round(key).await?.is_none_or(|round| !round.is_buffer()) {
        let is_needed = !matches!(reason, AbandonReason::JobStopped | AbandonReason::Superseded);
        expire(&mut tx, key, if is_needed { Need::Needed } else { Need::Spare }, now_ms).await?;
        open_groups::end(&mut tx, key, now_ms).await?;
    }
    let objects = tx.delete_updates(key).await?;
    tx.delete_round_key(key).await?;
    tx.forget_making(key).await?;
    if key.task == Task::Describe {
        tx.store_description(key, None).await?;
    }
    tx.record(Transition::Round { round: key, phase: Phase::Abandoned, reason: Some(reason) }, now_ms).await?;
    if key.task == Task::Train && reason != AbandonReason::JobStopped {
        post_abandoned(services, &mut tx, key, reason, now_ms).await?;
    }
    tx.commit().await?;
    delete_bodies(services, objects).await;
    Ok(())
}

/// Notifies once in each row of abandoned rounds, when it is as long as the configuration says.
async fn post_abandoned(
    services: &Services,
    tx: &mut Tx,
    key: RoundKey,
    reason: AbandonReason,
    now_ms: i64,
) -> Result<(), DbError> {
    let Some(in_a_row) = services.notify.as_ref().map(|to| to.abandoned) else { return Ok(()) };
    let Some(job) = tx.job(key.job).await?.filter(|job| job.abandoned_in_a_row == in_a_row) else { return Ok(()) };
    let about = About::job(key.job, &job.file.0.name, &job.file.0.population);
    let notice = Notice::RoundsAbandoned { in_a_row, reason: reason.to_string() };
    notify::post(services, tx, about, &notice, now_ms).await
}

/// Deletes bodies of a round that has ended. What cannot be deleted now is swept later.
async fn delete_bodies(services: &Services, objects: Vec<String>) {
    services.blobs.delete(objects).await;
    services.blobs.clear_some(&services.db).await;
}

async fn expire(tx: &mut Tx, key: RoundKey, need: Need, now_ms: i64) -> Result<(), DbError> {
    // Unfinished uploads are of no more use, and a request that still sends one can add nothing.
    tx.discard_uploads(key).await?;
    for assignment in tx.working_assignments(key).await? {
        expire_one(tx, &assignment, need, None, now_ms).await?;
    }
    Ok(())
}
