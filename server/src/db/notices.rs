//! Notifications that wait for their receiver.

use super::tx::{execute, fetch};
use super::{DbError, Tx};

/// A notification that is due.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct NoticeRow {
    pub id: String,
    /// JSON.
    pub body: String,
    /// Attempts so far.
    #[sqlx(try_from = "i64")]
    pub attempts: u32,
    next_at_ms: i64,
}

impl Tx {
    /// Stores a notification that is due at once.
    pub async fn insert_notice(&mut self, id: &str, body: &str, now_ms: i64) -> Result<(), DbError> {
        let sql = "insert into notices (id, body, created_at_ms, next_at_ms) values ($1, $2, $3, $3)";
        execute!(self, sql, id, body, now_ms);
        Ok(())
    }

    /// Notifications whose next attempt is due, oldest first.
    pub async fn due_notices(&mut self, now_ms: i64, limit: u32) -> Result<Vec<NoticeRow>, DbError> {
        let sql = "select id, body, attempts, next_at_ms from notices \
                   where next_at_ms is not null and next_at_ms <= $1 order by created_at_ms, id limit $2";
        Ok(fetch!(self, NoticeRow, fetch_all, sql, now_ms, i64::from(limit)))
    }

    /// Claims an attempt, and moves the next one on; none for the last attempt. Of all coordinators that try, one gets
    /// true.
    pub async fn claim_notice(&mut self, notice: &NoticeRow, next_at_ms: Option<i64>) -> Result<bool, DbError> {
        let sql = "update notices set attempts = attempts + 1, next_at_ms = $3 where id = $1 and next_at_ms = $2";
        Ok(execute!(self, sql, notice.id.as_str(), notice.next_at_ms, next_at_ms) == 1)
    }

    /// Records that a notification was taken, and deletes those that were stored before `before_ms` and need no further
    /// attempt.
    pub async fn notice_sent(&mut self, id: &str, now_ms: i64, before_ms: i64) -> Result<(), DbError> {
        execute!(self, "update notices set sent_at_ms = $2, next_at_ms = null where id = $1", id, now_ms);
        execute!(self, "delete from notices where next_at_ms is null and created_at_ms < $1", before_ms);
        Ok(())
    }
}
