//! Rounds of buffered jobs: open assignments and groups move on to the next round, clients are drawn one by one.

use std::sync::Arc;

use tributary_engine::round::{Candidate, Tempo, Term, places, staleness};
use tributary_protocol::id::{AssignmentId, JobId};
use tributary_protocol::seed::Seed;
use tributary_protocol::state::Phase;

use super::drawn::{assign, commit_and_give, stand_up, told};
use super::expiry::{Need, expire_one};
use super::open_groups;
use crate::db::{AssignmentRow, DbError, NewAssignment, NewRound, RoundRow, Transition, Tx};
use crate::fleet::Fleet;
use crate::runtime::entropy;
use crate::services::Services;

/// Selecting to Training for a buffer that has just opened: it takes over the open assignments of the round before.
/// Those that became too stale expire, so that their clients get new work at once. A job with clocks selects while
/// nobody is a member.
pub(super) async fn begin(tx: &mut Tx, round: &NewRound, now_ms: i64) -> Result<(), DbError> {
    let (key, newest, tempo) = (round.key, round.base_version, round.opening.policy.tempo);
    if matches!(tempo, Tempo::Members { .. }) && tx.count_members(key.job).await? == 0 {
        return Ok(());
    }
    let grouped = match round.opening.policy.is_private {
        true => tx.grouped(key.job).await?,
        false => Vec::new(),
    };
    for assignment in tx.open_assignments(key.job).await? {
        // A member is as old as it was when its group formed: its mask is in the sums of the others.
        if tempo.is_too_stale(assignment.base_version, newest) && !grouped.contains(&assignment.id) {
            let (base_version, most) = (assignment.base_version, tempo.staleness_max().unwrap_or(0));
            let behind = staleness(base_version, newest);
            let reason =
                format!("too stale: version {base_version} is {behind} versions behind, and the job allows {most}");
            tx.discard_upload(assignment.id).await?;
            expire_one(tx, &assignment, Need::Needed, Some(&reason), now_ms).await?;
        }
    }
    let moved = tx.move_assignments(key).await?;
    if round.opening.policy.is_private {
        tx.move_secure_groups(key).await?;
    }
    tx.start_round(key, moved, now_ms, None).await?;
    tx.record(Transition::of_round(key, Phase::Training), now_ms).await
}

/// Draws clients into an open buffer: stores their assignments, then calls them. The first members of a job with clocks
/// end its selection. Nothing happens when another driver was faster.
pub(crate) async fn draw(
    services: &Services,
    fleet: &Fleet,
    round: &RoundRow,
    clients: &[Arc<Candidate>],
) -> Result<(), DbError> {
    let (key, now_ms) = (round.key(), services.clock.now_ms());
    let mut tx = services.db.begin().await?;
    tx.lock_job(key.job).await?;
    if round.phase == Phase::Selecting {
        if !tx.start_round(key, 0, now_ms, None).await? {
            return Ok(());
        }
        tx.record(Transition::of_round(key, Phase::Training), now_ms).await?;
    }
    if !tx.draw_into(key, round.drawn, places(clients)).await? {
        return Ok(());
    }
    let clocks = tx.clocks(key.job, round.policy().tempo).await?;
    let mut assignments = Vec::with_capacity(clients.len());
    for candidate in clients {
        if let Some(clocks) = &clocks {
            // A report that came since the look may have moved the fastest member on.
            let Some(clock) = clocks.entry(candidate.client) else { return Ok(()) };
            tx.enter_member(key.job, candidate.client, clock).await?;
        }
        let id = AssignmentId::from_random(entropy::random());
        assignments.push(NewAssignment {
            id,
            round: key,
            client: candidate.client,
            base_version: round.base_version,
            examples: told(round, candidate),
            places: candidate.relay.unwrap_or(0),
            share: None,
            term: Term::Own {
                deadline_at_ms: now_ms.saturating_add(round.policy().deadline_ms),
                seed: seed(&mut tx, round, id, candidate).await?,
            },
        });
    }
    if !assign(&mut tx, fleet, key, &assignments, now_ms).await? {
        drop(tx);
        return stand_up(services, fleet, clients).await;
    }
    commit_and_give(services, tx, fleet, round, &assignments, now_ms).await
}

/// The seed of a client's work. The first one in a round is that which it would have in a cohort.
async fn seed(tx: &mut Tx, round: &RoundRow, id: AssignmentId, candidate: &Candidate) -> Result<Seed, DbError> {
    if round.policy().is_private {
        return Ok(Term::private_seed(id));
    }
    let seed = round.seed().derive("client", candidate.number);
    Ok(match tx.assignments_of(round.key(), candidate.client).await? {
        0 => seed,
        again => seed.derive("again", again),
    })
}

/// Ends the open assignments of a buffered job whose time is over, so that their places are free.
pub(crate) async fn expire_overdue(services: &Services, job: JobId) -> Result<(), DbError> {
    let now_ms = services.clock.now_ms();
    let mut tx = services.db.begin().await?;
    tx.lock_job(job).await?;
    let is_over = |assignment: &AssignmentRow| assignment.term().is_over(assignment.assigned_at_ms, now_ms);
    expire_if(&mut tx, job, Need::Needed, is_over, now_ms).await?;
    tx.commit().await
}

/// Ends the open assignments of a buffered job that has trained: no further round opens in which they could count.
pub(crate) async fn expire_left(services: &Services, job: JobId) -> Result<(), DbError> {
    let now_ms = services.clock.now_ms();
    let mut tx = services.db.begin().await?;
    tx.lock_job(job).await?;
    expire_if(&mut tx, job, Need::Spare, |_| true, now_ms).await?;
    let objects = open_groups::end_all(&mut tx, job, now_ms).await?;
    tx.commit().await?;
    services.blobs.delete(objects).await;
    Ok(())
}

async fn expire_if(
    tx: &mut Tx,
    job: JobId,
    need: Need,
    is_over: impl Fn(&AssignmentRow) -> bool,
    now_ms: i64,
) -> Result<(), DbError> {
    for assignment in tx.open_assignments(job).await?.into_iter().filter(is_over) {
        tx.discard_upload(assignment.id).await?;
        expire_one(tx, &assignment, need, None, now_ms).await?;
    }
    Ok(())
}
