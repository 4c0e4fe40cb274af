//! A member of a group: its calls to the coordinator, and its links to the others.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{join, join_all};
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncWrite};
use tributary_collective::{Fault, RingError, RingPlace, Timer, give_up};
use tributary_protocol::device::{Assignment, ReportAccepted};
use tributary_protocol::fixed::{Contribution, Weight};
use tributary_protocol::group::FRAME_BYTES;
use tributary_protocol::group::grid::{GRID_BITS_MAX, GRID_BITS_MIN};
use tributary_protocol::group::messages::{
    RingAnswer, RingMember, RingOutcome, RingReady, RingReport, RingRoster, RingStall,
};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{AssignmentId, Secret};
use tributary_protocol::relay::SumQuery;
use tributary_protocol::state::StallKind;
use tributary_protocol::sum::tag;

use super::super::context::Context;
use super::super::held::held;
use crate::clock::Clock;
use crate::error::ClientError;
use crate::group::{Admission, Link, Listener, Listening, OpenGroup, PeerKey};
use crate::host::Host;
use crate::store::state::Identity;
use crate::transport::upload::{Figures, Upload};

/// A member by its assignment.
pub(super) struct Member<'a> {
    pub(super) context: &'a Context,
    pub(super) secret: &'a Secret,
    id: AssignmentId,
    host: &'a dyn Host,
    listening: &'a Listening,
    pub(super) listener: &'a Listener,
}

impl<'a> Member<'a> {
    pub(super) async fn begin(
        context: &'a Context,
        identity: &'a Identity,
        id: AssignmentId,
        host: &'a dyn Host,
    ) -> Result<Self, ClientError> {
        let listening =
            context.listening.as_deref().ok_or_else(|| unusable("it was given a group, and does not listen"))?;
        let listener = listening.listener(&context.keys, &context.clock).await;
        let listener = listener.map_err(|error| ClientError::Setup(error.to_string()))?;
        Ok(Self { context, secret: &identity.secret, id, host, listening, listener })
    }

    /// Joins the attempt after this one.
    pub(super) async fn ready(
        &self,
        attempt: u32,
        report: RingReport,
        exchanged: u32,
    ) -> Result<RingAnswer, ClientError> {
        let key = PeerKey::own(self.context.keys.as_ref())?.0;
        let member = RingMember { key, addresses: self.listening.addresses(self.listener) };
        self.held("ring", &RingReady { attempt, member, report, exchanged }).await
    }

    pub(super) async fn outcome(&self, outcome: &RingOutcome) -> Result<RingAnswer, ClientError> {
        self.held("ring/outcome", outcome).await
    }

    /// The same while the coordinator is away: it is asked once, so that the group soon knows.
    pub(super) async fn outcome_once(&self, outcome: &RingOutcome) -> Result<RingAnswer, ClientError> {
        let path = self.path("ring/outcome");
        let ask = || self.context.coordinator.held_json_once((self.secret, &path), outcome);
        answer(&held(self.host, ask).await?)
    }

    /// Whether the host lets the session go on.
    pub(super) fn may_continue(&self) -> bool {
        self.host.may_continue()
    }

    /// Tells whom the member could not go on with, if it is anybody.
    pub(super) async fn stalled(&self, stall: Option<RingStall>) -> Result<(), ClientError> {
        let Some(stall) = stall else { return Ok(()) };
        tracing::info!(?stall, "the group cannot go on");
        self.context.coordinator.held_json((self.secret, &self.path("ring/stall")), &stall).await.map(drop)
    }

    /// Brings the sum.
    pub(super) async fn upload(
        &self,
        (body, sha256): (&Bytes, Sha256Hash),
        query: &SumQuery,
    ) -> Result<ReportAccepted, ClientError> {
        let upload = Upload { id: self.id, figures: Figures::Sum(query), body, sha256, begun: false };
        self.context.coordinator.upload(self.secret, &upload).await
    }

    /// The links to both neighbours, each of which is made into what the caller needs. The error says whom the member
    /// could not reach.
    pub(super) async fn links<L: AsyncRead + AsyncWrite + Send>(
        &self,
        roster: &RingRoster,
        place: &RingPlace,
        made: impl Fn(Link) -> L,
    ) -> Result<(L, L), Option<RingStall>> {
        let (left, right) = (place.left(), place.right());
        let group = *roster.group.as_bytes();
        let admission = self.admits(group, roster);
        let accepted =
            async { self.accepted(&admission, left, roster).await.map(&made).map_err(|_| unreachable(roster, left)) };
        let opened =
            async { self.opened(group, right, roster).await.map(&made).map_err(|_| unreachable(roster, right)) };
        // A neighbour blames whoever ends a link, unless it is told which member failed.
        match join(accepted, opened).await {
            (Ok(from), Ok(to)) => Ok((from, to)),
            (Err(stall), Ok(link)) => {
                give_up(place, left, link, &self.timer()).await;
                Err(stall)
            }
            (Ok(link), Err(stall)) => {
                give_up(place, right, link, &self.timer()).await;
                Err(stall)
            }
            (Err(stall), Err(_)) => Err(stall),
        }
    }

    /// The links along the edges of a graph: who is at the other end, the share that flows, and whether this member
    /// opens the link. They are those of a group with an id of its own, because members may also be next to each other.
    pub(super) async fn edges(
        &self,
        roster: &RingRoster,
        place: &RingPlace,
        edges: &[(u16, f64, bool)],
    ) -> Result<Vec<(u16, f64, Link)>, Option<RingStall>> {
        let mut group = *roster.group.as_bytes();
        group[0] ^= 1;
        let admission = self.admits(group, roster);
        let linked = edges.iter().map(async |&(rank, weight, opens)| {
            let link = match opens {
                true => self.opened(group, rank, roster).await,
                false => self.accepted(&admission, rank, roster).await,
            };
            link.map(|link| (rank, weight, link)).map_err(|_| rank)
        });
        let (mut links, mut lost) = (Vec::new(), None);
        for linked in join_all(linked).await {
            match linked {
                Ok(link) => links.push(link),
                Err(rank) => lost = Some(rank),
            }
        }
        let Some(lost) = lost else { return Ok(links) };
        let timer = self.timer();
        join_all(links.into_iter().map(|(.., link)| give_up(place, lost, link, &timer))).await;
        Err(unreachable(roster, lost))
    }

    /// Lets all members of a roster connect for this group.
    fn admits(&self, group: [u8; 16], roster: &RingRoster) -> Admission {
        let peers = roster.members.iter().zip(0u16..).map(|(member, rank)| (rank, PeerKey(member.key)));
        let (attempt, rank) = (roster.attempt, roster.rank);
        self.listener.admit(OpenGroup { group, attempt, rank, peers: peers.collect() })
    }

    /// Asks until there is an answer, or the host ends the session.
    async fn held(&self, call: &str, request: &impl Serialize) -> Result<RingAnswer, ClientError> {
        let path = self.path(call);
        let ask = || self.context.coordinator.held_json((self.secret, &path), request);
        answer(&held(self.host, ask).await?)
    }

    fn path(&self, call: &str) -> String {
        format!("/device/v1/assignments/{}/{call}", self.id)
    }

    pub(super) fn clock(&self) -> &dyn Clock {
        self.context.clock.as_ref()
    }

    pub(super) fn timer(&self) -> Waits {
        Waits(Arc::clone(&self.context.clock))
    }
}

fn answer(json: &[u8]) -> Result<RingAnswer, ClientError> {
    serde_json::from_slice(json).map_err(|error| unusable(&error.to_string()))
}

/// The client's clock.
#[derive(Clone)]
pub(super) struct Waits(Arc<dyn Clock>);

impl Timer for Waits {
    fn sleep(&self, ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.0.sleep(Duration::from_millis(ms))
    }
}

/// The reader's place in the ring of a roster; none if the roster is wrong.
pub(super) fn place_of(roster: &RingRoster) -> Option<RingPlace> {
    let place = RingPlace {
        rank: roster.rank,
        members: u16::try_from(roster.members.len()).unwrap_or(u16::MAX),
        attempt: roster.attempt,
        frame_bytes: FRAME_BYTES,
        frame_ms: roster.frame_ms,
        magnitude_max: roster.value_max,
    };
    let is_grid = roster.grid_bits.is_none_or(|bits| (GRID_BITS_MIN..=GRID_BITS_MAX).contains(&bits));
    let are_edges = roster.edges.iter().all(|(one, other)| one < other && *other < place.members);
    match place.check() {
        Ok(()) if is_grid && are_edges => Some(place),
        checked => {
            tracing::warn!(?checked, grid_bits = roster.grid_bits, are_edges, "the roster of a group is wrong");
            None
        }
    }
}

/// What the body of the sum of a roster's members begins with.
pub(super) fn header(assignment: &Assignment, roster: &RingRoster) -> ([u8; 8], Contribution) {
    let updates = u32::try_from(roster.members.len()).unwrap_or(u32::MAX);
    let contribution = Contribution { weight: Weight::of_units(roster.weight), updates };
    (tag(&assignment.job, assignment.model_version, roster.binary_point), contribution)
}

/// Whom a member could not go on with, if it is anybody.
pub(super) fn stall_of(attempt: u32, error: &RingError) -> Option<RingStall> {
    tracing::debug!(%error, "no sum of a group");
    match error {
        RingError::Neighbour { rank, what, step, .. } => {
            Some(RingStall { attempt, rank: *rank, what: kind_of(what), step: *step })
        }
        RingError::Aborted { .. } | RingError::Stalled { .. } | RingError::Own { .. } | RingError::Place(_) => None,
    }
}

fn unreachable(roster: &RingRoster, rank: u16) -> Option<RingStall> {
    Some(RingStall { attempt: roster.attempt, rank, what: StallKind::Unreachable, step: 0 })
}

fn kind_of(fault: &Fault) -> StallKind {
    match fault {
        Fault::Silent => StallKind::Silent,
        Fault::Closed => StallKind::Closed,
        Fault::Wrong(_) => StallKind::Wrong,
    }
}

pub(super) fn unusable(why: &str) -> ClientError {
    ClientError::BadAnswer(why.to_owned())
}
