//! Counts what clients download: in memory, or stored at once where several coordinators serve.

use tributary_protocol::id::ClientId;

use super::{Db, DbError};

impl Db {
    /// Counts bytes of a model that a client downloads, and the length of the same content in a plain file.
    pub async fn download_begins(&self, client: ClientId, bytes: u64, raw_bytes: u64) -> Result<(), DbError> {
        if self.is_alone() {
            self.followers().downloads.count(client, bytes, raw_bytes);
            return Ok(());
        }
        let signed = |bytes| i64::try_from(bytes).unwrap_or(i64::MAX);
        self.store_download(client, signed(bytes), signed(raw_bytes)).await
    }

    /// Subtracts bytes that were counted and not sent, because the download was interrupted.
    pub fn download_breaks_off(&self, client: ClientId, bytes: u64, raw_bytes: u64) {
        if self.is_alone() {
            return self.followers().downloads.uncount(client, bytes, raw_bytes);
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
        if self.is_alone() {
            return self.followers().downloads.end(client, now_ms);
        }
        self.followers().downloads.keep_end(client, now_ms);
        let db = self.clone();
        tokio::spawn(async move {
            if let Err(error) = db.store_download_end(client, now_ms).await {
                tracing::debug!(%error, %client, "the end of a download is not stored");
            }
            db.followers().downloads.end_is_stored(client, now_ms);
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
