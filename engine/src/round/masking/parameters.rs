//! The parameters of a group, from its size and from what it bears (SecAgg+, Bell et al. 2020,
//! <https://eprint.iacr.org/2020/704>, section 3).

use super::policy::{MaskingPolicy, members_in};
use super::tails::Factorials;

/// Fewest members of any group: of two, each knows the other's update from the sum.
pub const MEMBERS_MIN: u32 = 3;
/// Most neighbours of a member: shares have one byte for their place, and 0 is the secret.
pub const DEGREE_MAX: u32 = 254;
/// In a group with fewer members, everybody is a neighbour.
pub const EVERYBODY_BELOW: u32 = 32;
/// The chance that corrupt members learn a mask stays below this, in each of two ways.
const BROKEN_CHANCE: f64 = 1.0 / (1u64 << 40) as f64;
/// The chance that a member keeps too few live neighbours stays below this.
const LOST_CHANCE: f64 = 1e-6;

/// What the members of a group agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupParameters {
    pub members: u32,
    /// Neighbours of each member, with which it shares masks and secrets.
    pub degree: u32,
    /// Number of shares that give a secret.
    pub threshold: u32,
    /// Fewest members whose updates must be whole.
    pub survivors_min: u32,
    /// Fewest survivors that must sign the same set of survivors. At most [`Self::corrupt_max`] members sign two sets,
    /// so no two sets reach it.
    pub quorum: u32,
    /// Most members that may lie.
    pub corrupt_max: u32,
}

/// Why no group of this size bears what a job asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParametersError {
    #[error("a group has at least {MEMBERS_MIN} members, not {members}")]
    TooFewMembers { members: u32 },
    #[error("a full group of {group} is smaller than the smallest group of {group_min}")]
    Sizes { group: u32, group_min: u32 },
    #[error(
        "no group of {members} bears {corrupt} corrupt and {lost} lost members with at most {degree_max} neighbours of \
         each; lower corrupt or dropouts, or enlarge the group"
    )]
    Degree { members: u32, corrupt: u32, lost: u32, degree_max: u32 },
    #[error(
        "a group of {members} that loses {lost} keeps {survivors} survivors, and {quorum} must sign so that {corrupt} \
         corrupt members cannot sign two sets; lower corrupt or dropouts"
    )]
    Quorum { members: u32, corrupt: u32, lost: u32, survivors: u32, quorum: u32 },
}

impl GroupParameters {
    /// The smallest degree with which a group of this many bears what the policy asks, and the largest threshold with
    /// this degree.
    ///
    /// With `c` corrupt and `l` lost members of `n`, both rounded down, a degree `k` serves if
    ///
    /// - `n` times the chance that at least `t` of a member's `k` neighbours are corrupt is below 2^-40,
    /// - `n` times the chance that `k / 2` members in a row are all corrupt or lost, `C(c + l, k / 2) / C(n, k / 2)`,
    ///   is below 2^-40: the circle of neighbours falls apart only between two such rows,
    /// - `n` times the chance that fewer than `t` of the `k` neighbours are left is below 1e-6.
    ///
    /// Neighbours are drawn from the other `n - 1` members. Where everybody is a neighbour, nothing falls apart. The
    /// time is that of some 60,000 exponentials at most, so a group that forms need not look its parameters up.
    ///
    /// # Errors
    /// If no degree up to [`DEGREE_MAX`] serves, or if fewer members than the quorum may survive.
    pub fn of(members: u32, policy: &MaskingPolicy) -> Result<Self, ParametersError> {
        if members < MEMBERS_MIN {
            return Err(ParametersError::TooFewMembers { members });
        }
        let corrupt = members_in(policy.corrupt, members);
        let lost = members_in(policy.dropouts, members);
        let (survivors, quorum) = (members - lost, (members + corrupt) / 2 + 1);
        if quorum > survivors {
            return Err(ParametersError::Quorum { members, corrupt, lost, survivors, quorum });
        }
        let found = match members < EVERYBODY_BELOW {
            true => among_everybody(members, corrupt, lost),
            false => smallest_degree(members, corrupt, lost),
        };
        let (degree, threshold) =
            found.ok_or(ParametersError::Degree { members, corrupt, lost, degree_max: DEGREE_MAX.min(members - 1) })?;
        Ok(Self { members, degree, threshold, survivors_min: survivors, quorum, corrupt_max: corrupt })
    }

    /// Checks that every size of group that a job may form is served.
    ///
    /// # Errors
    /// The refusal of the smallest size that is not, or of a policy without sizes.
    pub fn check(policy: &MaskingPolicy) -> Result<(), ParametersError> {
        if policy.group < policy.group_min {
            return Err(ParametersError::Sizes { group: policy.group, group_min: policy.group_min });
        }
        (policy.group_min..=policy.group).try_for_each(|members| Self::of(members, policy).map(drop))
    }

    /// Most members that may be lost after the group has formed.
    pub fn lost_max(&self) -> u32 {
        self.members - self.survivors_min
    }
}

/// Degree and threshold of a small group: two thirds of the others give a secret. It holds for certain, without chance.
fn among_everybody(members: u32, corrupt: u32, lost: u32) -> Option<(u32, u32)> {
    let degree = members - 1;
    let threshold = (2 * degree).div_ceil(3);
    (corrupt < threshold && threshold + lost <= degree).then_some((degree, threshold))
}

fn smallest_degree(members: u32, corrupt: u32, lost: u32) -> Option<(u32, u32)> {
    let factorials = Factorials::up_to(members);
    let (others, of_all) = (members - 1, f64::from(members));
    let threshold = |degree: u32| {
        let too_many_lost = factorials.rarely_found(others, lost, degree, LOST_CHANCE / of_all);
        let threshold = (degree + 1).checked_sub(too_many_lost).filter(|threshold| *threshold > 0)?;
        let is_broken = of_all * factorials.at_least(others, corrupt, degree, threshold) >= BROKEN_CHANCE;
        (!is_broken).then_some((degree, threshold))
    };
    let holds_together = |degree: &u32| {
        let row = degree / 2;
        let ways = factorials.ln_choose(corrupt + lost, row) - factorials.ln_choose(members, row);
        of_all * ways.exp() < BROKEN_CHANCE
    };
    let everybody = (others <= DEGREE_MAX).then_some(others);
    (2..others.min(DEGREE_MAX + 1))
        .step_by(2)
        .filter(holds_together)
        .find_map(threshold)
        .or_else(|| everybody.and_then(threshold))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(corrupt: f64, dropouts: f64) -> MaskingPolicy {
        MaskingPolicy { corrupt, dropouts, ..MaskingPolicy::default() }
    }

    #[test]
    fn degrees_and_thresholds_are_as_printed() {
        let sizes = [32, 64, 100, 128, 256, 512, 1_000];
        let none = (0, 0);
        let rows = [
            (0.05, 0.1, [(10, 7), (20, 14), none, (28, 17), (32, 18), (34, 18), none]),
            (0.1, 0.1, [(14, 11), (26, 20), (32, 22), (34, 22), (38, 23), (42, 24), (46, 26)]),
            (0.1, 0.3, [(26, 17), (46, 27), (54, 26), (56, 25), (66, 27), (76, 31), (88, 36)]),
            (0.2, 0.3, [(31, 22), (56, 37), (68, 38), (72, 37), (90, 43), (118, 56), (140, 67)]),
            (0.33, 0.3, [(31, 22), (63, 44), (94, 64), (102, 64), (134, 74), (192, 105), (244, 133)]),
        ];
        for (corrupt, dropouts, expected) in rows {
            for (members, expected) in sizes.into_iter().zip(expected).filter(|(_, expected)| *expected != none) {
                let got = GroupParameters::of(members, &policy(corrupt, dropouts)).unwrap();
                assert_eq!((got.degree, got.threshold), expected, "{members}: {corrupt} corrupt, {dropouts} lost");
            }
        }
    }

    #[test]
    fn a_job_is_refused_if_one_size_of_its_groups_is() {
        assert_eq!(GroupParameters::check(&MaskingPolicy::default()), Ok(()));
        let sizes = MaskingPolicy { group: 63, ..MaskingPolicy::default() };
        let refused = GroupParameters::check(&sizes).unwrap_err().to_string();
        assert_eq!(refused, "a full group of 63 is smaller than the smallest group of 64");
        let policy =
            MaskingPolicy { group: 2_000, group_min: 3, corrupt: 0.4, dropouts: 0.25, ..MaskingPolicy::default() };
        let refused = GroupParameters::check(&policy).unwrap_err();
        let ParametersError::Degree { members, .. } = refused else { panic!("{refused}") };
        assert_eq!(GroupParameters::of(members, &policy), Err(refused));
        assert!((3..members).all(|members| GroupParameters::of(members, &policy).is_ok()), "{members} is the smallest");
    }

    #[test]
    fn in_a_small_group_two_thirds_of_the_others_give_a_secret() {
        for (members, threshold) in [(3, 2), (4, 2), (5, 3), (8, 5), (10, 6), (16, 10), (20, 13)] {
            let got = GroupParameters::of(members, &MaskingPolicy::default()).unwrap();
            assert_eq!((got.degree, got.threshold), (members - 1, threshold), "{members}");
        }
        let three = GroupParameters::of(3, &MaskingPolicy::default()).unwrap();
        assert_eq!((three.survivors_min, three.lost_max(), three.quorum), (3, 0, 2), "nobody may be lost");
    }

    #[test]
    fn floors_and_quorum_of_the_default_group() {
        let got = GroupParameters::of(128, &MaskingPolicy::default()).unwrap();
        assert_eq!((got.survivors_min, got.lost_max(), got.quorum, got.corrupt_max), (90, 38, 71, 12));
    }

    #[test]
    fn any_size_is_served_by_default_or_refused_with_the_numbers() {
        for members in 3..=1_100 {
            let got = GroupParameters::of(members, &MaskingPolicy::default()).unwrap();
            assert!(got.threshold <= got.degree && got.degree <= DEGREE_MAX && got.degree < members, "{got:?}");
            assert!(got.quorum <= got.survivors_min, "{got:?}");
            assert!(members >= EVERYBODY_BELOW || got.corrupt_max < got.threshold, "{got:?}");
            assert!(got.degree.is_multiple_of(2) || got.degree == members - 1, "{got:?}");
            assert!(2 * got.quorum > members + got.corrupt_max, "two sets reach the quorum: {got:?}");
        }
        let refused = |members, corrupt, dropouts| {
            GroupParameters::of(members, &policy(corrupt, dropouts)).unwrap_err().to_string()
        };
        assert_eq!(refused(2, 0.1, 0.3), "a group has at least 3 members, not 2");
        assert_eq!(
            refused(2_000, 0.4, 0.25),
            "no group of 2000 bears 800 corrupt and 500 lost members with at most 254 neighbours of each; lower corrupt \
             or dropouts, or enlarge the group"
        );
        assert_eq!(
            refused(100, 0.1, 0.5),
            "a group of 100 that loses 50 keeps 50 survivors, and 56 must sign so that 10 corrupt members cannot sign \
             two sets; lower corrupt or dropouts"
        );
        assert!(refused(10, 0.0, 0.4).starts_with("no group of 10 bears 0 corrupt and 4 lost members"));
    }
}
