//! Signals inside the process: which job changed, for its driver task and for watchers.
//!
//! A signal carries no information that is not stored. A lost one costs a delay, never work.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::{Notify, watch};
use tributary_protocol::id::{JobId, Name};

use super::lock::Locked;

/// The signals of one coordinator.
#[derive(Debug, Default)]
pub struct Signals {
    jobs: Mutex<HashMap<JobId, Arc<JobSignal>>>,
    /// A job without a driver task changed.
    unknown: Notify,
    /// Changes so far.
    changes: watch::Sender<u64>,
    /// Clients that began to wait so far.
    arrivals: watch::Sender<u64>,
}

/// The signal of one job, received by its driver task.
#[derive(Debug)]
pub struct JobSignal {
    population: Name,
    /// Places that clients must bring before the job can have a step to do; 0 when it waits for none.
    missing: AtomicU32,
    changed: Notify,
}

/// A driver task's registration for the signals of its job, until it is dropped.
#[derive(Debug)]
pub struct Listening {
    signals: Arc<Signals>,
    job: JobId,
    signal: Arc<JobSignal>,
}

impl Signals {
    /// A job changed: its driver task and all watchers look again.
    pub fn changed(&self, job: JobId) {
        match self.jobs.locked().get(&job) {
            Some(signal) => signal.changed.notify_one(),
            None => self.unknown.notify_one(),
        }
        self.changes.send_modify(|count| *count += 1);
    }

    /// Something changed that leaves a driver task nothing to do, or that the task did itself: only watchers look
    /// again.
    pub fn changed_for_watchers(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Any job may have changed.
    pub fn all_changed(&self) {
        for signal in self.jobs.locked().values() {
            signal.changed.notify_one();
        }
        self.unknown.notify_one();
        self.changes.send_modify(|count| *count += 1);
    }

    /// A client waits for work, with one place, or with those of a relay. A job of its population looks again when that
    /// was the last place that it waited for. A look reads all clients that wait, so a look for each would cost a round
    /// of n clients n^2 / 2 reads.
    pub fn client_waits(&self, population: &Name, places: u32) {
        self.arrivals.send_modify(|count| *count += 1);
        let jobs = self.jobs.locked();
        for signal in jobs.values() {
            if signal.population == *population && signal.are_last_missing(places) {
                signal.changed.notify_one();
            }
        }
        if jobs.is_empty() {
            self.unknown.notify_one();
        }
    }

    /// A job drew clients: the other jobs of its population that wait for some look again.
    pub fn drew(&self, population: &Name, by: JobId) {
        let jobs = self.jobs.locked();
        let others = jobs.iter().filter(|(job, signal)| **job != by && signal.population == *population);
        for (_, signal) in others.filter(|(_, signal)| signal.missing.load(Ordering::SeqCst) > 0) {
            signal.changed.notify_one();
        }
    }

    /// Follows the clients that begin to wait from now on.
    pub fn arrivals(&self) -> watch::Receiver<u64> {
        self.arrivals.subscribe()
    }

    /// Returns after a change of a job that has no driver task. One signal before the call is enough.
    pub async fn unknown_changed(&self) {
        self.unknown.notified().await;
    }

    /// Whether a driver task of this coordinator moves the job on.
    pub fn is_driven(&self, job: JobId) -> bool {
        self.jobs.locked().contains_key(&job)
    }

    /// How many changes there were. What was read since the last one is still so, unless another coordinator changed
    /// it.
    pub fn changes(&self) -> u64 {
        *self.changes.borrow()
    }

    /// Follows changes from now on.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Receives the signals of a job.
    #[must_use]
    pub fn listen(self: &Arc<Self>, job: JobId, population: Name) -> Listening {
        // Until the first look says otherwise, the job may wait for clients.
        let signal = Arc::new(JobSignal { population, missing: AtomicU32::new(1), changed: Notify::new() });
        self.jobs.locked().insert(job, Arc::clone(&signal));
        Listening { signals: Arc::clone(self), job, signal }
    }
}

impl JobSignal {
    /// Counts the places of an arriving client. The last ones that are missing stay so until the next look. A relay
    /// that offers again is counted again: that makes a look early, and never late.
    fn are_last_missing(&self, places: u32) -> bool {
        let less = |missing| if missing > places { Some(missing - places) } else { None };
        self.missing.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_err_and(|missing| missing > 0)
    }
}

impl Listening {
    /// Returns after the next signal. One signal before the call is enough.
    pub async fn changed(&self) {
        self.signal.changed.notified().await;
    }

    /// Says how many places must be brought before the job looks again; with 0 none makes it look. It is 1 before
    /// each look at the stored state, so that no client that arrives during the look is missed.
    pub fn wants_clients(&self, missing: u32) {
        self.signal.missing.store(missing, Ordering::SeqCst);
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.signals.jobs.locked().remove(&self.job);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_client_wakes_only_jobs_of_its_population_that_wait_for_clients() {
        let signals = Arc::new(Signals::default());
        let population: Name = "p".parse().unwrap();
        let job = |number| JobId::from_random([number; 16]);
        let selecting = signals.listen(job(1), population.clone());
        let training = signals.listen(job(2), population.clone());
        training.wants_clients(0);
        let elsewhere = signals.listen(job(3), "q".parse().unwrap());
        signals.client_waits(&population, 1);
        assert!(selecting.changed().now_or_never().is_some());
        assert!(training.changed().now_or_never().is_none());
        assert!(elsewhere.changed().now_or_never().is_none());
        assert!(signals.unknown_changed().now_or_never().is_none());
    }

    #[test]
    fn a_job_is_woken_by_the_last_client_that_it_waits_for_and_by_each_later_one() {
        let signals = Arc::new(Signals::default());
        let population: Name = "p".parse().unwrap();
        let listening = signals.listen(JobId::from_random([1; 16]), population.clone());
        listening.wants_clients(3);
        let woken: Vec<bool> = (0..5)
            .map(|_| {
                signals.client_waits(&population, 1);
                listening.changed().now_or_never().is_some()
            })
            .collect();
        assert_eq!(woken, [false, false, true, true, true]);
    }

    #[test]
    fn a_relay_counts_for_the_places_that_it_brings() {
        let signals = Arc::new(Signals::default());
        let population: Name = "p".parse().unwrap();
        let listening = signals.listen(JobId::from_random([1; 16]), population.clone());
        listening.wants_clients(7);
        let woken = [3, 3, 3, 1].map(|places| {
            signals.client_waits(&population, places);
            listening.changed().now_or_never().is_some()
        });
        assert_eq!(woken, [false, false, true, true]);
        listening.wants_clients(0);
        signals.client_waits(&population, 3);
        assert!(listening.changed().now_or_never().is_none());
    }

    #[test]
    fn a_draw_wakes_the_other_jobs_that_wait_for_clients() {
        let signals = Arc::new(Signals::default());
        let population: Name = "p".parse().unwrap();
        let [drew, waits, trains] =
            [1, 2, 3].map(|job| signals.listen(JobId::from_random([job; 16]), population.clone()));
        waits.wants_clients(7);
        trains.wants_clients(0);
        signals.drew(&population, JobId::from_random([1; 16]));
        let woken = [&drew, &waits, &trains].map(|job| job.changed().now_or_never().is_some());
        assert_eq!(woken, [false, true, false]);
    }

    #[test]
    fn a_job_without_a_task_wakes_the_one_who_starts_tasks() {
        let signals = Arc::new(Signals::default());
        let watched = signals.watch();
        let job = JobId::from_random([1; 16]);
        let listening = signals.listen(job, "p".parse().unwrap());
        signals.changed(job);
        assert!(listening.changed().now_or_never().is_some());
        assert!(signals.unknown_changed().now_or_never().is_none());
        drop(listening);
        signals.changed(job);
        assert!(signals.unknown_changed().now_or_never().is_some());
        assert_eq!(*watched.borrow(), 2);
    }
}
