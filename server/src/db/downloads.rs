//! Downloads that are not stored with their assignments yet.
//!
//! With one coordinator the figures stay in memory until the assignment ends: a write per download would cost more than
//! the figures are worth, and only a crash loses them. Several coordinators write them, since the report may arrive at
//! another one.

use std::collections::HashMap;
use std::sync::Mutex;

use tributary_protocol::id::ClientId;
use tributary_protocol::traffic::Traffic;

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

    pub(super) fn count(&self, client: ClientId, bytes: u64, raw_bytes: u64) {
        let mut clients = self.0.locked();
        let Download { traffic, .. } = clients.entry(client).or_default();
        traffic.bytes_down += bytes;
        traffic.raw_bytes_down += raw_bytes;
    }

    pub(super) fn uncount(&self, client: ClientId, bytes: u64, raw_bytes: u64) {
        if let Some(Download { traffic, .. }) = self.0.locked().get_mut(&client) {
            traffic.bytes_down = traffic.bytes_down.saturating_sub(bytes);
            traffic.raw_bytes_down = traffic.raw_bytes_down.saturating_sub(raw_bytes);
        }
    }

    /// The last byte of a model was sent. There is no entry once the assignment has ended.
    pub(super) fn end(&self, client: ClientId, now_ms: i64) {
        if let Some(download) = self.0.locked().get_mut(&client) {
            download.ended_at_ms = Some(now_ms);
        }
    }

    /// Keeps the end of a download until it is stored.
    pub(super) fn keep_end(&self, client: ClientId, now_ms: i64) {
        self.0.locked().insert(client, Download { ended_at_ms: Some(now_ms), ..Download::default() });
    }

    /// The end of a download that [`Self::keep_end`] kept is stored, or cannot be.
    pub(super) fn end_is_stored(&self, client: ClientId, now_ms: i64) {
        let mut clients = self.0.locked();
        if clients.get(&client).is_some_and(|download| download.ended_at_ms == Some(now_ms)) {
            clients.remove(&client);
        }
    }
}
