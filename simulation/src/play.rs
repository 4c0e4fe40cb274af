//! The clock of a simulation: one event after the other.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use tributary_engine::job::JobSpec;
use tributary_engine::round::Candidate;

use crate::error::SimulationError;
use crate::fleet::Fleet;
use crate::job::{Changed, Job};
use crate::learner::Learner;

/// A job that is played.
pub struct Simulation {
    job: Job,
    fleet: Fleet,
    learner: Learner,
    now_ms: i64,
    /// When the job has something to do, unless something happens before.
    until_ms: Option<i64>,
    /// What happens to clients, earliest first. Of equal times, what was planned first.
    events: BinaryHeap<Reverse<(i64, u64, Event)>>,
    planned: u64,
    /// The clients that wait for work.
    waiting: Vec<Arc<Candidate>>,
    /// Of the last evaluated version.
    accuracy: f64,
    /// Versions from one evaluation to the next.
    evaluate_every: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A client finishes the work that it began at this time.
    Finishes { client: usize, began_at_ms: i64 },
    /// A client that died waits again.
    Returns { client: usize },
}

/// How far a simulation has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Virtual time since the beginning.
    pub now_ms: i64,
    pub version: u32,
    /// Updates that counted.
    pub updates: u64,
    /// Of the bodies of all updates that arrived.
    pub bytes: u64,
    /// Sum of the versions that they were behind.
    pub staleness: u64,
    /// Of the last evaluated version; 0 before the first.
    pub accuracy: f64,
}

impl Simulation {
    /// A job whose clients all wait. A version is evaluated every `evaluate_every` versions.
    ///
    /// # Errors
    /// [`SimulationError::Unsupported`] for a job that keeps state on its devices or looks at earlier rounds.
    pub fn new(spec: JobSpec, fleet: Fleet, learner: Learner, evaluate_every: u32) -> Result<Self, SimulationError> {
        Ok(Self {
            job: Job::new(spec)?,
            waiting: fleet.candidates.clone(),
            fleet,
            learner,
            now_ms: 0,
            until_ms: Some(0),
            events: BinaryHeap::new(),
            planned: 0,
            accuracy: 0.0,
            evaluate_every: evaluate_every.max(1),
        })
    }

    pub fn spec(&self) -> &JobSpec {
        &self.job.spec
    }

    pub fn progress(&self) -> Progress {
        let Job { version, updates, bytes, staleness, .. } = &self.job;
        let (version, updates, bytes, staleness) = (version.number, *updates, *bytes, *staleness);
        Progress { now_ms: self.now_ms, version, updates, bytes, staleness, accuracy: self.accuracy }
    }

    /// Plays until the next version is there. None once the job has ended.
    ///
    /// # Errors
    /// [`SimulationError::Stuck`] when the job waits for what never happens; else of a training or a version.
    pub fn next_version(&mut self) -> Result<Option<Progress>, SimulationError> {
        let version = self.job.version.number;
        while self.job.version.number == version {
            if self.job.has_ended() {
                return Ok(None);
            }
            self.pass()?;
            self.drive()?;
        }
        if self.job.version.number.is_multiple_of(self.evaluate_every) {
            self.accuracy = self.learner.accuracy(&self.job.spec, &self.job.version.model)?;
        }
        Ok(Some(self.progress()))
    }

    /// Does what is due now.
    fn drive(&mut self) -> Result<(), SimulationError> {
        loop {
            let mut changed = Changed::default();
            self.until_ms = self.job.drive(&mut self.waiting, self.now_ms, &mut changed)?;
            for client in changed.drawn {
                self.begin(client);
            }
            // A straggler waits again at once. One that died returns when its time would have been over.
            let returning: Vec<usize> = changed.expired.into_iter().filter(|client| !self.is_dead(*client)).collect();
            if returning.is_empty() {
                return Ok(());
            }
            returning.into_iter().for_each(|client| self.waits(client));
        }
    }

    /// Plans the end of the work that a client begins.
    fn begin(&mut self, client: usize) {
        let Some(work) = self.job.works.get(&client) else { return };
        let (began_at_ms, until_ms) = (work.began_at_ms, work.until_ms);
        match self.fleet.work_ms(client) {
            Some(work_ms) => self.plan(began_at_ms + work_ms, Event::Finishes { client, began_at_ms }),
            None => self.plan(until_ms, Event::Returns { client }),
        }
    }

    /// Moves the clock to what is next: an event of a client, or something that is due.
    fn pass(&mut self) -> Result<(), SimulationError> {
        let next_ms = self.events.peek().map(|Reverse((at_ms, ..))| *at_ms);
        let Some(at_ms) = next_ms.into_iter().chain(self.until_ms).min() else { return Err(SimulationError::Stuck) };
        self.now_ms = self.now_ms.max(at_ms);
        if next_ms.is_none_or(|next_ms| next_ms > at_ms) {
            return Ok(());
        }
        // One event at a time: the round may close with it.
        match self.events.pop() {
            Some(Reverse((_, _, Event::Finishes { client, began_at_ms }))) => self.finishes(client, began_at_ms),
            Some(Reverse((_, _, Event::Returns { client }))) => {
                self.waits(client);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// A client reports, unless its work has expired and it may be at other work.
    fn finishes(&mut self, client: usize, began_at_ms: i64) -> Result<(), SimulationError> {
        if self.job.works.get(&client).is_some_and(|work| work.began_at_ms == began_at_ms) {
            self.job.report(&mut self.learner, client, self.now_ms)?;
            self.waits(client);
        }
        Ok(())
    }

    fn plan(&mut self, at_ms: i64, event: Event) {
        self.planned += 1;
        self.events.push(Reverse((at_ms, self.planned, event)));
    }

    fn is_dead(&self, client: usize) -> bool {
        self.events.iter().any(|Reverse((_, _, event))| *event == Event::Returns { client })
    }

    fn waits(&mut self, client: usize) {
        if !self.waiting.iter().any(|candidate| candidate.number == client as u64) {
            self.waiting.push(Arc::clone(&self.fleet.candidates[client]));
        }
    }
}
