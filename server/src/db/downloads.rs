//! Downloads that are not stored with their assignments yet.
//!
//! With one coordinator the figures stay in memory until the assignment ends: a write per download would cost more than
//! the figures are worth, and only a crash loses them. Several coordinators write them, since the report may arrive at
//! another one.

use std::collections::HashMap;
use std::sync::Mutex;

use tributary_protocol::id::ClientId;
use tributary_protocol::traffic::Traffic;

use super::{Db, DbError};
use crate::runtime::lock::Locked;

/// By client, for its open assignment.
#[derive(Debug, Default)]
pub(super) struct Downloads(Mutex<HashMap<ClientId, Download>>);

/// What a client downloaded, as far as it is not stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Download {
    pub(crate) traffic: Traffic,
    /// When the last byte of a model was sent.
    pub(crate) ended_at_ms: Option<i64>,
}

impl Downloads {
    /// What a client downloaded for its open assignment.
    pub(super) fn of(&self, client: ClientId) -> Download {
        self.0.locked().get(&client).copied().unwrap_or_default()
    }

    /// Forgets the downloads for an assignment that has ended, or before another one begins.
    pub(super) fn forget(&self, client: ClientId) {
        self.0.locked().remove(&client);
    }

    fn count(&self, client: ClientId, bytes: u64, raw_bytes: u64) {
        let mut clients = self.0.locked();
        let Download { traffic, .. } = clients.entry(client).or_default();
        traffic.bytes_down += bytes;
        traffic.raw_bytes_down += raw_bytes;
    }

    fn uncount(&self, client: ClientId, bytes: u64, raw_bytes: u64) {
        if let Some(Download { traffic, .. }) = self.0.locked().get_mut(&client) {
            traffic.bytes_down = traffic.bytes_down.saturating_sub(bytes);
            traffic.raw_bytes_down = traffic.raw_bytes_down.saturating_sub(raw_bytes);
        }
    }
}

impl Db {
    /// Counts bytes of a model that a client downloads, and the length of the same content in a plain file.
    pub async fn download_begins(&self, client: ClientId, bytes: u64, raw_bytes: u64) -> Result<(), DbError> {
        if self.is_alone() {
            self.downloads().count(client, bytes, raw_bytes);
            return Ok(());
        }
        let signed = |bytes| i64::try_from(bytes).unwrap_or(i64::MAX);
        self.store_download(client, signed(bytes), signed(raw_bytes)).await
    }

    /// Subtracts bytes that were counted and not sent, because the download was interrupted.
    pub fn download_breaks_off(&self, client: ClientId, bytes: u64, raw_bytes: u64) {
        if self.is_alone() {
            return self.downloads().uncount(client, bytes, raw_bytes);
        }
        let (db, signed) = (self.clone(), |bytes| -i64::try_from(bytes).unwrap_or(i64::MAX));
        // If this fails, the figure is too high; nothing depends on it.
        tokio::spawn(async move { db.store_download(client, signed(bytes), signed(raw_bytes)).await });
    }

    /// Records that the last byte of a model was sent to a client.
    ///
    /// Among several coordinators the time is written, and kept in memory only until then: the report may arrive
    /// earlier, or at another coordinator.
    pub fn download_ended(&self, client: ClientId, now_ms: i64) {
        let ended_at_ms = Some(now_ms);
        if self.is_alone() {
            // There is no entry once the assignment has ended.
            if let Some(download) = self.downloads().0.locked().get_mut(&client) {
                download.ended_at_ms = ended_at_ms;
            }
            return;
        }
        self.downloads().0.locked().insert(client, Download { ended_at_ms, ..Download::default() });
        let db = self.clone();
        tokio::spawn(async move {
            if let Err(error) = db.store_download_end(client, now_ms).await {
                tracing::debug!(%error, %client, "the end of a download is not stored");
            }
            let mut clients = db.downloads().0.locked();
            if clients.get(&client).is_some_and(|download| download.ended_at_ms == ended_at_ms) {
                clients.remove(&client);
            }
        });
    }

    async fn store_download(&self, client: ClientId, bytes: i64, raw_bytes: i64) -> Result<(), DbError> {
        let mut tx = self.begin_losable().await?;
        tx.count_download(client, bytes, raw_bytes).await?;
        tx.commit().await
    }

    async fn store_download_end(&self, client: ClientId, at_ms: i64) -> Result<(), DbError> {
        let mut tx = self.begin_losable().await?;
        tx.download_ended(client, at_ms).await?;
        tx.commit().await
    }
}
