//! Bytes of what the members and the coordinator say: the JSON of each call and its answer, without HTTP's headers.

use serde::Serialize;
use tributary_protocol::device::ReportAccepted;
use tributary_protocol::group::messages::{
    RingAnswer, RingMember, RingOutcome, RingReady, RingReport, RingRoster, RingSum,
};
use tributary_protocol::id::GroupId;

use super::group::Sum;
use super::links::{ATTEMPT, FRAME_MS, GROUP};
use super::updates::Updates;

/// The pause after a round that a coordinator names, in milliseconds.
const RETRY_AFTER_MS: u64 = 30_000;
/// Until members send their own updates, in milliseconds.
const ENDS_IN_MS: u64 = 480_000;
/// Loss, steps and time of a training, with as many digits as real ones.
const REPORT: RingReport = RingReport { weight: 0, loss: Some(0.534_187_250_119_062_5), steps: 60, train_ms: 1234 };

/// Bytes of all calls of a group that agrees at its first attempt, with their answers. The body of the sum is not in
/// it.
pub(super) fn bytes(members: &[RingMember], updates: &Updates, sums: &[Sum]) -> u64 {
    let ready = members.iter().zip(&updates.of_members).map(|(member, update)| {
        json(&RingReady {
            attempt: 0,
            member: member.clone(),
            report: RingReport { weight: update.examples, ..REPORT },
            exchanged: 0,
        })
    });
    let rosters =
        (0..).zip(members).map(|(rank, _)| json(&RingAnswer::Formed(Box::new(roster(rank, members, updates)))));
    let outcomes = sums.iter().map(|sum| {
        json(&RingOutcome {
            attempt: ATTEMPT,
            sha256: sum.sha256,
            bytes_sent: sum.sent_bytes,
            bytes_received: sum.received_bytes,
            took_ms: sum.took_ms,
            sent_kbit_s: None,
            report: None,
            distance: None,
        })
    });
    let examples = updates.of_members.iter().map(|update| u64::from(update.examples)).sum();
    let count = members.len() as u64;
    let figures =
        RingSum { examples, loss: REPORT.loss, steps: count * REPORT.steps, train_ms: count * REPORT.train_ms };
    let uploader = json(&RingAnswer::Upload(figures)) + json(&ReportAccepted { retry_after_ms: RETRY_AFTER_MS });
    let others = members.iter().skip(1).map(|_| json(&RingAnswer::Done { retry_after_ms: RETRY_AFTER_MS }));
    ready.chain(rosters).chain(outcomes).chain(others).sum::<u64>() + uploader
}

fn roster(rank: u16, members: &[RingMember], updates: &Updates) -> RingRoster {
    RingRoster {
        group: GroupId::from_random(GROUP),
        attempt: ATTEMPT,
        rank,
        members: members.to_vec(),
        uniform: false,
        weight: updates.contribution.weight.units(),
        binary_point: updates.binary_point,
        value_max: updates.caps.value_max(updates.binary_point).unsigned_abs(),
        exchanged: 0,
        next_rate: None,
        grid_bits: None,
        frame_ms: FRAME_MS,
        ends_in_ms: ENDS_IN_MS,
        relayed: Vec::new(),
        edges: Vec::new(),
    }
}

fn json(message: &impl Serialize) -> u64 {
    serde_json::to_string(message).map_or(0, |text| text.len() as u64)
}
