//! A made-up fleet: how long each client takes, and which work it never finishes.

use std::f64::consts::TAU;
use std::sync::Arc;

use tributary_engine::round::Candidate;
use tributary_protocol::abilities::Abilities;
use tributary_protocol::device::Attributes;
use tributary_protocol::example_sets::ExampleSets;
use tributary_protocol::id::ClientId;
use tributary_protocol::seed::{Seed, Stream};
use tributary_protocol::update::CodecName;

/// Time of the median client for its work.
const MEDIAN_MS: f64 = 60_000.0;
/// Standard deviation of the logarithm of that time.
const DEVIATION: f64 = 0.5;
/// One client in this many is slow.
const SLOW_ONE_IN: usize = 10;
/// How much longer slow clients take.
const SLOW_FACTOR: f64 = 10.0;
/// Share of the work that dies with its client.
const DIES: f64 = 0.05;

/// Clients with log-normal speeds, of which a tenth is ten times slower. One piece of work in twenty dies.
#[derive(Debug)]
pub struct Fleet {
    pub(crate) candidates: Vec<Arc<Candidate>>,
    work_ms: Vec<i64>,
    deaths: Stream,
}

impl Fleet {
    pub fn draw(clients: u32, seed: Seed) -> Self {
        let mut stream = seed.derive("speeds", 0).stream();
        let slow = |client: usize| if client % SLOW_ONE_IN == SLOW_ONE_IN - 1 { SLOW_FACTOR } else { 1.0 };
        let mut work_ms = |client: usize| {
            // Box and Muller 1958.
            let (radius, turn) = ((-2.0 * (1.0 - stream.unit()).ln()).sqrt(), TAU * stream.unit());
            (MEDIAN_MS * slow(client) * (DEVIATION * radius * turn.cos()).exp()) as i64
        };
        Self {
            candidates: (0..u64::from(clients)).map(candidate).collect(),
            work_ms: (0..clients as usize).map(&mut work_ms).collect(),
            deaths: seed.derive("deaths", 0).stream(),
        }
    }

    /// How long the next work of a client takes; none if it dies.
    pub(crate) fn work_ms(&mut self, client: usize) -> Option<i64> {
        (self.deaths.unit() >= DIES).then_some(self.work_ms[client])
    }
}

/// The id of the client with this enrolment number.
pub(crate) fn client_id(number: u64) -> ClientId {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    ClientId::from_random(bytes)
}

fn candidate(number: u64) -> Arc<Candidate> {
    Arc::new(Candidate {
        client: client_id(number),
        number,
        attributes: Attributes::default(),
        examples: 1,
        sets: ExampleSets::default(),
        codecs: CodecName::ALL.to_vec(),
        abilities: Abilities::FIRST,
        schema: None,
        answers: true,
        masks: true,
        signs: true,
        relay: None,
        share: None,
    })
}
