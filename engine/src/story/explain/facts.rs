//! The facts that explain a round.

use tributary_protocol::operator::{MemberClock, Round};

use crate::story::words::duration;

/// The facts that explain a round.
#[derive(Clone, Copy, Debug)]
pub struct RoundStory<'a> {
    pub round: &'a Round,
    /// While the round selects: eligible clients that wait now, and how many it needs.
    pub available: Option<(u32, u32)>,
    /// While a coded round selects: which parts are held too rarely.
    pub lacking: Option<&'a str>,
    /// While the round selects: when it is abandoned.
    pub selection_ends_at_ms: Option<i64>,
    /// The client whose accepted report came last, by number, and the time after the selection in milliseconds.
    pub slowest: Option<(u64, i64)>,
    /// While the round selects, or once it was abandoned while selecting: the enrolled clients whose attributes the job
    /// asks for.
    pub wanted: Option<Wanted<'a>>,
    /// While no coordinator drives the job.
    pub undriven: Option<Undriven<'a>>,
    /// The last change of coordinators while the round was open.
    pub takeover: Option<Takeover<'a>>,
    /// The members of a stale-synchronous job.
    pub clocks: &'a [MemberClock],
}

impl<'a> RoundStory<'a> {
    /// The story of a round of which no more is known than its own figures.
    pub fn of(round: &'a Round) -> Self {
        Self {
            round,
            available: None,
            lacking: None,
            selection_ends_at_ms: None,
            slowest: None,
            wanted: None,
            undriven: None,
            takeover: None,
            clocks: &[],
        }
    }
}

/// The enrolled clients that a round may draw by their attributes and example sets, whether they wait or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// As `role=evaluator`, or `the example set typing`; empty where any client will do.
    pub attributes: &'a str,
    pub matching: u64,
    pub enrolled: u64,
    /// What the enrolled clients have instead, as `android 8, ios 4, none 2`; empty where any attributes will do.
    pub present: &'a str,
}

impl Wanted<'_> {
    /// As `0 of 14 enrolled clients have platform=watch (android 8, ios 4, pi 2)`, where fewer than the minimum have
    /// it.
    /// None where any attributes will do, or enough clients have them.
    pub(in crate::story) fn words(&self, minimum: u32) -> Option<String> {
        let Self { attributes, matching, enrolled, present } = self;
        if attributes.is_empty() || *matching >= u64::from(minimum) {
            return None;
        }
        let have = if *matching == 1 { "has" } else { "have" };
        let present = if present.is_empty() { String::new() } else { format!(" ({present})") };
        Some(format!("{matching} of {enrolled} enrolled clients {have} {attributes}{present}"))
    }
}

/// A job whose coordinator does not renew its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undriven<'a> {
    /// The coordinator that has the lease.
    pub node: &'a str,
    pub seen_at_ms: i64,
    /// When another one may take the job over.
    pub expires_at_ms: i64,
}

/// A job changed hands because its coordinator died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Takeover<'a> {
    pub from: &'a str,
    pub to: &'a str,
    /// When the dead coordinator was last seen.
    pub seen_at_ms: i64,
    pub at_ms: i64,
}

impl Undriven<'_> {
    /// As `south was last seen 4 s ago, and another coordinator takes over in 6 s`.
    pub(in crate::story) fn words(&self, now_ms: i64) -> String {
        let Self { node, seen_at_ms, expires_at_ms } = self;
        let seen = duration(now_ms - seen_at_ms);
        match expires_at_ms - now_ms {
            left_ms @ 1.. => {
                format!("{node} was last seen {seen} ago, and another coordinator takes over in {}", duration(left_ms))
            }
            _ => format!("{node} was last seen {seen} ago, and no other coordinator has taken over"),
        }
    }
}
