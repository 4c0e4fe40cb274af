//! Places for updates in flight, counted: who waits for one, who has one, and how long.

use ::metrics::{Gauge, Histogram};
use tokio::sync::{AcquireError, Semaphore, SemaphorePermit};

use super::registry::Registry;
use super::table;
use crate::clock::Stopwatch;

/// A number of places.
#[derive(Debug)]
pub struct Places {
    places: usize,
    free: Semaphore,
    waiting: Gauge,
    taken: Gauge,
    seconds: Histogram,
}

/// A place that is taken; dropping it frees it.
#[derive(Debug)]
pub struct Place<'a> {
    _permit: SemaphorePermit<'a>,
    seconds: &'a Histogram,
    stopwatch: Stopwatch,
    _taken: Present,
}

impl Places {
    pub(super) fn new(registry: &Registry, places: usize) -> Self {
        Self {
            places,
            free: Semaphore::new(places),
            waiting: registry.gauge(&table::UPDATES_WAITING, &[]),
            taken: registry.gauge(&table::UPDATES_IN_FLIGHT, &[]),
            seconds: registry.histogram(&table::UPDATE_PLACE, &[]),
        }
    }

    /// Waits for a place.
    ///
    /// # Errors
    /// None: the semaphore is never closed.
    pub async fn acquire(&self) -> Result<Place<'_>, AcquireError> {
        let waiting = Present::in_gauge(&self.waiting);
        let permit = self.free.acquire().await?;
        drop(waiting);
        let taken = Present::in_gauge(&self.taken);
        Ok(Place { _permit: permit, seconds: &self.seconds, stopwatch: Stopwatch::start(), _taken: taken })
    }

    /// Places that are taken.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.places - self.free.available_permits()
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.seconds.record(self.stopwatch.seconds());
    }
}

/// Something that a gauge counts while it is there, however it ends.
#[derive(Debug)]
struct Present(Gauge);

impl Present {
    fn in_gauge(gauge: &Gauge) -> Self {
        gauge.increment(1);
        Self(gauge.clone())
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.0.decrement(1);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn who_waits_and_who_has_a_place_is_counted_and_whoever_gives_up_no_longer() {
        let registry = Registry::new(true);
        let places = Places::new(&registry, 1);
        let counted = || {
            let text = registry.render().unwrap();
            let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
            [value("tributary_updates_waiting "), value("tributary_updates_in_flight ")]
        };
        let first = places.acquire().await.unwrap();
        let mut second = Box::pin(places.acquire());
        assert!(second.as_mut().now_or_never().is_none());
        assert_eq!(counted(), ["1", "1"]);
        drop(second);
        assert_eq!(counted(), ["0", "1"]);
        drop(first);
        assert_eq!((counted(), places.taken()), (["0".into(), "0".into()], 0));
        assert!(registry.render().unwrap().contains("tributary_update_place_seconds_count 1"));
    }
}
