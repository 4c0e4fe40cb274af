//! What a decision is made from: the stored facts of a job in one snapshot.

use std::sync::Arc;

use tributary_protocol::id::ClientId;
use tributary_protocol::job_file::JobFile;
use tributary_protocol::seed::Seed;
use tributary_protocol::state::{JobState, Phase, Task};

use super::calendar::Calendar;
use super::candidate::Candidate;
use super::known::LastReport;
use super::masking::OpenGroups;
use super::member::Member;
use super::policy::TaskPolicy;
use crate::coded::rows::Rows;

/// What one snapshot says of a job.
#[derive(Clone, Copy, Debug)]
pub struct JobView<'a> {
    pub file: &'a JobFile,
    /// The minutes in which training rounds may open, and in which buffers draw; none if these are all.
    pub calendar: Option<&'a Calendar>,
    /// The code of a coded job.
    pub code: Option<&'a Rows>,
    pub facts: &'a JobFacts,
    /// Every open round: at most one of training.
    pub rounds: &'a [OpenRound],
    /// The open assignments with terms of their own; none without any.
    pub work: Option<OpenWork>,
    /// Of a stale-synchronous job.
    pub members: &'a [Member],
}

/// The stored facts of a job that decide its next round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JobFacts {
    pub state: JobState,
    /// Number of training rounds opened.
    pub rounds_opened: u32,
    /// Number of training rounds committed.
    pub rounds_committed: u32,
    /// Number of training rounds abandoned since the last committed one.
    pub abandoned_in_a_row: u32,
    /// Of a job that only evaluates; else nothing.
    pub fixed: FixedModels,
    /// Of a job whose inputs lack statistics; else nothing.
    pub descriptions: Descriptions,
    /// When the last training round ended.
    pub last_ended_at_ms: Option<i64>,
    /// Number of the last committed training round.
    pub last_committed_round: Option<u32>,
    /// Whether an evaluation of that round's model was opened.
    pub last_committed_evaluated: bool,
    /// Lower bound of the accuracy of the newest evaluated version.
    pub accuracy: Option<f64>,
    /// Mean of the metric of `[stop]` in the newest evaluation; none without one.
    pub metric: Option<f64>,
    /// What the privacy budget allows.
    pub budget: Budget,
}

/// Whether the privacy budgets of a job and of its population allow another round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Budget {
    /// They do, or there is none.
    #[default]
    Free,
    /// Not while rounds of other jobs are open, which may spend the rest.
    Claimed,
    /// They never will.
    Spent,
}

/// The models of a job that only evaluates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FixedModels {
    /// Their number.
    pub models: u32,
    /// Number of evaluations opened: one for each, in their order.
    pub opened: u32,
}

/// The rounds that were to fix a job's inputs, none of which has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Descriptions {
    /// Number of rounds opened.
    pub opened: u32,
    /// When the last of them ended.
    pub last_ended_at_ms: Option<i64>,
}

/// What a snapshot says of an open round.
#[derive(Clone, Debug)]
pub struct OpenRound {
    pub task: Task,
    pub number: u32,
    pub policy: TaskPolicy,
    pub phase: Phase,
    /// Seed of everything that is drawn in the round.
    pub seed: Seed,
    pub opened_at_ms: i64,
    /// When the cohort's time ends; known once the cohort is drawn.
    pub deadline_at_ms: Option<i64>,
    /// Clients at work, among them those that wait for a group or are in an open one.
    pub working: u32,
    /// Updates or evaluations of accepted reports.
    pub reported: u32,
    /// Clients that were drawn one after the other, into a buffer or a panel.
    pub drawn: u32,
    /// Of a panel: clients that made the model, or came the last time, and have not been drawn yet.
    pub awaited: u32,
    /// The open groups of a round whose updates are masked; none without any.
    pub open_groups: Option<OpenGroups>,
    pub source: Source,
}

/// What a round draws from.
#[derive(Clone, Debug)]
pub enum Source {
    Clients {
        /// The eligible clients that wait. Empty in a round that draws none now.
        eligible: Vec<Arc<Candidate>>,
        /// The last reports of clients, where the job's selection reads them.
        reports: Vec<(ClientId, LastReport)>,
    },
    Coordinator {
        has_test_set: bool,
        /// Whether the evaluation is being computed here.
        is_under_way: bool,
    },
}

/// The open assignments of a job that have terms of their own: when the first of them ends, and when the last of them
/// may have begun at the latest. Outside of these times one of them is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenWork {
    pub ends_at_ms: i64,
    pub begins_at_ms: i64,
}

/// What the steps of all rounds of a job depend on.
pub(super) struct Context<'a> {
    pub(super) file: &'a JobFile,
    pub(super) job: JobState,
    /// Whether the job has reached what its `[stop]` asks for.
    pub(super) has_trained: bool,
    /// Whether the calendar lets buffers draw in this minute.
    pub(super) in_calendar: bool,
    pub(super) now_ms: i64,
}

impl Context<'_> {
    /// Whether buffers may draw now.
    pub(super) fn may_draw(&self) -> bool {
        self.job == JobState::Running && self.in_calendar
    }
}
