//! Groups of a round under secure aggregation: they form, move from stage to stage, and end with an open sum or
//! without one.
//!
//! The sum of a group is stored as the update of its first survivor, and counts for all of them. So rounds, rules and
//! statistics read it as they read any update, and no other body of the group is left.

use tributary_engine::round::{Tempo, staleness};
use tributary_protocol::figures::Figures;
use tributary_protocol::fixed::{Contribution, Weight};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{AssignmentId, ClientId, GroupId, JobId};
use tributary_protocol::secure::Survivors;
use tributary_protocol::secure::messages::Join;
use tributary_protocol::secure::signing::Signature;
use tributary_protocol::state::{AssignmentState, GroupFailure, GroupStage, Phase};
use tributary_protocol::traffic::Traffic;

use super::assignments::{Comes, Received, Refusal, end, find, require_held, require_open};
use super::expiry::{Need, expire_one};
use super::privacy;
use super::rounds::{close_in, goal_of};
use crate::blob::{BlobError, Staged};
use crate::db::{
    AssignmentRow, DbError, NewSecureGroup, Report, RoundKey, SecureGroupRow, SecureMemberRow, ShareStage, Times,
    Transition, Tx,
};
use crate::services::Services;

/// Why a member does not count whose group went on without it.
const LEFT: &str = "lost: its client left the group before the sum was open";

/// A client joins with finished work. The same record again changes nothing.
///
/// # Errors
/// [`Refusal::Conflict`] for another record: what was signed for one must not be used with another.
pub(crate) async fn join(services: &Services, client: ClientId, id: AssignmentId, join: &Join) -> Result<(), Refusal> {
    let record = &join.record.to_bytes();
    let (assignment, round) = find(&mut services.db.read().await?, client, id, None).await?;
    if let Some(member) = services.db.look().await?.secure_member(id).await? {
        same_record(&member, record, id)?;
        if member.group().is_none() {
            let mut tx = services.db.begin_losable().await?;
            tx.ask_secure(id, services.clock.now_ms()).await?;
            tx.commit().await?;
            services.signals.changed(round.job);
        }
        return Ok(());
    }
    require_open(services, &assignment, &round, Comes::Finished).await?;
    let mut tx = services.db.begin().await?;
    tx.lock_job(round.job).await?;
    // A buffer may have moved on since the look.
    let key = tx.assignment(id).await?.ok_or_else(DbError::lost)?.round();
    match tx.join_secure(id, key, join, services.clock.now_ms()).await {
        Err(DbError::Duplicate) => {
            drop(tx);
            let member = services.db.look().await?.secure_member(id).await?.ok_or_else(DbError::lost)?;
            return same_record(&member, record, id);
        }
        joined => joined?,
    }
    tx.commit().await?;
    services.signals.changed(round.job);
    Ok(())
}

fn same_record(member: &SecureMemberRow, record: &[u8], id: AssignmentId) -> Result<(), Refusal> {
    if member.record == record { Ok(()) } else { Err(Refusal::Conflict(id)) }
}

/// Ends the work of a client that may not join, for this reason.
pub(crate) async fn turn_away(
    services: &Services,
    client: ClientId,
    id: AssignmentId,
    reason: String,
) -> Result<Refusal, Refusal> {
    let (assignment, _) = find(&mut services.db.read().await?, client, id, None).await?;
    end(services, &assignment, AssignmentState::Failed, &reason, Received::default()).await?;
    Ok(Refusal::Rejected(reason))
}

/// A group forms of clients that have joined. Members of a buffer, whose time is their own, have that of all stages.
/// Nothing happens when another driver was faster.
pub(crate) async fn form(services: &Services, group: &NewSecureGroup) -> Result<(), DbError> {
    let mut tx = services.db.begin().await?;
    tx.lock_job(group.round.job).await?;
    let open = tx.round(group.round).await?.filter(|round| round.phase == Phase::Training);
    let Some(round) = open else { return Ok(()) };
    let free: Vec<AssignmentId> =
        tx.secure_lobby(group.round).await?.into_iter().map(|member| member.assignment).collect();
    if group.members.iter().any(|member| !free.contains(member)) {
        return Ok(());
    }
    let now_ms = services.clock.now_ms();
    tx.insert_secure_group(group, now_ms).await?;
    if round.is_buffer() {
        tx.prolong(&group.members, now_ms.saturating_add(group.stages_ms)).await?;
    }
    tx.commit().await?;
    services.signals.changed_for_watchers();
    Ok(())
}

/// Stores what a member sends others in a stage. The same again changes nothing.
///
/// # Errors
/// [`Refusal::Conflict`] for other shares, [`Refusal::GroupPassed`] or
/// [`Refusal::GroupFailed`] when the group is in another stage.
pub(crate) async fn share(
    services: &Services,
    job: JobId,
    member: &SecureMemberRow,
    stage: ShareStage,
    shares: &[(u16, Vec<u8>)],
) -> Result<(), Refusal> {
    let (group, sender) = place(member)?;
    let mut tx = services.db.begin().await?;
    tx.lock_job(job).await?;
    let row = tx.secure_group(group).await?.ok_or_else(DbError::lost)?;
    let before = tx.shares_from(group, stage, sender).await?;
    if !before.is_empty() {
        let is_same = before.len() == shares.len()
            && before.iter().zip(shares).all(|(one, (to, share))| one.recipient == *to && one.share == *share);
        return if is_same { Ok(()) } else { Err(Refusal::Conflict(member.assignment)) };
    }
    let takes = match stage {
        ShareStage::Sharing => row.stage == GroupStage::Sharing,
        ShareStage::Unmasking => row.stage == GroupStage::Unmasking,
    };
    if !takes {
        return Err(passed(&row));
    }
    require_working(&mut tx, member.assignment).await?;
    if !tx.store_shares(group, stage, sender, shares).await? {
        return Err(Refusal::Conflict(member.assignment));
    }
    tx.commit().await?;
    services.signals.changed(job);
    Ok(())
}

/// Stores the signature of a survivor over the survivors. The same again changes nothing, and one that comes after the
/// group has gone on is needed no more.
///
/// # Errors
/// [`Refusal::Conflict`] for another signature, [`Refusal::GroupPassed`] before there are survivors.
pub(crate) async fn agree(
    services: &Services,
    job: JobId,
    member: &SecureMemberRow,
    signature: &Signature,
) -> Result<(), Refusal> {
    let (group, _) = place(member)?;
    let mut tx = services.db.begin().await?;
    tx.lock_job(job).await?;
    let row = tx.secure_group(group).await?.ok_or_else(DbError::lost)?;
    match row.stage {
        GroupStage::Agreeing => {}
        GroupStage::Unmasking | GroupStage::Summed => return Ok(()),
        _ => return Err(passed(&row)),
    }
    if !tx.store_signature(member.assignment, signature).await? {
        let stored = tx.secure_member(member.assignment).await?.and_then(|member| member.signature);
        let is_same = stored.is_some_and(|stored| stored == *signature);
        return if is_same { Ok(()) } else { Err(Refusal::Conflict(member.assignment)) };
    }
    tx.commit().await?;
    services.signals.changed(job);
    Ok(())
}

/// Refuses what a member sends that has given up: its update would be in the sum and not count.
async fn require_working(tx: &mut Tx, id: AssignmentId) -> Result<(), Refusal> {
    let assignment = tx.assignment(id).await?.ok_or_else(DbError::lost)?;
    let round = tx.round(assignment.round()).await?.ok_or_else(DbError::lost)?;
    require_held(&assignment, &round)
}

/// The group of a member, and its place there.
pub(crate) fn place(member: &SecureMemberRow) -> Result<(GroupId, u16), Refusal> {
    member.group().zip(member.position()).ok_or(Refusal::NoGroup(member.assignment))
}

/// Why a group does not take what belongs to another stage.
pub(crate) fn passed(group: &SecureGroupRow) -> Refusal {
    match group.reason() {
        Some(reason) => Refusal::GroupFailed(reason),
        None => Refusal::GroupPassed(group.stage),
    }
}

/// Stores the masked update of a member. False when it has one, or when its group no longer waits for it.
pub(crate) async fn mask(
    services: &Services,
    assignment: &AssignmentRow,
    group: GroupId,
    body: &mut Staged,
    sha256: Sha256Hash,
    received: Received,
) -> Result<bool, Refusal> {
    let key = assignment.round();
    let mut tx = services.db.begin().await?;
    tx.lock_job(key.job).await?;
    let waits = tx.secure_group(group).await?.is_some_and(|row| row.stage == GroupStage::Masking);
    if !waits {
        return Ok(false);
    }
    require_working(&mut tx, assignment.id).await?;
    if !tx.store_masked(assignment.id, sha256).await? {
        return Ok(false);
    }
    body.settle(&mut tx, services.clock.now_ms()).await?;
    tx.count_upload(assignment.id, key, received.bytes, false).await?;
    tx.store_times(assignment.id, received.times).await?;
    tx.commit().await?;
    services.signals.changed(key.job);
    Ok(true)
}

/// Moves a group to its next stage. From Masking on no more updates come: those that are here are the survivors', who
/// are fixed then. Nothing happens when another driver was faster.
pub(crate) async fn advance(
    services: &Services,
    round: RoundKey,
    group: GroupId,
    stages: [GroupStage; 2],
) -> Result<(), DbError> {
    let mut tx = services.db.begin().await?;
    tx.lock_job(round.job).await?;
    if !tx.move_secure_group(group, stages, services.clock.now_ms()).await? {
        return Ok(());
    }
    let members = tx.secure_members(group).await?;
    let came: Vec<u16> = match stages[0] {
        GroupStage::Sharing => tx.senders(group, ShareStage::Sharing).await?,
        _ => members.iter().filter(|member| member.body().is_some()).filter_map(SecureMemberRow::position).collect(),
    };
    let left = members.iter().filter(|member| member.position().is_some_and(|place| !came.contains(&place)));
    // They cannot count any more: what they compute from now on would be lost.
    expire_working(&mut tx, left.map(|member| member.assignment), LEFT, services.clock.now_ms()).await?;
    if stages[0] == GroupStage::Masking {
        let survivors = Survivors::new(u16::try_from(members.len()).unwrap_or(u16::MAX), came);
        if !tx.store_survivors(group, &survivors.to_bytes()).await? {
            return Err(DbError::Corrupt(format!("{group} has survivors already")));
        }
    }
    if stages[1] == GroupStage::Unmasking {
        charge_opening(services, &mut tx, round, group, &members).await?;
    }
    tx.commit().await?;
    services.signals.changed_for_watchers();
    Ok(())
}

/// Charges the sum that the survivors of a group begin to open.
async fn charge_opening(
    services: &Services,
    tx: &mut Tx,
    round: RoundKey,
    group: GroupId,
    members: &[SecureMemberRow],
) -> Result<(), DbError> {
    let row = tx.secure_group(group).await?.ok_or_else(DbError::lost)?;
    let survivors = row.survivors().ok_or_else(|| DbError::Corrupt(format!("{group} has no survivors")))?;
    let is_in = |member: &&SecureMemberRow| member.position().is_some_and(|place| survivors.contains(place));
    let clients: Vec<ClientId> = members.iter().filter(is_in).map(|member| member.client).collect();
    let spec = services.spec(tx, round.job).await?.ok_or_else(DbError::lost)?;
    let row = tx.round(round).await?.ok_or_else(DbError::lost)?;
    privacy::charge_group(tx, &spec, &row, &clients, services.clock.now_ms()).await
}

/// The opened sum of a group.
pub(crate) struct Sum {
    /// The survivors, in the order of the roster.
    pub(crate) survivors: Vec<SecureMemberRow>,
    /// The one of them whose update stands for the sum.
    pub(crate) first: AssignmentId,
    /// Of them: those whose updates were within the clip.
    pub(crate) whole: u32,
    /// Their mean loss, where all of them told one.
    pub(crate) loss: Option<f64>,
    /// The mean of their updates, as an update of the job.
    pub(crate) body: Staged,
    pub(crate) sha256: Sha256Hash,
    /// Bytes of an update as a plain file.
    pub(crate) plain_bytes: u64,
}

/// Unmasking to Summed: the sum counts for its survivors, and what could open a single update is deleted. Nothing
/// happens when another driver was faster.
pub(crate) async fn sum(services: &Services, round: RoundKey, group: GroupId, mut sum: Sum) -> Result<(), BlobError> {
    let now_ms = services.clock.now_ms();
    let mut tx = services.db.begin().await?;
    tx.lock_job(round.job).await?;
    let Some(row) = tx.round(round).await?.filter(|row| row.phase == Phase::Training) else { return Ok(()) };
    if !tx.move_secure_group(group, [GroupStage::Unmasking, GroupStage::Summed], now_ms).await? {
        return Ok(());
    }
    tx.store_summed(group, [u32::try_from(sum.survivors.len()).unwrap_or(u32::MAX), sum.whole]).await?;
    sum.body.settle(&mut tx, now_ms).await?;
    let (mut traffic, mut transitions, mut behind) = (Traffic::default(), Vec::new(), 0u32);
    // The one that stands for the sum comes last, when it is known for how many.
    let others = sum.survivors.iter().filter(|member| member.assignment != sum.first);
    let first = sum.survivors.iter().filter(|member| member.assignment == sum.first);
    for member in others.chain(first) {
        let updates = u32::try_from(transitions.len() + 1).unwrap_or(u32::MAX);
        let report = report(&mut tx, &sum, member, updates);
        // The update of a survivor that gave up afterwards is in the sum all the same; the survivor is not counted.
        if let Some(counted) = tx.accept_report(member.assignment, &report, now_ms).await? {
            traffic += counted;
            behind = behind.saturating_add(staleness(member.base_version, row.base_version));
            if let Tempo::Members { .. } = row.policy().tempo {
                tx.tick_member(round.job, member.client).await?;
            }
            transitions.push(Transition::of_assignment(round, member.assignment, AssignmentState::Reported, None));
        } else if member.assignment == sum.first {
            // It has given up meanwhile: another one stands for the sum at the next look.
            return Ok(());
        }
    }
    let updates = u32::try_from(transitions.len()).unwrap_or(u32::MAX);
    tx.count_ended(round, AssignmentState::Reported, counts_for(updates), traffic).await?;
    if behind > 0 {
        // Late updates count in full: no weight is lost.
        tx.count_staleness(round, behind, 0.0).await?;
    }
    tx.record_all(round.job, &transitions, now_ms).await?;
    let objects = let_go(&mut tx, group, LEFT, now_ms).await?;
    if row.reported.saturating_add(updates) >= goal_of(&mut tx, &row).await? {
        close_in(services, &mut tx, &row, now_ms).await?;
    }
    tx.commit().await?;
    services.blobs.delete(objects).await;
    services.signals.changed(round.job);
    Ok(())
}

/// What so many updates count for, of which nobody knows the examples.
fn counts_for(updates: u32) -> Contribution {
    Contribution { weight: Weight::examples(updates), updates }
}

/// What a survivor has reported: the first one the sum, the others nothing of their own.
fn report(tx: &mut Tx, sum: &Sum, member: &SecureMemberRow, updates: u32) -> Report {
    let downloaded = tx.downloaded(member.client);
    let is_first = member.assignment == sum.first;
    let contribution = if is_first { counts_for(updates) } else { Contribution::default() };
    let loss = sum.loss.filter(|_| is_first);
    Report {
        figures: Figures { contribution, loss, ..Default::default() },
        accuracy: None,
        work_ms: 0,
        classes: None,
        description: None,
        sha256: if is_first { sum.sha256 } else { member.body().unwrap_or(sum.sha256) },
        traffic: Traffic { raw_bytes_up: sum.plain_bytes, ..downloaded.traffic },
        times: Times { fetched_at_ms: downloaded.ended_at_ms, ..Times::default() },
        below: None,
    }
}

/// A group ends without a sum: the updates of its members are lost. False, and nothing happens, when another driver
/// was faster.
pub(crate) async fn fail(
    services: &Services,
    round: RoundKey,
    group: &SecureGroupRow,
    reason: GroupFailure,
) -> Result<bool, DbError> {
    let now_ms = services.clock.now_ms();
    let mut tx = services.db.begin().await?;
    tx.lock_job(round.job).await?;
    if !tx.move_secure_group(group.id, [group.stage, GroupStage::Failed], now_ms).await? {
        return Ok(false);
    }
    tx.store_group_failure(group.id, reason).await?;
    let lost = format!("lost: its group failed ({reason})");
    let objects = let_go(&mut tx, group.id, &lost, now_ms).await?;
    tx.commit().await?;
    services.blobs.delete(objects).await;
    services.signals.changed(round.job);
    tracing::info!(job = %round.job, round = round.number, group = %group.id, %reason, "a group has no sum");
    Ok(true)
}

/// Those that wait for a group are too few for one, and no others come: their work is lost.
pub(crate) async fn leave_out(services: &Services, round: RoundKey) -> Result<(), DbError> {
    let now_ms = services.clock.now_ms();
    let mut tx = services.db.begin().await?;
    tx.lock_job(round.job).await?;
    let lobby = tx.secure_lobby(round).await?;
    let ids: Vec<String> = lobby.iter().map(|member| member.assignment.to_string()).collect();
    for assignment in tx.assignments_by_id(&ids).await? {
        expire_one(&mut tx, &assignment, Need::Needed, Some("lost: too few others were left for a group"), now_ms)
            .await?;
    }
    tx.commit().await?;
    services.signals.changed(round.job);
    Ok(())
}

/// Deletes the secrets of a group that ends, and ends the work of its members that do not count.
async fn let_go(tx: &mut Tx, group: GroupId, reason: &str, now_ms: i64) -> Result<Vec<String>, DbError> {
    let members: Vec<_> = tx.secure_members(group).await?.into_iter().map(|member| member.assignment).collect();
    expire_working(tx, members.iter().copied(), reason, now_ms).await?;
    tx.forget_secrets(group, &members).await
}

/// Ends the work of those that have not ended.
async fn expire_working(
    tx: &mut Tx,
    ids: impl Iterator<Item = AssignmentId>,
    reason: &str,
    now_ms: i64,
) -> Result<(), DbError> {
    let ids: Vec<String> = ids.map(|id| id.to_string()).collect();
    for assignment in tx.assignments_by_id(&ids).await? {
        if assignment.state == AssignmentState::Assigned {
            expire_one(tx, &assignment, Need::Needed, Some(reason), now_ms).await?;
        }
    }
    Ok(())
}
