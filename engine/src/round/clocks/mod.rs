//! Stale-synchronous parallel rounds (SSP, Ho et al. 2013): members with clocks, of which none runs too far ahead of
//! the slowest.
//!
//! A member's clock counts the updates that it has contributed. A member begins its next work while it is at most
//! `slack` ahead of the slowest member, so at every instant the fastest is at most `slack + 1` ahead. Updates count in
//! the sum that is open. A sum closes when it has as many updates as there are members. With a slack of 0 that is one
//! update of each: a synchronous round.
//!
//! A member leaves when its work ends without a report, or when it could begin but stays away for the time of a work. A
//! newcomer takes its place at the clock of the fastest member, so that it holds nobody up, and only while that member
//! may begin. A member waits for a newcomer only after it has contributed itself since the newcomer came. So newcomers
//! that die one after the other slow the others down, and never stop them.

use std::collections::BTreeMap;

use tributary_protocol::id::ClientId;
use tributary_protocol::job_file::Selection;
use tributary_protocol::seed::Seed;
use tributary_protocol::state::{JobState, Phase};

use crate::round::admit::Candidate;
use crate::round::buffer::{BufferFacts, next_buffer_step};
use crate::round::cohort::choose_cohort;
use crate::round::known::Known;
use crate::round::step::{BufferPolicy, Step, TaskPolicy, is_ahead, select};

/// A member of a stale-synchronous job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    pub client: ClientId,
    /// Updates that it has contributed, counted from the clock at which it came.
    pub clock: u32,
    /// Whether it has an open assignment.
    pub is_working: bool,
    /// Since when a driver misses it: it could begin its next work, and does not wait for it.
    pub missed_at_ms: Option<i64>,
}

/// The members of a job and their clocks.
#[derive(Clone, Debug)]
pub struct Clocks {
    slack: u32,
    members_max: u32,
    members: BTreeMap<ClientId, Member>,
}

/// What a driver does about members that stay away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Absence {
    /// Note that these members are missed from now on.
    Miss(Vec<ClientId>),
    /// These members have stayed away too long: they leave.
    Leave(Vec<ClientId>),
    /// Nothing before this time; none while nobody is missed.
    Until(Option<i64>),
}

impl Clocks {
    /// The clocks of a job with this policy; none without a slack.
    #[must_use]
    pub fn of(policy: &BufferPolicy, members: impl IntoIterator<Item = Member>) -> Option<Self> {
        let members = members.into_iter().map(|member| (member.client, member)).collect();
        policy.slack.map(|slack| Self { slack, members_max: policy.concurrency, members })
    }

    /// Number of members.
    #[must_use]
    pub fn members(&self) -> u32 {
        u32::try_from(self.members.len()).unwrap_or(u32::MAX)
    }

    /// How many updates close a sum whose goal is this.
    #[must_use]
    pub fn goal(&self, goal: u32) -> u32 {
        goal.min(self.members().max(1))
    }

    fn slowest(&self) -> u32 {
        self.members.values().map(|member| member.clock).min().unwrap_or(0)
    }

    fn fastest(&self) -> u32 {
        self.members.values().map(|member| member.clock).max().unwrap_or(0)
    }

    /// Whether a clock is not too far ahead for further work.
    #[must_use]
    pub fn is_within(&self, clock: u32) -> bool {
        clock - self.slowest().min(clock) <= self.slack
    }

    /// Whether a member may begin its next work.
    fn may_begin(&self, member: &Member) -> bool {
        !member.is_working && self.is_within(member.clock)
    }

    /// The clock at which a client may begin work now: a member at its own, a newcomer at that of the fastest member.
    #[must_use]
    pub fn entry(&self, client: ClientId) -> Option<u32> {
        match self.members.get(&client) {
            Some(member) => self.may_begin(member).then_some(member.clock),
            None => (self.members() < self.members_max && self.is_within(self.fastest())).then(|| self.fastest()),
        }
    }

    /// The eligible clients that begin work now: every member that may, and newcomers for the free places, drawn by the
    /// seed.
    #[must_use]
    pub fn starters(&self, eligible: Vec<Candidate>, seed: Seed) -> Vec<Candidate> {
        let may_begin = |candidate: &Candidate| self.entry(candidate.client).is_some();
        let (mut starters, newcomers): (Vec<_>, Vec<_>) =
            eligible.into_iter().filter(may_begin).partition(|candidate| self.members.contains_key(&candidate.client));
        let places = self.members_max.saturating_sub(self.members()) as usize;
        starters.extend(choose_cohort(newcomers, places, Selection::Uniform, &Known::default(), seed));
        starters
    }

    /// What is to be done about the members that could begin, when none of them waits for it and a work takes
    /// `length_ms` at most.
    #[must_use]
    pub fn absence(&self, length_ms: i64, now_ms: i64) -> Absence {
        let away = || self.members.values().filter(|member| self.may_begin(member));
        let ends_at_ms = |member: &Member| Some(member.missed_at_ms?.saturating_add(length_ms));
        let unnoted: Vec<_> =
            away().filter(|member| member.missed_at_ms.is_none()).map(|member| member.client).collect();
        if !unnoted.is_empty() {
            return Absence::Miss(unnoted);
        }
        let is_over = |member: &&Member| ends_at_ms(member).is_some_and(|at_ms| !is_ahead(at_ms, length_ms, now_ms));
        let gone: Vec<_> = away().filter(is_over).map(|member| member.client).collect();
        if !gone.is_empty() {
            return Absence::Leave(gone);
        }
        Absence::Until(away().filter_map(ends_at_ms).min())
    }
}

/// The next step of an open sum. While nobody is a member it selects, as a synchronous round does; `available` are the
/// eligible clients then, and later [`Clocks::starters`].
#[must_use]
pub fn next_clocked_step(
    policy: &TaskPolicy,
    buffer: &BufferPolicy,
    facts: &BufferFacts,
    clocks: &Clocks,
    opened_at_ms: i64,
    now_ms: i64,
) -> Step {
    let may_draw = facts.job == JobState::Running && facts.in_calendar && !facts.has_trained;
    match facts.phase {
        Phase::Selecting if may_draw => select(policy, facts.available, opened_at_ms, now_ms),
        _ => next_buffer_step(buffer, clocks.goal(policy.goal), facts),
    }
}

#[cfg(test)]
mod tests;
