//! What is counted per population: its rounds, its clients' assignments and check-ins.
//!
//! The handles of a population are made once, when it is first heard of; after that, counting is a look-up and an
//! addition.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use ::metrics::Counter;
use tributary_protocol::state::{AbandonReason, AssignmentState, Task};

use super::registry::Registry;
use super::table;
use crate::runtime::lock::SharedLock;

/// Populations that are told apart; further ones are counted together.
pub const POPULATIONS_MAX: usize = 100;
/// What stands for the further ones. No population can have this name.
const OTHERS: &str = "(others)";

/// How a round ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RoundEnd {
    /// With a result.
    Committed,
    /// Without one.
    Abandoned(AbandonReason),
}

/// What a check-in was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckInAnswer {
    /// Work.
    Assigned,
    /// It waited in vain.
    NothingCame,
    /// No job of its population runs.
    NoJob,
    /// The coordinator stops.
    Stopping,
}

/// What became of an assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AssignmentOutcome {
    /// It is in this state now. An expired one was needed, and is lost.
    Became(AssignmentState),
    /// It expired, and its work was needed no more.
    Spare,
    /// It had expired, and its client came back with the work.
    Late,
    /// It had expired, and its client stopped unfinished.
    Stopped,
}

/// The counters of one population.
#[derive(Debug)]
pub(super) struct Population {
    checkins: [Counter; CheckInAnswer::ALL.len()],
    tasks: [OfTask; Task::ALL.len()],
}

#[derive(Debug)]
struct OfTask {
    opened: Counter,
    committed: Counter,
    abandoned: [Counter; AbandonReason::ALL.len()],
    assignments: [Counter; AssignmentState::ALL.len()],
    spare: Counter,
    late: Counter,
    stopped: Counter,
}

/// The counters of all populations.
#[derive(Debug, Default)]
pub(super) struct Populations {
    known: RwLock<HashMap<String, Arc<Population>>>,
}

impl CheckInAnswer {
    const ALL: [Self; 4] = [Self::Assigned, Self::NothingCame, Self::NoJob, Self::Stopping];

    fn as_str(self) -> &'static str {
        match self {
            Self::Assigned => "assigned",
            Self::NothingCame => "nothing_came",
            Self::NoJob => "no_job",
            Self::Stopping => "stopping",
        }
    }
}

impl Populations {
    pub(super) fn of(&self, registry: &Registry, name: &str) -> Arc<Population> {
        let known = self.known.reading();
        if let Some(population) = known.get(name) {
            return Arc::clone(population);
        }
        let name = if known.len() < POPULATIONS_MAX { name } else { OTHERS };
        drop(known);
        let mut known = self.known.writing();
        let population = known.entry(name.to_owned()).or_insert_with(|| Arc::new(Population::new(registry, name)));
        Arc::clone(population)
    }
}

impl Population {
    fn new(registry: &Registry, name: &str) -> Self {
        Self {
            checkins: CheckInAnswer::ALL.map(|answer| registry.counter(&table::CHECKINS, &[name, answer.as_str()])),
            tasks: std::array::from_fn(|task| OfTask::new(registry, name, Task::ALL[task].as_str())),
        }
    }

    pub(super) fn checkin(&self, answer: CheckInAnswer) {
        self.checkins[answer as usize].increment(1);
    }

    pub(super) fn round_opened(&self, task: Task) {
        self.tasks[task as usize].opened.increment(1);
    }

    pub(super) fn round_ended(&self, task: Task, end: RoundEnd) {
        let of_task = &self.tasks[task as usize];
        match end {
            RoundEnd::Committed => of_task.committed.increment(1),
            RoundEnd::Abandoned(reason) => of_task.abandoned[reason as usize].increment(1),
        }
    }

    pub(super) fn assignment(&self, task: Task, outcome: AssignmentOutcome) {
        let of_task = &self.tasks[task as usize];
        match outcome {
            AssignmentOutcome::Became(state) => of_task.assignments[state as usize].increment(1),
            AssignmentOutcome::Spare => of_task.spare.increment(1),
            AssignmentOutcome::Late => of_task.late.increment(1),
            AssignmentOutcome::Stopped => of_task.stopped.increment(1),
        }
    }
}

impl OfTask {
    fn new(registry: &Registry, population: &str, task: &str) -> Self {
        let round = |outcome, reason| registry.counter(&table::ROUNDS, &[population, task, outcome, reason]);
        let assignment = |outcome| registry.counter(&table::ASSIGNMENTS, &[population, task, outcome]);
        Self {
            opened: registry.counter(&table::ROUNDS_OPENED, &[population, task]),
            committed: round("committed", "none"),
            abandoned: std::array::from_fn(|reason| round("abandoned", AbandonReason::ALL[reason].as_str())),
            assignments: std::array::from_fn(|state| assignment(outcome_word(AssignmentState::ALL[state]))),
            spare: assignment("spare"),
            late: assignment("late"),
            stopped: assignment("stopped"),
        }
    }
}

/// Expired assignments are told apart: these are lost, others were spare.
fn outcome_word(state: AssignmentState) -> &'static str {
    match state {
        AssignmentState::Expired => "lost",
        state => state.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use tributary_protocol::id::Name;

    use super::*;

    #[test]
    fn the_handles_stand_in_the_order_of_the_states() {
        assert!(Task::ALL.iter().enumerate().all(|(index, task)| *task as usize == index));
        assert!(AbandonReason::ALL.iter().enumerate().all(|(index, reason)| *reason as usize == index));
        assert!(AssignmentState::ALL.iter().enumerate().all(|(index, state)| *state as usize == index));
        assert!(CheckInAnswer::ALL.iter().enumerate().all(|(index, answer)| *answer as usize == index));
    }

    #[test]
    fn a_flood_of_populations_is_counted_together() {
        let (registry, populations) = (Registry::new(true), Populations::default());
        for number in 0..POPULATIONS_MAX + 50 {
            populations.of(&registry, &format!("p{number}")).checkin(CheckInAnswer::NoJob);
        }
        let text = registry.render().unwrap();
        let others = "tributary_checkins_total{population=\"(others)\",answer=\"no_job\"} 50";
        assert!(text.contains(others), "{text}");
        let series = text.lines().filter(|line| line.starts_with("tributary_checkins_total{")).count();
        assert_eq!(series, (POPULATIONS_MAX + 1) * CheckInAnswer::ALL.len());
        assert!(OTHERS.parse::<Name>().is_err(), "no population has this name");
    }
}
