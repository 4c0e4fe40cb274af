//! Which connections are open, and which make room when there are too many.
//!
//! A connection *waits* while none of its requests is being answered. It is *silent* until its first request has
//! arrived with its whole head, and *idle* between two requests. When a limit is reached, a waiting connection makes
//! room for a new one: the silent one that has waited longest, and where nobody is silent the idle one. So connections
//! that say nothing keep nobody out. If every connection is at work, the new one is refused.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::limits::Limits;
use crate::guard::counted_address;
use crate::metrics::{ConnectionMeters, Dropped, Handshake};
use crate::runtime::lock::Locked;

/// All connections of a listener.
#[derive(Debug)]
pub(crate) struct Connections {
    limits: Limits,
    pub(super) meters: ConnectionMeters,
    state: Mutex<State>,
}

/// One connection's place, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    connections: Arc<Connections>,
    id: u64,
}

/// A connection is at work while this exists.
#[derive(Debug)]
pub(super) struct AtWork(Arc<Place>);

/// The place of a waiting connection in the queue: silent ones before idle ones, and then those that wait longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn {
    is_idle: bool,
    order: u64,
}

#[derive(Debug, Default)]
struct State {
    /// Ids of connections and orders of turns come from one sequence.
    next: u64,
    open: HashMap<u64, Open>,
    waiting: BTreeMap<Turn, u64>,
    addresses: HashMap<IpAddr, Address>,
    /// Pieces of answers that were handed to a connection and not taken by its client yet.
    untaken: BTreeMap<u64, Untaken>,
}

#[derive(Clone, Copy, Debug)]
struct Untaken {
    connection: u64,
    since: Instant,
}

#[derive(Debug)]
struct Open {
    /// `None`: exempt from the limit per address.
    address: Option<IpAddr>,
    /// `None`: it is being started.
    task: Option<AbortHandle>,
    /// `None`: at work.
    turn: Option<Turn>,
    /// Requests that are being answered.
    requests: u32,
}

#[derive(Debug, Default)]
struct Address {
    open: usize,
    waiting: BTreeMap<Turn, u64>,
}

impl Connections {
    pub(super) fn new(limits: Limits, meters: ConnectionMeters) -> Arc<Self> {
        Arc::new(Self { limits, meters, state: Mutex::default() })
    }

    /// Starts the task of a new connection if there is room or can be made. A refused connection is to be closed.
    pub(super) fn admit(self: &Arc<Self>, peer: SocketAddr, start: impl FnOnce(Arc<Place>) -> AbortHandle) {
        let address = counted_address(peer.ip());
        let mut state = self.state.locked();
        if let Err(reason) = state.make_room(self.limits, address, &self.meters) {
            self.meters.dropped(reason);
            return;
        }
        let id = state.sequence();
        let turn = Turn { is_idle: false, order: state.sequence() };
        if let Some(address) = address {
            state.addresses.entry(address).or_default().open += 1;
        }
        state.open.insert(id, Open { address, task: None, turn: None, requests: 0 });
        state.waits(id, turn);
        self.meters.open.increment(1);
        // Without the lock: a runtime that shuts down drops the task at once, and its place with it.
        drop(state);
        let task = start(Arc::new(Place { connections: Arc::clone(self), id }));
        match self.state.locked().open.get_mut(&id) {
            Some(open) => open.task = Some(task),
            None => task.abort(),
        }
    }

    /// Closes the connections whose clients have not taken a piece since `before`.
    pub(super) fn drop_slow_readers(&self, before: Instant) {
        let mut state = self.state.locked();
        let slow: Vec<u64> = state
            .untaken
            .values()
            .filter(|untaken| untaken.since <= before)
            .map(|untaken| untaken.connection)
            .collect();
        for connection in slow {
            state.close(connection, Dropped::SlowReader, &self.meters);
        }
    }
}

impl Place {
    /// A request has arrived with its whole head.
    pub(super) fn begin(self: &Arc<Self>) -> AtWork {
        self.connections.state.locked().begin(self.id);
        AtWork(Arc::clone(self))
    }

    /// The connection's turn, if it waits. The same turn as before says that it has waited since.
    pub(super) fn turn(&self) -> Option<Turn> {
        self.connections.state.locked().open.get(&self.id)?.turn
    }

    pub(super) fn shook_hands(&self, outcome: Handshake) {
        self.connections.meters.shook_hands(outcome);
    }

    /// The connection ends because of this.
    pub(super) fn dropped(&self, reason: Dropped) {
        self.connections.meters.dropped(reason);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.connections.state.locked().remove(self.id).is_some() {
            self.connections.meters.open.decrement(1);
        }
    }
}

impl AtWork {
    /// A piece of an answer is handed to the connection. The id is for [`Self::taken`].
    pub(super) fn handed(&self) -> u64 {
        let Place { connections, id } = self.0.as_ref();
        let mut state = connections.state.locked();
        let piece = state.sequence();
        state.untaken.insert(piece, Untaken { connection: *id, since: Instant::now() });
        piece
    }

    /// The client has taken the piece, or the answer has ended.
    pub(super) fn taken(&self, piece: u64) {
        self.0.connections.state.locked().untaken.remove(&piece);
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.connections.state.locked().end(self.0.id);
    }
}

impl State {
    fn sequence(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Ensures that one more connection is within the limits.
    fn make_room(&mut self, limits: Limits, new: Option<IpAddr>, meters: &ConnectionMeters) -> Result<(), Dropped> {
        if let Some(address) = new.and_then(|address| self.addresses.get(&address))
            && address.open >= limits.per_address
        {
            let waiting = address.waiting.first_key_value().map(|(_, id)| *id);
            self.displace(waiting.ok_or(Dropped::AddressLimit)?, meters);
        }
        if self.open.len() >= limits.max {
            let waiting = self.waiting.first_key_value().map(|(_, id)| *id);
            self.displace(waiting.ok_or(Dropped::Limit)?, meters);
        }
        Ok(())
    }

    fn displace(&mut self, id: u64, meters: &ConnectionMeters) {
        self.close(id, Dropped::Displaced, meters);
    }

    fn close(&mut self, id: u64, reason: Dropped, meters: &ConnectionMeters) {
        if let Some(open) = self.remove(id) {
            if let Some(task) = open.task {
                task.abort();
            }
            meters.open.decrement(1);
            meters.dropped(reason);
        }
    }

    fn begin(&mut self, id: u64) {
        let Some(open) = self.open.get_mut(&id) else { return };
        open.requests += 1;
        if let Some(turn) = open.turn.take() {
            let address = open.address;
            self.waits_no_longer(address, turn);
        }
    }

    fn end(&mut self, id: u64) {
        let turn = Turn { is_idle: true, order: self.sequence() };
        let Some(open) = self.open.get_mut(&id) else { return };
        open.requests -= 1;
        if open.requests == 0 {
            self.waits(id, turn);
        }
    }

    fn waits(&mut self, id: u64, turn: Turn) {
        let Some(open) = self.open.get_mut(&id) else { return };
        open.turn = Some(turn);
        if let Some(address) = open.address.and_then(|address| self.addresses.get_mut(&address)) {
            address.waiting.insert(turn, id);
        }
        self.waiting.insert(turn, id);
    }

    fn waits_no_longer(&mut self, address: Option<IpAddr>, turn: Turn) {
        self.waiting.remove(&turn);
        if let Some(address) = address.and_then(|address| self.addresses.get_mut(&address)) {
            address.waiting.remove(&turn);
        }
    }

    fn remove(&mut self, id: u64) -> Option<Open> {
        let open = self.open.remove(&id)?;
        if let Some(turn) = open.turn {
            self.waits_no_longer(open.address, turn);
        }
        if let Some(key) = open.address
            && let Some(address) = self.addresses.get_mut(&key)
        {
            address.open -= 1;
            if address.open == 0 {
                self.addresses.remove(&key);
            }
        }
        Some(open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

    /// Connections whose tasks never end by themselves.
    struct Crowd {
        connections: Arc<Connections>,
        places: HashMap<usize, Arc<Place>>,
        tasks: Vec<Option<tokio::task::JoinHandle<()>>>,
    }

    impl Crowd {
        fn new(max: usize, per_address: usize) -> Self {
            let connections = Connections::new(Limits { max, per_address }, Metrics::off().connections());
            Self { connections, places: HashMap::new(), tasks: Vec::new() }
        }

        /// A new connection; its index. The crowd keeps its place as its task would.
        fn arrive(&mut self, ip: &str) -> usize {
            let (index, mut task) = (self.tasks.len(), None);
            let places = &mut self.places;
            self.connections.admit(SocketAddr::new(ip.parse().unwrap(), 1), |place| {
                places.insert(index, place);
                let spawned = tokio::spawn(std::future::pending());
                let handle = spawned.abort_handle();
                task = Some(spawned);
                handle
            });
            self.tasks.push(task);
            index
        }

        /// Indices of the connections that are open.
        async fn open(&mut self) -> Vec<usize> {
            let mut open = Vec::new();
            for (index, task) in self.tasks.iter_mut().enumerate() {
                let place = self.places.get(&index);
                if place.is_some_and(|place| self.connections.state.locked().open.contains_key(&place.id)) {
                    open.push(index);
                } else if let Some(task) = task.take() {
                    assert!(task.await.expect_err("it is aborted").is_cancelled());
                }
            }
            open
        }
    }

    #[tokio::test]
    async fn the_oldest_silent_connection_makes_room_then_the_oldest_idle_one_and_none_at_work() {
        let mut crowd = Crowd::new(3, 3);
        let [first, second, third] = ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(|ip| crowd.arrive(ip));
        let works = crowd.places[&first].begin();
        drop(crowd.places[&second].begin());
        let fourth = crowd.arrive("10.0.0.4");
        assert_eq!(crowd.open().await, [first, second, fourth], "the third is silent");
        let works_too = crowd.places[&fourth].begin();
        let fifth = crowd.arrive("10.0.0.5");
        assert_eq!(crowd.open().await, [first, fourth, fifth], "nobody is silent, and the second is idle");
        let last = crowd.places[&fifth].begin();
        crowd.arrive("10.0.0.6");
        assert_eq!(crowd.open().await, [first, fourth, fifth], "all are at work");
        drop((works, works_too, last));
        crowd.places.remove(&third);
        let seventh = crowd.arrive("10.0.0.7");
        assert_eq!(crowd.open().await, [fourth, fifth, seventh]);
    }

    #[tokio::test]
    async fn a_connection_with_two_requests_waits_when_both_are_answered() {
        let mut crowd = Crowd::new(1, 1);
        let only = crowd.arrive("10.0.0.1");
        let (one, two) = (crowd.places[&only].begin(), crowd.places[&only].begin());
        drop(one);
        assert_eq!(crowd.places[&only].turn(), None);
        drop(two);
        let turn = crowd.places[&only].turn().unwrap();
        assert_eq!(crowd.places[&only].turn(), Some(turn), "it has waited since");
        drop(crowd.places[&only].begin());
        assert_ne!(crowd.places[&only].turn(), Some(turn));
    }

    #[tokio::test]
    async fn one_address_has_its_share_and_keeps_no_other_out() {
        let mut crowd = Crowd::new(5, 2);
        let [first, second] = ["10.0.0.1", "10.0.0.1"].map(|ip| crowd.arrive(ip));
        let busy = [first, second].map(|index| crowd.places[&index].begin());
        crowd.arrive("10.0.0.1");
        let fourth = crowd.arrive("::ffff:10.0.0.2");
        assert_eq!(crowd.open().await, [first, second, fourth], "the third is refused");
        drop(busy);
        let fifth = crowd.arrive("10.0.0.1");
        assert_eq!(crowd.open().await, [second, fourth, fifth], "the first is idle, and the fourth another's");
    }

    #[tokio::test]
    async fn a_network_counts_as_an_address_and_loopback_does_not_count() {
        let mut crowd = Crowd::new(9, 1);
        let [first, second, third] = ["2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"].map(|ip| crowd.arrive(ip));
        assert_eq!(crowd.open().await, [second, third], "{first} is of the second's network");
        let local = ["127.0.0.1", "127.0.0.1", "::1", "::1", "::ffff:127.0.0.1"].map(|ip| crowd.arrive(ip));
        assert_eq!(crowd.open().await, [vec![second, third], local.to_vec()].concat());
    }

    #[tokio::test]
    async fn a_place_that_is_dropped_leaves_nothing_behind() {
        let mut crowd = Crowd::new(2, 2);
        for _ in 0..3 {
            let index = crowd.arrive("10.0.0.1");
            let work = crowd.places[&index].begin();
            crowd.places.remove(&index);
            drop(work);
        }
        let state = crowd.connections.state.locked();
        assert!(state.open.is_empty() && state.waiting.is_empty() && state.addresses.is_empty());
    }
}
