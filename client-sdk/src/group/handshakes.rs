//! The connections whose other end is not known yet.

use std::net::{IpAddr, Ipv6Addr};

use tokio::task::{AbortHandle, JoinSet};

/// Most connections whose other end is not known yet.
pub(super) const HANDSHAKES_MAX: usize = 64;

/// Handshakes that run at the same time. When there are too many, the oldest one of the busiest network ends. So silent
/// connections keep no member out, unless that many arrive while its handshake lasts, from its own network or from many
/// others.
#[derive(Debug, Default)]
pub(super) struct Handshakes {
    tasks: JoinSet<()>,
    /// The oldest first.
    running: Vec<Running>,
}

#[derive(Debug)]
struct Running {
    network: IpAddr,
    task: AbortHandle,
}

impl Handshakes {
    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Runs a handshake with this address as a task. It ends with `self`.
    pub(super) async fn start(&mut self, address: IpAddr, handshake: impl Future<Output = ()> + Send + 'static) {
        if self.tasks.len() >= HANDSHAKES_MAX {
            self.oldest_of_busiest().abort();
            // Its memory is free only now.
            self.reap().await;
        }
        let task = self.tasks.spawn(handshake);
        self.running.push(Running { network: network_of(address), task });
    }

    /// Waits until one of them has ended. There must be one.
    pub(super) async fn reap(&mut self) {
        // A task that panicked, in the app's key store, has ended as well.
        let ended = self.tasks.join_next_with_id().await;
        let id = ended.map(|ended| ended.map_or_else(|error| error.id(), |(id, ())| id));
        self.running.retain(|running| Some(running.task.id()) != id);
    }

    fn oldest_of_busiest(&self) -> &AbortHandle {
        let busy = |network| self.running.iter().filter(|running| running.network == network).count();
        // Of equals, the last one is the greatest.
        let found = self.running.iter().rev().max_by_key(|running| busy(running.network));
        &found.expect("it is asked for when the table is full").task
    }
}

/// What one network can have many addresses of: with IPv6 the first 64 bits (RFC 4291, section 2.5.4).
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::locked::Locked;

    /// Notes its number when it is dropped.
    struct Noted(usize, Arc<Mutex<Vec<usize>>>);

    impl Drop for Noted {
        fn drop(&mut self) {
            self.1.locked().push(self.0);
        }
    }

    #[tokio::test]
    async fn a_flood_from_one_network_displaces_itself_alone() {
        let (ended, mut handshakes) = (Arc::default(), Handshakes::default());
        let addresses = (0..200_u16).map(|at| match at {
            0 => IpAddr::from([192, 0, 2, 1]),
            // All of one network.
            at => IpAddr::from([0x2001, 0xdb8, 0, 0, at, 0, 0, at]),
        });
        for (number, address) in addresses.enumerate() {
            let noted = Noted(number, Arc::clone(&ended));
            let silent = async move {
                let _noted = noted;
                pending::<()>().await;
            };
            handshakes.start(address, silent).await;
            assert!(handshakes.tasks.len() <= HANDSHAKES_MAX && handshakes.running.len() == handshakes.tasks.len());
        }
        assert_eq!(*ended.locked(), Vec::from_iter(1..=200 - HANDSHAKES_MAX), "the oldest first, and not the other's");
    }

    #[tokio::test]
    async fn a_handshake_that_panics_makes_room() {
        let mut handshakes = Handshakes::default();
        handshakes.start(IpAddr::from([192, 0, 2, 1]), async { panic!("of the app's key store") }).await;
        handshakes.reap().await;
        assert!(handshakes.is_empty() && handshakes.running.is_empty());
    }
}
