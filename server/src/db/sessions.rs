//! Sessions of clients: the history of one client, and many sessions for statistics.

use std::collections::HashMap;
use std::sync::Arc;

use tributary_protocol::device::Attributes;
use tributary_protocol::id::{ClientId, JobId, Name};
use tributary_protocol::operator::{Assignment, ClientAssignment};
use tributary_protocol::state::{AssignmentState, Task};

use super::assignments::{AssignmentView, assignment_view_columns};
use super::jobs::number;
use super::tx::fetch;
use super::{DbError, Tx};
use tributary_engine::story::Session;

#[derive(sqlx::FromRow)]
struct HistoryRow {
    #[sqlx(try_from = "String")]
    job: JobId,
    #[sqlx(try_from = "i64")]
    round: u32,
    #[sqlx(try_from = "String")]
    task: Task,
    #[sqlx(flatten)]
    assignment: AssignmentView,
}

#[derive(sqlx::FromRow)]
struct SessionRow {
    attributes: String,
    #[sqlx(try_from = "String")]
    state: AssignmentState,
    reason: Option<String>,
    fetched_at_ms: Option<i64>,
    upload_at_ms: Option<i64>,
    late_at_ms: Option<i64>,
    work_ms: Option<i64>,
    bytes_down: i64,
}

#[derive(sqlx::FromRow)]
struct AttributesCount {
    attributes: String,
    #[sqlx(try_from = "i64")]
    clients: u64,
}

/// The columns of a [`SessionRow`], from assignments `a` and clients `c`.
macro_rules! session_columns {
    () => {
        "c.attributes, a.state, a.reason, a.fetched_at_ms, a.upload_at_ms, a.late_at_ms, a.work_ms, a.bytes_down"
    };
}

impl Tx {
    /// Assignments of a client, the newest first, from before `(assigned_at_ms, id)` on.
    pub async fn client_history(
        &mut self,
        client: ClientId,
        before: (i64, &str),
        limit: u32,
    ) -> Result<Vec<ClientAssignment>, DbError> {
        let sql = concat!(
            "select a.job, a.round, a.task, ",
            assignment_view_columns!(),
            " from assignments a join clients c on c.id = a.client where a.client = $1 \
             and (a.assigned_at_ms < $2 or (a.assigned_at_ms = $2 and a.id < $3)) \
             order by a.assigned_at_ms desc, a.id desc limit $4"
        );
        let rows = fetch!(self, HistoryRow, fetch_all, sql, client.to_string(), before.0, before.1, i64::from(limit));
        let view = |row: HistoryRow| {
            let HistoryRow { job, round, task, assignment } = row;
            Ok(ClientAssignment { job, round, task, assignment: Assignment::try_from(assignment)? })
        };
        rows.into_iter().map(view).collect()
    }

    /// The newest sessions of a population's clients.
    pub async fn newest_sessions(
        &mut self,
        population: &Name,
        limit: u32,
    ) -> Result<Vec<(Arc<Attributes>, Session)>, DbError> {
        let sql = concat!(
            "select ",
            session_columns!(),
            " from assignments a join clients c on c.id = a.client where c.population = $1 \
             order by a.assigned_at_ms desc limit $2"
        );
        let rows = fetch!(self, SessionRow, fetch_all, sql, population.as_str(), i64::from(limit));
        sessions(rows)
    }

    /// Sessions of a job's rounds from number `from` on, newest rounds first, at most `limit`.
    pub async fn sessions_of_job(
        &mut self,
        job: JobId,
        task: Task,
        from: u32,
        limit: u32,
    ) -> Result<Vec<(Arc<Attributes>, Session)>, DbError> {
        let sql = concat!(
            "select ",
            session_columns!(),
            " from assignments a join clients c on c.id = a.client where a.job = $1 and a.task = $2 and a.round >= $3 \
             order by a.round desc limit $4"
        );
        let (job, from) = (job.to_string(), i64::from(from));
        sessions(fetch!(self, SessionRow, fetch_all, sql, job.as_str(), task.as_str(), from, i64::from(limit)))
    }

    /// Distinct attributes of a population's clients, with the number of clients that have them.
    pub async fn client_attributes(&mut self, population: &Name) -> Result<Vec<(Attributes, u64)>, DbError> {
        let sql = "select attributes, count(*) as clients from clients where population = $1 group by attributes";
        let rows = fetch!(self, AttributesCount, fetch_all, sql, population.as_str());
        rows.into_iter().map(|row| Ok((parse(&row.attributes)?, row.clients))).collect()
    }
}

fn parse(attributes: &str) -> Result<Attributes, DbError> {
    serde_json::from_str(attributes).map_err(|error| DbError::corrupt("clients.attributes", error))
}

fn sessions(rows: Vec<SessionRow>) -> Result<Vec<(Arc<Attributes>, Session)>, DbError> {
    // Thousands of sessions share few distinct attributes, so each text is parsed once.
    let mut known: HashMap<String, Arc<Attributes>> = HashMap::new();
    let mut sessions = Vec::with_capacity(rows.len());
    for row in rows {
        let attributes = match known.get(&row.attributes) {
            Some(attributes) => Arc::clone(attributes),
            None => {
                let attributes = Arc::new(parse(&row.attributes)?);
                known.insert(row.attributes, Arc::clone(&attributes));
                attributes
            }
        };
        let session = Session {
            state: Some(row.state),
            reason: row.reason,
            fetched: row.fetched_at_ms.is_some() || row.bytes_down > 0,
            uploaded: row.upload_at_ms.is_some(),
            late: row.late_at_ms.is_some(),
            work_ms: number("assignments.work_ms", row.work_ms)?,
        };
        sessions.push((attributes, session));
    }
    Ok(sessions)
}
