//! Buffered jobs below relays: a sum counts in the buffer that is open when it comes.

use futures_util::future::join_all;
use serde_json::{Value, json};
use tributary_protocol::device::Assignment;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::JobId;
use tributary_protocol::operator::Job;
use tributary_protocol::seed::Seed;
use tributary_protocol::state::{AssignmentState, Phase};

use super::super::rounds::buffered::buffered;
use super::tree::{ended, next_work, relays, until};
use crate::support::{Device, WEIGHTS, World, delta_file, figures, within_reason};

/// Clients of a relay.
const EACH: usize = 2;

fn job(mode: &Value, versions: u32) -> Value {
    let mut mode = mode.clone();
    mode["concurrency"] = json!(6);
    mode["staleness_weight"] = json!({ "kind": "constant" });
    buffered(&mode, &json!({ "update": { "codec": "f32" }, "stop": { "rounds": versions } }))
}

/// Clients of one relay, or those that stand for them where there is none.
struct Pair {
    place: usize,
    devices: Vec<Device>,
    /// The work of both, once they have some.
    work: Option<Vec<Assignment>>,
}

impl Pair {
    async fn new(place: usize, world: &World) -> Self {
        let devices = join_all((0..EACH).map(|_| world.device())).await;
        Self { place, devices, work: None }
    }

    /// Returns when both have work.
    async fn are_drawn(&mut self) {
        let work = join_all(self.devices.iter().map(next_work));
        self.work = Some(within_reason(work).await);
    }

    /// Both report. Their updates depend on them and on their base version alone.
    async fn report(&mut self) {
        for (number, mut assignment) in self.work.take().unwrap().into_iter().enumerate() {
            let client = (EACH * self.place + number) as u64;
            let mut stream = Seed(5).derive("client", client).derive("base", assignment.model_version.into()).stream();
            let values: Vec<f32> = (0..WEIGHTS).map(|_| stream.uniform(-0.5, 0.5)).collect();
            assignment.seed = Seed(client);
            let body = delta_file(&assignment, &values);
            let weight = 3 + 7 * client as u32;
            let answer = self.devices[number].put_update(assignment.id, &figures(weight), body).await;
            assert_eq!(answer.status, 200, "{answer:?}");
        }
    }
}

/// Returns when so many versions are made.
async fn makes(world: &World, job: JobId, versions: u32) {
    within_reason(until(world, async || world.job_now(job).await.head.rounds_committed >= versions)).await;
}

/// Returns when a buffer has so many updates.
async fn has(world: &World, job: JobId, (round, updates): (u32, u32)) {
    within_reason(until(world, async || world.round(job, round).await.reported >= updates)).await;
}

/// Two versions of four updates each, of which two of the second one come from the model before.
async fn versions(root: &World, leaves: [&World; 3]) -> Vec<Sha256Hash> {
    let id = root.create_job(&job(&json!({ "buffer": 4 }), 2)).await.ok::<Job>().head.id;
    let mut pairs = Vec::new();
    for (place, world) in leaves.into_iter().enumerate() {
        pairs.push(Pair::new(place, world).await);
    }
    let [one, two, three] = pairs.as_mut_slice() else { unreachable!() };
    tokio::join!(one.are_drawn(), two.are_drawn(), three.are_drawn());
    one.report().await;
    has(root, id, (1, 2)).await;
    two.report().await;
    makes(root, id, 1).await;
    // The first pair has brought its share of the first buffer, and takes part in the second one.
    one.are_drawn().await;
    assert_eq!(one.work.as_ref().unwrap()[0].model_version, 1);
    one.report().await;
    has(root, id, (2, 2)).await;
    three.report().await;
    within_reason(ended(root, id)).await;
    let second = root.round(id, 2).await;
    assert_eq!((second.phase, second.reported), (Phase::Committed, 4), "{second:?}");
    assert_eq!(second.buffer.map(|buffer| buffer.staleness_mean), Some(Some(0.5)), "{second:?}");
    let mut hashes = Vec::new();
    for version in 0..=2 {
        hashes.push(Sha256Hash::of(&root.model_file(id, version).await));
    }
    hashes
}

#[tokio::test]
async fn buffers_of_relays_make_the_versions_of_their_clients() {
    let flat = World::start_driven().await;
    let expected = versions(&flat, [&flat, &flat, &flat]).await;
    let root = World::start_driven().await;
    let [one, two, three] = relays::<3>(&root).await;
    assert_eq!(versions(&root, [&one, &two, &three]).await, expected);
}

/// Goal: no update of a sum is left out, so a version may have more than the buffer asks for; and a relay that is
/// drawn again before the buffer closes plays a part of its own.
#[tokio::test]
async fn the_last_sum_of_a_buffer_counts_whole() {
    let root = World::start_driven().await;
    let [relay] = relays::<1>(&root).await;
    let id = root.create_job(&job(&json!({ "buffer": 3, "per_client": 2 }), 1)).await.ok::<Job>().head.id;
    let mut pair = Pair::new(0, &relay).await;
    for updates in [2, 4] {
        pair.are_drawn().await;
        pair.report().await;
        has(&root, id, (1, updates)).await;
    }
    within_reason(ended(&root, id)).await;
    let round = root.round(id, 1).await;
    assert_eq!((round.phase, round.goal, round.reported), (Phase::Committed, 3, 4), "{round:?}");
    let parts = root.assignments(id, 1).await;
    let parts: Vec<_> = parts.iter().map(|part| (part.state, part.places, part.updates)).collect();
    assert_eq!(parts, [(AssignmentState::Reported, Some(2), Some(2)); 2]);
    root.check_books(id).await;
}
