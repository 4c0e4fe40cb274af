//! Groups that add up among themselves: attempts of a round form, agree and end, or its members send their own updates.
//!
//! The sum of a group is stored as the update of the member that brought it, and counts for all members of its attempt.

use std::collections::HashMap;

use tributary_protocol::figures::Figures;
use tributary_protocol::fixed::Contribution;
use tributary_protocol::group::messages::{RingMember, RingOutcome, RingReady, RingStall};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{AssignmentId, GroupId};
use tributary_protocol::job_file::Links;
use tributary_protocol::state::{AssignmentState, Phase, RingState, StallKind, StarReason};
use tributary_protocol::traffic::Traffic;

use super::assignments::{Comes, Received, Refusal, end, require_open};
use crate::db::{AssignmentRow, DbError, Report, RingMemberRow, RoundKey, RoundRow, Times, Transition, Tx};
use crate::services::Services;

/// Why a member is rejected whose sum is another one than that of most.
const DIFFERS: &str = "its sum differs from that of its group";

/// A client has finished, or asks again for its next attempt.
pub(crate) async fn ready(
    services: &Services,
    (assignment, round): (&AssignmentRow, &RoundRow),
    (ready, member): (&RingReady, &RingMember),
) -> Result<(), Refusal> {
    if assignment.state == AssignmentState::Reported {
        return Ok(());
    }
    require_open(services, assignment, round, Comes::Finished).await?;
    let mut tx = services.db.begin().await?;
    tx.lock_job(round.job).await?;
    let told = (ready.attempt, member, &ready.report, ready.exchanged);
    tx.ring_ready(assignment.id, round.key(), told, services.clock.now_ms()).await?;
    tx.commit().await?;
    services.signals.changed(round.job);
    Ok(())
}

/// A member has the sum of its attempt. False when it said another one before.
pub(crate) async fn outcome(
    services: &Services,
    round: RoundKey,
    (group, member): (GroupId, AssignmentId),
    outcome: &RingOutcome,
) -> Result<bool, DbError> {
    let mut tx = services.db.begin().await?;
    tx.lock_job(round.job).await?;
    let is_stored = tx.ring_outcome(group, member, outcome, services.clock.now_ms()).await?;
    if let Some(kbit_s) = outcome.sent_kbit_s.filter(|_| is_stored) {
        let members = tx.ring_members(group).await?;
        let own = members.iter().position(|row| row.assignment == member);
        // A relayed link says nothing of the way between the two.
        if let Some(own) = own.filter(|own| !members[*own].is_relayed()) {
            let [sender, receiver] = [own, (own + 1) % members.len()].map(|place| members[place].ready.client);
            tx.ring_measured(sender, receiver, (kbit_s, services.clock.now_ms())).await?;
        }
    }
    if let Some(report) = outcome.report.filter(|_| is_stored) {
        tx.ring_report(member, &report).await?;
    }
    tx.commit().await?;
    services.signals.changed(round.job);
    Ok(is_stored)
}

/// A member could not go on.
pub(crate) async fn stall(
    services: &Services,
    round: RoundKey,
    (group, member): (GroupId, AssignmentId),
    stall: &RingStall,
) -> Result<(), DbError> {
    let mut tx = services.db.begin().await?;
    tx.lock_job(round.job).await?;
    tx.ring_stall(group, member, stall).await?;
    if stall.what == StallKind::Unreachable {
        note_unreachable(&mut tx, (group, member), stall.rank, services.clock.now_ms()).await?;
    }
    tx.commit().await?;
    services.signals.changed(round.job);
    tracing::info!(
        job = %round.job, round = round.number, %group, %member, rank = stall.rank, what = stall.what.as_str(),
        step = stall.step, "a member of a group cannot go on"
    );
    Ok(())
}

/// A member could not connect to its neighbour of this rank, or the neighbour not to it: of two, the one before
/// connects to the one after it.
async fn note_unreachable(
    tx: &mut Tx,
    (group, member): (GroupId, AssignmentId),
    rank: u16,
    now_ms: i64,
) -> Result<(), DbError> {
    let members = tx.ring_members(group).await?;
    let (count, other) = (members.len(), usize::from(rank));
    let Some(own) = members.iter().position(|row| row.assignment == member) else { return Ok(()) };
    for (sender, receiver) in [(own, other), (other, own)] {
        if other < count && (sender + 1) % count == receiver {
            let [sender, receiver] = [sender, receiver].map(|place| members[place].ready.client);
            tx.ring_unreachable(sender, receiver, now_ms).await?;
        }
    }
    Ok(())
}

/// A group forms. Nothing happens when another driver was faster.
pub(crate) async fn form(
    services: &Services,
    (group, round, attempt): (GroupId, RoundKey, u32),
    (members, exchanged): (&[(AssignmentId, bool)], u32),
) -> Result<(), DbError> {
    let mut tx = services.db.begin().await?;
    if !may_change(&mut tx, round).await? {
        return Ok(());
    }
    match tx.insert_ring((group, round, attempt), (members, exchanged), services.clock.now_ms()).await {
        Err(DbError::Duplicate) => return Ok(()),
        formed => formed?,
    }
    tx.commit().await?;
    services.signals.changed_for_watchers();
    Ok(())
}

/// Members agree on a sum, and one of them is asked for it: another one than before, if they had agreed already.
pub(crate) async fn ask(
    services: &Services,
    round: RoundKey,
    (group, state): (GroupId, RingState),
    (sha256, uploader, updates): (Sha256Hash, AssignmentId, u32),
) -> Result<(), DbError> {
    let (mut tx, now_ms) = (services.db.begin().await?, services.clock.now_ms());
    if !may_change(&mut tx, round).await?
        || !tx.move_ring(group, [state, RingState::Agreed], Some(sha256), now_ms).await?
    {
        return Ok(());
    }
    tx.ask_for_ring(group, Some(uploader), updates).await?;
    tx.commit().await?;
    services.signals.changed_for_watchers();
    Ok(())
}

/// An attempt ends without a sum. These of its members are rejected, because they have another sum than most.
pub(crate) async fn fail(
    services: &Services,
    round: RoundKey,
    (group, state): (GroupId, RingState),
    rejected: &[AssignmentRow],
) -> Result<(), DbError> {
    // First, so that none of them is told to try again, or is in the next attempt.
    for assignment in rejected {
        end(services, assignment, AssignmentState::Rejected, DIFFERS, Received::default()).await?;
    }
    let mut tx = services.db.begin().await?;
    if !may_change(&mut tx, round).await?
        || !tx.move_ring(group, [state, RingState::Failed], None, services.clock.now_ms()).await?
    {
        return Ok(());
    }
    tx.ask_for_ring(group, None, 0).await?;
    tx.commit().await?;
    services.signals.changed_for_watchers();
    tracing::info!(job = %round.job, round = round.number, %group, "a group has no sum");
    Ok(())
}

/// Members send their own updates from now on, and no sum is taken any more.
pub(crate) async fn star(
    services: &Services,
    round: RoundKey,
    open: Option<(GroupId, RingState)>,
    reason: StarReason,
) -> Result<(), DbError> {
    let (mut tx, now_ms) = (services.db.begin().await?, services.clock.now_ms());
    if !may_change(&mut tx, round).await? || !tx.begin_star(round, reason, now_ms).await? {
        return Ok(());
    }
    if let Some((group, state)) = open {
        tx.move_ring(group, [state, RingState::Failed], None, now_ms).await?;
        tx.ask_for_ring(group, None, 0).await?;
    }
    tx.commit().await?;
    services.signals.changed_for_watchers();
    tracing::info!(job = %round.job, round = round.number, %reason, "members send their own updates");
    Ok(())
}

/// Locks the job. Whether the round still trains, and its members may add up.
async fn may_change(tx: &mut Tx, round: RoundKey) -> Result<bool, DbError> {
    tx.lock_job(round.job).await?;
    let is_open = tx.round(round).await?.is_some_and(|row| row.phase == Phase::Training);
    Ok(is_open && tx.ring_star(round).await?.is_none())
}

/// The sum of a group has been accepted as the update of one of its members: the others have reported with it. The
/// transitions are those of the others.
pub(super) async fn count_members(
    tx: &mut Tx,
    assignment: &AssignmentRow,
    sha256: Sha256Hash,
    now_ms: i64,
) -> Result<(Vec<Transition<'static>>, Traffic), DbError> {
    let attempt = tx.ring_attempt_of(assignment.id).await?.ok_or_else(DbError::lost)?;
    tx.move_ring(attempt.id, [RingState::Agreed, RingState::Counted], None, now_ms).await?;
    let (mut transitions, mut traffic) = (Vec::new(), Traffic::default());
    for member in tx.ring_members(attempt.id).await?.iter().filter(|member| member.assignment != assignment.id) {
        let report = report(tx, member, sha256);
        // The update of a member that gave up afterwards is in the sum all the same.
        if let Some(counted) = tx.accept_report(member.assignment, &report, now_ms).await? {
            traffic += counted;
            let key = assignment.round();
            transitions.push(Transition::of_assignment(key, member.assignment, AssignmentState::Reported, None));
        }
    }
    Ok((transitions, traffic))
}

/// What a member has reported with the sum of its group, which has its examples and its loss.
fn report(tx: &mut Tx, member: &RingMemberRow, sha256: Sha256Hash) -> Report {
    let downloaded = tx.downloaded(member.ready.client);
    Report {
        figures: Figures { contribution: Contribution::default(), steps: member.ready.steps, ..Figures::default() },
        accuracy: None,
        work_ms: member.ready.work_ms,
        classes: None,
        description: None,
        sha256,
        traffic: downloaded.traffic,
        times: Times { fetched_at_ms: downloaded.ended_at_ms, ..Times::default() },
        below: None,
    }
}

/// Members that two of their attempt could not go on with: they are left out of the next one. With `links = "any"`
/// those that nobody could reach are not: they are reached through the coordinator, if they live.
pub(crate) fn blamed(members: &[RingMemberRow], links: Links) -> Vec<AssignmentId> {
    let mut blames: HashMap<u16, u32> = HashMap::new();
    let counts =
        |member: &&RingMemberRow| links == Links::Direct || member.blames_for() != Some(StallKind::Unreachable);
    let named = members.iter().filter(counts).filter_map(RingMemberRow::blames);
    named.for_each(|position| *blames.entry(position).or_default() += 1);
    let is_blamed = |member: &&RingMemberRow| blames.get(&member.position).is_some_and(|count| *count > 1);
    members.iter().filter(is_blamed).map(|member| member.assignment).collect()
}
