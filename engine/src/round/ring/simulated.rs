//! Random histories of the groups of one round.
//!
//! Goal: every round ends with one sum or the star, in time, and no sum comes without a majority that has it. Method:
//! members finish, die, stall, lie and come back at random; steps are taken as the coordinator takes them.

use proptest::prelude::*;
use tributary_protocol::hash::Sha256Hash;

use super::facts::{Agreement, AttemptFacts, RingFacts};
use super::policy::RingPolicy;
use super::step::{RingStep, next_ring_step};

/// What happens to a member next.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// It has finished, or comes back after an attempt.
    Ready,
    /// It has the sum of its attempt: the right one, or another one.
    Sum {
        lies: bool,
    },
    /// It cannot go on.
    Stall,
    Dies,
    /// It was asked for the sum, and brings it.
    Brings,
}

#[derive(Clone, Copy, Debug, Default)]
struct Member {
    is_ready: bool,
    is_dead: bool,
    in_attempt: bool,
    outcome: Option<bool>,
    stalled: bool,
    asked: bool,
}

/// A round as the coordinator stores it.
#[derive(Debug)]
struct Round {
    policy: RingPolicy,
    members: Vec<Member>,
    attempts: u32,
    failed_at_ms: i64,
    open: Option<Option<i64>>,
    outcome_at_ms: i64,
    star: bool,
    counted: u32,
    now_ms: i64,
}

fn sum(lies: bool) -> Sha256Hash {
    Sha256Hash([u8::from(lies); 32])
}

impl Round {
    fn attempt(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.in_attempt)
    }

    fn count(members: impl Iterator<Item = bool>) -> u32 {
        members.filter(|is_one| *is_one).count() as u32
    }

    fn facts(&self) -> RingFacts {
        let size = self.attempt().count() as u32;
        let outcomes =
            [false, true].map(|lies| (sum(lies), Self::count(self.attempt().map(|m| m.outcome == Some(lies)))));
        let alive = |member: &&Member| !member.is_dead;
        let may_bring = |member: &Member| !member.is_dead && member.outcome == Some(false) && !member.asked;
        RingFacts {
            is_star: self.star,
            is_counted: self.counted > 0,
            attempts: self.attempts,
            ready: Self::count(self.members.iter().filter(alive).map(|member| member.is_ready)),
            awaited: Self::count(
                self.members
                    .iter()
                    .filter(alive)
                    .map(|member| !member.is_ready && (self.attempts == 0 || member.in_attempt)),
            ),
            failed_at_ms: self.failed_at_ms,
            open: self.open.map(|agreed_at_ms| AttemptFacts {
                members: size,
                gone: Self::count(self.attempt().map(|member| member.is_dead && member.outcome.is_none())),
                is_stalled: self.attempt().any(|member| member.stalled),
                outcomes: outcomes.into_iter().filter(|(_, count)| *count > 0).collect(),
                outcome_at_ms: self.outcome_at_ms,
                agreed: agreed_at_ms
                    .map(|since_ms| Agreement { since_ms, others: Self::count(self.attempt().map(may_bring)) }),
            }),
        }
    }

    fn happens(&mut self, place: usize, event: Event) {
        let (is_open, agreed) = (self.open.is_some(), matches!(self.open, Some(Some(_))));
        let member = &mut self.members[place];
        match event {
            _ if member.is_dead => {}
            Event::Dies => member.is_dead = true,
            Event::Ready if !is_open || !member.in_attempt => member.is_ready = true,
            Event::Sum { lies } if is_open && member.in_attempt && member.outcome.is_none() => {
                member.outcome = Some(lies);
                self.outcome_at_ms = self.now_ms;
            }
            Event::Stall if is_open && member.in_attempt => member.stalled = true,
            Event::Brings if agreed && member.asked && !self.star => {
                assert_eq!(member.outcome, Some(false));
                self.counted = self.attempt().count() as u32;
            }
            _ => {}
        }
    }

    fn ask(&mut self) {
        let next = self.members.iter_mut();
        let mut next = next
            .filter(|member| member.in_attempt && !member.is_dead && member.outcome == Some(false) && !member.asked);
        if let Some(member) = next.next() {
            member.asked = true;
        }
        self.open = Some(Some(self.now_ms));
    }

    /// Takes a step. False when there is nothing to do now.
    fn step(&mut self) -> bool {
        let facts = self.facts();
        match next_ring_step(&self.policy, &facts, self.now_ms) {
            RingStep::Ended => return false,
            RingStep::Wait { until_ms } => {
                assert!(until_ms > self.now_ms && until_ms <= self.policy.star_from_ms, "{facts:?}");
                return false;
            }
            RingStep::Form => {
                assert!(self.open.is_none() && !self.star && facts.ready >= self.policy.members_min, "{facts:?}");
                self.attempts += 1;
                for member in &mut self.members {
                    let in_attempt = member.is_ready && !member.is_dead;
                    *member = Member { in_attempt, is_dead: member.is_dead, ..Member::default() };
                }
                (self.open, self.outcome_at_ms) = (Some(None), i64::MAX);
            }
            RingStep::Fail | RingStep::Reject(_) => (self.open, self.failed_at_ms) = (None, self.now_ms),
            RingStep::Agree(agreed) => {
                let has = Self::count(self.attempt().map(|member| member.outcome.map(sum) == Some(agreed)));
                assert!(2 * has > self.attempt().count() as u32, "{facts:?}");
                // Liars may be the majority; then nobody brings the right sum, and the rest of the play is theirs.
                if agreed == sum(true) {
                    self.members.iter_mut().for_each(|member| member.outcome = member.outcome.map(|lies| !lies));
                }
                self.ask();
            }
            RingStep::NextUploader => self.ask(),
            RingStep::Star(_) => (self.open, self.star) = (None, true),
        }
        true
    }
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => Just(Event::Ready),
        4 => Just(Event::Sum { lies: false }),
        1 => Just(Event::Sum { lies: true }),
        1 => Just(Event::Stall),
        1 => Just(Event::Dies),
        2 => Just(Event::Brings),
    ]
}

proptest! {
    #[test]
    fn every_round_ends_with_one_sum_or_the_star(
        members in 2usize..9, goal in 2u32..9, attempts in 1u32..4,
        events in prop::collection::vec((0usize..8, event(), 0i64..4_000), 0..120),
    ) {
        let policy = RingPolicy {
            goal, members_min: 2, form_by_ms: 60_000, star_from_ms: 80_000, attempts, frame_ms: 3_000, upload_ms: 5_000,
        };
        let mut round = Round {
            policy, members: vec![Member::default(); members], attempts: 0, failed_at_ms: 0, open: None,
            outcome_at_ms: i64::MAX, star: false, counted: 0, now_ms: 0,
        };
        let mut steps = 0;
        for (place, event, passes_ms) in events {
            round.now_ms += passes_ms;
            round.happens(place % members, event);
            while round.step() {
                steps += 1;
                prop_assert!(steps < 200, "{round:?}");
            }
            prop_assert!(round.attempts <= attempts && !(round.star && round.counted > 0), "{round:?}");
        }
        // Whatever happened, the time for groups ends.
        round.now_ms = round.now_ms.max(policy.star_from_ms);
        while round.step() {}
        prop_assert!(round.star != (round.counted > 0), "{round:?}");
    }
}
