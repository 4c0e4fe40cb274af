//! Pace steering: when a client without work should check in again, so that a fleet neither overloads nor loses its
//! coordinator (Bonawitz et al. 2019, "Towards federated learning at scale", section 2.3).

use tributary_protocol::seed::Stream;

/// Why a client has no work now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryReason {
    /// It has just reported. Its next round can open at any moment.
    Reported,
    /// No assignment came.
    NothingCame,
    /// No assignment came while its check-in was held for at least [`HELD_MS_MIN`].
    Held,
    /// No job of its population is running, so none is expected soon.
    NoJob,
    /// It asked for a release, which it may do without taking part in rounds.
    Release,
    /// The coordinator is stopping or cannot reach its database.
    Unavailable,
}

/// A client that was held so long checks in at most once a second.
pub const HELD_MS_MIN: u64 = 1_000;
/// Most check-ins per second of idle clients of a population, unless an operator chooses another number.
pub const CHECKINS_PER_SECOND_MAX: u32 = 100;
/// Standard deviations between the rate that windows aim at and the largest one. Independent arrivals exceed it in one
/// second of 10 billion.
const DEVIATIONS: f64 = 7.0;
/// Longest window of a fleet that may check in as often as that: 30,000 clients by default. A larger one checks in as
/// often as its jobs can use.
const WINDOW_MS_SMALL: u64 = 600_000;
/// Longest window. Each client checks in about this often at least.
const WINDOW_MS_MAX: u64 = 86_400_000;
/// Mean time between two questions for a release: an hour in milliseconds.
const RELEASE_MS_MIN: u64 = 3_600_000;
/// Time in which check-ins bring a round its cohort.
const COHORT_WITHIN_MS: u64 = 60_000;
/// Check-ins per client of a cohort in this time: some are not eligible, and rounds follow each other.
const CHECKINS_PER_PLACE: u64 = 4;

/// How often the idle clients of a population check in together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The rate that windows aim at.
    per_second: u64,
    /// The largest rate.
    most_per_second: u64,
}

impl Pace {
    /// The pace that keeps arrivals below this number of check-ins per second. At least one client a second may come,
    /// so numbers below 9 are sometimes exceeded.
    #[must_use]
    pub fn below(most_per_second: u32) -> Self {
        // The largest rate r with r + 7 sqrt(r) at most this number.
        let root = ((DEVIATIONS * DEVIATIONS + 4.0 * f64::from(most_per_second)).sqrt() - DEVIATIONS) / 2.0;
        Self { per_second: ((root * root) as u64).max(1), most_per_second: most_per_second.into() }
    }

    /// Whether the window of a fleet of this size depends on what its jobs can use.
    #[must_use]
    pub fn is_set_by_jobs(self, clients: u64) -> bool {
        self.window_ms(clients) > WINDOW_MS_SMALL
    }

    /// The window at the rate that is aimed at.
    fn window_ms(self, clients: u64) -> u64 {
        clients.saturating_mul(1000) / self.per_second
    }

    /// The mean window of a fleet whose running jobs draw this many clients together when each opens a round.
    fn centre_ms(self, clients: u64, places: u64) -> u64 {
        let shortest_ms = self.window_ms(clients);
        if !self.is_set_by_jobs(clients) {
            return shortest_ms;
        }
        let useful = places.saturating_mul(CHECKINS_PER_PLACE);
        let useful_ms = clients.saturating_mul(COHORT_WITHIN_MS).checked_div(useful).unwrap_or(WINDOW_MS_MAX);
        useful_ms.clamp(WINDOW_MS_SMALL, WINDOW_MS_MAX).max(shortest_ms)
    }

    /// Time to wait before the next check-in, in milliseconds. It is uniform between half and one and a half times a
    /// centre that grows with the population, so that clients that were answered together do not return together.
    /// `places` is read for large populations ([`Self::is_set_by_jobs`]): the clients that the running jobs draw
    /// together.
    #[must_use]
    pub fn retry_window_ms(self, reason: RetryReason, clients: u64, places: u64, stream: &mut Stream) -> u64 {
        let fleet_ms = self.centre_ms(clients, places);
        let centre_ms = match reason {
            // A held check-in costs next to nothing, so a client that may be drawn soon returns at once.
            RetryReason::Reported => return 0,
            // So few clients cannot exceed the rate even together. Each returns at once, so that all of them wait when
            // a round opens: it may need every one.
            RetryReason::Held if clients <= self.most_per_second => return 0,
            RetryReason::NothingCame | RetryReason::Held => fleet_ms.max(1_000),
            RetryReason::NoJob => fleet_ms.max(5_000),
            RetryReason::Release => fleet_ms.max(RELEASE_MS_MIN),
            RetryReason::Unavailable => fleet_ms.max(2_000),
        };
        centre_ms / 2 + stream.below(centre_ms)
    }
}

#[cfg(test)]
mod tests;
