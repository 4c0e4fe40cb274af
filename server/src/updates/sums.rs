//! The running sums of open rounds: a cache of what is stored.
//!
//! A small update is added after it was acknowledged. A large update is added while it arrives, before it is accepted:
//! it is a [`Flight`] until it is acknowledged or subtracted again. The stored updates are the truth: updates that a
//! sum lacks (after a restart, all of them) are added from storage, at the latest when the round is aggregated. A sum
//! whose contents are uncertain is *invalid*: it is discarded and rebuilt from the stored updates.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tributary_engine::aggregate::{Accumulator, Combined, Discount, FoldError, Share, Sketch, Weighing};
use tributary_engine::job::JobSpec;
use tributary_protocol::fixed::Contribution;
use tributary_protocol::id::{AssignmentId, JobId};
use tributary_protocol::update::DeltaSink;

use crate::db::RoundKey;
use crate::runtime::lock::Locked;

/// The sums of all open rounds.
#[derive(Debug, Default)]
pub struct Sums {
    rounds: Mutex<HashMap<SumKey, SharedSum>>,
}

/// A round, and the shard of its job that a sum is of.
type SumKey = (RoundKey, Option<u16>);

/// One round's sum, shared by the tasks that add to it.
pub type SharedSum = Arc<RoundSum>;

/// The sum of one round, with the assignments whose updates are in it.
#[derive(Debug)]
pub struct RoundSum {
    accumulator: Accumulator,
    /// None: the job's rule reads the stored updates when the round has closed, and nothing is added here.
    weighing: Option<Weighing>,
    discount: Discount,
    /// An empty sketch of an update of this round; none where updates have no cosines.
    sketch: Option<Sketch>,
    members: Mutex<Members>,
    /// Notified when a flight ends.
    ended: Notify,
    closing: CancellationToken,
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Whether it adds parts of updates, which count once all parts of an update have come.
    is_of_shard: bool,
}

#[derive(Debug, Default)]
struct Members {
    /// Parts in the sum whose updates are not whole, as far as this sum knows.
    parked: HashMap<AssignmentId, (Share, Contribution)>,
    /// Assignments whose updates are in the sum or in flight.
    assignments: HashSet<AssignmentId>,
    /// Updates of these assignments.
    updates: u32,
    in_flight: usize,
    invalid: bool,
    /// Sketches of the updates that are in the sum.
    sketches: HashMap<AssignmentId, Sketch>,
}

/// An update on its way into a sum. It ends with [`Flight::land`] or [`Flight::leave`]. Dropping it with blocks in the
/// sum makes the sum invalid.
#[derive(Debug)]
pub struct Flight {
    sum: SharedSum,
    assignment: AssignmentId,
    share: Share,
    /// What it adds to the divisor and to the number of updates.
    contribution: Contribution,
    sketch: Option<Sketch>,
    touched: bool,
    ended: bool,
    /// Whether it is a part, which stays in the sum uncounted when it lands.
    parks: bool,
}

impl Sums {
    /// The sum of a round, or of a shard of it, if there is a valid one.
    pub fn get(&self, round: RoundKey, shard: Option<u16>) -> Option<SharedSum> {
        lock(&self.rounds).get(&(round, shard)).filter(|sum| !sum.is_invalid()).cloned()
    }

    /// Opens an empty sum for a round that has none, or whose sum is invalid. Only the driver opens sums and forgets
    /// them again: a late update must not begin a new one.
    pub fn open(&self, round: RoundKey, spec: &JobSpec) {
        drop(self.get_or_open(round, spec));
    }

    /// The sum of a round, opened if need be.
    pub fn get_or_open(&self, round: RoundKey, spec: &JobSpec) -> SharedSum {
        let mut rounds = lock(&self.rounds);
        match rounds.get(&(round, spec.shard_number())) {
            Some(sum) if !sum.is_invalid() => Arc::clone(sum),
            _ => {
                let sketched = spec.seed().derive(round.task.as_str(), round.number.into()).derive("sketch", 0);
                // No coordinator has the whole updates of a job with shards.
                let sketch = match spec.shard {
                    None => Sketch::new(spec.shared().total(), spec.caps.updates_max, sketched),
                    Some(_) => None,
                };
                let sum = Arc::new(RoundSum { sketch, ..RoundSum::weighed(spec, spec.weighing()) });
                rounds.insert((round, spec.shard_number()), Arc::clone(&sum));
                sum
            }
        }
    }

    /// Forgets the sums of a job that are others', but for those of these rounds and shards. Updates in flight here are
    /// still accepted.
    pub fn keep_of_job(&self, job: JobId, keeps: impl Fn(RoundKey, Option<u16>) -> bool) {
        lock(&self.rounds).retain(|(round, shard), _| round.job != job || keeps(*round, *shard));
    }

    /// Forgets the sums of a round that has ended, and stops the updates in flight.
    pub fn forget(&self, round: RoundKey) {
        lock(&self.rounds).retain(|(other, _), sum| {
            let is_kept = *other != round;
            if !is_kept {
                sum.closing.cancel();
            }
            is_kept
        });
    }
}

impl RoundSum {
    /// A sum by examples, whatever the job's rule. Rules that come out as a plain mean use it when the round has
    /// closed.
    pub(crate) fn by_examples(spec: &JobSpec) -> SharedSum {
        Arc::new(Self::weighed(spec, Some(Weighing::Examples)))
    }

    fn weighed(spec: &JobSpec, weighing: Option<Weighing>) -> Self {
        let parameters = if weighing.is_some() { spec.values() } else { 0 };
        let accumulator = Accumulator::new(parameters, spec.caps).expect("caps were checked with the job");
        Self {
            accumulator,
            weighing,
            discount: spec.discount(),
            sketch: None,
            members: Mutex::default(),
            ended: Notify::new(),
            closing: CancellationToken::new(),
            turn: Arc::default(),
            is_of_shard: spec.shard.is_some(),
        }
    }

    /// Begins to add an arriving update that is so many versions behind. None when the round is
    /// closing, the update is in the sum or in flight already, or nothing is added before the round has closed.
    ///
    /// # Errors
    /// When the caps do not allow this weight, or the sum is full.
    pub fn begin(
        self: &Arc<Self>,
        assignment: AssignmentId,
        contribution: Contribution,
        staleness: u32,
    ) -> Result<Option<Flight>, FoldError> {
        if self.closing.is_cancelled() {
            return Ok(None);
        }
        let mut flight = self.begin_stored(assignment, contribution, staleness)?;
        if let Some(flight) = &mut flight {
            flight.parks = self.is_of_shard;
        }
        // `close` cancels before it counts flights, and this checks after it was counted: one of the two sees the
        // other.
        if self.closing.is_cancelled() {
            if let Some(flight) = flight {
                flight.leave();
            }
            return Ok(None);
        }
        Ok(flight)
    }

    /// Begins to add a stored update, which a closing round still needs.
    pub fn begin_stored(
        self: &Arc<Self>,
        assignment: AssignmentId,
        contribution: Contribution,
        staleness: u32,
    ) -> Result<Option<Flight>, FoldError> {
        let Some(weighing) = self.weighing else { return Ok(None) };
        let share = self.discount.share(weighing, contribution, staleness);
        let contribution = Contribution { weight: share.divisor, ..contribution };
        self.accumulator.check_weight(contribution)?;
        let updates_max = self.accumulator.caps().updates_max;
        let mut members = lock(&self.members);
        if members.assignments.contains(&assignment) {
            return Ok(None);
        }
        if contribution.updates > updates_max - members.updates {
            return Err(FoldError::Full { updates_max });
        }
        members.assignments.insert(assignment);
        members.updates += contribution.updates;
        members.in_flight += 1;
        let (sum, sketch) = (Arc::clone(self), self.sketch.clone());
        Ok(Some(Flight { sum, assignment, share, contribution, sketch, touched: false, ended: false, parks: false }))
    }

    /// Stops taking arriving updates, and waits until each update in flight was acknowledged or subtracted again. Their
    /// tasks watch [`Self::closing`], so this is soon.
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

    /// Is cancelled when the sum takes no more arriving updates.
    pub fn closing(&self) -> CancellationToken {
        self.closing.clone()
    }

    /// Whether this update is in the sum or in flight.
    pub fn has(&self, assignment: AssignmentId) -> bool {
        lock(&self.members).assignments.contains(&assignment)
    }

    /// Whether its contents are uncertain.
    pub fn is_invalid(&self) -> bool {
        lock(&self.members).invalid
    }

    /// The sketches of these updates, in their order; none where one of them has no sketch.
    pub(crate) fn sketches(&self, updates: impl IntoIterator<Item = AssignmentId>) -> Option<Vec<Sketch>> {
        let members = lock(&self.members);
        updates.into_iter().map(|update| members.sketches.get(&update).cloned()).collect()
    }

    /// Counts the parts of these updates, which are whole. Returns the assignments of the others that have parts in the
    /// sum.
    pub(crate) fn count_whole(&self, whole: &HashSet<AssignmentId>) -> Vec<AssignmentId> {
        let mut members = lock(&self.members);
        let mut others = Vec::new();
        for (assignment, parked) in std::mem::take(&mut members.parked) {
            if !whole.contains(&assignment) {
                others.push(assignment);
                members.parked.insert(assignment, parked);
            } else if self.accumulator.count(parked.1).is_err() {
                // Its place was reserved when it began.
                members.invalid = true;
            }
        }
        others
    }

    /// The flight of a part in the sum, so that it can be taken out.
    pub(crate) fn unpark(self: &Arc<Self>, assignment: AssignmentId) -> Option<Flight> {
        let mut members = lock(&self.members);
        let (share, contribution) = members.parked.remove(&assignment)?;
        members.in_flight += 1;
        let sum = Arc::clone(self);
        Some(Flight { sum, assignment, share, contribution, sketch: None, touched: true, ended: false, parks: false })
    }

    /// Whether updates are added to it when they arrive.
    pub fn is_kept(&self) -> bool {
        self.weighing.is_some()
    }

    /// The number of updates in it.
    pub fn updates(&self) -> u32 {
        self.accumulator.counted().updates
    }

    /// Held while stored updates are added, so that no two tasks read the same ones.
    pub fn turn(&self) -> Arc<tokio::sync::Mutex<()>> {
        Arc::clone(&self.turn)
    }

    pub fn accumulator(&self) -> &Accumulator {
        &self.accumulator
    }
}

impl Combined for RoundSum {
    fn parameters_total(&self) -> usize {
        self.accumulator.parameters_total()
    }

    fn mean(&self, block: Range<usize>) -> Option<Vec<f64>> {
        self.accumulator.mean(block)
    }
}

impl Flight {
    pub fn sum(&self) -> &SharedSum {
        &self.sum
    }

    /// The flight of the sum of a relay. It has no sketch: nothing is known of its single updates.
    #[must_use]
    pub fn of_sum(mut self) -> Self {
        self.sketch = None;
        self
    }

    /// Adds integers of the sum of a relay, which are weighted already.
    pub fn add_integers(&mut self, first: usize, values: &[i64]) {
        self.touched = true;
        self.sum.accumulator.add_sum(first, values);
    }

    /// Subtracts integers that were added.
    pub fn take_integers(&self, first: usize, values: &[i64]) {
        self.sum.accumulator.take_sum(first, values);
    }

    /// Subtracts a block that was added.
    pub fn take(&self, first: usize, values: &[f32]) {
        self.sum.accumulator.take(first, values, self.share.weight);
    }

    /// Subtracts sparse values that were added.
    pub fn take_sparse(&self, first: usize, indices: &[u32], values: &[f32]) {
        self.sum.accumulator.take_sparse(first, indices, values, self.share.weight);
    }

    /// Counts the update: it is acknowledged, and all of it is in the sum. A part is counted once its update is whole.
    pub fn land(mut self) {
        if self.parks {
            return self.park();
        }
        let counts = self.sum.accumulator.count(self.contribution).is_ok();
        // Its place was reserved when it began, so counting cannot fail; if it does, the sum cannot be trusted.
        self.end(counts, !counts);
    }

    fn park(mut self) {
        self.ended = true;
        let mut members = lock(&self.sum.members);
        members.in_flight -= 1;
        members.parked.insert(self.assignment, (self.share, self.contribution));
        drop(members);
        self.sum.ended.notify_waiters();
    }

    /// Ends the flight of an update that has no values in the sum.
    pub fn leave(mut self) {
        self.end(false, false);
    }

    fn end(&mut self, counts: bool, invalidates: bool) {
        self.ended = true;
        let mut members = lock(&self.sum.members);
        members.in_flight -= 1;
        members.invalid |= invalidates;
        if !counts {
            members.assignments.remove(&self.assignment);
            members.updates -= self.contribution.updates;
        } else if let Some(sketch) = self.sketch.take() {
            members.sketches.insert(self.assignment, sketch);
        }
        drop(members);
        self.sum.ended.notify_waiters();
    }
}

/// Adds decoded values to the sum.
impl DeltaSink for Flight {
    fn dense(&mut self, first: usize, values: &[f32]) {
        self.touched = true;
        self.sum.accumulator.add(first, values, self.share.weight);
        if let Some(sketch) = &mut self.sketch {
            sketch.dense(first, values);
        }
    }

    fn sparse(&mut self, first: usize, indices: &[u32], values: &[f32]) {
        self.touched = true;
        self.sum.accumulator.add_sparse(first, indices, values, self.share.weight);
        if let Some(sketch) = &mut self.sketch {
            sketch.sparse(first, indices, values);
        }
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
    mutex.locked()
}
