//! Personal and frozen parameters through the whole system: what never leaves a device, and what nobody changes.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;
use tributary_client::examples::{Examples, Targets};
use tributary_client::{
    AlwaysOn, EvaluateTask, Evaluated, FileStore, LayerTrainer, Outcome, Store, TrainError, TrainTask, Trained, Trainer,
};
use tributary_protocol::body::{UnpackError, Unpacker};
use tributary_protocol::id::JobId;
use tributary_protocol::safetensors::model_from_bytes;
use tributary_protocol::scalars::{PERSONALISED_ACCURACY, PERSONALISED_LOSS};
use tributary_protocol::state::{JobState, Phase};

use super::gate::{Gate, Way};
use super::session;
use crate::support::{World, digits, sdk_client, within_reason};

/// Clients of the comparison with federated averaging; each has two digits.
const CLIENTS: usize = 5;
const ROUNDS: u32 = 6;

/// `w` is shared, `b` personal, and `c` frozen.
fn model() -> Value {
    let parameters = json!([
        { "name": "b", "shape": [2] }, { "name": "w", "shape": [2, 2] }, { "name": "c", "shape": [400] },
    ]);
    json!({ "parameters": parameters, "personal": ["b"], "frozen": ["c*"] })
}

/// Adds to all parameters but the frozen ones, and keeps what it was given. Its accuracy is that of a model whose first
/// personal value is at least 1.
#[derive(Default)]
struct Adds {
    given: Vec<Vec<f32>>,
    ignores_frozen: bool,
    cuts: Option<Arc<Gate>>,
}

impl Trainer for Adds {
    fn examples(&self) -> u64 {
        10
    }

    fn train(&mut self, task: &TrainTask<'_>, _: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        if let Some(gate) = &self.cuts {
            gate.set(Way::Cut);
        }
        self.given.push(task.model.values().to_vec());
        let mut values = task.model.values().to_vec();
        for index in 0..task.model.parameters().specs().len() {
            if self.ignores_frozen || !task.is_frozen(index) {
                values[task.model.parameters().range(index)].iter_mut().for_each(|value| *value += 0.5);
            }
        }
        Ok(Trained::new(values, 10, 1, 0.25))
    }

    fn evaluate(&mut self, task: &EvaluateTask<'_>, _: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        let first = task.model.values()[0];
        let accuracy = Some(if first >= 1.0 { 0.75 } else { 0.25 });
        Ok(Evaluated::new(10, f64::from(first)).with_accuracy(accuracy))
    }
}

async fn job(world: &World, changes: Value) -> JobId {
    let mut file = crate::support::job_file(&changes);
    file["model"] = model();
    world.create_job(&file).await.ok::<tributary_protocol::operator::Job>().head.id
}

/// The personal values that a device keeps, and those that it keeps once its update is accepted.
pub(super) fn personal(directory: &Path, job: JobId) -> [Option<Vec<f32>>; 2] {
    let store = FileStore::new(directory);
    [format!("memory-{job}.safetensors"), "memory-next.safetensors".to_owned()].map(|entry| {
        let state = model_from_bytes(&store.get(&entry).unwrap()?).unwrap();
        let index = state.parameters().index_of("personal").expect("the job has personal parameters");
        Some(state.tensor(index).to_vec())
    })
}

/// Goal: personal values stay on the device, also through a kill between training and upload, and the versions keep
/// theirs. Method: three rounds of one client, each in a new process; the second one loses its way after training.
#[tokio::test]
async fn personal_parameters_never_leave_the_device_and_survive_a_kill() {
    let world = World::start().await;
    let job = job(&world, json!({})).await;
    let first = world.weights(job, 0).await;
    let own = |steps: f32| vec![first[0] + steps, first[1] + steps];
    let directory = TempDir::new().unwrap();
    let mut adds = Adds::default();
    session(&world, &sdk_client(&world, directory.path()), &mut adds).await.unwrap();
    assert_eq!(personal(directory.path(), job), [Some(own(0.5)), None]);

    let gate = Gate::before(&world);
    adds.cuts = Some(Arc::clone(&gate));
    session(&world, &gate.client(&world, directory.path()), &mut adds).await.expect_err("the way is cut");
    assert_eq!(personal(directory.path(), job), [Some(own(0.5)), Some(own(1.0))]);
    // The body that is sent next, byte by byte, holds the change of `w` and nothing else.
    let update = FileStore::new(directory.path()).get("update.safetensors").unwrap().unwrap();
    let mut plain = Vec::new();
    let mut unpacker = Unpacker::new(1 << 20);
    let mut keep = |bytes: &[u8]| {
        plain.extend_from_slice(bytes);
        Ok::<(), UnpackError>(())
    };
    unpacker.push(&update, &mut keep).unwrap();
    let (length, rest) = plain.split_first_chunk().unwrap();
    let (header, data) = rest.split_at(u64::from_le_bytes(*length) as usize);
    let header: Value = serde_json::from_slice(header).unwrap();
    let names: Vec<&str> =
        header.as_object().unwrap().keys().map(String::as_str).filter(|name| *name != "__metadata__").collect();
    assert_eq!((names, data.len()), (vec!["w"], 4 * 4));
    gate.set(Way::Open);
    let outcome = within_reason(gate.client(&world, directory.path()).run_once(&mut Adds::default(), &AlwaysOn)).await;
    assert!(matches!(outcome, Ok(Outcome::Contributed { round: 2, .. })), "{outcome:?}");
    world.drive().await;
    assert_eq!(personal(directory.path(), job), [Some(own(1.0)), None]);

    adds.cuts = None;
    session(&world, &sdk_client(&world, directory.path()), &mut adds).await.unwrap();
    let given: Vec<&[f32]> = adds.given.iter().map(|given| &given[..2]).collect();
    assert_eq!(given, [own(0.0), own(0.5), own(1.0)], "each training goes on from the client's own values");
    let last = world.weights(job, 3).await;
    assert_eq!((&last[..2], &last[6..]), (&first[..2], &first[6..]));
    assert!(last[2..6].iter().zip(&first[2..6]).all(|(last, first)| (last - first - 1.5).abs() < 1e-5));
    world.check_books(job).await;
}

/// Goal: with everything that is computed over parameters, unshared ones stay as they are. Method: two clients, one
/// round per setting.
#[tokio::test]
async fn every_way_of_combining_leaves_unshared_parameters_as_they_are() {
    let two = json!({ "updates_goal": 2, "updates_min": 2 });
    let adam = json!({ "optimizer": { "kind": "adam", "learning_rate": 0.1 } });
    for changes in [
        json!({ "update": { "codec": "int8" }, "aggregation": adam }),
        json!({ "update": { "codec": "top_k" }, "aggregation": { "combine": { "kind": "norm_clipping", "norm": 0.5 } } }),
        json!({ "update": { "codec": "eden", "norm_max": 0.5 }, "aggregation": { "combine": { "kind": "centered_clipping", "radius": 0.5 } } }),
        json!({ "update": { "codec": "f32" }, "aggregation": { "combine": "uniform_mean" }, "download": { "delta": true } }),
        json!({ "training": { "algorithm": { "kind": "scaffold", "clients": 2 } }, "aggregation": { "combine": "uniform_mean" } }),
        json!({ "training": { "algorithm": { "kind": "fed_dyn", "alpha": 0.5, "clients": 2 } }, "aggregation": { "combine": "uniform_mean" } }),
        json!({ "download": { "codec": "f16" } }),
    ] {
        let world = World::start().await;
        let mut file = changes.clone();
        file["round"] = two.clone();
        let job = job(&world, file).await;
        let first = world.weights(job, 0).await;
        let directories = [TempDir::new().unwrap(), TempDir::new().unwrap()];
        for _ in 0..2 {
            play(&world, &directories, [Follows(Adds::default()), Follows(Adds::default())]).await;
        }
        assert_eq!(world.job_now(job).await.head.model_version, Some(2), "{changes}");
        let last = world.weights(job, 2).await;
        assert_eq!((&last[..2], &last[6..]), (&first[..2], &first[6..]), "{changes}");
        let moved = last[2..6].iter().zip(&first[2..6]).map(|(last, first)| last - first);
        // `top_k` sends one value of the four.
        assert!(moved.clone().all(|by| by >= 0.0) && moved.sum::<f32>() > 0.1, "{changes}");
        if changes["download"]["delta"] == true {
            let [whole, delta] =
                [world.round(job, 1).await, world.round(job, 2).await].map(|round| round.traffic.bytes_down);
            assert!(5 * delta < whole, "{delta} bytes instead of {whole}: frozen parameters are fetched once");
        }
        world.check_books(job).await;
    }
}

/// Trains like [`Adds`], whatever the algorithm.
struct Follows(Adds);

impl Trainer for Follows {
    fn examples(&self) -> u64 {
        self.0.examples()
    }

    fn follows(&self, _: &tributary_protocol::plan::Algorithm) -> bool {
        true
    }

    fn train(&mut self, task: &TrainTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        let total = task.model.values().len();
        let constant = task.constant.map_or(0.0, |constant| constant[0].abs().max(constant[total - 1].abs()));
        assert_eq!(constant, 0.0, "only shared parameters are corrected");
        self.0.train(task, should_stop)
    }

    fn evaluate(&mut self, task: &EvaluateTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        self.0.evaluate(task, should_stop)
    }
}

/// One session of each client at the same time, each in a new process.
async fn play<T: Trainer, const N: usize>(world: &World, directories: &[TempDir; N], mut trainers: [T; N]) {
    let sessions = directories.iter().zip(&mut trainers).map(|(directory, trainer)| async {
        sdk_client(world, directory.path()).run_once(trainer, &AlwaysOn).await.unwrap()
    });
    let helped = async {
        world.until_waiting(N).await;
        world.drive().await;
    };
    within_reason(async { tokio::join!(futures_util::future::join_all(sessions), helped) }).await;
    world.drive().await;
}

#[tokio::test]
async fn a_trainer_that_changes_frozen_parameters_is_refused_with_their_name() {
    let world = World::start().await;
    let job = job(&world, json!({})).await;
    let directory = TempDir::new().unwrap();
    let mut careless = Adds { ignores_frozen: true, ..Adds::default() };
    session(&world, &sdk_client(&world, directory.path()), &mut careless).await.expect_err("it is refused");
    let reason = world.assignments(job, 1).await[0].reason.clone().unwrap_or_default();
    assert!(reason.contains("changed the frozen parameter \"c\""), "{reason}");
    assert_eq!(world.round(job, 1).await.phase, Phase::Abandoned);
}

/// Goal: an evaluation measures the global model and each client's own.
#[tokio::test]
async fn an_evaluation_reports_the_personalised_model_beside_the_global_one() {
    let world = World::start().await;
    let file = json!({ "evaluation": {}, "stop": { "rounds": 3, "metric": "personalised_accuracy", "at_least": 0.7 } });
    let job = job(&world, file).await;
    let first = world.weights(job, 0).await[0];
    let directory = TempDir::new().unwrap();
    let mut outcomes = Vec::new();
    while world.job_now(job).await.head.state != JobState::Completed {
        let client = sdk_client(&world, directory.path());
        outcomes.push(session(&world, &client, &mut Adds::default()).await.unwrap());
        assert!(outcomes.len() < 12, "{outcomes:?}");
    }
    let evaluated = world.evaluation(job, 1).await;
    assert_eq!(evaluated.loss.map(|loss| loss as f32), Some(first), "the global model has the version's values");
    let metric = |name: &str| evaluated.metrics.iter().find(|metric| metric.name.as_str() == name).unwrap().mean;
    assert!((metric(PERSONALISED_LOSS) - f64::from(first) - 0.5).abs() < 1e-6);
    assert_eq!((evaluated.accuracy, metric(PERSONALISED_ACCURACY)), (Some(0.25), 0.25));
    world.check_books(job).await;
}

/// Each client's examples of two digits: those to train on, and those to measure on.
struct Skewed {
    train: LayerTrainer,
    test: LayerTrainer,
}

impl Trainer for Skewed {
    fn examples(&self) -> u64 {
        self.train.examples()
    }

    fn train(&mut self, task: &TrainTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        self.train.train(task, should_stop)
    }

    fn evaluate(&mut self, task: &EvaluateTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        self.test.evaluate(task, should_stop)
    }
}

fn skewed() -> [Skewed; CLIENTS] {
    let all = digits();
    let Targets::Classes(labels) = all.targets() else { panic!("digits are classes") };
    std::array::from_fn(|client| {
        let own: Vec<usize> = (0..all.len()).filter(|index| labels[*index] as usize / 2 == client).collect();
        let (test, train) = own.split_at(own.len() / 3);
        let trainer = |indices: &[usize]| LayerTrainer::new(Arc::new(all.subset(indices).unwrap()));
        Skewed { train: trainer(&train[..60]), test: trainer(test) }
    })
}

/// The accuracy on the clients' own digits after some rounds: of the global model, and of the clients' own.
async fn accuracies(personal: &[&str], personal_epochs: Option<u32>) -> (f64, Option<f64>) {
    let world = World::start().await;
    let goal = json!(CLIENTS);
    let mut file = crate::support::job_file(&json!({
        "training": { "epochs": 2, "batch_size": 10, "optimizer": { "learning_rate": 0.1 }, "personal_epochs": personal_epochs },
        "update": { "codec": "int8" },
        "round": { "updates_goal": goal, "updates_min": goal },
        "evaluation": { "every_rounds": ROUNDS, "reports_goal": goal, "reports_min": goal },
        "stop": { "rounds": ROUNDS },
    }));
    let layers = json!([
        { "kind": "linear", "out_features": 24 }, { "kind": "relu" }, { "kind": "linear", "out_features": 10 },
    ]);
    file["model"] = json!({ "input": [64], "layers": layers, "personal": personal });
    let job = world.create_job(&file).await.ok::<tributary_protocol::operator::Job>().head.id;
    let directories: [TempDir; CLIENTS] = std::array::from_fn(|_| TempDir::new().unwrap());
    while world.job_now(job).await.head.state != JobState::Completed {
        play(&world, &directories, skewed()).await;
    }
    let evaluated = world.evaluation(job, ROUNDS).await;
    let own = evaluated.metrics.iter().find(|metric| metric.name.as_str() == PERSONALISED_ACCURACY);
    (evaluated.accuracy.unwrap(), own.map(|metric| metric.mean))
}

/// Goal: where clients have different labels, a personal last layer (FedPer) serves them better than one for all, and
/// so does training it first (FedRep).
#[tokio::test]
async fn a_personal_head_beats_federated_averaging_on_skewed_labels() {
    let (plain, none) = accuracies(&[], None).await;
    assert_eq!(none, None, "there is nothing of the clients' own");
    for personal_epochs in [None, Some(2)] {
        let (global, own) = accuracies(&["layers.2.*"], personal_epochs).await;
        let own = own.unwrap();
        assert!(own > plain + 0.1 && own > global, "own {own}, plain {plain}, global {global}");
    }
}
