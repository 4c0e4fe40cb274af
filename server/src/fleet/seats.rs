//! Seats: which coordinator holds which waiting client, so that the driver of a job can draw clients of all
//! coordinators.
//!
//! Seats are written asynchronously, in batches: changes during a moment are the batch that follows. A client that gets
//! work at once, as most do where rounds are open, has no seat written. A client whose seat is not written yet waits a
//! little longer for other coordinators. A client whose seat is stale finds its assignment at its next check-in.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;
use tributary_protocol::device::WAIT_MS_MAX;
use tributary_protocol::id::{ClientId, Name};

use crate::db::DbError;
use crate::runtime::clock::Clock;
use crate::runtime::lock::Locked;
use crate::services::Services;
use tributary_engine::round::Candidate;

/// How long changes are gathered, in milliseconds: longer than an open round takes to draw a client, and much less than
/// a client waits otherwise.
const GATHERED_MS: i64 = 50;
/// Pause in milliseconds after a batch that could not be written.
const RETRY_MS: i64 = 1_000;
/// Most seats in one transaction.
const BATCH_MAX: usize = 500;

/// Changes of seats that are not written yet: the newest of each client.
#[derive(Debug, Default)]
pub struct SeatLog {
    state: Mutex<LogState>,
    rung: Notify,
}

#[derive(Debug, Default)]
struct LogState {
    changes: HashMap<ClientId, Change>,
    /// Number of held requests of each client. A second check-in may arrive before the first one has ended.
    holds: HashMap<ClientId, usize>,
    /// Clients whose seats may be written.
    seated: HashSet<ClientId>,
}

#[derive(Clone, Debug)]
enum Change {
    Sat { population: Name, candidate: Arc<Candidate> },
    Stood,
}

/// The seats of a population, with the number of changes before they were read.
#[derive(Clone, Debug)]
pub(super) struct Seated {
    pub(super) changes: u64,
    pub(super) seats: Arc<[Arc<Candidate>]>,
}

/// A seat of a waiting client; dropping it records that the client no longer waits.
#[derive(Debug)]
pub struct HeldSeat {
    log: Arc<SeatLog>,
    client: ClientId,
}

impl Drop for HeldSeat {
    fn drop(&mut self) {
        let mut state = self.log.state.locked();
        let holds = state.holds.get(&self.client).copied().unwrap_or(1) - 1;
        if holds > 0 {
            state.holds.insert(self.client, holds);
            return;
        }
        state.holds.remove(&self.client);
        if state.seated.contains(&self.client) {
            state.changes.insert(self.client, Change::Stood);
            self.log.rung.notify_one();
        } else {
            state.changes.remove(&self.client);
        }
    }
}

impl SeatLog {
    /// Records that a client waits here.
    #[must_use]
    pub fn hold(self: &Arc<Self>, population: &Name, candidate: &Arc<Candidate>) -> HeldSeat {
        let client = candidate.client;
        let change = Change::Sat { population: population.clone(), candidate: Arc::clone(candidate) };
        let mut state = self.state.locked();
        *state.holds.entry(client).or_default() += 1;
        state.changes.insert(client, change);
        self.rung.notify_one();
        HeldSeat { log: Arc::clone(self), client }
    }

    fn take(&self) -> Vec<(ClientId, Change)> {
        let mut state = self.state.locked();
        let chosen: Vec<ClientId> = state.changes.keys().take(BATCH_MAX).copied().collect();
        let LogState { changes, seated, .. } = &mut *state;
        let taken = chosen.into_iter().filter_map(|client| changes.remove_entry(&client));
        taken
            .inspect(|(client, change)| match change {
                Change::Sat { .. } => drop(seated.insert(*client)),
                Change::Stood => drop(seated.remove(client)),
            })
            .collect()
    }

    /// Puts back changes that could not be written, except where there are newer ones.
    fn put_back(&self, batch: Vec<(ClientId, Change)>) {
        let mut state = self.state.locked();
        for (client, change) in batch {
            // What failed may be stored all the same.
            state.seated.insert(client);
            state.changes.entry(client).or_insert(change);
        }
    }
}

/// Writes changes of seats until the coordinator stops.
pub async fn run(services: &Services, log: &SeatLog) {
    loop {
        tokio::select! {
            () = services.stopping.cancelled() => return,
            () = log.rung.notified() => {}
        }
        // A manual clock would gather until its test moves it.
        if matches!(services.clock, Clock::System) {
            tokio::select! {
                () = services.stopping.cancelled() => return,
                () = services.clock.sleep_until(services.clock.now_ms() + GATHERED_MS) => {}
            }
        }
        loop {
            let batch = log.take();
            if batch.is_empty() {
                break;
            }
            if let Err(error) = write(services, &batch).await {
                tracing::warn!(%error, "seats could not be written for the other coordinators yet");
                log.put_back(batch);
                let retry_at_ms = services.clock.now_ms() + RETRY_MS;
                tokio::select! {
                    () = services.stopping.cancelled() => return,
                    () = services.clock.sleep_until(retry_at_ms) => {}
                }
            }
        }
    }
}

async fn write(services: &Services, batch: &[(ClientId, Change)]) -> Result<(), DbError> {
    let until_ms = services.clock.now_ms() + i64::from(WAIT_MS_MAX);
    let (mut sat, mut stood): (Vec<(&Name, &Candidate)>, Vec<ClientId>) = Default::default();
    for (client, change) in batch {
        match change {
            Change::Sat { population, candidate } => sat.push((population, candidate)),
            Change::Stood => stood.push(*client),
        }
    }
    // In one order, and apart, so that two coordinators never wait for each other's rows.
    sat.sort_unstable_by_key(|(_, candidate)| candidate.client);
    if !stood.is_empty() {
        let mut tx = services.db.begin_losable().await?;
        tx.stand_up(&services.node, &stood).await?;
        tx.commit().await?;
    }
    if !sat.is_empty() {
        let mut tx = services.db.begin_losable().await?;
        tx.sit(&services.node, &sat, until_ms).await?;
        tx.notify("sat").await?;
        tx.commit().await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate() -> Arc<Candidate> {
        Arc::new(Candidate {
            client: ClientId::from_random([1; 16]),
            number: 1,
            attributes: tributary_protocol::device::Attributes::default(),
            examples: 1,
            sets: tributary_protocol::example_sets::ExampleSets::default(),
            codecs: vec![],
            abilities: tributary_protocol::abilities::Abilities::FIRST,
            schema: None,
            answers: false,
            masks: false,
            signs: false,
            relay: None,
            share: None,
        })
    }

    #[test]
    fn a_second_check_in_keeps_the_seat_when_the_first_one_ends() {
        let log = Arc::new(SeatLog::default());
        let population: Name = "p".parse().unwrap();
        let first = log.hold(&population, &candidate());
        let second = log.hold(&population, &candidate());
        drop(first);
        assert!(matches!(log.take().as_slice(), [(_, Change::Sat { .. })]));
        drop(second);
        assert!(matches!(log.take().as_slice(), [(_, Change::Stood)]));
        drop(log.hold(&population, &candidate()));
        assert!(log.take().is_empty(), "nobody has seen a seat that was not written");
    }

    #[test]
    fn changes_that_could_not_be_written_do_not_hide_newer_ones() {
        let log = Arc::new(SeatLog::default());
        let seat = log.hold(&"p".parse().unwrap(), &candidate());
        let batch = log.take();
        drop(seat);
        log.put_back(batch);
        assert!(matches!(log.take().as_slice(), [(_, Change::Stood)]));
    }
}
