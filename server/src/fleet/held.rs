//! A held check-in: what the client declares is stored, and it waits in the lobby until there is work.

use std::sync::Arc;

use tributary_engine::round::{Candidate, RetryReason};
use tributary_protocol::device::{CheckInRequest, WAIT_MS_MAX};
use tributary_protocol::relay::PLACES_MAX;
use tributary_protocol::text::is_visible;

use super::lobby::{Call, Seat};
use super::seats::HeldSeat;
use super::waits::EXPLAINED_CLIENTS_MAX;
use super::{Fleet, Size};
use crate::db::{ClientRow, DbError, Software};
use crate::services::Services;

/// Largest error of `last_seen_at_ms`. It saves a write per check-in.
const SEEN_EVERY_MS: i64 = 60_000;
/// Clients that were seen within this time, in milliseconds, are those that come again. Others have gone, or were
/// enrolled only to be counted.
const SEEN_WITHIN_MS: i64 = 86_400_000;

/// Letters of the name of an SDK's release that are kept.
const VERSION_CHARS_MAX: usize = 32;

/// A client in the lobby. Dropping it frees the place.
#[derive(Debug)]
pub struct HeldCheckIn {
    candidate: Arc<Candidate>,
    seat: Seat,
    /// The other coordinators see the seat while the client is held.
    _shown: Option<HeldSeat>,
    since_ms: i64,
    until_ms: i64,
}

/// How the wait of a client ended.
#[derive(Debug)]
pub struct Waited {
    /// None when its time passed, or the coordinator stops.
    pub call: Option<Call>,
    pub is_stopping: bool,
    /// How long the client was held, in milliseconds.
    pub held_ms: u64,
    /// The client, if it is to be told what it waits for. Who was called has just left the lobby, and finds out at its
    /// next check-in.
    pub explained: Option<Arc<Candidate>>,
}

impl HeldCheckIn {
    /// The client takes a seat. Who looks for its work afterwards misses none: an assignment that is stored from here
    /// on calls it.
    #[must_use]
    pub fn enter(services: &Services, fleet: &Fleet, client: &ClientRow, request: CheckInRequest) -> Self {
        let since_ms = services.clock.now_ms();
        let candidate = Arc::new(Candidate {
            client: client.id,
            number: client.number,
            attributes: request.attributes,
            examples: request.state.examples,
            sets: request.sets,
            codecs: request.codecs,
            abilities: request.abilities,
            schema: request.schema,
            answers: request.answers,
            masks: request.masks,
            signs: request.signs,
            relay: request.relay.map(|relay| relay.places.min(PLACES_MAX)),
            share: None,
        });
        let until_ms = since_ms.saturating_add(i64::from(request.wait_ms.min(WAIT_MS_MAX)));
        // Who does not wait has gone before another coordinator could draw it.
        let seats = fleet.seats.as_ref().filter(|_| until_ms > since_ms);
        let shown = seats.map(|seats| seats.hold(&client.population, &candidate));
        let seat = fleet.lobby.enter(client.population.clone(), Arc::clone(&candidate));
        Self { candidate, seat, _shown: shown, since_ms, until_ms }
    }

    /// Whether the client waits at all.
    pub fn waits(&self) -> bool {
        self.until_ms > self.since_ms
    }

    /// The updates that it can bring at most.
    pub fn places(&self) -> u32 {
        self.candidate.places_most()
    }

    /// Waits until the client is called, its time has passed, or the coordinator stops. Then its seat is free.
    pub async fn wait(mut self, services: &Services, fleet: &Fleet) -> Waited {
        let (call, is_stopping) = tokio::select! {
            call = self.seat.called() => (Some(call), false),
            () = services.clock.sleep_until(self.until_ms) => (None, false),
            () = services.stopping.cancelled() => (None, true),
        };
        let is_explained = call.is_none() && fleet.lobby.len() <= EXPLAINED_CLIENTS_MAX;
        Waited {
            call,
            is_stopping,
            held_ms: u64::try_from(services.clock.now_ms() - self.since_ms).unwrap_or(0),
            explained: is_explained.then_some(self.candidate),
        }
    }
}

impl Fleet {
    /// Stores what a client declared, if it changed or `last_seen_at_ms` is too old.
    ///
    /// # Errors
    /// [`DbError`] when it cannot be stored.
    pub async fn remember(services: &Services, client: &ClientRow, request: &CheckInRequest) -> Result<(), DbError> {
        let now_ms = services.clock.now_ms();
        let software = Software {
            kind: request.sdk.clone(),
            version: Some(
                request.sdk_version.chars().filter(|letter| is_visible(*letter)).take(VERSION_CHARS_MAX).collect(),
            ),
            abilities: request.abilities,
        };
        let changed = client.attributes.0 != request.attributes
            || client.software() != software
            || client.examples != request.state.examples
            || client.sets.0 != request.sets.names();
        if changed || now_ms - client.last_seen_at_ms >= SEEN_EVERY_MS {
            // After a power failure the client says it again.
            let mut tx = services.db.begin_losable().await?;
            let examples = (request.state.examples, &*request.sets.names());
            tx.client_seen(client.id, &request.attributes, &software, examples, now_ms).await?;
            tx.commit().await?;
        }
        Ok(())
    }

    /// Stores that a client was heard of, if `last_seen_at_ms` is too old.
    ///
    /// # Errors
    /// [`DbError`] when it cannot be stored.
    pub async fn heard(services: &Services, client: &ClientRow) -> Result<(), DbError> {
        let now_ms = services.clock.now_ms();
        if now_ms - client.last_seen_at_ms >= SEEN_EVERY_MS {
            let mut tx = services.db.begin().await?;
            let examples = (client.examples, &*client.sets.0);
            tx.client_seen(client.id, &client.attributes.0, &client.software(), examples, now_ms).await?;
            tx.commit().await?;
        }
        Ok(())
    }

    /// When a client should check in again, in milliseconds from now.
    ///
    /// # Errors
    /// [`DbError`] when the size of its population cannot be read.
    pub async fn retry_of(&self, services: &Services, client: &ClientRow, reason: RetryReason) -> Result<u64, DbError> {
        let size = self.sizes.get_or_make(client.population.clone(), &services.clock, async || {
            let mut tx = services.db.read().await?;
            let since_ms = services.clock.now_ms().saturating_sub(SEEN_WITHIN_MS);
            let clients = tx.clients_seen(&client.population, since_ms).await?;
            let places = match self.pace.is_set_by_jobs(clients) {
                true => tx.running_places(&client.population).await?,
                false => 0,
            };
            Ok::<_, DbError>(Size { clients, places })
        });
        let size = size.await?;
        Ok(self.retry_after_ms(reason, size))
    }
}
