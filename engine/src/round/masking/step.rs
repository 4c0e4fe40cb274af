//! The steps of a group: Sharing, Masking, Agreeing, Unmasking, Summed or Failed.

use tributary_protocol::state::{GroupFailure, GroupStage};

use super::facts::{GroupFacts, SecretFacts};
use crate::round::wait::is_ahead;

/// What is done to a group.
///
/// Each step but a wait changes the stage. The coordinator stores it where the stage is still the one of the facts, so
/// of two that decide on the same facts one acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupStep {
    /// Nothing before this time, in milliseconds since 1970, unless something changes.
    Wait { until_ms: i64 },
    /// Take no more shares. Members mask against those whose shares are here.
    Mask,
    /// Take no more bodies. The members whose bodies are whole are the survivors: the set is stored with this step, and
    /// never changes.
    Agree,
    /// Ask the survivors for shares. In a group that does not sign, this step stores the survivors.
    Unmask,
    /// Rebuild the secrets, and store the sum. A sum whose norm is too large is [`GroupFailure::Norm`] instead, and a
    /// secret that no shares give is noted in [`SecretFacts::is_false`].
    Sum,
    /// End without a sum.
    Fail(GroupFailure),
    /// The group has ended.
    Ended,
}

impl GroupStep {
    /// The stage that the group is in after the step; none if it stays in its own.
    pub fn leads_to(self) -> Option<GroupStage> {
        match self {
            Self::Wait { .. } | Self::Ended => None,
            Self::Mask => Some(GroupStage::Masking),
            Self::Agree => Some(GroupStage::Agreeing),
            Self::Unmask => Some(GroupStage::Unmasking),
            Self::Sum => Some(GroupStage::Summed),
            Self::Fail(_) => Some(GroupStage::Failed),
        }
    }
}

/// What is next for a group.
///
/// A stage ends as soon as nothing more can come, at the quorum in Agreeing, at the last secret in Unmasking, and else
/// when its time is up. A group fails as soon as it cannot reach what its stage needs.
pub fn next_group_step(facts: &GroupFacts, now_ms: i64) -> GroupStep {
    if facts.stage.is_final() {
        return GroupStep::Ended;
    }
    if let Some(over) = facts.over {
        return GroupStep::Fail(over.failure());
    }
    // No step leads to these facts. Whatever was stored, no masks are removed from the sum of too few.
    if facts.stage >= GroupStage::Agreeing && facts.whole < facts.parameters.survivors_min {
        return GroupStep::Fail(GroupFailure::TooFewSurvivors);
    }
    let stand = match facts.stage {
        GroupStage::Sharing => sharing(facts),
        GroupStage::Masking => masking(facts),
        GroupStage::Agreeing => agreeing(facts),
        GroupStage::Unmasking => unmasking(facts),
        GroupStage::Summed | GroupStage::Failed => return GroupStep::Ended,
    };
    let has_time = is_ahead(facts.ends_at_ms(), facts.stage_ms, now_ms);
    match stand.reach {
        Reach::Never => GroupStep::Fail(stand.failure),
        _ if has_time && !stand.is_complete => GroupStep::Wait { until_ms: facts.ends_at_ms() },
        Reach::Now => stand.next,
        Reach::Later => GroupStep::Fail(stand.failure),
    }
}

/// Where a stage stands.
struct Stand {
    reach: Reach,
    /// Whether a longer wait would improve nothing.
    is_complete: bool,
    /// Why the group fails where the stage does not get what it needs.
    failure: GroupFailure,
    next: GroupStep,
}

/// Whether what a stage needs is here.
#[derive(Clone, Copy)]
enum Reach {
    Now,
    Later,
    /// Not even if everything comes that may still come.
    Never,
}

impl Reach {
    fn of(here: u32, awaited: u32, needed: u32) -> Self {
        if here >= needed {
            Self::Now
        } else if here.saturating_add(awaited) >= needed {
            Self::Later
        } else {
            Self::Never
        }
    }
}

fn sharing(facts: &GroupFacts) -> Stand {
    Stand {
        reach: Reach::of(facts.shared, facts.awaited, facts.shared_min()),
        is_complete: facts.awaited == 0,
        failure: match facts.shared < facts.group_min {
            true => GroupFailure::TooFewMembers,
            false => GroupFailure::TooFewSurvivors,
        },
        next: GroupStep::Mask,
    }
}

fn masking(facts: &GroupFacts) -> Stand {
    Stand {
        reach: Reach::of(facts.whole, facts.awaited, facts.parameters.survivors_min),
        is_complete: facts.awaited == 0,
        failure: GroupFailure::TooFewSurvivors,
        next: if facts.is_signed { GroupStep::Agree } else { GroupStep::Unmask },
    }
}

fn agreeing(facts: &GroupFacts) -> Stand {
    let quorum = facts.parameters.quorum;
    Stand {
        reach: Reach::of(facts.signed, facts.awaited, quorum),
        is_complete: facts.signed >= quorum || facts.awaited == 0,
        failure: GroupFailure::TooFewSignatures,
        next: GroupStep::Unmask,
    }
}

fn unmasking(facts: &GroupFacts) -> Stand {
    let lacks_shares = |secret: &SecretFacts| secret.shares < facts.parameters.threshold;
    let is_short = (facts.secrets.len() as u64) < u64::from(facts.whole) || facts.secrets.iter().any(lacks_shares);
    let is_false = facts.secrets.iter().any(|secret| secret.is_false);
    Stand {
        reach: match (is_short || is_false, facts.awaited) {
            (false, _) => Reach::Now,
            (true, 1..) => Reach::Later,
            (true, 0) => Reach::Never,
        },
        is_complete: !is_short && !is_false,
        failure: if is_short { GroupFailure::TooFewShares } else { GroupFailure::FalseShares },
        next: GroupStep::Sum,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::round::masking::facts::RoundOver;
    use crate::round::masking::parameters::GroupParameters;
    use crate::round::masking::policy::MaskingPolicy;

    /// A group of 10 that bears 3 lost and 1 corrupt: at least 7 survive, 6 sign, 6 shares give a secret.
    fn group(stage: GroupStage, awaited: u32) -> GroupFacts {
        GroupFacts {
            stage,
            began_at_ms: 0,
            stage_ms: 30_000,
            parameters: GroupParameters::of(10, &MaskingPolicy::default()).unwrap(),
            group_min: 8,
            is_signed: true,
            over: None,
            awaited,
            shared: 0,
            whole: 0,
            signed: 0,
            secrets: Vec::new(),
        }
    }

    fn secrets(count: usize, shares: u32) -> Vec<SecretFacts> {
        vec![SecretFacts { shares, is_false: false }; count]
    }

    #[test]
    fn the_table_of_the_design() {
        use GroupFailure::{FalseShares, TooFewMembers, TooFewShares, TooFewSignatures, TooFewSurvivors};
        use GroupStage::{Agreeing, Masking, Sharing, Unmasking};
        use GroupStep::{Agree, Fail, Mask, Sum, Unmask};
        let (wait, long) = (GroupStep::Wait { until_ms: 30_000 }, 30_000);
        let sharing = |shared, awaited| GroupFacts { shared, ..group(Sharing, awaited) };
        let masking = |whole, awaited| GroupFacts { shared: 10, whole, ..group(Masking, awaited) };
        let agreeing = |signed, awaited| GroupFacts { shared: 10, whole: 8, signed, ..group(Agreeing, awaited) };
        let unmasking = |secrets, awaited| GroupFacts { shared: 10, whole: 8, secrets, ..group(Unmasking, awaited) };
        let lied_about = |shares| {
            let mut secrets = secrets(10, 6);
            secrets[3] = SecretFacts { shares, is_false: true };
            secrets
        };
        let honest = |whole| GroupFacts { is_signed: false, ..masking(whole, 0) };
        let cases = [
            ("all have shared", sharing(10, 0), 10, Mask),
            ("one is awaited", sharing(9, 1), 29_999, wait),
            ("one is late", sharing(9, 1), long, Mask),
            ("all that are left have shared", sharing(8, 0), 10, Mask),
            ("fewer than the minimum in time", sharing(7, 3), long, Fail(TooFewMembers)),
            ("the minimum is out of reach", sharing(4, 3), 10, Fail(TooFewMembers)),
            ("all bodies are whole", masking(10, 0), 10, Agree),
            ("a body is on its way", masking(9, 1), 29_999, wait),
            ("as many lost as are borne", masking(7, 3), long, Agree),
            ("one more is lost", masking(6, 4), long, Fail(TooFewSurvivors)),
            ("one more gives up", masking(5, 1), 10, Fail(TooFewSurvivors)),
            ("nobody signs in a group that trusts", honest(7), 10, Unmask),
            ("too few are too few in it, too", honest(6), 10, Fail(TooFewSurvivors)),
            ("the quorum is there", agreeing(6, 2), 10, Unmask),
            ("a signature is missing", agreeing(5, 3), 10, wait),
            ("a signature is missing, time is up", agreeing(5, 3), long, Fail(TooFewSignatures)),
            ("the quorum is out of reach", agreeing(3, 2), 10, Fail(TooFewSignatures)),
            ("every secret has its shares", unmasking(secrets(10, 6), 2), 10, Sum),
            ("every secret lacks a share", unmasking(secrets(10, 5), 2), 10, wait),
            ("no more shares come", unmasking(secrets(10, 5), 0), 10, Fail(TooFewShares)),
            ("a secret has no row", unmasking(secrets(7, 6), 1), long, Fail(TooFewShares)),
            ("a secret is false, and more shares may come", unmasking(lied_about(6), 1), 10, wait),
            ("a secret is false, time is up", unmasking(lied_about(6), 1), long, Fail(FalseShares)),
            ("a liar's share is one too few", unmasking(lied_about(5), 0), 10, Fail(TooFewShares)),
            ("the clock was set back by more than the time", sharing(9, 1), -30_001, Mask),
            ("the clock was set back by less than the time", sharing(9, 1), -30_000, wait),
        ];
        for (case, facts, now_ms, expected) in cases {
            assert_eq!(next_group_step(&facts, now_ms), expected, "{case}");
        }
    }

    #[test]
    fn a_group_that_may_lose_more_than_its_minimum_allows_needs_its_survivors() {
        let facts = GroupFacts { group_min: 3, shared: 6, ..group(GroupStage::Sharing, 0) };
        assert_eq!(next_group_step(&facts, 0), GroupStep::Fail(GroupFailure::TooFewSurvivors), "7 must survive");
        assert_eq!(next_group_step(&GroupFacts { shared: 7, ..facts }, 0), GroupStep::Mask);
    }

    #[test]
    fn a_stopped_job_and_a_closed_round_end_every_open_group() {
        for stage in GroupStage::ALL {
            for (over, failure) in
                [(RoundOver::Stopped, GroupFailure::Stopped), (RoundOver::Ended, GroupFailure::RoundEnded)]
            {
                let facts = GroupFacts { over: Some(over), secrets: secrets(10, 10), ..group(*stage, 0) };
                let expected = if stage.is_final() { GroupStep::Ended } else { GroupStep::Fail(failure) };
                assert_eq!(next_group_step(&facts, 0), expected, "{stage}: nothing is released");
            }
        }
    }

    #[test]
    fn no_group_is_unmasked_with_too_few_survivors_whatever_is_stored() {
        let facts = GroupFacts { shared: 10, whole: 6, signed: 6, ..group(GroupStage::Agreeing, 0) };
        assert_eq!(next_group_step(&facts, 0), GroupStep::Fail(GroupFailure::TooFewSurvivors));
        let facts = GroupFacts { secrets: secrets(10, 6), stage: GroupStage::Unmasking, ..facts };
        assert_eq!(next_group_step(&facts, 0), GroupStep::Fail(GroupFailure::TooFewSurvivors));
    }

    #[test]
    fn steps_lead_down_the_list_of_stages() {
        let steps = [GroupStep::Mask, GroupStep::Agree, GroupStep::Unmask, GroupStep::Sum];
        let stages = steps.map(|step| step.leads_to().unwrap());
        assert!(stages.windows(2).all(|pair| pair[0] < pair[1]), "{stages:?}");
        assert_eq!(GroupStep::Fail(GroupFailure::Norm).leads_to(), Some(GroupStage::Failed));
        assert_eq!((GroupStep::Ended.leads_to(), GroupStep::Wait { until_ms: 0 }.leads_to()), (None, None));
    }
}
