//! How far a job has come, from what is stored.

use tributary_engine::round::DIVERSITY_ROUNDS;
use tributary_engine::story::{self, PACE_ROUNDS, ends_in_ms};
use tributary_protocol::operator::{Progress, UsefulUpdates};
use tributary_protocol::state::JobState;

use crate::db::{DbError, JobRow, Tx};

/// What lists of jobs show, and more.
pub(in crate::api) async fn of_job(tx: &mut Tx, row: &JobRow, now_ms: i64) -> Result<Progress, DbError> {
    let totals = tx.job_totals(row.id).await?;
    let measured = tx.latest_measured(row.id).await?;
    let committed_at_ms = match rounds_left(row) {
        Some(_) => tx.committed_at_ms(row.id, PACE_ROUNDS).await?,
        None => Vec::new(),
    };
    Ok(Progress {
        accuracy: measured.accuracy,
        measured_on: measured.on,
        loss: measured.loss,
        best: tx.best_version(row.id).await?,
        awaits_evaluation: awaits_evaluation(row),
        ends_in_ms: rounds_left(row).and_then(|left| ends_in_ms(left, &committed_at_ms, now_ms)),
        bytes_up: totals.bytes_up,
        bytes_down: totals.bytes_down,
        useful_updates: None,
    })
}

/// How many updates the rounds of a running job can use; an ended job can act on it no more.
pub(in crate::api) async fn useful_updates(tx: &mut Tx, row: &JobRow) -> Result<Option<UsefulUpdates>, DbError> {
    if row.state != JobState::Running {
        return Ok(None);
    }
    let rounds = tx.diverse_rounds(row.id, DIVERSITY_ROUNDS).await?;
    Ok(story::useful_updates(&rounds, row.file.0.round.goal()))
}

/// Rounds that a running job has yet to commit, if any. A schedule closes for hours, which no pace of rounds shows.
fn rounds_left(row: &JobRow) -> Option<u32> {
    let file = &row.file.0;
    let wanted = file.stop.rounds.filter(|_| row.state == JobState::Running && file.schedule.is_none())?;
    wanted.checked_sub(row.rounds_committed).filter(|left| *left > 0)
}

/// Whether a running job has its rounds. It ends at once, or with the evaluation of the last one.
fn awaits_evaluation(row: &JobRow) -> bool {
    let file = &row.file.0;
    let has_rounds = file.stop.rounds.is_some_and(|wanted| row.rounds_committed >= wanted);
    row.state == JobState::Running && has_rounds && file.evaluation.is_some()
}
