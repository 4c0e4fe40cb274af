//! Assignments as people see them: the columns, and the listing of a round.

use tributary_engine::round::interval;
use tributary_engine::story::{Ending, Session};
use tributary_protocol::coded::CodedShare;
use tributary_protocol::device::Attributes;
use tributary_protocol::id::{AssignmentId, ClientId, Name};
use tributary_protocol::operator::Assignment;
use tributary_protocol::scalars::Scalars;
use tributary_protocol::state::AssignmentState;
use tributary_protocol::traffic::Traffic;

use super::jobs::number;
use super::needed::goal_met;
use super::traffic::TrafficRow;
use super::tx::{Json, Text, fetch, stored};
use super::{DbError, RoundKey, Tx};

#[derive(sqlx::FromRow)]
pub(super) struct AssignmentView {
    #[sqlx(try_from = "String")]
    id: AssignmentId,
    #[sqlx(try_from = "String")]
    client: ClientId,
    #[sqlx(try_from = "i64")]
    number: u64,
    #[sqlx(try_from = "String")]
    state: AssignmentState,
    reason: Option<String>,
    assigned_at_ms: i64,
    fetched_at_ms: Option<i64>,
    upload_at_ms: Option<i64>,
    upload_ms: Option<i64>,
    ended_at_ms: Option<i64>,
    late_at_ms: Option<i64>,
    stopped_at_ms: Option<i64>,
    deadline_at_ms: Option<i64>,
    goal_met: bool,
    #[sqlx(try_from = "i64")]
    base_version: u32,
    #[sqlx(try_from = "i64")]
    staleness: u32,
    #[sqlx(try_from = "i64")]
    places: u32,
    share: Option<Text<Json<CodedShare>>>,
    updates: Option<i64>,
    weight: Option<i64>,
    loss: Option<f64>,
    accuracy: Option<f64>,
    work_ms: Option<i64>,
    update_norm: Option<f64>,
    #[sqlx(flatten)]
    traffic: TrafficRow,
    cosine: Option<f64>,
    metrics: Option<Text<Json<Scalars>>>,
    bytes_below: Option<i64>,
    round_trip_ms: Option<i64>,
    #[sqlx(try_from = "String")]
    attributes: Json<Attributes>,
}

/// The columns of an [`AssignmentView`], from assignments `a`, their rounds `r` and clients `c`.
macro_rules! assignment_view_columns {
    () => {
        concat!(
            "a.id, a.client, c.number, a.state, a.reason, a.assigned_at_ms, a.fetched_at_ms, a.upload_at_ms, \
         a.upload_ms, a.ended_at_ms, a.late_at_ms, a.stopped_at_ms, \
         coalesce(a.deadline_at_ms, r.deadline_at_ms) as deadline_at_ms, ",
            goal_met!(),
            " as goal_met, a.base_version, \
         case when a.base_version < r.base_version then r.base_version - a.base_version else 0 end as staleness, \
         a.places, a.share, a.updates, \
         case when a.updates = 0 or a.brings > 0 then coalesce((select y.weight from ring_ready y where y.assignment = a.id), \
         a.weight) else a.weight end as weight, \
         case when a.updates = 0 or a.brings > 0 then (select y.loss from ring_ready y where y.assignment = a.id) \
         when a.updates = 1 or a.places > 0 then a.loss end as loss, a.accuracy, a.work_ms, a.update_norm, a.cosine, a.bytes_up, a.bytes_down, a.raw_bytes_up, a.raw_bytes_down, a.metrics, \
         a.bytes_below, a.round_trip_ms, c.attributes"
        )
    };
}
pub(super) use assignment_view_columns;

/// Assignments `a` with their rounds `r` and clients `c`.
macro_rules! from_assignments {
    () => {
        " from assignments a join rounds r on r.job = a.job and r.task = a.task and r.number = a.round \
         join clients c on c.id = a.client"
    };
}
pub(super) use from_assignments;

impl Tx {
    /// The assignments of a round by client number, after `after`; with `state`, only those in that state.
    pub async fn assignments(
        &mut self,
        round: RoundKey,
        state: Option<AssignmentState>,
        after: u64,
        limit: u32,
    ) -> Result<Vec<Assignment>, DbError> {
        let sql = concat!(
            "select ",
            assignment_view_columns!(),
            from_assignments!(),
            " where a.job = $1 and a.task = $2 and a.round = $3 and c.number > $4 and (a.state = $6 or $6 = '') \
             order by c.number limit $5"
        );
        let (job, number) = (round.job.to_string(), i64::from(round.number));
        let (after, limit) = (stored(after), i64::from(limit));
        let state = state.map_or("", AssignmentState::as_str);
        let rows = fetch!(
            self,
            AssignmentView,
            fetch_all,
            sql,
            job.as_str(),
            round.task.as_str(),
            number,
            after,
            limit,
            state
        );
        rows.into_iter().map(Assignment::try_from).collect()
    }
}

/// The names of the parts of a share.
fn parts(Text(Json(share)): Text<Json<CodedShare>>) -> Vec<Name> {
    share.parts.into_iter().map(|part| part.name).collect()
}

impl TryFrom<AssignmentView> for Assignment {
    type Error = DbError;

    fn try_from(row: AssignmentView) -> Result<Self, DbError> {
        let ending = Ending {
            state: row.state,
            reason: row.reason.as_deref(),
            late_at_ms: row.late_at_ms,
            stopped_at_ms: row.stopped_at_ms,
            ended_at_ms: row.ended_at_ms,
            deadline_at_ms: row.deadline_at_ms,
            goal_met: row.goal_met,
        };
        let examples = row.weight.and_then(|weight| u64::try_from(weight).ok());
        let sure = row.accuracy.zip(examples).map(|(accuracy, examples)| interval(accuracy, examples));
        let (straggler, spare, explanation) = (ending.straggler(), ending.is_spare(), ending.explanation());
        let session = Session {
            state: Some(row.state),
            reason: row.reason.clone(),
            fetched: row.fetched_at_ms.is_some() || Traffic::from(row.traffic).bytes_down > 0,
            uploaded: row.upload_at_ms.is_some(),
            late: row.late_at_ms.is_some(),
            stopped: row.stopped_at_ms.is_some(),
            spare,
            work_ms: None,
            open_ms: None,
        };
        Ok(Self {
            straggler,
            spare,
            explanation,
            stopped_at_ms: row.stopped_at_ms,
            id: row.id,
            client: row.client,
            client_number: row.number,
            state: row.state,
            reason: row.reason,
            assigned_at_ms: row.assigned_at_ms,
            fetched_at_ms: row.fetched_at_ms,
            upload_at_ms: row.upload_at_ms,
            upload_ms: number("assignments.upload_ms", row.upload_ms)?,
            ended_at_ms: row.ended_at_ms,
            late_at_ms: row.late_at_ms,
            base_version: row.base_version,
            staleness: row.staleness,
            places: Some(row.places).filter(|places| *places > 0 && row.share.is_none()),
            updates: number("assignments.updates", row.updates.filter(|_| row.places > 0))?,
            parts: row.share.map_or_else(Vec::new, parts),
            bytes_below: number("assignments.bytes_below", row.bytes_below)?,
            round_trip_ms: number("assignments.round_trip_ms", row.round_trip_ms)?,
            weight: number("assignments.weight", row.weight)?,
            loss: row.loss,
            accuracy: row.accuracy,
            accuracy_low: sure.map(|(low, _)| low),
            accuracy_high: sure.map(|(_, high)| high),
            metrics: row.metrics.map(|Text(Json(metrics))| metrics).unwrap_or_default(),
            work_ms: number("assignments.work_ms", row.work_ms)?,
            update_norm: row.update_norm,
            cosine: row.cosine,
            traffic: row.traffic.into(),
            shape: session.shape(),
            attributes: row.attributes.0,
        })
    }
}
