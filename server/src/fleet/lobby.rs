//! The lobby: clients that are checked in and held until there is work.
//!
//! The lobby is in memory only. It records no work: a client that is forgotten here checks in again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;
use tributary_protocol::id::{ClientId, Name};
use tributary_protocol::operator::ModelVersion;

use crate::db::{AssignmentRow, RoundRow};
use crate::runtime::lock::Locked;
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
    candidate: Arc<Candidate>,
    ticket: u64,
    call: oneshot::Sender<Call>,
}

/// How a wait ends.
#[derive(Debug)]
pub enum Call {
    /// The client should look for its work.
    Look,
    /// The client was drawn, and this is its work.
    Work(Box<Work>),
    /// A newer check-in of the same client took its place.
    Replaced,
}

/// The work of a drawn client, as it was stored: the client need not look it up.
#[derive(Clone, Debug)]
pub struct Work {
    pub assignment: AssignmentRow,
    pub round: Arc<RoundRow>,
    /// The model version that it starts from.
    pub model: Arc<ModelVersion>,
}

/// A client's place in the lobby; dropping it (the answer was sent, or the connection broke) frees the place.
#[derive(Debug)]
pub struct Seat {
    lobby: Arc<Lobby>,
    client: ClientId,
    ticket: u64,
    called: oneshot::Receiver<Call>,
}

impl Lobby {
    /// Takes a seat. A client has one: a second check-in ends the first one's wait.
    #[must_use]
    pub fn enter(self: &Arc<Self>, population: Name, candidate: Arc<Candidate>) -> Seat {
        let (call, called) = oneshot::channel();
        let client = candidate.client;
        let mut waiting = self.waiting.locked();
        waiting.tickets += 1;
        let ticket = waiting.tickets;
        waiting.clients.insert(client, Entry { population, candidate, ticket, call });
        Seat { lobby: Arc::clone(self), client, ticket, called }
    }

    pub fn candidates(&self, population: &Name) -> Vec<Arc<Candidate>> {
        let waiting = self.waiting.locked();
        let of_population = waiting.clients.values().filter(|entry| entry.population == *population);
        of_population.map(|entry| Arc::clone(&entry.candidate)).collect()
    }

    /// The populations of the waiting clients.
    pub fn populations(&self) -> Vec<(ClientId, Name)> {
        self.waiting.locked().clients.iter().map(|(client, entry)| (*client, entry.population.clone())).collect()
    }

    pub fn len(&self) -> usize {
        self.waiting.locked().clients.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ends the wait of clients that may have work.
    pub fn call(&self, clients: impl IntoIterator<Item = ClientId>) {
        self.end(clients.into_iter().map(|client| (client, |_| Call::Look)));
    }

    /// The last ticket of those who have come so far.
    pub fn last_ticket(&self) -> u64 {
        self.waiting.locked().tickets
    }

    /// Ends the wait of drawn clients. One with a later ticket than `last_ticket` may have found its work and reported
    /// before: it looks again.
    pub fn give(&self, works: impl IntoIterator<Item = Work>, last_ticket: u64) {
        self.end(works.into_iter().map(|work| {
            let client = work.assignment.client;
            (client, move |ticket| if ticket <= last_ticket { Call::Work(Box::new(work)) } else { Call::Look })
        }));
    }

    /// Each client's call follows from its ticket.
    fn end<F: FnOnce(u64) -> Call>(&self, calls: impl Iterator<Item = (ClientId, F)>) {
        let mut waiting = self.waiting.locked();
        for (client, call) in calls {
            if let Some(Entry { ticket, call: caller, .. }) = waiting.clients.remove(&client) {
                // A client that just left finds its assignment at its next check-in.
                let _ = caller.send(call(ticket));
            }
        }
    }
}

impl Seat {
    /// Waits until the client is called.
    pub async fn called(&mut self) -> Call {
        (&mut self.called).await.unwrap_or(Call::Replaced)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut waiting = self.lobby.waiting.locked();
        if waiting.clients.get(&self.client).is_some_and(|entry| entry.ticket == self.ticket) {
            waiting.clients.remove(&self.client);
        }
    }
}

#[cfg(test)]
mod tests {
    use tributary_protocol::device::Attributes;
    use tributary_protocol::example_sets::ExampleSets;

    use super::*;

    fn candidate(number: u8) -> Arc<Candidate> {
        Arc::new(Candidate {
            client: ClientId::from_random([number; 16]),
            number: number.into(),
            attributes: Attributes::default(),
            examples: 1,
            sets: ExampleSets::default(),
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

    #[tokio::test]
    async fn a_called_client_leaves_and_its_wait_ends() {
        let lobby = Arc::new(Lobby::default());
        let population: Name = "p".parse().unwrap();
        let mut seat = lobby.enter(population.clone(), candidate(1));
        let other = lobby.enter(population.clone(), candidate(2));
        assert_eq!(lobby.candidates(&population).len(), 2);
        assert!(lobby.candidates(&"q".parse().unwrap()).is_empty());
        lobby.call([candidate(1).client]);
        assert!(matches!(seat.called().await, Call::Look));
        assert_eq!(lobby.candidates(&population), vec![candidate(2)]);
        drop(other);
        assert!(lobby.is_empty());
    }

    #[tokio::test]
    async fn a_second_check_in_takes_the_place_of_the_first() {
        let lobby = Arc::new(Lobby::default());
        let mut first = lobby.enter("p".parse().unwrap(), candidate(1));
        let mut second = lobby.enter("p".parse().unwrap(), candidate(1));
        assert!(matches!(first.called().await, Call::Replaced));
        drop(first);
        assert_eq!(lobby.len(), 1, "the first seat must not free the second's place");
        lobby.call([candidate(1).client]);
        assert!(matches!(second.called().await, Call::Look));
    }
}
