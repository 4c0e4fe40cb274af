//! Clients whose groups fail again and again are grouped apart.
//!
//! Nobody knows which member made the sum of a group too long, so the failure counts against all of them. A client that
//! lies makes each of its groups fail, and an honest one now and then. Small groups of those who were in many failed
//! ones leave the sums of the others alone, and tell honest members among them from the liar.

use super::forming::{Forming, Joined, next_group};
use super::policy::MaskingPolicy;

/// Rounds whose groups are looked at.
pub const PAST_ROUNDS: u32 = 10;
/// Failed groups after which a client is grouped apart.
pub const FAILED_APART: u32 = 3;

/// What became of the groups of a client in the last rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// Those whose sum was longer than honest members can make it.
    pub failed: u32,
    /// Those that came to a sum.
    pub summed: u32,
}

impl Past {
    /// Whether the client is grouped apart.
    pub fn is_apart(self) -> bool {
        self.failed >= FAILED_APART && self.failed > self.summed
    }
}

/// Decides as [`next_group`] where the last `apart` of those that have joined are grouped apart. Also says how many to
/// pass over before the group begins.
///
/// They stay among the others, as the last, where they are too few for a group or the others are.
pub fn next_group_apart(policy: &MaskingPolicy, joined: &Joined, apart: u32, now_ms: i64) -> (Forming, u32) {
    let others = joined.here.saturating_sub(apart);
    let is_enough = |members: u32| members >= policy.group_min.max(1);
    if !is_enough(apart) || (others > 0 && !is_enough(others)) {
        return (next_group(policy, joined, now_ms), 0);
    }
    let small = MaskingPolicy { group: policy.group_min, ..*policy };
    let of_others = next_group(policy, &Joined { here: others, ..*joined }, now_ms);
    let of_apart = next_group(&small, &Joined { here: apart, ..*joined }, now_ms);
    match (of_others, of_apart) {
        (Forming::Form(_), _) => (of_others, 0),
        (_, Forming::Form(_)) => (of_apart, others),
        (Forming::Wait { until_ms: one }, Forming::Wait { until_ms: other }) => {
            (Forming::Wait { until_ms: one.min(other) }, 0)
        }
        (Forming::Wait { .. }, _) => (of_others, 0),
        _ => (of_apart, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> MaskingPolicy {
        MaskingPolicy { group: 12, group_min: 4, ..MaskingPolicy::default() }
    }

    /// The groups that form of these when nobody else comes: where each begins, and its members.
    fn formed(others: u32, apart: u32) -> (Vec<(u32, u32)>, u32) {
        let (mut here, mut left) = ((others, apart), Vec::new());
        let mut joined = Joined { here: others + apart, until_ms: 1_000, ..Joined::default() };
        loop {
            joined.here = here.0 + here.1;
            let (Forming::Form(members), first) = next_group_apart(&policy(), &joined, here.1, 0) else {
                return (left, joined.here);
            };
            left.push((first, members));
            let of_others = members.min(here.0.saturating_sub(first));
            here = (here.0 - of_others, here.1 - (members - of_others));
        }
    }

    #[test]
    fn enough_of_them_have_groups_of_their_own_and_small_ones() {
        assert_eq!(formed(20, 4), (vec![(0, 10), (0, 10), (0, 4)], 0));
        assert_eq!(formed(12, 9), (vec![(0, 12), (0, 4), (0, 4)], 1), "one has no group");
        assert_eq!(formed(0, 8), (vec![(0, 4), (0, 4)], 0));
    }

    #[test]
    fn too_few_of_them_are_the_last_among_the_others() {
        assert_eq!(formed(20, 3), (vec![(0, 12), (0, 11)], 0));
        assert_eq!(formed(3, 5), (vec![(0, 8)], 0), "the others are too few");
        assert_eq!(formed(0, 3), (vec![], 3));
    }

    #[test]
    fn they_wait_as_the_others_do() {
        let joined = Joined { here: 9, awaited: 30, until_ms: 1_000, ..Joined::default() };
        assert_eq!(next_group_apart(&policy(), &joined, 4, 0), (Forming::Form(4), 5), "a full small group");
        let joined = Joined { here: 9, awaited: 30, until_ms: 1_000, leaves_at_ms: Some(700), ..Joined::default() };
        assert_eq!(next_group_apart(&policy(), &joined, 3, 0), (Forming::Wait { until_ms: 700 }, 0));
    }

    #[test]
    fn a_client_is_set_apart_by_failures_that_outweigh_its_sums() {
        let is_apart = |failed, summed| Past { failed, summed }.is_apart();
        assert!(is_apart(3, 0) && is_apart(3, 2) && is_apart(10, 0));
        assert!(!is_apart(2, 0) && !is_apart(3, 3) && !is_apart(0, 9));
    }
}
