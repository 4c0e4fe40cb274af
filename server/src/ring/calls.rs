//! What members of a group say, and what they are told.

use std::net::IpAddr;

use tributary_engine::round::RetryReason;
use tributary_engine::round::ring::RingPolicy;
use tributary_protocol::fixed::Weight;
use tributary_protocol::group::messages::{
    RingAnswer, RingMember, RingOutcome, RingReady, RingRoster, RingStall, RingSum,
};
use tributary_protocol::id::{AssignmentId, GroupId};
use tributary_protocol::state::{AssignmentState, RingState, Task};

use super::addresses::reachable;
use super::step::policy_of;
use crate::db::{ClientRow, DbError, RingAttemptRow, RingMemberRow, RingStanding, RoundKey, RoundRow, Tx};
use crate::fleet::Fleet;
use crate::lifecycle::assignments::{self, Refusal};
use crate::lifecycle::rings;
use crate::services::Services;

/// What a member waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// An attempt after this one.
    Attempt(u32),
    /// What comes after its sum of this attempt.
    Outcome(u32),
}

/// A client has finished, and tells where others reach it.
pub(crate) async fn ready(
    services: &Services,
    client: &ClientRow,
    id: AssignmentId,
    ready: &RingReady,
    seen: Option<IpAddr>,
) -> Result<(), Refusal> {
    let (_, round) = assignments::find(&mut services.db.read().await?, client.id, id, Some(Task::Train)).await?;
    let spec = services.spec(&mut services.db.look().await?, round.job).await?.ok_or_else(DbError::lost)?;
    if spec.file.group.is_none() {
        return Err(Refusal::OtherForm("the members of this job do not add up among themselves"));
    }
    let weight_max = spec.plan.weight_max;
    if !(1..=weight_max).contains(&ready.report.weight) {
        return Err(Refusal::Message(format!(
            "a weight of {}, where 1 to {weight_max} are allowed",
            ready.report.weight
        )));
    }
    let member = reachable(&ready.member, seen, &client.granted.0).map_err(Refusal::Message)?;
    rings::ready(services, client.id, id, (ready, &member)).await
}

/// A member has the sum of its attempt.
pub(crate) async fn outcome(
    services: &Services,
    client: &ClientRow,
    id: AssignmentId,
    outcome: &RingOutcome,
) -> Result<(), Refusal> {
    let Some((round, group)) = attempt(services, client, id, outcome.attempt).await? else { return Ok(()) };
    match rings::outcome(services, round, (group, id), outcome).await? {
        true => Ok(()),
        false => Err(Refusal::Conflict(id)),
    }
}

/// A member could not go on.
pub(crate) async fn stall(
    services: &Services,
    client: &ClientRow,
    id: AssignmentId,
    stall: &RingStall,
) -> Result<(), Refusal> {
    let Some((round, group)) = attempt(services, client, id, stall.attempt).await? else { return Ok(()) };
    Ok(rings::stall(services, round, (group, id), stall).await?)
}

/// The attempt of this number, if it is the newest of which the client is a member.
async fn attempt(
    services: &Services,
    client: &ClientRow,
    id: AssignmentId,
    number: u32,
) -> Result<Option<(RoundKey, GroupId)>, Refusal> {
    let mut tx = services.db.read().await?;
    let (_, round) = assignments::find(&mut tx, client.id, id, Some(Task::Train)).await?;
    let attempt = tx.ring_attempt_of(id).await?.filter(|attempt| attempt.number == number);
    Ok(attempt.map(|attempt| (round.key(), attempt.id)))
}

/// The answer that a member waits for; none while there is none.
pub(crate) async fn answer(
    services: &Services,
    fleet: &Fleet,
    client: &ClientRow,
    id: AssignmentId,
    ask: Ask,
) -> Result<Option<RingAnswer>, Refusal> {
    let standing = services.db.look().await?.ring_standing(id).await?;
    if standing.is_some_and(|standing| !is_due(&standing, ask)) {
        return Ok(None);
    }
    let mut tx = services.db.read().await?;
    let (assignment, round) = assignments::find(&mut tx, client.id, id, Some(Task::Train)).await?;
    if assignment.state == AssignmentState::Reported {
        drop(tx);
        let retry_after_ms = fleet.retry_of(services, client, RetryReason::Reported).await?;
        return Ok(Some(RingAnswer::Done { retry_after_ms }));
    }
    if assignment.state == AssignmentState::Rejected {
        return Err(Refusal::Rejected(assignment.reason.unwrap_or_default()));
    }
    assignments::require_held(&assignment, &round)?;
    if tx.ring_star(round.key()).await?.is_some() {
        return Ok(Some(RingAnswer::Star));
    }
    let attempt = tx.ring_attempt_of(id).await?;
    let is_newer = |seen: u32| move |attempt: &RingAttemptRow| attempt.number > seen;
    match (ask, attempt) {
        (Ask::Attempt(seen), Some(attempt)) if is_newer(seen)(&attempt) && attempt.state == RingState::Formed => {
            let roster = roster(services, &mut tx, &round, &attempt, id).await?;
            Ok(Some(RingAnswer::Formed(Box::new(roster))))
        }
        (Ask::Attempt(_), _) => Ok(None),
        (Ask::Outcome(number), Some(attempt)) if attempt.number == number => match attempt.state {
            RingState::Formed => Ok(None),
            RingState::Agreed if assignment.is_of_group() => {
                Ok(Some(RingAnswer::Upload(sum_of(&tx.ring_members(attempt.id).await?))))
            }
            RingState::Agreed | RingState::Counted => Ok(None),
            RingState::Failed => Ok(Some(RingAnswer::Over)),
        },
        (Ask::Outcome(_), _) => Ok(Some(RingAnswer::Over)),
    }
}

/// Whether there may be an answer.
fn is_due(standing: &RingStanding, ask: Ask) -> bool {
    let has_ended = !standing.is_open || standing.is_star;
    has_ended
        || match (ask, standing.attempt()) {
            (Ask::Attempt(seen), attempt) => attempt.is_some_and(|(number, _)| number > seen),
            (Ask::Outcome(told), Some((number, RingState::Formed))) => number != told,
            (Ask::Outcome(told), Some((number, RingState::Agreed))) => number != told || standing.is_asked,
            (Ask::Outcome(_), _) => true,
        }
}

async fn roster(
    services: &Services,
    tx: &mut Tx,
    round: &RoundRow,
    attempt: &RingAttemptRow,
    id: AssignmentId,
) -> Result<RingRoster, Refusal> {
    let spec = services.spec(tx, round.job).await?.ok_or_else(DbError::lost)?.with_cohort(round.policy().sum_size());
    let members = tx.ring_members(attempt.id).await?;
    let rank = members.iter().position(|member| member.assignment == id).ok_or_else(DbError::lost)?;
    let point = spec.caps.binary_point().map_err(|error| DbError::corrupt("the caps of a job", error))?;
    let RingPolicy { frame_ms, star_from_ms, .. } = policy_of(&spec, round).ok_or_else(DbError::lost)?;
    let uniform = spec.caps.weight_max == Weight::examples(1);
    let weight: u64 = match uniform {
        true => members.len() as u64,
        false => members.iter().map(|member| u64::from(member.ready.weight)).sum(),
    };
    Ok(RingRoster {
        group: attempt.id,
        attempt: attempt.number,
        rank: u16::try_from(rank).unwrap_or(u16::MAX),
        members: members.iter().map(|member| member.ready.member()).collect::<Vec<RingMember>>(),
        uniform,
        weight: Weight::of_examples(weight).ok_or_else(DbError::lost)?.units(),
        binary_point: point,
        value_max: spec.caps.value_max(point).unsigned_abs(),
        frame_ms: frame_ms.unsigned_abs(),
        ends_in_ms: star_from_ms.saturating_sub(services.clock.now_ms()).max(0).unsigned_abs(),
    })
}

/// What the updates of members come to, beside their values.
fn sum_of(members: &[RingMemberRow]) -> RingSum {
    let ready = || members.iter().map(|member| &member.ready);
    let told = || ready().filter_map(|ready| Some((ready.loss?, f64::from(ready.weight))));
    let weight: f64 = told().map(|(_, weight)| weight).sum();
    RingSum {
        examples: ready().map(|ready| u64::from(ready.weight)).sum(),
        loss: (weight > 0.0).then(|| told().map(|(loss, weight)| loss * weight).sum::<f64>() / weight),
        steps: ready().fold(0, |steps: u64, ready| steps.saturating_add(ready.steps)),
        train_ms: ready().fold(0, |train_ms: u64, ready| train_ms.saturating_add(ready.work_ms)),
    }
}
