//! Turns: of several jobs that want the same clients, the one that drew longest ago draws first.
//!
//! A client has one session at a time, so each draw of one job takes clients from the others. Without turns a job that
//! needs one client would take each as it comes, and a job that needs two would never see two.

use tributary_protocol::id::JobId;

/// How long a round leaves clients to other jobs, in milliseconds. Clients that have just reported are back by then; a
/// job that cannot collect its own must not hold up the others.
pub const PATIENCE_MS: i64 = 10_000;

/// A round that collects clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn {
    /// When its job drew clients for a training last; none if it never has.
    pub drew_at_ms: Option<i64>,
    pub opened_at_ms: i64,
    /// Decides between jobs of the same moment.
    pub job: JobId,
}

/// What another round could collect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rival {
    pub turn: Turn,
    /// Clients with which it starts at once.
    pub needed: u32,
    /// Eligible clients that wait.
    pub available: u32,
}

/// Whether a round leaves the clients that both could draw to another one: that one's turn is first, and the clients
/// that are `away`, at work or between two sessions, may complete it.
#[must_use]
pub fn leaves_to(own: Turn, rival: &Rival, away: u64, now_ms: i64) -> bool {
    let is_patient = (0..PATIENCE_MS).contains(&now_ms.saturating_sub(own.opened_at_ms));
    let may_start = u64::from(rival.needed) <= u64::from(rival.available).saturating_add(away);
    is_patient && rival.turn < own && may_start
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(job: u8, drew_at_ms: Option<i64>, opened_at_ms: i64) -> Turn {
        Turn { drew_at_ms, opened_at_ms, job: JobId::from_random([job; 16]) }
    }

    #[test]
    fn the_job_that_drew_longest_ago_is_first() {
        let own = turn(1, Some(50), 100);
        let leaves = |other: Turn| leaves_to(own, &Rival { turn: other, needed: 2, available: 2 }, 0, 100);
        assert!(leaves(turn(2, Some(49), 300)));
        assert!(!leaves(turn(2, Some(51), 0)));
        assert!(leaves(turn(2, None, 300)), "one that never drew is before all others");
        assert!(leaves(turn(2, Some(50), 99)), "else the round that opened first");
        assert_ne!(leaves(turn(2, Some(50), 100)), leaves(turn(0, Some(50), 100)), "of two rounds one is first");
    }

    #[test]
    fn clients_are_left_only_to_a_round_that_may_start_soon() {
        let own = turn(1, Some(50), 100);
        let leaves = |needed, available, away, now_ms| {
            leaves_to(own, &Rival { turn: turn(2, None, 0), needed, available }, away, now_ms)
        };
        assert!(leaves(4, 1, 3, 100) && !leaves(4, 1, 2, 100));
        assert!(leaves(4, 1, 3, 100 + PATIENCE_MS - 1) && !leaves(4, 1, 3, 100 + PATIENCE_MS));
        assert!(!leaves(4, 1, 3, 99), "the clock was set back");
    }
}
