//! Links through the coordinator: two neighbours that cannot reach each other both call, and their bytes are passed on.
//!
//! What they send is TLS between them, so the coordinator sees sizes and times. A link is named by the member that
//! sends over it: its other end is the next one around the ring. It ends with its attempt, when it is silent, or when
//! either side has gone.

mod meeting;
mod splice;

use std::sync::Arc;

use futures_util::future::join;
use hyper_util::rt::TokioIo;
use tributary_protocol::id::GroupId;
use tributary_protocol::state::RingState;

use super::step::policy_of;
use crate::db::{ClientRow, DbError};
use crate::guard::LinkPace;
use crate::services::Services;
pub(crate) use meeting::{Meetings, Side};
use meeting::{Met, Turn};
use splice::splice;

/// How often it is looked whether the attempt of a link goes on, in milliseconds.
const LOOK_MS: i64 = 1_000;

/// Why there is no link.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkRefusal {
    #[error("there is no such link")]
    NotFound,
    #[error("the client is at no end of this link")]
    Forbidden,
    #[error("{0}")]
    Closed(&'static str),
    #[error("another coordinator has this link: call again over a new connection")]
    Elsewhere,
    #[error(transparent)]
    Db(#[from] DbError),
}

/// A link that its two members may have.
#[derive(Clone, Copy, Debug)]
struct Link {
    group: GroupId,
    /// The member that sends.
    rank: u16,
    /// Longest silence, in milliseconds.
    frame_ms: i64,
    /// When members send their own updates.
    ends_at_ms: i64,
}

/// Waits for the other member, and has the bytes of both passed on once their connections are upgraded.
///
/// # Errors
/// [`LinkRefusal`] if the client may not have this link, or the other member does not call in time.
pub(crate) async fn meet(
    services: &Services,
    (meetings, pace): (&Arc<Meetings>, &Arc<LinkPace>),
    client: &ClientRow,
    (group, rank): (GroupId, u16),
    side: Side,
) -> Result<(), LinkRefusal> {
    let (link, is_sender) = find(services, client, group, rank).await?;
    if !claims(services, &link).await? {
        return Err(LinkRefusal::Elsewhere);
    }
    let waiting = match meetings.join((group, rank), is_sender, side) {
        Turn::Taken => return Err(LinkRefusal::Closed("both members have this link")),
        Turn::Second => return Ok(()),
        Turn::First(waiting) => waiting,
    };
    let clock = &services.clock;
    let met = tokio::select! {
        met = waiting.met() => met.ok_or("the member has called again"),
        () = clock.sleep_until(clock.now_ms().saturating_add(link.frame_ms)) => Err("the other member did not call"),
        () = services.stopping.cancelled() => Err("the coordinator stops"),
    };
    let met = met.map_err(LinkRefusal::Closed)?;
    let (services, pace, population) = (services.clone(), Arc::clone(pace), client.population.clone());
    tokio::spawn(async move {
        let clock = &services.clock;
        let may_pass = |bytes| clock.sleep_until(pace.take(&population, bytes, clock.now_ms()));
        let bytes = carried(&services, &link, met, may_pass).await;
        tracing::debug!(%group, rank, bytes, "a link through the coordinator has ended");
        if let Err(error) = note(&services, &link, bytes).await {
            tracing::warn!(%error, %group, rank, "what a link has passed on is not counted");
        }
    });
    Ok(())
}

/// The link, and whether the client is the one that sends over it.
async fn find(services: &Services, client: &ClientRow, group: GroupId, rank: u16) -> Result<(Link, bool), LinkRefusal> {
    let mut tx = services.db.read().await?;
    let attempt = tx.ring_round(group).await?.ok_or(LinkRefusal::NotFound)?;
    let members = tx.ring_members(group).await?;
    let sender = members.get(usize::from(rank)).ok_or(LinkRefusal::NotFound)?;
    let receiver = &members[(usize::from(rank) + 1) % members.len()];
    let own = [sender, receiver].into_iter().find(|member| member.ready.client == client.id);
    let own = own.ok_or(LinkRefusal::Forbidden)?;
    if !sender.is_relayed() {
        return Err(LinkRefusal::Closed("these members connect to each other"));
    }
    if attempt.state != RingState::Formed || !own.is_open {
        return Err(LinkRefusal::Closed("the group has ended"));
    }
    let round = tx.round(attempt.key()).await?.ok_or_else(DbError::lost)?;
    let spec = services.spec(&mut tx, round.job).await?.ok_or_else(DbError::lost)?;
    let policy = policy_of(&spec, &round).ok_or(LinkRefusal::Closed("the round has ended"))?;
    let link = Link { group, rank, frame_ms: policy.frame_ms, ends_at_ms: policy.star_from_ms };
    Ok((link, own.assignment == sender.assignment))
}

/// Whether this coordinator is the one that both members must call.
async fn claims(services: &Services, link: &Link) -> Result<bool, DbError> {
    let mut tx = services.db.begin().await?;
    let is_ours = tx.claim_ring_link(link.group, link.rank, &services.node).await?;
    tx.commit().await?;
    Ok(is_ours)
}

/// Passes bytes on until the link ends, each piece after `may_pass`. Returns how many have passed.
async fn carried<P: Future>(services: &Services, link: &Link, met: Met, may_pass: impl Fn(usize) -> P) -> u64 {
    let Met { sides: [one, other], taken: _taken } = met;
    let (_one_kept, _other_kept) = (one.kept, other.kept);
    let clock = &services.clock;
    let silence = || clock.sleep_until(clock.now_ms().saturating_add(link.frame_ms));
    let upgraded = tokio::select! {
        (one, other) = join(one.upgrade, other.upgrade) => one.ok().zip(other.ok()),
        () = silence() => None,
    };
    let Some((one, other)) = upgraded else { return 0 };
    splice([one, other].map(TokioIo::new), may_pass, silence, over(services, link)).await
}

/// Ends when the attempt has, or the coordinator stops. What cannot be read is looked at again.
async fn over(services: &Services, link: &Link) {
    let clock = &services.clock;
    loop {
        let now_ms = clock.now_ms();
        tokio::select! {
            () = services.stopping.cancelled() => return,
            () = clock.sleep_until(link.ends_at_ms.min(now_ms.saturating_add(LOOK_MS))) => {}
        }
        let state = async { services.db.read().await?.ring_round(link.group).await };
        let goes_on = state.await.is_ok_and(|row| row.is_some_and(|row| row.state == RingState::Formed));
        if !goes_on || clock.now_ms() >= link.ends_at_ms {
            return;
        }
    }
}

/// Counts what has passed.
async fn note(services: &Services, link: &Link, bytes: u64) -> Result<(), DbError> {
    let mut tx = services.db.begin().await?;
    tx.add_ring_link(link.group, link.rank, bytes).await?;
    tx.commit().await?;
    services.signals.changed_for_watchers();
    Ok(())
}
