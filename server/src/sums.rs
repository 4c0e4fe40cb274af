//! The running sums of open rounds: a cache of what is stored.
//!
//! A large update is folded in while it arrives, before anybody knows whether it will count: it is a [`Flight`] until it
//! was acknowledged, or taken out again. A small one is folded in when it is acknowledged. The stored updates are the
//! truth: whatever a sum lacks (after a restart, all of it) is folded in from there, at the latest when its round is
//! aggregated. A sum of which nobody knows what is in it is spoilt: it is dropped, and made anew from what is stored.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tributary_protocol::id::{AssignmentId, JobId};

use crate::aggregate::{Accumulator, FoldError};
use crate::db::RoundKey;
use crate::spec::JobSpec;

/// The sums of all open rounds.
#[derive(Debug, Default)]
pub struct Sums {
    rounds: Mutex<HashMap<RoundKey, SharedSum>>,
    left_to_commits: AtomicBool,
}

/// One round's sum, shared by those who add to it.
pub type SharedSum = Arc<RoundSum>;

/// The sum of one round, and whose updates are in it.
#[derive(Debug)]
pub struct RoundSum {
    accumulator: Accumulator,
    members: Mutex<Members>,
    /// Rung whenever a flight ends.
    ended: Notify,
    closing: CancellationToken,
    turn: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug, Default)]
struct Members {
    /// Whose updates are in the sum, or on their way.
    updates: HashSet<AssignmentId>,
    in_flight: usize,
    spoilt: bool,
}

/// An update on its way into a sum. It ends with [`Flight::land`] or [`Flight::leave`]; one that is dropped with blocks in
/// the sum has spoilt it.
#[derive(Debug)]
pub struct Flight {
    sum: SharedSum,
    assignment: AssignmentId,
    weight: u32,
    touched: bool,
    ended: bool,
}

impl Sums {
    /// Leaves all adding to the commits of rounds, as after a restart: for a benchmark of what adding costs.
    pub fn leave_to_commits(&self) {
        self.left_to_commits.store(true, Ordering::Relaxed);
    }

    /// Whether updates that arrive are not to be added.
    #[must_use]
    pub fn is_left_to_commits(&self) -> bool {
        self.left_to_commits.load(Ordering::Relaxed)
    }

    /// The sum of a round, if somebody has begun it.
    #[must_use]
    pub fn begun(&self, round: RoundKey) -> Option<SharedSum> {
        lock(&self.rounds).get(&round).filter(|sum| !sum.is_spoilt()).cloned()
    }

    /// The sum of a round; an empty one when it has none yet, or a spoilt one. Only the driver calls this, who also
    /// forgets it: whoever comes late must not begin it anew.
    #[must_use]
    pub fn of(&self, round: RoundKey, spec: &JobSpec) -> SharedSum {
        let mut rounds = lock(&self.rounds);
        match rounds.get(&round) {
            Some(sum) if !sum.is_spoilt() => Arc::clone(sum),
            _ => {
                let sum = Arc::new(RoundSum::new(spec));
                rounds.insert(round, Arc::clone(&sum));
                sum
            }
        }
    }

    /// Forgets the sums of a job that another coordinator drives. Updates that are on their way here are still welcome.
    pub fn forget_job(&self, job: JobId) {
        lock(&self.rounds).retain(|round, _| round.job != job);
    }

    /// Forgets the sum of a round that has ended. Updates that are still on their way are of no more use.
    pub fn forget(&self, round: RoundKey) {
        if let Some(sum) = lock(&self.rounds).remove(&round) {
            sum.closing.cancel();
        }
    }
}

impl RoundSum {
    fn new(spec: &JobSpec) -> Self {
        let accumulator = Accumulator::new(spec.parameters.total(), spec.caps).expect("caps were checked with the job");
        Self {
            accumulator,
            members: Mutex::default(),
            ended: Notify::new(),
            closing: CancellationToken::new(),
            turn: Arc::default(),
        }
    }

    /// Begins to add an update that arrives; none when the round takes no more, or has the update, or is about to.
    ///
    /// # Errors
    /// [`FoldError`] when the update cannot have this weight, or the sum is full.
    pub fn begin(self: &Arc<Self>, assignment: AssignmentId, weight: u32) -> Result<Option<Flight>, FoldError> {
        if self.closing.is_cancelled() {
            return Ok(None);
        }
        let flight = self.begin_stored(assignment, weight)?;
        // Whoever closes looks at the flights after it has said so: one of the two sees the other.
        if self.closing.is_cancelled() {
            if let Some(flight) = flight {
                flight.leave();
            }
            return Ok(None);
        }
        Ok(flight)
    }

    /// The same for an update that is stored, which a round that closes wants too.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub fn begin_stored(self: &Arc<Self>, assignment: AssignmentId, weight: u32) -> Result<Option<Flight>, FoldError> {
        self.accumulator.check_weight(weight)?;
        let updates_max = self.accumulator.caps().updates_max;
        let mut members = lock(&self.members);
        if members.updates.contains(&assignment) {
            return Ok(None);
        }
        if members.updates.len() >= updates_max as usize {
            return Err(FoldError::Full { updates_max });
        }
        members.updates.insert(assignment);
        members.in_flight += 1;
        Ok(Some(Flight { sum: Arc::clone(self), assignment, weight, touched: false, ended: false }))
    }

    /// Takes no more updates that arrive, and waits until each that is on its way was acknowledged or taken out again. They
    /// learn of it by [`Self::closing`], so this is soon.
    pub async fn close(&self) {
        self.closing.cancel();
        loop {
            let mut ended = std::pin::pin!(self.ended.notified());
            ended.as_mut().enable();
            if lock(&self.members).in_flight == 0 {
                return;
            }
            ended.await;
        }
    }

    /// Ends when the sum takes no more updates that arrive.
    #[must_use]
    pub fn closing(&self) -> CancellationToken {
        self.closing.clone()
    }

    /// Whether this update is in the sum, or on its way.
    #[must_use]
    pub fn has(&self, assignment: AssignmentId) -> bool {
        lock(&self.members).updates.contains(&assignment)
    }

    /// Whether nobody knows what is in it.
    #[must_use]
    pub fn is_spoilt(&self) -> bool {
        lock(&self.members).spoilt
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

impl Flight {
    /// The sum that it is on its way into.
    #[must_use]
    pub fn sum(&self) -> &SharedSum {
        &self.sum
    }

    /// Adds a block: values within the job's caps, the first of which belongs to parameter `first`.
    pub fn add(&mut self, first: usize, values: &[f32]) {
        self.touched = true;
        self.sum.accumulator.add(first, values, self.weight);
    }

    /// Takes a block out again.
    pub fn take(&self, first: usize, values: &[f32]) {
        self.sum.accumulator.take(first, values, self.weight);
    }

    /// Adds single values, as [`Accumulator::add_sparse`] does.
    pub fn add_sparse(&mut self, first: usize, indices: &[u32], values: &[f32]) {
        self.touched = true;
        self.sum.accumulator.add_sparse(first, indices, values, self.weight);
    }

    /// Takes single values out again.
    pub fn take_sparse(&self, first: usize, indices: &[u32], values: &[f32]) {
        self.sum.accumulator.take_sparse(first, indices, values, self.weight);
    }

    /// The update is acknowledged, and all of it is in the sum.
    pub fn land(mut self) {
        let counts = self.sum.accumulator.count(self.weight).is_ok();
        // There was a place for it when it began, so it was counted; if not, the sum is not to be trusted.
        self.end(counts, !counts);
    }

    /// Nothing of the update is in the sum.
    pub fn leave(mut self) {
        self.end(false, false);
    }

    fn end(&mut self, counts: bool, spoils: bool) {
        self.ended = true;
        let mut members = lock(&self.sum.members);
        members.in_flight -= 1;
        members.spoilt |= spoils;
        if !counts {
            members.updates.remove(&self.assignment);
        }
        drop(members);
        self.sum.ended.notify_waiters();
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if !self.ended {
            self.end(false, self.touched);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
