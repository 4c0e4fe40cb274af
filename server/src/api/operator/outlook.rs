//! What other deadlines would have done to the newest rounds of a job.

use std::sync::Arc;

use axum::extract::State;
use tributary_engine::story::{Arrival, OUTLOOK_ROUNDS, PlayedRound, Policy, outlook};
use tributary_protocol::id::JobId;
use tributary_protocol::operator::{Assignment, Outlook, Round};
use tributary_protocol::state::{AbandonReason, AssignmentState, Phase, Task};

use super::rounds::cohort;
use crate::api::auth::{Operator, Views};
use crate::api::extract::{Json, Path};
use crate::api::problem::Answer;
use crate::app::App;
use crate::db::RoundFilter;
use crate::runtime::offload::blocking;

/// Rounds that are looked through for those with a deadline and assignments.
const LOOKED_AT: u32 = 3 * OUTLOOK_ROUNDS;
/// No further round is read once there are so many assignments.
const ASSIGNMENTS_ENOUGH: usize = 20_000;

pub(super) async fn show(
    operator: Operator<Views>,
    State(app): State<Arc<App>>,
    Path(id): Path<JobId>,
) -> Answer<Json<Outlook>> {
    let mut tx = app.db.read().await?;
    let (job, _) = operator.job(&mut tx, id).await?;
    let newest = i32::MAX.cast_unsigned();
    let rows = tx.latest_rounds(id, Task::Train, RoundFilter::default(), newest, LOOKED_AT).await?;
    let mut rounds = Vec::new();
    let mut assignments = 0;
    for row in rows.into_iter().filter(|row| row.pruned_at_ms.is_none()) {
        let key = row.key();
        let round = Round::from(row);
        if !tells(&round) {
            continue;
        }
        let cohort = cohort(&mut tx, key).await?;
        // A relay brings what it has at the deadline, whatever that is.
        if cohort.iter().any(|assignment| assignment.places.is_some()) {
            continue;
        }
        assignments += cohort.len();
        rounds.push(played(&round, &cohort, job.file.0.training.partial_work));
        if rounds.len() >= OUTLOOK_ROUNDS as usize || assignments >= ASSIGNMENTS_ENOUGH {
            break;
        }
    }
    drop(tx);
    let round = &job.file.0.round;
    let policy = Policy { deadline_ms: round.deadline_ms, goal: round.updates_goal, minimum: round.updates_min };
    Ok(Json(blocking(move || outlook(policy, &rounds)).await))
}

/// Whether a round closed by its own rules, so that its times say something about deadlines.
fn tells(round: &Round) -> bool {
    let has_closed = match round.phase {
        Phase::Committed => true,
        Phase::Abandoned => round.reason == Some(AbandonReason::TooFewReports),
        _ => false,
    };
    has_closed && round.buffer.is_none() && round.selected_at_ms.is_some() && round.deadline_at_ms.is_some()
}

fn played(round: &Round, cohort: &[Assignment], partial_work: Option<f64>) -> PlayedRound {
    let closed_at_ms = round.closed_at_ms.or(round.ended_at_ms);
    let since = |assignment: &Assignment, at_ms: Option<i64>| {
        at_ms.map_or(0, |at_ms| u64::try_from(at_ms - assignment.assigned_at_ms).unwrap_or(0))
    };
    // The whole time is the cohort's: from its draw to the deadline.
    let whole_ms = round.deadline_at_ms.zip(round.selected_at_ms).map(|(deadline, selected)| deadline - selected);
    let stops_ms = partial_work.zip(whole_ms).map(|(share, whole_ms)| (share * whole_ms as f64) as u64);
    let arrival = |assignment: &Assignment| match assignment.state {
        AssignmentState::Reported => Arrival::of_report(since(assignment, assignment.ended_at_ms), stops_ms),
        AssignmentState::Expired | AssignmentState::Assigned => match (assignment.late_at_ms, assignment.stopped_at_ms)
        {
            (Some(late_at_ms), _) => Arrival::At(since(assignment, Some(late_at_ms))),
            (None, stopped_at_ms) => Arrival::After(since(assignment, stopped_at_ms.max(closed_at_ms))),
        },
        AssignmentState::Failed | AssignmentState::Rejected => Arrival::Never,
    };
    PlayedRound {
        goal: round.goal,
        minimum: round.minimum,
        abandoned: round.phase == Phase::Abandoned,
        arrivals: cohort.iter().map(arrival).collect(),
    }
}
