//! Which clients wait for work at any coordinator.

use std::collections::HashMap;

use tributary_protocol::id::{ClientId, Name};

use super::Fleet;
use crate::db::{DbError, Tx};

/// The waiting clients with their populations. Those of other coordinators are as their seats say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Online(HashMap<ClientId, Name>);

impl Online {
    pub async fn read(fleet: &Fleet, tx: &mut Tx, now_ms: i64) -> Result<Self, DbError> {
        let mut clients: HashMap<ClientId, Name> = fleet.lobby.populations().into_iter().collect();
        if fleet.seats.is_some() {
            clients.extend(tx.seats(now_ms).await?);
        }
        Ok(Self(clients))
    }

    pub fn has(&self, client: ClientId) -> bool {
        self.0.contains_key(&client)
    }

    /// The number of them in a population.
    pub fn of(&self, population: &Name) -> u64 {
        self.0.values().filter(|name| *name == population).count() as u64
    }

    /// The number of all.
    pub fn all(&self) -> u64 {
        self.0.len() as u64
    }
}
