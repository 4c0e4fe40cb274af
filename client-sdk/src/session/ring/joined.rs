//! An open group of members that exchange while they train.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{join, select};
use tokio::sync::oneshot;
use tributary_collective::{Mixer, Reduced, RingError, RingPlace, RingTraffic, Turns};
use tributary_collective::{all_reduce_in_turn, average, give_up, keep_alive};
use tributary_protocol::graph::links;
use tributary_protocol::group::messages::{RingRoster, RingStall};
use tributary_protocol::plan::Gossip;
use tributary_protocol::seed::Seed;

use super::member::{Member, Waits, place_of, stall_of};
use crate::clock::within;
use crate::group::Link;
use crate::platform::Background;

/// A member's place in an open group, with the links to its neighbours.
pub(super) struct Joined {
    pub(super) roster: RingRoster,
    place: RingPlace,
    links: (Turns<Link>, Turns<Link>),
    /// The links along the edges of the graph, where members mix.
    mixer: Option<Mixer<Link>>,
    timer: Waits,
    pub(super) began_ms: u64,
    /// When the group is over.
    ends_ms: u64,
    /// Bytes that were sent along the ring, and received.
    traffic: (u64, u64),
}

/// Why there is no result.
pub(super) enum Lost {
    /// The group has ended; whom the member could not go on with, if it is anybody.
    Stalled(Option<RingStall>),
    /// The member's own values are too far from those of the last exchange.
    Diverged,
}

impl Joined {
    /// Connects to all neighbours. The error says whom the member could not reach.
    pub(super) async fn connect(
        member: &Member<'_>,
        roster: RingRoster,
        gossip: Option<Gossip>,
    ) -> Result<Self, Option<RingStall>> {
        let place = place_of(&roster).ok_or(None)?;
        let (began_ms, timer) = (member.clock().now_ms(), member.timer());
        let links = member.links(&roster, &place, Turns::new).await?;
        let ends_ms = began_ms.saturating_add(roster.ends_in_ms);
        let traffic = (0, 0);
        let mut joined = Self { roster, place, links, mixer: None, timer, began_ms, ends_ms, traffic };
        if let Some(gossip) = gossip {
            match edges(member, (&joined.roster, &place), gossip).await {
                Ok(mixer) => joined.mixer = Some(mixer),
                Err(stall) => {
                    let blamed = stall.map_or(place.rank, |stall| stall.rank);
                    let ((left, right), timer) = (joined.links, &joined.timer);
                    join(give_up(&place, blamed, left, timer), give_up(&place, blamed, right, timer)).await;
                    return Err(stall);
                }
            }
        }
        Ok(joined)
    }

    /// Bytes that were sent to other members, and received from them.
    pub(super) fn traffic(&self) -> (u64, u64) {
        let (sent, received) = self.mixer.as_ref().map_or((0, 0), Mixer::traffic);
        (self.traffic.0 + sent, self.traffic.1 + received)
    }

    /// The mean of the members' values, of which all have had the anchor.
    pub(super) async fn mean(&mut self, member: &Member<'_>, anchor: &[f32], values: &[f32]) -> Result<Vec<f32>, Lost> {
        let limit = self.limit(member);
        let (left, right) = &mut self.links;
        let mean = average(&self.place, self.roster.binary_point, (anchor, values), (left, right), &self.timer);
        let (mean, traffic) = ended(self.roster.attempt, within(member.clock(), limit, mean).await)?;
        self.moved(traffic);
        Ok(mean)
    }

    /// Mixes the model with those of the neighbours, and waits until all members have done so.
    pub(super) async fn mix(&mut self, member: &Member<'_>, mixes: u32, model: &mut [i64]) -> Result<(), Lost> {
        let limit = self.limit(member);
        let Self { place, links: (left, right), mixer, timer, .. } = self;
        let mixed = async {
            let mut mixed = Ok(());
            let mixing = async {
                for _ in 0..mixes {
                    if let (Some(mixer), Ok(())) = (&mut *mixer, &mixed) {
                        mixed = mixer.mix(model, timer).await;
                    }
                }
            };
            keep_alive(place, (&mut *left, &mut *right), timer, mixing).await;
            if let Err(error) = mixed {
                // A neighbour blames whoever ends a link, unless it is told which member failed.
                let blamed = blamed(place, &error);
                join(give_up(place, blamed, &mut *left, timer), give_up(place, blamed, &mut *right, timer)).await;
                return Err(error);
            }
            // A member that is lost costs all others the same exchange.
            all_reduce_in_turn(place, &Vec::new(), (left, right), timer).await.map(drop)
        };
        ended(self.roster.attempt, within(member.clock(), limit, mixed).await)
    }

    /// The sum of the members' integers.
    pub(super) async fn sum(&mut self, member: &Member<'_>, own: &Vec<i64>) -> Result<Reduced, Lost> {
        let limit = self.limit(member);
        let (left, right) = &mut self.links;
        let sum = all_reduce_in_turn(&self.place, own, (left, right), &self.timer);
        let sum = ended(self.roster.attempt, within(member.clock(), limit, sum).await)?;
        self.moved(sum.traffic());
        Ok(sum)
    }

    fn moved(&mut self, traffic: RingTraffic) {
        self.traffic.0 += traffic.sent_bytes;
        self.traffic.1 += traffic.received_bytes;
    }

    /// Waits until all members do the same.
    pub(super) async fn meets(&mut self, member: &Member<'_>) -> Result<(), Lost> {
        self.sum(member, &Vec::new()).await.map(drop)
    }

    /// Tells the neighbours that this member lives while it waits for something else.
    pub(super) async fn alive_while<T>(&mut self, other: impl Future<Output = T>) -> T {
        let Self { place, links: (left, right), timer, .. } = self;
        keep_alive(place, (left, right), timer, other).await
    }

    /// The group has until then.
    pub(super) fn lasts_until(&mut self, ends_ms: u64) {
        self.ends_ms = ends_ms;
    }

    /// What takes longer is over: the coordinator has let members send their own updates.
    fn limit(&self, member: &Member<'_>) -> Duration {
        Duration::from_millis(self.ends_ms.saturating_sub(member.clock().now_ms()))
    }
}

fn blamed(place: &RingPlace, error: &RingError) -> u16 {
    match error {
        RingError::Neighbour { rank, .. } | RingError::Aborted { rank, .. } => *rank,
        RingError::Own { .. } | RingError::Stalled { .. } | RingError::Place(_) => place.rank,
    }
}

fn ended<T>(attempt: u32, done: Option<Result<T, RingError>>) -> Result<T, Lost> {
    match done {
        Some(Ok(done)) => Ok(done),
        Some(Err(RingError::Own { .. })) => Err(Lost::Diverged),
        Some(Err(error)) => Err(Lost::Stalled(stall_of(attempt, &error))),
        None => Err(Lost::Stalled(None)),
    }
}

/// The links along the edges of the graph.
async fn edges(
    member: &Member<'_>,
    (roster, place): (&RingRoster, &RingPlace),
    gossip: Gossip,
) -> Result<Mixer<Link>, Option<RingStall>> {
    let [seed, _] = roster.group.as_bytes().as_chunks::<8>().0 else { return Err(None) };
    let place_in = (place.rank, place.members);
    let edges = match roster.edges.as_slice() {
        [] => gossip.graph.links(place_in, Seed(u64::from_le_bytes(*seed))),
        named => links(named, place_in),
    };
    let links = member.edges(roster, place, &edges).await?;
    Ok(Mixer::new(*place, (roster.binary_point, gossip.codec), links))
}

/// Does other work while a background task tells the neighbours that this member lives. A runtime with a single thread
/// has no such task: there, work that takes longer than `frame_ms` makes the member look silent.
pub(super) async fn alive_during<T>(group: &mut Option<Joined>, work: impl FnOnce() -> T) -> T {
    let Some(background) = Background::here() else { return work() };
    let Some(mut joined) = group.take() else { return work() };
    let (ends, ended) = oneshot::channel::<()>();
    let (gives, back) = oneshot::channel();
    background.run(async move {
        let Joined { place, links: (left, right), mixer, timer, .. } = &mut joined;
        let until = async {
            match mixer {
                Some(mixer) => drop(select(pin!(mixer.keep_alive(timer)), ended).await),
                None => drop(ended.await),
            }
        };
        keep_alive(place, (left, right), timer, until).await;
        drop(gives.send(joined));
    });
    let done = work();
    drop(ends);
    *group = back.await.ok();
    done
}
