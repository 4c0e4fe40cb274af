//! A vector of sums in fixed point, cut into stripes with a lock each, so that many threads add at once.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tributary_protocol::cpu::{Cpu, prefetch};

use super::kernel::{add_scaled, add_scattered};

/// Parameters behind one lock: sums of nearly 2 MiB, so that updates of a large model seldom wait for each other.
/// Slightly less than a power of two, because allocators round a power of two up to the next size class.
pub(super) const STRIPE_PARAMETERS: usize = (1 << 18) - (1 << 14);

/// One i64 per parameter. Integer addition has no order, so neither the order nor the number of threads changes a bit.
#[derive(Debug)]
pub(super) struct Stripes {
    stripes: Box<[Mutex<Box<[i64]>>]>,
    parameters_total: usize,
}

impl Stripes {
    pub(super) fn zeros(parameters_total: usize) -> Self {
        let stripe = |first: usize| {
            let parameters = STRIPE_PARAMETERS.min(parameters_total - first);
            Mutex::new(vec![0; parameters].into_boxed_slice())
        };
        Self { stripes: (0..parameters_total).step_by(STRIPE_PARAMETERS).map(stripe).collect(), parameters_total }
    }

    pub(super) fn parameters_total(&self) -> usize {
        self.parameters_total
    }

    /// Adds `round(values[i] * factor)` to the parameter `first + i`.
    pub(super) fn add_dense(&self, first: usize, values: &[f32], factor: f64) {
        let (cpu, mut rest) = (Cpu::best(), values);
        self.each(first..first + values.len(), |sums, next| {
            let (now, later) = rest.split_at(sums.len());
            prefetch(&next[..next.len().min(now.len())]);
            add_scaled(cpu, sums, now, factor);
            rest = later;
        });
    }

    /// Adds `round(values[i] * factor)` to the parameter `first + indices[i]`. Indices ascend.
    pub(super) fn add_sparse(&self, first: usize, indices: &[u32], values: &[f32], factor: f64) {
        let (mut indices, mut values) = (indices, values);
        while let Some(index) = indices.first() {
            let place = first + *index as usize;
            assert!(place < self.parameters_total, "a sum of {} has no {place}", self.parameters_total);
            let stripe = place / STRIPE_PARAMETERS;
            let begins = stripe * STRIPE_PARAMETERS;
            let here = indices.partition_point(|index| first + (*index as usize) < begins + STRIPE_PARAMETERS);
            let (now, later) = (indices.split_at(here), values.split_at(here));
            add_scattered(
                &mut lock(&self.stripes[stripe]),
                |index| first + index as usize - begins,
                now.0,
                later.0,
                factor,
            );
            (indices, values) = (now.1, later.1);
        }
    }

    /// Calls `show` with the sums of these parameters, stripe by stripe, and with the sums that follow them in their
    /// stripe (to be prefetched).
    pub(super) fn each(&self, parameters: Range<usize>, mut show: impl FnMut(&mut [i64], &[i64])) {
        assert!(parameters.end <= self.parameters_total, "a sum of {} has no {parameters:?}", self.parameters_total);
        let mut at = parameters.start;
        while at < parameters.end {
            let (stripe, from) = (at / STRIPE_PARAMETERS, at % STRIPE_PARAMETERS);
            let to = STRIPE_PARAMETERS.min(from + parameters.end - at);
            let mut sums = lock(&self.stripes[stripe]);
            let (sums, next) = sums.split_at_mut(to);
            show(&mut sums[from..], next);
            at += to - from;
        }
    }

    /// Each sum of a block divided by `divisor`.
    pub(super) fn quotients(&self, block: Range<usize>, divisor: f64) -> Vec<f64> {
        let mut quotients = Vec::with_capacity(block.len());
        self.each(block, |sums, _| quotients.extend(sums.iter().map(|sum| *sum as f64 / divisor)));
        quotients
    }
}

impl Clone for Stripes {
    fn clone(&self) -> Self {
        let stripes = self.stripes.iter().map(|stripe| Mutex::new(lock(stripe).clone())).collect();
        Self { stripes, parameters_total: self.parameters_total }
    }
}

impl PartialEq for Stripes {
    fn eq(&self, other: &Self) -> bool {
        // Copied: a sum can be compared with itself without taking a lock twice.
        let sums = |stripe: &Mutex<Box<[i64]>>| lock(stripe).clone();
        self.parameters_total == other.parameters_total
            && self.stripes.iter().zip(&other.stripes).all(|(one, two)| sums(one) == sums(two))
    }
}

/// Locks, also after a panic of another thread: under these locks no state is ever partly written.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
