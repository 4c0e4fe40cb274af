//! How operators file jobs and versions: tags, notes, the archive, pins, deletion.

use tributary_protocol::id::{JobId, Name};

use super::tx::{Json, execute, fetch};
use super::{DbError, Tx};

impl Tx {
    /// Stores the tags, the notes and the archive of a job.
    pub async fn file_job(
        &mut self,
        id: JobId,
        tags: &[Name],
        notes: &str,
        archived_at_ms: Option<i64>,
    ) -> Result<(), DbError> {
        let sql = "update jobs set tags = $2, notes = $3, archived_at_ms = $4 where id = $1";
        execute!(self, sql, id.to_string(), Json::text(&tags)?, notes, archived_at_ms);
        Ok(())
    }

    /// Pins a version (with a time) or unpins it (with none). False when it is so already.
    pub async fn pin_version(&mut self, job: JobId, version: u32, at_ms: Option<i64>) -> Result<bool, DbError> {
        let sql = "update models set pinned_at_ms = $3 where job = $1 and version = $2 \
                   and (pinned_at_ms is null) <> ($3 is null)";
        Ok(execute!(self, sql, job.to_string(), i64::from(version), at_ms) == 1)
    }

    /// Unpins all versions of a job.
    pub async fn unpin_all(&mut self, job: JobId) -> Result<(), DbError> {
        execute!(self, "update models set pinned_at_ms = null where job = $1", job.to_string());
        Ok(())
    }

    /// Sequence number of a job's last event.
    pub async fn last_event(&mut self, job: JobId) -> Result<u64, DbError> {
        let row = fetch!(self, (i64,), fetch_optional, "select events from jobs where id = $1", job.to_string());
        Ok(row.map_or(0, |(events,)| events.cast_unsigned()))
    }

    /// Deletes a job with everything that refers to it, except bodies. False when it is gone already.
    pub async fn delete_job(&mut self, id: JobId) -> Result<bool, DbError> {
        Ok(execute!(self, "delete from jobs where id = $1", id.to_string()) == 1)
    }
}
