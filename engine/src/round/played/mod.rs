//! Jobs that are played in memory by what [`decide`] says, for tests.

mod buffered;
mod cohorts;
mod members;

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_protocol::id::ClientId;
use tributary_protocol::job_file::JobFile;
use tributary_protocol::seed::Seed;
use tributary_protocol::state::{AbandonReason, JobState, Phase, Task};

use super::candidate::Candidate;
use super::clocks::Clocks;
use super::decide::{Act, Decision, decide};
use super::known::fixture::candidate;
use super::member::Member;
use super::opening::{History, opening};
use super::policy::{TaskPolicy, Tempo, staleness};
use super::step::Step;
use super::view::{Budget, Context, Descriptions, FixedModels, JobFacts, JobView, OpenRound, OpenWork, Source};

/// A job file with these tables.
pub(super) fn job_file(tables: &str) -> JobFile {
    let text = format!(
        "name = 'j'\npopulation = 'p'\nseed = 5\nmodel = {{ parameters = [{{ name = 'w', shape = [1] }}] }}\n\
         training = {{ epochs = 1, optimizer = {{ kind = 'sgd', learning_rate = 1.0 }} }}\n{tables}"
    );
    JobFile::parse(&text).unwrap()
}

/// The facts of a job that has just begun.
pub(super) const FRESH: JobFacts = JobFacts {
    state: JobState::Running,
    rounds_opened: 0,
    rounds_committed: 0,
    abandoned_in_a_row: 0,
    descriptions: Descriptions { opened: 0, last_ended_at_ms: None },
    last_ended_at_ms: None,
    last_committed_round: None,
    last_committed_evaluated: false,
    fixed: FixedModels { models: 0, opened: 0 },
    accuracy: None,
    metric: None,
    budget: Budget::Free,
};

/// An open training round with this policy in this phase.
pub(super) fn round(policy: TaskPolicy, phase: Phase) -> OpenRound {
    OpenRound {
        task: Task::Train,
        number: 1,
        policy,
        phase,
        seed: Seed(1),
        opened_at_ms: 0,
        deadline_at_ms: None,
        working: 0,
        reported: 0,
        drawn: 0,
        awaited: 0,
        open_groups: None,
        source: Source::Clients { eligible: Vec::new(), reports: Vec::new() },
    }
}

/// A running job that has more to train.
pub(super) fn context(file: &JobFile) -> Context<'_> {
    Context { file, job: JobState::Running, has_trained: false, in_calendar: true, now_ms: 0 }
}

pub(super) fn client(number: usize) -> ClientId {
    candidate(number as u64).client
}

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    Waiting,
    Working,
    /// Neither at work nor waiting.
    Away,
}

/// An open assignment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    pub(super) client: usize,
    task: Task,
    round: u32,
    base: u32,
    began_at_ms: i64,
    /// Its own deadline; none in a cohort.
    deadline_at_ms: Option<i64>,
}

/// A round that has ended.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub(super) task: Task,
    pub(super) phase: Phase,
    pub(super) reason: Option<AbandonReason>,
    pub(super) reported: u32,
    /// Who reported.
    pub(super) clients: Vec<usize>,
}

/// A job, its clients, and what has happened.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) file: JobFile,
    pub(super) facts: JobFacts,
    pub(super) rounds: Vec<OpenRound>,
    pub(super) work: Vec<Work>,
    pub(super) members: BTreeMap<ClientId, Member>,
    pub(super) clients: Vec<Presence>,
    pub(super) version: u32,
    pub(super) now_ms: i64,
    pub(super) ended: Vec<Ended>,
    /// Clients that reported in each open round, by task and number.
    reports: BTreeMap<(Task, u32), Vec<usize>>,
    /// Staleness of each update that counts.
    pub(super) counted: Vec<u32>,
    pub(super) draws: u32,
    /// The largest clock of a member less the smallest, whenever one changed.
    pub(super) spread_max: u32,
}

impl Job {
    /// A job whose clients wait.
    pub(super) fn new(tables: &str, clients: usize) -> Self {
        Self {
            file: job_file(tables),
            facts: FRESH,
            rounds: Vec::new(),
            work: Vec::new(),
            members: BTreeMap::new(),
            clients: vec![Presence::Waiting; clients],
            version: 0,
            now_ms: 0,
            ended: Vec::new(),
            reports: BTreeMap::new(),
            counted: Vec::new(),
            draws: 0,
            spread_max: 0,
        }
    }

    pub(super) fn training(&self) -> Option<&OpenRound> {
        self.rounds.iter().find(|round| round.task == Task::Train)
    }

    fn eligible(&self) -> Vec<Arc<Candidate>> {
        let waits = |number: &usize| self.clients[*number] == Presence::Waiting;
        (0..self.clients.len()).filter(waits).map(|number| candidate(number as u64)).collect()
    }

    fn open_work(&self) -> Option<OpenWork> {
        let own = || self.work.iter().filter_map(|work| Some((work.deadline_at_ms?, work.began_at_ms)));
        Some(OpenWork {
            ends_at_ms: own().map(|(ends_at_ms, _)| ends_at_ms).min()?,
            begins_at_ms: own().map(|(ends_at_ms, began_at_ms)| 2 * began_at_ms - ends_at_ms).max()?,
        })
    }

    pub(super) fn decision(&mut self) -> Decision {
        let eligible = self.eligible();
        for round in &mut self.rounds {
            let reported = self.reports.get(&(round.task, round.number)).map_or(&[][..], Vec::as_slice);
            if let Tempo::Panel { expected, .. } = round.policy.tempo {
                round.awaited = expected.saturating_sub(round.drawn);
            }
            let is_new = |candidate: &Arc<Candidate>| !reported.contains(&(candidate.number as usize));
            round.source = match round.policy.tempo {
                Tempo::Coordinator => Source::Coordinator { has_test_set: false, is_under_way: false },
                Tempo::Panel { .. } => {
                    let eligible = eligible.iter().filter(|candidate| is_new(candidate)).cloned().collect();
                    Source::Clients { eligible, reports: Vec::new() }
                }
                _ => Source::Clients { eligible: eligible.clone(), reports: Vec::new() },
            };
        }
        let members: Vec<Member> = self.members.values().copied().collect();
        let work = self.open_work();
        let Self { file, facts, rounds, .. } = self;
        decide(&JobView { file, calendar: None, code: None, facts, rounds, work, members: &members }, self.now_ms)
    }

    /// Moves the job as far as it goes. Returns the time before which nothing is due.
    pub(super) fn drive(&mut self) -> Option<i64> {
        for _ in 0..10_000 {
            match self.decision() {
                Decision::Act(act) => self.perform(act),
                Decision::Wait { until_ms, .. } => {
                    assert!(until_ms.is_none_or(|at_ms| at_ms > self.now_ms), "a wait ends in the future");
                    return until_ms;
                }
                Decision::Ended => return None,
            }
        }
        panic!("the job never comes to rest: {self:?}");
    }

    fn perform(&mut self, act: Act) {
        match act {
            Act::Round(place, step) => self.step(place, step),
            Act::Open(task, number) => self.open(task, number),
            Act::Complete => self.facts.state = JobState::Completed,
            Act::ExpireOverdue => {
                let now_ms = self.now_ms;
                self.expire(|work| work.deadline_at_ms.is_some_and(|at_ms| at_ms <= now_ms));
            }
            Act::ExpireLeft => self.expire(|work| work.deadline_at_ms.is_some()),
            Act::Miss(clients) => {
                for client in clients {
                    self.members.get_mut(&client).unwrap().missed_at_ms = Some(self.now_ms);
                }
            }
            Act::Dismiss(clients) => self.members.retain(|client, _| !clients.contains(client)),
        }
    }

    fn step(&mut self, place: usize, step: Step) {
        let round = &mut self.rounds[place];
        let (task, number) = (round.task, round.number);
        match step {
            Step::Draw(clients) => self.draw(place, &clients),
            Step::Close => {
                assert_eq!(round.phase, Phase::Training);
                round.phase = Phase::Aggregating;
                if !round.policy.tempo.is_buffer() {
                    self.expire(|work| (work.task, work.round) == (task, number));
                }
            }
            Step::Commit => {
                assert_eq!(round.phase, Phase::Aggregating);
                if task == Task::Train {
                    self.version += 1;
                    self.facts.rounds_committed += 1;
                    self.facts.abandoned_in_a_row = 0;
                    self.facts.last_committed_round = Some(number);
                    self.facts.last_committed_evaluated = false;
                }
                self.end(place, Phase::Committed, None);
            }
            Step::Abandon(reason) => {
                self.facts.abandoned_in_a_row += u32::from(task == Task::Train);
                self.end(place, Phase::Abandoned, Some(reason));
            }
            Step::Evaluate => panic!("no round here is evaluated by the coordinator"),
        }
    }

    fn draw(&mut self, place: usize, clients: &[Arc<Candidate>]) {
        let clocks = self.clocks();
        let round = &mut self.rounds[place];
        let is_first = round.phase == Phase::Selecting;
        round.phase = Phase::Training;
        let is_buffer = round.policy.tempo.is_buffer();
        let ends_at_ms = self.now_ms + round.policy.deadline_ms;
        if is_buffer || matches!(round.policy.tempo, Tempo::Panel { .. }) {
            round.drawn += clients.len() as u32;
        }
        if !is_buffer && is_first {
            round.deadline_at_ms = Some(ends_at_ms);
        }
        round.working += clients.len() as u32;
        let (task, number) = (round.task, round.number);
        self.draws += clients.len() as u32;
        for candidate in clients {
            let number_of_client = candidate.number as usize;
            assert_eq!(self.clients[number_of_client], Presence::Waiting, "only who waits is drawn");
            self.clients[number_of_client] = Presence::Working;
            self.work.push(Work {
                client: number_of_client,
                task,
                round: number,
                base: self.version,
                began_at_ms: self.now_ms,
                deadline_at_ms: is_buffer.then_some(ends_at_ms),
            });
            if let Some(clocks) = &clocks {
                let clock = if is_first { 0 } else { clocks.entry(candidate.client).expect("it may begin") };
                let member = Member { client: candidate.client, clock, is_working: true, missed_at_ms: None };
                self.members.insert(candidate.client, member);
            }
        }
        self.note_spread();
    }

    pub(super) fn clocks(&self) -> Option<Clocks> {
        match self.training()?.policy.tempo {
            Tempo::Members { members_max, slack } => {
                Some(Clocks::new(members_max, slack, self.members.values().copied()))
            }
            _ => None,
        }
    }

    fn note_spread(&mut self) {
        let clocks = || self.members.values().map(|member| member.clock);
        self.spread_max = self.spread_max.max(clocks().max().unwrap_or(0) - clocks().min().unwrap_or(0));
    }

    fn end(&mut self, place: usize, phase: Phase, reason: Option<AbandonReason>) {
        let round = self.rounds.remove(place);
        let (task, number) = (round.task, round.number);
        if task == Task::Train {
            self.facts.last_ended_at_ms = Some(self.now_ms);
        }
        if !round.policy.tempo.is_buffer() || reason.is_some() {
            self.expire(|work| (work.task, work.round) == (task, number));
        }
        self.ended.push(Ended {
            task,
            phase,
            reason,
            reported: round.reported,
            clients: self.reports.remove(&(task, number)).unwrap_or_default(),
        });
    }

    fn open(&mut self, task: Task, number: u32) {
        let opening = opening(&self.file, task, number, &History::default()).expect("the job has such rounds");
        let mut round = OpenRound {
            task,
            number,
            seed: opening.seed,
            opened_at_ms: self.now_ms,
            ..round(opening.policy, Phase::Selecting)
        };
        if task == Task::Train {
            assert_eq!(number, self.facts.rounds_opened + 1);
            self.facts.rounds_opened = number;
        } else {
            self.facts.last_committed_evaluated |= self.facts.last_committed_round == Some(number);
        }
        let selects = matches!(round.policy.tempo, Tempo::Members { .. }) && self.members.is_empty();
        if round.policy.tempo.is_buffer() && !selects {
            let (tempo, newest) = (round.policy.tempo, self.version);
            self.expire(|work| tempo.is_too_stale(work.base, newest));
            self.work.iter_mut().for_each(|work| work.round = number);
            (round.phase, round.working) = (Phase::Training, self.work.len() as u32);
        }
        self.rounds.push(round);
    }

    /// Ends work without a report: its client goes away.
    fn expire(&mut self, is_over: impl Fn(&Work) -> bool) {
        for work in self.work.extract_if(.., |work| is_over(work)) {
            self.clients[work.client] = Presence::Away;
            if work.deadline_at_ms.is_some() {
                self.members.remove(&client(work.client));
            }
            let is_its = |round: &&mut OpenRound| (round.task, round.number) == (work.task, work.round);
            if let Some(round) = self.rounds.iter_mut().find(is_its) {
                round.working -= 1;
            }
        }
    }

    /// The report of a client arrives. Returns whether it is accepted; then the client does `then` next.
    pub(super) fn report(&mut self, number: usize, then: Presence) -> bool {
        let Some(at) = self.work.iter().position(|work| work.client == number) else { return false };
        let Work { task, round: of, base, .. } = self.work[at];
        let is_its = |round: &&mut OpenRound| (round.task, round.number) == (task, of);
        let Some(round) = self.rounds.iter_mut().find(is_its).filter(|round| round.phase == Phase::Training) else {
            return false;
        };
        (round.working, round.reported) = (round.working - 1, round.reported + 1);
        self.work.remove(at);
        self.clients[number] = then;
        self.counted.push(staleness(base, self.version));
        self.reports.entry((task, of)).or_default().push(number);
        if let Some(member) = self.members.get_mut(&client(number)) {
            (member.clock, member.is_working) = (member.clock + 1, false);
        }
        self.note_spread();
        true
    }

    /// A client gives up its work.
    pub(super) fn fail(&mut self, number: usize) {
        self.expire(|work| work.client == number);
    }

    /// Who is away waits again.
    pub(super) fn all_return(&mut self) {
        let away = self.clients.iter_mut().filter(|presence| **presence == Presence::Away);
        away.for_each(|presence| *presence = Presence::Waiting);
    }
}
