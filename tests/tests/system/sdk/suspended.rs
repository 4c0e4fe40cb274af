//! Trainings that are interrupted and continue in a later session, as on a phone that is picked up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};
use tempfile::TempDir;
use tributary_client::examples::{MemoryExamples, Targets};
use tributary_client::{Host, HttpTransport, LayerTrainer, Outcome};
use tributary_protocol::seed::Seed;
use tributary_protocol::state::{AssignmentState, Phase};

use super::session;
use crate::support::{JumpingClock, World, job_file, sdk_client, sdk_client_at, within_reason};

/// Steps of a training: one pass over 40 examples in batches of 5.
const STEPS: u32 = 8;

/// A network with momentum and dropout, so that a training has state besides its weights.
fn job(deadline_ms: u64) -> Value {
    let mut file = job_file(&json!({
        "training": { "epochs": 1, "batch_size": 5, "optimizer": { "learning_rate": 0.2, "momentum": 0.5 } },
        "round": { "deadline_ms": deadline_ms },
    }));
    let layers = json!([
        { "kind": "linear", "out_features": 6 }, { "kind": "relu" },
        { "kind": "dropout", "probability": 0.25 }, { "kind": "linear", "out_features": 2 },
    ]);
    file["model"] = json!({ "input": [4], "layers": layers });
    file
}

fn trainer() -> LayerTrainer {
    let mut stream = Seed(99).stream();
    let inputs: Vec<f32> = (0..160).map(|_| stream.uniform(-1.0, 1.0)).collect();
    let labels = inputs.chunks(4).map(|example| u32::from(example[0] + example[1] > 0.0)).collect();
    LayerTrainer::new(Arc::new(MemoryExamples::new(vec![4], inputs, Targets::Classes(labels)).unwrap()))
}

/// A host that stops the session when it was asked so often.
struct PickedUp {
    left: AtomicU32,
}

impl Host for PickedUp {
    fn may_continue(&self) -> bool {
        let less = |left: u32| left.checked_sub(1);
        self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
    }
}

/// A host on a device that is killed: before one batch its clock has passed the time of a checkpoint, and before
/// another one the folder is copied, as the kill would leave it.
struct Killed<'a> {
    clock: &'a JumpingClock,
    folder: &'a TempDir,
    left: &'a TempDir,
    asked: AtomicU32,
    checkpoint_before: u32,
    killed_before: u32,
}

impl Host for Killed<'_> {
    fn may_continue(&self) -> bool {
        // The first question is before the session, so the others are before batches, counted from 1.
        let batch = self.asked.fetch_add(1, Ordering::SeqCst);
        if batch == self.checkpoint_before {
            self.clock.advance_ms(300_000);
        }
        if batch == self.killed_before {
            for entry in std::fs::read_dir(self.folder.path()).unwrap() {
                let entry = entry.unwrap();
                std::fs::copy(entry.path(), self.left.path().join(entry.file_name())).unwrap();
            }
        }
        batch != self.killed_before
    }
}

/// How many entries about suspended trainings the folder has.
fn checkpoints(directory: &TempDir) -> usize {
    let names = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().starts_with("suspended")).count()
}

/// The first session, which is asked once before it begins and then before each batch.
async fn interrupted_after(world: &World, directory: &TempDir, batches: u32) {
    let host = PickedUp { left: AtomicU32::new(1 + batches) };
    let client = sdk_client(world, directory.path());
    let helped = async {
        world.until_waiting(1).await;
        world.drive().await;
    };
    let mut trainer = trainer();
    let outcome = within_reason(async { tokio::join!(client.run_once(&mut trainer, &host), helped).0 }).await;
    assert!(matches!(outcome, Ok(Outcome::Interrupted { .. })), "{outcome:?}");
    world.drive().await;
}

/// The model of a training that is not disturbed, and its loss.
async fn undisturbed() -> (Vec<u8>, Option<f64>) {
    let world = World::start().await;
    let job = world.create_job(&job(600_000)).await.ok::<tributary_protocol::operator::Job>();
    let directory = TempDir::new().unwrap();
    let outcome = session(&world, &sdk_client(&world, directory.path()), &mut trainer()).await.unwrap();
    assert!(matches!(outcome, Outcome::Contributed { round: 1, .. }), "{outcome:?}");
    (world.model_file(job.head.id, 1).await, world.assignments(job.head.id, 1).await[0].loss)
}

/// Goal: an interruption loses nothing while the deadline allows another session. Method: sessions of new processes on
/// one folder, interrupted again and again; the model is that of a client that was not, and the round had one
/// assignment.
#[tokio::test]
async fn an_interrupted_training_goes_on_in_the_same_assignment_with_the_same_bits() {
    let undisturbed = undisturbed().await;

    let world = World::start().await;
    let job = world.create_job(&job(600_000)).await.ok::<tributary_protocol::operator::Job>();
    let directory = TempDir::new().unwrap();
    interrupted_after(&world, &directory, 3).await;
    assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Training);
    for batches in [2, 1] {
        let host = PickedUp { left: AtomicU32::new(1 + batches) };
        let outcome = within_reason(sdk_client(&world, directory.path()).run_once(&mut trainer(), &host)).await;
        assert!(matches!(outcome, Ok(Outcome::Interrupted { .. })), "{outcome:?}");
    }
    // Asked before the session, before each of the last two batches, before the loop ends, and before the upload.
    let host = PickedUp { left: AtomicU32::new(1 + STEPS - 6 + 1) };
    let outcome = within_reason(sdk_client(&world, directory.path()).run_once(&mut trainer(), &host)).await;
    assert!(matches!(outcome, Ok(Outcome::Contributed { round: 1, .. })), "{outcome:?}");
    world.drive().await;

    let assignments = world.assignments(job.head.id, 1).await;
    assert_eq!((assignments.len(), assignments[0].state), (1, AssignmentState::Reported));
    let resumed = (world.model_file(job.head.id, 1).await, assignments[0].loss);
    assert!(resumed == undisturbed, "other bits than without an interruption");
    assert_eq!(checkpoints(&directory), 0);
    world.check_books(job.head.id).await;
}

/// Goal: a killed process loses the steps since its last checkpoint, and nothing else. Method: the folder as a kill
/// leaves it, three steps after a checkpoint; the next session trains the steps since then, and no more.
#[tokio::test]
async fn a_killed_training_goes_on_from_its_last_checkpoint_with_the_same_bits() {
    let undisturbed = undisturbed().await;
    let world = World::start().await;
    let job = world.create_job(&job(900_000)).await.ok::<tributary_protocol::operator::Job>();
    let (folder, left, clock) = (TempDir::new().unwrap(), TempDir::new().unwrap(), Arc::new(JumpingClock::default()));
    let transport = Arc::new(HttpTransport::new(world.http.clone()));
    let client = sdk_client_at(&world, folder.path(), transport, Arc::clone(&clock));
    let (asked, checkpoint_before, killed_before) = (AtomicU32::new(0), 4, 7);
    let host = Killed { clock: &clock, folder: &folder, left: &left, asked, checkpoint_before, killed_before };
    let helped = async {
        world.until_waiting(1).await;
        world.drive().await;
    };
    let mut killed = trainer();
    let outcome = within_reason(async { tokio::join!(client.run_once(&mut killed, &host), helped).0 }).await;
    assert!(matches!(outcome, Ok(Outcome::Interrupted { .. })), "{outcome:?}");
    assert_eq!(checkpoints(&left), 2);

    // Asked before the session, before each of the last five batches, and before the upload.
    let host = PickedUp { left: AtomicU32::new(1 + (STEPS - 3) + 1) };
    let outcome = within_reason(sdk_client(&world, left.path()).run_once(&mut trainer(), &host)).await;
    assert!(matches!(outcome, Ok(Outcome::Contributed { round: 1, .. })), "{outcome:?}");
    assert_eq!(host.left.load(Ordering::SeqCst), 0, "it trained fewer steps");
    world.drive().await;
    let assignments = world.assignments(job.head.id, 1).await;
    assert_eq!((assignments.len(), assignments[0].state), (1, AssignmentState::Reported));
    assert!((world.model_file(job.head.id, 1).await, assignments[0].loss) == undisturbed, "other bits");
    assert_eq!(checkpoints(&left), 0);
    world.check_books(job.head.id).await;
}

/// Where no other session can come before the deadline, the round does not wait for one. The checkpoint of a round that
/// is over is not used for another.
#[tokio::test]
async fn shortly_before_the_deadline_an_interruption_ends_the_assignment() {
    let world = World::start().await;
    let job = world.create_job(&job(50_000)).await.ok::<tributary_protocol::operator::Job>();
    let directory = TempDir::new().unwrap();
    interrupted_after(&world, &directory, 3).await;
    let assignment = &world.assignments(job.head.id, 1).await[0];
    assert_eq!((assignment.state, assignment.reason.as_deref()), (AssignmentState::Failed, Some("interrupted")));
    assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Abandoned);

    world.pass_ms(1_000).await;
    let client = sdk_client(&world, directory.path());
    let outcome = session(&world, &client, &mut trainer()).await.unwrap();
    assert!(matches!(outcome, Outcome::Contributed { round: 2, .. }), "{outcome:?}");
    assert_eq!(checkpoints(&directory), 0);
    world.check_books(job.head.id).await;
}
