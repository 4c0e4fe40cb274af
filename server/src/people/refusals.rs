//! Which refusals the audit log has: the first of each kind per caller and day. A row per refusal would let any caller
//! fill the log.

use std::collections::BTreeSet;
use std::sync::Mutex;

use tributary_protocol::problem::ProblemType;

use crate::runtime::lock::Locked;

const DAY_MS: i64 = 24 * 3_600_000;
/// Refusals that are written in a day. It bounds the memory and the log when many clients are refused.
const REFUSALS_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    day: i64,
    kinds: BTreeSet<(String, &'static str)>,
}

impl Refusals {
    /// Whether this refusal belongs into the log. The next one of this kind, of this caller and day, does not.
    pub(crate) fn is_first(&self, actor: &str, kind: ProblemType, now_ms: i64) -> bool {
        let is_logged = matches!(
            kind,
            ProblemType::Malformed
                | ProblemType::Unauthorized
                | ProblemType::Forbidden
                | ProblemType::ClientRevoked
                | ProblemType::CertificateRequired
                | ProblemType::CertificateInvalid
                | ProblemType::CertificateExpired
                | ProblemType::AttestationRefused
                | ProblemType::UpdateRejected
                | ProblemType::ModelInvalid
                | ProblemType::DigestMismatch
                | ProblemType::TooLarge
                | ProblemType::TooManyRequests
        );
        if !is_logged {
            return false;
        }
        let day = now_ms.div_euclid(DAY_MS);
        let mut seen = self.0.locked();
        if seen.day != day {
            *seen = Seen { day, kinds: BTreeSet::new() };
        }
        seen.kinds.len() < REFUSALS_MAX && seen.kinds.insert((actor.to_owned(), kind.uri()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_refusal_of_a_kind_counts_once_per_caller_and_day() {
        let refusals = Refusals::default();
        assert!(refusals.is_first("a", ProblemType::Forbidden, 0));
        assert!(!refusals.is_first("a", ProblemType::Forbidden, DAY_MS - 1));
        assert!(refusals.is_first("a", ProblemType::TooLarge, 0));
        assert!(refusals.is_first("b", ProblemType::Forbidden, 0));
        assert!(refusals.is_first("a", ProblemType::Forbidden, DAY_MS));
        assert!(!refusals.is_first("a", ProblemType::NotFound, 0), "no refusal, a wrong path");
        let logged = (0..2 * REFUSALS_MAX).filter(|n| refusals.is_first(&n.to_string(), ProblemType::TooLarge, DAY_MS));
        assert!(logged.count() < REFUSALS_MAX);
    }
}
