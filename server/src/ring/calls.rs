//! What members of a group say, and what they are told.

use std::net::IpAddr;

use tributary_engine::round::RetryReason;
use tributary_engine::round::ring::{RingPolicy, named_edges, next_rate};
use tributary_protocol::fixed::Weight;
use tributary_protocol::group::messages::{
    RingAnswer, RingMember, RingOutcome, RingReady, RingReport, RingRoster, RingStall, RingSum,
};
use tributary_protocol::id::{AssignmentId, ClientId, GroupId};
use tributary_protocol::state::{AssignmentState, RingState, Task};

use super::addresses::reachable;
use super::step::policy_of;
use crate::db::{ClientRow, DbError, RingAttemptRow, RingMemberRow, RoundKey, Tx};
use crate::fleet::Fleet;
use crate::lifecycle::assignments::{self, Refusal};
use crate::lifecycle::rings;
use crate::services::Services;
use crate::updates::figures::Training;

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
    let mut tx = services.db.read().await?;
    let (assignment, round) = assignments::find(&mut tx, client.id, id, Some(Task::Train)).await?;
    let spec = services.spec(&mut tx, round.job).await?.ok_or_else(DbError::lost)?;
    drop(tx);
    if spec.file.group.is_none() {
        return Err(Refusal::OtherForm("the members of this job do not add up among themselves"));
    }
    let RingReport { weight, loss, steps, .. } = ready.report;
    // The loss of a training that has not begun comes with its outcome.
    let loss = if spec.plan.exchange.is_some() { Some(0.0) } else { loss };
    // They become those of the sum, for which another member answers.
    Training { weight, steps, loss }.check(&assignment, &spec).map_err(Refusal::Message)?;
    let member = reachable(&ready.member, seen, &client.granted.0).map_err(Refusal::Message)?;
    rings::ready(services, (&assignment, &round), (ready, &member)).await
}

/// A member has the sum of its attempt.
pub(crate) async fn outcome(
    services: &Services,
    client: &ClientRow,
    id: AssignmentId,
    outcome: &RingOutcome,
) -> Result<(), Refusal> {
    let Some((round, group)) = attempt(services, client, id, outcome.attempt).await? else { return Ok(()) };
    if outcome.distance.is_some_and(|distance| !(0.0..=f64::MAX).contains(&distance)) {
        return Err(Refusal::Message("the distance from the mean is none".into()));
    }
    if let Some(RingReport { weight, loss, steps, .. }) = outcome.report {
        let mut tx = services.db.read().await?;
        let (assignment, row) = assignments::find(&mut tx, client.id, id, Some(Task::Train)).await?;
        let spec = services.spec(&mut tx, row.job).await?.ok_or_else(DbError::lost)?;
        Training { weight, steps, loss }.check(&assignment, &spec).map_err(Refusal::Message)?;
    }
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

/// The answer that a member waits for; none while there is none. Its assignment is the client's own.
pub(crate) async fn answer(
    services: &Services,
    fleet: &Fleet,
    client: &ClientRow,
    id: AssignmentId,
    ask: Ask,
) -> Result<Option<RingAnswer>, Refusal> {
    // All that wait look after each change, and most changes concern one of them: one row says so.
    let standing = services.db.look().await?.ring_standing(id).await?;
    let standing = standing.ok_or_else(|| Refusal::NotFound(id.to_string()))?;
    if !standing.is_open {
        return ended(services, fleet, client, id).await.map(Some);
    }
    if standing.is_star {
        return Ok(Some(RingAnswer::Star));
    }
    match (ask, standing.attempt()) {
        (Ask::Attempt(seen), Some((number, RingState::Formed))) if number > seen => {
            roster(services, client.id, id, number).await
        }
        (Ask::Attempt(_), _) => Ok(None),
        (Ask::Outcome(told), Some((number, state))) if number == told => match state {
            RingState::Agreed if standing.is_asked => sum(services, id, number).await,
            RingState::Formed | RingState::Agreed | RingState::Counted => Ok(None),
            RingState::Failed => Ok(Some(RingAnswer::Over)),
        },
        (Ask::Outcome(_), _) => Ok(Some(RingAnswer::Over)),
    }
}

/// The answer to a member whose assignment has ended.
async fn ended(
    services: &Services,
    fleet: &Fleet,
    client: &ClientRow,
    id: AssignmentId,
) -> Result<RingAnswer, Refusal> {
    let (assignment, round) = assignments::find(&mut services.db.read().await?, client.id, id, None).await?;
    match assignment.state {
        AssignmentState::Reported => {
            let retry_after_ms = fleet.retry_of(services, client, RetryReason::Reported).await?;
            Ok(RingAnswer::Done { retry_after_ms })
        }
        AssignmentState::Rejected => Err(Refusal::Rejected(assignment.reason.unwrap_or_default())),
        _ => Err(assignments::closed(&assignment, &round)),
    }
}

/// The attempt that the member is in, if it has still formed; it may have moved on since the member's row was read.
async fn roster(
    services: &Services,
    client: ClientId,
    id: AssignmentId,
    number: u32,
) -> Result<Option<RingAnswer>, Refusal> {
    let mut tx = services.db.read().await?;
    let (_, round) = assignments::find(&mut tx, client, id, None).await?;
    let Some(attempt) = in_state(&mut tx, id, (number, RingState::Formed)).await? else { return Ok(None) };
    let spec =
        services.spec(&mut tx, round.job).await?.ok_or_else(DbError::lost)?.with_cohort(round.policy().sum_size());
    let members = tx.ring_members(attempt.id).await?;
    let rank = members.iter().position(|member| member.assignment == id).ok_or_else(DbError::lost)?;
    let point = spec.caps.binary_point().map_err(|error| DbError::corrupt("the caps of a job", error))?;
    let RingPolicy { frame_ms, star_from_ms, .. } = policy_of(&spec, &round).ok_or_else(DbError::lost)?;
    let uniform = spec.caps.weight_max == Weight::examples(1);
    let weight: u64 = match uniform {
        true => members.len() as u64,
        false => members.iter().map(|member| u64::from(member.ready.weight)).sum(),
    };
    let group = spec.file.group.as_ref();
    let numbers: Vec<u64> = members.iter().map(|member| member.ready.number).collect();
    Ok(Some(RingAnswer::Formed(Box::new(RingRoster {
        group: attempt.id,
        attempt: attempt.number,
        rank: u16::try_from(rank).unwrap_or(u16::MAX),
        members: members.iter().map(|member| member.ready.member()).collect::<Vec<RingMember>>(),
        uniform,
        weight: Weight::of_examples(weight).ok_or_else(DbError::lost)?.units(),
        binary_point: point,
        value_max: spec.caps.value_max(point).unsigned_abs(),
        next_rate: next_rate(&spec.file, &spec.parts, round.base_version),
        grid_bits: group.and_then(|group| group.grid_bits),
        frame_ms: frame_ms.unsigned_abs(),
        exchanged: attempt.exchanged,
        ends_in_ms: star_from_ms.saturating_sub(services.clock.now_ms()).max(0).unsigned_abs(),
        relayed: (0u16..).zip(&members).filter(|(_, member)| member.is_relayed()).map(|(rank, _)| rank).collect(),
        edges: group.map(|group| named_edges(&group.edges, &numbers)).unwrap_or_default(),
    }))))
}

/// The sum that the member is asked for, if its attempt has still agreed.
async fn sum(services: &Services, id: AssignmentId, number: u32) -> Result<Option<RingAnswer>, Refusal> {
    let mut tx = services.db.read().await?;
    let Some(attempt) = in_state(&mut tx, id, (number, RingState::Agreed)).await? else { return Ok(None) };
    Ok(Some(RingAnswer::Upload(sum_of(&tx.ring_members(attempt.id).await?))))
}

async fn in_state(
    tx: &mut Tx,
    id: AssignmentId,
    (number, state): (u32, RingState),
) -> Result<Option<RingAttemptRow>, DbError> {
    let attempt = tx.ring_attempt_of(id).await?;
    Ok(attempt.filter(|attempt| attempt.number == number && attempt.state == state))
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
