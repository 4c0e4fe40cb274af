//! How often limits of callers were reached.

use ::metrics::Counter;

use super::registry::Registry;
use super::table;

/// A limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limited {
    /// A newer check-in replaced one that was held.
    HeldPerClient,
    /// Too many check-ins were held from one address.
    HeldPerAddress,
    /// A client asked too often.
    Requests,
    /// An operator had too many event streams.
    Feeds,
    /// There was no memory for a JSON body.
    Bodies,
    /// A form of a model was no longer computed, because its reader took nothing and another one waited.
    Forms,
}

impl Limited {
    const ALL: [Self; 6] =
        [Self::HeldPerClient, Self::HeldPerAddress, Self::Requests, Self::Feeds, Self::Bodies, Self::Forms];

    fn as_str(self) -> &'static str {
        match self {
            Self::HeldPerClient => "held_per_client",
            Self::HeldPerAddress => "held_per_address",
            Self::Requests => "requests_per_client",
            Self::Feeds => "feeds_per_operator",
            Self::Bodies => "json_bodies",
            Self::Forms => "forms",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct LimitMeters([Counter; Limited::ALL.len()]);

impl LimitMeters {
    pub(super) fn new(registry: &Registry) -> Self {
        Self(Limited::ALL.map(|limit| registry.counter(&table::LIMITED, &[limit.as_str()])))
    }

    pub(crate) fn hit(&self, limit: Limited) {
        self.0[limit as usize].increment(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_handles_stand_in_the_order_of_their_words() {
        assert!(Limited::ALL.iter().enumerate().all(|(index, limit)| *limit as usize == index));
    }
}
