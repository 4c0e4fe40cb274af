//! The rounds of a buffered job: the next step as a function of known facts.
//!
//! A round is the buffer that is being filled. It opens in [`Phase::Training`] and draws clients one by one. An
//! assignment has a base version and a deadline of its own, and moves on to the next round when its round closes before
//! it reports.

use tributary_protocol::state::{AbandonReason, JobState, Phase};

use super::step::{BufferPolicy, Step, is_ahead};

/// The facts that decide the next step of an open buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferFacts {
    pub phase: Phase,
    pub job: JobState,
    /// Whether the job has reached what its `[stop]` asks for.
    pub has_trained: bool,
    /// Whether the job's calendar has this minute.
    pub in_calendar: bool,
    /// Eligible clients that wait now.
    pub available: u32,
    /// Open assignments.
    pub working: u32,
    /// Accepted updates.
    pub reported: u32,
}

/// The next step of a buffer that closes at `goal` updates. It has no deadline of its own: a buffer that nobody fills
/// stays open until clients come or an operator stops the job.
#[must_use]
pub fn next_buffer_step(policy: &BufferPolicy, goal: u32, facts: &BufferFacts) -> Step {
    match facts.phase {
        Phase::Aggregating => Step::Commit,
        Phase::Committed | Phase::Abandoned => Step::Done,
        Phase::Training if facts.reported >= goal => Step::Aggregate,
        Phase::Selecting | Phase::Training if facts.job == JobState::Stopped => {
            Step::Abandon(AbandonReason::JobStopped)
        }
        Phase::Selecting | Phase::Training if facts.has_trained => Step::Abandon(AbandonReason::Superseded),
        Phase::Selecting | Phase::Training => {
            let places = policy.concurrency.saturating_sub(facts.working);
            match places.min(facts.available) {
                clients @ 1.. if facts.job == JobState::Running && facts.in_calendar => Step::Draw(clients),
                _ => Step::Wait,
            }
        }
    }
}

/// Whether the time of an assignment is over. It is too when the clock was set back so far that the end would not come
/// within twice its length.
#[must_use]
pub fn is_overdue(deadline_at_ms: i64, length_ms: i64, now_ms: i64) -> bool {
    !is_ahead(deadline_at_ms, length_ms, now_ms)
}

/// Versions between the base of an update and the version from which the buffer that it counts in starts.
#[must_use]
pub fn staleness(base_version: u32, newest: u32) -> u32 {
    newest.saturating_sub(base_version)
}

impl BufferPolicy {
    /// Whether an update on this version can no longer count once this version is the newest.
    #[must_use]
    pub fn is_too_stale(&self, base_version: u32, newest: u32) -> bool {
        staleness(base_version, newest) > self.staleness_max
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tributary_protocol::seed::Seed;

    use super::*;

    const POLICY: BufferPolicy = BufferPolicy { concurrency: 4, staleness_max: 3, slack: None };

    fn facts(available: u32, working: u32, reported: u32) -> BufferFacts {
        let (phase, job) = (Phase::Training, JobState::Running);
        BufferFacts { phase, job, has_trained: false, in_calendar: true, available, working, reported }
    }

    #[test]
    fn a_buffer_draws_while_there_are_places_and_closes_when_it_is_full() {
        let step = |facts| next_buffer_step(&POLICY, 2, &facts);
        let open = facts(3, 2, 1);
        assert_eq!(step(open), Step::Draw(2));
        assert_eq!(step(BufferFacts { available: 1, ..open }), Step::Draw(1));
        assert_eq!(step(BufferFacts { working: 4, ..open }), Step::Wait);
        assert_eq!(step(BufferFacts { available: 0, ..open }), Step::Wait, "a slow buffer is never abandoned");
        assert_eq!(step(BufferFacts { job: JobState::Paused, ..open }), Step::Wait);
        assert_eq!(step(BufferFacts { in_calendar: false, ..open }), Step::Wait);
        assert_eq!(step(BufferFacts { reported: 2, ..open }), Step::Aggregate);
        let full = BufferFacts { reported: 2, job: JobState::Stopped, has_trained: true, ..open };
        assert_eq!(step(full), Step::Aggregate, "a full buffer always commits");
        assert_eq!(step(BufferFacts { job: JobState::Stopped, ..open }), Step::Abandon(AbandonReason::JobStopped));
        assert_eq!(step(BufferFacts { has_trained: true, ..open }), Step::Abandon(AbandonReason::Superseded));
        assert_eq!(step(BufferFacts { phase: Phase::Aggregating, ..full }), Step::Commit);
        assert_eq!(step(BufferFacts { phase: Phase::Committed, ..full }), Step::Done);
    }

    #[test]
    fn the_time_of_an_assignment_ends_even_when_the_clock_was_set_back() {
        assert!(!is_overdue(1_000, 1_000, 999) && is_overdue(1_000, 1_000, 1_000));
        assert!(!is_overdue(1_000, 1_000, -1_000) && is_overdue(1_000, 1_000, -1_001));
    }

    /// An open assignment of the simulated job.
    #[derive(Clone, Copy, Debug)]
    struct Work {
        client: usize,
        base: u32,
        until_ms: i64,
    }

    /// A job as a driver would play it: what is stored, and what has happened.
    #[derive(Debug)]
    struct Job {
        policy: BufferPolicy,
        goal: u32,
        phase: Phase,
        state: JobState,
        version: u32,
        reported: u32,
        work: Vec<Work>,
        waiting: Vec<usize>,
        now_ms: i64,
        /// Staleness of each update that counts.
        counted: Vec<u32>,
        /// Updates in each version.
        versions: Vec<u32>,
        draws: u32,
    }

    const LENGTH_MS: i64 = 100;

    impl Job {
        fn new(policy: BufferPolicy, goal: u32, clients: usize) -> Self {
            let waiting = (0..clients).collect();
            Self {
                policy,
                goal,
                phase: Phase::Training,
                state: JobState::Running,
                version: 0,
                reported: 0,
                work: vec![],
                waiting,
                now_ms: 0,
                counted: vec![],
                versions: vec![],
                draws: 0,
            }
        }

        fn step(&self) -> Step {
            let available = self.waiting.len() as u32;
            let facts = BufferFacts {
                phase: self.phase,
                job: self.state,
                has_trained: false,
                in_calendar: true,
                available,
                working: self.work.len() as u32,
                reported: self.reported,
            };
            next_buffer_step(&self.policy, self.goal, &facts)
        }

        /// Moves the job as far as it goes.
        fn drive(&mut self) {
            loop {
                let now_ms = self.now_ms;
                self.work.retain(|work| !is_overdue(work.until_ms, LENGTH_MS, now_ms));
                match self.step() {
                    Step::Draw(clients) => {
                        for client in self.waiting.drain(..clients as usize) {
                            self.work.push(Work { client, base: self.version, until_ms: now_ms + LENGTH_MS });
                            self.draws += 1;
                        }
                    }
                    Step::Aggregate => self.phase = Phase::Aggregating,
                    Step::Commit => {
                        self.versions.push(self.reported);
                        self.version += 1;
                        (self.phase, self.reported) = (Phase::Training, 0);
                        let (policy, newest) = (self.policy, self.version);
                        self.work.retain(|work| !policy.is_too_stale(work.base, newest));
                    }
                    Step::Abandon(_) => self.phase = Phase::Abandoned,
                    Step::Wait | Step::Done => return,
                    step => panic!("{step:?} is no step of a buffer"),
                }
            }
        }

        /// The update of this assignment arrives; its client checks in again.
        fn report(&mut self, place: usize) {
            if self.phase != Phase::Training || self.work.is_empty() {
                return;
            }
            let work = self.work.remove(place % self.work.len());
            self.counted.push(staleness(work.base, self.version));
            self.reported += 1;
            self.waiting.push(work.client);
            self.drive();
        }
    }

    /// Events that may occur between two steps.
    #[derive(Clone, Debug)]
    enum World {
        Wait(i64),
        Report(usize),
        /// A client dies, and returns once the time of its assignment is over.
        Die(usize),
    }

    fn world() -> impl Strategy<Value = World> {
        prop_oneof![
            1 => (1i64..60).prop_map(World::Wait),
            4 => (0usize..20).prop_map(World::Report),
            1 => (0usize..20).prop_map(World::Die),
        ]
    }

    proptest! {
        /// Goal: staleness is never above its maximum, concurrency is never exceeded, no draw counts twice, every
        /// version has a full buffer, and a stopped job ends.
        /// Method: a driver that asks `next_buffer_step` plays random events.
        #[test]
        fn a_buffered_job_keeps_its_bounds(
            events in prop::collection::vec(world(), 0..120),
            goal in 1u32..6, concurrency in 1u32..8, staleness_max in 0u32..5, clients in 1usize..12,
        ) {
            let mut job = Job::new(BufferPolicy { concurrency, staleness_max, slack: None }, goal, clients);
            job.drive();
            let mut dead = Vec::new();
            for event in events {
                match event {
                    World::Wait(ms) => job.now_ms += ms,
                    World::Report(place) => job.report(place),
                    World::Die(place) if !job.work.is_empty() => {
                        let work = job.work[place % job.work.len()];
                        dead.push(work.client);
                    }
                    World::Die(_) => {}
                }
                job.drive();
                // Who lost its assignment checks in again.
                for client in 0..clients {
                    if !job.waiting.contains(&client) && job.work.iter().all(|work| work.client != client) {
                        job.waiting.push(client);
                    }
                }
                prop_assert!(job.work.len() as u32 <= concurrency);
                prop_assert!(job.counted.iter().all(|staleness| *staleness <= staleness_max));
                prop_assert!(job.versions.iter().all(|updates| *updates == goal));
                prop_assert_eq!(job.counted.len() as u32, job.version * goal + job.reported);
                prop_assert!(job.counted.len() as u32 + job.work.len() as u32 <= job.draws);
                prop_assert!(job.reported < goal, "a full buffer has committed");
            }
            job.state = JobState::Stopped;
            job.drive();
            prop_assert!(!job.phase.is_open());
        }
    }

    #[test]
    fn clients_that_take_turns_are_as_stale_as_there_are_others() {
        for clients in [1, 2, 5, 17] {
            let policy = BufferPolicy { concurrency: clients, staleness_max: 100, slack: None };
            let mut job = Job::new(policy, 1, clients as usize);
            job.drive();
            for _ in 0..10 * clients {
                job.report(0);
            }
            let steady = &job.counted[clients as usize..];
            assert!(steady.iter().all(|staleness| *staleness == clients - 1), "{clients}: {steady:?}");
        }
    }

    /// n-softsync (Zhang et al. 2016): of `learners`, each version takes `learners / n` gradients. While a learner
    /// computes one, the others send one each, so its staleness is `n (learners - 1) / learners` in the mean. The paper
    /// reports about n, and hardly any above 2 n.
    #[test]
    fn softsync_has_the_staleness_of_its_paper() {
        for (learners, n) in [(8, 2), (8, 4), (8, 8), (16, 4), (16, 16), (30, 2), (30, 15), (30, 30)] {
            let goal = learners / n;
            let policy = BufferPolicy { concurrency: learners, staleness_max: 1_000, slack: None };
            let mut job = Job::new(policy, goal, learners as usize);
            job.drive();
            let mut stream = Seed(5).derive("softsync", u64::from(learners * 100 + n)).stream();
            // Learners take 0.8 to 1.2 units of time for a gradient.
            let mut duration = || 0.8 + 0.4 * stream.unit();
            let mut ends: Vec<f64> = (0..learners).map(|_| duration()).collect();
            for _ in 0..40_000 {
                let first = (0..ends.len()).min_by(|one, other| ends[*one].total_cmp(&ends[*other])).unwrap();
                let place = job.work.iter().position(|work| work.client == first).unwrap();
                job.report(place);
                ends[first] += duration();
            }
            let steady = &job.counted[1_000..];
            let mean = steady.iter().map(|staleness| f64::from(*staleness)).sum::<f64>() / steady.len() as f64;
            let expected = f64::from(n) * f64::from(learners - 1) / f64::from(learners);
            assert!((mean / expected - 1.0).abs() < 0.02, "{learners}, {n}: {mean} is not {expected}");
            assert!(learners < 16 || (mean / f64::from(n) - 1.0).abs() < 0.1, "{learners}, {n}: {mean}");
            let above = steady.iter().filter(|staleness| **staleness > 2 * n).count();
            assert!((above as f64) < 1e-3 * steady.len() as f64, "{learners}, {n}: {above} above 2 n");
        }
    }
}
