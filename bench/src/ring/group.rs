//! The members' work, from the links to the SHA-256 of the sum.

use std::sync::Arc;

use tokio::task::JoinSet;
use tributary::error::CliError;
use tributary::stopwatch::Stopwatch;
use tributary_collective::{RingPlace, all_reduce};
use tributary_protocol::group::FRAME_BYTES;
use tributary_protocol::hash::Sha256Hash;

use super::links::{ATTEMPT, FRAME_MS, Members};
use super::updates::{Adds, Updates};
use crate::error::BenchError;
use crate::waits::Waits;

/// The sum of a member.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sum {
    pub(super) sha256: Sha256Hash,
    pub(super) sent_bytes: u64,
    pub(super) received_bytes: u64,
    /// Until it had the sum, before the body of it.
    pub(super) ring_s: f64,
    pub(super) took_ms: u64,
}

/// Lets all members add up at the same time, each as a task. Returns their sums in no particular order.
pub(super) async fn add_up(group: Members, updates: &Updates) -> Result<Vec<Sum>, CliError> {
    let place = RingPlace {
        rank: 0,
        members: u16::try_from(updates.of_members.len()).unwrap_or(u16::MAX),
        attempt: ATTEMPT,
        frame_bytes: FRAME_BYTES,
        frame_ms: FRAME_MS,
        magnitude_max: updates.caps.value_max(updates.binary_point).unsigned_abs(),
    };
    let (tag, contribution, roster) = (updates.tag, updates.contribution, group.roster());
    let (point, adds) = (updates.binary_point, updates.adds);
    let mut working = JoinSet::new();
    for ((rank, door), own) in (0..).zip(group.doors).zip(&updates.of_members) {
        let (own, roster, place) = (own.clone(), Arc::clone(&roster), RingPlace { rank, ..place });
        working.spawn(async move {
            let began = Stopwatch::start();
            let (left, right) = door.links(&roster, &place).await?;
            let reduced = match adds {
                Adds::Updates(_) => all_reduce(&place, &own.weighted(point), left, right, &Waits).await,
                Adds::Grid => {
                    let own = own.gridded(point, place.magnitude_max);
                    all_reduce(&place, &own, left, right, &Waits).await
                }
            };
            let reduced = reduced.map_err(|error| BenchError::Ring(error.to_string()))?;
            let ring_s = began.elapsed().as_secs_f64();
            let traffic = reduced.traffic();
            let sha256 = Sha256Hash::of(&reduced.body(tag, contribution));
            let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            let (sent_bytes, received_bytes) = (traffic.sent_bytes, traffic.received_bytes);
            Ok::<_, BenchError>((door, Sum { sha256, sent_bytes, received_bytes, ring_s, took_ms }))
        });
    }
    // A line ends with its door, and all doors stay open until the last member has its sum.
    let mut doors_and_sums = Vec::new();
    while let Some(ended) = working.join_next().await {
        doors_and_sums.push(ended.map_err(CliError::task)??);
    }
    Ok(doors_and_sums.into_iter().map(|(_door, sum)| sum).collect())
}
