//! Orders: the parts that a relay plays in its parent's rounds.

use tributary_protocol::id::{AssignmentId, JobId};
use tributary_protocol::state::Task;

use super::tx::{execute, fetch};
use super::{DbError, RoundKey, Tx};

/// An open part of a parent's round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct OrderRow {
    /// The relay's assignment at its parent.
    #[sqlx(try_from = "String")]
    pub assignment: AssignmentId,
    #[sqlx(try_from = "String")]
    job: JobId,
    #[sqlx(try_from = "String")]
    task: Task,
    #[sqlx(try_from = "i64")]
    round: u32,
}

impl OrderRow {
    pub fn round(&self) -> RoundKey {
        RoundKey { job: self.job, task: self.task, number: self.round }
    }
}

/// What the reports of a round come to, beside the sum of their updates.
#[derive(Clone, Copy, Debug, Default, PartialEq, sqlx::FromRow)]
pub struct PartFigures {
    #[sqlx(try_from = "i64")]
    pub examples: u64,
    /// Mean over the reports that tell a loss, weighted by examples.
    pub loss: Option<f64>,
    #[sqlx(try_from = "i64")]
    pub steps: u64,
    #[sqlx(try_from = "i64")]
    pub work_ms: u64,
    /// Bytes of the updates.
    #[sqlx(try_from = "i64")]
    pub bytes_up: u64,
}

impl Tx {
    /// # Errors
    /// [`DbError::Duplicate`] when the round has an order.
    pub async fn insert_order(&mut self, assignment: AssignmentId, round: RoundKey) -> Result<(), DbError> {
        let sql = "insert into orders (assignment, job, task, round) values ($1, $2, $3, $4)";
        let (job, number) = (round.job.to_string(), i64::from(round.number));
        execute!(self, sql, assignment.to_string(), job.as_str(), round.task.as_str(), number);
        Ok(())
    }

    /// The number of the newest training round of a job here; 0 before the first.
    pub async fn last_part(&mut self, job: JobId) -> Result<u32, DbError> {
        let sql = "select coalesce(max(number), 0) from rounds where job = $1 and task = 'train'";
        let (number,) = fetch!(self, (i64,), fetch_one, sql, job.to_string());
        u32::try_from(number).map_err(|error| DbError::corrupt("rounds.number", error))
    }

    /// The orders that are open, oldest first.
    pub async fn orders(&mut self) -> Result<Vec<OrderRow>, DbError> {
        let sql = "select o.assignment, o.job, o.task, o.round from orders o join rounds r on r.job = o.job \
                   and r.task = o.task and r.number = o.round order by r.opened_at_ms, o.assignment";
        Ok(fetch!(self, OrderRow, fetch_all, sql))
    }

    /// The order of a round.
    pub async fn order_of(&mut self, round: RoundKey) -> Result<Option<OrderRow>, DbError> {
        let sql = "select assignment, job, task, round from orders where job = $1 and task = $2 and round = $3";
        let (job, number) = (round.job.to_string(), i64::from(round.number));
        Ok(fetch!(self, OrderRow, fetch_optional, sql, job.as_str(), round.task.as_str(), number))
    }

    pub async fn delete_order(&mut self, round: RoundKey) -> Result<(), DbError> {
        let sql = "delete from orders where job = $1 and task = $2 and round = $3";
        let (job, number) = (round.job.to_string(), i64::from(round.number));
        execute!(self, sql, job.as_str(), round.task.as_str(), number);
        Ok(())
    }

    /// What the accepted reports of a round come to.
    pub async fn part_figures(&mut self, round: RoundKey) -> Result<PartFigures, DbError> {
        let sql = "select cast(coalesce(sum(weight), 0) as bigint) as examples, \
                   sum(loss * weight) / nullif(sum(case when loss is null then 0 else weight end), 0) as loss, \
                   cast(coalesce(sum(steps), 0) as bigint) as steps, cast(coalesce(sum(work_ms), 0) as bigint) as work_ms, \
                   cast(coalesce(sum(bytes_up), 0) as bigint) as bytes_up \
                   from assignments where job = $1 and task = $2 and round = $3 and state = 'reported'";
        let (job, number) = (round.job.to_string(), i64::from(round.number));
        Ok(fetch!(self, PartFigures, fetch_one, sql, job.as_str(), round.task.as_str(), number))
    }
}
