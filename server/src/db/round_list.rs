//! Lists of rounds.

use tributary_protocol::id::JobId;
use tributary_protocol::operator::{Order, RoundSort};
use tributary_protocol::state::{AbandonReason, Phase, Task};

use super::rounds::{RoundRow, round_columns};
use super::tx::fetch;
use super::{DbError, Tx};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundFilter {
    /// Only rounds in this phase.
    pub phase: Option<Phase>,
    /// Only rounds that were abandoned for this reason.
    pub reason: Option<AbandonReason>,
}

impl RoundFilter {
    /// Phase and reason as bound to the query; an empty text matches all rounds.
    fn words(&self) -> (&'static str, &'static str) {
        (self.phase.map_or("", Phase::as_str), self.reason.map_or("", AbandonReason::as_str))
    }
}

/// Where a round stands in a list that is sorted by a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundPlace {
    /// The figure, negated in a descending list.
    pub place: f64,
    /// Number of the round.
    pub number: u32,
}

#[derive(sqlx::FromRow)]
struct PlacedRound {
    #[sqlx(flatten)]
    round: RoundRow,
    place: f64,
}

impl Tx {
    /// Rounds of a job by number, after `after`.
    pub async fn rounds(
        &mut self,
        job: JobId,
        task: Task,
        filter: RoundFilter,
        after: u32,
        limit: u32,
    ) -> Result<Vec<RoundRow>, DbError> {
        let sql = concat!(
            "select ",
            round_columns!(),
            " from rounds where job = $1 and task = $2 and number > $3 and (phase = $5 or $5 = '') \
             and (reason = $6 or $6 = '') order by number limit $4"
        );
        let (job, after, limit) = (job.to_string(), i64::from(after), i64::from(limit));
        let (phase, reason) = filter.words();
        Ok(fetch!(self, RoundRow, fetch_all, sql, job.as_str(), task.as_str(), after, limit, phase, reason))
    }

    /// The newest rounds of a job before round `before`, newest first.
    pub async fn latest_rounds(
        &mut self,
        job: JobId,
        task: Task,
        filter: RoundFilter,
        before: u32,
        limit: u32,
    ) -> Result<Vec<RoundRow>, DbError> {
        let sql = concat!(
            "select ",
            round_columns!(),
            " from rounds where job = $1 and task = $2 and number < $3 and (phase = $5 or $5 = '') \
             and (reason = $6 or $6 = '') order by number desc limit $4"
        );
        let (job, before, limit) = (job.to_string(), i64::from(before), i64::from(limit));
        let (phase, reason) = filter.words();
        Ok(fetch!(self, RoundRow, fetch_all, sql, job.as_str(), task.as_str(), before, limit, phase, reason))
    }

    /// Rounds of a job by a figure, behind the place `after` of an earlier page. With each round comes its place.
    /// Rounds without the figure are last, and rounds of equal figures are in the order of their numbers.
    pub async fn sorted_rounds(
        &mut self,
        (job, task): (JobId, Task),
        filter: RoundFilter,
        (sort, order): (RoundSort, Order),
        after: Option<RoundPlace>,
        limit: u32,
    ) -> Result<Vec<(RoundRow, RoundPlace)>, DbError> {
        // 1e300 is beyond all figures, in both directions.
        let sql = concat!(
            "with placed as (select ",
            round_columns!(),
            ", coalesce($7 * case $8 when 'number' then cast(number as double precision) \
             when 'took' then cast(ended_at_ms - opened_at_ms as double precision) when 'accuracy' then accuracy \
             when 'loss' then loss when 'training_loss' then training_loss \
             when 'up' then cast(bytes_up as double precision) \
             else cast(rejected + failed + expired - case when reported >= goal and deadline_at_ms is not null \
             then expired else 0 end as double precision) end, 1e300) as place from rounds where job = $1 and task = $2 \
             and (phase = $5 or $5 = '') and (reason = $6 or $6 = '')) select ",
            round_columns!(),
            ", place from placed where place > $3 or (place = $3 and number > $9) order by place, number limit $4"
        );
        let RoundPlace { place, number } = after.unwrap_or(RoundPlace { place: f64::MIN, number: 0 });
        let sign = if order == Order::Asc { 1.0 } else { -1.0 };
        let (phase, reason) = filter.words();
        let (job, limit, number) = (job.to_string(), i64::from(limit), i64::from(number));
        let (job, task, sort) = (job.as_str(), task.as_str(), sort.as_str());
        let rows =
            fetch!(self, PlacedRound, fetch_all, sql, job, task, place, limit, phase, reason, sign, sort, number);
        let placed = |PlacedRound { round, place }: PlacedRound| {
            let number = round.number;
            (round, RoundPlace { place, number })
        };
        Ok(rows.into_iter().map(placed).collect())
    }
}
