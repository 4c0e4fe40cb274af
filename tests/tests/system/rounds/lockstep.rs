//! Groups whose members exchange their models while they train, with the real SDK over real links: all of them end with
//! the same model, and a member that is lost costs one exchange at most.

use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Notify;
use tributary_client::examples::{MemoryExamples, Targets};
use tributary_client::{
    AlwaysOn, Builder, Client, ClientError, EvaluateTask, Evaluated, LayerTrainer, Outcome, TrainError, TrainTask,
    Trained, Trainer,
};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::JobId;
use tributary_protocol::layers::ModelSpec;
use tributary_protocol::model::Model;
use tributary_protocol::operator::{Job, RoundDetail, RoundRing};
use tributary_protocol::plan::{Algorithm, Training};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::seed::Seed;
use tributary_protocol::state::{JobState, Phase, RingState, StarReason};

use crate::support::{World, http, job_file, within_reason};

pub(super) const MEMBERS: usize = 4;
const INPUTS: usize = 5;
pub(super) const STEPS: u32 = 12;
const RATE: f64 = 0.2;

/// The examples of a member: as many for each, so that the mean of the gradients is that of all examples.
pub(crate) fn examples(member: usize) -> Arc<MemoryExamples> {
    let mut stream = Seed(31).derive("member", member as u64).stream();
    let inputs: Vec<f32> = (0..20 * INPUTS).map(|_| stream.uniform(-1.0, 1.0)).collect();
    let labels = inputs.chunks(INPUTS).map(|x| u32::from(x[0] + x[1] * x[2] > 0.1 * member as f32)).collect();
    Arc::new(MemoryExamples::new(vec![INPUTS], inputs, Targets::Classes(labels)).unwrap())
}

pub(crate) fn model() -> Value {
    let layers = json!([
        { "kind": "linear", "out_features": 6 }, { "kind": "tanh" }, { "kind": "linear", "out_features": 2 },
    ]);
    json!({ "input": [INPUTS], "layers": layers })
}

pub(super) fn training(steps: u32) -> Value {
    json!({ "epochs": null, "steps": steps, "optimizer": { "kind": "sgd", "learning_rate": RATE } })
}

pub(super) fn job(every: u32, changes: &Value) -> Value {
    let mut file = job_file(&json!({
        "training": training(STEPS),
        "aggregation": { "combine": "uniform_mean" },
        "round": { "updates_goal": MEMBERS, "updates_min": 2, "deadline_ms": 600_000 },
        "group": { "topology": { "kind": "ring", "every": { "steps": every } }, "frame_ms": 2_000, "attempts": 4 },
        "stop": { "rounds": 1 },
    }));
    file["model"] = model();
    for (key, value) in changes.as_object().unwrap() {
        file[key] = value.clone();
    }
    file
}

/// A trainer that tells where it is, and what it ended with.
pub(super) struct Told {
    trainer: LayerTrainer,
    /// Steps after which its member is lost.
    pub(super) lost_after: Option<u64>,
    /// Steps after which it gives up.
    pub(super) fails_after: Option<u64>,
    /// Called at the end of each training.
    pub(super) on_trained: Option<Box<dyn FnMut() + Send>>,
    lost: Arc<Notify>,
    ended: Arc<Mutex<Option<Sha256Hash>>>,
}

impl Trainer for Told {
    fn examples(&self) -> u64 {
        self.trainer.examples()
    }

    fn follows(&self, algorithm: &Algorithm) -> bool {
        self.trainer.follows(algorithm)
    }

    fn exchanges(&self) -> bool {
        self.trainer.exchanges()
    }

    fn train(&mut self, task: &TrainTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        let trained = self.trainer.train(task, should_stop);
        match &trained {
            Err(TrainError::Paused(checkpoint)) if self.fails_after == Some(checkpoint.steps) => {
                return Err(TrainError::Other("the app has ended".to_owned()));
            }
            Err(TrainError::Paused(checkpoint)) if self.lost_after == Some(checkpoint.steps) => self.lost.notify_one(),
            Ok(trained) => {
                let bytes: Vec<u8> = trained.values.iter().flat_map(|value| value.to_le_bytes()).collect();
                *self.ended.lock().unwrap() = Some(Sha256Hash::of(&bytes));
                if let Some(on_trained) = &mut self.on_trained {
                    on_trained();
                }
            }
            _ => {}
        }
        trained
    }

    fn evaluate(&mut self, task: &EvaluateTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        self.trainer.evaluate(task, should_stop)
    }
}

pub(super) struct Member {
    client: Client,
    pub(super) trainer: Told,
    _directory: TempDir,
}

pub(super) async fn members(world: &World, count: usize) -> Vec<Member> {
    members_over(world, count, |builder| builder.http_client(http())).await
}

/// Members that reach the coordinator over something else.
pub(super) async fn members_over(world: &World, count: usize, over: impl Fn(Builder) -> Builder) -> Vec<Member> {
    let mut members = Vec::new();
    for place in 0..count {
        let directory = TempDir::new().unwrap();
        let builder = Client::builder(world.server(), world.enrolment.clone()).state_dir(directory.path());
        let client = over(builder.listen("127.0.0.1:0", None)).build().unwrap();
        client.enrol().await.unwrap();
        let trainer = LayerTrainer::new(examples(place));
        let (lost, ended) = (Arc::default(), Arc::default());
        let trainer = Told { trainer, lost_after: None, fails_after: None, on_trained: None, lost, ended };
        members.push(Member { client, trainer, _directory: directory });
    }
    members
}

impl Member {
    /// Takes part until it has contributed, or is lost in the middle of its training: nothing of it goes on.
    async fn contribute(&mut self, rounds: u64) -> Result<Option<Sha256Hash>, ClientError> {
        let (lost, ended) = (Arc::clone(&self.trainer.lost), Arc::clone(&self.trainer.ended));
        let contributes = async {
            let mut contributed = 0;
            loop {
                match self.client.run_once(&mut self.trainer, &AlwaysOn).await {
                    Ok(Outcome::Contributed { .. }) => contributed += 1,
                    Ok(_) => {}
                    Err(ClientError::Training(TrainError::Other(_))) => return Ok(None),
                    Err(error) => return Err(error),
                }
                if contributed == rounds {
                    return Ok(*ended.lock().unwrap());
                }
            }
        };
        tokio::select! {
            biased;
            () = lost.notified() => Ok(None),
            contributed = contributes => contributed,
        }
    }
}

pub(super) async fn play(world: &World, members: &mut [Member], file: &Value) -> (JobId, Vec<Option<Sha256Hash>>) {
    let job = world.create_job(file).await.ok::<Job>().head.id;
    let rounds = file["stop"]["rounds"].as_u64().unwrap();
    let ended = within_reason(join_all(members.iter_mut().map(|member| member.contribute(rounds)))).await;
    let ended = ended.into_iter().map(Result::unwrap).collect();
    let mut changes = world.app().signals.watch();
    let completes = async {
        while world.job_now(job).await.head.state != JobState::Completed {
            changes.changed().await.unwrap();
        }
    };
    within_reason(completes).await;
    (job, ended)
}

pub(super) async fn ring(world: &World, job: JobId, number: u32) -> RoundRing {
    let detail: RoundDetail = world.look(&format!("/jobs/{job}/rounds/{number}")).await.ok();
    detail.ring.unwrap()
}

/// What the members would have after so many steps, with a mean after every few of them: in f64, by the formula.
fn by_hand(start: &[f32], members: &[usize], every: u32, steps: std::ops::Range<u32>) -> Vec<f32> {
    let spec: ModelSpec = serde_json::from_value(model()).unwrap();
    let parameters = Arc::new(spec.parameters().unwrap());
    let mut values = start.to_vec();
    for step in steps.clone().step_by(every as usize) {
        let taken = every.min(steps.end - step);
        let training: Training = serde_json::from_value(training(taken)).unwrap();
        let mut mean = vec![0.0f64; values.len()];
        for member in members {
            let model = Model::new(Arc::clone(&parameters), values.clone()).unwrap();
            let task = TrainTask::new(&model, &spec, &training, Seed(1));
            let trained = LayerTrainer::new(examples(*member)).train(&task, &|| false).unwrap();
            let share = 1.0 / members.len() as f64;
            mean.iter_mut().zip(trained.values).for_each(|(mean, value)| *mean += f64::from(value) * share);
        }
        values = mean.into_iter().map(|mean| mean as f32).collect();
    }
    values
}

pub(super) fn assert_near(got: &[f32], expected: &[f32]) {
    assert_eq!(got.len(), expected.len());
    for (got, expected) in got.iter().zip(expected) {
        assert!((got - expected).abs() < 2e-5, "{got} for {expected}");
    }
}

/// Goal: with 1 the members are one computer with all examples, with more they take local steps; all have one model,
/// which becomes the version. 5 does not divide the steps: there is an exchange after the last one.
#[tokio::test]
async fn members_that_exchange_while_they_train_end_with_one_model() {
    for every in [1, 4, 5] {
        let world = World::start_driven().await;
        let mut members = members(&world, MEMBERS).await;
        let (job, ended) = play(&world, &mut members, &job(every, &json!({}))).await;
        assert!(ended.iter().all(|hash| hash.is_some() && *hash == ended[0]), "{ended:?}");
        let round = world.round(job, 1).await;
        assert_eq!((round.phase, round.reported, round.weight), (Phase::Committed, 4, 80), "{round:?}");
        assert!(round.training_loss.is_some_and(|loss| loss > 0.0), "{round:?}");
        let RoundRing { attempts, star, .. } = ring(&world, job, 1).await;
        assert_eq!((attempts.len(), attempts[0].state, star), (1, RingState::Counted, None));
        let all: Vec<usize> = (0..MEMBERS).collect();
        let expected = by_hand(&world.weights(job, 0).await, &all, every, 0..STEPS);
        assert_near(&world.weights(job, 1).await, &expected);
    }
}

/// Goal: with plain steps of SGD from the same weights, the mean of the weights is one step with the mean gradient.
#[tokio::test]
async fn an_exchange_after_each_step_is_one_computer_with_all_examples() {
    let world = World::start_driven().await;
    let mut members = members(&world, MEMBERS).await;
    let (job, _) = play(&world, &mut members, &job(1, &json!({}))).await;
    let sets: Vec<_> = (0..MEMBERS).map(examples).collect();
    let inputs: Vec<f32> = sets.iter().flat_map(|set| inputs_of(set)).collect();
    let labels: Vec<u32> = (0..MEMBERS).flat_map(labels_of).collect();
    let all = Arc::new(MemoryExamples::new(vec![INPUTS], inputs, Targets::Classes(labels)).unwrap());
    let spec: ModelSpec = serde_json::from_value(model()).unwrap();
    let start = Model::new(Arc::new(spec.parameters().unwrap()), world.weights(job, 0).await).unwrap();
    let training: Training = serde_json::from_value(training(STEPS)).unwrap();
    let task = TrainTask::new(&start, &spec, &training, Seed(1));
    let trained = LayerTrainer::new(all).train(&task, &|| false).unwrap();
    assert_near(&world.weights(job, 1).await, &trained.values);
}

fn inputs_of(set: &MemoryExamples) -> Vec<f32> {
    use tributary_client::examples::Examples;
    set.batch(&(0..set.len()).collect::<Vec<_>>()).unwrap().inputs
}

fn labels_of(member: usize) -> Vec<u32> {
    let inputs = inputs_of(&examples(member));
    inputs.chunks(INPUTS).map(|x| u32::from(x[0] + x[1] * x[2] > 0.1 * member as f32)).collect()
}

/// Goal: a member that is lost in the middle costs one exchange: the others go on where they are, without it. Method:
/// the model is that of all members until the exchange before, and that of the others from then on.
#[tokio::test]
async fn a_member_that_is_lost_in_the_middle_costs_one_exchange_at_most() {
    for (every, lost_after) in [(2, 6), (3, 3), (4, 12)] {
        let world = World::start_driven().await;
        let mut members = members(&world, MEMBERS).await;
        members[1].trainer.lost_after = Some(lost_after);
        let (job, ended) = play(&world, &mut members, &job(every, &json!({}))).await;
        let rest = [0, 2, 3].map(|place: usize| ended[place]);
        assert!(ended[1].is_none() && rest.iter().all(|hash| hash.is_some() && *hash == rest[0]), "{ended:?}");
        let round = world.round(job, 1).await;
        assert_eq!((round.phase, round.reported), (Phase::Committed, 3), "{round:?}");
        let RoundRing { attempts, star, .. } = ring(&world, job, 1).await;
        let states: Vec<_> = attempts.iter().map(|attempt| (attempt.state, attempt.members.len())).collect();
        assert_eq!((states, star), (vec![(RingState::Failed, 4), (RingState::Counted, 3)], None));
        // They go on after the last exchange that all of them have completed.
        let went_on = attempts.iter().map(|attempt| attempt.exchanged).collect::<Vec<_>>();
        assert_eq!(went_on, [Some(0), Some((lost_after / u64::from(every)) as u32 - 1)]);
        let (all, rest) = ([0, 1, 2, 3], [0, 2, 3]);
        let before = lost_after as u32 - every;
        let middle = by_hand(&world.weights(job, 0).await, &all, every, 0..before);
        let expected = by_hand(&middle, &rest, every, before..STEPS);
        assert_near(&world.weights(job, 1).await, &expected);
    }
}

/// Goal: when no further group may form, each member finishes its training alone, and all of them count.
#[tokio::test]
async fn after_the_last_attempt_each_member_finishes_alone() {
    let world = World::start_driven().await;
    let mut members = members(&world, MEMBERS).await;
    members[2].trainer.fails_after = Some(8);
    let mut file = job(4, &json!({}));
    file["group"]["attempts"] = json!(1);
    let (job, ended) = play(&world, &mut members, &file).await;
    let rest = [0, 1, 3].map(|place: usize| ended[place]);
    assert!(rest.iter().all(Option::is_some) && rest[0] != rest[1] && rest[1] != rest[2], "{ended:?}");
    let round = world.round(job, 1).await;
    assert_eq!((round.phase, round.reported), (Phase::Committed, 3), "{round:?}");
    assert_eq!(ring(&world, job, 1).await.star, Some(StarReason::Attempts));
    // All until step 4, then each by itself.
    let middle = by_hand(&world.weights(job, 0).await, &[0, 1, 2, 3], 4, 0..4);
    let expected = by_hand(&middle, &[0, 1, 3], STEPS, 4..STEPS);
    assert_near(&world.weights(job, 1).await, &expected);
}

/// The same on a runtime with several threads, where members say that they live while they train.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_on_several_threads_end_with_one_model() {
    let world = World::start_driven().await;
    let mut members = members(&world, MEMBERS).await;
    let (job, ended) = play(&world, &mut members, &job(2, &json!({}))).await;
    assert!(ended.iter().all(|hash| hash.is_some() && *hash == ended[0]), "{ended:?}");
    assert_eq!(ring(&world, job, 1).await.attempts.len(), 1);
}

/// Goal: what cannot be exchanged is refused by name: a rule that weighs members, steps that differ, a codec that keeps
/// a part of each update.
#[tokio::test]
async fn jobs_whose_members_cannot_be_in_lockstep_are_refused_with_the_reason() {
    let world = World::start().await;
    let epochs = json!({ "epochs": 1, "optimizer": { "kind": "sgd", "learning_rate": 0.1 } });
    for (changes, reason) in [
        (json!({ "aggregation": { "combine": "weighted_mean" } }), "all count alike"),
        (json!({ "training": epochs }), "exchange after the same steps"),
        (json!({ "update": { "codec": { "name": "top_k", "density": 0.5 } } }), "one model"),
        (json!({ "update": { "norm_max": 1.0 } }), "norm_max"),
        (json!({ "group": { "topology": { "kind": "ring", "every": { "steps": 0 } } } }), "1 to 1000000"),
    ] {
        let refused = world.create_job(&job(4, &changes)).await.refused(ProblemType::JobFileInvalid);
        assert!(refused.detail.contains(reason), "{refused:?}");
    }
}
