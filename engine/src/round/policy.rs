//! The policy of a round, which is stored with it.

use serde::{Deserialize, Serialize};
use tributary_protocol::coded_tree::Branch;
use tributary_protocol::job_file::{EvaluationPlace, EvaluationPolicy, JobFile, Mode};
use tributary_protocol::operator::{Adapted, AdaptedGoal};
use tributary_protocol::plan::Training;
use tributary_protocol::state::{JobState, Phase, Task};

use super::proximal::Proximal;

/// The share of its time, as a divisor, for which a relay's part of a round waits for clients that have left.
const PART_SELECTION: i64 = 10;

/// The policy of a round; training and evaluation have one each. It is stored with the round, so a change of the job's
/// policy affects only later rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskPolicy {
    pub tempo: Tempo,
    /// Number of reports that closes a round before its deadline.
    pub goal: u32,
    /// Number of reports without which the deadline abandons the round.
    pub minimum: u32,
    /// Number of clients in a full cohort.
    pub cohort_size: u32,
    /// Number of clients that must be available before a cohort is drawn.
    pub available_min: u32,
    /// Longest wait for available clients.
    pub selection_timeout_ms: i64,
    /// Time from the draw of the cohort until the round closes; in a buffer, from the draw of each client until its
    /// assignment expires.
    pub deadline_ms: i64,
    /// Where deadline and cohort follow from the times of the rounds before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapted: Option<Adapted>,
    /// Where the goal follows from the diversity of the rounds before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapted_goal: Option<AdaptedGoal>,
    /// Weight of FedProx's proximal term in a training round, where it adapts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proximal: Option<Proximal>,
    /// Norm to which the updates of a training round are clipped, where it adapts or the job hides updates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clip_norm: Option<f64>,
    /// Whether no single update may be known: nothing that a client reports of its own is kept, and draws are secret.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_private: bool,
    /// Clients of the whole round, where this is the part of a relay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part_of: Option<u32>,
    /// The place in a coded tree, where this is the part of a relay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<Branch>,
}

/// When the reports of a round meet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Tempo {
    /// The clients are drawn together and have one deadline.
    #[default]
    Cohort,
    /// The coordinator evaluates, without clients.
    Coordinator,
    /// Every client that may evaluate and is here, up to the cohort's size.
    Panel {
        /// Number of reports that shows that nobody is missing.
        expected: u32,
        /// How long the round draws clients that come, in milliseconds.
        gather_ms: i64,
        /// Whether those that made the model are expected, and not as many as came the last time.
        makers: bool,
    },
    /// A buffer: clients are drawn one by one, and their assignments outlast the round. Its size is the goal.
    Buffer {
        /// Most clients that work at a time.
        concurrency: u32,
        /// Largest number of versions that an update may be behind.
        staleness_max: u32,
    },
    /// A buffer of members with clocks: a stale-synchronous job.
    Members {
        members_max: u32,
        /// How far members may be ahead of the slowest when they begin.
        slack: u32,
    },
}

impl Tempo {
    pub fn of(mode: Mode) -> Self {
        match mode {
            Mode::Synchronous => Self::Cohort,
            Mode::Buffered { concurrency, staleness_max, .. } => Self::Buffer { concurrency, staleness_max },
            Mode::StaleSynchronous { members, slack } => Self::Members { members_max: members, slack },
        }
    }

    /// Whether the round is a buffer: its assignments have terms of their own, and outlast it.
    pub fn is_buffer(&self) -> bool {
        self.concurrency().is_some()
    }

    /// Most clients that work at a time in a buffer.
    pub fn concurrency(&self) -> Option<u32> {
        match *self {
            Self::Cohort | Self::Coordinator | Self::Panel { .. } => None,
            Self::Buffer { concurrency, .. } => Some(concurrency),
            Self::Members { members_max, .. } => Some(members_max),
        }
    }

    /// Largest number of versions that an update may be behind, where nothing else bounds it: the slack bounds it for
    /// members.
    pub fn staleness_max(&self) -> Option<u32> {
        match *self {
            Self::Buffer { staleness_max, .. } => Some(staleness_max),
            Self::Cohort | Self::Coordinator | Self::Panel { .. } | Self::Members { .. } => None,
        }
    }

    /// Whether an update on this version can no longer count once this version is the newest.
    pub fn is_too_stale(&self, base_version: u32, newest: u32) -> bool {
        self.staleness_max().is_some_and(|most| staleness(base_version, newest) > most)
    }

    /// Whether a training round may open in a job of this state. A buffer of a paused job takes the updates that are on
    /// their way.
    pub fn opens_in(&self, state: JobState) -> bool {
        state == JobState::Running || (state == JobState::Paused && self.is_buffer())
    }
}

/// Versions between the base of an update and the version from which the buffer that it counts in starts.
pub fn staleness(base_version: u32, newest: u32) -> u32 {
    newest.saturating_sub(base_version)
}

impl TaskPolicy {
    #[cfg(test)]
    pub(super) const COHORT: Self = Self {
        tempo: Tempo::Cohort,
        goal: 0,
        minimum: 0,
        cohort_size: 0,
        available_min: 0,
        selection_timeout_ms: 0,
        deadline_ms: 0,
        adapted: None,
        adapted_goal: None,
        proximal: None,
        clip_norm: None,
        is_private: false,
        part_of: None,
        branch: None,
    };

    /// The policy of a job's rounds of a task; none where the job has no such rounds.
    pub fn of(job: &JobFile, task: Task) -> Option<Self> {
        match task {
            Task::Train => Some(Self {
                proximal: Proximal::next(&job.training.algorithm, None, None),
                clip_norm: match job.clip() {
                    Some(clip) => Some(clip.start()),
                    None => job.aggregation.combine.adaptive_clip().map(|(norm, _)| norm),
                },
                is_private: job.hides_updates(),
                cohort_size: job.updates_max(),
                ..Self::of_training(job)
            }),
            Task::Evaluate => job.evaluation.as_ref().map(Self::of_evaluation),
            // Whatever the mode, a description is one cohort.
            Task::Describe => {
                let standardises = job.model.inputs.as_ref().is_some_and(|inputs| inputs.standardize.is_some());
                standardises.then(|| Self { tempo: Tempo::Cohort, ..Self::of_training(job) })
            }
        }
    }

    fn of_training(job: &JobFile) -> Self {
        let round = &job.round;
        let [goal, minimum, cohort_size, available_min] = match &job.coded {
            Some(coded) => [coded.goal(), coded.goal(), coded.drawn(), coded.clients()],
            None => {
                let cohort_size = round.cohort_size();
                [round.goal(), round.minimum(), cohort_size, round.available_min.max(cohort_size)]
            }
        };
        Self {
            tempo: Tempo::of(round.mode),
            goal,
            minimum,
            cohort_size,
            available_min,
            selection_timeout_ms: round.selection_timeout_ms.cast_signed(),
            deadline_ms: round.deadline_ms.cast_signed(),
            ..Self::default()
        }
    }

    fn of_evaluation(evaluation: &EvaluationPolicy) -> Self {
        let times = Self {
            selection_timeout_ms: evaluation.selection_timeout_ms.cast_signed(),
            deadline_ms: evaluation.deadline_ms.cast_signed(),
            ..Self::default()
        };
        match evaluation.place {
            EvaluationPlace::Clients => match evaluation.reports_goal {
                Some(goal) => Self {
                    goal,
                    minimum: evaluation.reports_min,
                    cohort_size: evaluation.cohort_size(),
                    available_min: evaluation.cohort_size(),
                    ..times
                },
                None => Self {
                    tempo: Tempo::Panel { expected: 1, gather_ms: 0, makers: evaluation.attributes.is_empty() },
                    goal: evaluation.cohort_size(),
                    minimum: evaluation.reports_min,
                    cohort_size: evaluation.cohort_size(),
                    available_min: evaluation.reports_min,
                    ..times
                },
            },
            // It waits for its test set as others wait for a client.
            EvaluationPlace::Coordinator => Self { tempo: Tempo::Coordinator, available_min: 1, ..times },
        }
    }

    /// The policy of a relay's part of a round: at most `places` of the `cohort` clients of the round, and `left_ms`
    /// milliseconds. One report is enough, because the parent decides whether its round has enough. None where the job
    /// has no rounds of this task.
    #[must_use]
    pub fn of_part(job: &JobFile, task: Task, places: u32, cohort: u32, left_ms: i64) -> Option<Self> {
        let whole = Self::of(job, task)?;
        Some(Self {
            tempo: Tempo::Cohort,
            goal: places,
            minimum: 1,
            cohort_size: places,
            available_min: places,
            // The clients waited when their places were offered; those that have left since are not waited for long.
            selection_timeout_ms: whole.selection_timeout_ms.min(left_ms / PART_SELECTION),
            deadline_ms: left_ms,
            proximal: whole.proximal,
            clip_norm: whole.clip_norm,
            is_private: whole.is_private,
            part_of: Some(cohort),
            ..Self::default()
        })
    }

    /// The number of clients whose updates the sum of a round must hold, with those of other relays.
    #[must_use]
    pub fn sum_size(&self) -> u32 {
        self.part_of.unwrap_or(self.cohort_size)
    }

    /// Whether a round in this phase, with this many clients at work, draws clients that wait.
    pub fn draws(&self, phase: Phase, working: u32) -> bool {
        match (phase, self.tempo) {
            (_, Tempo::Coordinator) => false,
            (Phase::Selecting, _) | (Phase::Training, Tempo::Panel { .. }) => true,
            (Phase::Training, tempo) => tempo.concurrency().is_some_and(|places| working < places),
            _ => false,
        }
    }

    /// Number of reports that closes a round of a job with this many members: a sum closes when it has as many updates
    /// as there are members.
    pub fn goal_with(&self, members: u32) -> u32 {
        match self.tempo {
            Tempo::Members { .. } => self.goal.min(members.max(1)),
            Tempo::Cohort | Tempo::Coordinator | Tempo::Panel { .. } | Tempo::Buffer { .. } => self.goal,
        }
    }

    /// How many clients more than these must wait before a step is due, unless the time of the selection ends; at least
    /// 1.
    pub fn missing(&self, available: u32) -> u32 {
        match self.tempo.is_buffer() {
            true => 1,
            false => self.available_min.saturating_sub(available).max(1),
        }
    }

    /// The training of a plan as the clients of this round follow it.
    pub fn training(&self, plan: &Training) -> Training {
        let algorithm = match self.proximal {
            Some(proximal) => plan.algorithm.with_mu(proximal.mu),
            None => plan.algorithm,
        };
        Training { algorithm, ..plan.clone() }
    }

    /// When a round that was opened at this time waits no longer for clients.
    pub fn selection_ends_at_ms(&self, opened_at_ms: i64) -> i64 {
        opened_at_ms.saturating_add(self.selection_timeout_ms)
    }
}

#[cfg(test)]
mod tests {
    use tributary_protocol::plan::Algorithm;

    use super::*;
    use crate::round::played::job_file;

    #[test]
    fn each_mode_has_its_tempo_and_its_goal() {
        let policy = |round: &str| TaskPolicy::of(&job_file(&format!("round = {{ {round} }}")), Task::Train).unwrap();
        let cohort = policy("updates_goal = 10, over_selection = 1.25");
        assert_eq!((cohort.tempo, cohort.goal, cohort.cohort_size, cohort.available_min), (Tempo::Cohort, 10, 13, 13));
        let buffer = policy("mode = { kind = 'buffered', buffer = 3, concurrency = 7, staleness_max = 5 }");
        assert_eq!(buffer.tempo, Tempo::Buffer { concurrency: 7, staleness_max: 5 });
        assert_eq!((buffer.goal_with(2), buffer.tempo.concurrency()), (3, Some(7)));
        let members = policy("mode = { kind = 'stale_synchronous', members = 4, slack = 2 }");
        assert_eq!(members.tempo, Tempo::Members { members_max: 4, slack: 2 });
        assert_eq!([0, 1, 3, 9].map(|count| members.goal_with(count)), [1, 1, 3, 4], "one update of each member");
    }

    const ROUND: &str =
        "updates_goal = 10, updates_min = 4, over_selection = 1.25, selection_timeout_ms = 7000, deadline_ms = 9000";

    /// The policy of a training round with the settings of [`ROUND`].
    const TRAINING: TaskPolicy = TaskPolicy {
        goal: 10,
        minimum: 4,
        cohort_size: 13,
        available_min: 13,
        selection_timeout_ms: 7_000,
        deadline_ms: 9_000,
        ..TaskPolicy::COHORT
    };

    #[test]
    fn a_training_round_has_the_settings_of_its_job() {
        let of =
            |rest: &str| TaskPolicy::of(&job_file(&format!("round = {{ {ROUND} }}\n{rest}")), Task::Train).unwrap();
        assert_eq!(of(""), TRAINING);
        let clips = "aggregation.combine = { kind = 'norm_clipping', norm = 3.0, adaptive = {} }";
        assert_eq!(of(clips), TaskPolicy { clip_norm: Some(3.0), ..TRAINING });
        let hidden = "aggregation.combine = 'uniform_mean'\nsecure_aggregation.clip = 0.5";
        assert_eq!(of(hidden), TaskPolicy { clip_norm: Some(0.5), is_private: true, ..TRAINING });
        let wide = format!("round = {{ {ROUND}, available_min = 40 }}");
        assert_eq!(TaskPolicy::of(&job_file(&wide), Task::Train).unwrap().available_min, 40);
        assert_eq!(TRAINING.selection_ends_at_ms(1_000), 8_000);
    }

    #[test]
    fn a_part_of_a_round_asks_for_its_places_and_keeps_what_clients_train_with() {
        let file = job_file(&format!(
            "round = {{ {ROUND} }}\naggregation.combine = 'uniform_mean'\nsecure_aggregation.clip = 0.5"
        ));
        let of = |left_ms| TaskPolicy::of_part(&file, Task::Train, 6, 13, left_ms).unwrap();
        let part = TaskPolicy {
            goal: 6,
            minimum: 1,
            cohort_size: 6,
            available_min: 6,
            selection_timeout_ms: 5_000,
            deadline_ms: 50_000,
            clip_norm: Some(0.5),
            is_private: true,
            part_of: Some(13),
            ..TaskPolicy::COHORT
        };
        assert_eq!(of(50_000), part);
        assert_eq!(of(90_000).selection_timeout_ms, 7_000, "no longer than the whole round");
        assert_eq!((part.sum_size(), TRAINING.sum_size()), (13, 13));
        assert_eq!(TaskPolicy { part_of: None, ..part }.sum_size(), 6);
        assert_eq!(TaskPolicy::of_part(&job_file(""), Task::Evaluate, 6, 13, 1), None);
    }

    #[test]
    fn an_evaluation_is_a_cohort_a_panel_or_on_the_coordinator() {
        let of = |settings: &str| {
            let times = "selection_timeout_ms = 7000, deadline_ms = 9000";
            TaskPolicy::of(&job_file(&format!("evaluation = {{ {times}{settings} }}")), Task::Evaluate).unwrap()
        };
        let times = TaskPolicy { selection_timeout_ms: 7_000, deadline_ms: 9_000, ..TaskPolicy::COHORT };
        let cohort = TaskPolicy { goal: 4, minimum: 2, cohort_size: 6, available_min: 6, ..times };
        assert_eq!(of(", reports_goal = 4, reports_min = 2, over_selection = 1.5"), cohort);
        let tempo = |makers| Tempo::Panel { expected: 1, gather_ms: 0, makers };
        let panel = TaskPolicy { goal: 100, minimum: 2, cohort_size: 100, available_min: 2, ..times };
        assert_eq!(of(", reports_min = 2"), TaskPolicy { tempo: tempo(true), ..panel });
        let others = ", reports_min = 2, attributes = { role = 'evaluator' }";
        assert_eq!(of(others), TaskPolicy { tempo: tempo(false), ..panel }, "evaluators do not train");
    }

    #[test]
    fn a_paused_job_opens_buffers_alone() {
        let buffer = Tempo::Buffer { concurrency: 4, staleness_max: 2 };
        let opens =
            |tempo: Tempo| [JobState::Running, JobState::Paused, JobState::Stopped].map(|state| tempo.opens_in(state));
        assert_eq!((opens(Tempo::Cohort), opens(buffer)), ([true, false, false], [true, true, false]));
    }

    #[test]
    fn clients_train_with_the_weight_of_their_round() {
        let mut plan = job_file("").training;
        plan.algorithm = Algorithm::FedProx { mu: 1.0, adaptive: None };
        let weighted = TaskPolicy { proximal: Some(Proximal { mu: 0.25, falls: 0, loss: None }), ..TRAINING };
        let mu = |policy: &TaskPolicy| policy.training(&plan).algorithm.proximal();
        assert_eq!((mu(&weighted), mu(&TRAINING)), (0.25, 1.0));
        assert_eq!(TRAINING.training(&plan), plan);
    }

    #[test]
    fn only_a_buffer_outlasts_its_staleness() {
        let buffer = Tempo::Buffer { concurrency: 4, staleness_max: 2 };
        assert!(!buffer.is_too_stale(3, 5) && buffer.is_too_stale(3, 6) && !buffer.is_too_stale(6, 3));
        assert!(!Tempo::Members { members_max: 4, slack: 0 }.is_too_stale(0, 100));
        assert!(!Tempo::Cohort.is_too_stale(0, 100));
    }

    #[test]
    fn a_round_draws_while_it_selects_and_a_buffer_while_it_has_places() {
        let policy = |tempo| TaskPolicy { tempo, available_min: 6, ..TaskPolicy::COHORT };
        let (cohort, buffer) = (policy(Tempo::Cohort), policy(Tempo::Buffer { concurrency: 3, staleness_max: 1 }));
        assert!(cohort.draws(Phase::Selecting, 0) && !cohort.draws(Phase::Training, 0));
        assert!(buffer.draws(Phase::Training, 2) && !buffer.draws(Phase::Training, 3));
        assert!(!buffer.draws(Phase::Aggregating, 0) && !policy(Tempo::Coordinator).draws(Phase::Selecting, 0));
        assert_eq!([0, 5, 6, 9].map(|available| cohort.missing(available)), [6, 1, 1, 1]);
        assert_eq!(buffer.missing(0), 1);
    }
}
