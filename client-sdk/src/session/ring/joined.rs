//! An open group of members that exchange while they train.

use std::time::Duration;

use tokio::sync::oneshot;
use tributary_collective::{RingError, RingPlace, Turns, average, keep_alive};
use tributary_protocol::group::messages::{RingRoster, RingStall};

use super::member::{Member, Waits, place_of, stall_of};
use crate::clock::within;
use crate::group::Link;
use crate::platform::Background;

/// A member's place in an open group, with the links to its neighbours.
pub(super) struct Joined {
    pub(super) roster: RingRoster,
    place: RingPlace,
    links: (Turns<Link>, Turns<Link>),
    timer: Waits,
    pub(super) began_ms: u64,
    pub(super) sent_bytes: u64,
    pub(super) received_bytes: u64,
}

/// Why there is no mean.
pub(super) enum Lost {
    /// The group has ended; whom the member could not go on with, if it is anybody.
    Stalled(Option<RingStall>),
    /// The member's own values are too far from those of the last exchange.
    Diverged,
}

impl Joined {
    /// Connects to both neighbours. The error says whom the member could not reach.
    pub(super) async fn connect(member: &Member<'_>, roster: RingRoster) -> Result<Self, Option<RingStall>> {
        let place = place_of(&roster).ok_or(None)?;
        let began_ms = member.clock().now_ms();
        let (left, right) = member.links(&roster, &place).await?;
        let links = (Turns::new(left), Turns::new(right));
        Ok(Self { roster, place, links, timer: member.timer(), began_ms, sent_bytes: 0, received_bytes: 0 })
    }

    /// The mean of the members' values, of which all have had the anchor.
    pub(super) async fn mean(&mut self, member: &Member<'_>, anchor: &[f32], values: &[f32]) -> Result<Vec<f32>, Lost> {
        // What takes longer is over: the coordinator has let members send their own updates.
        let ends_ms = self.began_ms.saturating_add(self.roster.ends_in_ms);
        let limit = Duration::from_millis(ends_ms.saturating_sub(member.clock().now_ms()));
        let (left, right) = &mut self.links;
        let mean = average(&self.place, self.roster.binary_point, (anchor, values), (left, right), &self.timer);
        match within(member.clock(), limit, mean).await {
            Some(Ok((mean, traffic))) => {
                self.sent_bytes += traffic.sent_bytes;
                self.received_bytes += traffic.received_bytes;
                Ok(mean)
            }
            Some(Err(RingError::Own { .. })) => Err(Lost::Diverged),
            Some(Err(error)) => Err(Lost::Stalled(stall_of(self.roster.attempt, &error))),
            None => Err(Lost::Stalled(None)),
        }
    }
}

/// Does other work while the neighbours are told that this member lives. On a runtime with a single thread nobody tells
/// them: work that takes longer than the time of a frame makes the member look silent.
pub(super) async fn alive_during<T>(group: &mut Option<Joined>, work: impl FnOnce() -> T) -> T {
    let Some(background) = Background::here() else { return work() };
    let Some(mut joined) = group.take() else { return work() };
    let (ends, ended) = oneshot::channel::<()>();
    let (gives, back) = oneshot::channel();
    background.run(async move {
        let (left, right) = &mut joined.links;
        let ended = async { drop(ended.await) };
        keep_alive(&joined.place, (left, right), &joined.timer, ended).await;
        drop(gives.send(joined));
    });
    let done = work();
    drop(ends);
    *group = back.await.ok();
    done
}
