//! Jobs at a glance: totals, sparklines, learning curves, cohorts as cells.

use tributary_protocol::id::{JobId, Name};
use tributary_protocol::operator::{Cell, MeasuredOn, SparkPoint};
use tributary_protocol::state::{AssignmentState, Phase};

use super::measured::{MeasuredRow, measured_columns};
use super::tx::{fetch, stored};
use super::{DbError, JobRow, RoundKey, Tx};
use tributary_engine::round::DiverseRound;
use tributary_engine::story::CurveRow;

/// Totals over all rounds of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, sqlx::FromRow)]
pub struct JobTotals {
    /// Bytes that clients sent.
    #[sqlx(try_from = "i64")]
    pub bytes_up: u64,
    /// Bytes that clients fetched.
    #[sqlx(try_from = "i64")]
    pub bytes_down: u64,
}

/// Evaluation of a job's newest evaluated model.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    pub accuracy: Option<f64>,
    /// What that accuracy was measured on.
    pub on: Option<MeasuredOn>,
    pub loss: Option<f64>,
}

#[derive(sqlx::FromRow)]
struct LatestRow {
    loss: Option<f64>,
    #[sqlx(flatten)]
    measured: MeasuredRow,
}

#[derive(sqlx::FromRow)]
struct SparkRow {
    #[sqlx(try_from = "i64")]
    number: u32,
    accuracy: Option<f64>,
    loss: Option<f64>,
}

#[derive(sqlx::FromRow)]
struct CellRow {
    #[sqlx(try_from = "i64")]
    number: u64,
    #[sqlx(try_from = "String")]
    state: AssignmentState,
    reason: Option<String>,
}

#[derive(sqlx::FromRow)]
struct CurveColumns {
    #[sqlx(try_from = "i64")]
    number: u32,
    #[sqlx(try_from = "String")]
    phase: Phase,
    ended_at_ms: i64,
    #[sqlx(try_from = "i64")]
    cohort: u32,
    #[sqlx(try_from = "i64")]
    reported: u32,
    #[sqlx(try_from = "i64")]
    work_ms: u64,
    #[sqlx(try_from = "i64")]
    bytes_up: u64,
    #[sqlx(try_from = "i64")]
    bytes_down: u64,
    training_loss: Option<f64>,
    loss: Option<f64>,
    #[sqlx(flatten)]
    measured: MeasuredRow,
}

impl Tx {
    /// Jobs of the overview: first those that may still run, then the others, each group newest first. Without
    /// `archived`, those that are not archived.
    pub async fn jobs_at_a_glance(
        &mut self,
        population: Option<&Name>,
        archived: bool,
        limit: u32,
    ) -> Result<Vec<JobRow>, DbError> {
        let sql = concat!(
            "select ",
            super::jobs::job_columns!(),
            " from jobs where (population = $1 or $1 = '') and (archived_at_ms is null or $2) \
             order by case when ended_at_ms is null then 0 else 1 end, created_at_ms desc, id limit $3"
        );
        Ok(fetch!(self, JobRow, fetch_all, sql, population.map_or("", Name::as_str), archived, i64::from(limit)))
    }

    /// Totals over all training and evaluation rounds of a job.
    pub async fn job_totals(&mut self, job: JobId) -> Result<JobTotals, DbError> {
        let sql = "select coalesce(cast(sum(bytes_up) as bigint), 0) as bytes_up, \
                   coalesce(cast(sum(bytes_down) as bigint), 0) as bytes_down from rounds where job = $1";
        Ok(fetch!(self, JobTotals, fetch_one, sql, job.to_string()))
    }

    /// Evaluation of a job's newest evaluated model.
    pub async fn latest_measured(&mut self, job: JobId) -> Result<Measured, DbError> {
        let sql = concat!(
            "select r.loss, ",
            measured_columns!(),
            " from rounds r where r.job = $1 and r.task = 'evaluate' and r.phase = 'committed' \
             order by r.number desc limit 1"
        );
        let latest = fetch!(self, LatestRow, fetch_optional, sql, job.to_string());
        Ok(latest.map_or_else(Measured::default, |LatestRow { loss, measured }| Measured {
            accuracy: measured.accuracy,
            on: measured.on(),
            loss,
        }))
    }

    /// When the last `limit` committed training rounds ended, in order.
    pub async fn committed_at_ms(&mut self, job: JobId, limit: u32) -> Result<Vec<i64>, DbError> {
        let sql = "select ended_at_ms from rounds where job = $1 and task = 'train' and phase = 'committed' \
                   and ended_at_ms is not null order by number desc limit $2";
        let rows = fetch!(self, (i64,), fetch_all, sql, job.to_string(), i64::from(limit));
        Ok(rows.into_iter().rev().map(|(at_ms,)| at_ms).collect())
    }

    /// The last committed training rounds that have a diversity, the newest first.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn diverse_rounds(&mut self, job: JobId, limit: u32) -> Result<Vec<DiverseRound>, DbError> {
        let sql = "select reported, weight, diversity, effective_updates from rounds where job = $1 and task = 'train' \
                   and phase = 'committed' and diversity is not null and effective_updates is not null \
                   order by number desc limit $2";
        let rows = fetch!(self, (i64, i64, f64, f64), fetch_all, sql, job.to_string(), i64::from(limit));
        let round = |(updates, examples, diversity, effective)| DiverseRound {
            updates: u32::try_from(updates).unwrap_or(u32::MAX),
            examples: u64::try_from(examples).unwrap_or_default(),
            diversity,
            effective,
        };
        Ok(rows.into_iter().map(round).collect())
    }

    /// One point for each `stride` committed training rounds: the last evaluated round, or the last one if none was
    /// evaluated.
    pub async fn spark(&mut self, job: JobId, stride: u32) -> Result<Vec<SparkPoint>, DbError> {
        let sql = "select r.number, r.accuracy, coalesce(r.loss, r.training_loss) as loss from rounds r join \
                   (select coalesce(max(case when loss is null then null else number end), max(number)) as picked \
                   from rounds where job = $1 and task = 'train' and phase = 'committed' group by (number - 1) / $2) p \
                   on p.picked = r.number where r.job = $1 and r.task = 'train' order by r.number";
        let rows = fetch!(self, SparkRow, fetch_all, sql, job.to_string(), i64::from(stride.max(1)));
        Ok(rows.into_iter().map(|row| (row.number, row.accuracy, row.loss)).collect())
    }

    /// The cohort of a round by client number.
    pub async fn cells(&mut self, round: RoundKey, limit: u32) -> Result<Vec<Cell>, DbError> {
        let sql = "select c.number, a.state, a.reason from assignments a join clients c on c.id = a.client \
                   where a.job = $1 and a.task = $2 and a.round = $3 order by c.number limit $4";
        let (job, number) = (round.job.to_string(), stored(round.number.into()));
        let rows = fetch!(self, CellRow, fetch_all, sql, job.as_str(), round.task.as_str(), number, i64::from(limit));
        Ok(rows.into_iter().map(|row| Cell { number: row.number, state: row.state, reason: row.reason }).collect())
    }

    /// Every ended training round of a job, in order, with the columns of its learning curve.
    pub async fn curve_rows(&mut self, job: JobId) -> Result<Vec<CurveRow>, DbError> {
        let sql = concat!(
            "select r.number, r.phase, r.ended_at_ms, r.cohort, r.reported, r.work_ms, r.bytes_up, r.bytes_down, \
             r.training_loss, r.loss, ",
            measured_columns!(),
            " from rounds r where r.job = $1 and r.task = 'train' and r.ended_at_ms is not null order by r.number"
        );
        let rows = fetch!(self, CurveColumns, fetch_all, sql, job.to_string());
        Ok(rows.into_iter().map(CurveRow::from).collect())
    }
}

impl From<CurveColumns> for CurveRow {
    fn from(row: CurveColumns) -> Self {
        Self {
            round: row.number,
            abandoned: row.phase == Phase::Abandoned,
            ended_at_ms: row.ended_at_ms,
            cohort: row.cohort,
            reported: row.reported,
            clients_ms: row.work_ms,
            bytes_up: row.bytes_up,
            bytes_down: row.bytes_down,
            training_loss: row.training_loss,
            loss: row.loss,
            accuracy: row.measured.accuracy,
            measured_on: row.measured.on(),
        }
    }
}
