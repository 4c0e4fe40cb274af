//! The clients at this coordinator: which wait, and what each has downloaded.
//!
//! All of it is in memory, or a hint in the database. A client that is forgotten checks in again.

pub mod downloads;
pub mod lobby;
pub mod online;
pub mod rate;
pub mod seats;
pub mod sizes;
pub mod waiting;
pub mod waits;

use std::sync::{Arc, Mutex, PoisonError};

use tributary_engine::round::{Pace, RetryReason};
use tributary_protocol::seed::Stream;

use crate::runtime::entropy;
use downloads::Downloads;
use lobby::Lobby;
use rate::Rate;
use seats::SeatLog;
use sizes::{Size, Sizes};

#[derive(Debug)]
pub struct Fleet {
    pub lobby: Arc<Lobby>,
    /// The seats of the waiting clients, for other coordinators; none with a single coordinator.
    pub seats: Option<Arc<SeatLog>>,
    pub downloads: Arc<Downloads>,
    pub check_ins: Rate,
    /// Accepted updates.
    pub updates: Rate,
    /// How often idle clients check in.
    pub pace: Pace,
    pub sizes: Sizes,
    /// Draws the retry delays.
    delays: Mutex<Stream>,
}

impl Fleet {
    /// `is_shared`: other coordinators may serve the same clients.
    #[must_use]
    pub fn new(is_shared: bool, pace: Pace) -> Self {
        Self {
            lobby: Arc::default(),
            seats: is_shared.then(Arc::default),
            downloads: Arc::new(Downloads::new(is_shared)),
            check_ins: Rate::default(),
            updates: Rate::default(),
            pace,
            sizes: Sizes::default(),
            delays: Mutex::new(entropy::seed().stream()),
        }
    }

    /// When a client without work should check in again, in a population of this size.
    #[must_use]
    pub fn retry_after_ms(&self, reason: RetryReason, size: Size) -> u64 {
        let mut delays = self.delays.lock().unwrap_or_else(PoisonError::into_inner);
        self.pace.retry_window_ms(reason, size.clients, size.places, &mut delays)
    }
}
