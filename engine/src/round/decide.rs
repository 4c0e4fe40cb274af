//! The decision of a job: the one entry that says what it does next.
//!
//! The driver of a coordinator, the simulation and the tests read a [`JobView`], ask [`decide`], and perform the
//! answer. Nothing else composes the rules of rounds, so all of them play the same game.

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_protocol::id::ClientId;
use tributary_protocol::job_file::{JobFile, Selection};
use tributary_protocol::seed::Seed;
use tributary_protocol::state::{AbandonReason, Phase, Task};

use super::buffer::next_buffer_step;
use super::candidate::Candidate;
use super::clocks::{Absence, Clocks, next_clocked_step};
use super::coded::Coding;
use super::cohort::choose_cohort;
use super::draw::uniform;
use super::known::Known;
use super::panel::{choose_panel, gathers, next_panel_step};
use super::policy::Tempo;
use super::relay::places;
use super::schedule::{NextRound, Underway, gives_way, has_trained, next_round};
use super::step::{Next, Step, next_cohort_step, next_coordinator_step};
use super::view::{Context, JobView, OpenRound, OpenWork, Source};

/// What a job does next.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    Act(Act),
    Wait {
        /// Nothing is due before this time, in milliseconds since 1970, unless something changes.
        until_ms: Option<i64>,
        /// Nor before this many more clients wait; with 0, no client leads to an act.
        missing: u32,
    },
    /// The job has ended, and so have its rounds.
    Ended,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Take a step in the round at this place of [`JobView::rounds`].
    Round(usize, Step),
    /// Open a round with this number. An evaluation has the number of the training round whose model it evaluates.
    Open(Task, u32),
    /// The `[stop]` policy is met: the job is complete.
    Complete,
    /// End the assignments with terms of their own whose time is over.
    ExpireOverdue,
    /// End all assignments with terms of their own: no round opens in which they could count.
    ExpireLeft,
    /// Note that these members are missed from now on.
    Miss(Vec<ClientId>),
    /// Let these members go: they have stayed away too long.
    Dismiss(Vec<ClientId>),
}

/// Decides what a job does next.
pub fn decide(view: &JobView<'_>, now_ms: i64) -> Decision {
    let JobView { file, calendar, facts, rounds, work, .. } = *view;
    if facts.state.is_final() && rounds.is_empty() && work.is_none() {
        return Decision::Ended;
    }
    let underway = Underway::of(rounds);
    let has_trained = has_trained(file, facts);
    let is_done = has_trained || facts.state.is_final();
    if let Some(act) = work.and_then(|work| act_on_work(work, is_done, &underway, now_ms)) {
        return Decision::Act(act);
    }
    // The calendar of a buffered job limits its draws.
    let draws_from_ms = match calendar.filter(|_| file.round.mode.buffered().is_some()) {
        Some(calendar) => calendar.next_ms(now_ms),
        None => Some(now_ms),
    };
    let in_calendar = draws_from_ms.is_some_and(|from_ms| from_ms <= now_ms);
    let mut wait = Wait { until_ms: work.map(|work| work.ends_at_ms), missing: None };
    if !in_calendar {
        wait.at_most(draws_from_ms);
    }
    let context = Context { file, job: facts.state, has_trained, in_calendar, now_ms };
    for (place, round) in rounds.iter().enumerate() {
        let is_superseded = (round.task, round.phase) == (Task::Evaluate, Phase::Selecting)
            && gives_way(file, facts, &underway, round.number);
        let next = match is_superseded {
            true => RoundNext::step(place, Step::Abandon(AbandonReason::Superseded)),
            false => next_of_round(view, place, &context),
        };
        match next {
            RoundNext::Act(act) => return Decision::Act(act),
            RoundNext::Wait(round) => {
                wait.at_most(round.until_ms);
                wait.missing = wait.missing.into_iter().chain(round.missing).min();
            }
        }
    }
    match next_round(file, calendar, facts, &underway, now_ms) {
        NextRound::Wait => wait.decision(),
        NextRound::NotBefore(at_ms) => {
            wait.at_most(Some(at_ms));
            wait.decision()
        }
        NextRound::Open(task, number) => Decision::Act(Act::Open(task, number)),
        NextRound::Complete => Decision::Act(Act::Complete),
    }
}

/// What is waited for.
#[derive(Clone, Copy, Default)]
struct Wait {
    until_ms: Option<i64>,
    missing: Option<u32>,
}

impl Wait {
    /// Waits no longer than until this time.
    fn at_most(&mut self, until_ms: Option<i64>) {
        self.until_ms = self.until_ms.into_iter().chain(until_ms).min();
    }

    fn decision(self) -> Decision {
        Decision::Wait { until_ms: self.until_ms, missing: self.missing.unwrap_or(0) }
    }
}

enum RoundNext {
    Act(Act),
    Wait(Wait),
}

impl RoundNext {
    fn step(place: usize, step: Step) -> Self {
        Self::Act(Act::Round(place, step))
    }
}

/// What is next for an open round, its draw included.
fn next_of_round(view: &JobView<'_>, place: usize, context: &Context<'_>) -> RoundNext {
    let round = &view.rounds[place];
    let clocks = match round.policy.tempo {
        Tempo::Members { members_max, slack } => Some(Clocks::new(members_max, slack, view.members.iter().copied())),
        Tempo::Cohort | Tempo::Coordinator | Tempo::Panel { .. } | Tempo::Buffer { .. } => None,
    };
    let eligible = match (&round.source, &clocks) {
        (Source::Coordinator { .. }, _) => Vec::new(),
        (Source::Clients { eligible, .. }, Some(clocks)) if round.phase == Phase::Training => {
            clocks.starters(eligible.clone(), draw_seed(round))
        }
        (Source::Clients { eligible, .. }, _) => eligible.clone(),
    };
    let coded = Coding::of(view.file, view.code, round.policy.branch).filter(|_| round.task == Task::Train);
    let shared_out = match coded.filter(|_| round.phase == Phase::Selecting) {
        Some(coding) => coding.shared_out(eligible.clone(), draw_seed(round)),
        None => None,
    };
    // A coded round has all clients that it needs, or it waits.
    let available = match (coded, &shared_out) {
        (None, _) => places(&eligible),
        (Some(_), None) => 0,
        (Some(_), Some(cohort)) => u32::try_from(cohort.len()).unwrap_or(u32::MAX),
    };
    let next = match (&round.source, &clocks, round.policy.tempo) {
        (Source::Coordinator { has_test_set, is_under_way }, ..) => {
            next_coordinator_step(round.phase, context.job, *has_test_set, *is_under_way)
        }
        (_, Some(clocks), _) => next_clocked_step(round, clocks, available, context),
        (_, None, Tempo::Buffer { concurrency, .. }) => {
            next_buffer_step(round, concurrency, round.policy.goal, available, context)
        }
        (_, None, Tempo::Panel { expected, gather_ms, .. }) => {
            next_panel_step(round, expected, gather_ms, available, context)
        }
        (_, None, _) => next_cohort_step(round, available, context),
    };
    let next = match (next, shared_out) {
        (Next::Draw(_), Some(cohort)) => Next::Step(Step::Draw(cohort)),
        (next, _) => next,
    };
    match next {
        Next::Step(step) => RoundNext::step(place, step),
        Next::Draw(_) if round.task == Task::Train && samples(context.file) => {
            RoundNext::step(place, sampled(round, eligible, context.file))
        }
        Next::Draw(clients) => RoundNext::step(place, Step::Draw(drawn(round, eligible, clients, context.file))),
        Next::Wait(until_ms) => {
            let draws = round.policy.draws(round.phase, round.working) && gathers(round, context.now_ms);
            // Which clients a coded round lacks cannot be told by their number.
            let missing = draws.then(|| if coded.is_some() { 1 } else { round.policy.missing(available) });
            let wait = Wait { until_ms, missing };
            let draws = context.may_draw() && round.phase == Phase::Training;
            match clocks.filter(|_| draws).map(|clocks| clocks.absence(round.policy.deadline_ms, context.now_ms)) {
                None => RoundNext::Wait(wait),
                Some(Absence::Until(at_ms)) => RoundNext::Wait(Wait { until_ms: at_ms, ..wait }),
                Some(Absence::Miss(clients)) => RoundNext::Act(Act::Miss(clients)),
                Some(Absence::Leave(clients)) => RoundNext::Act(Act::Dismiss(clients)),
            }
        }
    }
}

/// Draws this many clients. A draw can be repeated from what is stored: it depends on the seed, on who waits, and on
/// what is known of them.
fn drawn(round: &OpenRound, eligible: Vec<Arc<Candidate>>, clients: u32, file: &JobFile) -> Vec<Arc<Candidate>> {
    if let Tempo::Panel { .. } = round.policy.tempo {
        let job_seed = file.seed.expect("a stored job has a seed");
        return choose_panel(eligible, clients as usize, job_seed);
    }
    let selection = match round.task {
        Task::Train => file.round.selection,
        Task::Evaluate | Task::Describe => Selection::Uniform,
    };
    let reports = match &round.source {
        Source::Clients { reports, .. } => reports.iter().copied().collect(),
        Source::Coordinator { .. } => BTreeMap::new(),
    };
    let known = Known { round: round.number, reports };
    choose_cohort(eligible, clients as usize, selection, &known, draw_seed(round))
}

/// Whether the promise of a private job counts on its draws.
fn samples(file: &JobFile) -> bool {
    file.privacy.as_ref().is_some_and(|privacy| privacy.sampling.is_some())
}

/// A draw on which the promise of a private job counts: a coin for each of as many clients as the divisor assumes. One
/// that takes more than a round may have comes to nothing: leaving some out would tell of the others' coins.
fn sampled(round: &OpenRound, mut eligible: Vec<Arc<Candidate>>, file: &JobFile) -> Step {
    eligible.sort_by_key(|candidate| (candidate.number, candidate.client));
    let tossed = (round.policy.available_min as usize).min(eligible.len());
    uniform(&mut eligible, tossed, &mut draw_seed(round).derive("available", 0).stream());
    let size = eligible.len();
    let cohort = choose_cohort(eligible, size, file.round.selection, &Known::default(), draw_seed(round));
    match cohort.len() > round.policy.cohort_size as usize {
        true => Step::Abandon(AbandonReason::Overdrawn),
        false => Step::Draw(cohort),
    }
}

/// The seed of the next draw.
fn draw_seed(round: &OpenRound) -> Seed {
    match round.drawn {
        0 => round.seed,
        drawn => round.seed.derive("draw", drawn.into()),
    }
}

/// What is to be done about assignments with terms of their own. Those of a job that opens no further training round
/// cannot count.
fn act_on_work(work: OpenWork, is_done: bool, underway: &Underway, now_ms: i64) -> Option<Act> {
    if is_done && !underway.training {
        Some(Act::ExpireLeft)
    } else {
        (now_ms >= work.ends_at_ms || now_ms < work.begins_at_ms).then_some(Act::ExpireOverdue)
    }
}
