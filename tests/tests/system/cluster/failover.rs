//! The coordinator that drives a job dies in the middle of a round.

use std::sync::mpsc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tributary_client::{AlwaysOn, Client, EvaluateTask, Evaluated, TrainError, TrainTask, Trained, Trainer};
use tributary_protocol::id::{JobId, Name};
use tributary_protocol::operator::{Event, Lease, Page};
use tributary_protocol::state::JobState;
use tributary_server::db::Db;

use super::balancer::balance;
use super::node::Node;
use crate::support::{World, directory_in_memory, http, postgres, within_reason};

/// Clients; every round needs all of them.
const CLIENTS: usize = 4;
/// Rounds of the job.
const ROUNDS: u32 = 10;
/// The round in which its driver dies.
const KILLED_IN: u32 = 5;
/// How long a lease lasts.
const LEASE: Duration = Duration::from_secs(2);
/// How far a weight may be from what its updates say: rounding to f32.
const ROUNDING: f64 = 1e-5;

/// Adds a power of two to the client's own weight, and waits once in the middle of it.
struct Learner {
    client: usize,
    trained: u32,
    halt: Option<Halt>,
}

/// Where training waits for the test.
struct Halt {
    reached: oneshot::Sender<()>,
    go_on: mpsc::Receiver<()>,
}

fn step(client: usize) -> f32 {
    0.5 / (1 << client) as f32
}

fn weight(client: usize) -> u64 {
    1 << client
}

impl Trainer for Learner {
    fn examples(&self) -> u64 {
        weight(self.client)
    }

    fn train(&mut self, task: &TrainTask<'_>, _: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        self.trained += 1;
        if self.trained == KILLED_IN
            && let Some(halt) = self.halt.take()
        {
            let _ = halt.reached.send(());
            // A test that failed meanwhile is gone.
            let _ = halt.go_on.recv();
        }
        let mut values = task.model.values().to_vec();
        values[self.client] += step(self.client);
        Ok(Trained::new(values, weight(self.client), 1, 0.25))
    }

    fn evaluate(&mut self, _: &EvaluateTask<'_>, _: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        Err(TrainError::NoExamples)
    }
}

/// Waits for an event by long polls of a coordinator; returns it.
pub(super) async fn event(world: &World, node: &Node, job: JobId, wanted: impl Fn(&Event) -> bool) -> Event {
    let mut after = 0;
    loop {
        let url = format!("http://{}/operator/v1/events?job={job}&after={after}&wait_ms=30000", node.address);
        let answered = within_reason(http().get(url).bearer_auth(&world.operator).send()).await.unwrap();
        let page: Page<Event> = within_reason(answered.json()).await.unwrap();
        if let Some(event) = page.items.iter().find(|event| wanted(event)) {
            return event.clone();
        }
        after = page.items.last().map_or(after, |event| event.sequence);
    }
}

async fn lease(db: &Db, job: JobId) -> (Name, Lease) {
    let leases = db.read().await.unwrap().leases().await.unwrap();
    leases.into_iter().find(|(_, lease)| lease.job == job).expect("somebody drives the job")
}

/// Goal: a round whose driver dies in the middle commits under another one within a lease's length, and the job
/// continues as if nothing had happened: every client's update is in every model exactly once.
/// Method: three coordinators behind a balancer; a client stands still in its training while the one that drives is
/// killed. A fourth coordinator, which does not drive, shows what is stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_driver_dies_in_mid_round_another_one_takes_over_within_the_lease() {
    let Some(database) = postgres().await else { return };
    let world = World::start_on(database.clone()).await;
    let policy = json!({ "updates_goal": CLIENTS, "updates_min": CLIENTS, "deadline_ms": 120_000 });
    let job = world.job(json!({ "round": policy, "stop": { "rounds": ROUNDS } })).await.head.id;
    let mut nodes = Vec::new();
    for name in ["first", "second", "third"] {
        nodes.push(Node::start(name, &database.url, LEASE).await);
    }
    let url = balance(nodes.iter().map(|node| node.address).collect()).await;
    let stop = CancellationToken::new();
    let (reached, is_reached) = oneshot::channel();
    let (go_on, may_go_on) = mpsc::channel();
    let mut halt = Some(Halt { reached, go_on: may_go_on });
    let daemons: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let directory = directory_in_memory();
            let mut learner = Learner { client, trained: 0, halt: halt.take() };
            let client = Client::builder(&url, &world.enrolment).state_dir(directory.path()).http_client(http());
            let (client, stopped) = (client.build().unwrap(), stop.clone());
            tokio::spawn(async move {
                client.run(&mut learner, &AlwaysOn, stopped.cancelled()).await;
                drop(directory);
                learner.trained
            })
        })
        .collect();

    within_reason(is_reached).await.unwrap();
    let in_round = |event: &Event, became: &str| event.round == Some(KILLED_IN) && event.became == became;
    event(&world, &nodes[0], job, |event| in_round(event, "reported")).await;
    let db = &world.app().db;
    let (driver, _) = lease(db, job).await;
    let place = nodes.iter().position(|node| node.name == driver).expect("one of the three drives");
    nodes.remove(place).kill().await;
    let (_, left) = lease(db, job).await;
    go_on.send(()).unwrap();

    let committed =
        event(&world, &nodes[0], job, |event| event.assignment.is_none() && in_round(event, "committed")).await;
    let (heir, taken) = lease(db, job).await;
    assert_ne!(heir, driver);
    assert_eq!(taken.token, left.token + 1, "the job changed hands once");
    let after_expiry_ms = committed.at_ms - left.expires_at_ms;
    let lease_ms = LEASE.as_millis() as i64;
    assert!((0..=lease_ms).contains(&after_expiry_ms), "committed {after_expiry_ms} ms after the lease expired");
    eprintln!("the round committed {after_expiry_ms} ms after the dead driver's lease expired");

    event(&world, &nodes[1], job, |event| event.became == "completed").await;
    stop.cancel();
    for daemon in daemons {
        assert_eq!(within_reason(daemon).await.unwrap(), ROUNDS, "nobody trained for a round twice");
    }
    check_result(&world, job).await;
}

/// Every round has all updates once; counters, events and models agree.
async fn check_result(world: &World, job: JobId) {
    let now = world.job_now(job).await;
    assert_eq!(
        (now.head.state, now.head.rounds_opened, now.head.rounds_committed),
        (JobState::Completed, ROUNDS, ROUNDS)
    );
    let weights: f64 = (0..CLIENTS).map(|client| weight(client) as f64).sum();
    let mut before = world.weights(job, 0).await;
    for version in 1..=ROUNDS {
        let after = world.weights(job, version).await;
        for client in 0..CLIENTS {
            let moved = f64::from(after[client]) - f64::from(before[client]);
            let expected = f64::from(step(client)) * weight(client) as f64 / weights;
            assert!((moved - expected).abs() < ROUNDING, "client {client} moved version {version} by {moved}");
        }
        before = after;
    }
    world.check_books(job).await;
}
