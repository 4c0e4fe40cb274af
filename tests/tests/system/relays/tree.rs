//! A tree has the bits of the flat round, at any depth and in every codec.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use tributary_protocol::device::{Assignment, CheckInResponse, OpenJobs};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::JobId;
use tributary_protocol::operator::{Client, Job, Page, Round};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::relay::RELAY_ATTRIBUTE;
use tributary_protocol::seed::Seed;
use tributary_protocol::state::{JobState, Phase};
use tributary_protocol::update::CodecName;

use crate::support::{Answer, Device, WEIGHTS, World, delta_file, figures, within_reason};

const CLIENTS: usize = 12;
const ROUNDS: u32 = 10;

fn job(codec: &Value, combine: &str) -> Value {
    json!({
        "update": { "codec": codec },
        "aggregation": { "combine": combine },
        "round": { "updates_goal": CLIENTS, "updates_min": CLIENTS, "deadline_ms": 600_000 },
        "stop": { "rounds": ROUNDS },
    })
}

/// The update of a client in a round: its values and its weight. They depend on no draw and no id.
fn update(client: usize, round: u32) -> (Vec<f32>, u32) {
    let mut stream = Seed(3).derive("client", client as u64).derive("round", round.into()).stream();
    let values = (0..WEIGHTS).map(|_| stream.uniform(-0.5, 0.5)).collect();
    (values, 1 + (client as u32 * 37 + round) % 90)
}

/// The work of a device, once there is some.
pub(super) async fn next_work(device: &Device) -> Assignment {
    loop {
        if let CheckInResponse::Assigned(assignment) = device.wait().await.unwrap() {
            return *assignment;
        }
    }
}

/// Plays a client for all rounds. Seeds of clients differ from tree to tree, so the updates are encoded with one.
async fn play(client: usize, device: Device) {
    for round in 1..=ROUNDS {
        let mut assignment = within_reason(next_work(&device)).await;
        assert_eq!((assignment.round, assignment.model_version), (round, round - 1));
        assignment.seed = Seed(client as u64);
        let (values, weight) = update(client, round);
        let body = delta_file(&assignment, &values);
        let answer = device.put_update(assignment.id, &figures(weight), body).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
}

/// Plays all rounds with the clients behind these coordinators, as many at each. Returns the hashes of all versions.
async fn versions(root: &World, leaves: &[&World], codec: &Value, combine: &str) -> Vec<Sha256Hash> {
    let job = root.job(job(codec, combine)).await.head.id;
    let each = CLIENTS / leaves.len();
    let mut clients = Vec::new();
    for client in 0..CLIENTS {
        let device = leaves[client / each].device().await.reading(&["f32", "int8", "ternary", "top_k"]);
        clients.push(play(client, device));
    }
    join_all(clients).await;
    within_reason(ended(root, job)).await;
    let mut hashes = Vec::new();
    for version in 0..=ROUNDS {
        hashes.push(Sha256Hash::of(&root.model_file(job, version).await));
    }
    let rounds = [1, ROUNDS].map(|number| root.round(job, number));
    for round in join_all(rounds).await {
        assert_eq!((round.phase, round.reported, round.cohort), (Phase::Committed, 12, 12), "{round:?}");
        let weight: u32 = (0..CLIENTS).map(|client| update(client, round.number).1).sum();
        assert_eq!((round.weight, round.training_loss), (weight.into(), Some(0.5)), "{round:?}");
    }
    if leaves.len() > 1 {
        for relay in root.assignments(job, ROUNDS).await {
            assert!(relay.bytes_below.is_some_and(|bytes| bytes > 0), "{relay:?}");
        }
    }
    hashes
}

pub(super) async fn ended(world: &World, job: JobId) {
    until(world, async || world.job_now(job).await.head.state == JobState::Completed).await;
}

/// Returns when this is so.
pub(super) async fn until(world: &World, is_so: impl AsyncFn() -> bool) {
    let mut changes = world.app().signals.watch();
    while !is_so().await {
        changes.changed().await.unwrap();
    }
}

pub(super) async fn relays<const N: usize>(parent: &World) -> [World; N] {
    let relays: Vec<World> = join_all((0..N).map(|_| parent.relay())).await;
    relays.try_into().ok().unwrap()
}

/// Three relays of four clients, against twelve clients.
async fn tree_equals_flat(codec: CodecName, combine: &str) {
    let codec = json!(codec);
    let flat = World::start_driven().await;
    let expected = versions(&flat, &[&flat], &codec, combine).await;
    let root = World::start_driven().await;
    let [one, two, three] = relays::<3>(&root).await;
    assert_eq!(versions(&root, &[&one, &two, &three], &codec, combine).await, expected);
}

#[tokio::test]
async fn three_relays_make_the_model_of_twelve_clients() {
    tree_equals_flat(CodecName::F32, "weighted_mean").await;
}

#[tokio::test]
async fn relays_make_the_model_of_rounded_updates_that_all_count_alike() {
    tree_equals_flat(CodecName::Int8, "uniform_mean").await;
    tree_equals_flat(CodecName::Ternary, "weighted_mean").await;
}

/// Two relays, below each two relays of three clients.
#[tokio::test]
async fn relays_of_relays_make_the_same_model() {
    for (codec, combine) in [("ternary", "weighted_mean"), ("int8", "uniform_mean"), ("f32", "weighted_mean")] {
        relays_of_relays(&json!(codec), combine).await;
    }
}

async fn relays_of_relays(codec: &Value, combine: &str) {
    let flat = World::start_driven().await;
    let expected = versions(&flat, &[&flat], codec, combine).await;
    let root = World::start_driven().await;
    let [left, right] = relays::<2>(&root).await;
    let ([one, two], [three, four]) = (relays::<2>(&left).await, relays::<2>(&right).await);
    assert_eq!(versions(&root, &[&one, &two, &three, &four], codec, combine).await, expected);
    let shadows: Page<Job> = left.look("/jobs").await.ok();
    assert_eq!(shadows.items[0].head.state, JobState::Relaying);
    // Clients without code read their tables by it.
    let asked = left.request(Method::GET, "/device/v1/jobs").bearer_auth(&left.enrolment);
    let open: OpenJobs = Answer::to(asked).await.ok();
    assert_eq!(open.jobs[0].name.as_str(), "steps");
    let played: Round = left.round(shadows.items[0].head.id, 1).await;
    assert_eq!((played.phase, played.reported), (Phase::Committed, 6), "{played:?}");
    // The relays hear that the job has ended; a client that is no relay may not ask.
    for relay in [&left, &one] {
        within_reason(ended(relay, shadows.items[0].head.id)).await;
    }
    let device = root.device().await;
    let asked = device.request(Method::PUT, "/relay/jobs").json(&json!({ "jobs": [] }));
    Answer::to(asked).await.refused(ProblemType::Forbidden);
}

/// The list of clients has what the drawing of the tree needs.
#[tokio::test]
async fn the_list_of_clients_says_how_many_wait_behind_a_relay() {
    let root = World::start_driven().await;
    let [relay] = relays::<1>(&root).await;
    // A job that needs more clients than there are.
    root.job(job(&json!("f32"), "weighted_mean")).await;
    let device = relay.device().await;
    let waits = tokio::spawn(async move { next_work(&device).await });
    let mut arrivals = root.app().signals.arrivals();
    while root.app().fleet.lobby.is_empty() {
        within_reason(arrivals.changed()).await.unwrap();
    }
    let clients: Page<Client> = root.look("/clients?population=devices").await.ok();
    let [client] = clients.items.as_slice() else { panic!("{clients:?}") };
    let is_relay = client.granted.as_map().contains_key(RELAY_ATTRIBUTE);
    assert_eq!((is_relay, client.online, client.places), (true, true, Some(1)), "{client:?}");
    waits.abort();
}
