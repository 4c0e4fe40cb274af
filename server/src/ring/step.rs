//! The driver's part of a round whose members add up among themselves.

use std::collections::HashSet;

use tributary_engine::job::JobSpec;
use tributary_engine::round::ring::{
    Agreement, AttemptFacts, RingFacts, RingPolicy, RingStep, goes_on_from, next_ring_step,
};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::AssignmentId;
use tributary_protocol::state::RingState;
use tributary_protocol::sum::body_bytes_max;

use super::forming::form;
use crate::db::{DbError, RingAttemptRow, RingMemberRow, RingReadyRow, RoundRow, Tx};
use crate::lifecycle::rings;
use crate::services::Services;

/// How long a client that waits may be silent, in milliseconds: a call is held for 60 s, and repeated.
const SILENT_MS: i64 = 75_000;

/// What one look at a round says of its groups.
#[derive(Debug)]
pub(crate) struct Rings {
    policy: RingPolicy,
    facts: RingFacts,
    /// Those that are ready for the next attempt.
    ready: Vec<RingReadyRow>,
    last: Option<(RingAttemptRow, Vec<RingMemberRow>)>,
}

/// The policy of the groups of a round that trains.
pub(super) fn policy_of(spec: &JobSpec, round: &RoundRow) -> Option<RingPolicy> {
    let policy = round.policy();
    let deadline_ms = policy.deadline_ms;
    let values = u32::try_from(spec.update.total()).unwrap_or(u32::MAX);
    let times = [round.deadline_at_ms?, deadline_ms];
    RingPolicy::of(&spec.file, [policy.goal, policy.minimum], times, body_bytes_max(values))
}

impl Rings {
    /// Reads the groups of a round that trains; none in a job without groups.
    pub(crate) async fn read(
        tx: &mut Tx,
        spec: &JobSpec,
        round: &RoundRow,
        now_ms: i64,
    ) -> Result<Option<Self>, DbError> {
        let Some(policy) = policy_of(spec, round) else { return Ok(None) };
        let key = round.key();
        let attempts = tx.ring_attempts(key).await?;
        let last = match attempts.last() {
            Some(attempt) => Some((attempt.clone(), tx.ring_members(attempt.id).await?)),
            None => None,
        };
        let links = spec.file.group.as_ref().map(|group| group.links).unwrap_or_default();
        let left_out = last.as_ref().map(|(_, members)| rings::blamed(members, links)).unwrap_or_default();
        let number = last.as_ref().map_or(0, |(attempt, _)| attempt.number);
        let mut ready = tx.ring_waiting(key).await?;
        let finished = ready.len();
        // Of the members of the last attempt, those are in the next one that have come back: they saw that it failed,
        // or began again since.
        let failed_at_ms = last.as_ref().map_or(0, |(attempt, _)| attempt.since_ms);
        let members = last.iter().flat_map(|(_, members)| members).map(|member| member.assignment);
        let members: HashSet<AssignmentId> = members.collect();
        ready.retain(|ready| {
            let is_here = now_ms.saturating_sub(ready.asked_at_ms) <= SILENT_MS;
            let is_back = ready.seen >= number || ready.asked_at_ms >= failed_at_ms;
            is_here && (is_back || !members.contains(&ready.assignment)) && !left_out.contains(&ready.assignment)
        });
        let back: HashSet<AssignmentId> = ready.iter().map(|ready| ready.assignment).collect();
        let from = goes_on_from(ready.iter().map(|ready| ready.exchanged));
        ready.retain(|ready| ready.exchanged >= from);
        let open = last.as_ref().filter(|(attempt, _)| !matches!(attempt.state, RingState::Failed));
        let missing = last.iter().flat_map(|(_, members)| members).filter(|member| {
            member.is_open && !back.contains(&member.assignment) && !left_out.contains(&member.assignment)
        });
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let training = round.working().saturating_sub(count(finished));
        let facts = RingFacts {
            is_star: tx.ring_star(key).await?.is_some(),
            is_counted: open.is_some_and(|(attempt, _)| attempt.state == RingState::Counted),
            attempts: number,
            ready: count(ready.len()),
            // Once a group has failed, nobody waits for those that never were in one.
            awaited: if number == 0 { training } else { count(missing.count()) },
            failed_at_ms,
            open: open.map(|(attempt, members)| facts_of(attempt, members)),
        };
        Ok(Some(Self { policy, facts, ready, last }))
    }

    /// When a group may have a step to take, unless something changes.
    pub(crate) fn next_ms(&self, now_ms: i64) -> Option<i64> {
        match next_ring_step(&self.policy, &self.facts, now_ms) {
            RingStep::Wait { until_ms } => Some(until_ms),
            _ => None,
        }
    }

    /// Takes the next step. False when there is nothing to do now.
    pub(crate) async fn step(&self, services: &Services, spec: &JobSpec, round: &RoundRow) -> Result<bool, DbError> {
        let (key, step) = (round.key(), next_ring_step(&self.policy, &self.facts, services.clock.now_ms()));
        let open = self.last.as_ref().filter(|(attempt, _)| attempt.state != RingState::Failed);
        match (step, open) {
            (RingStep::Wait { .. } | RingStep::Ended, _) => return Ok(false),
            (RingStep::Form, _) => {
                form(services, spec, (round, self.facts.attempts + 1), self.ready.clone()).await?;
            }
            (RingStep::Star(reason), open) => {
                let open = open.map(|(attempt, _)| (attempt.id, attempt.state));
                rings::star(services, key, open, reason).await?;
            }
            (_, None) => return Ok(false),
            (RingStep::Fail, Some((attempt, _))) => {
                rings::fail(services, key, (attempt.id, attempt.state), &[]).await?;
            }
            (RingStep::Reject(most), Some((attempt, members))) => {
                let differ = members.iter().filter(|member| member.outcome().is_some_and(|outcome| outcome != most));
                let differ: Vec<String> = differ.map(|member| member.assignment.to_string()).collect();
                let rejected = services.db.read().await?.assignments_by_id(&differ).await?;
                rings::fail(services, key, (attempt.id, attempt.state), &rejected).await?;
            }
            (step @ (RingStep::Agree(_) | RingStep::NextUploader), Some((attempt, members))) => {
                let agreed = if let RingStep::Agree(sha256) = step { Some(sha256) } else { attempt.sha256() };
                let sha256 = agreed.ok_or_else(DbError::lost)?;
                let uploader = uploaders(members, sha256).next().ok_or_else(DbError::lost)?;
                rings::ask(services, key, (attempt.id, attempt.state), (sha256, uploader, size(members))).await?;
            }
        }
        Ok(true)
    }
}

fn size(members: &[RingMemberRow]) -> u32 {
    u32::try_from(members.len()).unwrap_or(u32::MAX)
}

/// Members that have this sum and were not asked for it, the first around the ring first.
fn uploaders(members: &[RingMemberRow], sha256: Sha256Hash) -> impl Iterator<Item = AssignmentId> {
    let may = move |member: &&RingMemberRow| member.is_open && !member.was_asked() && member.outcome() == Some(sha256);
    members.iter().filter(may).map(|member| member.assignment)
}

fn facts_of(attempt: &RingAttemptRow, members: &[RingMemberRow]) -> AttemptFacts {
    let mut outcomes: Vec<(Sha256Hash, u32)> = Vec::new();
    for outcome in members.iter().filter_map(RingMemberRow::outcome) {
        match outcomes.iter_mut().find(|(sha256, _)| *sha256 == outcome) {
            Some((_, count)) => *count += 1,
            None => outcomes.push((outcome, 1)),
        }
    }
    let agreed = attempt.sha256().filter(|_| attempt.state == RingState::Agreed);
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let is_gone = |member: &&RingMemberRow| !member.is_open && member.outcome().is_none();
    AttemptFacts {
        members: size(members),
        gone: count(members.iter().filter(is_gone).count()),
        is_stalled: members.iter().any(|member| member.blames().is_some()),
        outcomes,
        outcome_at_ms: members.iter().filter_map(|member| member.outcome_at_ms).max().unwrap_or(i64::MAX),
        agreed: agreed
            .map(|sha256| Agreement { since_ms: attempt.since_ms, others: count(uploaders(members, sha256).count()) }),
    }
}
