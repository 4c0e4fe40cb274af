//! Groups that add up among themselves, with the real SDK over real links: their models have the bits of the star, and
//! no round is lost that the star would have kept.

use futures_util::future::join_all;
use serde_json::{Value, json};
use tempfile::TempDir;
use tributary_client::{
    AlwaysOn, Client, ClientError, EvaluateTask, Evaluated, Outcome, TrainError, TrainTask, Trained, Trainer,
};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::JobId;
use tributary_protocol::operator::{RoundDetail, RoundRing};
use tributary_protocol::plan::Algorithm;
use tributary_protocol::seed::Seed;
use tributary_protocol::state::{JobState, Phase, RingState};

use crate::support::{World, http, within_reason};

const MEMBERS: usize = 5;
const ROUNDS: u32 = 3;

/// Moves the model by values that depend on the client and on the model alone.
#[derive(Clone, Debug)]
struct Learns {
    client: u64,
    examples: u64,
}

impl Learns {
    fn new(client: usize) -> Self {
        Self { client: client as u64, examples: 3 + 7 * client as u64 }
    }
}

impl Trainer for Learns {
    fn examples(&self) -> u64 {
        self.examples
    }

    fn follows(&self, _: &Algorithm) -> bool {
        true
    }

    fn train(&mut self, task: &TrainTask<'_>, _: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        let mut stream = Seed(11).derive("client", self.client).stream();
        let values = task.model.values().iter().map(|value| 0.75 * value + stream.uniform(-0.5, 0.5)).collect();
        Ok(Trained::new(values, self.examples, 2, 0.25 + self.client as f64))
    }

    fn evaluate(&mut self, _: &EvaluateTask<'_>, _: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        Ok(Evaluated::new(self.examples, 0.5))
    }
}

/// A member with its state.
struct Member {
    client: Client,
    trainer: Learns,
    _directory: TempDir,
}

/// Members that enrol one after the other, so that each has the same number in every world.
async fn members(world: &World, count: usize, listens: bool) -> Vec<Member> {
    let mut members = Vec::new();
    for place in 0..count {
        let directory = TempDir::new().unwrap();
        let mut builder = Client::builder(world.server(), world.enrolment.clone()).state_dir(directory.path());
        if listens {
            builder = builder.listen("127.0.0.1:0", None);
        }
        let client = builder.http_client(http()).build().unwrap();
        client.enrol().await.unwrap();
        members.push(Member { client, trainer: Learns::new(place), _directory: directory });
    }
    members
}

impl Member {
    /// Takes part until it has contributed so often.
    async fn contribute(&mut self, rounds: u32) -> Result<(), ClientError> {
        let mut contributed = 0;
        while contributed < rounds {
            let outcome = self.client.run_once(&mut self.trainer, &AlwaysOn).await?;
            contributed += u32::from(matches!(outcome, Outcome::Contributed { .. }));
        }
        Ok(())
    }
}

fn job(changes: &Value, is_ring: bool) -> Value {
    let mut file = json!({
        "round": { "updates_goal": MEMBERS, "updates_min": 2, "deadline_ms": 600_000 },
        "stop": { "rounds": ROUNDS },
    });
    if is_ring {
        file["group"] = json!({ "topology": { "kind": "ring" } });
    }
    for (key, value) in changes.as_object().unwrap() {
        file[key] = value.clone();
    }
    file
}

async fn ended(world: &World, job: JobId) {
    let mut changes = world.app().signals.watch();
    while world.job_now(job).await.head.state != JobState::Completed {
        changes.changed().await.unwrap();
    }
}

async fn ring(world: &World, job: JobId, number: u32) -> RoundRing {
    let detail: RoundDetail = world.look(&format!("/jobs/{job}/rounds/{number}")).await.ok();
    detail.ring.expect("the round of a job with groups")
}

/// The hashes of all versions of a job whose members take part in all rounds.
async fn versions(changes: &Value, is_ring: bool) -> (World, JobId, Vec<Sha256Hash>) {
    let world = World::start_driven().await;
    let mut members = members(&world, MEMBERS, is_ring).await;
    let job = world.job(job(changes, is_ring)).await.head.id;
    let played = within_reason(join_all(members.iter_mut().map(|member| member.contribute(ROUNDS)))).await;
    assert!(played.iter().all(Result::is_ok), "{played:?}");
    within_reason(ended(&world, job)).await;
    let mut hashes = Vec::new();
    for version in 0..=ROUNDS {
        hashes.push(Sha256Hash::of(&world.model_file(job, version).await));
    }
    (world, job, hashes)
}

/// Goal: every version has the bits of the star, each round has one sum of all members, and each of them counts once.
async fn ring_equals_star(changes: Value) {
    let (_, _, expected) = versions(&changes, false).await;
    let (world, job, hashes) = versions(&changes, true).await;
    assert_eq!(hashes, expected, "{changes}");
    for number in 1..=ROUNDS {
        let round = world.round(job, number).await;
        assert_eq!((round.phase, round.reported, round.cohort), (Phase::Committed, 5, 5), "{round:?}");
        let examples: u64 = (0..MEMBERS).map(|place| Learns::new(place).examples).sum();
        assert_eq!((round.weight, round.training_loss.is_some()), (examples, true), "{round:?}");
        let RoundRing { attempts, waiting, star } = ring(&world, job, number).await;
        assert_eq!((attempts.len(), waiting, star), (1, 0, None));
        let [attempt] = &attempts[..] else { panic!("{attempts:?}") };
        assert_eq!((attempt.state, attempt.members.len()), (RingState::Counted, MEMBERS), "{attempt:?}");
        assert_eq!(attempt.members.iter().filter(|member| member.brings).count(), 1, "{attempt:?}");
        // A member that says its sum after the sum is stored is told that it is done.
        let hashes: Vec<_> = attempt.members.iter().filter_map(|member| member.outcome).collect();
        assert!(hashes.len() > MEMBERS / 2 && hashes.iter().all(|hash| Some(*hash) == attempt.sha256), "{attempt:?}");
    }
}

#[tokio::test]
async fn a_ring_makes_the_model_of_the_star() {
    ring_equals_star(json!({})).await;
}

#[tokio::test]
async fn a_ring_makes_the_model_of_rounded_updates() {
    ring_equals_star(json!({ "update": { "codec": "int8" }, "aggregation": { "combine": "uniform_mean" } })).await;
    ring_equals_star(json!({ "update": { "codec": "ternary" } })).await;
    ring_equals_star(json!({ "update": { "codec": { "top_k": { "keep": 0.5 } } } })).await;
}

#[tokio::test]
async fn a_ring_adds_both_vectors_of_scaffold_and_feeds_every_optimiser() {
    let scaffold = json!({ "kind": "scaffold", "clients": MEMBERS });
    let training = json!({ "epochs": 1, "optimizer": { "kind": "sgd", "learning_rate": 0.1 }, "algorithm": scaffold });
    ring_equals_star(json!({ "training": training, "aggregation": { "combine": "uniform_mean" } })).await;
    let adam = json!({ "kind": "adam", "learning_rate": 0.1 });
    ring_equals_star(json!({ "aggregation": { "optimizer": adam } })).await;
}
