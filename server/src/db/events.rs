//! Events: every transition with its time and cause, numbered per job.

use tributary_protocol::id::{AssignmentId, JobId, Name};
use tributary_protocol::operator::Event;
use tributary_protocol::state::Task;

use super::jobs::number;
use super::tx::{Text, execute_all, fetch, stored};
use super::{DbError, Transition, Tx};

#[derive(sqlx::FromRow)]
struct EventRow {
    #[sqlx(try_from = "String")]
    job: JobId,
    #[sqlx(try_from = "i64")]
    sequence: u64,
    at_ms: i64,
    task: Option<Text<Task>>,
    round: Option<i64>,
    assignment: Option<Text<AssignmentId>>,
    became: String,
    cause: Option<String>,
}

/// The newest event of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct JobPosition {
    #[sqlx(try_from = "String")]
    pub job: JobId,
    /// Sequence number of the job's newest event.
    #[sqlx(try_from = "i64")]
    pub last: u64,
    /// When the job was created.
    pub created_at_ms: i64,
}

impl Tx {
    /// Records a transition. The job's counter serialises the writers of a job, so the numbers have no gaps.
    pub async fn record(&mut self, transition: Transition<'_>, now_ms: i64) -> Result<(), DbError> {
        self.record_all(transition.job(), &[transition], now_ms).await
    }

    /// Records transitions of one job, in this order.
    pub async fn record_all(&mut self, job: JobId, transitions: &[Transition<'_>], now_ms: i64) -> Result<(), DbError> {
        let job = job.to_string();
        let count = stored(transitions.len() as u64);
        let sql = "update jobs set events = events + $2 where id = $1 returning events, population";
        let (last, population) = fetch!(self, (i64, String), fetch_one, sql, &job, count);
        let numbered: Vec<_> = (last - count + 1..).zip(transitions).collect();
        let sql = "insert into events (job, sequence, at_ms, task, round, assignment, became, cause) ";
        execute_all!(self, sql, &numbered, |values, (sequence, transition)| {
            let round = transition.round();
            values.push_bind(job.as_str()).push_bind(*sequence).push_bind(now_ms);
            values.push_bind(round.map(|(task, _)| task.as_str()));
            values.push_bind(round.map(|(_, number)| i64::from(number)));
            values.push_bind(transition.assignment().map(|id| id.to_string()));
            values.push_bind(transition.became()).push_bind(transition.cause());
        });
        for transition in transitions {
            self.count_transition(transition, &population, now_ms).await?;
        }
        self.notify(&job).await
    }

    /// Events of a job after a sequence number, in order.
    pub async fn events(&mut self, job: JobId, after: u64, limit: u32) -> Result<Vec<Event>, DbError> {
        let sql = "select job, sequence, at_ms, task, round, assignment, became, cause from events \
                   where job = $1 and sequence > $2 order by sequence limit $3";
        let rows = fetch!(self, EventRow, fetch_all, sql, job.to_string(), stored(after), i64::from(limit));
        rows.into_iter().map(event).collect()
    }

    /// The newest events of the job itself, without those of its rounds, in order.
    pub async fn events_of_job(&mut self, job: JobId, limit: u32) -> Result<Vec<Event>, DbError> {
        let sql = "select job, sequence, at_ms, task, round, assignment, became, cause from events \
                   where job = $1 and round is null order by sequence desc limit $2";
        let rows = fetch!(self, EventRow, fetch_all, sql, job.to_string(), i64::from(limit));
        rows.into_iter().rev().map(event).collect()
    }

    /// The newest events of the newest jobs that have not ended, or ended at `since_ms` or later; with `population`,
    /// only of its jobs.
    pub async fn job_positions(
        &mut self,
        population: Option<&Name>,
        since_ms: i64,
        limit: u32,
    ) -> Result<Vec<JobPosition>, DbError> {
        let sql = "select id as job, events as last, created_at_ms from jobs \
                   where (ended_at_ms is null or ended_at_ms >= $1) and (population = $2 or $2 = '') \
                   order by created_at_ms desc, id limit $3";
        let population = population.map_or("", Name::as_str);
        Ok(fetch!(self, JobPosition, fetch_all, sql, since_ms, population, i64::from(limit)))
    }
}

fn event(row: EventRow) -> Result<Event, DbError> {
    Ok(Event {
        sequence: row.sequence,
        at_ms: row.at_ms,
        job: row.job,
        round: number("events.round", row.round)?,
        task: row.task.map(|Text(task)| task),
        assignment: row.assignment.map(|Text(id)| id),
        became: row.became,
        cause: row.cause,
    })
}
