//! A job in memory: its facts, its open round, work and members, and the acts that change them.

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_engine::job::JobSpec;
use tributary_engine::round::{
    Act, Budget, Candidate, Clocks, Decision, Descriptions, EligibilityRules, FixedModels, JobFacts, JobView, Lookback,
    Member, OpenRound, OpenWork, Source, Step, TaskPolicy, Tempo, Term, WorkEnd, admit, admit_to_buffer, decide,
    opening, staleness,
};
use tributary_protocol::id::ClientId;
use tributary_protocol::model::Model;
use tributary_protocol::seed::Seed;
use tributary_protocol::state::{JobState, Phase, Task};
use tributary_protocol::update::UpdateLimits;

use crate::error::SimulationError;
use crate::fleet::client_id;
use crate::learner::{Learner, Training};
use crate::past::{Past, PastRound};
use crate::private::Private;
use crate::travel::travelled;
use crate::updates::{Update, Updates};
use crate::version::Version;

/// Work of a client on a version.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    pub(crate) began_at_ms: i64,
    /// When it would end without a report.
    pub(crate) until_ms: i64,
    base_version: u32,
    base: Arc<Model>,
    term: Term,
    seed: Seed,
    /// Policy of the round in which the client was drawn.
    policy: TaskPolicy,
}

/// The open training round with its updates.
struct Open {
    round: OpenRound,
    /// The number of updates of each client.
    counted: BTreeMap<ClientId, u32>,
    norm_max: Option<f64>,
    updates: Updates,
}

pub(crate) struct Job {
    pub(crate) spec: Arc<JobSpec>,
    pub(crate) version: Version,
    /// Updates that counted, and the sum of their staleness.
    pub(crate) updates: u64,
    /// Of the bodies of updates.
    pub(crate) bytes: u64,
    pub(crate) staleness: u64,
    facts: JobFacts,
    open: Option<Open>,
    /// The open work of each client at work.
    pub(crate) works: BTreeMap<usize, Work>,
    members: BTreeMap<ClientId, Member>,
    last_rounds: BTreeMap<usize, u32>,
    private: Private,
    past: Past,
}

/// What became of clients while the job was driven.
#[derive(Debug, Default)]
pub(crate) struct Changed {
    /// They begin work.
    pub(crate) drawn: Vec<usize>,
    /// Their work ended without a report.
    pub(crate) expired: Vec<usize>,
}

impl Job {
    pub(crate) fn new(mut spec: JobSpec) -> Result<Self, SimulationError> {
        // Every simulated client has the example set that the job names.
        spec.file.data = None;
        if spec.plan.goes_back() {
            return Err(SimulationError::Unsupported("an algorithm or codec that keeps state on devices"));
        }
        if spec.optimizer(0, 0).survey().is_some() || spec.gathering(0).centre().is_some() {
            return Err(SimulationError::Unsupported("a rule that looks at earlier rounds"));
        }
        Ok(Self {
            version: Version::first(&spec)?,
            spec: Arc::new(spec),
            updates: 0,
            bytes: 0,
            staleness: 0,
            facts: JobFacts {
                state: JobState::Running,
                rounds_opened: 0,
                rounds_committed: 0,
                abandoned_in_a_row: 0,
                descriptions: Descriptions::default(),
                last_ended_at_ms: None,
                last_committed_round: None,
                last_committed_evaluated: false,
                fixed: FixedModels::default(),
                accuracy: None,
                metric: None,
                budget: Budget::Free,
            },
            open: None,
            works: BTreeMap::new(),
            members: BTreeMap::new(),
            last_rounds: BTreeMap::new(),
            private: Private::default(),
            past: Past::default(),
        })
    }

    /// Does what is due while these clients wait. Returns the time before which nothing more is.
    pub(crate) fn drive(
        &mut self,
        waiting: &mut Vec<Arc<Candidate>>,
        now_ms: i64,
        changed: &mut Changed,
    ) -> Result<Option<i64>, SimulationError> {
        loop {
            match self.decision(waiting, now_ms) {
                Decision::Act(act) => self.perform(act, now_ms, changed)?,
                Decision::Wait { until_ms, .. } => return Ok(until_ms),
                Decision::Ended => return Ok(None),
            }
            waiting.retain(|candidate| !self.works.contains_key(&(candidate.number as usize)));
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.facts.state.is_final() && self.open.is_none()
    }

    fn decision(&mut self, waiting: &[Arc<Candidate>], now_ms: i64) -> Decision {
        if let Some(Open { round, counted, .. }) = &mut self.open {
            let rules =
                EligibilityRules::of(&self.spec.file, self.spec.schema, &self.spec.needs, round.task, round.number);
            let last_round = |candidate: &Candidate| self.last_rounds.get(&(candidate.number as usize)).copied();
            let may_contribute = |client| {
                let private = self.spec.privacy.as_ref();
                private.is_none_or(|terms| self.private.admits(terms, client, self.version.number))
            };
            let mode = self.spec.file.round.mode;
            let reports = |candidate: &Candidate| counted.get(&candidate.client).copied().unwrap_or(0);
            let is_eligible = |candidate: &&Arc<Candidate>| {
                admit(candidate, last_round(candidate), &rules).is_ok()
                    && admit_to_buffer(mode, reports(candidate), 1).is_ok()
                    && may_contribute(candidate.number)
            };
            let eligible = match round.policy.draws(round.phase, round.working) {
                true => waiting.iter().filter(is_eligible).cloned().collect(),
                false => Vec::new(),
            };
            round.source = Source::Clients { eligible, reports: Vec::new() };
        }
        let members: Vec<Member> = self.members.values().copied().collect();
        let view = JobView {
            file: &self.spec.file,
            calendar: self.spec.calendar.as_ref(),
            code: self.spec.code.as_deref(),
            facts: &self.facts,
            rounds: self.open.as_ref().map_or(&[], |open| std::slice::from_ref(&open.round)),
            work: self.open_work(),
            members: &members,
        };
        decide(&view, now_ms)
    }

    fn open_work(&self) -> Option<OpenWork> {
        let own = || {
            self.works.values().filter_map(|work| match work.term {
                Term::Own { deadline_at_ms, .. } => Some((deadline_at_ms, work.began_at_ms)),
                Term::Round => None,
            })
        };
        Some(OpenWork {
            ends_at_ms: own().map(|(ends_at_ms, _)| ends_at_ms).min()?,
            begins_at_ms: own().map(|(ends_at_ms, began_at_ms)| 2 * began_at_ms - ends_at_ms).max()?,
        })
    }

    fn perform(&mut self, act: Act, now_ms: i64, changed: &mut Changed) -> Result<(), SimulationError> {
        match act {
            Act::Open(Task::Train, number) => self.open(number, now_ms, changed)?,
            Act::Round(_, Step::Draw(clients)) => self.draw(&clients, now_ms, changed),
            Act::Round(_, Step::Close) => self.close(now_ms, changed),
            Act::Round(_, Step::Commit) => self.commit(now_ms)?,
            Act::Round(_, Step::Abandon(_)) => self.abandon(now_ms, changed),
            Act::Complete => self.facts.state = JobState::Completed,
            Act::ExpireOverdue => self.expire(|work| work.term.is_over(work.began_at_ms, now_ms), now_ms, changed),
            Act::ExpireLeft => self.expire(|work| work.term.is_own(), now_ms, changed),
            Act::Miss(clients) => {
                for client in clients {
                    if let Some(member) = self.members.get_mut(&client) {
                        member.missed_at_ms = Some(now_ms);
                    }
                }
            }
            Act::Dismiss(clients) => self.members.retain(|client, _| !clients.contains(client)),
            Act::Open(Task::Evaluate, _) | Act::Round(_, Step::Evaluate) => {
                return Err(SimulationError::Unsupported("an evaluation of the job"));
            }
            Act::Open(Task::Describe, _) => {
                return Err(SimulationError::Unsupported("a round that fixes the job's inputs"));
            }
        }
        Ok(())
    }

    fn open(&mut self, number: u32, now_ms: i64, changed: &mut Changed) -> Result<(), SimulationError> {
        let file = &self.spec.file;
        let history = self.past.history(&Lookback::of(file, Task::Train, number), self.facts.abandoned_in_a_row);
        let opening = opening(file, Task::Train, number, &history).expect("every job trains");
        self.facts.rounds_opened = number;
        let (policy, newest) = (opening.policy, self.version.number);
        let mut round = OpenRound {
            task: Task::Train,
            number,
            policy,
            phase: Phase::Selecting,
            seed: opening.seed,
            opened_at_ms: now_ms,
            deadline_at_ms: None,
            working: 0,
            reported: 0,
            drawn: 0,
            awaited: 0,
            open_groups: None,
            source: Source::Clients { eligible: Vec::new(), reports: Vec::new() },
        };
        let selects = matches!(policy.tempo, Tempo::Members { .. }) && self.members.is_empty();
        if policy.tempo.is_buffer() && !selects {
            self.expire(|work| policy.tempo.is_too_stale(work.base_version, newest), now_ms, changed);
            (round.phase, round.working) = (Phase::Training, self.works.len() as u32);
        }
        let spec = self.spec.with_cohort(policy.cohort_size);
        let (counted, updates) = (BTreeMap::new(), Updates::new(&spec)?);
        self.open = Some(Open { round, counted, norm_max: opening.norm_max, updates });
        Ok(())
    }

    fn clocks(&self) -> Option<Clocks> {
        match self.open.as_ref()?.round.policy.tempo {
            Tempo::Members { members_max, slack } => {
                Some(Clocks::new(members_max, slack, self.members.values().copied()))
            }
            Tempo::Cohort | Tempo::Coordinator | Tempo::Panel { .. } | Tempo::Buffer { .. } => None,
        }
    }

    fn draw(&mut self, clients: &[Arc<Candidate>], now_ms: i64, changed: &mut Changed) {
        let clocks = self.clocks();
        let Some(Open { round, .. }) = &mut self.open else { return };
        let ends_at_ms = now_ms + round.policy.deadline_ms;
        round.phase = Phase::Training;
        round.working += clients.len() as u32;
        let is_buffer = round.policy.tempo.is_buffer();
        match is_buffer {
            true => round.drawn += clients.len() as u32,
            false => round.deadline_at_ms = Some(ends_at_ms),
        }
        for candidate in clients {
            let number = candidate.number as usize;
            let seed = Term::Round.seed(round.seed, candidate.number);
            let term = match is_buffer {
                // A client may be drawn again into the same buffer.
                true => Term::Own { deadline_at_ms: ends_at_ms, seed: seed.derive("draw", round.drawn.into()) },
                false => Term::Round,
            };
            self.works.insert(
                number,
                Work {
                    began_at_ms: now_ms,
                    until_ms: ends_at_ms,
                    base_version: self.version.number,
                    base: Arc::clone(&self.version.model),
                    seed: term.seed(round.seed, candidate.number),
                    term,
                    policy: round.policy,
                },
            );
            if let Some(clocks) = &clocks {
                let clock = clocks.entry(candidate.client).unwrap_or_default();
                let member = Member { client: candidate.client, clock, is_working: true, missed_at_ms: None };
                self.members.insert(candidate.client, member);
            }
            self.last_rounds.insert(number, round.number);
            changed.drawn.push(number);
        }
    }

    /// Training to Aggregating: a cohort's work without a report ends.
    fn close(&mut self, now_ms: i64, changed: &mut Changed) {
        if let Some(Open { round, .. }) = &mut self.open {
            round.phase = Phase::Aggregating;
        }
        self.expire(|work| !work.term.is_own(), now_ms, changed);
    }

    fn commit(&mut self, now_ms: i64) -> Result<(), SimulationError> {
        let Some(Open { round, updates, .. }) = self.open.take() else { return Ok(()) };
        let (combined, clip_share) = match &self.spec.privacy {
            None => (updates.combined(&self.spec, &round.policy, self.version.number), None),
            Some(terms) => {
                let of = (round.number, &round.policy, self.version.number);
                let combined = self.private.combined(&self.spec, terms, of, updates.each());
                self.facts.budget = if self.private.is_spent(terms) { Budget::Spent } else { Budget::Free };
                combined
            }
        };
        let made = self.version.advance(&self.spec, combined, updates.count())?;
        self.past.round(PastRound {
            number: round.number,
            policy: round.policy,
            training_loss: updates.loss(),
            norms: updates.norms(),
            clip_share,
            diverse: updates.diverse(made.mean),
        });
        self.facts.rounds_committed += 1;
        self.facts.abandoned_in_a_row = 0;
        self.facts.last_ended_at_ms = Some(now_ms);
        self.facts.last_committed_round = Some(round.number);
        Ok(())
    }

    fn abandon(&mut self, now_ms: i64, changed: &mut Changed) {
        let Some(Open { round, updates, .. }) = self.open.take() else { return };
        let (number, policy, norms) = (round.number, round.policy, updates.norms());
        self.past.round(PastRound { number, policy, training_loss: None, norms, clip_share: None, diverse: None });
        self.facts.abandoned_in_a_row += 1;
        self.facts.last_ended_at_ms = Some(now_ms);
        self.expire(|_| true, now_ms, changed);
    }

    /// Ends work without a report.
    fn expire(&mut self, is_over: impl Fn(&Work) -> bool, now_ms: i64, changed: &mut Changed) {
        for (client, work) in self.works.extract_if(.., |_, work| is_over(work)) {
            if work.term.is_own() {
                self.members.remove(&client_id(client as u64));
            }
            if let Some(Open { round, .. }) = &mut self.open {
                round.working = round.working.saturating_sub(1);
                self.past.work(round.number, now_ms - work.began_at_ms, WorkEnd::Open);
            }
            changed.expired.push(client);
        }
    }

    /// A client has finished its work: trains, and takes the update if its round still does.
    pub(crate) fn report(&mut self, learner: &mut Learner, client: usize, now_ms: i64) -> Result<(), SimulationError> {
        let Some(work) = self.works.remove(&client) else { return Ok(()) };
        let Some(Open { round, counted, norm_max, updates }) = &mut self.open else { return Ok(()) };
        let Work { base_version: version, ref base, ref policy, seed, .. } = work;
        let mut trained = learner.train(&self.spec, &Training { client, base, version, policy, seed })?;
        round.working = round.working.saturating_sub(1);
        let (delta, bytes) = travelled(&self.spec, trained.delta, round.number, seed)?;
        trained.delta = delta;
        self.bytes += bytes;
        let update = Update::from(trained);
        let norm = update.norm();
        let limits = UpdateLimits { norm_max: norm_max.unwrap_or(f64::INFINITY), ..self.spec.update_limits() };
        let id = client_id(client as u64);
        if !limits.allow_norm(norm) {
            self.members.remove(&id);
            self.past.work(round.number, now_ms - work.began_at_ms, WorkEnd::Lost);
            return Ok(());
        }
        self.past.work(round.number, now_ms - work.began_at_ms, WorkEnd::Reported);
        let behind = staleness(version, self.version.number);
        updates.add(&self.spec, update, norm, behind, client as u64)?;
        round.reported += 1;
        *counted.entry(id).or_default() += 1;
        if let Some(member) = self.members.get_mut(&id) {
            (member.clock, member.is_working) = (member.clock + 1, false);
        }
        self.updates += 1;
        self.staleness += u64::from(behind);
        Ok(())
    }
}
