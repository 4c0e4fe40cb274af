//! Error feedback on the device: what an update leaves out is sent later, unless the update did not count.

use std::sync::Arc;

use serde_json::json;
use tempfile::TempDir;
use tributary_client::{AlwaysOn, FileStore, Outcome, Store, TrainError, TrainTask, Trained, Trainer};
use tributary_client::{EvaluateTask, Evaluated};
use tributary_protocol::id::JobId;
use tributary_protocol::operator::Job;
use tributary_protocol::safetensors::model_from_bytes;
use tributary_protocol::state::Phase;

use super::gate::{Gate, Way};
use super::sessions::session;
use crate::support::{Adds, Meanwhile, WEIGHTS, World, sdk_client, within_reason};

/// What training adds to each weight; `sign` sends the same length for all of them.
const LEARNT: [f32; WEIGHTS] = [0.5, -0.25, 0.125, -1.0, 0.75, 0.0625];
/// Rounding of f32 in a few sums of such numbers.
const ROUNDING: f32 = 1e-5;

/// Adds [`LEARNT`].
struct Learns;

impl Trainer for Learns {
    fn examples(&self) -> u64 {
        10
    }

    fn train(&mut self, task: &TrainTask<'_>, _: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        let values = task.model.values().iter().zip(LEARNT).map(|(value, learnt)| value + learnt).collect();
        Ok(Trained::new(values, 10, 1, 0.25))
    }

    fn evaluate(&mut self, _: &EvaluateTask<'_>, _: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        Err(TrainError::NoExamples)
    }
}

/// A device's store, as the SDK names its entries.
struct Device {
    store: FileStore,
    job: JobId,
}

impl Device {
    /// The file of what the job keeps.
    fn state(&self) -> Option<Vec<u8>> {
        self.store.get(&format!("memory-{}.safetensors", self.job)).unwrap()
    }

    /// The file of what the job keeps if the finished update is accepted.
    fn next_state(&self) -> Option<Vec<u8>> {
        self.store.get("memory-next.safetensors").unwrap()
    }
}

async fn job(world: &World) -> Job {
    world.job(json!({ "update": { "codec": "sign" }, "round": { "backoff_ms": 1 } })).await
}

/// Checks that the model has moved by all that `updates` sessions learnt, but for what the device keeps.
async fn assert_nothing_is_lost(world: &World, job: JobId, updates: u32, state: &[u8]) {
    let (first, last) = (world.weights(job, 0).await, world.weights(job, updates).await);
    let residual = model_from_bytes(state).unwrap().into_values();
    assert!(residual.iter().any(|value| *value != 0.0), "the codec leaves something out");
    for index in 0..WEIGHTS {
        let (learnt, came) = (updates as f32 * LEARNT[index], last[index] - first[index] + residual[index]);
        assert!((learnt - came).abs() < ROUNDING, "weight {index}: learnt {learnt}, {came} came or is kept");
    }
}

#[tokio::test]
async fn what_an_accepted_update_leaves_out_is_in_the_next_one() {
    let world = World::start().await;
    let job = job(&world).await.head.id;
    let directory = TempDir::new().unwrap();
    let device = Device { store: FileStore::new(directory.path()), job };
    for updates in 1..=4 {
        // A new process each time.
        let outcome = session(&world, &sdk_client(&world, directory.path()), &mut Learns).await.unwrap();
        assert!(matches!(outcome, Outcome::Contributed { .. }), "{outcome:?}");
        assert_nothing_is_lost(&world, job, updates, &device.state().unwrap()).await;
        assert_eq!(device.next_state(), None);
    }
    world.check_books(job).await;
}

/// Goal: a process that is killed between training and delivery loses nothing, and the job's state changes only when
/// the update is accepted.
#[tokio::test]
async fn what_an_update_leaves_out_survives_a_kill_and_counts_once_the_update_is_accepted() {
    let world = World::start().await;
    let job = job(&world).await.head.id;
    let directory = TempDir::new().unwrap();
    let device = Device { store: FileStore::new(directory.path()), job };
    session(&world, &sdk_client(&world, directory.path()), &mut Learns).await.unwrap();
    let first = device.state().unwrap();

    let gate = Gate::before(&world);
    let mut learns = CutsTheWay(&gate);
    session(&world, &gate.client(&world, directory.path()), &mut learns).await.expect_err("the way is cut");
    assert_eq!(device.state().unwrap(), first);
    let next = device.next_state().unwrap();
    assert_ne!(next, first);

    gate.set(Way::Open);
    let client = gate.client(&world, directory.path());
    let outcome = within_reason(client.run_once(&mut Adds::new(99.0), &AlwaysOn)).await.unwrap();
    assert!(matches!(outcome, Outcome::Contributed { round: 2, .. }), "{outcome:?}");
    world.drive().await;
    assert_eq!((device.state().unwrap(), device.next_state()), (next, None));
    assert_nothing_is_lost(&world, job, 2, &device.state().unwrap()).await;
    world.check_books(job).await;
}

/// Goal: an update that is too late, or that training did not finish, leaves the job's state as it was.
#[tokio::test]
async fn what_an_update_that_does_not_count_left_out_is_forgotten() {
    let world = World::start().await;
    let job = job(&world).await.head.id;
    let directory = TempDir::new().unwrap();
    let device = Device { store: FileStore::new(directory.path()), job };
    session(&world, &sdk_client(&world, directory.path()), &mut Learns).await.unwrap();
    let first = device.state().unwrap();

    let gate = Gate::before(&world);
    let client = gate.client(&world, directory.path());
    session(&world, &client, &mut CutsTheWay(&gate)).await.expect_err("the way is cut");
    assert!(device.next_state().is_some());
    world.pass_ms(10_000).await;
    assert_eq!(world.round(job, 2).await.phase, Phase::Abandoned);
    gate.set(Way::Open);
    let outcome = within_reason(client.run_once(&mut Adds::new(99.0), &AlwaysOn)).await.unwrap();
    assert!(matches!(outcome, Outcome::TooLate { round: 2, .. }), "{outcome:?}");
    assert_eq!((device.state().as_ref(), device.next_state()), (Some(&first), None));

    world.pass_ms(1).await;
    let mut diverges = Meanwhile(Adds::new(0.5), || Err(TrainError::Diverged));
    session(&world, &client, &mut diverges).await.expect_err("it diverged");
    assert_eq!((device.state().as_ref(), device.next_state()), (Some(&first), None));

    world.pass_ms(2).await;
    let outcome = session(&world, &client, &mut Learns).await.unwrap();
    assert!(matches!(outcome, Outcome::Contributed { round: 4, .. }), "{outcome:?}");
    assert_nothing_is_lost(&world, job, 2, &device.state().unwrap()).await;
    world.check_books(job).await;
}

/// Goal: a round that took an update and was abandoned afterwards costs the update, and nothing of what earlier updates
/// left out. Method: two clients, of which the second diverges in round 2, so that the round ends without a result.
#[tokio::test]
async fn a_round_that_was_abandoned_gives_back_what_earlier_updates_left_out() {
    for codec in ["sign", "dgc"] {
        let world = World::start().await;
        let round = json!({ "updates_goal": 2, "updates_min": 2, "backoff_ms": 1 });
        let job = world.job(json!({ "update": { "codec": codec }, "round": round })).await.head.id;
        let directories = [TempDir::new().unwrap(), TempDir::new().unwrap()];
        let device = Device { store: FileStore::new(directories[0].path()), job };
        for diverges in [false, true, false] {
            let [first, second] = directories.each_ref().map(|directory| sdk_client(&world, directory.path()));
            let (mut learns, mut fails) = (Learns, Meanwhile(Adds::new(0.5), || Err(TrainError::Diverged)));
            let helped = async {
                world.until_waiting(2).await;
                world.drive().await;
            };
            let other = async {
                match diverges {
                    true => drop(second.run_once(&mut fails, &AlwaysOn).await),
                    false => drop(second.run_once(&mut Learns, &AlwaysOn).await),
                }
            };
            let sessions = async { tokio::join!(first.run_once(&mut learns, &AlwaysOn), other, helped).0 };
            let outcome = within_reason(sessions).await.unwrap();
            assert!(matches!(outcome, Outcome::Contributed { .. }), "{outcome:?}");
            world.drive().await;
            world.pass_ms(10_000).await;
            world.pass_ms(10_000).await;
        }
        assert_eq!(world.round(job, 2).await.phase, Phase::Abandoned);
        assert_eq!(world.job_now(job).await.head.model_version, Some(2));
        // Both clients learn the same and are in the same state before rounds 1 and 3, so the mean is each one's
        // update.
        let state = model_from_bytes(&device.state().unwrap()).unwrap();
        let residual = state.tensor(state.parameters().index_of("residual").unwrap());
        let (before, after) = (world.weights(job, 0).await, world.weights(job, 2).await);
        if codec == "sign" {
            for index in 0..WEIGHTS {
                let (learnt, came) = (2.0 * LEARNT[index], after[index] - before[index] + residual[index]);
                assert!((learnt - came).abs() < ROUNDING, "weight {index}: learnt {learnt}, {came} came or is kept");
            }
        }
        world.check_books(job).await;
    }
}

/// Learns, and cuts the way to the coordinator meanwhile.
struct CutsTheWay<'a>(&'a Arc<Gate>);

impl Trainer for CutsTheWay<'_> {
    fn examples(&self) -> u64 {
        Learns.examples()
    }

    fn train(&mut self, task: &TrainTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        self.0.set(Way::Cut);
        Learns.train(task, should_stop)
    }

    fn evaluate(&mut self, task: &EvaluateTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        Learns.evaluate(task, should_stop)
    }
}
