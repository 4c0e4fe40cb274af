//! Which refusals the audit log has: the first of each kind per caller and day. A row per refusal would let any caller
//! fill the log.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use tributary_protocol::id::Name;
use tributary_protocol::problem::ProblemType;

use crate::runtime::lock::Locked;

const DAY_MS: i64 = 24 * 3_600_000;
/// Refusals of the devices of one population that are written in a day. It bounds the memory and the log when many
/// clients are refused. Operators, and callers without a credential, are few: each has one of each kind.
const DEVICES_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    day: i64,
    kinds: BTreeSet<(String, &'static str)>,
    /// Number of those of devices, by population.
    devices: BTreeMap<Name, usize>,
}

/// What becomes of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Noted {
    /// It is the first of its kind, of its caller and day: it belongs into the log.
    First,
    /// It would, but its population has no room left today. This is said once.
    Full,
    /// It does not belong into the log.
    Not,
}

impl Refusals {
    /// Notes a refusal. `devices` is the population of the caller if it is a client, or an app that enrols clients.
    pub(crate) fn note(&self, devices: Option<&Name>, actor: &str, kind: ProblemType, now_ms: i64) -> Noted {
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
            return Noted::Not;
        }
        let day = now_ms.div_euclid(DAY_MS);
        let mut seen = self.0.locked();
        if seen.day != day {
            *seen = Seen { day, ..Seen::default() };
        }
        let seen = &mut *seen;
        let refusal = (actor.to_owned(), kind.uri());
        if seen.kinds.contains(&refusal) {
            return Noted::Not;
        }
        if let Some(population) = devices {
            let count = seen.devices.entry(population.clone()).or_default();
            *count += 1;
            match *count {
                count if count == DEVICES_MAX + 1 => return Noted::Full,
                // Not counted on, so that it is said once.
                over if over > DEVICES_MAX => {
                    *count = DEVICES_MAX + 1;
                    return Noted::Not;
                }
                _ => {}
            }
        }
        seen.kinds.insert(refusal);
        Noted::First
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_refusal_of_a_kind_counts_once_per_caller_and_day() {
        let refusals = Refusals::default();
        let is_first = |actor: &str, kind, now_ms| refusals.note(None, actor, kind, now_ms) == Noted::First;
        assert!(is_first("a", ProblemType::Forbidden, 0));
        assert!(!is_first("a", ProblemType::Forbidden, DAY_MS - 1));
        assert!(is_first("a", ProblemType::TooLarge, 0));
        assert!(is_first("b", ProblemType::Forbidden, 0));
        assert!(is_first("a", ProblemType::Forbidden, DAY_MS));
        assert!(!is_first("a", ProblemType::NotFound, 0), "no refusal, a wrong path");
    }

    #[test]
    fn refusals_of_devices_leave_room_for_those_of_operators() {
        let refusals = Refusals::default();
        let [north, south] = ["north", "south"].map(|name| name.parse::<Name>().unwrap());
        let note = |of: Option<&Name>, number: usize| refusals.note(of, &number.to_string(), ProblemType::TooLarge, 0);
        assert!((0..DEVICES_MAX).all(|number| note(Some(&north), number) == Noted::First));
        assert_eq!(note(Some(&north), 0), Noted::Not, "a second one");
        let over: Vec<Noted> = (0..3).map(|number| note(Some(&north), DEVICES_MAX + number)).collect();
        assert_eq!(over, [Noted::Full, Noted::Not, Noted::Not], "said once");
        assert_eq!(note(Some(&south), DEVICES_MAX + 9), Noted::First, "another population");
        assert!((0..2 * DEVICES_MAX).all(|number| note(None, 100_000 + number) == Noted::First), "operators");
        assert_eq!(refusals.note(Some(&north), "x", ProblemType::TooLarge, DAY_MS), Noted::First, "the next day");
    }
}
