//! The delivery of an update in a group that adds up among itself: the member joins, adds up with its neighbours, and
//! brings the sum if it is asked to.
//!
//! The update is stored before the member meets anybody. Whatever goes wrong, it joins the next attempt, or sends its
//! own update when the coordinator says so.

use std::time::Duration;

use bytes::Bytes;
use tributary_collective::{Gridded, Reduced, Weighted, all_reduce};
use tributary_protocol::device::{ReportAccepted, UpdateQuery};
use tributary_protocol::fixed::Weight;
use tributary_protocol::group::messages::{RingAnswer, RingOutcome, RingReport, RingRoster, RingStall};
use tributary_protocol::hash::Sha256Hash;

use super::super::context::Context;
use super::super::made::keep_next_model;
use super::member::{Member, header, place_of, stall_of, unusable};
use crate::clock::within;
use crate::error::ClientError;
use crate::group::{Meter, Metered};
use crate::host::Host;
use crate::store::state::{Finished, Identity};
use crate::tasks::sent;

/// What became of an update.
pub(in crate::session) enum Delivered {
    /// It is in the sum of its group, which the coordinator has.
    Counted(ReportAccepted),
    /// The member sends it to the coordinator by itself.
    Own,
}

/// Adds up with a group, until the sum is delivered or the member has to send its own update.
pub(in crate::session) async fn add_up(
    context: &Context,
    identity: &Identity,
    (finished, query): (&Finished, &UpdateQuery),
    host: &dyn Host,
) -> Result<Delivered, ClientError> {
    let member = Member::begin(context, identity, finished.pending.assignment.id, host).await?;
    let values = sent(&finished.body, &finished.pending.assignment).map_err(|error| unusable(&error.to_string()))?;
    let ringing = Ringing { member, finished, values, query };
    let mut attempt = 0;
    loop {
        let roster = match ringing.member.ready(attempt, RingReport::from(query), 0).await? {
            RingAnswer::Formed(roster) => roster,
            RingAnswer::Done { retry_after_ms } => return Ok(Delivered::Counted(ReportAccepted { retry_after_ms })),
            RingAnswer::Star => return Ok(Delivered::Own),
            RingAnswer::Over | RingAnswer::Upload(_) => continue,
        };
        attempt = roster.attempt;
        let began_ms = context.clock.now_ms();
        let sum = match ringing.sum(&roster).await {
            Ok(sum) => sum,
            Err(stall) => {
                ringing.member.stalled(stall).await?;
                continue;
            }
        };
        let took_ms = context.clock.now_ms().saturating_sub(began_ms);
        match ringing.member.outcome(&sum.outcome(attempt, took_ms)).await? {
            RingAnswer::Upload(figures) => {
                let accepted = ringing.member.upload((&sum.body, sum.sha256), &figures.into()).await?;
                return Ok(ringing.counted(accepted, &roster, &sum));
            }
            RingAnswer::Done { retry_after_ms } => {
                return Ok(ringing.counted(ReportAccepted { retry_after_ms }, &roster, &sum));
            }
            RingAnswer::Star => return Ok(Delivered::Own),
            RingAnswer::Over | RingAnswer::Formed(_) => {}
        }
    }
}

/// A member with its finished update.
struct Ringing<'a> {
    member: Member<'a>,
    finished: &'a Finished,
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
    /// Kilobits in a second that the right link took, if it was too slow.
    sent_kbit_s: Option<u64>,
}

impl Sum {
    fn outcome(&self, attempt: u32, took_ms: u64) -> RingOutcome {
        RingOutcome {
            attempt,
            sha256: self.sha256,
            bytes_sent: self.sent_bytes,
            bytes_received: self.received_bytes,
            took_ms,
            sent_kbit_s: self.sent_kbit_s,
            report: None,
            distance: None,
        }
    }
}

impl Ringing<'_> {
    /// Adds up with the members of a roster. The error says whom the member could not go on with.
    async fn sum(&self, roster: &RingRoster) -> Result<Sum, Option<RingStall>> {
        let limit = Duration::from_millis(roster.ends_in_ms);
        // What takes longer is over: the coordinator has let members send their own updates.
        within(self.member.clock(), limit, self.reduced(roster)).await.unwrap_or(Err(None))
    }

    async fn reduced(&self, roster: &RingRoster) -> Result<Sum, Option<RingStall>> {
        let place = place_of(roster).ok_or(None)?;
        let (from, to) = self.member.links(roster, &place, |link| link).await?;
        let weight = if roster.uniform { 1 } else { self.query.weight };
        let own = Weighted::new(&self.values, Weight::examples(weight), roster.binary_point);
        let (timer, meter) = (self.member.timer(), Meter::default());
        let to = Metered::new(to, &meter, self.member.clock());
        let reduced = match roster.grid_bits {
            None => all_reduce(&place, &own, from, to, &timer).await,
            Some(bits) => {
                let seed = self.finished.pending.assignment.seed.derive("ring", roster.attempt.into());
                let own = Gridded::new(own, bits, roster.value_max, seed);
                all_reduce(&place, &own, from, to, &timer).await
            }
        };
        let reduced = reduced.map_err(|error| stall_of(roster.attempt, &error))?;
        Ok(Sum { sent_kbit_s: meter.kbit_s(), ..self.body(roster, reduced) })
    }

    /// The coordinator has the sum, and makes the next model of it, as this member does.
    fn counted(&self, accepted: ReportAccepted, roster: &RingRoster, sum: &Sum) -> Delivered {
        keep_next_model(&self.member.context.state, &self.finished.pending.assignment, roster, &sum.body);
        Delivered::Counted(accepted)
    }

    fn body(&self, roster: &RingRoster, reduced: Reduced) -> Sum {
        let (tag, contribution) = header(&self.finished.pending.assignment, roster);
        let traffic = reduced.traffic();
        let body = reduced.body(tag, contribution);
        let (sha256, body) = (Sha256Hash::of(&body), body.into());
        Sum { body, sha256, sent_bytes: traffic.sent_bytes, received_bytes: traffic.received_bytes, sent_kbit_s: None }
    }
}
