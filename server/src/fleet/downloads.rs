//! The downloads of each client for its open assignment.
//!
//! With one coordinator the figures stay in memory until the assignment ends: a write per download would cost more than
//! the figures are worth, and only a crash loses them. Several coordinators write them, since the report may arrive at
//! another one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tributary_protocol::id::ClientId;
use tributary_protocol::traffic::Traffic;

use crate::db::{Db, DbError};
use crate::runtime::lock::Locked;

#[derive(Debug)]
pub struct Downloads {
    is_shared: bool,
    clients: Mutex<HashMap<ClientId, Download>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Download {
    traffic: Traffic,
    ended_at_ms: Option<i64>,
}

impl Downloads {
    /// `is_shared`: other coordinators may receive the reports.
    pub fn new(is_shared: bool) -> Self {
        Self { is_shared, clients: Mutex::default() }
    }

    /// Counts bytes of a model that a client downloads, and the length of the same content in a plain file.
    pub async fn count(&self, db: &Db, client: ClientId, bytes: u64, raw_bytes: u64) -> Result<(), DbError> {
        if self.is_shared {
            let signed = |bytes| i64::try_from(bytes).unwrap_or(i64::MAX);
            return store(db, client, signed(bytes), signed(raw_bytes)).await;
        }
        let mut clients = self.clients.locked();
        let Download { traffic, .. } = clients.entry(client).or_default();
        traffic.bytes_down += bytes;
        traffic.raw_bytes_down += raw_bytes;
        Ok(())
    }

    /// Subtracts bytes that were counted and not sent, because the download was interrupted.
    pub fn uncount(&self, db: &Db, client: ClientId, bytes: u64, raw_bytes: u64) {
        if self.is_shared {
            let (db, signed) = (db.clone(), |bytes| -i64::try_from(bytes).unwrap_or(i64::MAX));
            // If this fails, the figure is too high; nothing depends on it.
            tokio::spawn(async move { store(&db, client, signed(bytes), signed(raw_bytes)).await });
            return;
        }
        if let Some(Download { traffic, .. }) = self.clients.locked().get_mut(&client) {
            traffic.bytes_down = traffic.bytes_down.saturating_sub(bytes);
            traffic.raw_bytes_down = traffic.raw_bytes_down.saturating_sub(raw_bytes);
        }
    }

    /// Records that the last byte of a model was sent to a client.
    ///
    /// Among several coordinators the time is written, and kept in memory only until then: the report may arrive
    /// earlier, or at another coordinator.
    pub fn ended(self: &Arc<Self>, db: &Db, client: ClientId, now_ms: i64) {
        let ended_at_ms = Some(now_ms);
        if !self.is_shared {
            // There is no entry once the assignment has ended.
            if let Some(download) = self.clients.locked().get_mut(&client) {
                download.ended_at_ms = ended_at_ms;
            }
            return;
        }
        self.clients.locked().insert(client, Download { ended_at_ms, ..Download::default() });
        let (downloads, db) = (Arc::clone(self), db.clone());
        tokio::spawn(async move {
            if let Err(error) = store_end(&db, client, now_ms).await {
                tracing::debug!(%error, %client, "the end of a download is not stored");
            }
            let mut clients = downloads.clients.locked();
            if clients.get(&client).is_some_and(|download| download.ended_at_ms == ended_at_ms) {
                clients.remove(&client);
            }
        });
    }

    /// Bytes that a client downloaded for its open assignment, as far as they are in memory.
    pub fn traffic(&self, client: ClientId) -> Traffic {
        self.clients.locked().get(&client).map(|download| download.traffic).unwrap_or_default()
    }

    /// When a client's last download for its open assignment ended, as far as that is in memory.
    pub fn ended_at_ms(&self, client: ClientId) -> Option<i64> {
        self.clients.locked().get(&client)?.ended_at_ms
    }

    /// Forgets the downloads for an assignment that has ended, or before another one begins.
    pub fn forget(&self, client: ClientId) {
        self.clients.locked().remove(&client);
    }
}

async fn store(db: &Db, client: ClientId, bytes: i64, raw_bytes: i64) -> Result<(), DbError> {
    let mut tx = db.begin_losable().await?;
    tx.count_download(client, bytes, raw_bytes).await?;
    tx.commit().await
}

async fn store_end(db: &Db, client: ClientId, at_ms: i64) -> Result<(), DbError> {
    let mut tx = db.begin_losable().await?;
    tx.download_ended(client, at_ms).await?;
    tx.commit().await
}
