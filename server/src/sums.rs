//! The running sums of open rounds: a cache of what is stored.
//!
//! Updates are folded in when they are acknowledged. The stored updates are the truth: whatever a sum lacks (after a
//! restart, all of it) is folded in from there, at the latest when its round is aggregated.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use tributary_protocol::id::{AssignmentId, JobId};

use crate::aggregate::{Accumulator, FoldError};
use crate::db::RoundKey;
use crate::spec::JobSpec;

/// The sums of all open rounds.
#[derive(Debug, Default)]
pub struct Sums {
    rounds: Mutex<HashMap<RoundKey, SharedSum>>,
}

/// One round's sum, shared by those who add to it.
pub type SharedSum = Arc<Mutex<RoundSum>>;

/// The sum of one round, and whose updates are in it.
#[derive(Debug)]
pub struct RoundSum {
    accumulator: Accumulator,
    folded: HashSet<AssignmentId>,
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl Sums {
    /// The sum of a round, if somebody has begun it.
    #[must_use]
    pub fn begun(&self, round: RoundKey) -> Option<SharedSum> {
        self.rounds.lock().unwrap_or_else(PoisonError::into_inner).get(&round).cloned()
    }

    /// The sum of a round; an empty one when it has none yet. Only the driver calls this, who also forgets it: whoever
    /// comes late must not begin it anew.
    #[must_use]
    pub fn of(&self, round: RoundKey, spec: &JobSpec) -> SharedSum {
        let mut rounds = self.rounds.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(rounds.entry(round).or_insert_with(|| Arc::new(Mutex::new(RoundSum::new(spec)))))
    }

    /// Forgets the sums of a job that another coordinator drives.
    pub fn forget_job(&self, job: JobId) {
        self.rounds.lock().unwrap_or_else(PoisonError::into_inner).retain(|round, _| round.job != job);
    }

    /// Forgets the sum of a round that has ended.
    pub fn forget(&self, round: RoundKey) {
        self.rounds.lock().unwrap_or_else(PoisonError::into_inner).remove(&round);
    }
}

impl RoundSum {
    fn new(spec: &JobSpec) -> Self {
        let accumulator = Accumulator::new(spec.parameters.total(), spec.caps).expect("caps were checked with the job");
        Self { accumulator, folded: HashSet::new(), turn: Arc::default() }
    }

    /// Adds an update, once: a second time changes nothing.
    ///
    /// # Errors
    /// [`FoldError`] when the update is not within the job's caps; nothing was added then.
    pub fn fold(&mut self, assignment: AssignmentId, delta: &[f32], weight: u32) -> Result<(), FoldError> {
        if !self.folded.contains(&assignment) {
            self.accumulator.fold(delta, weight)?;
            self.folded.insert(assignment);
        }
        Ok(())
    }

    /// Whether this update is in the sum.
    #[must_use]
    pub fn has(&self, assignment: AssignmentId) -> bool {
        self.folded.contains(&assignment)
    }

    /// How many updates are in it.
    #[must_use]
    pub fn updates(&self) -> u32 {
        self.accumulator.updates()
    }

    /// Held by whoever folds stored updates in, so that no two read the same ones.
    #[must_use]
    pub fn turn(&self) -> Arc<tokio::sync::Mutex<()>> {
        Arc::clone(&self.turn)
    }

    /// The sum itself.
    #[must_use]
    pub fn accumulator(&self) -> &Accumulator {
        &self.accumulator
    }
}
