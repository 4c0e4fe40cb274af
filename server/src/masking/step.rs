//! The driver's part of a round whose updates are masked: groups form of clients that have finished, and move on.

use std::collections::HashMap;
use std::sync::Arc;

use tributary_engine::job::JobSpec;
use tributary_engine::round::masking::{
    Forming, GROUP_WAIT_MS, GroupFacts, GroupParameters, GroupStep, Joined, MaskingPolicy, OpenGroups, PAST_ROUNDS,
    ParametersError, STAGE_MS, SecretFacts, StageTimes, Tally, forms_until_ms, next_group_apart, next_group_step,
};
use tributary_protocol::id::{AssignmentId, GroupId};
use tributary_protocol::secure::messages::ShareKind;
use tributary_protocol::secure::open::Opening;
use tributary_protocol::secure::sizes::body_bytes;
use tributary_protocol::secure::slots::SLOTS;
use tributary_protocol::secure::{Context, NO_MODEL, Suite, Survivors};
use tributary_protocol::state::{GroupFailure, GroupStage};

use super::open::{Outcome, open};
use super::roster::{quantiser_of, roster_of};
use crate::db::{DbError, NewSecureGroup, RoundRow, SecureGroupRow, SecureMemberRow, SecureShareRow, ShareStage, Tx};
use crate::lifecycle::groups;
use crate::models::error::CommitError;
use crate::runtime::entropy;
use crate::services::Services;

/// How long a client that waits may be silent, in milliseconds: a call is held for 60 s, and repeated.
const SILENT_MS: i64 = 75_000;

/// Now, and since when this coordinator serves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) now_ms: i64,
    pub(crate) started_at_ms: i64,
}

/// What one look at a round says of its groups.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// Those that are grouped apart are the last.
    lobby: Vec<SecureMemberRow>,
    apart: usize,
    open: Vec<Open>,
    /// Clients that may still join.
    training: u32,
}

/// An open group.
#[derive(Debug)]
struct Open {
    row: SecureGroupRow,
    members: Vec<SecureMemberRow>,
    facts: GroupFacts,
}

impl Standing {
    /// Reads the groups of a round that trains; none where updates are not masked.
    pub(crate) async fn read(
        tx: &mut Tx,
        spec: &JobSpec,
        round: &RoundRow,
        Times { now_ms, started_at_ms }: Times,
    ) -> Result<Option<Self>, DbError> {
        let Some(policy) = MaskingPolicy::of(&spec.file, round.goal) else { return Ok(None) };
        let (mut lobby, rows) = (tx.secure_lobby(round.key()).await?, tx.secure_groups(round.key()).await?);
        // One that is silent may come back, as one that still trains may.
        lobby.retain(|member| now_ms.saturating_sub(member.asked_at_ms) <= SILENT_MS);
        let past = match lobby.is_empty() {
            true => HashMap::new(),
            false => tx.secure_past(round.key(), round.number.saturating_sub(PAST_ROUNDS)).await?,
        };
        let is_apart = |member: &SecureMemberRow| past.get(&member.client).is_some_and(|past| past.is_apart());
        lobby.sort_by_key(is_apart);
        let apart = lobby.iter().filter(|member| is_apart(member)).count();
        // Relays join no group here: their clients have groups of their own.
        let working = tx.working_assignments(round.key()).await?.into_iter().filter(|row| !row.is_sum());
        let working: Vec<AssignmentId> = working.map(|row| row.id).collect();
        let mut open = Vec::new();
        let mut grouped = 0;
        for row in rows.into_iter().filter(|row| !row.stage.is_final()) {
            let members = tx.secure_members(row.id).await?;
            grouped += members.iter().filter(|member| working.contains(&member.assignment)).count();
            let mut facts = facts(tx, &policy, &row, &members, &working).await?;
            // A coordinator that was away gives members the time of the stage again.
            facts.began_at_ms = facts.began_at_ms.max(started_at_ms);
            open.push(Open { row, members, facts });
        }
        let training = working.len().saturating_sub(lobby.len() + grouped);
        Ok(Some(Self { lobby, apart, open, training: u32::try_from(training).unwrap_or(u32::MAX) }))
    }

    /// When the open groups have ended at the latest; none without any.
    pub(crate) fn open_groups(&self) -> Option<OpenGroups> {
        let slowest = self.open.iter().max_by_key(|group| group.row.masking_ms)?;
        let times = times_of(&slowest.row, slowest.facts.is_signed);
        Tally::of(self.open.iter().map(|group| &group.facts), &times).open
    }

    /// When the first stage of an open group is over, or those that wait do so no longer; none without any.
    pub(crate) fn next_ms(&self, spec: &JobSpec, round: &RoundRow, now_ms: i64) -> Option<i64> {
        let waits = match self.forming(spec, round, now_ms) {
            (Forming::Wait { until_ms }, _) => Some(until_ms),
            (Forming::Form(_) | Forming::LeaveOut | Forming::Nobody, _) => None,
        };
        self.open.iter().map(|group| group.facts.ends_at_ms()).chain(waits).filter(|at_ms| *at_ms > now_ms).min()
    }

    /// Whether a group forms of those that wait, and how many to pass over before it begins.
    fn forming(&self, spec: &JobSpec, round: &RoundRow, now_ms: i64) -> (Forming, u32) {
        let Some(policy) = MaskingPolicy::of(&spec.file, round.goal) else { return (Forming::Nobody, 0) };
        let first_ms = self.lobby.iter().map(|member| member.joined_at_ms).min();
        let first_deadline = || self.lobby.iter().filter_map(|member| member.deadline_at_ms).min();
        let deadline_at_ms = round.deadline_at_ms.or_else(first_deadline).unwrap_or(i64::MAX);
        let joined = Joined {
            here: u32::try_from(self.lobby.len()).unwrap_or(u32::MAX),
            awaited: self.training,
            until_ms: forms_until_ms(deadline_at_ms, round.policy().deadline_ms),
            leaves_at_ms: first_ms.map(|at_ms| at_ms.saturating_add(GROUP_WAIT_MS)),
            is_endless: round.is_buffer(),
        };
        next_group_apart(&policy, &joined, u32::try_from(self.apart).unwrap_or(u32::MAX), now_ms)
    }

    /// Takes the next step of one of the groups, or forms one. False when there is nothing to do now.
    pub(crate) async fn step(
        &self,
        services: &Services,
        spec: &Arc<JobSpec>,
        round: &RoundRow,
    ) -> Result<bool, CommitError> {
        let now_ms = services.clock.now_ms();
        for group in &self.open {
            match next_group_step(&group.facts, now_ms) {
                GroupStep::Wait { .. } | GroupStep::Ended => {}
                step => {
                    if take(services, spec, round, group, step).await? {
                        return Ok(true);
                    }
                }
            }
        }
        let Some(policy) = MaskingPolicy::of(&spec.file, round.goal) else { return Ok(false) };
        match self.forming(spec, round, now_ms) {
            (Forming::Wait { .. } | Forming::Nobody, _) => return Ok(false),
            (Forming::LeaveOut, _) => groups::leave_out(services, round.key()).await?,
            (Forming::Form(size), first) => {
                let members = &self.lobby[first as usize..][..size as usize];
                let group = new_group(services, spec, round, &policy, members).await?;
                groups::form(services, &group).await?;
            }
        }
        Ok(true)
    }
}

/// A group of these clients. That groups of every size the job allows bear what it asks was checked at its creation.
async fn new_group(
    services: &Services,
    spec: &JobSpec,
    round: &RoundRow,
    policy: &MaskingPolicy,
    members: &[SecureMemberRow],
) -> Result<NewSecureGroup, CommitError> {
    let size = u32::try_from(members.len()).unwrap_or(u32::MAX);
    let unfit = |error: ParametersError| DbError::corrupt("the size of a group", error);
    let parameters = GroupParameters::of(size, policy).map_err(unfit)?;
    let plan = spec.plan_of_round(round.goal, round.policy().clip_norm);
    let missing = |what: &str| DbError::Corrupt(format!("round {} of {} has no {what}", round.number, round.job));
    let masking = plan.masking.ok_or_else(|| missing("masking"))?;
    let model = match masking.any_version {
        true => NO_MODEL,
        false => {
            let model = services.db.look().await?.model(round.job, round.base_version).await?;
            model.ok_or_else(|| missing("model"))?.sha256
        }
    };
    let quantiser = quantiser_of(spec, round)?;
    let count = u16::try_from(size).unwrap_or(u16::MAX);
    let bits = masking.value_bits(&quantiser, count).ok_or_else(|| missing("fitting values"))?;
    let length = quantiser.coordinates();
    let id = GroupId::from_random(entropy::random());
    let context = Context {
        job: round.job,
        round: round.number.into(),
        group: id,
        model,
        plan: plan.hash(),
        suite: Suite::One,
        bits,
        threshold: u16::try_from(parameters.threshold).unwrap_or(u16::MAX),
        degree: u16::try_from(parameters.degree).unwrap_or(u16::MAX),
        length,
    };
    let times = StageTimes::of(body_bytes(bits, length, SLOTS), None, policy.is_signed);
    Ok(NewSecureGroup {
        id,
        round: round.key(),
        context: context.to_bytes().to_vec(),
        masking_ms: times.masking_ms,
        stages_ms: times.rest_ms(GroupStage::Sharing),
        members: members.iter().map(|member| member.assignment).collect(),
    })
}

fn times_of(row: &SecureGroupRow, is_signed: bool) -> StageTimes {
    StageTimes { short_ms: STAGE_MS, masking_ms: row.masking_ms, is_signed }
}

/// What a group's next step is decided from.
async fn facts(
    tx: &mut Tx,
    policy: &MaskingPolicy,
    row: &SecureGroupRow,
    members: &[SecureMemberRow],
    working: &[AssignmentId],
) -> Result<GroupFacts, DbError> {
    let parameters =
        GroupParameters::of(row.members, policy).map_err(|error| DbError::corrupt("the size of a group", error))?;
    let shared = tx.senders(row.id, ShareStage::Sharing).await?;
    let opened = match row.stage {
        GroupStage::Unmasking => tx.senders(row.id, ShareStage::Unmasking).await?,
        _ => Vec::new(),
    };
    let survivors = row.survivors();
    let is_awaited = |place: u16, member: &SecureMemberRow| match row.stage {
        GroupStage::Sharing => !shared.contains(&place),
        GroupStage::Masking => shared.contains(&place) && member.body().is_none(),
        GroupStage::Unmasking => {
            survivors.as_ref().is_some_and(|survivors| survivors.contains(place)) && !opened.contains(&place)
        }
        GroupStage::Agreeing => {
            survivors.as_ref().is_some_and(|survivors| survivors.contains(place)) && member.signature.is_none()
        }
        GroupStage::Summed | GroupStage::Failed => false,
    };
    let awaited = (0u16..)
        .zip(members)
        .filter(|(place, member)| is_awaited(*place, member) && working.contains(&member.assignment));
    let awaited = awaited.count();
    let whole = match &survivors {
        Some(survivors) => survivors.count().into(),
        None => members.iter().filter(|member| member.body().is_some()).count() as u32,
    };
    let secrets = match (&survivors, row.stage) {
        (Some(survivors), GroupStage::Unmasking) => secrets(tx, row, members, (&shared, survivors)).await?,
        _ => Vec::new(),
    };
    Ok(GroupFacts {
        stage: row.stage,
        began_at_ms: row.stage_since_ms,
        stage_ms: times_of(row, policy.is_signed).stage_ms(row.stage),
        parameters,
        group_min: policy.group_min,
        is_signed: policy.is_signed,
        over: None,
        awaited: u32::try_from(awaited).unwrap_or(u32::MAX),
        shared: u32::try_from(shared.len()).unwrap_or(u32::MAX),
        whole,
        signed: members.iter().filter(|member| member.signature.is_some()).count() as u32,
        secrets,
    })
}

/// The shares that are here of each secret which must be rebuilt.
async fn secrets(
    tx: &mut Tx,
    group: &SecureGroupRow,
    members: &[SecureMemberRow],
    (shared, survivors): (&[u16], &Survivors),
) -> Result<Vec<SecretFacts>, DbError> {
    let rows = tx.shares(group.id, ShareStage::Unmasking).await?;
    let (context, roster) = roster_of(group, members)?;
    let sharers = Survivors::new(roster.members(), shared.iter().copied());
    let opening = Opening { context: &context, roster: &roster, records: &[], sharers: &sharers, survivors };
    let count = |(owner, kind): (u16, ShareKind)| {
        let is_share = |row: &&SecureShareRow| row.recipient == owner && row.share.first() == Some(&kind.number());
        u32::try_from(rows.iter().filter(is_share).count()).unwrap_or(u32::MAX)
    };
    let needed = opening.needed().into_iter();
    Ok(needed.map(|secret| SecretFacts { shares: count(secret), is_false: false }).collect())
}

/// Takes a step. False when the group waits all the same: some shares are false, and others may come.
async fn take(
    services: &Services,
    spec: &Arc<JobSpec>,
    round: &RoundRow,
    Open { row, members, facts }: &Open,
    step: GroupStep,
) -> Result<bool, CommitError> {
    let (key, group) = (round.key(), row.id);
    tracing::debug!(job = %key.job, round = key.number, %group, ?step, "a group moves on");
    match step {
        GroupStep::Wait { .. } | GroupStep::Ended => {}
        GroupStep::Mask => groups::advance(services, key, group, [row.stage, GroupStage::Masking]).await?,
        GroupStep::Agree => groups::advance(services, key, group, [row.stage, GroupStage::Agreeing]).await?,
        GroupStep::Unmask => groups::advance(services, key, group, [row.stage, GroupStage::Unmasking]).await?,
        GroupStep::Fail(reason) => groups::fail(services, key, row, reason).await.map(drop)?,
        GroupStep::Sum => match open(services, spec, round, row, members).await {
            Ok(Outcome::Sum(sum)) => groups::sum(services, key, group, *sum).await?,
            Ok(Outcome::Failed(GroupFailure::FalseShares))
                if facts.awaited > 0 && services.clock.now_ms() < facts.ends_at_ms() =>
            {
                return Ok(false);
            }
            Ok(Outcome::Failed(reason)) => groups::fail(services, key, row, reason).await.map(drop)?,
            Err(error) if error.is_lasting() => {
                // Another driver that has opened it meanwhile has deleted what is missing here.
                if groups::fail(services, key, row, GroupFailure::Fault).await? {
                    tracing::error!(%error, job = %key.job, round = key.number, %group, "a group cannot be opened");
                }
            }
            Err(error) => return Err(error),
        },
    }
    Ok(true)
}
