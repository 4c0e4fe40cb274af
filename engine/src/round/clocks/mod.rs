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
use std::sync::Arc;

use tributary_protocol::id::ClientId;
use tributary_protocol::job_file::Selection;
use tributary_protocol::seed::Seed;
use tributary_protocol::state::Phase;

use crate::round::buffer::next_buffer_step;
use crate::round::candidate::Candidate;
use crate::round::cohort::choose_cohort;
use crate::round::known::Known;
use crate::round::member::Member;
use crate::round::step::{Next, select};
use crate::round::view::{Context, OpenRound};
use crate::round::wait::is_ahead;

/// The members of a job and their clocks.
#[derive(Clone, Debug)]
pub struct Clocks {
    slack: u32,
    members_max: u32,
    members: BTreeMap<ClientId, Member>,
}

/// What is done about members that stay away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Absence {
    /// Note that these members are missed from now on.
    Miss(Vec<ClientId>),
    /// These members have stayed away too long: they leave.
    Leave(Vec<ClientId>),
    /// Nothing before this time; none while nobody is missed.
    Until(Option<i64>),
}

impl Clocks {
    /// The clocks of a job that has at most this many members.
    pub fn new(members_max: u32, slack: u32, members: impl IntoIterator<Item = Member>) -> Self {
        let members = members.into_iter().map(|member| (member.client, member)).collect();
        Self { slack, members_max, members }
    }

    /// Number of members.
    pub fn members(&self) -> u32 {
        u32::try_from(self.members.len()).unwrap_or(u32::MAX)
    }

    fn slowest(&self) -> u32 {
        self.members.values().map(|member| member.clock).min().unwrap_or(0)
    }

    fn fastest(&self) -> u32 {
        self.members.values().map(|member| member.clock).max().unwrap_or(0)
    }

    /// Whether a clock is not too far ahead for further work.
    pub fn is_within(&self, clock: u32) -> bool {
        clock - self.slowest().min(clock) <= self.slack
    }

    /// Whether a member may begin its next work.
    fn may_begin(&self, member: &Member) -> bool {
        !member.is_working && self.is_within(member.clock)
    }

    /// The clock at which a client may begin work now: a member at its own, a newcomer at that of the fastest member.
    pub fn entry(&self, client: ClientId) -> Option<u32> {
        match self.members.get(&client) {
            Some(member) => self.may_begin(member).then_some(member.clock),
            None => (self.members() < self.members_max && self.is_within(self.fastest())).then(|| self.fastest()),
        }
    }

    /// The eligible clients that begin work now: every member that may, and newcomers for the free places, drawn by the
    /// seed.
    pub(super) fn starters(&self, eligible: Vec<Arc<Candidate>>, seed: Seed) -> Vec<Arc<Candidate>> {
        let may_begin = |candidate: &Arc<Candidate>| self.entry(candidate.client).is_some();
        let (mut starters, newcomers): (Vec<_>, Vec<_>) =
            eligible.into_iter().filter(may_begin).partition(|candidate| self.members.contains_key(&candidate.client));
        let places = self.members_max.saturating_sub(self.members()) as usize;
        starters.extend(choose_cohort(newcomers, places, Selection::Uniform, &Known::default(), seed));
        starters
    }

    /// What is to be done about the members that could begin, when none of them waits for it and a work takes
    /// `length_ms` at most.
    pub(super) fn absence(&self, length_ms: i64, now_ms: i64) -> Absence {
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

/// What is next for an open sum. While nobody is a member it selects, as a synchronous round does; `available` are the
/// eligible clients then, and later [`Clocks::starters`].
pub(super) fn next_clocked_step(round: &OpenRound, clocks: &Clocks, available: u32, context: &Context<'_>) -> Next {
    match round.phase {
        Phase::Selecting if context.may_draw() && !context.has_trained => {
            select(&round.policy, available, round.opened_at_ms, context.now_ms)
        }
        _ => next_buffer_step(round, clocks.members_max, round.policy.goal_with(clocks.members()), available, context),
    }
}

#[cfg(test)]
mod tests;
