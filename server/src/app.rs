//! What every part of the coordinator shares.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tributary_protocol::id::{ClientId, Name};
use tributary_protocol::seed::Stream;

use crate::blob::Blobs;
use crate::clock::Clock;
use crate::cluster::lease::Leases;
use crate::cluster::seats::SeatLog;
use crate::db::{Db, DbError};
use crate::entropy;
use crate::lobby::Lobby;
use crate::metrics::{Metrics, Places};
use crate::round::{RetryReason, retry_window_ms};
use crate::spec::Specs;
use crate::sums::Sums;

/// Updates that are received at the same time; further ones wait their turn. Each holds its body and its decoded
/// values, two model sizes.
const UPDATES_IN_FLIGHT_MAX: usize = 8;

/// The coordinator's shared state. All of it but the database can be lost at any moment without losing work.
#[derive(Debug)]
pub struct App {
    /// What is stored.
    pub db: Db,
    /// Where bodies of models and updates are.
    pub blobs: Blobs,
    /// What time it is.
    pub clock: Clock,
    /// What is measured.
    pub metrics: Arc<Metrics>,
    /// Who waits for work.
    pub lobby: Arc<Lobby>,
    /// Who drives which job.
    pub leases: Leases,
    /// Seats to tell to other coordinators; none where there are no others.
    pub seats: Option<Arc<SeatLog>>,
    /// Running sums of open rounds.
    pub sums: Sums,
    /// Jobs, ready for use.
    pub specs: Specs,
    /// Ends when the coordinator stops.
    pub stopping: CancellationToken,
    /// Places for updates in flight.
    pub update_places: Places,
    driver: Notify,
    changes: watch::Sender<u64>,
    downloads: Mutex<HashMap<ClientId, u64>>,
    pace: Mutex<Stream>,
}

impl App {
    /// Shares a database, the place of its bodies and a clock, under this process's name among the coordinators.
    #[must_use]
    pub fn new(db: Db, blobs: Blobs, clock: Clock, node: Name, lease: Duration, metrics: Arc<Metrics>) -> Arc<Self> {
        let seats = matches!(db, Db::Postgres { .. }).then(Arc::default);
        Arc::new(Self {
            leases: Leases::new(node, lease, clock.now_ms()),
            seats,
            db,
            blobs,
            clock,
            lobby: Arc::default(),
            sums: Sums::default(),
            specs: Specs::new(Arc::clone(&metrics)),
            update_places: metrics.places(UPDATES_IN_FLIGHT_MAX),
            stopping: CancellationToken::new(),
            driver: Notify::new(),
            changes: watch::Sender::new(0),
            downloads: Mutex::default(),
            pace: Mutex::new(entropy::seed().stream()),
            metrics,
        })
    }

    /// Says that something changed that the driver or a watcher may care about.
    pub fn changed(&self) {
        self.driver.notify_one();
        self.changes.send_modify(|count| *count += 1);
    }

    /// Says that a client came in: the driver may find it work.
    pub fn wake_driver(&self) {
        self.driver.notify_one();
    }

    /// Waits for [`Self::changed`] or [`Self::wake_driver`]; one call before the wait is enough.
    pub async fn driver_woken(&self) {
        self.driver.notified().await;
    }

    /// Follows changes: marks the present as seen.
    #[must_use]
    pub fn follow_changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Counts bytes of a model that a client fetched for its open assignment.
    ///
    /// With one coordinator they stay in memory until the assignment ends: a write per download would cost more than the
    /// figure is worth, and only a crash loses it. Several coordinators write it, since the report may go to another.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn count_download(&self, client: ClientId, bytes: u64) -> Result<(), DbError> {
        if self.seats.is_some() {
            let mut tx = self.db.begin().await?;
            tx.may_be_lost().await?;
            tx.count_download(client, bytes).await?;
            return tx.commit().await;
        }
        *self.downloads.lock().unwrap_or_else(PoisonError::into_inner).entry(client).or_default() += bytes;
        Ok(())
    }

    /// Bytes that a client fetched for its open assignment, as far as they are in memory.
    #[must_use]
    pub fn downloads(&self, client: ClientId) -> u64 {
        self.downloads.lock().unwrap_or_else(PoisonError::into_inner).get(&client).copied().unwrap_or(0)
    }

    /// The assignment that they were fetched for has ended, or another one begins.
    pub fn forget_downloads(&self, client: ClientId) {
        self.downloads.lock().unwrap_or_else(PoisonError::into_inner).remove(&client);
    }

    /// When a client without work should come back.
    #[must_use]
    pub fn retry_after_ms(&self, reason: RetryReason, clients: u64) -> u64 {
        retry_window_ms(reason, clients, &mut self.pace.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
