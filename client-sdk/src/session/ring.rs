//! The delivery of an update in a group that adds up among itself: the member joins, adds up with its neighbours, and
//! brings the sum if it is asked to.
//!
//! The update is stored before the member meets anybody. Whatever goes wrong, it joins the next attempt, or sends its
//! own update when the coordinator says so.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join;
use serde::Serialize;
use tributary_collective::{Fault, Gridded, Reduced, RingError, RingPlace, Timer, Weighted, all_reduce, give_up};
use tributary_protocol::device::{ReportAccepted, UpdateQuery};
use tributary_protocol::fixed::{Contribution, Weight};
use tributary_protocol::group::FRAME_BYTES;
use tributary_protocol::group::grid::{GRID_BITS_MAX, GRID_BITS_MIN};
use tributary_protocol::group::messages::{
    RingAnswer, RingMember, RingOutcome, RingReady, RingReport, RingRoster, RingStall,
};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::Secret;
use tributary_protocol::relay::SumQuery;
use tributary_protocol::state::StallKind;
use tributary_protocol::sum::tag;

use super::context::Context;
use super::held::held;
use super::made::keep_next_model;
use crate::clock::{Clock, within};
use crate::error::ClientError;
use crate::group::{Admission, Hello, Link, LinkError, Listener, Listening, OpenGroup, PeerKey, connect};
use crate::host::Host;
use crate::store::state::{Finished, Identity};
use crate::tasks::sent;
use crate::transport::upload::{Figures, Upload};

/// The pause before a neighbour is tried again that has not heard of the group yet.
const AGAIN: Duration = Duration::from_millis(50);

/// What became of an update.
pub(super) enum Delivered {
    /// It is in the sum of its group, which the coordinator has.
    Counted(ReportAccepted),
    /// The member sends it to the coordinator by itself.
    Own,
}

/// Adds up with a group, until the sum is delivered or the member has to send its own update.
pub(super) async fn add_up(
    context: &Context,
    identity: &Identity,
    (finished, query): (&Finished, &UpdateQuery),
    host: &dyn Host,
) -> Result<Delivered, ClientError> {
    let listening =
        context.listening.as_deref().ok_or_else(|| unusable("it was given a group, and does not listen"))?;
    let listener = listening.listener(&context.keys, &context.clock).await;
    let listener = listener.map_err(|error| ClientError::Setup(error.to_string()))?;
    let values = sent(&finished.body, &finished.pending.assignment).map_err(|error| unusable(&error.to_string()))?;
    let member = Ringing { context, secret: &identity.secret, finished, host, listening, listener, values, query };
    let mut attempt = 0;
    loop {
        let roster = match member.ready(attempt).await? {
            RingAnswer::Formed(roster) => roster,
            RingAnswer::Done { retry_after_ms } => return Ok(Delivered::Counted(ReportAccepted { retry_after_ms })),
            RingAnswer::Star => return Ok(Delivered::Own),
            RingAnswer::Over | RingAnswer::Upload(_) => continue,
        };
        attempt = roster.attempt;
        let began_ms = context.clock.now_ms();
        let sum = match member.sum(&roster).await {
            Ok(sum) => sum,
            Err(stall) => {
                member.stalled(stall).await?;
                continue;
            }
        };
        let took_ms = context.clock.now_ms().saturating_sub(began_ms);
        match member.outcome(&roster, &sum, took_ms).await? {
            RingAnswer::Upload(figures) => {
                let accepted = member.upload(&sum, &figures.into()).await?;
                return Ok(member.counted(accepted, &roster, &sum));
            }
            RingAnswer::Done { retry_after_ms } => {
                return Ok(member.counted(ReportAccepted { retry_after_ms }, &roster, &sum));
            }
            RingAnswer::Star => return Ok(Delivered::Own),
            RingAnswer::Over | RingAnswer::Formed(_) => {}
        }
    }
}

/// A member with its finished update.
struct Ringing<'a> {
    context: &'a Context,
    secret: &'a Secret,
    finished: &'a Finished,
    host: &'a dyn Host,
    listening: &'a Listening,
    listener: &'a Listener,
    /// The update as the coordinator would decode it.
    values: Vec<f32>,
    query: &'a UpdateQuery,
}

/// The sum of a group, as a body.
struct Sum {
    body: Bytes,
    sha256: Sha256Hash,
    sent_bytes: u64,
    received_bytes: u64,
}

impl Ringing<'_> {
    async fn ready(&self, attempt: u32) -> Result<RingAnswer, ClientError> {
        let key = PeerKey::own(self.context.keys.as_ref())?.0;
        let member = RingMember { key, addresses: self.listening.addresses(self.listener) };
        self.held("ring", &RingReady { attempt, member, report: RingReport::from(self.query) }).await
    }

    async fn outcome(&self, roster: &RingRoster, sum: &Sum, took_ms: u64) -> Result<RingAnswer, ClientError> {
        let outcome = RingOutcome {
            attempt: roster.attempt,
            sha256: sum.sha256,
            bytes_sent: sum.sent_bytes,
            bytes_received: sum.received_bytes,
            took_ms,
        };
        self.held("ring/outcome", &outcome).await
    }

    /// Tells whom the member could not go on with, if it is anybody.
    async fn stalled(&self, stall: Option<RingStall>) -> Result<(), ClientError> {
        let Some(stall) = stall else { return Ok(()) };
        tracing::info!(?stall, "the group cannot go on");
        self.context.coordinator.held_json((self.secret, &self.path("ring/stall")), &stall).await.map(drop)
    }

    /// The coordinator has the sum, and makes the next model of it, as this member does.
    fn counted(&self, accepted: ReportAccepted, roster: &RingRoster, sum: &Sum) -> Delivered {
        keep_next_model(&self.context.state, &self.finished.pending.assignment, roster, &sum.body);
        Delivered::Counted(accepted)
    }

    async fn upload(&self, sum: &Sum, query: &SumQuery) -> Result<ReportAccepted, ClientError> {
        let id = self.finished.pending.assignment.id;
        let upload = Upload { id, figures: Figures::Sum(query), body: &sum.body, sha256: sum.sha256, begun: false };
        self.context.coordinator.upload(self.secret, &upload).await
    }

    /// Adds up with the members of a roster. The error says whom the member could not go on with.
    async fn sum(&self, roster: &RingRoster) -> Result<Sum, Option<RingStall>> {
        let limit = Duration::from_millis(roster.ends_in_ms);
        // What takes longer is over: the coordinator has let members send their own updates.
        within(self.context.clock.as_ref(), limit, self.reduced(roster)).await.unwrap_or(Err(None))
    }

    async fn reduced(&self, roster: &RingRoster) -> Result<Sum, Option<RingStall>> {
        let members = u16::try_from(roster.members.len()).unwrap_or(u16::MAX);
        let (rank, attempt) = (roster.rank, roster.attempt);
        let place = RingPlace {
            rank,
            members,
            attempt,
            frame_bytes: FRAME_BYTES,
            frame_ms: roster.frame_ms,
            magnitude_max: roster.value_max,
        };
        place.check().map_err(|error| tracing::warn!(%error, "the roster of a group is wrong")).map_err(|()| None)?;
        let (left, right) = (place.left(), place.right());
        let stalled = |rank, what, step| Some(RingStall { attempt, rank, what, step });
        let peers = roster.members.iter().zip(0u16..).map(|(member, rank)| (rank, PeerKey(member.key)));
        let group = *roster.group.as_bytes();
        let admission = self.listener.admit(OpenGroup { group, attempt, rank, peers: peers.collect() });
        let unreachable = |rank| stalled(rank, StallKind::Unreachable, 0);
        let accepted = async { self.accepted(&admission, left, roster).await.map_err(|_| unreachable(left)) };
        let opened = async { self.opened(right, roster).await.map_err(|_| unreachable(right)) };
        let timer = Waits(self.clock());
        // The neighbour on the other link is told which member could not be reached, and blames that one.
        let (from, to) = match join(accepted, opened).await {
            (Ok(from), Ok(to)) => (from, to),
            (Err(stall), Ok(link)) => {
                give_up(&place, left, link, &timer).await;
                return Err(stall);
            }
            (Ok(link), Err(stall)) => {
                give_up(&place, right, link, &timer).await;
                return Err(stall);
            }
            (Err(stall), Err(_)) => return Err(stall),
        };
        let weight = if roster.uniform { 1 } else { self.query.weight };
        let own = Weighted::new(&self.values, Weight::examples(weight), roster.binary_point);
        let reduced = match roster.grid_bits {
            None => all_reduce(&place, &own, from, to, &timer).await,
            Some(bits) if !(GRID_BITS_MIN..=GRID_BITS_MAX).contains(&bits) => {
                tracing::warn!(bits, "the grid of a group is wrong");
                return Err(None);
            }
            Some(bits) => {
                let seed = self.finished.pending.assignment.seed.derive("ring", attempt.into());
                let own = Gridded::new(own, bits, roster.value_max, seed);
                all_reduce(&place, &own, from, to, &timer).await
            }
        };
        let reduced = reduced.map_err(|error| {
            tracing::debug!(%error, "no sum of a group");
            match error {
                RingError::Neighbour { rank, what, step, .. } => stalled(rank, kind_of(&what), step),
                RingError::Aborted { .. } | RingError::Stalled { .. } | RingError::Own { .. } | RingError::Place(_) => {
                    None
                }
            }
        })?;
        Ok(self.body(roster, reduced))
    }

    fn body(&self, roster: &RingRoster, reduced: Reduced) -> Sum {
        let assignment = &self.finished.pending.assignment;
        let updates = u32::try_from(roster.members.len()).unwrap_or(u32::MAX);
        let contribution = Contribution { weight: Weight::of_units(roster.weight), updates };
        let traffic = reduced.traffic();
        let body = reduced.body(tag(&assignment.job, assignment.model_version, roster.binary_point), contribution);
        let (sha256, body) = (Sha256Hash::of(&body), body.into());
        Sum { body, sha256, sent_bytes: traffic.sent_bytes, received_bytes: traffic.received_bytes }
    }

    /// The link that the left neighbour opens.
    async fn accepted(&self, admission: &Admission, left: u16, roster: &RingRoster) -> Result<Link, LinkError> {
        let limit_ms = roster.frame_ms;
        let accepted = within(self.clock(), Duration::from_millis(limit_ms), admission.accept(left)).await;
        accepted.unwrap_or(Err(LinkError::TimedOut { limit_ms }))
    }

    /// Opens the link to the right neighbour. It may hear of the group a little later, so it is asked again.
    async fn opened(&self, right: u16, roster: &RingRoster) -> Result<Link, LinkError> {
        let RingMember { key, addresses } = &roster.members[usize::from(right)];
        let hello = Hello { group: *roster.group.as_bytes(), attempt: roster.attempt, from: roster.rank, to: right };
        let until_ms = self.clock().now_ms().saturating_add(roster.frame_ms);
        loop {
            let mut last = LinkError::TimedOut { limit_ms: roster.frame_ms };
            for address in addresses {
                let left_ms = until_ms.saturating_sub(self.clock().now_ms()).max(1);
                let keys = &self.context.keys;
                match connect(address, keys, PeerKey(*key), hello, self.clock(), left_ms).await {
                    Ok(link) => return Ok(link),
                    Err(error) => last = error,
                }
            }
            if self.clock().now_ms() >= until_ms {
                tracing::info!(error = %last, rank = right, "a member of the group cannot be reached");
                return Err(last);
            }
            self.clock().sleep(AGAIN).await;
        }
    }

    /// Asks until there is an answer, or the host ends the session.
    async fn held(&self, call: &str, request: &impl Serialize) -> Result<RingAnswer, ClientError> {
        let path = self.path(call);
        let ask = || self.context.coordinator.held_json((self.secret, &path), request);
        serde_json::from_slice(&held(self.host, ask).await?).map_err(|error| unusable(&error.to_string()))
    }

    fn path(&self, call: &str) -> String {
        format!("/device/v1/assignments/{}/{call}", self.finished.pending.assignment.id)
    }

    fn clock(&self) -> &dyn Clock {
        self.context.clock.as_ref()
    }
}

/// The client's clock.
struct Waits<'a>(&'a dyn Clock);

impl Timer for Waits<'_> {
    fn sleep(&self, ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.0.sleep(Duration::from_millis(ms))
    }
}

fn kind_of(fault: &Fault) -> StallKind {
    match fault {
        Fault::Silent => StallKind::Silent,
        Fault::Closed => StallKind::Closed,
        Fault::Wrong(_) => StallKind::Wrong,
    }
}

fn unusable(why: &str) -> ClientError {
    ClientError::BadAnswer(why.to_owned())
}
