//! Scheduled work: when it is due, and how its last run ended.

use tributary_protocol::operator::{ScheduledRun, ScheduledWork};

use super::tx::{execute, fetch};
use super::{DbError, Tx};

#[derive(sqlx::FromRow)]
struct ScheduleRow {
    name: String,
    cron: String,
    time_zone: String,
    next_at_ms: i64,
    started_at_ms: Option<i64>,
    node: Option<String>,
    ended_at_ms: Option<i64>,
    failed: bool,
    outcome: String,
}

impl From<ScheduleRow> for ScheduledWork {
    fn from(row: ScheduleRow) -> Self {
        let ScheduleRow { ended_at_ms, failed, outcome, .. } = row;
        let last = row.started_at_ms.zip(row.node);
        Self {
            name: row.name,
            cron: row.cron,
            time_zone: row.time_zone,
            next_at_ms: row.next_at_ms,
            last: last.map(|(started_at_ms, node)| ScheduledRun { started_at_ms, node, ended_at_ms, failed, outcome }),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// When the run began. This identifies the run.
    pub started_at_ms: i64,
    pub ended_at_ms: i64,
    pub failed: bool,
    /// What the run did, or why it failed.
    pub outcome: String,
}

impl Tx {
    /// Stores a schedule that does not exist yet. An existing schedule stays as it is.
    pub async fn insert_schedule(
        &mut self,
        name: &str,
        cron: &str,
        time_zone: &str,
        next_at_ms: i64,
    ) -> Result<(), DbError> {
        let sql = "insert into schedules (name, cron, time_zone, next_at_ms) values ($1, $2, $3, $4) \
                   on conflict (name) do nothing";
        execute!(self, sql, name, cron, time_zone, next_at_ms);
        Ok(())
    }

    /// Scheduled work by name, after `after`.
    pub async fn schedules(&mut self, after: &str, limit: u32) -> Result<Vec<ScheduledWork>, DbError> {
        let sql = "select name, cron, time_zone, next_at_ms, started_at_ms, node, ended_at_ms, failed, outcome \
                   from schedules where name > $1 order by name limit $2";
        let rows = fetch!(self, ScheduleRow, fetch_all, sql, after, i64::from(limit));
        Ok(rows.into_iter().map(ScheduledWork::from).collect())
    }

    /// Claims the run that is due at `due_at_ms`, and moves the next one to `next_at_ms`. Of all coordinators that try,
    /// one gets true.
    pub async fn claim_run(
        &mut self,
        name: &str,
        due_at_ms: i64,
        next_at_ms: i64,
        node: &str,
        now_ms: i64,
    ) -> Result<bool, DbError> {
        let sql = "update schedules set next_at_ms = $3, node = $4, started_at_ms = $5, ended_at_ms = null, \
                   failed = false, outcome = '' where name = $1 and next_at_ms = $2";
        Ok(execute!(self, sql, name, due_at_ms, next_at_ms, node, now_ms) == 1)
    }

    /// Stores the outcome of a run. Returns false when a later run has begun meanwhile.
    pub async fn end_run(&mut self, name: &str, node: &str, end: &RunEnd) -> Result<bool, DbError> {
        let sql = "update schedules set ended_at_ms = $4, failed = $5, outcome = $6 \
                   where name = $1 and node = $2 and started_at_ms = $3 and ended_at_ms is null";
        let RunEnd { started_at_ms, ended_at_ms, failed, outcome } = end;
        Ok(execute!(self, sql, name, node, *started_at_ms, *ended_at_ms, *failed, outcome.as_str()) == 1)
    }
}
