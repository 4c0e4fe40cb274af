//! Rounds that are buffers, and the open assignments that move from one to the next.

use std::ops::RangeInclusive;

use tributary_engine::round::OpenWork;
use tributary_engine::story::StaleUpdate;
use tributary_protocol::id::{ClientId, JobId};
use tributary_protocol::operator::StalenessCount;
use tributary_protocol::state::Task;

use super::assignments::{AssignmentRow, assignment_columns};
use super::tx::{Text, execute, fetch};
use super::{DbError, RoundKey, Tx};

#[derive(sqlx::FromRow)]
struct OpenWorkRow {
    ends_at_ms: Option<i64>,
    begins_at_ms: Option<i64>,
}

#[derive(sqlx::FromRow)]
struct CountRow {
    #[sqlx(try_from = "i64")]
    staleness: u32,
    #[sqlx(try_from = "i64")]
    updates: u64,
    #[sqlx(try_from = "i64")]
    examples: u64,
}

#[derive(sqlx::FromRow)]
struct StaleRow {
    #[sqlx(try_from = "String")]
    client: ClientId,
    #[sqlx(try_from = "i64")]
    client_number: u64,
    #[sqlx(try_from = "i64")]
    staleness: u32,
    #[sqlx(try_from = "i64")]
    examples: u64,
}

impl Tx {
    /// The times of a job's open assignments that have deadlines of their own; none without any.
    pub async fn open_work(&mut self, job: JobId) -> Result<Option<OpenWork>, DbError> {
        // A clock that was set back by more than twice the length of an assignment ends it, as `Term::is_over` does.
        let sql = "select min(deadline_at_ms) as ends_at_ms, max(assigned_at_ms - (deadline_at_ms - assigned_at_ms)) as \
                   begins_at_ms from assignments where job = $1 and state = 'assigned' and deadline_at_ms is not null";
        let row = fetch!(self, OpenWorkRow, fetch_one, sql, job.to_string());
        Ok(row.ends_at_ms.zip(row.begins_at_ms).map(|(ends_at_ms, begins_at_ms)| OpenWork { ends_at_ms, begins_at_ms }))
    }

    /// The open assignments of a job that have deadlines of their own.
    pub async fn open_assignments(&mut self, job: JobId) -> Result<Vec<AssignmentRow>, DbError> {
        let sql = concat!(
            "select ",
            assignment_columns!(),
            " from assignments where job = $1 and state = 'assigned' and deadline_at_ms is not null order by id"
        );
        Ok(fetch!(self, AssignmentRow, fetch_all, sql, job.to_string()))
    }

    /// The model versions that the open assignments of a job start from.
    pub async fn assigned_versions(&mut self, job: JobId) -> Result<Vec<u32>, DbError> {
        let sql = "select distinct base_version from assignments where job = $1 and state = 'assigned'";
        let rows = fetch!(self, (i64,), fetch_all, sql, job.to_string());
        let version = |(version,)| u32::try_from(version).map_err(|error| DbError::corrupt("base_version", error));
        rows.into_iter().map(version).collect()
    }

    /// Moves the open training assignments of earlier rounds to this round. Returns how many updates they may bring.
    pub async fn move_assignments(&mut self, key: RoundKey) -> Result<u32, DbError> {
        let (job, number) = (key.job.to_string(), i64::from(key.number));
        let sql = "update rounds set cohort = cohort - (select coalesce(sum(case when a.places > 0 then a.places \
                   else 1 end), 0) from assignments a where a.job = rounds.job \
                   and a.task = rounds.task and a.round = rounds.number and a.state = 'assigned') \
                   where job = $1 and task = 'train' and number in (select round from assignments \
                   where job = $1 and task = 'train' and state = 'assigned' and round < $2)";
        execute!(self, sql, job.as_str(), number);
        let sql = "update assignments set round = $2 where job = $1 and task = 'train' and state = 'assigned' and round < $2 \
             returning places";
        let moved = fetch!(self, (i64,), fetch_all, sql, job.as_str(), number);
        Ok(moved.into_iter().map(|(places,)| u32::try_from(places).unwrap_or(0).max(1)).sum())
    }

    /// Counts clients that are drawn into an open buffer, of which `drawn` were drawn before. Returns false when
    /// another driver has drawn, or the buffer is not open.
    pub async fn draw_into(&mut self, key: RoundKey, drawn: u32, clients: u32) -> Result<bool, DbError> {
        let sql = "update rounds set cohort = cohort + $5, drawn = drawn + $5 \
                   where job = $1 and task = $2 and number = $3 and phase = 'training' and drawn = $4";
        let (job, number) = (key.job.to_string(), i64::from(key.number));
        Ok(execute!(self, sql, job.as_str(), key.task.as_str(), number, i64::from(drawn), i64::from(clients)) == 1)
    }

    /// The number of updates of each client in a round; those without any are left out.
    pub async fn reports_by_client(&mut self, key: RoundKey) -> Result<Vec<(ClientId, u32)>, DbError> {
        let sql = "select client, cast(sum(case when places > 0 then updates else 1 end) as bigint) from assignments \
                   where job = $1 and task = $2 and round = $3 and state = 'reported' group by client";
        let (job, number) = (key.job.to_string(), i64::from(key.number));
        let rows = fetch!(self, (Text<ClientId>, i64), fetch_all, sql, job.as_str(), key.task.as_str(), number);
        Ok(rows.into_iter().map(|(Text(client), count)| (client, u32::try_from(count).unwrap_or(u32::MAX))).collect())
    }

    /// The number of assignments that a client has in a round.
    pub async fn assignments_of(&mut self, key: RoundKey, client: ClientId) -> Result<u64, DbError> {
        let sql = "select count(*) from assignments where job = $1 and task = $2 and round = $3 and client = $4";
        let (job, number) = (key.job.to_string(), i64::from(key.number));
        let (count,) =
            fetch!(self, (i64,), fetch_one, sql, job.as_str(), key.task.as_str(), number, client.to_string());
        u64::try_from(count).map_err(|error| DbError::corrupt("count of assignments", error))
    }

    /// Adds the staleness of accepted updates to their round, with the weight that it took.
    pub async fn count_staleness(&mut self, key: RoundKey, staleness: u32, lost_weight: f64) -> Result<(), DbError> {
        let sql = "update rounds set staleness = staleness + $4, lost_weight = lost_weight + $5 \
                   where job = $1 and task = $2 and number = $3";
        let (job, number) = (key.job.to_string(), i64::from(key.number));
        execute!(self, sql, job.as_str(), key.task.as_str(), number, i64::from(staleness), lost_weight);
        Ok(())
    }

    /// The newest accepted updates of a job with their staleness, at most `limit`.
    pub async fn stale_updates(&mut self, job: JobId, limit: u32) -> Result<Vec<StaleUpdate>, DbError> {
        let sql = "select a.client, c.number as client_number, r.base_version - a.base_version as staleness, \
                   coalesce(a.weight, 0) as examples from (select client, job, task, round, base_version, weight \
                   from assignments where job = $1 and task = 'train' and state = 'reported' \
                   order by round desc, id limit $2) a \
                   join rounds r on r.job = a.job and r.task = a.task and r.number = a.round \
                   join clients c on c.id = a.client";
        let rows = fetch!(self, StaleRow, fetch_all, sql, job.to_string(), i64::from(limit));
        let update = |StaleRow { client, client_number, staleness, examples }| StaleUpdate {
            client,
            client_number,
            staleness,
            examples,
        };
        Ok(rows.into_iter().map(update).collect())
    }

    /// How stale the accepted updates of these training rounds are, least first.
    pub async fn staleness_counts(
        &mut self,
        job: JobId,
        rounds: RangeInclusive<u32>,
    ) -> Result<Vec<StalenessCount>, DbError> {
        let sql = "select r.base_version - a.base_version as staleness, count(*) as updates, \
                   cast(coalesce(sum(a.weight), 0) as bigint) as examples \
                   from assignments a join rounds r on r.job = a.job and r.task = a.task and r.number = a.round \
                   where a.job = $1 and a.task = $2 and a.round >= $3 and a.round <= $4 and a.state = 'reported' \
                   group by r.base_version - a.base_version order by 1";
        let (first, last) = (i64::from(*rounds.start()), i64::from(*rounds.end()));
        let rows = fetch!(self, CountRow, fetch_all, sql, job.to_string(), Task::Train.as_str(), first, last);
        let count = |CountRow { staleness, updates, examples }| StalenessCount { staleness, updates, examples };
        Ok(rows.into_iter().map(count).collect())
    }
}
