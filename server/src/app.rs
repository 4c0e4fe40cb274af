//! What every part of the coordinator shares.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tributary_protocol::id::{ClientId, Name};
use tributary_protocol::seed::Stream;

use crate::blob::{Blobs, SharedParts};
use crate::clock::Clock;
use crate::cluster::lease::Leases;
use crate::cluster::seats::SeatLog;
use crate::db::{Db, DbError, Traffic};
use crate::entropy;
use crate::lobby::Lobby;
use crate::meters::CheckIns;
use crate::metrics::Metrics;
use crate::round::{RetryReason, retry_window_ms};
use crate::spec::Specs;
use crate::sums::Sums;
use crate::upload_memory::UploadMemory;
use crate::uploads::Uploads;

/// Most models that are written in a form that is not stored at the same time: each is read from its beginning to its end.
const FORMS_MADE_MAX: usize = 8;

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
    /// How often clients check in.
    pub check_ins: CheckIns,
    /// Ends when the coordinator stops.
    pub stopping: CancellationToken,
    /// Who sends which update.
    pub uploads: Arc<Uploads>,
    /// Memory for updates in flight, each with one part of its body; further ones wait, their bodies unread.
    pub upload_memory: UploadMemory,
    /// Parts of models that are being sent.
    pub shared_parts: SharedParts,
    /// Places for models that are written in a form that is not stored, for whoever asks.
    pub forms_made: Arc<Semaphore>,
    driver: Notify,
    changes: watch::Sender<u64>,
    downloads: Mutex<HashMap<ClientId, Download>>,
    pace: Mutex<Stream>,
}

/// What a client fetched for its open assignment.
#[derive(Clone, Copy, Debug, Default)]
struct Download {
    traffic: Traffic,
    ended_at_ms: Option<i64>,
}

impl App {
    /// Shares a database, the place of its bodies and a clock, under this process's name among the coordinators.
    #[must_use]
    pub fn new(
        db: Db,
        blobs: Blobs,
        clock: Clock,
        node: Name,
        lease: Duration,
        upload_memory: usize,
        metrics: Arc<Metrics>,
    ) -> Arc<Self> {
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
            check_ins: CheckIns::default(),
            stopping: CancellationToken::new(),
            uploads: Arc::default(),
            upload_memory: UploadMemory::new(upload_memory, metrics.uploads()),
            shared_parts: SharedParts::default(),
            forms_made: Arc::new(Semaphore::new(FORMS_MADE_MAX)),
            driver: Notify::new(),
            changes: watch::Sender::new(0),
            downloads: Mutex::default(),
            pace: Mutex::new(entropy::seed().stream()),
            metrics,
        })
    }

    /// Updates that are being received.
    #[must_use]
    pub fn updates_in_flight(&self) -> u64 {
        self.upload_memory.taken()
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

    /// Counts bytes of a model that a client fetched for its open assignment, and what they would have been in a plain
    /// file.
    ///
    /// With one coordinator they stay in memory until the assignment ends: a write per download would cost more than the
    /// figure is worth, and only a crash loses it. Several coordinators write it, since the report may go to another.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn count_download(&self, client: ClientId, bytes: u64, raw_bytes: u64) -> Result<(), DbError> {
        if self.seats.is_some() {
            let signed = |bytes| i64::try_from(bytes).unwrap_or(i64::MAX);
            return self.store_download(client, signed(bytes), signed(raw_bytes)).await;
        }
        let mut downloads = self.downloads();
        let Download { traffic, .. } = downloads.entry(client).or_default();
        traffic.bytes_down += bytes;
        traffic.raw_bytes_down += raw_bytes;
        Ok(())
    }

    async fn store_download(&self, client: ClientId, bytes: i64, raw_bytes: i64) -> Result<(), DbError> {
        let mut tx = self.db.begin_losable().await?;
        tx.count_download(client, bytes, raw_bytes).await?;
        tx.commit().await
    }

    /// Takes back bytes that were counted and not sent, because the download broke off.
    pub fn uncount_download(app: &Arc<Self>, client: ClientId, bytes: u64, raw_bytes: u64) {
        if app.seats.is_some() {
            let (app, signed) = (Arc::clone(app), |bytes| -i64::try_from(bytes).unwrap_or(i64::MAX));
            // Without it the figure is too high; nothing depends on it.
            tokio::spawn(async move { app.store_download(client, signed(bytes), signed(raw_bytes)).await });
            return;
        }
        if let Some(Download { traffic, .. }) = app.downloads().get_mut(&client) {
            traffic.bytes_down = traffic.bytes_down.saturating_sub(bytes);
            traffic.raw_bytes_down = traffic.raw_bytes_down.saturating_sub(raw_bytes);
        }
    }

    /// Notes that the last byte of a model went to a client.
    ///
    /// Among several coordinators it is written, and remembered only until it is: the report may come sooner, or elsewhere.
    pub fn download_ended(app: &Arc<Self>, client: ClientId) {
        let now_ms = app.clock.now_ms();
        let ended_at_ms = Some(now_ms);
        if app.seats.is_none() {
            // Nothing is there once the assignment has ended.
            if let Some(download) = app.downloads().get_mut(&client) {
                download.ended_at_ms = ended_at_ms;
            }
            return;
        }
        app.downloads().insert(client, Download { ended_at_ms, ..Download::default() });
        let app = Arc::clone(app);
        tokio::spawn(async move {
            if let Err(error) = app.store_download_end(client, now_ms).await {
                tracing::debug!(%error, %client, "the end of a download is not noted");
            }
            let mut downloads = app.downloads();
            if downloads.get(&client).is_some_and(|download| download.ended_at_ms == ended_at_ms) {
                downloads.remove(&client);
            }
        });
    }

    async fn store_download_end(&self, client: ClientId, at_ms: i64) -> Result<(), DbError> {
        let mut tx = self.db.begin_losable().await?;
        tx.download_ended(client, at_ms).await?;
        tx.commit().await
    }

    /// Bytes that a client fetched for its open assignment, as far as they are in memory.
    #[must_use]
    pub fn fetched(&self, client: ClientId) -> Traffic {
        self.downloads().get(&client).map(|download| download.traffic).unwrap_or_default()
    }

    /// When the last download for a client's open assignment ended, as far as that is in memory.
    #[must_use]
    pub fn fetched_at_ms(&self, client: ClientId) -> Option<i64> {
        self.downloads().get(&client)?.ended_at_ms
    }

    /// The assignment that they were fetched for has ended, or another one begins.
    pub fn forget_downloads(&self, client: ClientId) {
        self.downloads().remove(&client);
    }

    fn downloads(&self) -> MutexGuard<'_, HashMap<ClientId, Download>> {
        self.downloads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When a client without work should come back.
    #[must_use]
    pub fn retry_after_ms(&self, reason: RetryReason, clients: u64) -> u64 {
        retry_window_ms(reason, clients, &mut self.pace.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
