//! What groups mean for their round: what counts, and whether the round waits.

use tributary_protocol::state::GroupStage;

use super::facts::GroupFacts;
use super::times::StageTimes;
use crate::round::wait::is_ahead;

/// The groups of a round in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Members that count for goal and minimum: the survivors of summed groups.
    pub reported: u32,
    /// Members of open groups that may still count. For the round they are at work.
    pub working: u32,
    /// Members that no longer can.
    pub lost: u32,
    pub open: Option<OpenGroups>,
}

/// The open groups of a round, as far as the round waits for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenGroups {
    /// When the last of them ends, if each stage takes its longest time.
    pub ends_at_ms: i64,
    /// The longest time of all stages of a group.
    pub stages_ms: i64,
}

impl Tally {
    /// Counts the groups of a round.
    pub fn of<'a>(groups: impl IntoIterator<Item = &'a GroupFacts>, times: &StageTimes) -> Self {
        let mut tally = Self::default();
        for group in groups {
            let may_count = match group.stage {
                GroupStage::Sharing => group.shared.saturating_add(group.awaited),
                GroupStage::Masking => group.whole.saturating_add(group.awaited),
                GroupStage::Agreeing | GroupStage::Unmasking | GroupStage::Summed => group.whole,
                GroupStage::Failed => 0,
            };
            let may_count = may_count.min(group.parameters.members);
            tally.lost += group.parameters.members - may_count;
            match group.stage {
                GroupStage::Summed | GroupStage::Failed => tally.reported += may_count,
                stage => {
                    tally.working += may_count;
                    let ends_at_ms = group.began_at_ms.saturating_add(times.rest_ms(stage));
                    let open = OpenGroups { ends_at_ms, stages_ms: times.rest_ms(GroupStage::Sharing) };
                    tally.open = tally.open.into_iter().chain([open]).max_by_key(|groups| groups.ends_at_ms);
                }
            }
        }
        tally
    }
}

impl OpenGroups {
    /// Until when a round waits for its open groups, once its deadline has passed; none if it waits no longer.
    ///
    /// No group forms after the deadline, so the round waits for at most the sum of the stages of one group, also where
    /// a coordinator that was restarted begins the time of a stage anew. Groups that are open after that fail with
    /// [`RoundEnded`](tributary_protocol::state::GroupFailure::RoundEnded).
    ///
    /// The next step of a round consults it in one line, between the wait for the deadline and what follows the
    /// deadline: `if let Some(at_ms) = round.open_groups.and_then(|groups| groups.outlast_ms(deadline_at_ms, now_ms))`.
    pub fn outlast_ms(&self, deadline_at_ms: i64, now_ms: i64) -> Option<i64> {
        let ends_at_ms = self.ends_at_ms.min(deadline_at_ms.saturating_add(self.stages_ms));
        is_ahead(ends_at_ms, self.stages_ms, now_ms).then_some(ends_at_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::round::masking::parameters::GroupParameters;
    use crate::round::masking::policy::MaskingPolicy;

    const TIMES: StageTimes = StageTimes { short_ms: 30_000, masking_ms: 80_000, is_signed: true };

    fn group(stage: GroupStage, began_at_ms: i64) -> GroupFacts {
        GroupFacts {
            stage,
            began_at_ms,
            stage_ms: TIMES.stage_ms(stage),
            parameters: GroupParameters::of(10, &MaskingPolicy::default()).unwrap(),
            group_min: 8,
            is_signed: true,
            over: None,
            awaited: 2,
            shared: 7,
            whole: 7,
            signed: 0,
            secrets: Vec::new(),
        }
    }

    #[test]
    fn members_of_summed_groups_count_and_those_of_open_ones_are_at_work() {
        use GroupStage::{Failed, Masking, Sharing, Summed, Unmasking};
        let groups = [group(Summed, 0), group(Failed, 0), group(Masking, 100), group(Unmasking, 0), group(Sharing, 5)];
        let tally = Tally::of(&groups, &TIMES);
        assert_eq!((tally.reported, tally.working, tally.lost), (7, 9 + 7 + 9, 3 + 10 + 1 + 3 + 1));
        assert_eq!(tally.open, Some(OpenGroups { ends_at_ms: 170_005, stages_ms: 170_000 }));
        assert_eq!(Tally::of(&[], &TIMES), Tally::default());
        assert_eq!(Tally::of(&groups[..2], &TIMES).open, None);
    }

    #[test]
    fn a_round_waits_for_its_open_groups_and_for_the_sum_of_their_stages_at_most() {
        let open = |ends_at_ms| OpenGroups { ends_at_ms, stages_ms: 170_000 };
        assert_eq!(open(700_000).outlast_ms(600_000, 600_000), Some(700_000));
        assert_eq!(open(700_000).outlast_ms(600_000, 700_000), None);
        assert_eq!(open(900_000).outlast_ms(600_000, 600_000), Some(770_000), "clocks that began anew");
        assert_eq!(open(900_000).outlast_ms(600_000, 770_000), None);
        assert_eq!(open(700_000).outlast_ms(600_000, 0), None, "the clock was set back by more than all stages");
    }
}
