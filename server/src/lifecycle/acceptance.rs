//! Assigned to Reported: reports that are stored and counted, those of a job that come at a time in one transaction.
//!
//! The first report begins a transaction. Those that come until it has the writer join it; those that come later wait
//! for the next one. An update alone takes eight statements, its commit included. One that joins adds two of them, and
//! no sync of the disk.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard};

use futures_util::future::join_all;
use tokio::sync::oneshot;
use tracing::Instrument;
use tributary_engine::round::{Tempo, staleness};
use tributary_protocol::fixed::{Contribution, Weight};
use tributary_protocol::id::{AssignmentId, ClientId, JobId};
use tributary_protocol::state::{AssignmentState, Phase, Task};
use tributary_protocol::traffic::Traffic;

use super::assignments::{Comes, Refusal, closed, find, require_open};
use super::coded;
use super::parts::{self, Came, NewPart};
use super::rings;
use super::rounds::{close_in, goal_of};
use crate::blob::Staged;
use crate::db::{AssignmentRow, DbError, Download, Report, RoundKey, RoundRow, Transition, Tx};
use crate::runtime::lock::Locked;
use crate::runtime::signals::Signals;
use crate::services::Services;

/// Most reports of a transaction: the clients of the first wait for the last.
const TOGETHER_MAX: usize = 64;

/// A report that is stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accepted {
    /// The round in which it counts.
    pub(crate) round: RoundKey,
    /// Whether the job's driver may have a step to do.
    is_step_due: bool,
}

impl Accepted {
    /// Wakes those whom the report concerns.
    pub(crate) fn tell(&self, signals: &Signals) {
        match self.is_step_due {
            true => signals.changed(self.round.job),
            false => signals.changed_for_watchers(),
        }
    }
}

/// A report that a client sent, with its body if it has one.
#[derive(Debug)]
pub(crate) struct Submission {
    pub(crate) client: ClientId,
    pub(crate) job: JobId,
    pub(crate) assignment: AssignmentId,
    pub(crate) task: Task,
    pub(crate) report: Report,
    pub(crate) body: Option<Staged>,
    /// Of an update that comes in parts: the part that this body is.
    pub(crate) part: Option<NewPart>,
}

/// What a transaction made of a submission.
#[derive(Debug)]
enum Judged {
    Accepted(Accepted),
    /// Its assignment takes no report now. Nothing was changed.
    NotOpen,
    /// The buffer has closed and the next one opens in a moment.
    Between(u32),
}

#[derive(Debug)]
struct Waiting {
    submission: Submission,
    answer: oneshot::Sender<(Submission, Result<Judged, Refusal>)>,
}

/// Reports that wait for a transaction, by job. A job has an entry for as long as a task works on it.
#[derive(Debug, Default)]
pub struct Acceptance(Mutex<HashMap<JobId, Vec<Waiting>>>);

impl Acceptance {
    /// Stores an accepted report. From the commit on it is counted, exactly once. The report that meets the goal closes
    /// its round.
    ///
    /// The same bytes again are accepted again and change nothing; other bytes are a conflict. The submission's body is
    /// there again afterwards.
    pub(crate) async fn accept(
        self: &Arc<Self>,
        services: &Services,
        submission: &mut Submission,
    ) -> Result<Accepted, Refusal> {
        let Submission { client, assignment, task, part, .. } = *submission;
        let (answer, answered) = oneshot::channel();
        let (report, body) = (submission.report.clone(), submission.body.take());
        self.join(services, Waiting { submission: Submission { report, body, ..*submission }, answer });
        // Without an answer the task has panicked. The client sends its report again.
        let (Submission { body, .. }, judged) = answered.await.map_err(|_| DbError::lost())?;
        submission.body = body;
        match judged? {
            Judged::Accepted(accepted) => return Ok(accepted),
            Judged::Between(round) => return Err(Refusal::Between(round)),
            Judged::NotOpen => {}
        }
        let (assignment, round) = find(&mut services.db.read().await?, client, assignment, Some(task)).await?;
        if part.is_some() && assignment.state == AssignmentState::Reported {
            // Its last part came twice at once.
            return Ok(Accepted { round: assignment.round(), is_step_due: true });
        }
        if assignment.state == AssignmentState::Reported {
            let is_same = assignment.report() == Some(submission.report.sha256);
            // The request that stored it may have been dropped before it told anybody.
            let again = Accepted { round: assignment.round(), is_step_due: true };
            return if is_same { Ok(again) } else { Err(Refusal::Conflict(assignment.id)) };
        }
        require_open(services, &assignment, &round, Comes::Finished).await?;
        Err(closed(&assignment, &round))
    }

    /// How many reports of a job wait for a transaction to begin.
    pub fn waiting(&self, job: JobId) -> usize {
        self.jobs().get(&job).map_or(0, Vec::len)
    }

    /// Adds a submission to those of its job that wait. The first one starts a task, which a caller that is cancelled
    /// does not cancel.
    fn join(self: &Arc<Self>, services: &Services, waiting: Waiting) {
        let job = waiting.submission.job;
        match self.jobs().entry(job) {
            Entry::Occupied(mut others) => return others.get_mut().push(waiting),
            Entry::Vacant(first) => drop(first.insert(vec![waiting])),
        }
        let turn = Turn { acceptance: Arc::clone(self), job };
        let services = services.clone();
        tokio::spawn(async move { turn.work(&services).await }.in_current_span());
    }

    fn jobs(&self) -> MutexGuard<'_, HashMap<JobId, Vec<Waiting>>> {
        self.0.locked()
    }
}

/// Works on the submissions of a job until none is left.
struct Turn {
    acceptance: Arc<Acceptance>,
    job: JobId,
}

impl Turn {
    async fn work(self, services: &Services) {
        while !self.is_over() {
            // Those that come while the writer is busy join.
            let begun = services.db.begin().await;
            store(services, begun, self.take()).await;
        }
    }

    /// Takes those that wait.
    fn take(&self) -> Vec<Waiting> {
        let mut jobs = self.acceptance.jobs();
        let Some(waiting) = jobs.get_mut(&self.job) else { return Vec::new() };
        let rest = waiting.split_off(waiting.len().min(TOGETHER_MAX));
        std::mem::replace(waiting, rest)
    }

    /// Whether none is left; then the next one starts a task of its own.
    fn is_over(&self) -> bool {
        let mut jobs = self.acceptance.jobs();
        let is_over = jobs.get(&self.job).is_none_or(Vec::is_empty);
        if is_over {
            jobs.remove(&self.job);
        }
        is_over
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Those that wait are let go, and the next one starts a task of its own.
        if std::thread::panicking() {
            self.acceptance.jobs().remove(&self.job);
        }
    }
}

/// Stores submissions in one transaction, and answers them. If it fails, each is tried by itself, so that none fails
/// because of another.
async fn store(services: &Services, begun: Result<Tx, DbError>, mut together: Vec<Waiting>) {
    match Transaction::run(services, begun, &mut together).await {
        Ok(judged) => together.into_iter().zip(judged).for_each(|(one, judged)| one.tell(services, Ok(judged))),
        Err(error) if together.len() > 1 => {
            tracing::debug!(%error, reports = together.len(), "reports are stored one by one");
            // At a time: where the database does not answer, all of them wait for its time limit once.
            let alone = together.into_iter().map(async |one| {
                let (begun, mut alone) = (services.db.begin().await, [one]);
                let judged = Transaction::run(services, begun, &mut alone).await;
                let [one] = alone;
                one.tell(services, judged.map(|judged| judged.into_iter().next().unwrap_or(Judged::NotOpen)));
            });
            join_all(alone).await;
        }
        Err(error) => {
            if let Some(one) = together.pop() {
                one.tell(services, Err(error));
            }
        }
    }
}

/// A transaction that accepts reports of one job.
struct Transaction<'a> {
    services: &'a Services,
    tx: Tx,
    now_ms: i64,
    /// The rounds of its reports, in most jobs one.
    rounds: Vec<Open>,
}

/// A round, and what the transaction has accepted in it and not counted yet.
struct Open {
    /// With all reports in `reported` that the transaction has accepted.
    row: RoundRow,
    reports: Vec<AssignmentId>,
    /// Of these reports.
    contribution: Contribution,
    /// Places of relays whose clients brought no update.
    missing: u32,
    traffic: Traffic,
}

impl<'a> Transaction<'a> {
    /// What became of each of these submissions, once it is stored. After an error nothing is.
    async fn run(
        services: &'a Services,
        begun: Result<Tx, DbError>,
        waiting: &mut [Waiting],
    ) -> Result<Vec<Judged>, Refusal> {
        let mut this = Self { services, tx: begun?, now_ms: services.clock.now_ms(), rounds: Vec::new() };
        let Some(first) = waiting.first() else { return Ok(Vec::new()) };
        // The job's row is locked before its rounds are read: no driver can close one in between.
        this.tx.lock_job(first.submission.job).await?;
        let ids: Vec<_> = waiting.iter().map(|one| one.submission.assignment.to_string()).collect();
        let assignments = this.tx.assignments_by_id(&ids).await?;
        let mut judged = Vec::with_capacity(waiting.len());
        for Waiting { submission, .. } in waiting.iter_mut() {
            let assignment = assignments.iter().find(|assignment| assignment.id == submission.assignment);
            judged.push(match assignment.filter(|assignment| submission.is_for(assignment)) {
                Some(assignment) => this.accept(assignment, submission).await?,
                None => Judged::NotOpen,
            });
        }
        for at in 0..this.rounds.len() {
            this.count(at).await?;
        }
        let is_accepted = |judged: &Judged| matches!(judged, Judged::Accepted(_));
        if judged.iter().any(is_accepted) {
            this.tx.commit().await?;
        }
        Ok(judged)
    }

    async fn accept(&mut self, assignment: &AssignmentRow, submission: &mut Submission) -> Result<Judged, Refusal> {
        let (key, now_ms) = (assignment.round(), self.now_ms);
        let Some(at) = self.round(key).await? else { return Ok(Judged::NotOpen) };
        let round = &self.rounds[at].row;
        let in_time = assignment.until_ms(round).is_some_and(|deadline_at_ms| now_ms < deadline_at_ms);
        if !in_time || assignment.state != AssignmentState::Assigned {
            return Ok(Judged::NotOpen);
        }
        if round.phase != Phase::Training {
            return Ok(if assignment.term().is_own() { Judged::Between(round.number) } else { Judged::NotOpen });
        }
        if let Some(part) = &submission.part {
            let came = parts::come(&mut self.tx, (assignment, round), part, &mut submission.report).await?;
            if let (Came::More | Came::Whole, Some(body)) = (came, &mut submission.body) {
                body.settle(&mut self.tx, self.services.clock.now_ms()).await?;
            }
            if came != Came::Whole {
                return Ok(Judged::Accepted(Accepted { round: key, is_step_due: false }));
            }
        }
        let Submission { client, ref mut report, ref mut body, .. } = *submission;
        let Download { traffic, ended_at_ms } = self.tx.downloaded(client);
        report.traffic =
            Traffic { bytes_down: traffic.bytes_down, raw_bytes_down: traffic.raw_bytes_down, ..report.traffic };
        report.times.fetched_at_ms = ended_at_ms;
        // None if the same report came twice.
        let Some(traffic) = self.tx.accept_report(assignment.id, report, now_ms).await? else {
            return Ok(Judged::NotOpen);
        };
        if let Some(body) = body.as_mut().filter(|body| !body.is_settled()) {
            body.settle(&mut self.tx, self.services.clock.now_ms()).await?;
        }
        let mut contribution = report.figures.contribution;
        if assignment.is_of_group() {
            let (transitions, others) = rings::count_members(&mut self.tx, assignment, report.sha256, now_ms).await?;
            self.tx.record_all(key.job, &transitions, now_ms).await?;
            self.rounds[at].traffic += others;
            contribution.updates = u32::try_from(transitions.len() + 1).unwrap_or(u32::MAX);
        }
        coded::cover(&mut self.tx, assignment, now_ms).await?;
        self.add_up(key, report).await?;
        if assignment.term().is_own() {
            self.count_staleness(assignment, at, report.figures.contribution).await?;
        }
        let Self { tx, rounds, .. } = self;
        let Open { row: round, reports, contribution: sum, missing, traffic: total } = &mut rounds[at];
        if let Tempo::Members { .. } = round.policy().tempo {
            tx.tick_member(key.job, client).await?;
        }
        let goal = goal_of(tx, round).await?;
        // Otherwise the round waits for its other clients, as before. In a buffer a place is free.
        let closes_between = matches!(round.policy().tempo, Tempo::Panel { .. });
        let is_many = assignment.is_sum() || assignment.share().is_some();
        let is_last = round.working() <= 1 || is_many || assignment.term().is_own() || closes_between;
        reports.push(assignment.id);
        *sum = sum.plus(contribution);
        *total += traffic;
        round.reported += contribution.updates;
        *missing += assignment.places.saturating_sub(contribution.updates);
        // The sum of a group is all that the members of its round bring.
        let closes = round.reported >= goal || assignment.is_of_group();
        if closes {
            self.close(at).await?;
        }
        Ok(Judged::Accepted(Accepted { round: key, is_step_due: closes || is_last }))
    }

    /// Adds the counts by class and the sums of the table of a report to those of its round.
    async fn add_up(&mut self, key: RoundKey, report: &Report) -> Result<(), Refusal> {
        if let Some(counts) = &report.classes {
            let mut sum = self.tx.class_counts(key).await?;
            match &mut sum {
                Some(sum) => sum.add(counts).map_err(Refusal::Misfit)?,
                None => sum = Some(counts.clone()),
            }
            self.tx.store_class_counts(key, sum.as_ref().unwrap_or(counts)).await?;
        }
        if let Some(description) = &report.description {
            let sums = match self.tx.description(key).await? {
                Some(mut sums) => sums.add(description).map(|()| sums).map_err(Refusal::Sums)?,
                None => description.clone(),
            };
            self.tx.store_description(key, Some(&sums)).await?;
        }
        Ok(())
    }

    /// The place of a round, which is read before its first report.
    async fn round(&mut self, key: RoundKey) -> Result<Option<usize>, DbError> {
        if let Some(at) = self.rounds.iter().position(|round| round.row.key() == key) {
            return Ok(Some(at));
        }
        let Some(row) = self.tx.round(key).await? else { return Ok(None) };
        self.rounds.push(Open {
            row,
            reports: Vec::new(),
            contribution: Contribution::default(),
            missing: 0,
            traffic: Traffic::default(),
        });
        Ok(Some(self.rounds.len() - 1))
    }

    /// Counts and records what was accepted in a round.
    async fn count(&mut self, at: usize) -> Result<(), DbError> {
        let Open { row, reports, contribution, missing, traffic } = &mut self.rounds[at];
        let (key, reports, updates) = (row.key(), std::mem::take(reports), std::mem::take(missing));
        let (contribution, traffic) = (std::mem::take(contribution), std::mem::take(traffic));
        if reports.is_empty() {
            return Ok(());
        }
        let state = AssignmentState::Reported;
        self.tx.count_ended(key, state, contribution, traffic).await?;
        if updates > 0 {
            let missing = Contribution { weight: Weight::default(), updates };
            self.tx.count_ended(key, AssignmentState::Failed, missing, Traffic::default()).await?;
        }
        let reported = |id: &AssignmentId| Transition::of_assignment(key, *id, state, None);
        let transitions: Vec<_> = reports.iter().map(reported).collect();
        self.tx.record_all(key.job, &transitions, self.now_ms).await
    }

    /// Training to Aggregating.
    async fn close(&mut self, at: usize) -> Result<(), DbError> {
        self.count(at).await?;
        let row = &mut self.rounds[at].row;
        close_in(self.services, &mut self.tx, row, self.now_ms).await?;
        if let Some(closed) = self.tx.round(row.key()).await? {
            *row = closed;
        }
        Ok(())
    }

    /// Adds the staleness of an accepted update, or of a relay's sum, to the figures of its round.
    async fn count_staleness(
        &mut self,
        assignment: &AssignmentRow,
        at: usize,
        Contribution { weight, updates }: Contribution,
    ) -> Result<(), DbError> {
        let (tx, round) = (&mut self.tx, &self.rounds[at].row);
        let Some(spec) = self.services.spec(tx, round.job).await? else { return Ok(()) };
        let behind = staleness(assignment.base_version, round.base_version);
        let lost = spec.weight_lost(weight.whole_examples(), behind);
        tx.count_staleness(round.key(), behind.saturating_mul(updates), lost).await
    }
}

impl Submission {
    fn is_for(&self, assignment: &AssignmentRow) -> bool {
        assignment.client == self.client && assignment.round().task == self.task
    }
}

impl Waiting {
    fn tell(self, services: &Services, judged: Result<Judged, Refusal>) {
        // Nobody listens if the request was cancelled. What it stored concerns others all the same.
        if let Err((_, Ok(Judged::Accepted(accepted)))) = self.answer.send((self.submission, judged)) {
            accepted.tell(&services.signals);
        }
    }
}
