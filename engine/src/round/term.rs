//! The term of an assignment: how long it takes reports, and from which seed its random choices follow.

use tributary_protocol::id::AssignmentId;
use tributary_protocol::seed::Seed;

use super::wait::is_ahead;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Term {
    /// It ends with its round, from whose seed its own follows.
    Round,
    /// It was drawn into a buffer and may outlast the round: deadline and seed are its own.
    Own { deadline_at_ms: i64, seed: Seed },
}

impl Term {
    /// Seed of what is random in the work of a client of a private job. One that followed from the seed of its round
    /// could be searched for it, and that tells who else was drawn.
    pub fn private_seed(assignment: AssignmentId) -> Seed {
        Seed(0).derive(&assignment.to_string(), 0)
    }

    /// Whether it was drawn into a buffer: it moves on when its round closes.
    pub fn is_own(&self) -> bool {
        matches!(self, Self::Own { .. })
    }

    /// Seed of what is random in the work of the client with this enrolment number.
    pub fn seed(&self, round: Seed, client: u64) -> Seed {
        match *self {
            Self::Round => round.derive("client", client),
            Self::Own { seed, .. } => seed,
        }
    }

    /// When it takes no more reports, in a round that ends at this time.
    pub fn until_ms(&self, round_ends_at_ms: Option<i64>) -> Option<i64> {
        match *self {
            Self::Round => round_ends_at_ms,
            Self::Own { deadline_at_ms, .. } => Some(deadline_at_ms),
        }
    }

    /// Whether a term of its own that began at this time is over. It is too when the clock was set back so far that the
    /// end would not come within twice its length.
    pub fn is_over(&self, began_at_ms: i64, now_ms: i64) -> bool {
        match *self {
            Self::Round => false,
            Self::Own { deadline_at_ms, .. } => {
                !is_ahead(deadline_at_ms, deadline_at_ms.saturating_sub(began_at_ms), now_ms)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_an_assignment_ends_even_when_the_clock_was_set_back() {
        let term = Term::Own { deadline_at_ms: 1_000, seed: Seed(1) };
        assert!(!term.is_over(0, 999) && term.is_over(0, 1_000));
        assert!(!term.is_over(0, -1_000) && term.is_over(0, -1_001));
        assert!(!Term::Round.is_over(0, i64::MAX), "its round ends it");
        assert_eq!((term.until_ms(Some(7)), Term::Round.until_ms(Some(7))), (Some(1_000), Some(7)));
    }
}
