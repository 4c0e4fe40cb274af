//! Sums of shards at several coordinators: each adds up a range of the parameters, and the versions are those of one.

use std::collections::VecDeque;

use reqwest::Method;
use serde_json::{Value, json};
use tributary_protocol::device::{Assignment, ReportAccepted};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::JobId;
use tributary_protocol::model::ParameterList;
use tributary_protocol::operator::{Job, Node, Page};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::seed::Seed;
use tributary_protocol::state::{AbandonReason, Phase};
use tributary_protocol::update::{Shard, UpdateHeader, cut, encode};

use super::buffered::buffered;
use crate::support::{Answer, Database, Device, World, figures, job_file, postgres};

/// Parameters of the job: six sections and a rest, so that it has up to five shards, and shards end within a tensor.
const PARAMETERS: [(&str, [usize; 2]); 3] = [("w", [1_300, 1_000]), ("b", [1, 7]), ("v", [60, 1_000])];

/// Several coordinators on one database, the first of which drives.
struct Coordinators(Vec<World>);

impl Coordinators {
    async fn start(count: usize) -> Option<Self> {
        Some(Self::on(postgres().await?, count).await)
    }

    async fn on(database: Database, count: usize) -> Self {
        let mut worlds = vec![World::start_on(database).await];
        for number in 1..count {
            let other = worlds[0].beside_as(&format!("other-{number}")).await;
            worlds.push(other);
        }
        let all = Self(worlds);
        all.drive().await;
        all
    }

    fn first(&self) -> &World {
        &self.0[0]
    }

    /// Lets every coordinator do what it can, the first one first.
    async fn drive(&self) {
        for world in &self.0 {
            world.drive().await;
        }
    }

    /// Lets them act until this round has ended.
    async fn finish(&self, job: JobId, round: u32) {
        for _ in 0..12 {
            self.drive().await;
            if !self.first().round(job, round).await.phase.is_open() {
                return;
            }
        }
        panic!("round {round} does not end: {:?}", self.first().round(job, round).await);
    }

    /// Where a part goes: to each coordinator in turn, whether or not it adds the part up.
    fn taker(&self, number: usize) -> &World {
        &self.0[number % self.0.len()]
    }
}

fn sharded(shards: Option<u16>, changes: &Value) -> Value {
    let parameters: Vec<_> = PARAMETERS.iter().map(|(name, shape)| json!({ "name": name, "shape": shape })).collect();
    let mut file = job_file(changes);
    file["model"]["parameters"] = json!(parameters);
    if let Some(shards) = shards {
        file["aggregation"]["shards"] = json!(shards);
    }
    file
}

/// The whole update of a device, the same in each run.
fn file_of(work: &Assignment, device: usize) -> (Vec<u8>, ParameterList, UpdateHeader) {
    let parts = work.plan.model.parts().unwrap();
    let parameters = work.plan.training.algorithm.update_parameters(parts.shared()).unwrap();
    let mut stream = Seed(1_000 * u64::from(work.round) + device as u64).stream();
    let length = if device == 1 { 0.5 } else { 1.0 };
    let delta: Vec<f32> =
        (0..parameters.total()).map(|_| length * ((stream.next_u64() >> 40) as f32 / (1 << 24) as f32 - 0.5)).collect();
    let header =
        UpdateHeader { codec: work.plan.codec, job: work.job.to_string(), base_version: work.model_version.into() };
    (encode(&delta, &parameters, &header, work.round, work.seed).unwrap(), parameters, header)
}

fn parts_of(work: &Assignment, device: usize) -> Vec<Vec<u8>> {
    let (file, parameters, header) = file_of(work, device);
    let vectors = parameters.total() / work.plan.model.parts().unwrap().shared().total();
    let shards = Shard::all(&parameters, vectors, work.plan.codec, work.plan.shards.unwrap());
    cut(&file, &parameters, &header, &shards).unwrap()
}

async fn put_part(
    world: &World,
    device: &Device,
    work: &Assignment,
    part: usize,
    body: Vec<u8>,
    told: &Value,
) -> Answer {
    let path = format!("/assignments/{}/parts/{part}", work.id);
    let there = Device { server: world.server(), ..device.clone() };
    Answer::to(there.request(Method::PUT, &path).query(told).body(body)).await
}

/// Sends the update of a device, in the form that its plan asks for.
async fn contribute(all: &Coordinators, device: &Device, number: usize, work: &Assignment) {
    let mut told = figures(10 + 7 * number as u32);
    // A loss that rises once makes a line search go back.
    told["loss"] = json!(if work.round == 2 { 4.0 } else { 1.0 / f64::from(work.round) });
    if work.plan.shards.is_none() {
        let _: ReportAccepted = device.put_update(work.id, &told, file_of(work, number).0).await.ok();
        return;
    }
    // Each device begins with another part.
    let mut parts: Vec<_> = parts_of(work, number).into_iter().enumerate().collect();
    let count = parts.len();
    parts.rotate_left(number % count);
    for (part, body) in parts {
        let taker = all.taker(number + part);
        let _: ReportAccepted = put_part(taker, device, work, part, body, &told).await.ok();
    }
}

async fn devices(world: &World) -> Vec<Device> {
    let devices: [Device; 3] = world.devices().await;
    devices.map(|device| device.reading(&["f32", "int8", "ternary"]).able(&["first", "feature:shards"])).into()
}

/// The hashes of the versions of a job, whose rounds take the updates of all devices, or in a buffered job of those two
/// that wait for longest.
async fn hashes(all: &Coordinators, file: &Value, rounds: u32) -> Vec<Sha256Hash> {
    let world = all.first();
    let job: Job = world.create_job(file).await.ok();
    let (job, devices) = (job.head.id, devices(world).await);
    let is_buffered = file["round"].get("mode").is_some();
    let (mut idle, mut at_work): (Vec<usize>, VecDeque<(usize, Assignment)>) =
        ((0..devices.len()).collect(), VecDeque::new());
    let mut hashes = Vec::new();
    for round in 1..=rounds {
        let waiting: Vec<_> = idle.iter().map(|number| &devices[*number]).collect();
        let work = world.gather(&waiting).await;
        at_work.extend(idle.drain(..).zip(work.into_iter().map(|work| work.expect("drawn"))));
        all.drive().await;
        for _ in 0..if is_buffered { 2 } else { devices.len() } {
            let (number, work) = at_work.pop_front().unwrap();
            contribute(all, &devices[number], number, &work).await;
            idle.push(number);
        }
        all.finish(job, round).await;
        assert_eq!(world.round(job, round).await.phase, Phase::Committed, "round {round}");
        hashes.push(Sha256Hash::of(&world.model_file(job, round).await));
    }
    world.check_books(job).await;
    hashes
}

/// Goal: a job that is cut into shards makes the versions of one that is not, however many coordinators there are.
async fn shards_make_the_versions_of_one_sum(changes: Value, rounds: u32) {
    make_the_versions_of_one_sum(|shards| sharded(shards, &of_three(&changes)), rounds).await;
}

/// The same where updates come late: a version has those of two of three clients.
async fn shards_of_buffers_make_the_versions_of_one_sum(changes: Value) {
    let mode = json!({ "buffer": 2, "concurrency": 3 });
    let file = |shards| {
        let mut file = sharded(shards, &changes);
        file["round"] = buffered(&mode, &json!({}))["round"].clone();
        file
    };
    make_the_versions_of_one_sum(file, 3).await;
}

async fn make_the_versions_of_one_sum(file: impl Fn(Option<u16>) -> Value, rounds: u32) {
    let Some(one) = Coordinators::start(1).await else { return };
    let whole = hashes(&one, &file(None), rounds).await;
    assert!(whole.windows(2).all(|pair| pair[0] != pair[1]), "the model does not move");
    for (shards, coordinators) in [(3, 1), (2, 2), (3, 3), (5, 3), (5, 5)] {
        let all = Coordinators::start(coordinators).await.unwrap();
        let cut = hashes(&all, &file(Some(shards)), rounds).await;
        assert_eq!(cut, whole, "{shards} shards at {coordinators} coordinators");
    }
}

fn of_three(changes: &Value) -> Value {
    let mut file = json!({ "round": { "updates_goal": 3, "updates_min": 3 } });
    for (name, value) in changes.as_object().unwrap() {
        file[name] = value.clone();
    }
    file
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn federated_averaging_of_int8() {
    let changes = json!({ "update": { "codec": "int8", "weight_max": 1000, "magnitude_max": 8.0 } });
    shards_make_the_versions_of_one_sum(changes, 2).await;
    shards_of_buffers_make_the_versions_of_one_sum(json!({})).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn adam_on_the_server_with_its_moments() {
    let adam = json!({ "aggregation": { "optimizer": { "kind": "adam", "learning_rate": 0.1 } } });
    shards_make_the_versions_of_one_sum(adam.clone(), 3).await;
    shards_of_buffers_make_the_versions_of_one_sum(adam).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scaffold_with_its_control_variate() {
    let changes = json!({
        "aggregation": { "combine": "uniform_mean" },
        "training": {
            "steps": 1, "epochs": null, "optimizer": { "kind": "sgd", "learning_rate": 0.1 },
            "algorithm": { "kind": "scaffold", "clients": 9 },
        },
    });
    shards_make_the_versions_of_one_sum(changes, 2).await;
}

/// Goal: the norms of whole updates are those of one coordinator, although nobody has a whole update. Two of three
/// updates are longer than the bound.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn norm_clipping_of_ternary() {
    let clipping = json!({ "kind": "norm_clipping", "norm": 250.0 });
    let changes = json!({
        "aggregation": { "combine": clipping },
        "update": { "codec": "ternary", "weight_max": 1000, "magnitude_max": 8.0 },
    });
    shards_make_the_versions_of_one_sum(changes, 2).await;
}

/// Goal: so are the inner products of a line search, which once goes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lbfgs_with_its_history() {
    let changes = json!({
        "aggregation": { "optimizer": { "kind": "lbfgs", "pairs": 2 } },
        "training": { "epochs": null, "steps": 1 },
    });
    shards_make_the_versions_of_one_sum(changes, 4).await;
}

/// Goal: so are a private sum and its noise, with a clip that moves, and with noise that the next version takes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn privacy_with_its_noise() {
    for (settings, rounds) in [
        (json!({ "mechanism": "gaussian", "noise_multiplier": 4.0, "clip": { "start": 250.0, "quantile": 0.5 } }), 2),
        (json!({ "mechanism": "blt", "noise_multiplier": 4.0, "clip": 250.0 }), 2),
    ] {
        let mut privacy = json!({
            "epsilon": 50.0, "delta": 1e-6, "participations_max": 10, "separation": 1,
            "test_key": Sha256Hash([9; 32]).to_string(),
        });
        privacy.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
        let changes = json!({
            "aggregation": { "combine": "uniform_mean" }, "stop": { "rounds": 10 }, "privacy": privacy,
        });
        shards_make_the_versions_of_one_sum(changes, rounds).await;
    }
}

/// The same with one coordinator on the store of the run, so on SQLite with its files too.
#[tokio::test]
async fn one_coordinator_with_shards_makes_the_versions_of_one_without() {
    let whole = hashes(&Coordinators(vec![World::start().await]), &sharded(None, &of_three(&json!({}))), 2).await;
    for world in [World::start().await, World::start_with_files().await] {
        let cut = hashes(&Coordinators(vec![world]), &sharded(Some(4), &of_three(&json!({}))), 2).await;
        assert_eq!(cut, whole);
    }
}

/// Goal: an update of which a part is missing when the round closes is in no sum; the others are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_update_that_never_becomes_whole_is_taken_out() {
    let mut hashes = Vec::new();
    for shards in [None, Some(3)] {
        let Some(all) = Coordinators::start(3).await else { return };
        let world = all.first();
        let file = sharded(shards, &json!({ "round": { "updates_goal": 3, "updates_min": 2 } }));
        let job: Job = world.create_job(&file).await.ok();
        let (job, devices) = (job.head.id, devices(world).await);
        let work = world.gather(&devices.iter().collect::<Vec<_>>()).await;
        let work: Vec<_> = work.into_iter().map(|work| work.expect("drawn")).collect();
        all.drive().await;
        if shards.is_some() {
            // Two of its three parts, each at the coordinator that adds it up.
            let owners = world.app().db.look().await.unwrap().shards(job).await.unwrap();
            for (part, body) in parts_of(&work[1], 1).into_iter().enumerate().take(2) {
                let owner = all.0.iter().find(|world| world.app().services.node == owners[part]).unwrap();
                let _: ReportAccepted = put_part(owner, &devices[1], &work[1], part, body, &figures(17)).await.ok();
            }
        }
        contribute(&all, &devices[0], 0, &work[0]).await;
        contribute(&all, &devices[2], 2, &work[2]).await;
        world.pass_ms(10_001).await;
        all.finish(job, 1).await;
        let round = world.round(job, 1).await;
        assert_eq!((round.phase, round.reported, round.expired), (Phase::Committed, 2, 1));
        hashes.push(Sha256Hash::of(&world.model_file(job, 1).await));
        world.check_books(job).await;
    }
    assert_eq!(hashes[0], hashes[1]);
}

/// Goal: the ranges of a coordinator that has died are made by another one, from the stored parts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_shards_of_a_dead_coordinator_have_another_one() {
    let Some(one) = Coordinators::start(1).await else { return };
    let file = |shards| sharded(shards, &of_three(&json!({})));
    let whole = hashes(&one, &file(None), 1).await;
    let Some(mut all) = Coordinators::start(3).await else { return };
    let job: Job = all.first().create_job(&file(Some(3))).await.ok();
    let (job, devices) = (job.head.id, devices(all.first()).await);
    let work = all.first().gather(&devices.iter().collect::<Vec<_>>()).await;
    all.drive().await;
    for (number, work) in work.iter().enumerate() {
        contribute(&all, &devices[number], number, work.as_ref().expect("drawn")).await;
    }
    assert_eq!(adds_up(all.first(), job).await, [1, 1, 1]);
    // The round has closed, and no range is made; two of the three never act again.
    all.0.truncate(1);
    all.drive().await;
    assert_eq!(all.first().round(job, 1).await.phase, Phase::Aggregating);
    all.first().pass_ms(60_000).await;
    all.finish(job, 1).await;
    assert_eq!(Sha256Hash::of(&all.first().model_file(job, 1).await), whole[0]);
    let mut shards = adds_up(all.first(), job).await;
    shards.sort_unstable();
    assert_eq!(shards, [0, 0, 3], "what the list of coordinators says of them");
}

/// Shards of each coordinator.
async fn adds_up(world: &World, job: JobId) -> Vec<usize> {
    let nodes: Page<Node> = world.look("/nodes").await.ok();
    let of_job = |node: &Node| node.shards.iter().filter(|shard| shard.job == job).count();
    nodes.items.iter().map(of_job).collect()
}

/// Goal: a part is checked as an update is: it comes once, and to what its job takes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_part_is_refused_with_the_reason() {
    let world = World::start().await;
    let all = Coordinators(vec![world]);
    let world = all.first();
    let norm = json!({ "codec": "f32", "weight_max": 1000, "magnitude_max": 8.0, "norm_max": 250.0 });
    let file = sharded(Some(3), &of_three(&json!({ "update": norm })));
    let job: Job = world.create_job(&file).await.ok();
    let (job, devices) = (job.head.id, devices(world).await);
    let work = world.gather(&devices.iter().collect::<Vec<_>>()).await;
    let work: Vec<_> = work.into_iter().map(|work| work.expect("drawn")).collect();
    let (device, mine) = (&devices[0], &work[0]);
    let parts = parts_of(mine, 0);
    let put = async |part: usize, body: &[u8], weight| {
        put_part(world, device, mine, part, body.to_vec(), &figures(weight)).await
    };
    let whole = device.put_update(mine.id, &figures(10), file_of(mine, 0).0).await;
    assert!(whole.refused(ProblemType::WrongState).detail.contains("parts"), "{whole:?}");
    put(3, &parts[0], 10).await.refused(ProblemType::WrongState);
    let _: ReportAccepted = put(0, &parts[0], 10).await.ok();
    let _: ReportAccepted = put(0, &parts[0], 10).await.ok();
    put(0, &parts[1], 10).await.refused(ProblemType::UpdateConflict);
    // Another weight than that of the part before ends the assignment, as a part of another shard does.
    let weights = put(1, &parts[1], 11).await;
    assert!(weights.refused(ProblemType::UpdateRejected).detail.contains("different weights"), "{weights:?}");
    let (other, theirs) = (&devices[1], &work[1]);
    let wrong = put_part(world, other, theirs, 0, parts_of(theirs, 1)[1].clone(), &figures(10)).await;
    assert!(wrong.refused(ProblemType::UpdateRejected).detail.contains("tag"), "{wrong:?}");
    // Each part is within the norm of the round, and the update is not.
    let (third, last) = (&devices[2], &work[2]);
    let parts = parts_of(last, 2);
    for (part, body) in parts.iter().enumerate().take(2) {
        let _: ReportAccepted = put_part(world, third, last, part, body.clone(), &figures(10)).await.ok();
    }
    let long = put_part(world, third, last, 2, parts[2].clone(), &figures(10)).await;
    assert!(long.refused(ProblemType::UpdateRejected).detail.contains("norm"), "{long:?}");
    all.finish(job, 1).await;
    let round = world.round(job, 1).await;
    assert_eq!((round.rejected, round.reason), (3, Some(AbandonReason::TooFewReports)), "{round:?}");
    world.check_books(job).await;
}
