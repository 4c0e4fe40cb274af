//! Sessions of clients: the history of one client, and many sessions and clients for statistics.

use std::collections::HashMap;
use std::sync::Arc;

use tributary_protocol::abilities::Abilities;
use tributary_protocol::device::Attributes;
use tributary_protocol::id::{ClientId, JobId, Name};
use tributary_protocol::operator::{Assignment, ClientAssignment};
use tributary_protocol::state::{AssignmentState, Task};

use super::assignment_list::{AssignmentView, assignment_view_columns, from_assignments};
use super::jobs::number;
use super::needed::goal_met;
use super::software::Software;
use super::tx::{Json, Text, fetch};
use super::{DbError, Tx};
use tributary_engine::story::{Ending, Session};

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
    stopped_at_ms: Option<i64>,
    goal_met: bool,
    work_ms: Option<i64>,
    /// From the draw to the end; none while it is open.
    open_ms: Option<i64>,
    bytes_down: i64,
}

#[derive(sqlx::FromRow)]
struct AttributesCount {
    attributes: String,
    #[sqlx(try_from = "i64")]
    clients: u64,
}

/// The columns of a [`SessionRow`], from assignments `a`, their rounds `r` and clients `c`.
macro_rules! session_columns {
    () => {
        concat!(
            "c.attributes, a.state, a.reason, a.fetched_at_ms, a.upload_at_ms, a.late_at_ms, a.stopped_at_ms, ",
            goal_met!(),
            " as goal_met, a.work_ms, a.ended_at_ms - a.assigned_at_ms as open_ms, a.bytes_down"
        )
    };
}

#[derive(sqlx::FromRow)]
struct SoftwareCount {
    sdk: Option<Text<Name>>,
    sdk_version: Option<String>,
    #[sqlx(try_from = "String")]
    abilities: Json<Abilities>,
    #[sqlx(try_from = "i64")]
    clients: u64,
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
            from_assignments!(),
            " where a.client = $1 \
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

    /// The newest training sessions of a population's clients.
    pub async fn newest_sessions(
        &mut self,
        population: &Name,
        limit: u32,
    ) -> Result<Vec<(Arc<Attributes>, Session)>, DbError> {
        let sql = concat!(
            "select ",
            session_columns!(),
            from_assignments!(),
            " where c.population = $1 and a.task = 'train' \
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
            from_assignments!(),
            " where a.job = $1 and a.task = $2 and a.round >= $3 \
             order by a.round desc limit $4"
        );
        let (job, from) = (job.to_string(), i64::from(from));
        sessions(fetch!(self, SessionRow, fetch_all, sql, job.as_str(), task.as_str(), from, i64::from(limit)))
    }

    /// Distinct attributes of a population's clients, with the number of clients that have them.
    pub async fn client_attributes(&mut self, population: &Name) -> Result<Vec<(Attributes, u64)>, DbError> {
        let sql = "select attributes, count(*) as clients from clients where population = $1 and is_nobody = 0 group by attributes";
        let rows = fetch!(self, AttributesCount, fetch_all, sql, population.as_str());
        rows.into_iter().map(|row| Ok((parse(&row.attributes)?, row.clients))).collect()
    }

    /// Distinct attributes and names of example sets of a population's clients, with the number of clients that have
    /// them.
    pub async fn client_holdings(&mut self, population: &Name) -> Result<Vec<(Attributes, Vec<Name>, u64)>, DbError> {
        let sql = "select attributes, sets, count(*) as clients from clients \
                   where population = $1 and is_nobody = 0 group by attributes, sets";
        let rows = fetch!(self, (String, String, i64), fetch_all, sql, population.as_str());
        let read = |(attributes, sets, clients): (String, String, i64)| {
            let sets = serde_json::from_str(&sets).map_err(|error| DbError::corrupt("clients.sets", error))?;
            Ok((parse(&attributes)?, sets, u64::try_from(clients).unwrap_or(0)))
        };
        rows.into_iter().map(read).collect()
    }

    /// The SDKs of a population's active clients, each with the number of clients that have it: the most frequent
    /// first.
    pub async fn software(&mut self, population: &Name) -> Result<Vec<(Software, u64)>, DbError> {
        let sql = "select sdk, sdk_version, abilities, count(*) as clients from clients \
                   where population = $1 and standing = 'active' group by sdk, sdk_version, abilities \
                   order by clients desc, sdk, sdk_version, abilities";
        let rows = fetch!(self, SoftwareCount, fetch_all, sql, population.as_str());
        let software = |row: SoftwareCount| {
            let kind = row.sdk.map(|Text(kind)| kind);
            (Software { kind, version: row.sdk_version, abilities: row.abilities.0 }, row.clients)
        };
        Ok(rows.into_iter().map(software).collect())
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
        let ending = Ending {
            state: row.state,
            reason: None,
            late_at_ms: row.late_at_ms,
            stopped_at_ms: row.stopped_at_ms,
            ended_at_ms: None,
            deadline_at_ms: None,
            goal_met: row.goal_met,
        };
        let session = Session {
            state: Some(row.state),
            reason: row.reason,
            fetched: row.fetched_at_ms.is_some() || row.bytes_down > 0,
            uploaded: row.upload_at_ms.is_some(),
            late: row.late_at_ms.is_some(),
            stopped: row.stopped_at_ms.is_some(),
            spare: ending.is_spare(),
            work_ms: number("assignments.work_ms", row.work_ms)?,
            // A clock that stepped back says nothing.
            open_ms: row.open_ms.and_then(|ms| u64::try_from(ms).ok()),
        };
        sessions.push((attributes, session));
    }
    Ok(sessions)
}
