//! Sessions that go wrong: what is done is not done twice, and the app lives on.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use serde_json::json;
use tempfile::TempDir;
use tributary_client::store::{Durability, StoreError};
use tributary_client::{AlwaysOn, Client, ClientError, Host, MemoryStore, Outcome, Store, TrainError};
use tributary_protocol::operator::{Client as Enrolled, Page};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AssignmentState, Phase};

use super::gate::{Gate, Way};
use super::sessions::session;
use crate::support::{Adds, JumpingClock, Meanwhile, World, sdk_client, within_reason};

/// Goal: what was trained is uploaded by the next process and never trained again.
/// Method: the way to the coordinator is cut once training has begun, and the coordinator restarts; then a new client
/// with the same state directory finds the way open again.
#[tokio::test]
async fn work_that_could_not_be_delivered_is_uploaded_by_the_next_process_without_training_again() {
    let mut world = World::start().await;
    let job = world.job(json!({})).await;
    let directory = TempDir::new().unwrap();
    let gate = Gate::before(&world);
    let mut trainer = Meanwhile(Adds::new(0.5), || {
        gate.set(Way::Cut);
        Ok(())
    });
    let error =
        session(&world, &gate.client(&world, directory.path()), &mut trainer).await.expect_err("nobody answers");
    assert!(matches!(error, ClientError::Unreachable(_)), "{error}");
    assert_eq!(trainer.0.trained, 1);
    assert_eq!(world.assignments(job.head.id, 1).await[0].state, AssignmentState::Assigned);

    world.restart().await;
    gate.set(Way::Open);
    let mut idle = Adds::new(99.0);
    let outcome = within_reason(gate.client(&world, directory.path()).run_once(&mut idle, &AlwaysOn)).await.unwrap();
    assert!(matches!(outcome, Outcome::Contributed { round: 1, .. }), "{outcome:?}");
    assert_eq!(idle.trained, 0);
    world.drive().await;
    let round = world.round(job.head.id, 1).await;
    assert_eq!((round.phase, round.reported), (Phase::Committed, 1));
    let moved = world.weights(job.head.id, 1).await[0] - world.weights(job.head.id, 0).await[0];
    assert!((moved - 0.5).abs() < 1e-6, "{moved}");
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn a_client_that_is_too_late_is_told_so_quietly_and_goes_on() {
    let world = World::start().await;
    let job = world.job(json!({ "round": { "backoff_ms": 1 } })).await;
    let directory = TempDir::new().unwrap();
    let client = sdk_client(&world, directory.path());
    let hand = Arc::clone(&world.hand);
    let mut slow = Meanwhile(Adds::new(0.5), move || {
        hand.advance_ms(10_000);
        Ok(())
    });
    let outcome = session(&world, &client, &mut slow).await.unwrap();
    assert!(matches!(outcome, Outcome::TooLate { round: 1, .. }), "{outcome:?}");
    assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Abandoned);
    world.pass_ms(1).await;
    let outcome = session(&world, &client, &mut Adds::new(0.5)).await.unwrap();
    assert!(matches!(outcome, Outcome::Contributed { round: 2, .. }), "{outcome:?}");
    world.check_books(job.head.id).await;
}

/// The device's own clock says that the time is up: training stops by itself, though the server's has not moved.
#[tokio::test]
async fn training_stops_by_itself_at_the_deadline() {
    let world = World::start().await;
    let job = world.job(json!({})).await;
    let directory = TempDir::new().unwrap();
    let clock = Arc::new(JumpingClock::default());
    let client = Client::builder(world.server(), world.enrolment.clone()).state_dir(directory.path());
    let client = client.http_client(world.http.clone()).clock(Arc::clone(&clock) as Arc<_>).build().unwrap();
    let mut slow = Meanwhile(Adds::new(0.5), move || {
        clock.advance_ms(10_000);
        Ok(())
    });
    let outcome = session(&world, &client, &mut slow).await.unwrap();
    assert!(matches!(outcome, Outcome::TooLate { round: 1, .. }), "{outcome:?}");
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn a_trainer_that_panics_fails_its_assignment_and_not_the_app() {
    let world = World::start().await;
    let job = world.job(json!({ "round": { "backoff_ms": 1 } })).await;
    let directory = TempDir::new().unwrap();
    let client = sdk_client(&world, directory.path());
    let mut panics = Meanwhile(Adds::new(0.5), || panic!("index out of range in the app's own layer"));
    let error = session(&world, &client, &mut panics).await.expect_err("it panicked");
    assert!(error.to_string().contains("panicked"), "{error}");
    let assignment = &world.assignments(job.head.id, 1).await[0];
    assert_eq!(assignment.state, AssignmentState::Failed);
    assert!(assignment.reason.as_ref().unwrap().contains("index out of range"), "{assignment:?}");
    world.pass_ms(1).await;
    session(&world, &client, &mut Adds::new(0.5)).await.unwrap();
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn a_trainer_without_a_result_tells_why() {
    let world = World::start().await;
    let job = world.job(json!({ "round": { "backoff_ms": 1, "backoff_max_ms": 1 } })).await;
    let directory = TempDir::new().unwrap();
    let client = sdk_client(&world, directory.path());
    for (number, error, reason) in [
        (1, TrainError::NoExamples, "no_data"),
        (2, TrainError::Diverged, "diverged"),
        (3, TrainError::DoesNotFit("a layer is missing".into()), "does_not_fit"),
        (4, TrainError::Other("ünwell".repeat(400)), "other"),
    ] {
        let mut fails = Meanwhile(Adds::new(0.5), || Err(error.clone()));
        session(&world, &client, &mut fails).await.expect_err(reason);
        let assignment = &world.assignments(job.head.id, number).await[0];
        assert_eq!(assignment.state, AssignmentState::Failed, "{reason}");
        assert!(assignment.reason.as_ref().unwrap().starts_with(reason), "{assignment:?}");
        world.pass_ms(1).await;
    }
    for (number, step) in [(5, f32::NAN), (6, f32::INFINITY)] {
        session(&world, &client, &mut Adds::new(step)).await.expect_err("not finite");
        assert!(world.assignments(job.head.id, number).await[0].reason.as_ref().unwrap().starts_with("diverged"));
        world.pass_ms(1).await;
    }
    world.check_books(job.head.id).await;
}

/// A host that stops the session once training has begun.
struct Unplugged(AtomicBool);

impl Host for Unplugged {
    fn may_continue(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn a_host_that_says_stop_interrupts_training_and_the_round_does_not_wait() {
    let world = World::start().await;
    let job = world.job(json!({})).await;
    let directory = TempDir::new().unwrap();
    let client = sdk_client(&world, directory.path());
    let host = Unplugged(AtomicBool::new(true));
    let mut trainer = Meanwhile(Adds::new(0.5), || {
        host.0.store(false, Ordering::SeqCst);
        Ok(())
    });
    let helped = async {
        world.until_waiting(1).await;
        world.drive().await;
    };
    let (outcome, ()) = tokio::join!(client.run_once(&mut trainer, &host), helped);
    assert!(matches!(outcome, Ok(Outcome::Interrupted { .. })), "{outcome:?}");
    world.drive().await;
    let assignment = &world.assignments(job.head.id, 1).await[0];
    assert_eq!((assignment.state, assignment.reason.as_deref()), (AssignmentState::Failed, Some("interrupted")));
    assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Abandoned);
    let outcome = client.run_once(&mut trainer, &host).await;
    assert!(matches!(outcome, Ok(Outcome::Interrupted { .. })), "nothing is even asked: {outcome:?}");
    world.check_books(job.head.id).await;
}

/// A host that is unplugged once training has begun, and plugged in again after it was asked this many times.
struct Patient {
    unplugged: AtomicBool,
    asked: AtomicU32,
    again_after: u32,
}

impl Host for Patient {
    fn may_continue(&self) -> bool {
        !self.unplugged.load(Ordering::SeqCst) || self.asked.fetch_add(1, Ordering::SeqCst) >= self.again_after
    }

    fn may_wait(&self) -> bool {
        true
    }
}

/// How a session ends whose host is unplugged while it trains, and the state of its assignment.
async fn patient(again_after: u32) -> (Outcome, AssignmentState) {
    let world = World::start().await;
    let job = world.job(json!({})).await;
    let directory = TempDir::new().unwrap();
    let client = sdk_client(&world, directory.path());
    let host = Patient { unplugged: AtomicBool::new(false), asked: AtomicU32::new(0), again_after };
    let mut trainer = Meanwhile(Adds::new(0.5), || {
        host.unplugged.store(true, Ordering::SeqCst);
        Ok(())
    });
    let helped = async {
        world.until_waiting(1).await;
        world.drive().await;
    };
    let (outcome, ()) = tokio::join!(client.run_once(&mut trainer, &host), helped);
    assert_eq!(trainer.0.trained, 1);
    let assignment = world.assignments(job.head.id, 1).await.remove(0);
    world.check_books(job.head.id).await;
    (outcome.unwrap(), assignment.state)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_patient_host_pauses_training_which_then_goes_on_in_the_same_assignment() {
    let (outcome, state) = patient(5).await;
    assert!(matches!(outcome, Outcome::Contributed { round: 1, .. }), "{outcome:?}");
    assert_eq!(state, AssignmentState::Reported);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_ends_with_its_round() {
    let (outcome, state) = patient(u32::MAX).await;
    assert!(matches!(outcome, Outcome::TooLate { round: 1, .. }), "{outcome:?}");
    assert_eq!(state, AssignmentState::Assigned, "the coordinator's own clock has not moved");
}

#[tokio::test]
async fn a_client_that_the_coordinator_forgot_enrols_again() {
    let mut world = World::start().await;
    world.job(json!({})).await;
    let directory = TempDir::new().unwrap();
    session(&world, &sdk_client(&world, directory.path()), &mut Adds::new(0.5)).await.unwrap();
    world.lose_database().await;
    let job = world.job(json!({})).await;
    let error =
        sdk_client(&world, directory.path()).run_once(&mut Adds::new(0.5), &AlwaysOn).await.expect_err("old token");
    assert!(matches!(&error, ClientError::Refused(problem) if problem.kind == ProblemType::Unauthorized), "{error}");
    world.enrolment = world.token("devices").await.secret.expose();
    let outcome = session(&world, &sdk_client(&world, directory.path()), &mut Adds::new(0.5)).await.unwrap();
    assert!(matches!(outcome, Outcome::Contributed { round: 1, .. }), "{outcome:?}");
    let clients: Page<Enrolled> = world.look("/clients?population=devices").await.ok();
    assert_eq!(clients.items.len(), 1);
    world.check_books(job.head.id).await;
}

/// The answer to the upload is lost: the client asks first, learns that the update arrived, and sends nothing more.
#[tokio::test]
async fn a_lost_answer_to_an_upload_does_not_count_it_twice() {
    let world = World::start().await;
    let job = world.job(json!({})).await;
    let directory = TempDir::new().unwrap();
    let gate = Gate::before(&world);
    gate.set(Way::LosesUploadAnswers);
    let client = gate.client(&world, directory.path());
    let error = session(&world, &client, &mut Adds::new(0.5)).await.expect_err("the answer is lost");
    assert!(matches!(error, ClientError::Unreachable(_)), "{error}");
    let arrived = world.round(job.head.id, 1).await;
    assert_eq!((arrived.phase, arrived.reported), (Phase::Committed, 1));
    gate.set(Way::Open);
    let mut idle = Adds::new(99.0);
    let outcome = within_reason(client.run_once(&mut idle, &AlwaysOn)).await.unwrap();
    assert!(matches!(outcome, Outcome::Contributed { round: 1, .. }), "{outcome:?}");
    assert_eq!(idle.trained, 0);
    assert_eq!(world.round(job.head.id, 1).await, arrived);
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn a_state_directory_of_another_coordinator_is_refused() {
    let (one, two) = (World::start().await, World::start().await);
    one.job(json!({})).await;
    let directory = TempDir::new().unwrap();
    session(&one, &sdk_client(&one, directory.path()), &mut Adds::new(0.5)).await.unwrap();
    let error =
        sdk_client(&two, directory.path()).run_once(&mut Adds::new(0.5), &AlwaysOn).await.expect_err("another's");
    assert!(matches!(error, ClientError::ForeignState { .. }), "{error}");
}

/// A store whose disk can be full.
#[derive(Debug, Default)]
struct Disk {
    entries: MemoryStore,
    full: AtomicBool,
}

impl Disk {
    fn room(&self, name: &str) -> Result<(), StoreError> {
        match self.full.load(Ordering::SeqCst) {
            true => Err(StoreError { place: self.place(name), source: ErrorKind::StorageFull.into() }),
            false => Ok(()),
        }
    }
}

impl Store for Disk {
    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.entries.get(name)
    }

    fn put(&self, name: &str, value: &[u8], durability: Durability) -> Result<(), StoreError> {
        self.room(name)?;
        self.entries.put(name, value, durability)
    }

    fn append(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.room(name)?;
        self.entries.append(name, bytes)
    }

    fn rename(&self, from: &str, to: &str) -> Result<bool, StoreError> {
        self.entries.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<(), StoreError> {
        self.entries.remove(name)
    }

    fn names(&self) -> Result<Vec<String>, StoreError> {
        self.entries.names()
    }

    fn place(&self, name: &str) -> String {
        self.entries.place(name)
    }
}

/// Goal: a full disk costs a client its cache, not its work. Only an identity must be stored before it is used.
#[tokio::test]
async fn a_client_whose_disk_is_full_contributes_all_the_same() {
    let world = World::start().await;
    // A codec that keeps something on the device, and a model that is long enough to be stored while it comes.
    let model = json!({ "parameters": [{ "name": "w", "shape": [600, 1000] }] });
    let job = world.job(json!({ "model": model, "update": { "codec": "sign" } })).await;
    let disk = Arc::new(Disk::default());
    let client = Client::builder(world.server(), world.enrolment.clone()).store(Arc::clone(&disk) as Arc<_>);
    let client = client.http_client(world.http.clone()).clock(Arc::new(JumpingClock::default())).build().unwrap();
    disk.full.store(true, Ordering::SeqCst);
    let error = client.enrol().await.expect_err("the identity cannot be stored");
    assert!(matches!(error, ClientError::Store(_)), "{error}");
    disk.full.store(false, Ordering::SeqCst);
    session(&world, &client, &mut Adds::new(0.5)).await.unwrap();
    let state = format!("memory-{}.safetensors", job.head.id);
    assert!(disk.get(&state).unwrap().is_some());
    disk.full.store(true, Ordering::SeqCst);
    for number in 2..=3 {
        let outcome = session(&world, &client, &mut Adds::new(0.5)).await.unwrap();
        assert!(matches!(outcome, Outcome::Contributed { .. }), "{outcome:?}");
        let round = world.round(job.head.id, number).await;
        assert_eq!((round.phase, round.reported), (Phase::Committed, 1));
        assert_eq!(disk.get(&state).unwrap(), None, "the first residual was sent, and is not sent again");
    }
    world.check_books(job.head.id).await;
}
