//! Pace steering: when a client without work should come back, so that a fleet neither hammers nor forgets its
//! coordinator (the idea is that of Bonawitz et al. 2019, "Towards federated learning at scale", section 2.3).

use tributary_protocol::seed::Stream;

/// Why a client has no work now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryReason {
    /// It just reported: its next round can come at any moment.
    Reported,
    /// It waited as long as it wanted, and nothing came.
    NothingCame,
    /// No job of its population runs: nothing will come soon.
    NoJob,
    /// The coordinator is stopping or cannot reach its database.
    Unavailable,
}

/// Check-ins per second that the coordinator steers idle clients towards.
const CHECKINS_PER_SECOND: u64 = 100;
/// Longest window: a client is seen at least about this often, in milliseconds.
const WINDOW_MS_MAX: u64 = 600_000;

/// Time to wait before the next check-in, in milliseconds: uniform between half and one and a half times a centre that
/// grows with the population, so that clients that were answered together do not come back together.
#[must_use]
pub fn retry_window_ms(reason: RetryReason, clients: u64, stream: &mut Stream) -> u64 {
    let fleet_ms = clients.saturating_mul(1000) / CHECKINS_PER_SECOND;
    let centre_ms = match reason {
        // A held poll costs next to nothing, so a client that may be wanted comes back at once.
        RetryReason::Reported => return 0,
        RetryReason::NothingCame => fleet_ms.clamp(1_000, WINDOW_MS_MAX),
        RetryReason::NoJob => fleet_ms.clamp(5_000, WINDOW_MS_MAX),
        RetryReason::Unavailable => fleet_ms.clamp(2_000, WINDOW_MS_MAX),
    };
    centre_ms / 2 + stream.below(centre_ms)
}

#[cfg(test)]
mod tests {
    use tributary_protocol::seed::Seed;

    use super::*;

    #[test]
    fn windows_are_spread_and_grow_with_the_fleet() {
        let mut stream = Seed(1).stream();
        let mut draw = |reason, clients| retry_window_ms(reason, clients, &mut stream);
        assert_eq!(draw(RetryReason::Reported, 1_000_000), 0);
        for (clients, centre_ms) in [(1, 1_000), (1000, 10_000), (10_000_000, 600_000)] {
            let windows: Vec<_> = (0..1000).map(|_| draw(RetryReason::NothingCame, clients)).collect();
            assert!(windows.iter().all(|window| (centre_ms / 2..centre_ms * 3 / 2).contains(window)));
            let mean = windows.iter().sum::<u64>() / 1000;
            assert!(mean.abs_diff(centre_ms) < centre_ms / 20, "{mean} is not about {centre_ms}");
        }
        assert!(draw(RetryReason::NoJob, 1) >= 2500);
    }
}
