//! When clients that have joined become a group, and how many of them.

use super::parameters::MEMBERS_MIN;
use super::policy::MaskingPolicy;

/// The clients of a round that have joined and are in no group yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Joined {
    /// Clients that wait for a group.
    pub here: u32,
    /// Clients at work, which may still join.
    pub awaited: u32,
    /// From when on no further group forms: [`super::forms_until_ms`] of the deadline of the round, or in a buffer of
    /// the first assignment among those that wait, which ends for itself.
    pub until_ms: i64,
    /// When the first of those that wait may leave; none if they wait for as long as it takes.
    pub leaves_at_ms: Option<i64>,
    /// Whether others are drawn after those at work, as into a buffer: who is left finds others later.
    pub is_endless: bool,
}

/// What becomes of the clients that have joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forming {
    /// Nothing before this time, in milliseconds since 1970, unless somebody joins or is lost.
    Wait { until_ms: i64 },
    /// The first so many, in the order in which they joined, are a group. The question is asked again for the others.
    Form(u32),
    /// Those that wait are too few for a group, and no others come: their work is lost.
    LeaveOut,
    /// Nobody waits.
    Nobody,
}

/// Decides whether a group forms from those that have joined.
///
/// A full group forms at once, unless it would leave fewer than another group needs: then all wait for each other. When
/// the last client has joined, or the time is up, or somebody may leave, those that are here are split into as few
/// groups as they fit in, of sizes as equal as possible.
pub fn next_group(policy: &MaskingPolicy, joined: &Joined, now_ms: i64) -> Forming {
    let Joined { here, awaited, until_ms, leaves_at_ms, is_endless } = *joined;
    let is_last = awaited == 0 || now_ms >= until_ms;
    let first = first_of_split(policy, here);
    let leaves_at_ms = leaves_at_ms.filter(|_| first.is_some());
    let is_impatient = leaves_at_ms.is_some_and(|at_ms| now_ms >= at_ms);
    match first {
        _ if here == 0 => Forming::Nobody,
        Some(members) if is_last || is_impatient => Forming::Form(members),
        None if is_endless => Forming::Wait { until_ms: i64::MAX },
        None if is_last => Forming::LeaveOut,
        Some(_) if here >= policy.group && (is_endless || leaves_enough(policy, here - policy.group + awaited)) => {
            Forming::Form(policy.group)
        }
        _ => Forming::Wait { until_ms: leaves_at_ms.into_iter().fold(until_ms, i64::min) },
    }
}

/// Whether those that a full group leaves can be groups of their own.
fn leaves_enough(policy: &MaskingPolicy, left: u32) -> bool {
    left == 0 || left >= policy.group_min
}

/// The size of the first group, where this many are split; none if they are too few for one. Where no split takes all
/// of them, groups are full and the last to join are left.
fn first_of_split(policy: &MaskingPolicy, here: u32) -> Option<u32> {
    // A policy is checked when its job is created; the bounds only keep the divisions defined.
    let group_min = policy.group_min.max(MEMBERS_MIN);
    let group = policy.group.max(group_min);
    let (groups, groups_max) = (here.div_ceil(group), here / group_min);
    match groups <= groups_max {
        true => (groups > 0).then(|| here.div_ceil(groups)),
        false => (groups_max > 0).then_some(group),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn policy(group: u32, group_min: u32) -> MaskingPolicy {
        MaskingPolicy { group, group_min, ..MaskingPolicy::default() }
    }

    fn joined(here: u32, awaited: u32) -> Joined {
        Joined { here, awaited, until_ms: 1_000, leaves_at_ms: None, is_endless: false }
    }

    /// The sizes of the groups that those who are here form now, and how many are left out.
    fn sizes(policy: &MaskingPolicy, mut joined: Joined, now_ms: i64) -> (Vec<u32>, u32) {
        let mut sizes = Vec::new();
        while let Forming::Form(members) = next_group(policy, &joined, now_ms) {
            sizes.push(members);
            joined.here -= members;
        }
        (sizes, joined.here)
    }

    #[test]
    fn a_full_group_forms_at_once_and_others_at_the_end() {
        let policy = policy(100, 64);
        let wait = Forming::Wait { until_ms: 1_000 };
        let cases = [
            ("nobody has joined", joined(0, 500), 0, Forming::Nobody),
            ("a group has come", joined(100, 500), 0, Forming::Form(100)),
            ("one is missing", joined(99, 500), 999, wait),
            ("the time is up", joined(99, 500), 1_000, Forming::Form(99)),
            ("the last has joined", joined(64, 0), 0, Forming::Form(64)),
            ("the rest is too small", joined(63, 0), 0, Forming::LeaveOut),
            ("the rest is too small, others may come", joined(63, 1), 999, wait),
            ("a full group would leave too few", joined(100, 63), 0, wait),
            ("a full group leaves enough", joined(100, 64), 0, Forming::Form(100)),
            ("a full group leaves nobody", joined(100, 0), 0, Forming::Form(100)),
        ];
        for (case, joined, now_ms, expected) in cases {
            assert_eq!(next_group(&policy, &joined, now_ms), expected, "{case}");
        }
    }

    #[test]
    fn nobody_is_left_out_where_others_are_drawn_later() {
        let policy = policy(100, 50);
        let endless = |here, awaited| Joined { is_endless: true, ..joined(here, awaited) };
        let wait = |until_ms| Forming::Wait { until_ms };
        let cases = [
            ("too few, and nobody is at work", endless(49, 0), 0, wait(i64::MAX)),
            ("too few, and the first has no more time", endless(49, 9), 1_000, wait(i64::MAX)),
            ("enough, and others may come", endless(50, 9), 999, wait(1_000)),
            ("enough, and the first has no more time", endless(50, 9), 1_000, Forming::Form(50)),
            ("enough, and nobody is at work", endless(50, 0), 0, Forming::Form(50)),
            ("a full group leaves too few", endless(120, 0), 0, Forming::Form(60)),
            ("a full group leaves too few for now", endless(100, 1), 0, Forming::Form(100)),
        ];
        for (case, joined, now_ms, expected) in cases {
            assert_eq!(next_group(&policy, &joined, now_ms), expected, "{case}");
        }
    }

    #[test]
    fn somebody_who_may_leave_is_not_kept_waiting() {
        let policy = policy(100, 50);
        let restless = |here| Joined { leaves_at_ms: Some(400), ..joined(here, 500) };
        assert_eq!(next_group(&policy, &restless(50), 399), Forming::Wait { until_ms: 400 });
        assert_eq!(next_group(&policy, &restless(50), 400), Forming::Form(50));
        assert_eq!(next_group(&policy, &restless(49), 400), Forming::Wait { until_ms: 1_000 }, "too few to form one");
    }

    #[test]
    fn the_rest_is_split_evenly() {
        let split = |group, group_min, here| sizes(&policy(group, group_min), joined(here, 0), 0);
        assert_eq!(split(100, 50, 101), (vec![51, 50], 0));
        assert_eq!(split(64, 32, 130), (vec![44, 43, 43], 0));
        assert_eq!(split(100, 64, 101), (vec![100], 1), "no split takes all");
        assert_eq!(split(100, 64, 228), (vec![76, 76, 76], 0));
        assert_eq!(split(3, 3, 11), (vec![3, 3, 3], 2));
    }

    proptest! {
        #[test]
        fn a_wait_ends_in_the_future(
            group_min in 0u32..80, more in 0u32..80, here in 0u32..300, awaited in 0u32..200,
            leaves_at_ms in prop::option::of(0i64..1_500), now_ms in 0i64..2_000,
        ) {
            let joined = Joined { leaves_at_ms, ..joined(here, awaited) };
            if let Forming::Wait { until_ms } = next_group(&policy(group_min + more, group_min), &joined, now_ms) {
                prop_assert!(until_ms > now_ms && until_ms <= joined.until_ms);
            }
        }

        #[test]
        fn no_group_is_too_small_or_too_large_and_no_more_are_left_than_must_be(
            group_min in 3u32..80, more in 0u32..80, here in 0u32..1_000, awaited in 0u32..200, now_ms in 0i64..2_000,
        ) {
            let policy = policy(group_min + more, group_min);
            let (formed, left) = sizes(&policy, joined(here, awaited), now_ms);
            prop_assert!(formed.iter().all(|size| (group_min..=policy.group).contains(size)), "{formed:?}");
            prop_assert_eq!(formed.iter().sum::<u32>() + left, here);
            if awaited == 0 || now_ms >= 1_000 {
                prop_assert!(left < group_min, "a group was left out");
                let groups_max = here / group_min;
                prop_assert!(left == 0 || here > groups_max * policy.group, "{left} of {here} need not be left");
                let (least, most) = (formed.iter().min(), formed.iter().max());
                prop_assert!(most.unwrap_or(&0) - least.unwrap_or(&0) <= 1);
            }
        }
    }
}
