//! Coordinators that add up shards of a job, or drive it, die without a word while rounds go on.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tributary_client::{AlwaysOn, Client, EvaluateTask, Evaluated, TrainError, TrainTask, Trained, Trainer};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{JobId, Name};
use tributary_protocol::operator::{Event, Page};
use tributary_protocol::seed::{Seed, Stream};

use super::balancer::balance;
use super::node::Node;
use crate::support::{World, directory_in_memory, http, postgres, within_reason};

const CLIENTS: usize = 3;
const ROUNDS: u32 = 12;
const LEASE: Duration = Duration::from_secs(2);
/// Kills in a run: one of the driver, then one of a coordinator that only adds up, and so on.
const KILLS: usize = 6;
/// Four sections: three shards, whose borders are within the tensor.
const PARAMETERS: usize = 1_048_579;

/// Moves all weights a little, each client in its way.
struct Moves {
    client: usize,
}

impl Trainer for Moves {
    fn examples(&self) -> u64 {
        10 + self.client as u64
    }

    fn train(&mut self, task: &TrainTask<'_>, _: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        let step = |place: usize| ((place * 31 + self.client * 17) % 101) as f32 / 1_000.0 - 0.04;
        let values = task.model.values().iter().enumerate().map(|(place, value)| value + step(place)).collect();
        Ok(Trained::new(values, self.examples(), 1, 0.25))
    }

    fn evaluate(&mut self, _: &EvaluateTask<'_>, _: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        Err(TrainError::NoExamples)
    }
}

fn job(shards: Option<u16>) -> Value {
    let mut job = json!({
        "model": { "parameters": [{ "name": "w", "shape": [PARAMETERS] }] },
        "aggregation": { "optimizer": { "kind": "adam", "learning_rate": 0.01 } },
        "round": { "updates_goal": CLIENTS, "updates_min": CLIENTS, "deadline_ms": 600_000 },
        "stop": { "rounds": ROUNDS },
    });
    if let Some(shards) = shards {
        job["aggregation"]["shards"] = json!(shards);
    }
    job
}

fn clients(world: &World, url: &str, stop: &CancellationToken) -> Vec<JoinHandle<()>> {
    let client = |client| {
        let directory = directory_in_memory();
        let built = Client::builder(url, &world.enrolment).state_dir(directory.path()).http_client(http());
        let (built, stopped) = (built.build().unwrap(), stop.clone());
        tokio::spawn(async move {
            built.run(&mut Moves { client }, &AlwaysOn, stopped.cancelled()).await;
            drop(directory);
        })
    };
    (0..CLIENTS).map(client).collect()
}

/// Follows the events of a job by long polls of whichever coordinator the balancer has.
struct Events<'a> {
    world: &'a World,
    url: &'a str,
    job: JobId,
    after: u64,
}

impl Events<'_> {
    /// The next events.
    async fn next(&mut self) -> Vec<Event> {
        loop {
            let url = format!("{}/operator/v1/events?job={}&after={}&wait_ms=30000", self.url, self.job, self.after);
            // A coordinator that dies while it is asked: the next one is.
            let Ok(answer) = http().get(url).bearer_auth(&self.world.operator).send().await else { continue };
            let Ok(page) = answer.json::<Page<Event>>().await else { continue };
            if let Some(last) = page.items.last() {
                self.after = last.sequence;
                return page.items;
            }
        }
    }

    /// Lets so many events pass. Returns whether the job has completed.
    async fn pass(&mut self, mut count: usize) -> bool {
        loop {
            let events = within_reason(self.next()).await;
            if events.iter().any(|event| event.assignment.is_none() && event.became == "completed") {
                return true;
            }
            count = count.saturating_sub(events.len());
            if count == 0 {
                return false;
            }
        }
    }
}

async fn driver(world: &World, job: JobId) -> Option<Name> {
    let leases = world.app().db.read().await.unwrap().leases().await.unwrap();
    leases.into_iter().find(|(_, lease)| lease.job == job).map(|(node, _)| node)
}

/// Whom to kill: in turn the driver, and a coordinator that adds up a shard and does not drive.
async fn victim(world: &World, job: JobId, kill: usize, stream: &mut Stream) -> Option<Name> {
    let driver = driver(world, job).await;
    if kill.is_multiple_of(2) {
        return driver;
    }
    let owners = world.app().db.read().await.unwrap().shards(job).await.unwrap();
    let others: Vec<_> = owners.into_iter().filter(|owner| Some(owner) != driver.as_ref()).collect();
    others.get(stream.next_u64() as usize % others.len().max(1)).cloned()
}

/// Goal: whichever coordinator dies, the versions are those of one coordinator that adds up everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whichever_coordinator_of_a_sharded_job_dies_the_versions_are_the_same() {
    let Some(database) = postgres().await else { return };
    let expected = {
        let mut world = World::start_driven().await;
        let job = world.job(job(None)).await.head.id;
        let stop = CancellationToken::new();
        let url = world.server();
        let clients = clients(&world, &url, &stop);
        let completed = Events { world: &world, url: &url, job, after: 0 }.pass(usize::MAX).await;
        stop.cancel();
        for client in clients {
            within_reason(client).await.unwrap();
        }
        assert!(completed);
        let hash = Sha256Hash::of(&world.model_file(job, ROUNDS).await);
        world.stop().await;
        hash
    };
    let world = World::start_on(database.clone()).await;
    let mut nodes = Vec::new();
    for name in ["first", "second", "third"] {
        nodes.push(Node::start_at_its_url(name, &database.url, LEASE).await);
    }
    let url = balance(nodes.iter().map(|node| node.address).collect()).await;
    let job = world.job(job(Some(3))).await.head.id;
    let stop = CancellationToken::new();
    let clients = clients(&world, &url, &stop);
    let mut events = Events { world: &world, url: &url, job, after: 0 };
    let (mut stream, mut completed) = (Seed(38).stream(), false);
    for kill in 0..KILLS {
        completed = events.pass(1 + (stream.next_u64() % 12) as usize).await;
        assert!(!completed, "the run was too short for all its kills");
        let Some(name) = victim(&world, job, kill, &mut stream).await else { continue };
        let place = nodes.iter().position(|node| node.name == name).expect("one of the three");
        let dead = nodes.remove(place);
        let at = dead.address;
        dead.kill().await;
        nodes.push(Node::start_again(name.as_str(), &database.url, LEASE, at).await);
    }
    if !completed {
        completed = events.pass(usize::MAX).await;
    }
    stop.cancel();
    for client in clients {
        within_reason(client).await.unwrap();
    }
    assert!(completed);
    assert_eq!(Sha256Hash::of(&world.model_file(job, ROUNDS).await), expected);
    world.check_books(job).await;
}
