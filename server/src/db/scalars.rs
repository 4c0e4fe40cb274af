//! Named scalars and counts by class: of reports, and of rounds.

use tributary_engine::round::Descriptions;
use tributary_protocol::classes::{ClassCounts, ClassTotals};
use tributary_protocol::id::JobId;
use tributary_protocol::inputs::Description;
use tributary_protocol::operator::{ScalarPoint, ScalarSummary};
use tributary_protocol::scalars::{ScalarName, Scalars};
use tributary_protocol::state::Task;

use super::tx::{Json, Text, execute, fetch, stored};
use super::{DbError, RoundKey, Tx};

/// Reports that one query reads.
const REPORTS_AT_ONCE: u32 = 500;

#[derive(sqlx::FromRow)]
struct ReportRow {
    id: String,
    #[sqlx(try_from = "i64")]
    weight: u64,
    #[sqlx(try_from = "String")]
    metrics: Json<Scalars>,
}

#[derive(sqlx::FromRow)]
struct SummaryRow {
    #[sqlx(try_from = "String")]
    task: Task,
    #[sqlx(try_from = "i64")]
    round: u32,
    #[sqlx(try_from = "String")]
    name: ScalarName,
    #[sqlx(try_from = "i64")]
    reports: u32,
    mean: f64,
    minimum: f64,
    p10: f64,
    p50: f64,
    p90: f64,
    maximum: f64,
    ended_at_ms: Option<i64>,
}

/// The columns of a [`SummaryRow`], from metrics `m` and their rounds `r`.
macro_rules! summary_columns {
    () => {
        "m.task, m.round, m.name, m.reports, m.mean, m.minimum, m.p10, m.p50, m.p90, m.maximum, r.ended_at_ms \
         from round_metrics m join rounds r on r.job = m.job and r.task = m.task and r.number = m.round"
    };
}

impl From<SummaryRow> for ScalarSummary {
    fn from(row: SummaryRow) -> Self {
        Self {
            name: row.name,
            reports: row.reports,
            mean: row.mean,
            min: row.minimum,
            p10: row.p10,
            p50: row.p50,
            p90: row.p90,
            max: row.maximum,
        }
    }
}

impl Tx {
    /// The named scalars of a round's accepted reports, each with its weight.
    pub async fn reported_scalars(&mut self, key: RoundKey) -> Result<Vec<(Scalars, u64)>, DbError> {
        let sql = "select id, weight, metrics from assignments where job = $1 and task = $2 and round = $3 \
                   and state = 'reported' and metrics is not null and weight is not null and id > $4 \
                   order by id limit $5";
        let (job, number) = (key.job.to_string(), i64::from(key.number));
        let (mut reports, mut after) = (Vec::new(), String::new());
        loop {
            let (task, limit) = (key.task.as_str(), i64::from(REPORTS_AT_ONCE));
            let rows = fetch!(self, ReportRow, fetch_all, sql, job.as_str(), task, number, after.as_str(), limit);
            let is_last = rows.len() < REPORTS_AT_ONCE as usize;
            if let Some(last) = rows.last() {
                after.clone_from(&last.id);
            }
            reports.extend(rows.into_iter().map(|row| (row.metrics.0, row.weight)));
            if is_last {
                return Ok(reports);
            }
        }
    }

    /// Stores the named scalars of a round.
    pub async fn store_round_scalars(&mut self, key: RoundKey, metrics: &[ScalarSummary]) -> Result<(), DbError> {
        let sql = "insert into round_metrics (job, task, round, name, reports, mean, minimum, p10, p50, p90, maximum) \
                   values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
        for metric in metrics {
            execute!(
                self,
                sql,
                key.job.to_string(),
                key.task.as_str(),
                i64::from(key.number),
                metric.name.as_str(),
                i64::from(metric.reports),
                metric.mean,
                metric.min,
                metric.p10,
                metric.p50,
                metric.p90,
                metric.max
            );
        }
        Ok(())
    }

    /// The named scalars of a job's rounds from number `from` to `to`, of both tasks, by name.
    pub async fn round_scalars(
        &mut self,
        job: JobId,
        from: u32,
        to: u32,
    ) -> Result<Vec<(Task, u32, ScalarSummary)>, DbError> {
        let sql = concat!(
            "select ",
            summary_columns!(),
            " where m.job = $1 and m.round >= $2 and m.round <= $3 order by m.round, m.task, m.name"
        );
        let rows = fetch!(self, SummaryRow, fetch_all, sql, job.to_string(), i64::from(from), i64::from(to));
        Ok(rows.into_iter().map(|row| (row.task, row.round, row.into())).collect())
    }

    /// Tasks and names of a job's named scalars, those of the most rounds first.
    pub async fn scalar_names(&mut self, job: JobId, limit: u32) -> Result<Vec<(Task, ScalarName)>, DbError> {
        #[derive(sqlx::FromRow)]
        struct Row {
            #[sqlx(try_from = "String")]
            task: Task,
            #[sqlx(try_from = "String")]
            name: ScalarName,
        }
        let sql = "select task, name from round_metrics where job = $1 group by task, name \
                   order by count(*) desc, task, name limit $2";
        let rows = fetch!(self, Row, fetch_all, sql, job.to_string(), i64::from(limit));
        Ok(rows.into_iter().map(|row| (row.task, row.name)).collect())
    }

    /// A named scalar in each round that has it, in order.
    pub async fn scalar_points(
        &mut self,
        job: JobId,
        task: Task,
        name: &ScalarName,
    ) -> Result<Vec<ScalarPoint>, DbError> {
        let sql = concat!(
            "select ",
            summary_columns!(),
            " where m.job = $1 and m.task = $2 and m.name = $3 order by m.round"
        );
        let rows = fetch!(self, SummaryRow, fetch_all, sql, job.to_string(), task.as_str(), name.as_str());
        let point = |row: SummaryRow| ScalarPoint {
            round: row.round,
            at_ms: row.ended_at_ms.unwrap_or_default(),
            summary: row.into(),
        };
        Ok(rows.into_iter().map(point).collect())
    }

    /// Mean of a named scalar in the newest evaluation of a job; none where its reports do not have it.
    pub async fn latest_scalar(&mut self, job: JobId, name: &ScalarName) -> Result<Option<f64>, DbError> {
        let sql = "select m.mean from rounds r left join round_metrics m on m.job = r.job and m.task = r.task \
                   and m.round = r.number and m.name = $2 where r.job = $1 and r.task = 'evaluate' \
                   and r.phase = 'committed' order by r.number desc limit 1";
        let row = fetch!(self, (Option<f64>,), fetch_optional, sql, job.to_string(), name.as_str());
        Ok(row.and_then(|(mean,)| mean))
    }

    /// Stores the counts by class of a round. The caller holds the lock on the job's row.
    pub async fn store_class_counts(&mut self, key: RoundKey, counts: &ClassCounts) -> Result<(), DbError> {
        let sql = "update rounds set class_counts = $4, class_totals = $5 where job = $1 and task = $2 and number = $3";
        let (text, totals) = (Json::text(counts)?, Json::<ClassTotals>::text(&counts.totals())?);
        execute!(self, sql, key.job.to_string(), key.task.as_str(), i64::from(key.number), text, totals);
        Ok(())
    }

    /// The counts by class of a round.
    pub async fn class_counts(&mut self, key: RoundKey) -> Result<Option<ClassCounts>, DbError> {
        type Column = Option<Text<Json<ClassCounts>>>;
        let sql = "select class_counts from rounds where job = $1 and task = $2 and number = $3";
        let (job, number) = (key.job.to_string(), i64::from(key.number));
        let row = fetch!(self, (Column,), fetch_optional, sql, job.as_str(), key.task.as_str(), number);
        Ok(row.and_then(|(counts,)| counts).map(|Text(Json(counts))| counts))
    }

    /// Stores the sums of a description, or removes them. The caller holds the lock on the job's row.
    pub async fn store_description(&mut self, key: RoundKey, sums: Option<&Description>) -> Result<(), DbError> {
        let sql = "update rounds set description = $4 where job = $1 and task = $2 and number = $3";
        let text = sums.map(Json::text).transpose()?;
        execute!(self, sql, key.job.to_string(), key.task.as_str(), i64::from(key.number), text);
        Ok(())
    }

    /// The sums of an open description; none before the first report.
    pub async fn description(&mut self, key: RoundKey) -> Result<Option<Description>, DbError> {
        type Column = Option<Text<Json<Description>>>;
        let sql = "select description from rounds where job = $1 and task = $2 and number = $3";
        let (job, number) = (key.job.to_string(), i64::from(key.number));
        let row = fetch!(self, (Column,), fetch_optional, sql, job.as_str(), key.task.as_str(), number);
        Ok(row.and_then(|(sums,)| sums).map(|Text(Json(sums))| sums))
    }

    /// The descriptions of a job so far.
    pub async fn descriptions(&mut self, job: JobId) -> Result<Descriptions, DbError> {
        let sql =
            "select number, ended_at_ms from rounds where job = $1 and task = 'describe' order by number desc limit 1";
        let row = fetch!(self, (i64, Option<i64>), fetch_optional, sql, job.to_string());
        let opened = |(number, last_ended_at_ms): (i64, _)| Descriptions {
            opened: u32::try_from(number).unwrap_or(u32::MAX),
            last_ended_at_ms,
        };
        Ok(row.map(opened).unwrap_or_default())
    }

    /// Stores the examples of an evaluation without clients.
    pub async fn store_examples(&mut self, key: RoundKey, examples: u64) -> Result<(), DbError> {
        let sql = "update rounds set weight = $4 where job = $1 and task = $2 and number = $3";
        execute!(self, sql, key.job.to_string(), key.task.as_str(), i64::from(key.number), stored(examples));
        Ok(())
    }
}
