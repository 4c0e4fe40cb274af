//! A group forms: who is next to whom, and which links go through the coordinator.

use std::collections::HashMap;

use tributary_engine::job::JobSpec;
use tributary_engine::round::ring::{Way, around, avoiding, relayed, star_is_less};
use tributary_protocol::group::messages::GROUP_MAX;
use tributary_protocol::id::{AssignmentId, ClientId, GroupId};
use tributary_protocol::job_file::{Links, Order};
use tributary_protocol::state::StarReason;
use tributary_protocol::update::bytes_max;

use crate::db::{DbError, RingPairRow, RingReadyRow, RoundRow};
use crate::lifecycle::rings;
use crate::runtime::entropy;
use crate::services::Services;

/// How long what is known of a way between two clients is believed, in milliseconds: a day.
const KNOWN_MS: i64 = 86_400_000;

/// Forms a group of the members that are ready, or begins the star where that is less for the coordinator.
pub(super) async fn form(
    services: &Services,
    spec: &JobSpec,
    (round, attempt): (&RoundRow, u32),
    mut members: Vec<RingReadyRow>,
) -> Result<(), DbError> {
    let key = round.key();
    // More than a roster may name were drawn: those with the lowest numbers are in it.
    members.truncate(GROUP_MAX as usize);
    let (links, order) = spec.file.group.as_ref().map(|group| (group.links, group.order)).unwrap_or_default();
    let ways = match (links, order) {
        (Links::Direct, Order::Enrolment) => HashMap::new(),
        _ => ways(services, round).await?,
    };
    let way = |from: &RingReadyRow, to: &RingReadyRow| ways.get(&(from.client, to.client)).copied();
    around(&mut members, |member| member.number, round.seed(), attempt);
    if order == Order::Measured {
        avoiding(&mut members, |from, to| way(from, to).unwrap_or_default(), round.seed());
    }
    let places = match links {
        Links::Any => relayed(&members, |from, to| way(from, to) == Some(Way::Closed)),
        Links::Direct => Vec::new(),
    };
    let update_bytes = bytes_max(&spec.update, spec.plan.codec);
    if star_is_less([members.len(), places.len()], spec.update.total(), update_bytes) {
        return rings::star(services, key, None, StarReason::Links).await;
    }
    let exchanged = members.iter().map(|member| member.exchanged).min().unwrap_or_default();
    let members = members.iter().enumerate().map(|(place, member)| (member.assignment, places.contains(&place)));
    let members: Vec<(AssignmentId, bool)> = members.collect();
    rings::form(services, (GroupId::from_random(entropy::random()), key, attempt), (&members, exchanged)).await
}

/// What was lately found out of the ways between clients that have finished.
async fn ways(services: &Services, round: &RoundRow) -> Result<HashMap<(ClientId, ClientId), Way>, DbError> {
    let since_ms = services.clock.now_ms().saturating_sub(KNOWN_MS);
    let is_lately = |at_ms: Option<i64>| at_ms.is_some_and(|at_ms| at_ms >= since_ms);
    let way = |pair: &RingPairRow| match pair.kbit_s.and_then(|kbit_s| u64::try_from(kbit_s).ok()) {
        _ if is_lately(pair.unreachable_at_ms) => Way::Closed,
        Some(kbit_s) if is_lately(pair.measured_at_ms) => Way::Measured { kbit_s },
        _ => Way::Unknown,
    };
    let pairs = services.db.read().await?.ring_pairs(round.key()).await?;
    Ok(pairs.iter().map(|pair| ((pair.sender, pair.receiver), way(pair))).collect())
}
