//! Rounds in simulated time: the engine decides, clients finish or die.

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_engine::aggregate::{Accumulator, Contribution, Weighing, Weight, advance, step};
use tributary_engine::job::JobSpec;
use tributary_engine::round::{
    BufferFacts, Candidate, Clocks, Known, Member, RoundFacts, Step, TaskPolicy, choose_cohort, next_buffer_step,
    next_clocked_step, next_step, staleness,
};
use tributary_protocol::id::ClientId;
use tributary_protocol::job_file::Selection;
use tributary_protocol::model::Model;
use tributary_protocol::seed::Seed;
use tributary_protocol::state::{JobState, Phase, Task};

use super::fleet::Fleet;
use super::learner::{Learner, failed};
use crate::bench::error::BenchError;

/// Work of a client on a version.
#[derive(Clone, Debug)]
struct Work {
    client: usize,
    version: u32,
    model: Arc<Model>,
    seed: Seed,
    /// When it is finished; none if the client dies.
    ends_at_ms: Option<i64>,
    until_ms: i64,
}

/// The open round.
#[derive(Debug)]
struct Open {
    number: u32,
    phase: Phase,
    opened_at_ms: i64,
    deadline_at_ms: Option<i64>,
    reported: u32,
    drawn: u32,
    sum: Accumulator,
}

/// A job that is played.
pub(super) struct Play {
    pub(super) spec: JobSpec,
    pub(super) now_ms: i64,
    /// Updates that counted.
    pub(super) updates: u64,
    /// Sum of their staleness.
    pub(super) staleness: u64,
    /// Of the last evaluated version.
    pub(super) accuracy: f64,
    policy: TaskPolicy,
    fleet: Fleet,
    learner: Learner,
    version: u32,
    model: Arc<Model>,
    work: Vec<Work>,
    /// Of a stale-synchronous job. Members come back at once, so none is missed.
    members: BTreeMap<ClientId, Member>,
    /// Clients that died, and when they are back.
    dead: Vec<(i64, usize)>,
    round: Open,
    /// Versions from one evaluation to the next: about one for each turn of the fleet.
    evaluate_every: u32,
}

impl Play {
    pub(super) fn new(spec: JobSpec, fleet: Fleet, learner: Learner, at_work: u32) -> Result<Self, BenchError> {
        let policy = TaskPolicy::of(&spec.file, Task::Train).expect("every job trains");
        let model = Arc::new(learner.first_model(spec.seed())?);
        let round = Open::new(&spec, 1, 0)?;
        Ok(Self {
            evaluate_every: (at_work / policy.goal).max(1),
            now_ms: 0,
            updates: 0,
            staleness: 0,
            accuracy: 0.0,
            version: 0,
            work: Vec::new(),
            members: BTreeMap::new(),
            dead: Vec::new(),
            spec,
            policy,
            fleet,
            learner,
            model,
            round,
        })
    }

    /// Plays until the next version is there. Returns the accuracy of the last evaluated one.
    pub(super) fn next_version(&mut self) -> Result<f64, BenchError> {
        let version = self.version;
        while self.version == version {
            match self.step() {
                Step::ChooseCohort(clients) => {
                    self.draw(clients);
                    self.round.phase = Phase::Training;
                    self.round.deadline_at_ms = Some(self.now_ms + self.policy.deadline_ms);
                }
                Step::Draw(clients) => self.draw(clients),
                Step::WaitUntil(at_ms) => self.pass(at_ms)?,
                Step::Wait => self.pass(i64::MAX)?,
                Step::Aggregate => self.round.phase = Phase::Aggregating,
                Step::Commit => self.commit()?,
                Step::Abandon(_) | Step::Done => self.open()?,
            }
        }
        if self.version.is_multiple_of(self.evaluate_every) {
            self.accuracy = self.learner.accuracy(&self.model)?;
        }
        Ok(self.accuracy)
    }

    fn step(&self) -> Step {
        let (available, working) = (self.starters().len() as u32, self.work.len() as u32);
        let Open { phase, opened_at_ms, deadline_at_ms, reported, .. } = self.round;
        let job = JobState::Running;
        match self.policy.buffer {
            Some(buffer) => {
                let (has_trained, in_calendar) = (false, true);
                let facts = BufferFacts { phase, job, has_trained, in_calendar, available, working, reported };
                match self.clocks() {
                    Some(clocks) => {
                        next_clocked_step(&self.policy, &buffer, &facts, &clocks, opened_at_ms, self.now_ms)
                    }
                    None => next_buffer_step(&buffer, self.policy.goal, &facts),
                }
            }
            None => {
                let facts = RoundFacts { phase, job, available, working, reported, opened_at_ms, deadline_at_ms };
                next_step(&self.policy, &facts, self.now_ms)
            }
        }
    }

    fn clocks(&self) -> Option<Clocks> {
        Clocks::of(&self.policy.buffer?, self.members.values().copied())
    }

    /// The clients that may begin work.
    fn starters(&self) -> Vec<Candidate> {
        match self.clocks() {
            Some(clocks) if self.round.phase == Phase::Training => clocks.starters(self.idle(), self.draw_seed()),
            _ => self.idle(),
        }
    }

    fn draw_seed(&self) -> Seed {
        let seed = self.spec.seed().derive("train", self.round.number.into());
        seed.derive("draw", self.round.drawn.into())
    }

    /// The clients that wait for work.
    fn idle(&self) -> Vec<Candidate> {
        let is_away = |client: usize| {
            self.work.iter().any(|work| work.client == client) || self.dead.iter().any(|(_, dead)| *dead == client)
        };
        self.fleet.candidates.iter().filter(|candidate| !is_away(candidate.number as usize)).cloned().collect()
    }

    fn draw(&mut self, clients: u32) {
        let seed = self.spec.seed().derive("train", self.round.number.into());
        let draw = self.draw_seed();
        let chosen = choose_cohort(self.starters(), clients as usize, Selection::Uniform, &Known::default(), draw);
        let clocks = self.clocks();
        for Candidate { number, client, .. } in chosen {
            self.round.drawn += 1;
            if let Some(clocks) = &clocks {
                let clock = clocks.entry(client).unwrap_or_default();
                self.members.insert(client, Member { client, clock, is_working: true, missed_at_ms: None });
            }
            let client = number as usize;
            self.work.push(Work {
                client,
                version: self.version,
                model: Arc::clone(&self.model),
                seed: seed.derive("client", self.round.drawn.into()),
                ends_at_ms: self.fleet.work_ms(client).map(|work_ms| self.now_ms + work_ms),
                until_ms: self.now_ms + self.policy.deadline_ms,
            });
        }
    }

    /// Moves the clock to the next event, but not beyond this time.
    fn pass(&mut self, at_ms: i64) -> Result<(), BenchError> {
        let ends_ms = |work: &Work| work.ends_at_ms.unwrap_or(i64::MAX).min(work.until_ms);
        let next_ms = self.work.iter().map(ends_ms).chain(self.dead.iter().map(|(back_ms, _)| *back_ms)).min();
        self.now_ms = next_ms.unwrap_or(at_ms).min(at_ms);
        let now_ms = self.now_ms;
        self.dead.retain(|(back_ms, _)| *back_ms > now_ms);
        // One report at a time: the round may close with it.
        if let Some(place) = self.work.iter().position(|work| work.ends_at_ms.is_some_and(|ends_ms| ends_ms <= now_ms))
        {
            let work = self.work.remove(place);
            self.report(&work)?;
        }
        if self.policy.buffer.is_some() {
            for work in self.work.extract_if(.., |work| work.until_ms <= now_ms) {
                self.members.remove(&self.fleet.candidates[work.client].client);
            }
        }
        Ok(())
    }

    fn report(&mut self, work: &Work) -> Result<(), BenchError> {
        let update = self.learner.update(work.client, &work.model, work.version, work.seed)?;
        let behind = staleness(work.version, self.version);
        let share = self.spec.discount().share(Weighing::Examples, Weight::examples(update.examples), behind);
        self.round.sum.add(0, &update.delta, share.weight);
        self.round.sum.count(Contribution { weight: share.divisor, updates: 1 }).map_err(failed)?;
        if let Some(member) = self.members.get_mut(&self.fleet.candidates[work.client].client) {
            (member.clock, member.is_working) = (member.clock + 1, false);
        }
        self.round.reported += 1;
        self.updates += 1;
        self.staleness += u64::from(behind);
        Ok(())
    }

    fn commit(&mut self) -> Result<(), BenchError> {
        let total = self.spec.model.total();
        let optimizer = self.spec.optimizer(self.version, self.round.reported);
        let steps = step(&*optimizer, &self.round.sum, 0..total, &mut []).map_err(failed)?;
        let values = advance(self.model.values(), &steps, 0).map_err(failed)?;
        self.model = Arc::new(Model::new(Arc::clone(&self.spec.model), values).map_err(failed)?);
        self.version += 1;
        self.open()
    }

    /// Opens the next round. Stragglers of a cohort stop; clients of a buffer go on, unless they became too stale.
    fn open(&mut self) -> Result<(), BenchError> {
        self.round = Open::new(&self.spec, self.round.number + 1, self.now_ms)?;
        match self.policy.buffer {
            Some(buffer) => {
                let selects = buffer.slack.is_some() && self.members.is_empty();
                self.round.phase = if selects { Phase::Selecting } else { Phase::Training };
                let newest = self.version;
                self.work.retain(|work| !buffer.is_too_stale(work.version, newest));
            }
            None => {
                let stragglers = std::mem::take(&mut self.work).into_iter();
                self.dead.extend(
                    stragglers.filter_map(|work| work.ends_at_ms.is_none().then_some((work.until_ms, work.client))),
                );
                let now_ms = self.now_ms;
                self.dead.retain(|(back_ms, _)| *back_ms > now_ms);
            }
        }
        Ok(())
    }
}

impl Open {
    fn new(spec: &JobSpec, number: u32, opened_at_ms: i64) -> Result<Self, BenchError> {
        let mode = spec.file.round.mode;
        let is_buffer = mode.buffered().is_some() && mode.slack().is_none();
        Ok(Self {
            number,
            phase: if is_buffer { Phase::Training } else { Phase::Selecting },
            opened_at_ms,
            deadline_at_ms: None,
            reported: 0,
            drawn: 0,
            sum: Accumulator::new(spec.update.total(), spec.caps).map_err(failed)?,
        })
    }
}
