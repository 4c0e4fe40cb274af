//! Clients that continue from weights of their own: between two fetches of the model, and in elastic averaging.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;
use tributary_client::{
    AlwaysOn, Client, ClientError, EvaluateTask, Evaluated, Outcome, TrainError, TrainTask, Trained, Trainer,
};
use tributary_protocol::id::JobId;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::seed::Seed;

use super::gate::{Gate, Way};
use super::session;
use crate::rounds::buffered::buffered;
use crate::support::{World, job_file, sdk_client, within_reason};

/// Steps of one training.
const STEPS: u32 = 5;

/// A training: from where, by which seed, and where it ended.
#[derive(Clone, Debug, PartialEq)]
struct Training {
    from: Vec<f32>,
    seed: Seed,
    to: Vec<f32>,
}

/// Stochastic gradient descent on squared distances from sixteen targets, of which each step draws one.
struct Descent {
    rate: f32,
    trainings: Vec<Training>,
    /// Stops at the beginning of a training, with the way cut, as a killed process does.
    dies: Option<Arc<Gate>>,
    /// Cuts the way when the training is done.
    cuts: Option<Arc<Gate>>,
}

impl Descent {
    fn new(rate: f32) -> Self {
        Self { rate, trainings: Vec::new(), dies: None, cuts: None }
    }
}

fn descend(values: &mut [f32], rate: f32, seed: Seed) {
    for step in 0..STEPS {
        let target = (seed.derive("example", step.into()).0 % 16) as f32 / 8.0;
        values.iter_mut().for_each(|value| *value -= rate * (*value - target));
    }
}

impl Trainer for Descent {
    fn examples(&self) -> u64 {
        10
    }

    fn train(&mut self, task: &TrainTask<'_>, _: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        if let Some(gate) = &self.dies {
            gate.set(Way::Cut);
            return Err(TrainError::Other("the process dies".into()));
        }
        let from = task.model.values().to_vec();
        let mut values = from.clone();
        descend(&mut values, self.rate, task.seed);
        self.trainings.push(Training { from, seed: task.seed, to: values.clone() });
        if let Some(gate) = &self.cuts {
            gate.set(Way::Cut);
        }
        Ok(Trained::new(values, 10, STEPS.into(), 0.25))
    }

    fn evaluate(&mut self, _: &EvaluateTask<'_>, _: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        Err(TrainError::NoExamples)
    }
}

/// What happens to a session.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Trouble {
    None,
    /// The process dies while it trains.
    DiesInTraining,
    /// The process dies when its update is stored and not yet sent.
    DiesBeforeSending,
    /// The coordinator takes the update, and its answer is lost with the process.
    LosesAnswer,
    /// The coordinator restarts.
    Restart,
}

fn downpour(fetch_every: u32, push_every: u32) -> Value {
    let mode = json!({
        "buffer": 1, "concurrency": 1, "staleness_weight": { "kind": "constant" },
        "fetch_every": fetch_every, "push_every": push_every,
    });
    buffered(&mode, &json!({}))
}

/// One replica: the models of all versions, and its trainings. Every session is that of a new process.
async fn replica(file: &Value, rate: f32, troubles: &[Trouble]) -> (Vec<Vec<f32>>, Vec<Training>) {
    let mut world = World::start().await;
    let job: tributary_protocol::operator::Job = world.create_job(file).await.ok();
    let directory = TempDir::new().unwrap();
    let (mut versions, mut trainings) = (vec![world.weights(job.head.id, 0).await], Vec::new());
    for (number, trouble) in troubles.iter().enumerate() {
        if *trouble == Trouble::Restart {
            world.restart().await;
        }
        trainings.extend(contribute(&world, directory.path(), rate, *trouble).await);
        versions.push(world.weights(job.head.id, number as u32 + 1).await);
    }
    world.check_books(job.head.id).await;
    (versions, trainings)
}

/// A session whose update arrives in the end; the trainings whose update it is.
async fn contribute(world: &World, directory: &Path, rate: f32, trouble: Trouble) -> Vec<Training> {
    let gate = Gate::before(world);
    let mut descent = Descent::new(rate);
    match trouble {
        Trouble::None | Trouble::Restart => {
            let outcome = session(world, &gate.client(world, directory), &mut descent).await.unwrap();
            assert!(matches!(outcome, Outcome::Contributed { .. }), "{outcome:?}");
            return descent.trainings;
        }
        Trouble::DiesInTraining => descent.dies = Some(Arc::clone(&gate)),
        Trouble::DiesBeforeSending => descent.cuts = Some(Arc::clone(&gate)),
        Trouble::LosesAnswer => gate.set(Way::LosesUploadAnswers),
    }
    let died = session(world, &gate.client(world, directory), &mut descent).await.expect_err("it dies");
    assert!(matches!(died, ClientError::Unreachable(_) | ClientError::Training(_)), "{died}");
    gate.set(Way::Open);
    (descent.dies, descent.cuts) = (None, None);
    let again = gate.client(world, directory);
    let outcome = within_reason(again.run_once(&mut descent, &AlwaysOn)).await.unwrap();
    assert!(matches!(outcome, Outcome::Contributed { .. }), "{outcome:?}");
    world.drive().await;
    descent.trainings
}

/// Where sequential descent is after each of these trainings.
fn sequential(start: &[f32], rate: f32, trainings: &[Training]) -> Vec<Vec<f32>> {
    let mut values = start.to_vec();
    let after = |training: &Training| {
        descend(&mut values, rate, training.seed);
        values.clone()
    };
    trainings.iter().map(after).collect()
}

/// Goal: Downpour with one replica is sequential descent. Own weights are it to the last bit: they are never rounded.
/// The coordinator's model is rounded twice per update, once in `y - w` and once in `w + (y - w)`, and each of the two
/// ways rounds three times per step, each time by at most half a unit in the last place. Descent does not enlarge a
/// difference.
#[tokio::test]
async fn one_replica_of_downpour_is_sequential_descent() {
    for (fetch_every, push_every) in [(1, 1), (1, 3), (4, 1), (1_000, 1), (3, 2)] {
        let file = downpour(fetch_every, push_every);
        let (versions, trainings) = replica(&file, 0.1, &[Trouble::None; 10]).await;
        assert_eq!(trainings.len(), 10 * push_every as usize);
        let expected = sequential(&versions[0], 0.1, &trainings);
        for (version, values) in versions.iter().enumerate().skip(1) {
            let reached = &expected[version * push_every as usize - 1];
            // No value is above 2, so half a unit in the last place is 2^-24 at most.
            let roundings = version as u32 * (2 + 2 * 3 * STEPS * push_every);
            let bound = roundings as f32 * 2f32.powi(-24);
            let is_near = values.iter().zip(reached).all(|(value, reached)| (value - reached).abs() <= bound);
            assert!(is_near, "{fetch_every}, {push_every}: {values:?} instead of {reached:?}");
        }
        if fetch_every == 1_000 {
            let reached: Vec<_> = trainings.iter().map(|training| training.to.clone()).collect();
            assert_eq!(reached, expected, "own weights");
        }
        for (number, pair) in trainings.windows(2).enumerate() {
            let update = (number + 1) / push_every as usize;
            let is_push = (number + 1) % push_every as usize == 0;
            if is_push && update.is_multiple_of(fetch_every as usize) {
                assert_eq!(pair[1].from, versions[update], "it is fetched");
            } else {
                assert_eq!(pair[1].from, pair[0].to, "it goes on");
            }
        }
    }
}

/// Goal: killed processes, lost answers and a restart of the coordinator change no bit of the models, and no training
/// counts twice or is lost.
#[tokio::test]
async fn own_weights_survive_whatever_dies() {
    let file = downpour(4, 2);
    let undisturbed = replica(&file, 0.1, &[Trouble::None; 8]).await;
    let all = [
        Trouble::DiesInTraining,
        Trouble::DiesBeforeSending,
        Trouble::LosesAnswer,
        Trouble::Restart,
        Trouble::None,
        Trouble::DiesBeforeSending,
        Trouble::DiesInTraining,
        Trouble::LosesAnswer,
    ];
    assert_eq!(replica(&file, 0.1, &all).await, undisturbed);
}

fn elastic(alpha: f64, changes: Value) -> Value {
    let mut file = job_file(&json!({
        "training": { "algorithm": { "kind": "easgd", "alpha": alpha } },
        "aggregation": { "combine": "uniform_mean" },
    }));
    for (section, settings) in changes.as_object().unwrap() {
        for (name, value) in settings.as_object().unwrap() {
            file[section][name] = value.clone();
        }
    }
    file
}

/// The sum of a client's weights and of the model in each coordinate, in f64.
fn sums(values: [&[f32]; 2]) -> Vec<f64> {
    values[0].iter().zip(values[1]).map(|(own, centre)| f64::from(*own) + f64::from(*centre)).collect()
}

/// Half a unit in the last place of a value.
fn half_unit(value: f32) -> f64 {
    f64::from(value.abs().next_up() - value.abs()) / 2.0
}

/// Goal: the exchange keeps the sum of a client's weights and of the model, but for the rounding of each to f32, also
/// with a codec that rounds, and where processes die.
/// Method: one client; a training begins with the weights that the exchange before left.
#[tokio::test]
async fn the_elastic_exchange_keeps_the_sum_of_both_sides() {
    let all = [
        Trouble::None,
        Trouble::DiesInTraining,
        Trouble::DiesBeforeSending,
        Trouble::LosesAnswer,
        Trouble::Restart,
        Trouble::None,
    ];
    for codec in ["f32", "int8"] {
        let file = elastic(0.3, json!({ "update": { "codec": codec } }));
        let undisturbed = replica(&file, 0.1, &[Trouble::None; 6]).await;
        let (versions, trainings) = replica(&file, 0.1, &all).await;
        assert_eq!((&versions, &trainings), (&undisturbed.0, &undisturbed.1), "{codec}");
        assert_eq!(trainings[0].from, versions[0], "a new client begins with the model");
        for (number, pair) in trainings.windows(2).enumerate() {
            let (own, centre) = (&pair[1].from, &versions[number + 1]);
            let (before, after) = (sums([&pair[0].to, &versions[number]]), sums([own, centre]));
            for (index, (before, after)) in before.iter().zip(&after).enumerate() {
                // The coordinator's sum has 2^-50 and finer places.
                let bound = half_unit(own[index]) + half_unit(centre[index]) + 1e-15;
                assert!((before - after).abs() <= bound, "{codec} in {index}: {before} and {after}");
            }
            assert_ne!(own, centre, "they stay apart");
        }
    }
}

/// Goal: in a cohort the model moves by the sum of the pulls. Method: the same in f64, which is exact here but for the
/// bits of the first model.
#[tokio::test]
async fn a_cohort_pulls_the_model_by_the_sum() {
    let world = World::start().await;
    let file = elastic(0.25, json!({ "round": { "updates_goal": 2, "updates_min": 2 }, "update": { "codec": "f32" } }));
    let job: tributary_protocol::operator::Job = world.create_job(&file).await.ok();
    let directories = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let mut trainers = [Adds { by: 0.5, from: Vec::new() }, Adds { by: -0.125, from: Vec::new() }];
    for directory in &directories {
        sdk_client(&world, directory.path()).enrol().await.unwrap();
    }
    for _ in 0..4 {
        together(&world, &directories, &mut trainers).await;
    }
    let start = world.weights(job.head.id, 0).await[0];
    let (mut centre, mut own) = (0.0, [0.0, 0.0]);
    for round in 0..4 {
        for (client, trainer) in trainers.iter().enumerate() {
            let from = f64::from(trainer.from[round]) - f64::from(start);
            assert!((from - own[client]).abs() < 1e-6, "round {round}: {from} instead of {}", own[client]);
        }
        let reached = [own[0] + 0.5, own[1] - 0.125];
        let pulls = reached.map(|reached| 0.25 * (reached - centre));
        own = [reached[0] - pulls[0], reached[1] - pulls[1]];
        centre += pulls[0] + pulls[1];
        let model = f64::from(world.weights(job.head.id, round as u32 + 1).await[0]) - f64::from(start);
        assert!((model - centre).abs() < 1e-6, "round {round}: {model} instead of {centre}");
        assert_eq!(own[0] + own[1] + centre, f64::from(round as u32 + 1) * 0.375);
    }
    world.check_books(job.head.id).await;
}

/// Adds to every weight, and notes the first weight from which it began.
struct Adds {
    by: f32,
    from: Vec<f32>,
}

impl Trainer for Adds {
    fn examples(&self) -> u64 {
        10
    }

    fn train(&mut self, task: &TrainTask<'_>, _: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        self.from.push(task.model.values()[0]);
        let values = task.model.values().iter().map(|value| value + self.by).collect();
        Ok(Trained::new(values, 10, 1, 0.25))
    }

    fn evaluate(&mut self, _: &EvaluateTask<'_>, _: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        Err(TrainError::NoExamples)
    }
}

/// A round of two clients, each in a new process.
async fn together(world: &World, directories: &[TempDir; 2], [one, other]: &mut [Adds; 2]) {
    let client = |directory: &TempDir| -> Client { sdk_client(world, directory.path()) };
    let (first, second) = (client(&directories[0]), client(&directories[1]));
    let helped = async {
        world.until_waiting(2).await;
        world.drive().await;
    };
    let sessions = async { tokio::join!(first.run_once(one, &AlwaysOn), second.run_once(other, &AlwaysOn), helped) };
    let (one, other, ()) = within_reason(sessions).await;
    world.drive().await;
    assert!(matches!((&one, &other), (Ok(Outcome::Contributed { .. }), Ok(Outcome::Contributed { .. }))), "{one:?}");
}

#[tokio::test]
async fn what_own_weights_do_not_go_with_is_refused_with_the_reason() {
    let world = World::start().await;
    let refuse = async |file: Value, why: &str| {
        let refused = world.create_job(&file).await.refused(ProblemType::JobFileInvalid);
        assert!(refused.detail.contains(why), "{file}: {}", refused.detail);
    };
    let mut discounted = downpour(2, 1);
    discounted["round"]["mode"]["staleness_weight"] = json!({ "kind": "inverse" });
    refuse(discounted, "own weights be older between fetches").await;
    let mut proximal = downpour(1, 2);
    proximal["training"]["algorithm"] = json!({ "kind": "fed_prox", "mu": 0.1 });
    refuse(proximal, "each one training from the newest model").await;
    refuse(elastic(0.6, json!({ "round": { "updates_goal": 2 } })), "alpha times the 2 updates").await;
    refuse(elastic(0.1, json!({ "aggregation": { "combine": "weighted_mean" } })), "uniform_mean").await;
    refuse(
        elastic(0.1, json!({ "update": { "codec": "top_k" } })),
        "moves a client by the whole pull at once, but top_k",
    )
    .await;
    refuse(elastic(0.1, json!({ "aggregation": { "optimizer": { "kind": "adam" } } })), "a server step of its own")
        .await;
    refuse(elastic(0.1, json!({ "model": { "personal": ["b"] } })), "weights of its own already").await;
    let mut stale = buffered(&json!({ "buffer": 2, "concurrency": 3 }), &json!({}));
    stale["training"]["algorithm"] = json!({ "kind": "easgd", "alpha": 0.1 });
    stale["aggregation"] = json!({ "combine": "uniform_mean" });
    refuse(stale.clone(), "moves the model by less for a late update").await;
    stale["round"]["mode"]["staleness_weight"] = json!({ "kind": "constant" });
    let job: tributary_protocol::operator::Job = world.create_job(&stale).await.ok();
    assert_ne!(job.head.id, JobId::from_random([0; 16]));
}
