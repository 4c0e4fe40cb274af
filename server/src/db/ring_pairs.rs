//! What is known of the ways from one client to another, which were neighbours in a group.

use tributary_protocol::id::ClientId;

use super::tx::{execute, fetch, stored};
use super::{DbError, RoundKey, Tx};

/// The way from a client to another one, to which it connects and sends.
#[derive(Clone, Copy, Debug, sqlx::FromRow)]
pub struct RingPairRow {
    #[sqlx(try_from = "String")]
    pub sender: ClientId,
    #[sqlx(try_from = "String")]
    pub receiver: ClientId,
    /// When the sender last could not connect.
    pub unreachable_at_ms: Option<i64>,
    /// Kilobits in a second that the way took when it was last measured.
    pub kbit_s: Option<i64>,
    pub measured_at_ms: Option<i64>,
}

impl Tx {
    /// Notes that a client could not connect to another one.
    pub async fn ring_unreachable(&mut self, sender: ClientId, receiver: ClientId, now_ms: i64) -> Result<(), DbError> {
        let sql = "insert into ring_pairs (sender, receiver, unreachable_at_ms) values ($1, $2, $3) \
                   on conflict (sender, receiver) do update set unreachable_at_ms = $3";
        execute!(self, sql, sender.to_string(), receiver.to_string(), now_ms);
        Ok(())
    }

    /// Notes how fast a way is, on which there was a link: it can be gone.
    pub async fn ring_measured(
        &mut self,
        sender: ClientId,
        receiver: ClientId,
        (kbit_s, now_ms): (u64, i64),
    ) -> Result<(), DbError> {
        let sql = "insert into ring_pairs (sender, receiver, kbit_s, measured_at_ms) values ($1, $2, $3, $4) \
                   on conflict (sender, receiver) do update set unreachable_at_ms = null, kbit_s = $3, \
                   measured_at_ms = $4";
        execute!(self, sql, sender.to_string(), receiver.to_string(), stored(kbit_s), now_ms);
        Ok(())
    }

    /// What is known of the clients of a round that have finished.
    pub async fn ring_pairs(&mut self, round: RoundKey) -> Result<Vec<RingPairRow>, DbError> {
        let sql = "with here as (select a.client from ring_ready y join assignments a on a.id = y.assignment \
                   where y.job = $1 and y.task = $2 and y.round = $3) select sender, receiver, unreachable_at_ms, kbit_s, \
                   measured_at_ms from ring_pairs where sender in (select client from here) and receiver in (select client from here)";
        let (job, number) = (round.job.to_string(), i64::from(round.number));
        Ok(fetch!(self, RingPairRow, fetch_all, sql, job, round.task.as_str(), number))
    }
}
