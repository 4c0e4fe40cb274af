//! Sessions that go as they should, one after another, and daemons that stop.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::json;
use tempfile::TempDir;
use tributary_client::{
    AlwaysOn, Client, ClientError, EvaluateTask, Evaluated, Outcome, TrainError, TrainTask, Trained, Trainer,
};
use tributary_protocol::operator::{Client as Enrolled, Job, Page};
use tributary_protocol::state::{JobState, Phase};

use crate::support::{Adds, Meanwhile, World, evaluated_job, http, sdk_client, within_reason};

/// One session of one client, with the driver's help.
pub(crate) async fn session<T: Trainer>(
    world: &World,
    client: &Client,
    trainer: &mut T,
) -> Result<Outcome, ClientError> {
    let helped = async {
        world.until_waiting(1).await;
        world.drive().await;
    };
    let outcome = within_reason(async { tokio::join!(client.run_once(trainer, &AlwaysOn), helped).0 }).await;
    world.drive().await;
    outcome
}

#[tokio::test]
async fn a_session_enrols_trains_and_contributes() {
    let world = World::start().await;
    let job = world.job(json!({})).await;
    let directory = TempDir::new().unwrap();
    let mut trainer = Adds::new(0.5);
    let outcome = session(&world, &sdk_client(&world, directory.path()), &mut trainer).await.unwrap();
    assert!(matches!(outcome, Outcome::Contributed { round: 1, .. }), "{outcome:?}");
    let (before, after) = (world.weights(job.head.id, 0).await, world.weights(job.head.id, 1).await);
    assert!(before.iter().zip(&after).all(|(before, after)| (after - before - 0.5).abs() < 1e-6));
    let assignment = &world.assignments(job.head.id, 1).await[0];
    assert_eq!((assignment.weight, assignment.loss), (Some(10), Some(0.25)));
    world.check_books(job.head.id).await;
}

/// Trains like [`Adds`] after it was waited for twice.
struct Later {
    adds: Adds,
    waits: u32,
}

impl Trainer for Later {
    fn examples(&self) -> u64 {
        self.adds.examples()
    }

    fn train(&mut self, task: &TrainTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        if self.waits < 2 { Err(TrainError::Pending) } else { self.adds.train(task, should_stop) }
    }

    fn ready(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            tokio::task::yield_now().await;
            self.waits += 1;
        })
    }

    fn evaluate(&mut self, task: &EvaluateTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        self.adds.evaluate(task, should_stop)
    }
}

#[tokio::test]
async fn a_training_whose_result_comes_later_is_waited_for_in_the_same_session() {
    let world = World::start().await;
    let job = world.job(json!({})).await;
    let directory = TempDir::new().unwrap();
    let mut trainer = Later { adds: Adds::new(0.5), waits: 0 };
    let outcome = session(&world, &sdk_client(&world, directory.path()), &mut trainer).await.unwrap();
    assert!(matches!(outcome, Outcome::Contributed { round: 1, .. }), "{outcome:?}");
    assert_eq!((trainer.waits, trainer.adds.trained), (2, 1));
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn a_client_keeps_its_identity_and_its_model_from_session_to_session() {
    let mut world = World::start().await;
    let job = world.job(json!({ "round": { "updates_goal": 1 } })).await;
    let directory = TempDir::new().unwrap();
    for round in 1..=3 {
        // A new process each time.
        let outcome = session(&world, &sdk_client(&world, directory.path()), &mut Adds::new(0.5)).await.unwrap();
        assert!(matches!(outcome, Outcome::Contributed { .. }), "{round}: {outcome:?}");
        world.restart().await;
    }
    let clients: Page<Enrolled> = world.look("/clients?population=devices").await.ok();
    assert_eq!(
        clients.items.iter().map(|client| client.reported).collect::<Vec<_>>(),
        [3],
        "one client, enrolled once"
    );
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn a_model_that_the_client_has_is_not_downloaded_again() {
    let world = World::start().await;
    // The first round is abandoned, so the second one starts from the same model.
    let job = world.job(json!({ "round": { "updates_goal": 1, "backoff_ms": 1 } })).await;
    let directory = TempDir::new().unwrap();
    let client = sdk_client(&world, directory.path());
    let mut diverges = Meanwhile(Adds::new(0.5), || Err(TrainError::Diverged));
    session(&world, &client, &mut diverges).await.expect_err("it diverged");
    world.pass_ms(1).await;
    session(&world, &client, &mut Adds::new(0.5)).await.unwrap();
    let model_bytes = world.model_file(job.head.id, 0).await.len() as u64;
    let fetched =
        [world.round(job.head.id, 1).await.traffic.bytes_down, world.round(job.head.id, 2).await.traffic.bytes_down];
    assert_eq!(fetched, [model_bytes, 0]);
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn an_evaluator_measures_and_its_figures_are_stored() {
    let world = World::start().await;
    let job: Job = world.create_job(&evaluated_job(&json!({ "stop": { "rounds": 1 } }))).await.ok();
    let (one, two) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    session(&world, &sdk_client(&world, one.path()), &mut Adds::new(0.5)).await.unwrap();
    let evaluator = Client::builder(world.server(), world.enrolment.clone()).state_dir(two.path());
    let evaluator = evaluator.attribute("evaluator", "yes").http_client(http()).build().unwrap();
    let outcome = session(&world, &evaluator, &mut Adds::new(0.0)).await.unwrap();
    assert!(matches!(outcome, Outcome::Evaluated { round: 1, .. }), "{outcome:?}");
    let round = world.round(job.head.id, 1).await;
    assert_eq!((round.loss, round.accuracy), (Some(0.5), Some(0.75)));
    assert_eq!(world.job_now(job.head.id).await.head.state, JobState::Completed);
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn without_work_a_client_learns_when_to_come_back() {
    let world = World::start().await;
    let directory = TempDir::new().unwrap();
    let client = Client::builder(world.server(), world.enrolment.clone()).state_dir(directory.path());
    let client = client.wait(std::time::Duration::ZERO).http_client(http()).build().unwrap();
    let outcome = client.run_once(&mut Adds::new(0.5), &AlwaysOn).await.unwrap();
    let Outcome::NothingToDo { retry_after, .. } = outcome else { panic!("{outcome:?}") };
    assert!(retry_after.as_millis() >= 2_500, "no job runs: nothing will come soon");
    world.job(json!({ "round": { "updates_goal": 5 } })).await;
    let outcome = client.run_once(&mut Adds::new(0.5), &AlwaysOn).await.unwrap();
    assert!(outcome.retry_after().as_millis() < 2_500, "a job runs: work may come soon");
}

/// Goal: daemons bring a job to its end by themselves, under the real driver and clocks, and stop when told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemons_complete_a_job_and_stop_when_told() {
    let world = World::start_driven().await;
    let job = world.job(json!({ "round": { "updates_goal": 3, "updates_min": 3 }, "stop": { "rounds": 4 } })).await;
    let stop = tokio_util::sync::CancellationToken::new();
    let daemons: Vec<_> = (0..3)
        .map(|_| {
            let directory = TempDir::new().unwrap();
            let client = Client::builder(world.server(), world.enrolment.clone()).state_dir(directory.path());
            let client = Arc::new(client.http_client(world.http.clone()).build().unwrap());
            let stopped = stop.clone();
            tokio::spawn(async move {
                let mut trainer = Adds::new(0.25);
                client.run(&mut trainer, &AlwaysOn, stopped.cancelled()).await;
                drop(directory);
                trainer.trained
            })
        })
        .collect();
    let mut after = 0;
    loop {
        let path = format!("/events?job={}&after={after}&wait_ms=60000", job.head.id);
        let page = within_reason(world.look(&path)).await.value();
        let events = page["items"].as_array().unwrap();
        after += events.len();
        if events.iter().any(|event| event["became"] == "completed") {
            break;
        }
    }
    stop.cancel();
    for daemon in daemons {
        assert_eq!(within_reason(daemon).await.unwrap(), 4, "each trained in each round");
    }
    assert_eq!(world.round(job.head.id, 4).await.phase, Phase::Committed);
    world.check_books(job.head.id).await;
}
