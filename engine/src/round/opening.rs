//! The opening of a round: its policy, norm bound and seed, which follow from the rounds before.

use tributary_protocol::job_file::{Clip, JobFile, NormMax};
use tributary_protocol::seed::Seed;
use tributary_protocol::state::Task;

use super::adapt::{PastWork, adapt};
use super::clip::next_clip_norm;
use super::diversity::{DIVERSITY_ROUNDS, DiverseRound, follow_diversity};
use super::norm::norm_bound;
use super::panel::panel;
use super::policy::{TaskPolicy, Tempo};
use super::proximal::Proximal;
use crate::privacy::next_clip;

/// What a round is opened with. It is stored with the round: every coordinator plays by it after a restart, and people
/// can see why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Opening {
    pub policy: TaskPolicy,
    /// Seed of everything that is drawn in the round.
    pub seed: Seed,
    /// Largest L2 norm of an update; none without a bound.
    pub norm_max: Option<f64>,
}

/// Which of the rounds before an opening reads. A job whose settings do not adapt reads nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lookback<'a> {
    /// First round whose updates' norms are read, for the norm bound.
    pub norms_since: Option<u32>,
    /// Whether policy, loss and norms of the round before are read.
    pub last: bool,
    /// First round whose work is read, for deadline and cohort.
    pub works_since: Option<u32>,
    /// Attribute of clients that tells their classes apart in that work.
    pub class: Option<&'a str>,
    /// Number of committed rounds whose diversity is read, for the goal.
    pub diverse_rounds: u32,
    /// Whether an evaluation asks who made its model.
    pub trained: bool,
}

/// What an opening reads.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Training rounds that were abandoned since the last committed one.
    pub abandoned_in_a_row: u32,
    /// Norms of the updates that were accepted since [`Lookback::norms_since`].
    pub norms: Vec<f64>,
    pub last: Option<LastRound>,
    /// Ended work since [`Lookback::works_since`].
    pub works: Vec<PastWork>,
    /// The time that rounds take beside their clients' work.
    pub overhead_ms: u64,
    /// The newest [`Lookback::diverse_rounds`].
    pub diverse: Vec<DiverseRound>,
    /// Of an evaluation with [`Lookback::trained`].
    pub trained: Trained,
}

/// The training round whose model an evaluation measures, and the evaluation before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trained {
    /// Clients whose updates made the model.
    pub clients: u32,
    /// Time from their draw to the end of the training, in milliseconds.
    pub took_ms: i64,
    /// Reports of the last evaluation with a result; 0 before the first. In a job that only evaluates, the clients that
    /// may evaluate and were there lately, before the first.
    pub evaluators: u32,
}

/// The training round before the one that opens.
#[derive(Clone, Debug)]
pub struct LastRound {
    pub policy: TaskPolicy,
    /// Mean loss of its trainings; none unless it was committed.
    pub training_loss: Option<f64>,
    /// Norms of its accepted updates.
    pub norms: Vec<f64>,
    /// Of a round that hides updates: the share of them within its clip, once it was released; noised in private jobs.
    pub clip_share: Option<f64>,
}

impl<'a> Lookback<'a> {
    /// What the opening of this round reads.
    pub fn of(job: &'a JobFile, task: Task, number: u32) -> Self {
        if task != Task::Train {
            let is_panel = |policy: TaskPolicy| matches!(policy.tempo, Tempo::Panel { .. });
            return Self { trained: TaskPolicy::of(job, task).is_some_and(is_panel), ..Self::default() };
        }
        let adapt = job.round.adapt.as_ref();
        let clips = job.aggregation.combine.adaptive_clip().is_some()
            || job.clip().is_some_and(|clip| clip.adaptive().is_some());
        Self {
            norms_since: match job.update.norm_max {
                Some(NormMax::Adaptive(adaptive)) => Some(number.saturating_sub(adaptive.rounds)),
                Some(NormMax::Fixed(_)) | None => None,
            },
            last: number >= 2 && (clips || job.training.algorithm.adaptive_mu().is_some()),
            works_since: adapt.map(|adapt| number.saturating_sub(adapt.rounds)),
            class: adapt.and_then(|adapt| adapt.class.as_deref()),
            diverse_rounds: match adapt.and_then(|adapt| adapt.updates_goal_min) {
                Some(_) => DIVERSITY_ROUNDS,
                None => 0,
            },
            trained: false,
        }
    }
}

/// What a round is opened with; none where the job has no rounds of this task.
pub fn opening(job: &JobFile, task: Task, number: u32, history: &History) -> Option<Opening> {
    let policy = TaskPolicy::of(job, task)?;
    let seed = job.seed.expect("a stored job has a seed").derive(task.as_str(), number.into());
    if task != Task::Train {
        let policy = match job.only_evaluates() {
            true => with_sites(policy, history.trained),
            false => with_panel(policy, history.trained),
        };
        return Some(Opening { policy, seed, norm_max: None });
    }
    let norm_max = job.update.norm_max.and_then(|bound| norm_bound(bound, &history.norms, history.abandoned_in_a_row));
    let policy = following_last(job, following_times(job, policy, history), history.last.as_ref());
    Some(Opening { policy, seed, norm_max })
}

/// The policy of an evaluation by all clients that are here, with the number of clients that it waits for: those that
/// made the model. In a job whose evaluators have attributes, as many as came the last time.
fn with_panel(policy: TaskPolicy, trained: Trained) -> TaskPolicy {
    let Tempo::Panel { makers, .. } = policy.tempo else { return policy };
    let expected = if makers { trained.clients } else { trained.evaluators };
    TaskPolicy { tempo: panel(makers, expected, trained.took_ms, policy.cohort_size, policy.deadline_ms), ..policy }
}

/// The policy of an evaluation in a job that only evaluates. Nobody has made the model, so it waits for as many clients
/// as came the last time, or were there lately, until its deadline.
fn with_sites(policy: TaskPolicy, trained: Trained) -> TaskPolicy {
    let Tempo::Panel { .. } = policy.tempo else { return policy };
    let tempo = panel(false, trained.evaluators, policy.deadline_ms, policy.cohort_size, policy.deadline_ms);
    TaskPolicy { tempo, ..policy }
}

/// The policy with deadline, cohort and goal that diversity and times of recent rounds give.
fn following_times(job: &JobFile, policy: TaskPolicy, history: &History) -> TaskPolicy {
    let Some(settings) = &job.round.adapt else { return policy };
    let policy = match settings.updates_goal_min {
        Some(least) => follow_diversity(&policy, least, &history.diverse),
        None => policy,
    };
    adapt(&policy, settings, &history.works, history.overhead_ms).unwrap_or(policy)
}

/// The policy with the weight of FedProx and the norm of clipping that follow from the round before.
fn following_last(job: &JobFile, policy: TaskPolicy, last: Option<&LastRound>) -> TaskPolicy {
    let Some(LastRound { policy: before, training_loss, norms, clip_share }) = last else { return policy };
    let proximal = Proximal::next(&job.training.algorithm, before.proximal, *training_loss);
    if let Some(settings) = job.clip().and_then(Clip::adaptive) {
        let clip = before.clip_norm.unwrap_or(settings.start);
        let moved = |share| next_clip(clip, share, settings.quantile, settings.rate);
        return TaskPolicy { proximal, clip_norm: Some(clip_share.map_or(clip, moved)), ..policy };
    }
    let clip = job.aggregation.combine.adaptive_clip();
    let clip_norm = clip.map(|(start, settings)| next_clip_norm(settings, before.clip_norm.unwrap_or(start), norms));
    TaskPolicy { proximal, clip_norm: clip_norm.or(policy.clip_norm), ..policy }
}

#[cfg(test)]
mod tests {
    use tributary_protocol::plan::{AdaptiveMu, Algorithm};

    use super::*;
    use crate::round::played::job_file;
    use crate::round::times::WorkEnd;

    fn opened(job: &JobFile, number: u32, history: &History) -> Opening {
        opening(job, Task::Train, number, history).unwrap()
    }

    #[test]
    fn a_job_that_adapts_to_nothing_reads_nothing_and_opens_with_its_file() {
        let job = job_file("evaluation = { reports_goal = 1 }\nupdate = { norm_max = 3.0 }");
        assert_eq!(Lookback::of(&job, Task::Train, 9), Lookback::default());
        let first = opened(&job, 1, &History::default());
        assert_eq!((Some(first.policy), first.norm_max), (TaskPolicy::of(&job, Task::Train), Some(3.0)));
        assert_eq!(first.seed, Seed(5).derive("train", 1));
        let evaluation = opening(&job, Task::Evaluate, 1, &History::default()).unwrap();
        assert_eq!((evaluation.norm_max, evaluation.seed), (None, Seed(5).derive("evaluate", 1)));
        assert_eq!(opening(&job_file(""), Task::Evaluate, 1, &History::default()), None);
    }

    #[test]
    fn an_evaluation_waits_for_those_that_made_the_model_or_came_the_last_time() {
        let trained = Trained { clients: 14, took_ms: 7_000, evaluators: 3 };
        let tempo = |evaluation: &str| {
            let job = job_file(evaluation);
            assert!(Lookback::of(&job, Task::Evaluate, 2).trained);
            opening(&job, Task::Evaluate, 2, &History { trained, ..History::default() }).unwrap().policy.tempo
        };
        assert_eq!(tempo("evaluation = {}"), Tempo::Panel { expected: 14, gather_ms: 7_000, makers: true });
        let apart = "evaluation = { attributes = { role = 'evaluator' }, deadline_ms = 5000 }";
        assert_eq!(tempo(apart), Tempo::Panel { expected: 3, gather_ms: 5_000, makers: false });
        let only = "evaluation = { only = true, models = ['a:1'], deadline_ms = 9000 }";
        assert_eq!(tempo(only), Tempo::Panel { expected: 3, gather_ms: 9_000, makers: false });
        let goal = job_file("evaluation = { reports_goal = 2 }");
        assert_eq!(Lookback::of(&goal, Task::Evaluate, 2), Lookback::default());
    }

    #[test]
    fn each_setting_that_adapts_reads_its_own_history() {
        let of = |tables: &str, task, number| {
            let job = job_file(tables);
            let Lookback { norms_since, last, works_since, class, diverse_rounds, .. } =
                Lookback::of(&job, task, number);
            (norms_since, last, works_since, class.map(str::to_owned), diverse_rounds)
        };
        let norm = "update = { norm_max = { quantile = 0.5, factor = 2.0, rounds = 4 } }";
        assert_eq!(of(norm, Task::Train, 9), (Some(5), false, None, None, 0));
        assert_eq!(of(norm, Task::Train, 3), (Some(0), false, None, None, 0));
        let clip = "aggregation = { combine = { kind = 'norm_clipping', norm = 1.0, adaptive = {} } }";
        assert_eq!(of(clip, Task::Train, 2), (None, true, None, None, 0));
        assert_eq!(of(clip, Task::Train, 1), (None, false, None, None, 0), "there is no round before");
        let times = "round = { adapt = { rounds = 6, class = 'device', updates_goal_min = 2 }, updates_goal = 8, updates_min = 2 }";
        assert_eq!(of(times, Task::Train, 9), (None, false, Some(3), Some("device".to_owned()), DIVERSITY_ROUNDS));
        assert_eq!(of(&format!("{times}\nevaluation = {{}}"), Task::Evaluate, 9), (None, false, None, None, 0));
    }

    #[test]
    fn an_adaptive_bound_doubles_with_each_abandoned_round() {
        let job = job_file("update = { norm_max = { quantile = 0.5, factor = 2.0, rounds = 4 } }");
        let bound = |abandoned_in_a_row, norms: &[f64]| {
            opened(&job, 9, &History { abandoned_in_a_row, norms: norms.to_vec(), ..History::default() }).norm_max
        };
        let norms = [1.0, 2.0, 3.0, 4.0, 5.0];
        assert_eq!((bound(0, &norms), bound(2, &norms), bound(0, &norms[..4])), (Some(6.0), Some(24.0), None));
    }

    #[test]
    fn clipping_and_the_proximal_weight_follow_from_the_round_before() {
        let clip = "aggregation = { combine = { kind = 'norm_clipping', norm = 2.0, adaptive = { rate = 0.2 } } }";
        let job = job_file(clip);
        let policy = TaskPolicy::of(&job, Task::Train).unwrap();
        let after = |clip_norm| {
            let last = LastRound {
                policy: TaskPolicy { clip_norm, ..policy },
                training_loss: None,
                norms: vec![1.0, 9.0],
                clip_share: None,
            };
            opened(&job, 2, &History { last: Some(last), ..History::default() }).policy.clip_norm
        };
        assert_eq!(policy.clip_norm, Some(2.0));
        assert_eq!((after(Some(2.0)), after(Some(4.0))), (Some(2.0), Some(4.0)), "at the median nothing moves");
        let mut job = job_file("");
        job.training.algorithm = Algorithm::FedProx { mu: 1.0, adaptive: Some(AdaptiveMu { step: 0.5, falls: 2 }) };
        let policy = TaskPolicy::of(&job, Task::Train).unwrap();
        let proximal = policy.proximal.map(|proximal| Proximal { loss: Some(1.0), ..proximal });
        let policy = TaskPolicy { proximal, ..policy };
        let last = LastRound { policy, training_loss: Some(2.0), norms: Vec::new(), clip_share: None };
        let next = opened(&job, 2, &History { last: Some(last), ..History::default() }).policy.proximal.unwrap();
        assert_eq!((next.mu, next.loss), (1.5, Some(2.0)), "the loss has risen");
    }

    #[test]
    fn the_clip_of_a_private_job_follows_the_noised_share_of_the_round_before() {
        let mut job = job_file("aggregation = { combine = 'uniform_mean' }\nstop = { rounds = 9 }");
        job.privacy = Some(serde_json::from_str(r#"{"epsilon": 1.0, "delta": 1e-6}"#).unwrap());
        let policy = TaskPolicy::of(&job, Task::Train).unwrap();
        assert_eq!((policy.clip_norm, policy.is_private), (Some(0.1), true));
        assert!(Lookback::of(&job, Task::Train, 2).last);
        let after = |clip_norm, clip_share| {
            let policy = TaskPolicy { clip_norm, ..policy };
            let last = LastRound { policy, training_loss: None, norms: Vec::new(), clip_share };
            opened(&job, 2, &History { last: Some(last), ..History::default() }).policy.clip_norm.unwrap()
        };
        assert!((after(Some(0.1), Some(0.8)) - 0.094_176_453_4).abs() < 1e-10);
        assert_eq!((after(Some(0.3), None), after(None, None)), (0.3, 0.1), "nothing was released");
    }

    #[test]
    fn deadline_and_goal_follow_the_times_and_the_diversity() {
        let round = "updates_goal = 8, updates_min = 2, over_selection = 1.0, adapt = { updates_goal_min = 2 }";
        let job = job_file(&format!("round = {{ {round} }}"));
        let work = |after_ms| PastWork { after_ms, end: WorkEnd::Reported, class: String::new() };
        let history = History {
            works: (0..40).map(|client| work(50_000 + 500 * client)).collect(),
            overhead_ms: 5_000,
            // Of ten updates each, with v = 3: 1 + v of them are useful.
            diverse: vec![DiverseRound { updates: 10, effective: 10.0, examples: 600, diversity: 4.0 / 13.0 }; 7],
            ..History::default()
        };
        let policy = opened(&job, 9, &history).policy;
        assert_eq!((policy.goal, policy.adapted_goal.and_then(|goal| goal.useful)), (4, Some(4)));
        assert!(policy.deadline_ms < 100_000 && policy.adapted.is_some(), "{policy:?}");
        let unmeasured = opened(&job, 9, &History::default()).policy;
        assert_eq!((unmeasured.goal, unmeasured.adapted), (8, None));
    }
}
