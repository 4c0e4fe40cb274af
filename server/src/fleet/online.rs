//! Which clients are here: they wait for work at any coordinator, or are at work.

use std::collections::HashMap;

use tributary_protocol::id::{ClientId, Name};

use super::Fleet;
use crate::db::{DbError, Tx};

/// How long a client at work counts as here after it was last heard of, in milliseconds. A client of the SDK asks every
/// few seconds whether its round is still open.
const HEARD_WITHIN_MS: i64 = 300_000;

/// What a client does that is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Waits,
    Works,
}

/// The clients that are here, with their populations. Those that wait at other coordinators are as their seats say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Online(HashMap<ClientId, (Name, Doing)>);

impl Online {
    pub async fn read(fleet: &Fleet, tx: &mut Tx, now_ms: i64) -> Result<Self, DbError> {
        let works = tx.working(now_ms.saturating_sub(HEARD_WITHIN_MS)).await?;
        let seated = if fleet.seats.is_some() { tx.seats(now_ms).await? } else { Vec::new() };
        let waits = seated.into_iter().chain(fleet.lobby.populations());
        let mut clients: HashMap<_, _> = waits.map(|(client, name)| (client, (name, Doing::Waits))).collect();
        // Who was drawn a moment ago may have a seat still.
        clients.extend(works.into_iter().map(|(client, name)| (client, (name, Doing::Works))));
        Ok(Self(clients))
    }

    pub fn has(&self, client: ClientId) -> bool {
        self.0.contains_key(&client)
    }

    pub fn works(&self, client: ClientId) -> bool {
        self.0.get(&client).is_some_and(|(_, doing)| *doing == Doing::Works)
    }

    /// The number of them in a population, and of those at work.
    pub fn of(&self, population: &Name) -> (u64, u64) {
        let here = || self.0.values().filter(|(name, _)| name == population);
        (here().count() as u64, here().filter(|(_, doing)| *doing == Doing::Works).count() as u64)
    }

    /// The number of all, and of those at work.
    pub fn all(&self) -> (u64, u64) {
        let working = self.0.values().filter(|(_, doing)| *doing == Doing::Works).count();
        (self.0.len() as u64, working as u64)
    }
}
