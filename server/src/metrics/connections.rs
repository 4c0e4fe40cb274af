//! What is measured of connections.

use ::metrics::{Counter, Gauge};

use super::registry::Registry;
use super::table;

/// Why a connection was closed or not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dropped {
    /// All connections were at work.
    Limit,
    /// All connections of its address were at work.
    AddressLimit,
    /// It waited, and made room for a new one.
    Displaced,
    /// It sent nothing in time.
    Silent,
    /// It took too little of an answer.
    SlowReader,
}

impl Dropped {
    const ALL: [Self; 5] = [Self::Limit, Self::AddressLimit, Self::Displaced, Self::Silent, Self::SlowReader];

    fn as_str(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::AddressLimit => "address_limit",
            Self::Displaced => "displaced",
            Self::Silent => "silent",
            Self::SlowReader => "slow_reader",
        }
    }
}

/// The end of a TLS handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handshake {
    /// With a key exchange and a certificate.
    Full,
    /// With a ticket of an earlier connection.
    Resumed,
    Failed,
    /// It took too long.
    Slow,
}

impl Handshake {
    const ALL: [Self; 4] = [Self::Full, Self::Resumed, Self::Failed, Self::Slow];

    fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Resumed => "resumed",
            Self::Failed => "failed",
            Self::Slow => "slow",
        }
    }
}

#[derive(Debug)]
pub(crate) struct ConnectionMeters {
    pub(crate) open: Gauge,
    dropped: [Counter; Dropped::ALL.len()],
    handshakes: [Counter; Handshake::ALL.len()],
}

impl ConnectionMeters {
    pub(crate) fn new(registry: &Registry) -> Self {
        Self {
            open: registry.gauge(&table::CONNECTIONS_OPEN, &[]),
            dropped: Dropped::ALL.map(|reason| registry.counter(&table::CONNECTIONS_DROPPED, &[reason.as_str()])),
            handshakes: Handshake::ALL.map(|outcome| registry.counter(&table::TLS_HANDSHAKES, &[outcome.as_str()])),
        }
    }

    pub(crate) fn dropped(&self, reason: Dropped) {
        self.dropped[reason as usize].increment(1);
    }

    pub(crate) fn shook_hands(&self, outcome: Handshake) {
        self.handshakes[outcome as usize].increment(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_handles_stand_in_the_order_of_their_words() {
        assert!(Handshake::ALL.iter().enumerate().all(|(index, outcome)| *outcome as usize == index));
        assert!(Dropped::ALL.iter().enumerate().all(|(index, reason)| *reason as usize == index));
    }
}
