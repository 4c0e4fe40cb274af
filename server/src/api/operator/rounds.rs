//! Rounds and their assignments.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use serde::Deserialize;
use tributary_protocol::id::JobId;
use tributary_protocol::operator::{
    Assignment, Curve, Order, PAGE_ITEMS_MAX, Page, PageQuery, Round, RoundBuffer, RoundDetail, RoundGroup, RoundRing,
    RoundSort, ScalarCurve, ScalarSummary,
};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AbandonReason, AssignmentState, Phase, Task};

use crate::api::auth::{Operator, Views};
use crate::api::extract::{Json, Path, Place, Query, full_page, page};
use crate::api::problem::{Answer, ApiError};
use crate::api::story::enrolled::Enrolled;
use crate::api::story::groups::Groups;
use crate::api::story::rings;
use crate::api::story::{Selection, missed, missing_driver, takeover, undriven};
use crate::app::App;
use crate::db::{DbError, RoundFilter, RoundKey, RoundPlace, RoundRow, Tx};
use crate::runtime::offload::blocking;
use tributary_engine::story::{
    RoundStory, adaptation, adapted_goal, curve as curve_of, explain, grouped, marks as marks_of, phases, ringed,
    scalar_curve, what_if,
};

/// Points of a learning curve: the default and the limit.
const CURVE_POINTS_DEFAULT: u32 = 400;
const CURVE_POINTS_MAX: u32 = 5_000;
/// Newest events of the job itself in its curve.
const MARKS_MAX: u32 = 200;
/// Points of the curve of a named scalar.
const METRIC_POINTS_DEFAULT: u32 = 200;
/// Named scalars whose curves are answered: those of the most rounds.
const SCALAR_CURVES_MAX: u32 = 64;
/// Rounds whose staleness is counted together: a buffer of one update says nothing by itself.
const STALENESS_ROUNDS: u32 = 20;
/// Pages of assignments that an explanation reads: enough for the largest cohort.
const COHORT_PAGES_MAX: u32 = 10;

/// Which rounds.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct RoundsQuery {
    #[serde(default = "train")]
    task: Task,
    /// Only those in this phase.
    phase: Option<Phase>,
    /// Only those that were abandoned for this reason.
    reason: Option<AbandonReason>,
    /// What the list is sorted by.
    #[serde(default)]
    sort: RoundSort,
    /// With `desc` the largest come first.
    #[serde(default)]
    order: Order,
    /// The same as `order=desc`.
    #[serde(default)]
    latest: bool,
    limit: Option<u32>,
    after: Option<String>,
}

fn train() -> Task {
    Task::Train
}

pub(super) async fn list(
    operator: Operator<Views>,
    State(app): State<Arc<App>>,
    Path(job): Path<JobId>,
    Query(query): Query<RoundsQuery>,
) -> Answer<Json<Page<Round>>> {
    if query.sort != RoundSort::Number {
        return sorted(&operator, &app, job, &query).await;
    }
    let newest_first = query.latest || query.order == Order::Desc;
    let first = if newest_first { i32::MAX.cast_unsigned() } else { 0 };
    let (limit, after) = page(&PageQuery { limit: query.limit, after: query.after }, first)?;
    let filter = RoundFilter { phase: query.phase, reason: query.reason };
    let mut tx = app.db.read().await?;
    operator.job(&mut tx, job).await?;
    let rows = match newest_first {
        true => tx.latest_rounds(job, query.task, filter, after, limit).await?,
        false => tx.rounds(job, query.task, filter, after, limit).await?,
    };
    let mut items = Vec::with_capacity(rows.len());
    for row in rows {
        items.push(view(&app, &mut tx, row).await?);
    }
    attach_scalars(&mut tx, job, &mut items).await?;
    Ok(Json(full_page(items, limit, |round: &Round| round.number.to_string())))
}

/// A page of a list that is sorted by a figure. Its places are the bits of a number and the number of a round.
async fn sorted(operator: &Operator<Views>, app: &App, job: JobId, query: &RoundsQuery) -> Answer<Json<Page<Round>>> {
    let asked = PageQuery { limit: query.limit, after: query.after.clone() };
    let (limit, Place(bits, number)) = page(&asked, Place(f64::MIN.to_bits().cast_signed(), 0))?;
    let after = RoundPlace { place: f64::from_bits(bits.cast_unsigned()), number };
    let filter = RoundFilter { phase: query.phase, reason: query.reason };
    let mut tx = app.db.read().await?;
    operator.job(&mut tx, job).await?;
    let order = (query.sort, query.order);
    let rows = tx.sorted_rounds((job, query.task), filter, order, Some(after), limit).await?;
    let end = rows.last().filter(|_| rows.len() == limit as usize).map(|(_, place)| *place);
    let mut items = Vec::with_capacity(rows.len());
    for (row, _) in rows {
        items.push(view(app, &mut tx, row).await?);
    }
    attach_scalars(&mut tx, job, &mut items).await?;
    let next = end.map(|RoundPlace { place, number }| Place(place.to_bits().cast_signed(), number).to_string());
    Ok(Json(Page { items, next }))
}

/// A round as operators see it: its stored figures, and those that exist only while it is open.
pub(super) async fn view(app: &App, tx: &mut Tx, row: RoundRow) -> Result<Round, DbError> {
    let key = row.key();
    let mut round = Round::from(row);
    if round.phase.is_open() {
        round.folded = folded(app, key);
        round.clients_ms = tx.work_ms(key).await?;
    }
    Ok(round)
}

/// Adds the named scalars to rounds of one job and task, those of a list in any order.
pub(super) async fn attach_scalars(tx: &mut Tx, job: JobId, rounds: &mut [Round]) -> Result<(), DbError> {
    // A list of few rounds among many may span all of them.
    let numbers: Vec<u32> = rounds.iter().map(|round| round.number).collect();
    let (Some(first), Some(last)) = (numbers.iter().min(), numbers.iter().max()) else { return Ok(()) };
    let is_dense = last - first < 2 * PAGE_ITEMS_MAX;
    let mut found: BTreeMap<(Task, u32), Vec<ScalarSummary>> = BTreeMap::new();
    let spans =
        if is_dense { vec![(*first, *last)] } else { numbers.iter().map(|number| (*number, *number)).collect() };
    for (from, to) in spans {
        for (task, number, metric) in tx.round_scalars(job, from, to).await? {
            found.entry((task, number)).or_default().push(metric);
        }
    }
    for round in rounds {
        round.metrics = found.get(&(round.task, round.number)).cloned().unwrap_or_default();
        if round.task == Task::Train {
            round.evaluation_metrics = found.remove(&(Task::Evaluate, round.number)).unwrap_or_default();
        }
    }
    Ok(())
}

/// Number of updates in the round's running sum; none where the job's rule keeps none.
fn folded(app: &App, round: RoundKey) -> Option<u32> {
    let sum = app.updates.sums.get(round, None).filter(|sum| sum.is_kept())?;
    Some(sum.updates())
}

/// Which task.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct TaskQuery {
    #[serde(default = "train")]
    task: Task,
}

pub(super) async fn show(
    operator: Operator<Views>,
    State(app): State<Arc<App>>,
    Path((job, number)): Path<(JobId, u32)>,
    Query(query): Query<TaskQuery>,
) -> Answer<Json<RoundDetail>> {
    let key = RoundKey { job, task: query.task, number };
    let mut tx = app.db.read().await?;
    let (stored, _) = operator.job(&mut tx, job).await?;
    let row = tx.round(key).await?.ok_or_else(|| ApiError::not_found(format!("round {number} of {job}")))?;
    let evaluation = match key.task {
        Task::Train => evaluation_of(&app, &mut tx, key).await?,
        Task::Evaluate | Task::Describe => None,
    };
    let classes = tx.class_counts(RoundKey { task: Task::Evaluate, ..key }).await?;
    let now_ms = app.clock.now_ms();
    let selection = Selection::read(&app, &mut tx, &row).await?;
    let driver = match row.phase.is_open() {
        true => missing_driver(&app, &mut tx, job).await?,
        false => None,
    };
    let is_pruned = row.pruned_at_ms.is_some();
    let mut round = view(&app, &mut tx, row).await?;
    attach_scalars(&mut tx, job, std::slice::from_mut(&mut round)).await?;
    let cohort = match round.closed_at_ms {
        Some(_) if !is_pruned => cohort(&mut tx, key).await?,
        _ => Vec::new(),
    };
    let missing = missed(&mut tx, &stored.file.0, &round).await?;
    let handed_on = tx.last_takeover(job, round.opened_at_ms, round.ended_at_ms.unwrap_or(now_ms)).await?;
    let staleness = match &round.buffer {
        Some(_) => tx.staleness_counts(job, number.saturating_sub(STALENESS_ROUNDS - 1)..=number).await?,
        None => Vec::new(),
    };
    let clocks = match round.buffer {
        Some(RoundBuffer { slack: Some(_), .. }) if round.phase.is_open() => tx.member_clocks(job).await?,
        _ => Vec::new(),
    };
    let ring = rings::read(&mut tx, &stored.file.0, key).await?;
    let Groups { groups, waiting } = Groups::read(&mut tx, &stored.file.0, round.goal, key).await?;
    drop(tx);

    let story = RoundStory {
        round: &round,
        available: selection.as_ref().map(|selection| (selection.available, selection.needed)),
        selection_ends_at_ms: selection.as_ref().map(|selection| selection.ends_at_ms),
        lacking: selection.as_ref().and_then(|selection| selection.lacking.as_deref()),
        slowest: slowest(&round, &cohort),
        wanted: selection.as_ref().and_then(Selection::wanted).or_else(|| missing.as_ref().map(Enrolled::wanted)),
        undriven: driver.as_ref().map(undriven),
        takeover: handed_on.as_ref().map(takeover),
        clocks: &clocks,
    };
    Ok(Json(RoundDetail {
        explanation: explained(&story, (&groups, ring.as_ref()), now_ms),
        phases: phases(&round),
        evaluation,
        what_if: deadlines(&round, &cohort),
        staleness,
        clocks,
        groups,
        ring,
        waiting_for_group: waiting,
        classes_measured_on: round.measured_on.filter(|_| classes.is_some()),
        classes,
        round,
    }))
}

/// All that explains a round, as one text.
fn explained(story: &RoundStory<'_>, (groups, ring): (&[RoundGroup], Option<&RoundRing>), now_ms: i64) -> String {
    let sentences = [
        Some(explain(story, now_ms)),
        grouped(groups),
        ring.and_then(ringed),
        adapted_goal(story.round),
        adaptation(story.round),
    ];
    sentences.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// The evaluation of the model that a training round made, with its named scalars.
async fn evaluation_of(app: &App, tx: &mut Tx, trained: RoundKey) -> Result<Option<Round>, DbError> {
    let key = RoundKey { task: Task::Evaluate, ..trained };
    let Some(row) = tx.round(key).await? else { return Ok(None) };
    let mut evaluation = view(app, tx, row).await?;
    attach_scalars(tx, key.job, std::slice::from_mut(&mut evaluation)).await?;
    Ok(Some(evaluation))
}

pub(super) async fn cohort(tx: &mut Tx, key: RoundKey) -> Result<Vec<Assignment>, DbError> {
    let mut cohort: Vec<Assignment> = Vec::new();
    for _ in 0..COHORT_PAGES_MAX {
        let after = cohort.last().map_or(0, |last| last.client_number);
        let mut part = tx.assignments(key, None, after, PAGE_ITEMS_MAX).await?;
        let is_last = part.len() < PAGE_ITEMS_MAX as usize;
        cohort.append(&mut part);
        if is_last {
            break;
        }
    }
    Ok(cohort)
}

/// The client whose accepted report came last, and its time after the selection.
fn slowest(round: &Round, cohort: &[Assignment]) -> Option<(u64, i64)> {
    let selected_at_ms = round.selected_at_ms?;
    let reported = cohort.iter().filter(|assignment| assignment.state == AssignmentState::Reported);
    let ends = reported.filter_map(|assignment| Some((assignment.ended_at_ms?, assignment.client_number)));
    ends.max().map(|(ended_at_ms, number)| (number, ended_at_ms - selected_at_ms))
}

/// What other deadlines would have dropped, in a round that closed with its reports.
fn deadlines(round: &Round, cohort: &[Assignment]) -> Vec<tributary_protocol::operator::WhatIf> {
    let (Some(selected_at_ms), Some(deadline_at_ms)) = (round.selected_at_ms, round.deadline_at_ms) else {
        return Vec::new();
    };
    // A relay would have brought what it had at another deadline.
    if cohort.is_empty() || cohort.iter().any(|assignment| assignment.places.is_some()) {
        return Vec::new();
    }
    let came = cohort.iter().filter_map(|assignment| match assignment.state {
        AssignmentState::Reported => assignment.ended_at_ms,
        AssignmentState::Expired => assignment.late_at_ms,
        _ => None,
    });
    let came_ms: Vec<u64> = came.map(|at_ms| u64::try_from(at_ms - selected_at_ms).unwrap_or(0)).collect();
    what_if(u64::try_from(deadline_at_ms - selected_at_ms).unwrap_or(0), round.cohort, &came_ms)
}

/// How much of a curve.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct CurveQuery {
    /// Most points wanted.
    points: Option<u32>,
}

pub(super) async fn curve(
    operator: Operator<Views>,
    State(app): State<Arc<App>>,
    Path(id): Path<JobId>,
    Query(query): Query<CurveQuery>,
) -> Answer<Json<Curve>> {
    let points = query.points.unwrap_or(CURVE_POINTS_DEFAULT);
    if !(2..=CURVE_POINTS_MAX).contains(&points) {
        return Err(ApiError::new(ProblemType::Malformed, format!("points must be 2 to {CURVE_POINTS_MAX}")));
    }
    let mut tx = app.db.read().await?;
    let (job, _) = operator.job(&mut tx, id).await?;
    let rows = tx.curve_rows(id).await?;
    let events = tx.events_of_job(id, MARKS_MAX).await?;
    drop(tx);
    let (created_at_ms, accuracy) = (job.created_at_ms, job.file.0.stop.accuracy);
    let curve = blocking(move || {
        let marks = marks_of(created_at_ms, &events, &rows);
        Curve { marks, ..curve_of(created_at_ms, &rows, points as usize, accuracy) }
    });
    Ok(Json(curve.await))
}

pub(super) async fn scalar_curves(
    operator: Operator<Views>,
    State(app): State<Arc<App>>,
    Path(id): Path<JobId>,
    Query(query): Query<CurveQuery>,
) -> Answer<Json<Vec<ScalarCurve>>> {
    let points = query.points.unwrap_or(METRIC_POINTS_DEFAULT);
    if !(2..=CURVE_POINTS_MAX).contains(&points) {
        return Err(ApiError::new(ProblemType::Malformed, format!("points must be 2 to {CURVE_POINTS_MAX}")));
    }
    let mut tx = app.db.read().await?;
    operator.job(&mut tx, id).await?;
    let mut curves = Vec::new();
    // One at a time, so that the points of only one are all in memory.
    for (task, name) in tx.scalar_names(id, SCALAR_CURVES_MAX).await? {
        let rows = tx.scalar_points(id, task, &name).await?;
        curves.extend(blocking(move || scalar_curve(task, rows, points as usize)).await);
    }
    Ok(Json(curves))
}

/// Which assignments.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct AssignmentsQuery {
    #[serde(default = "train")]
    task: Task,
    /// Only those in this state.
    state: Option<AssignmentState>,
    limit: Option<u32>,
    after: Option<String>,
}

pub(super) async fn assignments(
    operator: Operator<Views>,
    State(app): State<Arc<App>>,
    Path((job, number)): Path<(JobId, u32)>,
    Query(query): Query<AssignmentsQuery>,
) -> Answer<Json<Page<Assignment>>> {
    let (limit, after) = page(&PageQuery { limit: query.limit, after: query.after }, 0)?;
    let key = RoundKey { job, task: query.task, number };
    let mut tx = app.db.read().await?;
    operator.job(&mut tx, job).await?;
    let round = tx.round(key).await?.ok_or_else(|| ApiError::not_found(format!("round {number} of {job}")))?;
    if round.pruned_at_ms.is_some() {
        let detail = format!("the assignments of round {number} were deleted after [retention] history_days");
        return Err(ApiError::new(ProblemType::Deleted, detail));
    }
    let items = tx.assignments(key, query.state, after, limit).await?;
    Ok(Json(full_page(items, limit, |assignment| assignment.client_number.to_string())))
}
