//! Limits of what one caller may hold or ask for, so that none takes the place of the others.
//!
//! | limit | who is counted | beyond it |
//! |---|---|---|
//! | [`Limits::requests_per_minute`] | a client | 429 with the time after which there is room |
//! | [`Limits::held_per_address`] | an address, see [`counted_address`] | 429 |
//! | [`Limits::feeds_per_operator`] | a token or an account | 429 |
//! | [`SMALL_BYTES`], a constant | a client, a population | 429 |
//! | [`Limits::link_bytes_per_second`] | a population | the bytes wait |
//! | [`Limits::checkins_per_second`] | idle clients of a population | a longer pause until the next check-in |
//!
//! A client has one held check-in anyway (the lobby replaces it), one open assignment and one unfinished upload.

mod bodies;
mod buckets;
mod links;
mod shares;

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use tributary_engine::round::CHECKINS_PER_SECOND_MAX;
use tributary_protocol::id::ClientId;

use crate::metrics::{LimitMeters, Limited, Metrics};
#[cfg(test)]
pub(crate) use bodies::BODIES_BYTES_MAX;
use bodies::Bodies;
pub use bodies::{BodyMemory, SMALL_BYTES, Sender};
use buckets::Buckets;
pub(crate) use links::LinkPace;
pub use shares::Held;
use shares::Shares;

/// When to ask again for a share that others may free at any moment.
pub const RETRY_MS: u64 = 5_000;

/// Bytes in a second of the links of a population: a line of 100 Mbit/s.
const LINK_BYTES_PER_SECOND: u64 = 12_500_000;
/// Passwords of one address that are checked at the same time, of 32 in all (`people/passwords.rs`).
const PASSWORDS_PER_ADDRESS: usize = 4;

/// Limits as an operator sets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests of one client in a minute. It may save up as many.
    pub requests_per_minute: u32,
    /// Check-ins that are held from one address.
    pub held_per_address: usize,
    /// Event streams and polls of one operator at the same time.
    pub feeds_per_operator: usize,
    /// Check-ins of idle clients of a population in a second. Retry windows keep them below it.
    pub checkins_per_second: u32,
    /// Bytes in a second of all links of a population that go through the coordinator.
    pub link_bytes_per_second: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            requests_per_minute: 6_000,
            held_per_address: 20_000,
            feeds_per_operator: 32,
            checkins_per_second: CHECKINS_PER_SECOND_MAX,
            link_bytes_per_second: LINK_BYTES_PER_SECOND,
        }
    }
}

/// The limits with what counts against them. All of it may be lost in a restart.
#[derive(Debug)]
pub struct Guard {
    limits: Limits,
    requests: Buckets<ClientId>,
    held: Arc<Shares<IpAddr>>,
    feeds: Arc<Shares<String>>,
    sign_ins: Arc<Shares<IpAddr>>,
    passwords: Arc<Shares<IpAddr>>,
    bodies: Arc<Bodies>,
    /// The pace of links between members of groups.
    pub(crate) links: Arc<LinkPace>,
    meters: LimitMeters,
}

impl Guard {
    pub fn new(limits: Limits, metrics: &Metrics) -> Self {
        Self {
            limits,
            requests: Buckets::new(limits.requests_per_minute),
            held: Shares::new(limits.held_per_address),
            feeds: Shares::new(limits.feeds_per_operator),
            sign_ins: Shares::new(1),
            passwords: Shares::new(PASSWORDS_PER_ADDRESS),
            bodies: Arc::default(),
            links: Arc::new(LinkPace::new(limits.link_bytes_per_second)),
            meters: metrics.limits(),
        }
    }

    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Counts a request of a client.
    ///
    /// # Errors
    /// The time in milliseconds after which the client may ask again.
    pub fn request(&self, client: ClientId, now_ms: i64) -> Result<(), u64> {
        self.requests.take(client, now_ms).inspect_err(|_| self.meters.hit(Limited::Requests))
    }

    /// A check-in that is held. `None`: too many are held from its address.
    #[must_use]
    pub fn hold(&self, address: Option<IpAddr>) -> Option<Held<IpAddr>> {
        let Some(address) = address.and_then(counted_address) else { return Some(Held::uncounted()) };
        let held = self.held.take(address);
        if held.is_none() {
            self.meters.hit(Limited::HeldPerAddress);
        }
        held
    }

    /// A newer check-in of the same client took the place of one that was held.
    pub fn replaced(&self) {
        self.meters.hit(Limited::HeldPerClient);
    }

    /// An event stream or poll. `None`: the operator has too many.
    #[must_use]
    pub fn feed(&self, operator: &str) -> Option<Held<String>> {
        let feed = self.feeds.take(operator.to_owned());
        if feed.is_none() {
            self.meters.hit(Limited::Feeds);
        }
        feed
    }

    /// A password that is being checked. `None`: there are too many from this address.
    #[must_use]
    pub fn password(&self, address: Option<IpAddr>) -> Option<Held<IpAddr>> {
        match address.and_then(counted_address) {
            Some(address) => self.passwords.take(address),
            None => Some(Held::uncounted()),
        }
    }

    /// A sign-in with an identity provider that is being completed. `None`: there is one from this address already.
    #[must_use]
    pub fn sign_in(&self, address: Option<IpAddr>) -> Option<Held<IpAddr>> {
        match address.and_then(counted_address) {
            Some(address) => self.sign_ins.take(address),
            None => Some(Held::uncounted()),
        }
    }

    /// Memory for a JSON body of so many bytes, more than [`SMALL_BYTES`]. `None`: there is none for this sender now.
    #[must_use]
    pub fn body(&self, sender: Sender, bytes: usize) -> Option<BodyMemory> {
        let memory = self.bodies.take(sender, bytes);
        if memory.is_none() {
            self.meters.hit(Limited::Bodies);
        }
        memory
    }
}

/// What limits per address count: an IPv4 address, or the IPv6 network that one subscriber gets (64 bits). `None` for
/// the loopback addresses, where the clients of a proxy on this machine come from.
pub fn counted_address(ip: IpAddr) -> Option<IpAddr> {
    match ip.to_canonical() {
        ip if ip.is_loopback() => None,
        IpAddr::V6(ip) => Some(IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64))),
        ip => Some(ip),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::MetricsAccess;

    #[test]
    fn one_address_takes_a_part_of_the_places_for_sign_ins() {
        let guard = Guard::new(Limits::default(), &Metrics::new(MetricsAccess::default(), 0));
        let address = |text: &str| Some(text.parse::<IpAddr>().unwrap());
        let passwords: Vec<_> = (0..9).map_while(|_| guard.password(address("192.0.2.1"))).collect();
        assert_eq!(passwords.len(), PASSWORDS_PER_ADDRESS);
        assert!(guard.password(address("192.0.2.2")).is_some() && guard.password(address("127.0.0.1")).is_some());
        let first = guard.sign_in(address("2001:db8::1"));
        assert!(first.is_some() && guard.sign_in(address("2001:db8::2")).is_none(), "the same network");
        drop((first, passwords));
        assert!(guard.sign_in(address("2001:db8::2")).is_some() && guard.password(address("192.0.2.1")).is_some());
    }
}
