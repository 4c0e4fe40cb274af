//! A vector of sums in fixed point, cut into stripes with a lock each, so that many threads add at once.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tributary_protocol::cpu::{Cpu, prefetch};

use super::kernel::{add_scaled, add_scattered, divided, scaled};

/// Parameters behind one lock: sums of nearly 2 MiB, so that updates of a large model seldom wait for each other.
/// Slightly less than a power of two, because allocators round a power of two up to the next size class.
pub(super) const STRIPE_PARAMETERS: usize = (1 << 18) - (1 << 14);

/// One i64 per parameter. Integer addition has no order, so neither the order nor the number of threads changes a bit.
///
/// A stripe ends at the last sum that was added to; those behind it are zero. So a vector to which nothing was added
/// takes no memory, and the first update writes its values where zeros would have been written, read and written again:
/// 8 instead of 24 bytes per parameter.
#[derive(Debug)]
pub(super) struct Stripes {
    stripes: Box<[Mutex<Vec<i64>>]>,
    parameters_total: usize,
}

impl Stripes {
    pub(super) fn zeros(parameters_total: usize) -> Self {
        let stripes = (0..parameters_total.div_ceil(STRIPE_PARAMETERS)).map(|_| Mutex::default());
        Self { stripes: stripes.collect(), parameters_total }
    }

    pub(super) fn parameters_total(&self) -> usize {
        self.parameters_total
    }

    /// Adds `round(values[i] * factor)` to the parameter `first + i`.
    pub(super) fn add_dense(&self, first: usize, values: &[f32], factor: f64) {
        let (cpu, mut rest) = (Cpu::best(), values);
        self.each(first..first + values.len(), |mut stripe, from, length| {
            let (now, later) = rest.split_at(length);
            rest = later;
            stripe.grow(from);
            let (added, new) = now.split_at((stripe.sums.len() - from).min(length));
            let (sums, next) = stripe.sums[from..].split_at_mut(added.len());
            prefetch(&next[..next.len().min(added.len())]);
            add_scaled(cpu, sums, added, factor);
            if !new.is_empty() {
                stripe.reserve();
                scaled(cpu, &mut stripe.sums, new, factor);
            }
        });
    }

    /// Adds `values[i]` to the parameter `first + i`.
    pub(super) fn add_integers(&self, first: usize, values: &[i64]) {
        self.change(first, values, i64::wrapping_add);
    }

    /// Subtracts `values[i]` from the parameter `first + i`.
    pub(super) fn take_integers(&self, first: usize, values: &[i64]) {
        self.change(first, values, i64::wrapping_sub);
    }

    /// Both operations wrap, so each is the exact inverse of the other. No sum within the caps overflows.
    ///
    /// 24 bytes move per parameter (8 and 8 read, 8 written): memory bandwidth is the limit.
    fn change(&self, first: usize, values: &[i64], operation: impl Fn(i64, i64) -> i64) {
        let mut rest = values;
        self.each(first..first + values.len(), |mut stripe, from, length| {
            let (now, later) = rest.split_at(length);
            rest = later;
            stripe.grow(from + length);
            for (sum, value) in stripe.sums[from..].iter_mut().zip(now) {
                *sum = operation(*sum, *value);
            }
        });
    }

    /// Adds `round(values[i] * factor)` to the parameter `first + indices[i]`. Indices ascend.
    pub(super) fn add_sparse(&self, first: usize, indices: &[u32], values: &[f32], factor: f64) {
        let (mut indices, mut values) = (indices, values);
        while let Some(index) = indices.first() {
            let place = first + *index as usize;
            assert!(place < self.parameters_total, "a sum of {} has no {place}", self.parameters_total);
            let number = place / STRIPE_PARAMETERS;
            let begins = number * STRIPE_PARAMETERS;
            let here = indices.partition_point(|index| first + (*index as usize) < begins + STRIPE_PARAMETERS);
            let (now, later) = (indices.split_at(here), values.split_at(here));
            let mut stripe = self.stripe(number);
            stripe.grow(first + indices[here - 1] as usize - begins + 1);
            add_scattered(&mut stripe.sums, |index| first + index as usize - begins, now.0, later.0, factor);
            (indices, values) = (now.1, later.1);
        }
    }

    /// Calls `show` with each stripe of these parameters, the place of the first of them, and their number.
    fn each(&self, parameters: Range<usize>, mut show: impl FnMut(Stripe<'_>, usize, usize)) {
        assert!(parameters.end <= self.parameters_total, "a sum of {} has no {parameters:?}", self.parameters_total);
        let mut at = parameters.start;
        while at < parameters.end {
            let (number, from) = (at / STRIPE_PARAMETERS, at % STRIPE_PARAMETERS);
            let length = (STRIPE_PARAMETERS - from).min(parameters.end - at);
            show(self.stripe(number), from, length);
            at += length;
        }
    }

    fn stripe(&self, number: usize) -> Stripe<'_> {
        let length = STRIPE_PARAMETERS.min(self.parameters_total - number * STRIPE_PARAMETERS);
        Stripe { sums: lock(&self.stripes[number]), length }
    }

    /// The sums of a block.
    pub(super) fn integers(&self, block: Range<usize>) -> Vec<i64> {
        let mut integers = Vec::with_capacity(block.len());
        self.each(block, |Stripe { sums, .. }, from, length| {
            let sums = sums.get(from..).unwrap_or_default();
            let end = integers.len() + length;
            integers.extend_from_slice(&sums[..length.min(sums.len())]);
            integers.resize(end, 0);
        });
        integers
    }

    /// Each sum of a block divided by `divisor`.
    pub(super) fn quotients(&self, block: Range<usize>, divisor: f64) -> Vec<f64> {
        let (cpu, mut quotients) = (Cpu::best(), Vec::with_capacity(block.len()));
        self.each(block, |Stripe { sums, .. }, from, length| {
            let sums = sums.get(from..).unwrap_or_default();
            let end = quotients.len() + length;
            divided(cpu, &mut quotients, &sums[..length.min(sums.len())], divisor);
            quotients.resize(end, 0.0);
        });
        quotients
    }
}

/// A locked stripe.
struct Stripe<'a> {
    sums: MutexGuard<'a, Vec<i64>>,
    /// Its parameters.
    length: usize,
}

impl Stripe<'_> {
    /// Adds zeros up to a length.
    fn grow(&mut self, length: usize) {
        if self.sums.len() < length {
            self.reserve();
            self.sums.resize(length, 0);
        }
    }

    /// At once for all of the stripe: growing by and by would copy it, and leave as much again to the allocator.
    fn reserve(&mut self) {
        let missing = self.length - self.sums.len();
        self.sums.reserve_exact(missing);
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
        let sums = |stripe: &Mutex<Vec<i64>>| {
            let mut sums = lock(stripe).clone();
            sums.resize(STRIPE_PARAMETERS, 0);
            sums
        };
        self.parameters_total == other.parameters_total
            && self.stripes.iter().zip(&other.stripes).all(|(one, two)| sums(one) == sums(two))
    }
}

/// Locks, also after a panic of another thread: under these locks no state is ever partly written.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
