//! SCAFFOLD and FedDyn through the whole system: clients keep a vector, the coordinator keeps their mean.
//!
//! Two clients learn the convex example of client drift: `a / 2 (y - b)^2` with a = 1, b = 0 and a = 4, b = 1. The
//! optimum of both together is 0.8. Federated averaging ends at 0.6925.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tributary_client::{
    AlwaysOn, Client, ClientError, EvaluateTask, Evaluated, Outcome, TrainError, TrainTask, Trained, Trainer,
};
use tributary_protocol::device::WaitsFor;
use tributary_protocol::plan::Algorithm;
use tributary_protocol::state::{AssignmentState, Phase};

use super::session;
use crate::support::{Adds, World, sdk_client, within_reason};

const RATE: f32 = 0.1;
const STEPS: u64 = 5;
/// Rounding of f32 in a few rounds.
const ROUNDING: f64 = 2e-6;

/// A client that learns one curve in every coordinate. The curve is moved to where the model started.
struct Curve {
    a: f32,
    b: f32,
    start: Vec<f32>,
    /// Whether the local problem is solved exactly instead of by steps.
    is_exact: bool,
    diverges: bool,
}

impl Trainer for Curve {
    fn examples(&self) -> u64 {
        10
    }

    fn follows(&self, _: &Algorithm) -> bool {
        true
    }

    fn train(&mut self, task: &TrainTask<'_>, _: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        if self.diverges {
            return Err(TrainError::Diverged);
        }
        let correction = task.correction();
        let (steps, pull) = (u64::from(task.training.steps.unwrap_or(1)), correction.pull as f32);
        let rate = task.training.optimizer.learning_rate() as f32;
        let mut values = task.model.values().to_vec();
        for (place, y) in values.iter_mut().enumerate() {
            let (x, b) = (task.model.values()[place], self.b + self.start[place]);
            let constant = correction.constant.map_or(0.0, |constant| constant[place]);
            if self.is_exact {
                *y = (self.a * b + pull * x - constant) / (self.a + pull);
                continue;
            }
            for _ in 0..steps {
                *y -= rate * (self.a * (*y - b) + pull * (*y - x) + constant);
            }
        }
        Ok(Trained::new(values, 10, steps, 0.25))
    }

    fn evaluate(&mut self, _: &EvaluateTask<'_>, _: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        Err(TrainError::NoExamples)
    }
}

/// What happens to a run.
#[derive(Clone, Copy, Default)]
struct Trouble {
    /// The coordinator restarts before this round.
    restarts_before: Option<u32>,
    /// In this round one client diverges, so the round is abandoned although it took the other's update.
    abandoned: Option<u32>,
}

fn changes(algorithm: &Value, update: &Value) -> Value {
    json!({
        "training": {
            "epochs": null, "steps": STEPS, "optimizer": { "kind": "sgd", "learning_rate": RATE },
            "algorithm": algorithm,
        },
        "aggregation": { "combine": "uniform_mean" }, "update": update,
        "round": { "updates_goal": 2, "updates_min": 2, "backoff_ms": 1 },
    })
}

/// Where the model is after each version, from where it started. Every session is that of a new process.
async fn play(algorithm: Value, update: Value, versions: u32, trouble: Trouble) -> Vec<f32> {
    let mut world = World::start().await;
    let job = world.job(changes(&algorithm, &update)).await.head.id;
    let directories = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    for directory in &directories {
        // Enrolled one after the other: their numbers are the order of sums in f64.
        sdk_client(&world, directory.path()).enrol().await.unwrap();
    }
    let start = world.weights(job, 0).await;
    let is_exact = algorithm["kind"] == "fed_dyn";
    let curve = |[a, b]: [f32; 2], diverges| Curve { a, b, start: start.clone(), is_exact, diverges };
    let (mut reached, mut number) = (Vec::new(), 0);
    while reached.len() < versions as usize {
        number += 1;
        if trouble.restarts_before == Some(number) {
            world.restart().await;
        }
        let is_abandoned = trouble.abandoned == Some(number);
        let outcomes = round(&world, &directories, [curve([1.0, 0.0], false), curve([4.0, 1.0], is_abandoned)]).await;
        assert!(matches!(outcomes[0], Ok(Outcome::Contributed { .. })), "{outcomes:?}");
        if is_abandoned {
            world.pass_ms(10_000).await;
            assert_eq!(world.round(job, number).await.phase, Phase::Abandoned);
            world.pass_ms(10_000).await;
            continue;
        }
        assert!(matches!(outcomes[1], Ok(Outcome::Contributed { .. })), "{outcomes:?}");
        let version = reached.len() as u32 + 1;
        reached.push(world.weights(job, version).await[0] - start[0]);
    }
    world.check_books(job).await;
    reached
}

async fn round(
    world: &World,
    directories: &[TempDir; 2],
    [mut one, mut other]: [Curve; 2],
) -> [Result<Outcome, ClientError>; 2] {
    let client = |directory: &Path| sdk_client(world, directory);
    let (first, second) = (client(directories[0].path()), client(directories[1].path()));
    let helped = async {
        world.until_waiting(2).await;
        world.drive().await;
    };
    let sessions =
        async { tokio::join!(first.run_once(&mut one, &AlwaysOn), second.run_once(&mut other, &AlwaysOn), helped) };
    let (one, other, ()) = within_reason(sessions).await;
    world.drive().await;
    [one, other]
}

fn assert_near(reached: &[f32], printed: &[f64]) {
    let near = reached.iter().zip(printed).all(|(x, printed)| (f64::from(*x) - printed).abs() < ROUNDING);
    assert!(near, "{reached:?} instead of {printed:?}");
}

fn plain_codec() -> Value {
    json!({ "codec": "f32" })
}

#[tokio::test]
async fn scaffold_reaches_the_optimum_where_federated_averaging_does_not() {
    let averaging = play(json!({ "kind": "plain" }), plain_codec(), 12, Trouble::default()).await;
    assert_near(&averaging[..1], &[0.46112]);
    assert!((averaging[11] - 0.6925).abs() < 1e-4, "{averaging:?}");
    let scaffold = json!({ "kind": "scaffold", "clients": 2 });
    let reached = play(scaffold.clone(), plain_codec(), 12, Trouble::default()).await;
    assert_near(&reached[..3], &[0.46112, 0.697_709_144, 0.785_305_408_756]);
    assert!((reached[11] - 0.8).abs() < 1e-4, "{reached:?}");
    assert_eq!(averaging[0].to_bits(), reached[0].to_bits(), "without vectors it is federated averaging");
    let rounded = play(scaffold, json!({ "codec": "int8" }), 12, Trouble::default()).await;
    assert!((rounded[11] - 0.8).abs() < 0.02, "{rounded:?}");
    let gradient = json!({ "kind": "scaffold", "clients": 2, "control": "gradient" });
    let reached = play(gradient, plain_codec(), 12, Trouble::default()).await;
    assert!((reached[11] - 0.8).abs() < 1e-3, "option I: {reached:?}");
}

#[tokio::test]
async fn fed_dyn_meets_the_printed_rounds() {
    for (alpha, printed) in
        [(2.0, [0.666_667, 0.777_778, 0.814_815, 0.820_988]), (0.5, [0.888_889, 0.740_741, 0.724_280, 0.735_254])]
    {
        let fed_dyn = json!({ "kind": "fed_dyn", "alpha": alpha, "clients": 2 });
        assert_near(&play(fed_dyn, plain_codec(), 4, Trouble::default()).await, &printed);
    }
}

/// Goal: a restart of the coordinator, new processes of the clients, and a round that took an update and was abandoned
/// change no bit.
#[tokio::test]
async fn vectors_survive_restarts_and_a_round_that_was_abandoned() {
    for algorithm in
        [json!({ "kind": "scaffold", "clients": 2 }), json!({ "kind": "fed_dyn", "alpha": 2.0, "clients": 2 })]
    {
        let undisturbed = play(algorithm.clone(), plain_codec(), 4, Trouble::default()).await;
        for trouble in [
            Trouble { restarts_before: Some(3), abandoned: None },
            Trouble { restarts_before: None, abandoned: Some(1) },
            Trouble { restarts_before: Some(4), abandoned: Some(3) },
        ] {
            assert_eq!(play(algorithm.clone(), plain_codec(), 4, trouble).await, undisturbed, "{algorithm}");
        }
    }
}

/// The bound is of the delta alone: a control vector of ten times its length is no reason to refuse or scale it.
#[tokio::test]
async fn the_norm_bound_looks_at_the_delta_only() {
    let scaffold = json!({ "kind": "scaffold", "clients": 2 });
    // The longest delta is 0.92 in each of six coordinates, and its control vector 1.84.
    let bounded = json!({ "codec": "f32", "norm_max": 2.3 });
    let free = play(scaffold.clone(), plain_codec(), 2, Trouble::default()).await;
    assert_eq!(play(scaffold, bounded, 2, Trouble::default()).await, free);
}

#[tokio::test]
async fn a_trainer_that_cannot_correct_its_gradients_says_so_and_sends_nothing() {
    let world = World::start().await;
    let mut file = changes(&json!({ "kind": "fed_prox", "mu": 0.5 }), &plain_codec());
    file["round"] = json!({ "updates_goal": 1, "updates_min": 1 });
    let job = world.job(file).await.head.id;
    let directory = TempDir::new().unwrap();
    let mut adds = Adds::new(0.5);
    let refused = session(&world, &sdk_client(&world, directory.path()), &mut adds).await;
    assert!(matches!(refused, Err(ClientError::Training(TrainError::CannotFollow(_)))), "{refused:?}");
    assert_eq!(adds.trained, 0);
    let assignment = &world.assignments(job, 1).await[0];
    assert_eq!(assignment.state, AssignmentState::Failed);
    let reason = assignment.reason.as_deref().unwrap_or_default();
    assert!(reason.contains("fed_prox"), "{reason}");
}

/// Whether a trainer follows SCAFFOLD does not depend on settings, so its client says so in each check-in.
#[tokio::test]
async fn a_trainer_that_follows_no_corrections_is_not_drawn_where_all_are_corrected() {
    let world = World::start().await;
    let mut file = changes(&json!({ "kind": "scaffold", "clients": 2 }), &plain_codec());
    file["round"] = json!({ "updates_goal": 1, "updates_min": 1 });
    let job = world.job(file).await.head.id;
    let directory = TempDir::new().unwrap();
    let mut adds = Adds::new(0.5);
    world.drive().await;
    let client = Client::builder(world.server(), world.enrolment.clone()).state_dir(directory.path());
    let client = client.http_client(world.http.clone()).wait(Duration::ZERO).build().unwrap();
    let outcome = within_reason(client.run_once(&mut adds, &AlwaysOn)).await.unwrap();
    let Outcome::NothingToDo { waits_for: Some(WaitsFor::Admission { reason, .. }), .. } = outcome else {
        panic!("{outcome:?}")
    };
    assert!(reason.contains("algorithm:scaffold"), "{reason}");
    assert_eq!((adds.trained, world.assignments(job, 1).await.len()), (0, 0));
}
