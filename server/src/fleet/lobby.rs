//! The lobby: clients that are checked in and held until there is work.
//!
//! The lobby is in memory only. It records no work: a client that is forgotten here checks in again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tributary_protocol::id::{ClientId, Name};

use tributary_engine::round::Candidate;

#[derive(Debug, Default)]
pub struct Lobby {
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    clients: HashMap<ClientId, Entry>,
    tickets: u64,
}

#[derive(Debug)]
struct Entry {
    population: Name,
    candidate: Candidate,
    ticket: u64,
    call: oneshot::Sender<()>,
}

/// A client's place in the lobby; dropping it (the answer was sent, or the connection broke) frees the place.
#[derive(Debug)]
pub struct Seat {
    lobby: Arc<Lobby>,
    client: ClientId,
    ticket: u64,
    called: oneshot::Receiver<()>,
}

impl Lobby {
    /// Takes a seat. A client has one: a second check-in ends the first one's wait.
    #[must_use]
    pub fn enter(self: &Arc<Self>, population: Name, candidate: Candidate) -> Seat {
        let (call, called) = oneshot::channel();
        let client = candidate.client;
        let mut waiting = self.lock();
        waiting.tickets += 1;
        let ticket = waiting.tickets;
        waiting.clients.insert(client, Entry { population, candidate, ticket, call });
        Seat { lobby: Arc::clone(self), client, ticket, called }
    }

    #[must_use]
    pub fn candidates(&self, population: &Name) -> Vec<Candidate> {
        let waiting = self.lock();
        let of_population = waiting.clients.values().filter(|entry| entry.population == *population);
        of_population.map(|entry| entry.candidate.clone()).collect()
    }

    /// A waiting client, as it described itself.
    #[must_use]
    pub fn candidate(&self, client: ClientId) -> Option<Candidate> {
        self.lock().clients.get(&client).map(|entry| entry.candidate.clone())
    }

    /// The populations of the waiting clients.
    #[must_use]
    pub fn populations(&self) -> Vec<(ClientId, Name)> {
        self.lock().clients.iter().map(|(client, entry)| (*client, entry.population.clone())).collect()
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().clients.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ends the wait of clients that have work.
    pub fn call(&self, clients: impl IntoIterator<Item = ClientId>) {
        let mut waiting = self.lock();
        for client in clients {
            if let Some(entry) = waiting.clients.remove(&client) {
                // A client that just left finds its assignment at its next check-in.
                let _ = entry.call.send(());
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // No code that can panic runs under the lock.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// Waits until the client is called; false when a newer check-in of the same client took its place.
    pub async fn called(&mut self) -> bool {
        (&mut self.called).await.is_ok()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut waiting = self.lobby.lock();
        if waiting.clients.get(&self.client).is_some_and(|entry| entry.ticket == self.ticket) {
            waiting.clients.remove(&self.client);
        }
    }
}

#[cfg(test)]
mod tests {
    use tributary_protocol::device::Attributes;

    use super::*;

    fn candidate(number: u8) -> Candidate {
        Candidate {
            client: ClientId::from_random([number; 16]),
            number: number.into(),
            attributes: Attributes::default(),
            examples: 1,
            codecs: vec![],
            last_round: None,
        }
    }

    #[tokio::test]
    async fn a_called_client_leaves_and_its_wait_ends() {
        let lobby = Arc::new(Lobby::default());
        let population: Name = "p".parse().unwrap();
        let mut seat = lobby.enter(population.clone(), candidate(1));
        let other = lobby.enter(population.clone(), candidate(2));
        assert_eq!(lobby.candidates(&population).len(), 2);
        assert!(lobby.candidates(&"q".parse().unwrap()).is_empty());
        lobby.call([candidate(1).client]);
        assert!(seat.called().await);
        assert_eq!(lobby.candidates(&population), vec![candidate(2)]);
        drop(other);
        assert!(lobby.is_empty());
    }

    #[tokio::test]
    async fn a_second_check_in_takes_the_place_of_the_first() {
        let lobby = Arc::new(Lobby::default());
        let mut first = lobby.enter("p".parse().unwrap(), candidate(1));
        let mut second = lobby.enter("p".parse().unwrap(), candidate(1));
        assert!(!first.called().await);
        drop(first);
        assert_eq!(lobby.len(), 1, "the first seat must not free the second's place");
        lobby.call([candidate(1).client]);
        assert!(second.called().await);
    }
}
