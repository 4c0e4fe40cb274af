//! The clients that wait at this coordinator.
//!
//! All of it is in memory, or a hint in the database. A client that is forgotten checks in again.

pub mod held;
pub mod lobby;
pub mod online;
pub mod rate;
pub mod seats;
pub mod turns;
pub mod waiting;
pub mod waits;
pub mod wanted;

use std::sync::{Arc, Mutex};

use tributary_engine::round::{Pace, RetryReason};
use tributary_protocol::id::Name;
use tributary_protocol::seed::Stream;

use crate::runtime::entropy;
use crate::runtime::kept::Kept;
use crate::runtime::lock::Locked;
use lobby::Lobby;
use rate::Rate;
use seats::{SeatLog, Seated};
use wanted::Wants;

/// How long the size of a population is used again, in milliseconds.
const SIZES_KEPT_MS: i64 = 1_000;

/// How long seats are used again to tell clients what they wait for, in milliseconds.
const SEATS_KEPT_MS: i64 = 1_000;

/// The size of a population.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Enrolled clients.
    pub clients: u64,
    /// Clients that the running jobs draw together when each opens a round; 0 where nothing depends on it.
    pub places: u64,
}

#[derive(Debug)]
pub struct Fleet {
    pub lobby: Arc<Lobby>,
    /// The seats of the waiting clients, for other coordinators; none with a single coordinator.
    pub seats: Option<Arc<SeatLog>>,
    pub check_ins: Rate,
    /// Accepted updates.
    pub updates: Rate,
    /// How often idle clients check in.
    pub pace: Pace,
    /// Sizes of populations. Each answer without work depends on them, and a second changes little in a delay of
    /// minutes.
    pub sizes: Kept<Name, Size>,
    pub wants: Wants,
    seated: Kept<Name, Seated>,
    /// Draws the retry delays.
    delays: Mutex<Stream>,
}

impl Fleet {
    /// `is_shared`: other coordinators may serve the same clients.
    pub fn new(is_shared: bool, pace: Pace) -> Self {
        Self {
            lobby: Arc::default(),
            seats: is_shared.then(Arc::default),
            check_ins: Rate::default(),
            updates: Rate::default(),
            pace,
            sizes: Kept::new(SIZES_KEPT_MS),
            wants: Wants::default(),
            seated: Kept::new(SEATS_KEPT_MS),
            delays: Mutex::new(entropy::seed().stream()),
        }
    }

    /// When a client without work should check in again, in a population of this size.
    pub fn retry_after_ms(&self, reason: RetryReason, size: Size) -> u64 {
        let mut delays = self.delays.locked();
        self.pace.retry_window_ms(reason, size.clients, size.places, &mut delays)
    }
}
