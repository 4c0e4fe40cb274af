//! The facts behind explanations: what the engine's stories need to know of a round or a job.

pub(super) mod disk;
pub(super) mod enrolled;
pub(super) mod groups;
pub(super) mod health;
pub(super) mod progress;
pub(super) mod rings;
pub(super) mod software;
pub(super) mod tables;

use tributary_engine::job::calendar_of;
use tributary_engine::round::{Coding, Tempo, may_open_at_ms, places};
use tributary_engine::story::{Takeover, Undriven, Wanted};
use tributary_protocol::id::JobId;
use tributary_protocol::job_file::JobFile;
use tributary_protocol::operator::Round;
use tributary_protocol::state::{AbandonReason, JobState, Phase, Task};

use self::enrolled::Enrolled;
use crate::app::App;
use crate::db::{DbError, Holder, JobRow, RoundRow, TakeoverRow, Tx};
use crate::fleet::waiting::eligible;

/// A selecting round: who is here, and whom it wants.
#[derive(Clone, Debug)]
pub(super) struct Selection {
    pub(super) available: u32,
    pub(super) needed: u32,
    pub(super) minimum: u32,
    /// When it starts with those that are here, or is abandoned.
    pub(super) ends_at_ms: i64,
    /// What a coded round lacks.
    pub(super) lacking: Option<String>,
    /// Read only where too few wait: it visits every client of the population.
    enrolled: Option<Enrolled>,
}

impl Selection {
    /// None unless the round is selecting.
    pub(super) async fn read(app: &App, tx: &mut Tx, row: &RoundRow) -> Result<Option<Self>, DbError> {
        if row.phase != Phase::Selecting {
            return Ok(None);
        }
        let Some(job) = tx.job(row.job).await? else { return Ok(None) };
        let spec = app.specs.of(&job)?;
        let policy = row.policy();
        let eligible = match policy.tempo {
            // It would not be selecting if there were a test set.
            Tempo::Coordinator => Vec::new(),
            Tempo::Cohort | Tempo::Panel { .. } | Tempo::Buffer { .. } | Tempo::Members { .. } => {
                eligible(app, &app.fleet, tx, &spec, row).await?
            }
        };
        let available = places(&eligible);
        let coded = Coding::of(&spec.file, spec.code.as_deref(), policy.branch).filter(|_| row.task == Task::Train);
        let lacking = coded.and_then(|coding| coding.lacking(&eligible));
        let enrolled = match available < policy.minimum {
            true => Some(Enrolled::read(tx, &spec.file, row.task, row.number).await?),
            false => None,
        };
        Ok(Some(Self {
            available,
            needed: policy.available_min,
            minimum: policy.minimum,
            ends_at_ms: policy.selection_ends_at_ms(row.opened_at_ms),
            lacking,
            enrolled,
        }))
    }

    pub(super) fn wanted(&self) -> Option<Wanted<'_>> {
        self.enrolled.as_ref().map(Enrolled::wanted)
    }
}

/// The enrolled clients that a round wanted which was abandoned while it waited for them; none of other rounds.
pub(super) async fn missed(tx: &mut Tx, file: &JobFile, round: &Round) -> Result<Option<Enrolled>, DbError> {
    match round.reason {
        Some(AbandonReason::SelectionTimeout) => Ok(Some(Enrolled::read(tx, file, round.task, round.number).await?)),
        _ => Ok(None),
    }
}

/// The holder of a job's lease, where it is another coordinator that may be dead.
pub(super) async fn missing_driver(app: &App, tx: &mut Tx, job: JobId) -> Result<Option<Holder>, DbError> {
    let holder = tx.holder(job).await?;
    Ok(holder.filter(|holder| holder.node != app.node && holder.is_missing(app.clock.now_ms())))
}

pub(super) fn undriven(holder: &Holder) -> Undriven<'_> {
    Undriven { node: holder.node.as_str(), seen_at_ms: holder.seen_at_ms(), expires_at_ms: holder.expires_at_ms }
}

pub(super) fn takeover(row: &TakeoverRow) -> Takeover<'_> {
    let TakeoverRow { at_ms, from_node, to_node, seen_at_ms } = row;
    Takeover { from: from_node, to: to_node, seen_at_ms: *seen_at_ms, at_ms: *at_ms }
}

/// The earliest time at which a running job's next training round opens, if it is known.
pub(super) fn rounds_not_before_ms(row: &JobRow, now_ms: i64) -> Result<Option<i64>, DbError> {
    if row.state != JobState::Running {
        return Ok(None);
    }
    let file = &row.file.0;
    let calendar = calendar_of(file).map_err(|error| DbError::Corrupt(error.to_string()))?;
    let at_ms = may_open_at_ms(file, calendar.as_ref(), row.abandoned_in_a_row, row.round_ended_at_ms, now_ms);
    Ok(at_ms.filter(|at_ms| *at_ms > now_ms))
}
