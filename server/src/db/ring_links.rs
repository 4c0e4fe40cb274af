//! Links between members of a group that go through a coordinator.

use tributary_protocol::id::{GroupId, JobId, Name};
use tributary_protocol::state::{RingState, Task};

use super::tx::{execute, fetch, stored};
use super::{DbError, RoundKey, Tx};

/// The round of an attempt, and how the attempt is.
#[derive(Clone, Copy, Debug, sqlx::FromRow)]
pub struct RingRoundRow {
    #[sqlx(try_from = "String")]
    job: JobId,
    #[sqlx(try_from = "String")]
    task: Task,
    #[sqlx(try_from = "i64")]
    round: u32,
    #[sqlx(try_from = "String")]
    pub state: RingState,
}

impl RingRoundRow {
    pub fn key(&self) -> RoundKey {
        RoundKey { job: self.job, task: self.task, number: self.round }
    }
}

impl Tx {
    /// The round of an attempt.
    pub async fn ring_round(&mut self, attempt: GroupId) -> Result<Option<RingRoundRow>, DbError> {
        let sql = "select job, task, round, state from ring_attempts where id = $1";
        Ok(fetch!(self, RingRoundRow, fetch_optional, sql, attempt.to_string()))
    }

    /// Lets a coordinator pass on the link of a member to the next one. False when another coordinator does.
    pub async fn claim_ring_link(&mut self, attempt: GroupId, rank: u16, node: &Name) -> Result<bool, DbError> {
        let sql = "update ring_members set relayed_by = $3 where attempt = $1 and position = $2 \
                   and (relayed_by is null or relayed_by = $3)";
        Ok(execute!(self, sql, attempt.to_string(), i64::from(rank), node.as_str()) == 1)
    }

    /// Lets another coordinator pass on a link that never came about here.
    pub async fn leave_ring_link(&mut self, attempt: GroupId, rank: u16, node: &Name) -> Result<(), DbError> {
        let sql = "update ring_members set relayed_by = null where attempt = $1 and position = $2 and relayed_by = $3";
        execute!(self, sql, attempt.to_string(), i64::from(rank), node.as_str());
        Ok(())
    }

    /// Adds what a coordinator passed on.
    pub async fn add_ring_link(&mut self, attempt: GroupId, rank: u16, bytes: u64) -> Result<(), DbError> {
        let sql = "update ring_members set relayed_bytes = coalesce(relayed_bytes, 0) + $3 \
                   where attempt = $1 and position = $2";
        execute!(self, sql, attempt.to_string(), i64::from(rank), stored(bytes));
        Ok(())
    }
}
