//! The steps of the groups of a round: form, agree, try again, star.

use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::state::StarReason;

use super::facts::{AttemptFacts, RingFacts};
use super::policy::RingPolicy;

/// What is done next. The coordinator stores a step where state and attempt are still those of the facts, so of two
/// that decide on the same facts one acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingStep {
    /// Nothing before this time, in milliseconds since 1970, unless something changes.
    Wait { until_ms: i64 },
    /// A group forms of the members that are ready.
    Form,
    /// The open attempt ends without a sum, because a member could not go on.
    Fail,
    /// The open attempt ends without a sum, and the members that have another one than this are rejected.
    Reject(Sha256Hash),
    /// Members agree on this sum: one of them is asked for it.
    Agree(Sha256Hash),
    /// Another member is asked for the sum.
    NextUploader,
    /// Members send their own updates.
    Star(StarReason),
    /// There is nothing to do any more.
    Ended,
}

/// What is next for the groups of a round that trains.
#[must_use]
pub fn next_ring_step(policy: &RingPolicy, facts: &RingFacts, now_ms: i64) -> RingStep {
    if facts.is_star || facts.is_counted {
        return RingStep::Ended;
    }
    if now_ms >= policy.star_from_ms {
        return RingStep::Star(StarReason::Time);
    }
    let step = match &facts.open {
        Some(attempt) => of_attempt(policy, attempt, now_ms),
        None if facts.attempts >= policy.attempts => RingStep::Star(StarReason::Attempts),
        None => of_gathering(policy, facts, now_ms),
    };
    match step {
        RingStep::Wait { until_ms } => RingStep::Wait { until_ms: until_ms.min(policy.star_from_ms) },
        step => step,
    }
}

/// Whether a group forms of those that are ready.
fn of_gathering(policy: &RingPolicy, facts: &RingFacts, now_ms: i64) -> RingStep {
    let until_ms = match facts.attempts {
        0 => policy.form_by_ms,
        // Those that live come back as soon as they notice: after one silence at the latest, and calls take a while.
        _ => facts.failed_at_ms.saturating_add(2 * policy.frame_ms),
    };
    let is_enough = facts.ready >= policy.members_min;
    let is_full = facts.attempts == 0 && facts.ready >= policy.goal;
    match (is_enough, facts.awaited == 0 || is_full || now_ms >= until_ms) {
        (true, true) => RingStep::Form,
        (false, _) if facts.ready.saturating_add(facts.awaited) < policy.members_min => {
            RingStep::Star(StarReason::TooFew)
        }
        // Before the first attempt others may finish until the star begins.
        (false, true) if facts.attempts > 0 => RingStep::Star(StarReason::TooFew),
        (false, true) => RingStep::Wait { until_ms: policy.star_from_ms },
        (_, false) => RingStep::Wait { until_ms },
    }
}

fn of_attempt(policy: &RingPolicy, attempt: &AttemptFacts, now_ms: i64) -> RingStep {
    if let Some(agreement) = attempt.agreed {
        let until_ms = agreement.since_ms.saturating_add(policy.upload_ms);
        return match (now_ms >= until_ms, agreement.others) {
            (false, _) => RingStep::Wait { until_ms },
            (true, 0) => RingStep::Fail,
            (true, _) => RingStep::NextUploader,
        };
    }
    let told: u32 = attempt.outcomes.iter().map(|(_, count)| count).sum();
    let most = attempt.outcomes.iter().max_by_key(|(_, count)| *count);
    let agreeing = most.filter(|(_, count)| *count >= RingPolicy::agree(attempt.members));
    // Those that have the sum and are lost before they say so are in it.
    let waits_until_ms = attempt.outcome_at_ms.saturating_add(policy.frame_ms);
    let is_all = told.saturating_add(attempt.gone) >= attempt.members || now_ms >= waits_until_ms;
    match agreeing {
        Some((sha256, count)) if *count == told && is_all => RingStep::Agree(*sha256),
        Some((sha256, _)) if is_all => RingStep::Reject(*sha256),
        Some(_) => RingStep::Wait { until_ms: waits_until_ms },
        None if attempt.is_stalled || attempt.gone > 0 => RingStep::Fail,
        None if told >= attempt.members => RingStep::Star(StarReason::Disagreement),
        None => RingStep::Wait { until_ms: policy.star_from_ms },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::round::ring::facts::Agreement;

    const POLICY: RingPolicy = RingPolicy {
        goal: 5,
        members_min: 3,
        form_by_ms: 60_000,
        star_from_ms: 80_000,
        attempts: 2,
        frame_ms: 10_000,
        upload_ms: 11_000,
    };

    fn ready(ready: u32, awaited: u32) -> RingFacts {
        RingFacts { ready, awaited, ..RingFacts::default() }
    }

    fn again(ready: u32, awaited: u32) -> RingFacts {
        RingFacts { ready, awaited, attempts: 1, failed_at_ms: 30_000, ..RingFacts::default() }
    }

    fn open(attempt: AttemptFacts) -> RingFacts {
        RingFacts { attempts: 1, open: Some(attempt), ..RingFacts::default() }
    }

    fn attempt(outcomes: &[(u8, u32)]) -> AttemptFacts {
        let outcomes = outcomes.iter().map(|(byte, count)| (Sha256Hash([*byte; 32]), *count)).collect();
        AttemptFacts { members: 5, gone: 0, is_stalled: false, outcomes, outcome_at_ms: 20_000, agreed: None }
    }

    #[test]
    fn the_table_of_the_design() {
        use RingStep::{Agree, Ended, Fail, Form, NextUploader, Reject, Star, Wait};
        use StarReason::{Attempts, Disagreement, Time, TooFew};
        let hash = Sha256Hash([1; 32]);
        let stalled = |outcomes| open(AttemptFacts { is_stalled: true, ..attempt(outcomes) });
        let gone = |outcomes| open(AttemptFacts { gone: 1, ..attempt(outcomes) });
        let agreed = |others| {
            let agreed = Some(Agreement { since_ms: 20_000, others });
            open(AttemptFacts { agreed, ..attempt(&[(1, 5)]) })
        };
        let cases = [
            ("the goal is ready", ready(5, 2), 1, Form),
            ("nobody else comes", ready(3, 0), 1, Form),
            ("one more trains", ready(4, 1), 1, Wait { until_ms: 60_000 }),
            ("one more trains, time to form", ready(4, 1), 60_000, Form),
            ("too few in time, others train", ready(2, 3), 60_000, Wait { until_ms: 80_000 }),
            ("too few will ever be", ready(1, 1), 1, Star(TooFew)),
            ("the star is due", ready(5, 0), 80_000, Star(Time)),
            ("survivors are awaited", again(3, 1), 30_001, Wait { until_ms: 50_000 }),
            ("all survivors are back", again(3, 0), 30_001, Form),
            ("one never comes back", again(4, 1), 50_000, Form),
            ("too few come back", again(2, 1), 50_000, Star(TooFew)),
            ("attempts are used up", RingFacts { attempts: 2, ..again(5, 0) }, 40_000, Star(Attempts)),
            ("members add up", open(attempt(&[])), 20_001, Wait { until_ms: 80_000 }),
            ("all have the same sum", open(attempt(&[(1, 5)])), 20_001, Agree(hash)),
            ("a majority has it", open(attempt(&[(1, 3)])), 20_001, Wait { until_ms: 30_000 }),
            ("a majority has it, the rest is silent", open(attempt(&[(1, 3)])), 30_000, Agree(hash)),
            ("a majority has it, the rest is gone", gone(&[(1, 4)]), 20_001, Agree(hash)),
            ("a stall after the majority changes nothing", stalled(&[(1, 4)]), 20_001, Wait { until_ms: 30_000 }),
            ("a stall before it", stalled(&[(1, 2)]), 20_001, Fail),
            ("a member gives up before it", gone(&[]), 20_001, Fail),
            ("one has another sum", open(attempt(&[(1, 4), (2, 1)])), 20_001, Reject(hash)),
            ("no majority", open(attempt(&[(1, 2), (2, 2), (3, 1)])), 20_001, Star(Disagreement)),
            ("the sum is on its way", agreed(4), 30_999, Wait { until_ms: 31_000 }),
            ("its bringer is silent", agreed(4), 31_000, NextUploader),
            ("all bringers were silent", agreed(0), 31_000, Fail),
            ("the star goes on", RingFacts { is_star: true, ..ready(5, 0) }, 1, Ended),
            ("the sum is stored", RingFacts { is_counted: true, ..agreed(4) }, 90_000, Ended),
        ];
        for (case, facts, now_ms, expected) in cases {
            assert_eq!(next_ring_step(&POLICY, &facts, now_ms), expected, "{case}");
        }
    }
}
