//! The memory of JSON bodies that are arriving.
//!
//! Such a body is in memory until it is whole. Its first bytes, [`SMALL_BYTES`], belong to its connection; beyond them
//! it needs a share here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use tributary_protocol::id::{ClientId, Name};

use crate::runtime::lock::Locked;

/// Bytes of a JSON body that need no share: most bodies are smaller.
pub const SMALL_BYTES: usize = 8 << 10;
/// Memory in bytes for all larger bodies that are arriving.
pub(crate) const BODIES_BYTES_MAX: usize = 16 << 20;

/// The bodies that are arriving.
#[derive(Debug)]
pub(super) struct Bodies {
    max: usize,
    arriving: Mutex<Arriving>,
}

#[derive(Debug, Default)]
struct Arriving {
    /// Clients that are sending one.
    clients: BTreeSet<ClientId>,
    /// Bytes by population; none: callers of no single population.
    bytes: BTreeMap<Option<Name>, usize>,
}

/// Who sends a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sender {
    /// The client, which sends one at a time; none: an operator, or an app that enrols clients.
    pub client: Option<ClientId>,
    pub population: Option<Name>,
}

/// The memory of one body; dropping it gives it back.
#[derive(Debug)]
pub struct BodyMemory {
    bodies: Arc<Bodies>,
    sender: Sender,
    bytes: usize,
}

impl Default for Bodies {
    fn default() -> Self {
        Self::new(BODIES_BYTES_MAX)
    }
}

impl Bodies {
    fn new(max: usize) -> Self {
        Self { max, arriving: Mutex::default() }
    }

    /// Memory for a body. A population has at most half of what the others leave, so that none takes it all. `None`:
    /// there is no room, or the client sends another body.
    pub(super) fn take(self: &Arc<Self>, sender: Sender, bytes: usize) -> Option<BodyMemory> {
        let mut arriving = self.arriving.locked();
        let own = arriving.bytes.get(&sender.population).copied().unwrap_or(0);
        let others = arriving.bytes.values().sum::<usize>() - own;
        if own + bytes > self.max.saturating_sub(others) / 2 {
            return None;
        }
        if sender.client.is_some_and(|client| !arriving.clients.insert(client)) {
            return None;
        }
        arriving.bytes.insert(sender.population.clone(), own + bytes);
        Some(BodyMemory { bodies: Arc::clone(self), sender, bytes })
    }
}

impl Drop for BodyMemory {
    fn drop(&mut self) {
        let mut arriving = self.bodies.arriving.locked();
        if let Some(client) = &self.sender.client {
            arriving.clients.remove(client);
        }
        let left = arriving.bytes.get(&self.sender.population).copied().unwrap_or(0).saturating_sub(self.bytes);
        match left {
            0 => drop(arriving.bytes.remove(&self.sender.population)),
            left => drop(arriving.bytes.insert(self.sender.population.clone(), left)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(client: Option<u8>, population: &str) -> Sender {
        let client = client.map(|number| ClientId::from_random([number; 16]));
        Sender { client, population: Some(population.parse().unwrap()) }
    }

    #[test]
    fn a_client_sends_one_body_and_a_population_leaves_room_for_the_others() {
        let bodies = Arc::new(Bodies::new(1000));
        let first = bodies.take(sender(Some(1), "a"), 100);
        assert!(first.is_some() && bodies.take(sender(Some(1), "a"), 100).is_none(), "one at a time");
        let more: Vec<_> = (2..=9).map_while(|number| bodies.take(sender(Some(number), "a"), 100)).collect();
        assert_eq!(more.len(), 4, "half of all");
        assert!(bodies.take(sender(None, "b"), 251).is_none(), "half of what is left");
        let other = bodies.take(sender(None, "b"), 250);
        assert!(other.is_some() && bodies.take(sender(Some(9), "c"), 100).is_some());
        drop(first);
        assert!(bodies.take(sender(Some(1), "a"), 100).is_none(), "a has 400, and half of 750 is less");
        drop(other);
        assert!(bodies.take(sender(Some(1), "a"), 100).is_some());
        drop(more);
        let arriving = bodies.arriving.locked();
        assert!(arriving.bytes.is_empty() && arriving.clients.is_empty(), "nothing is kept: {arriving:?}");
    }
}
