use proptest::prelude::*;
use tributary_protocol::device::Attributes;
use tributary_protocol::state::AbandonReason;

use super::*;

const LENGTH_MS: i64 = 100;

fn client(number: usize) -> ClientId {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&(number as u64).to_le_bytes());
    ClientId::from_random(bytes)
}

fn candidate(number: usize) -> Candidate {
    let client = client(number);
    let (attributes, codecs) = (Attributes::default(), vec![]);
    Candidate { client, number: number as u64, attributes, examples: 1, codecs, last_round: None }
}

fn policy(members: u32, slack: u32) -> TaskPolicy {
    TaskPolicy {
        goal: members,
        minimum: 1,
        cohort_size: members,
        available_min: members,
        selection_timeout_ms: LENGTH_MS,
        deadline_ms: LENGTH_MS,
        buffer: Some(BufferPolicy { concurrency: members, staleness_max: u32::MAX, slack: Some(slack) }),
        adapted: None,
        adapted_goal: None,
        proximal: None,
        clip_norm: None,
    }
}

fn member(number: usize, clock: u32, is_working: bool) -> Member {
    Member { client: client(number), clock, is_working, missed_at_ms: None }
}

fn clocks(members_max: u32, slack: u32, members: &[Member]) -> Clocks {
    Clocks::of(&policy(members_max, slack).buffer.unwrap(), members.iter().copied()).unwrap()
}

#[test]
fn nobody_begins_who_is_too_far_ahead_and_newcomers_join_at_the_fastest_clock() {
    let four = clocks(4, 1, &[member(0, 3, true), member(1, 4, false), member(2, 5, false)]);
    assert_eq!([0, 1, 2, 9].map(|number| four.entry(client(number))), [None, Some(4), None, None]);
    let even = clocks(4, 1, &[member(0, 4, true), member(1, 5, false)]);
    assert_eq!([1, 8, 9].map(|number| even.entry(client(number))), [Some(5); 3]);
    let full = clocks(2, 1, &[member(0, 4, true), member(1, 5, false)]);
    assert_eq!([1, 9].map(|number| full.entry(client(number))), [Some(5), None], "every place is taken");
    let starters = |clocks: &Clocks, eligible: &[usize]| {
        let eligible = eligible.iter().map(|number| candidate(*number)).collect();
        clocks.starters(eligible, Seed(1)).into_iter().map(|starter| starter.number).collect::<Vec<_>>()
    };
    assert_eq!(starters(&four, &[1, 2, 9]), [1]);
    let drawn = starters(&even, &[1, 5, 6, 7, 8, 9]);
    assert_eq!((drawn.len(), drawn[0]), (3, 1), "two of the five newcomers: {drawn:?}");
    assert_eq!(starters(&clocks(3, 0, &[]), &[3, 5]), [3, 5]);
}

#[test]
fn a_member_that_stays_away_is_missed_and_then_leaves() {
    let away = |missed_at_ms| Member { missed_at_ms, ..member(1, 4, false) };
    // Client 2 is ahead: it may stay away as long as it could not begin.
    let of = |missed_at_ms| clocks(4, 0, &[member(0, 4, true), away(missed_at_ms), member(2, 5, false)]);
    let absence = |clocks: &Clocks, now_ms| clocks.absence(LENGTH_MS, now_ms);
    assert_eq!(absence(&of(None), 7), Absence::Miss(vec![client(1)]));
    assert_eq!(absence(&of(Some(7)), 106), Absence::Until(Some(107)));
    assert_eq!(absence(&of(Some(7)), 107), Absence::Leave(vec![client(1)]));
}

#[test]
fn a_sum_closes_with_as_many_updates_as_there_are_members() {
    let policy = policy(3, 1);
    let buffer = policy.buffer.unwrap();
    let two = clocks(3, 1, &[member(0, 4, true), member(1, 5, false)]);
    let open = BufferFacts {
        phase: Phase::Training,
        job: JobState::Running,
        has_trained: false,
        in_calendar: true,
        available: 1,
        working: 1,
        reported: 1,
    };
    let step = |facts: &BufferFacts, now_ms| next_clocked_step(&policy, &buffer, facts, &two, 0, now_ms);
    assert_eq!(step(&open, 0), Step::Draw(1));
    assert_eq!(step(&BufferFacts { reported: 2, ..open }, 0), Step::Aggregate, "before anybody begins again");
    assert_eq!(step(&BufferFacts { available: 0, ..open }, 0), Step::Wait);
    let selecting = BufferFacts { phase: Phase::Selecting, reported: 0, working: 0, ..open };
    assert_eq!(step(&BufferFacts { available: 3, ..selecting }, 0), Step::ChooseCohort(3));
    assert_eq!(step(&selecting, 99), Step::WaitUntil(100));
    assert_eq!(step(&selecting, 100), Step::ChooseCohort(3), "with those who came");
    assert_eq!(step(&BufferFacts { job: JobState::Paused, ..selecting }, 100), Step::Wait);
    let stopped = BufferFacts { job: JobState::Stopped, ..selecting };
    assert_eq!(step(&stopped, 0), Step::Abandon(AbandonReason::JobStopped));
    assert!(Clocks::of(&BufferPolicy { slack: None, ..buffer }, []).is_none());
}

/// A client of the simulated job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    /// At work on this base version until its deadline.
    Working(u32, i64),
    /// Away, and not waiting.
    Away,
}

/// A job as a driver would play it.
#[derive(Debug)]
struct Job {
    policy: TaskPolicy,
    phase: Phase,
    state: JobState,
    version: u32,
    reported: u32,
    drawn: u32,
    opened_at_ms: i64,
    now_ms: i64,
    members: BTreeMap<ClientId, Member>,
    clients: Vec<State>,
    /// Updates of each version, by client.
    versions: Vec<Vec<usize>>,
    open: Vec<usize>,
    staleness_max: u32,
    rounds_abandoned: u32,
}

impl Job {
    fn new(policy: TaskPolicy, clients: usize) -> Self {
        Self {
            policy,
            phase: Phase::Selecting,
            state: JobState::Running,
            version: 0,
            reported: 0,
            drawn: 0,
            opened_at_ms: 0,
            now_ms: 0,
            members: BTreeMap::new(),
            clients: vec![State::Waiting; clients],
            versions: vec![],
            open: vec![],
            staleness_max: 0,
            rounds_abandoned: 0,
        }
    }

    fn clocks(&self) -> Clocks {
        Clocks::of(&self.policy.buffer.unwrap(), self.members.values().copied()).unwrap()
    }

    fn waiting(&self) -> Vec<Candidate> {
        let waits = |number: &usize| self.clients[*number] == State::Waiting;
        (0..self.clients.len()).filter(waits).map(candidate).collect()
    }

    fn working(&self) -> u32 {
        self.clients.iter().filter(|state| matches!(state, State::Working(..))).count() as u32
    }

    /// The bound of the paper, whenever it is asked for.
    fn spread(&self) -> u32 {
        self.clocks().fastest() - self.clocks().slowest()
    }

    fn expire(&mut self) {
        for number in 0..self.clients.len() {
            if let State::Working(_, until_ms) = self.clients[number]
                && until_ms <= self.now_ms
            {
                self.clients[number] = State::Away;
                self.members.remove(&client(number));
            }
        }
    }

    fn begin(&mut self, starters: Vec<Candidate>) {
        let clocks = self.clocks();
        for starter in starters {
            let clock = match self.phase {
                Phase::Selecting => 0,
                _ => clocks.entry(starter.client).expect("it may begin"),
            };
            let number = starter.number as usize;
            self.clients[number] = State::Working(self.version, self.now_ms + LENGTH_MS);
            self.members.insert(starter.client, Member { clock, ..member(number, 0, true) });
            self.drawn += 1;
        }
        self.phase = Phase::Training;
    }

    fn open(&mut self) {
        self.phase = if self.members.is_empty() { Phase::Selecting } else { Phase::Training };
        (self.reported, self.opened_at_ms) = (0, self.now_ms);
        self.open.clear();
    }

    /// Moves the job as far as it goes.
    fn drive(&mut self) {
        loop {
            self.expire();
            let clocks = self.clocks();
            let seed = Seed(self.drawn.into());
            let eligible = match self.phase {
                Phase::Training => clocks.starters(self.waiting(), seed),
                _ => self.waiting(),
            };
            let facts = BufferFacts {
                phase: self.phase,
                job: self.state,
                has_trained: false,
                in_calendar: true,
                available: eligible.len() as u32,
                working: self.working(),
                reported: self.reported,
            };
            let buffer = self.policy.buffer.unwrap();
            match next_clocked_step(&self.policy, &buffer, &facts, &clocks, self.opened_at_ms, self.now_ms) {
                Step::ChooseCohort(size) => {
                    let cohort = choose_cohort(eligible, size as usize, Selection::Uniform, &Known::default(), seed);
                    self.begin(cohort);
                }
                Step::Draw(clients) => {
                    assert_eq!(clients as usize, eligible.len(), "there is a place for every starter");
                    self.begin(eligible);
                }
                Step::Aggregate => self.phase = Phase::Aggregating,
                Step::Commit => {
                    self.versions.push(self.open.clone());
                    self.version += 1;
                    self.open();
                }
                Step::Abandon(AbandonReason::SelectionTimeout) => {
                    self.rounds_abandoned += 1;
                    self.open();
                }
                Step::Abandon(_) => self.phase = Phase::Abandoned,
                Step::Wait if self.state == JobState::Running => match clocks.absence(LENGTH_MS, self.now_ms) {
                    Absence::Miss(clients) => {
                        for client in clients {
                            self.members.get_mut(&client).unwrap().missed_at_ms = Some(self.now_ms);
                        }
                    }
                    Absence::Leave(clients) => self.members.retain(|client, _| !clients.contains(client)),
                    Absence::Until(_) => return,
                },
                Step::Wait | Step::WaitUntil(_) | Step::Done => return,
            }
        }
    }

    /// The update of a client at work arrives.
    fn report(&mut self, number: usize, back: State) {
        let State::Working(base, _) = self.clients[number] else { return };
        if self.phase == Phase::Training {
            let member = self.members.get_mut(&client(number)).unwrap();
            (member.clock, member.is_working) = (member.clock + 1, false);
            self.reported += 1;
            self.open.push(number);
            self.staleness_max = self.staleness_max.max(self.version - base);
            self.clients[number] = back;
        }
    }
}

/// Events that may occur between two steps.
#[derive(Clone, Debug)]
enum World {
    Wait(i64),
    Report(usize),
    /// A client reports and does not come back for a while.
    ReportAndGo(usize),
    /// A client that waited goes away.
    Go(usize),
    /// A client that was away waits again.
    Return(usize),
}

fn world() -> impl Strategy<Value = World> {
    let client = 0usize..8;
    prop_oneof![
        2 => (1i64..60).prop_map(World::Wait),
        8 => client.clone().prop_map(World::Report),
        1 => client.clone().prop_map(World::ReportAndGo),
        1 => client.clone().prop_map(World::Go),
        2 => client.prop_map(World::Return),
    ]
}

proptest! {
    /// Goal: nobody is more than `slack + 1` ahead at any instant, nobody counts twice, a slack of 0 gives each
    /// version one update of each client, a silent member holds up the others for no longer than its time, and a
    /// stopped job ends.
    /// Method: a driver that asks `next_clocked_step` plays random events; then all clients but the silent ones
    /// work on.
    #[test]
    fn a_stale_synchronous_job_keeps_its_bounds(
        events in prop::collection::vec(world(), 0..160),
        places in 1u32..6, slack in 0u32..4, clients in 1usize..8, silent in 0usize..8,
    ) {
        let mut job = Job::new(policy(places, slack), clients);
        job.drive();
        for event in events {
            match event {
                World::Wait(ms) => job.now_ms += ms,
                World::Report(number) => job.report(number % clients, State::Waiting),
                World::ReportAndGo(number) => job.report(number % clients, State::Away),
                World::Go(number) if job.clients[number % clients] == State::Waiting => {
                    job.clients[number % clients] = State::Away;
                }
                World::Return(number) if job.clients[number % clients] == State::Away => {
                    job.clients[number % clients] = State::Waiting;
                }
                World::Go(_) | World::Return(_) => {}
            }
            prop_assert!(job.spread() <= slack + 1, "{job:?}");
            job.drive();
            prop_assert!(job.spread() <= slack + 1, "{job:?}");
            prop_assert!(job.members.len() as u32 <= places && job.working() <= places);
            let counted: usize = job.versions.iter().map(Vec::len).sum();
            prop_assert!(counted as u32 + job.reported + job.working() <= job.drawn, "each work counts once");
            for version in &job.versions {
                prop_assert!(!version.is_empty() && version.len() as u32 <= places);
                let mut clients = version.clone();
                clients.sort_unstable();
                clients.dedup();
                prop_assert!(slack > 0 || clients.len() == version.len(), "a slack of 0: {version:?}");
            }
            prop_assert!(slack > 0 || job.staleness_max == 0);
        }
        let version = job.version;
        for _ in 0..40 {
            job.now_ms += LENGTH_MS / 4;
            for number in 0..clients {
                if number != silent || clients == 1 {
                    if job.clients[number] == State::Away {
                        job.clients[number] = State::Waiting;
                    }
                    job.report(number, State::Waiting);
                    job.drive();
                }
            }
            job.drive();
        }
        prop_assert!(job.version >= version + 2, "the others go on: {job:?}");
        job.state = JobState::Stopped;
        job.drive();
        prop_assert!(!job.phase.is_open());
    }
}

/// Goal: a fast member runs ahead by the slack, waits, and is released by the very update that lifts the bound.
#[test]
fn a_blocked_member_begins_with_the_update_that_lifts_the_bound() {
    let mut job = Job::new(policy(2, 2), 2);
    job.drive();
    for _ in 0..3 {
        job.report(0, State::Waiting);
        job.drive();
    }
    assert_eq!((job.clients[0], job.spread(), job.version), (State::Waiting, 3, 1));
    job.report(1, State::Waiting);
    assert_eq!(job.clients[0], State::Waiting);
    job.drive();
    assert!(matches!(job.clients[0], State::Working(2, _)), "{job:?}");
    assert_eq!((job.spread(), job.version), (2, 2));
}
