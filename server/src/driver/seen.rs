//! What the driver sees of a job: its stored facts in one snapshot, and the clients that wait.

use std::sync::Arc;

use tributary_engine::job::JobSpec;
use tributary_engine::round::{
    Budget, Descriptions, FixedModels, JobFacts, JobView, Member, OpenRound, OpenWork, Source, Tempo,
};
use tributary_protocol::id::JobId;
use tributary_protocol::job_file::Selection;
use tributary_protocol::state::{Phase, Task};

use super::context::Driver;
use super::error::DriverError;
use crate::db::{DbError, JobRow, RoundKey, RoundRow, Tx};
use crate::fleet::turns::own_share;
use crate::fleet::waiting::Waiting;
use crate::lifecycle::budget;
use crate::masking::step::{Standing, Times};
use crate::models::error::CommitError;
use crate::ring::step::Rings;
use crate::services::Services;

/// How often a round that leaves clients to another job looks again, in milliseconds. The other job may be driven
/// elsewhere.
const LEFT_MS: i64 = 1_000;

pub(super) struct Seen {
    pub(super) spec: Arc<JobSpec>,
    /// The open rounds.
    pub(super) rows: Vec<RoundRow>,
    facts: JobFacts,
    /// The same rounds as rules see them.
    rounds: Vec<OpenRound>,
    work: Option<OpenWork>,
    members: Vec<Member>,
    /// The groups of the round that trains, where its updates are masked, with the round's place.
    groups: Option<(usize, Standing)>,
    /// The same where members add up among themselves.
    rings: Option<(usize, Rings)>,
    /// Whether a round leaves waiting clients, or the rest of a budget, to another job.
    leaves_clients: bool,
}

impl Seen {
    /// Reads a job; none if there is none.
    pub(super) async fn read(driver: &Driver, id: JobId) -> Result<Option<Self>, DriverError> {
        let Driver { services, fleet, .. } = driver;
        let mut tx = services.db.read().await?;
        let Some(job) = tx.job(id).await? else { return Ok(None) };
        let spec = services.specs.of(&job)?;
        let rows = tx.open_rounds(id).await?;
        let tempo = Tempo::of(spec.file.round.mode);
        let mut facts = facts(&mut tx, &job, &spec).await?;
        if rows.iter().all(|row| row.task != Task::Train) {
            facts.budget = budget::standing(services, &mut tx, &spec).await?;
        }
        let waiting = Waiting::read(services, fleet, &mut tx, &spec, &rows).await?;
        let mut rounds = Vec::with_capacity(rows.len());
        let times = Times { now_ms: services.clock.now_ms(), started_at_ms: driver.leases.started_at_ms() };
        // The other job's round may end on another coordinator.
        let (mut groups, mut rings, mut leaves_clients) = (None, None, facts.budget == Budget::Claimed);
        for (place, row) in rows.iter().enumerate() {
            let (source, leaves) = source(driver, &mut tx, &spec, &waiting, row).await?;
            leaves_clients |= leaves;
            let mut round = OpenRound { awaited: awaited(&mut tx, row).await?, ..open_round(row, source) };
            if (row.task, row.phase) == (Task::Train, Phase::Training)
                && let Some(standing) = Standing::read(&mut tx, &spec, row, times).await?
            {
                round.open_groups = standing.open_groups();
                groups = Some((place, standing));
            }
            if (row.task, row.phase) == (Task::Train, Phase::Training)
                && let Some(standing) = Rings::read(&mut tx, &spec, row, times.now_ms).await?
            {
                rings = Some((place, standing));
            }
            rounds.push(round);
        }
        Ok(Some(Self {
            groups,
            rings,
            leaves_clients,
            work: if tempo.is_buffer() { tx.open_work(id).await? } else { None },
            members: match tempo {
                Tempo::Members { .. } => tx.members(id).await?,
                Tempo::Cohort | Tempo::Coordinator | Tempo::Panel { .. } | Tempo::Buffer { .. } => Vec::new(),
            },
            spec,
            rows,
            facts,
            rounds,
        }))
    }

    /// Takes the next step of a group. False when none is due.
    pub(super) async fn step_groups(&self, services: &Services) -> Result<bool, CommitError> {
        if let Some((place, rings)) = &self.rings {
            let round = &self.rows[*place];
            return Ok(rings.step(services, &self.spec_of(round), round).await?);
        }
        let Some((place, groups)) = &self.groups else { return Ok(false) };
        let round = &self.rows[*place];
        groups.step(services, &self.spec_of(round), round).await
    }

    /// When a group may have a step to take, unless something changes.
    pub(super) fn groups_until_ms(&self, now_ms: i64) -> Option<i64> {
        if let Some((_, rings)) = &self.rings {
            return rings.next_ms(now_ms);
        }
        let (place, groups) = self.groups.as_ref()?;
        groups.next_ms(&self.spec, &self.rows[*place], now_ms)
    }

    /// When to look again what became of that which is left to another job, unless something changes.
    pub(super) fn left_until_ms(&self, now_ms: i64) -> Option<i64> {
        self.leaves_clients.then_some(now_ms + LEFT_MS)
    }

    pub(super) fn view(&self) -> JobView<'_> {
        JobView {
            file: &self.spec.file,
            calendar: self.spec.calendar.as_ref(),
            code: self.spec.code.as_deref(),
            facts: &self.facts,
            rounds: &self.rounds,
            work: self.work,
            members: &self.members,
        }
    }

    /// The spec under which a round sums its updates.
    pub(super) fn spec_of(&self, round: &RoundRow) -> Arc<JobSpec> {
        match round.task {
            Task::Train => self.spec.with_cohort(round.policy().sum_size()),
            Task::Evaluate | Task::Describe => Arc::clone(&self.spec),
        }
    }
}

/// Reads what the job's file asks for: a job without evaluations has none to look up.
async fn facts(tx: &mut Tx, job: &JobRow, spec: &JobSpec) -> Result<JobFacts, DbError> {
    let file = &spec.file;
    let last_committed_round = job.last_committed()?;
    let evaluated = match last_committed_round.filter(|_| file.evaluation.is_some()) {
        Some(number) => tx.round(RoundKey { job: job.id, task: Task::Evaluate, number }).await?.is_some(),
        None => false,
    };
    Ok(JobFacts {
        state: job.state,
        rounds_opened: job.rounds_opened,
        rounds_committed: job.rounds_committed,
        abandoned_in_a_row: job.abandoned_in_a_row,
        fixed: match (file.only_evaluates(), job.version()?) {
            (true, Some(last)) => FixedModels { models: last + 1, opened: tx.evaluations_opened(job.id).await? },
            (true, None) | (false, _) => FixedModels::default(),
        },
        descriptions: match file.model.lacks_statistics() {
            true => tx.descriptions(job.id).await?,
            false => Descriptions::default(),
        },
        last_ended_at_ms: job.round_ended_at_ms,
        last_committed_round,
        last_committed_evaluated: evaluated,
        accuracy: match file.stop.accuracy {
            Some(_) => tx.latest_accuracy(job.id).await?,
            None => None,
        },
        metric: match &file.stop.metric {
            Some(name) => tx.latest_scalar(job.id, name).await?,
            None => None,
        },
        budget: Budget::Free,
    })
}

fn open_round(row: &RoundRow, source: Source) -> OpenRound {
    OpenRound {
        task: row.task,
        number: row.number,
        policy: *row.policy(),
        phase: row.phase,
        seed: row.seed(),
        opened_at_ms: row.opened_at_ms,
        deadline_at_ms: row.deadline_at_ms,
        working: row.working(),
        reported: row.reported,
        awaited: 0,
        open_groups: None,
        drawn: if matches!(row.policy().tempo, Tempo::Panel { .. }) { row.cohort } else { row.drawn },
        source,
    }
}

/// The clients that a panel waits for and has not drawn yet. In a job whose evaluators have attributes, any of them may
/// be among those that came the last time.
async fn awaited(tx: &mut Tx, row: &RoundRow) -> Result<u32, DbError> {
    match row.policy().tempo {
        Tempo::Panel { expected, makers: true, .. } if row.phase == Phase::Training => {
            Ok(tx.makers_not_drawn(row.key()).await?.min(expected))
        }
        Tempo::Panel { expected, .. } => Ok(expected.saturating_sub(row.cohort)),
        _ => Ok(0),
    }
}

/// What a round draws from now, and whether it leaves waiting clients to another job.
async fn source(
    driver: &Driver,
    tx: &mut Tx,
    spec: &JobSpec,
    waiting: &Waiting,
    row: &RoundRow,
) -> Result<(Source, bool), DbError> {
    if row.policy().tempo == Tempo::Coordinator {
        let evaluates = driver.services.evaluator.is_some();
        let source = Source::Coordinator {
            has_test_set: evaluates && tx.test_set(row.job).await?.is_some(),
            is_under_way: driver.evaluations.is_under_way(row.key()),
        };
        return Ok((source, false));
    }
    let eligible = if row.draws() { waiting.eligible(spec, row) } else { Vec::new() };
    let Driver { services, fleet, .. } = driver;
    let (mut eligible, leaves) = own_share(services, fleet, tx, (spec, row), (waiting, eligible)).await?;
    if matches!(row.policy().tempo, Tempo::Panel { .. }) && row.phase == Phase::Training && !eligible.is_empty() {
        // A client takes part once.
        let drawn = tx.drawn_clients(row.key()).await?;
        eligible.retain(|candidate| !drawn.contains(&candidate.client));
    }
    let reads_reports = matches!(spec.file.round.selection, Selection::PowerOfChoice { .. } | Selection::Utility(_));
    let reports = match (row.task, row.phase) {
        (Task::Train, Phase::Selecting) if reads_reports => tx.last_reports(row.job).await?,
        _ => Vec::new(),
    };
    Ok((Source::Clients { eligible, reports }, leaves))
}
