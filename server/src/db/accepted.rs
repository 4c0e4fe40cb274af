//! Accepted updates of a round, as rules read them.

use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::AssignmentId;

use super::tx::{Text, fetch};
use super::{DbError, RoundKey, Tx};

/// An accepted update with the figures of its report.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct AcceptedRow {
    #[sqlx(try_from = "String")]
    pub id: AssignmentId,
    #[sqlx(try_from = "i64")]
    pub base_version: u32,
    pub weight: Option<i64>,
    pub update_norm: Option<f64>,
    pub loss: Option<f64>,
    pub steps: Option<i64>,
    pub report_sha256: Option<Text<Sha256Hash>>,
    /// Enrolment number of the client.
    #[sqlx(try_from = "i64")]
    pub number: u64,
}

impl Tx {
    /// The accepted updates of a round, in the order of their assignments' ids.
    pub async fn accepted_updates(&mut self, round: RoundKey) -> Result<Vec<AcceptedRow>, DbError> {
        let sql = "select a.id, a.base_version, a.weight, a.update_norm, a.loss, a.steps, a.report_sha256, c.number \
                   from assignments a join clients c on c.id = a.client \
                   where a.job = $1 and a.task = $2 and a.round = $3 and a.state = 'reported' order by a.id";
        let (job, number) = (round.job.to_string(), i64::from(round.number));
        Ok(fetch!(self, AcceptedRow, fetch_all, sql, job.as_str(), round.task.as_str(), number))
    }
}
