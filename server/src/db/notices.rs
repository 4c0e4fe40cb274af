//! Notifications that wait for their receiver.

use super::tx::{execute, fetch};
use super::{DbError, Tx};

/// A notification that is due.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct NoticeRow {
    pub id: String,
    /// Which webhook takes it: empty, or a population.
    pub target: String,
    /// JSON.
    pub body: String,
    /// Attempts so far.
    #[sqlx(try_from = "i64")]
    pub attempts: u32,
    next_at_ms: i64,
}

impl Tx {
    /// Stores a notification that is due at once, unless it is there already.
    pub async fn insert_notice(&mut self, id: &str, target: &str, body: &str, now_ms: i64) -> Result<(), DbError> {
        let sql = "insert into notices (id, target, body, created_at_ms, next_at_ms) values ($1, $2, $3, $4, $4) \
                   on conflict (id, target) do nothing";
        execute!(self, sql, id, target, body, now_ms);
        Ok(())
    }

    /// Notifications whose next attempt is due, oldest first.
    pub async fn due_notices(&mut self, now_ms: i64, limit: u32) -> Result<Vec<NoticeRow>, DbError> {
        let sql = "select id, target, body, attempts, next_at_ms from notices \
                   where next_at_ms is not null and next_at_ms <= $1 order by created_at_ms, id, target limit $2";
        Ok(fetch!(self, NoticeRow, fetch_all, sql, now_ms, i64::from(limit)))
    }

    /// Claims an attempt, and moves the next one on; none for the last attempt. Of all coordinators that try, one gets
    /// true.
    pub async fn claim_notice(&mut self, notice: &NoticeRow, next_at_ms: Option<i64>) -> Result<bool, DbError> {
        let sql = "update notices set attempts = attempts + 1, next_at_ms = $4 \
                   where id = $1 and target = $2 and next_at_ms = $3";
        Ok(execute!(self, sql, notice.id.as_str(), notice.target.as_str(), notice.next_at_ms, next_at_ms) == 1)
    }

    /// Records that a notification was taken, and deletes those that were stored before `before_ms` and need no further
    /// attempt.
    pub async fn notice_sent(&mut self, notice: &NoticeRow, now_ms: i64, before_ms: i64) -> Result<(), DbError> {
        let sql = "update notices set sent_at_ms = $3, next_at_ms = null where id = $1 and target = $2";
        execute!(self, sql, notice.id.as_str(), notice.target.as_str(), now_ms);
        execute!(self, "delete from notices where next_at_ms is null and created_at_ms < $1", before_ms);
        Ok(())
    }
}
