//! Groups that add up among themselves, with the real SDK over real links: their models have the bits of the star, and
//! no round is lost that the star would have kept.

use futures_util::StreamExt;
use futures_util::future::{join, join_all};
use futures_util::stream::FuturesUnordered;
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tributary_client::{
    AlwaysOn, Builder, Client, ClientError, EvaluateTask, Evaluated, Outcome, TrainError, TrainTask, Trained, Trainer,
};
use tributary_protocol::device::{Assignment as Work, CheckInResponse};
use tributary_protocol::digest::repr_digest;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{AssignmentId, JobId};
use tributary_protocol::operator::{Assignment, Page, RoundDetail, RoundRing};
use tributary_protocol::plan::Algorithm;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::seed::Seed;
use tributary_protocol::state::{JobState, Phase, RingState, StallKind, StarReason};

use crate::support::{Answer, Device, World, figures, http, within_reason};

pub(crate) const MEMBERS: usize = 5;
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
pub(crate) struct Member {
    client: Client,
    trainer: Learns,
    _directory: TempDir,
}

/// Members that enrol one after the other, so that each has the same number in every world.
async fn members(world: &World, count: usize, listens: bool) -> Vec<Member> {
    members_at(world, &vec![listens.then_some(None); count]).await
}

/// The same: those that listen, and the addresses that they tell others if it is not their own.
pub(super) async fn members_at(world: &World, addresses: &[Option<Option<&str>>]) -> Vec<Member> {
    let mut members = Vec::new();
    for (place, address) in addresses.iter().enumerate() {
        let builder = Client::builder(world.server(), world.enrolment.clone()).http_client(http());
        members.push(member(builder, (place, *address)).await);
    }
    members
}

/// One of them, with its place: whether it listens, and the address that it tells.
pub(crate) async fn member(builder: Builder, (place, address): (usize, Option<Option<&str>>)) -> Member {
    let directory = TempDir::new().unwrap();
    let builder = builder.state_dir(directory.path());
    let builder = match address {
        Some(advertised) => builder.listen("127.0.0.1:0", advertised.map(str::to_owned)),
        None => builder,
    };
    let client = builder.build().unwrap();
    client.enrol().await.unwrap();
    Member { client, trainer: Learns::new(place), _directory: directory }
}

impl Member {
    /// Takes part until it has contributed so often.
    pub(crate) async fn contribute(&mut self, rounds: u32) -> Result<(), ClientError> {
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

pub(super) async fn ended(world: &World, job: JobId) {
    let mut changes = world.app().signals.watch();
    while world.job_now(job).await.head.state != JobState::Completed {
        changes.changed().await.unwrap();
    }
}

pub(crate) async fn ring(world: &World, job: JobId, number: u32) -> RoundRing {
    let detail: RoundDetail = world.look(&format!("/jobs/{job}/rounds/{number}")).await.ok();
    detail.ring.expect("the round of a job with groups")
}

/// The first version of a star of the same members.
pub(crate) async fn star_model(count: usize, changes: &Value) -> Sha256Hash {
    let world = World::start_driven().await;
    let mut members = members(&world, count, false).await;
    let round = json!({ "updates_goal": count, "updates_min": count, "deadline_ms": 600_000 });
    let mut file = job(changes, false);
    (file["round"], file["stop"]) = (round, json!({ "rounds": 1 }));
    let job = world.job(file).await.head.id;
    within_reason(join_all(members.iter_mut().map(|member| member.contribute(1)))).await;
    within_reason(ended(&world, job)).await;
    Sha256Hash::of(&world.model_file(job, 1).await)
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
        // Each member has the figures of its own training.
        let page: Page<Assignment> = world.look(&format!("/jobs/{job}/rounds/{number}/assignments")).await.ok();
        for (place, row) in page.items.iter().enumerate() {
            let told = (Some(Learns::new(place).examples), Some(0.25 + place as f64));
            assert_eq!((row.weight, row.loss), told, "{row:?}");
        }
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
    ring_equals_star(json!({ "update": { "codec": { "name": "top_k", "density": 0.5 } } })).await;
}

#[tokio::test]
async fn a_ring_adds_both_vectors_of_scaffold_and_feeds_every_optimiser() {
    let scaffold = json!({ "kind": "scaffold", "clients": MEMBERS });
    let training = json!({ "epochs": 1, "optimizer": { "kind": "sgd", "learning_rate": 0.1 }, "algorithm": scaffold });
    ring_equals_star(json!({ "training": training, "aggregation": { "combine": "uniform_mean" } })).await;
    let adam = json!({ "kind": "adam", "learning_rate": 0.1 });
    ring_equals_star(json!({ "aggregation": { "optimizer": adam } })).await;
}

/// Goal: members make the next model by themselves where the coordinator adds the mean and does nothing else, so a
/// job's only download is that of its first model.
#[tokio::test]
async fn members_make_the_next_model_and_do_not_download_it() {
    let (world, job, _) = versions(&json!({ "update": { "codec": "int8" } }), true).await;
    let down = async |world: &World, job| {
        let mut bytes = Vec::new();
        for number in 1..=ROUNDS {
            bytes.push(world.round(job, number).await.traffic.bytes_down);
        }
        bytes
    };
    let model = world.model_file(job, 0).await.len() as u64;
    assert_eq!(down(&world, job).await, [MEMBERS as u64 * model, 0, 0]);
    // Where it does more, they download each version.
    let adam = json!({ "aggregation": { "optimizer": { "kind": "adam", "learning_rate": 0.1 } } });
    let (world, job, _) = versions(&adam, true).await;
    assert!(down(&world, job).await.iter().all(|bytes| *bytes >= MEMBERS as u64 * model));
}

/// Goal: on a grid, all members have one sum, which is near the exact one.
#[tokio::test]
async fn members_on_a_grid_make_a_model_near_that_of_the_star() {
    let (star, plain, _) = versions(&json!({}), false).await;
    let group = json!({ "topology": { "kind": "ring" }, "grid_bits": 16 });
    let (world, job, hashes) = versions(&json!({ "group": group }), true).await;
    for number in 1..=ROUNDS {
        let round = world.round(job, number).await;
        assert_eq!((round.phase, round.reported), (Phase::Committed, 5), "{round:?}");
        assert_eq!(ring(&world, job, number).await.attempts.len(), 1);
    }
    let (exact, rounded) = (star.weights(plain, ROUNDS).await, world.weights(job, ROUNDS).await);
    assert_ne!(hashes[ROUNDS as usize], Sha256Hash::of(&star.model_file(plain, ROUNDS).await));
    for (exact, rounded) in exact.iter().zip(&rounded) {
        assert!((exact - rounded).abs() < 1e-3, "{exact} and {rounded}");
    }
}

/// A job whose rounds wait no longer for lost members than a test may take.
pub(super) fn brisk(changes: &Value) -> Value {
    let mut file = job(changes, true);
    if changes.get("group").is_none() {
        file["group"] = json!({ "topology": { "kind": "ring" }, "frame_ms": 600 });
    }
    file["round"] = json!({ "updates_goal": MEMBERS, "updates_min": 2, "deadline_ms": 600_000 });
    file["stop"] = json!({ "rounds": 1 });
    file
}

/// The work of a device, once there is some.
async fn next_work(device: &Device) -> Work {
    loop {
        if let CheckInResponse::Assigned(assignment) = device.wait().await.unwrap() {
            return *assignment;
        }
    }
}

/// A member that takes part by hand, and answers no other member.
pub(super) struct Ghost {
    pub(super) device: Device,
    assignment: AssignmentId,
    weight: u32,
}

impl Ghost {
    /// Checks in, and waits for its work.
    async fn drawn(device: Device) -> Self {
        let assignment = within_reason(next_work(&device)).await;
        Self { device, assignment: assignment.id, weight: 10 }
    }

    pub(super) async fn put(&self, call: &str, body: &Value) -> Answer {
        let path = format!("/assignments/{}/{call}", self.assignment);
        Answer::to(self.device.request(Method::PUT, &path).json(body)).await
    }

    /// Says that it is ready, with a key and an address that nobody has.
    pub(super) async fn ready(&self, attempt: u32) -> Answer {
        self.ready_with(attempt, json!({ "weight": self.weight, "loss": 0.5, "steps": 1, "train_ms": 7 })).await
    }

    async fn ready_with(&self, attempt: u32, report: Value) -> Answer {
        let member = json!({ "key": Sha256Hash::of(b"ghost"), "addresses": ["127.0.0.1:9"] });
        self.put("ring", &json!({ "attempt": attempt, "member": member, "report": report })).await
    }
}

async fn ghost(world: &World) -> Device {
    world.device().await.able(&["first", "feature:ring"])
}

/// Goal: a member that is lost after it was put into a group costs its update, and no round.
#[tokio::test]
async fn a_member_that_dies_before_it_connects_is_left_out_of_the_next_attempt() {
    let world = World::start_driven().await;
    let mut members = members(&world, MEMBERS - 1, true).await;
    let device = ghost(&world).await;
    let job = world.job(brisk(&json!({}))).await.head.id;
    let lost = async {
        let ghost = Ghost::drawn(device).await;
        let formed = ghost.ready(0).await;
        assert_eq!(formed.value()["answer"], "formed", "{formed:?}");
    };
    let played = join_all(members.iter_mut().map(|member| member.contribute(1)));
    let (played, ()) = within_reason(join(played, lost)).await;
    assert!(played.iter().all(Result::is_ok), "{played:?}");
    within_reason(ended(&world, job)).await;
    let round = world.round(job, 1).await;
    assert_eq!((round.phase, round.reported), (Phase::Committed, 4), "{round:?}");
    let RoundRing { attempts, star, .. } = ring(&world, job, 1).await;
    let states: Vec<_> = attempts.iter().map(|attempt| (attempt.state, attempt.members.len())).collect();
    assert_eq!((states, star), (vec![(RingState::Failed, 5), (RingState::Counted, 4)], None));
    let blamed = attempts[0].members.iter().filter_map(|member| member.stall.map(|stall| stall.what));
    assert!(blamed.clone().count() > 0 && blamed.clone().all(|what| what == StallKind::Unreachable), "{attempts:?}");
    // The model is that of the star without it.
    assert_eq!(Sha256Hash::of(&world.model_file(job, 1).await), star_model(MEMBERS - 1, &json!({})).await);
}

/// A group of two that have each other, and one that nobody reaches: attempts are used up, and the star counts all who
/// can send.
#[tokio::test]
async fn after_its_last_attempt_members_send_their_own_updates() {
    let world = World::start_driven().await;
    let mut members = members(&world, MEMBERS - 1, true).await;
    let device = ghost(&world).await;
    let mut file = brisk(&json!({}));
    file["group"]["attempts"] = json!(1);
    file["round"]["updates_goal"] = json!(MEMBERS);
    file["round"]["updates_min"] = json!(4);
    let job = world.job(file).await.head.id;
    let lost = async {
        let ghost = Ghost::drawn(device).await;
        ghost.ready(0).await;
        let answer = ghost.ready(1).await;
        assert_eq!(answer.value()["answer"], "star", "{answer:?}");
        ghost.device.fail(ghost.assignment, "interrupted").await.value();
    };
    let played = join_all(members.iter_mut().map(|member| member.contribute(1)));
    let (played, ()) = within_reason(join(played, lost)).await;
    assert!(played.iter().all(Result::is_ok), "{played:?}");
    within_reason(ended(&world, job)).await;
    let round = world.round(job, 1).await;
    assert_eq!((round.phase, round.reported), (Phase::Committed, 4), "{round:?}");
    let RoundRing { attempts, star, .. } = ring(&world, job, 1).await;
    assert_eq!((attempts.len(), star), (1, Some(StarReason::Attempts)));
}

/// Members that were drawn for the only round of a job.
pub(super) async fn drawn_ghosts(world: &World, count: usize, changes: &Value) -> (JobId, Vec<Ghost>) {
    let mut devices = Vec::new();
    for _ in 0..count {
        devices.push(ghost(world).await);
    }
    let mut file = brisk(changes);
    file["round"]["updates_goal"] = json!(count);
    let job = world.job(file).await.head.id;
    let ghosts = join_all(devices.into_iter().map(Ghost::drawn)).await;
    (job, ghosts)
}

/// Members that are played by hand: what each says decides what becomes of the sum.
pub(super) async fn ghosts(world: &World, count: usize, changes: &Value) -> (JobId, Vec<Ghost>) {
    let (job, ghosts) = drawn_ghosts(world, count, changes).await;
    let formed = join_all(ghosts.iter().map(|ghost| ghost.ready(0))).await;
    assert!(formed.iter().all(|answer| answer.value()["answer"] == "formed"), "{formed:?}");
    (job, ghosts)
}

fn outcome(attempt: u32, sum: &[u8]) -> Value {
    let sha256 = Sha256Hash::of(sum);
    json!({ "attempt": attempt, "sha256": sha256, "bytes_sent": 1, "bytes_received": 1, "took_ms": 1 })
}

#[tokio::test]
async fn a_member_whose_sum_differs_is_rejected_and_the_others_try_again() {
    let world = World::start_driven().await;
    let (job, ghosts) = ghosts(&world, 4, &json!({})).await;
    let said = ghosts.iter().zip(["sum", "sum", "lie", "sum"]);
    let answers = join_all(said.map(async |(ghost, sum)| ghost.put("ring/outcome", &outcome(1, sum.as_bytes())).await));
    let answers = within_reason(answers).await;
    for (place, answer) in answers.iter().enumerate() {
        match place {
            2 => drop(answer.refused(ProblemType::UpdateRejected)),
            _ => assert_eq!(answer.value()["answer"], "over", "{answer:?}"),
        }
    }
    let again = [0, 1, 3].map(|place| ghosts[place].ready(1));
    let again = within_reason(join_all(again)).await;
    for answer in &again {
        let members = answer.value()["members"].as_array().unwrap().len();
        assert_eq!((answer.value()["answer"].as_str(), members), (Some("formed"), 3), "{answer:?}");
    }
    let RoundRing { attempts, .. } = ring(&world, job, 1).await;
    assert_eq!(attempts[0].state, RingState::Failed);
}

#[tokio::test]
async fn without_a_majority_members_send_their_own_updates() {
    let world = World::start_driven().await;
    let (job, ghosts) = ghosts(&world, 3, &json!({})).await;
    let said = ghosts.iter().zip(["one", "two", "three"]);
    let answers = join_all(said.map(async |(ghost, sum)| ghost.put("ring/outcome", &outcome(1, sum.as_bytes())).await));
    for answer in within_reason(answers).await {
        assert_eq!(answer.value()["answer"], "star", "{answer:?}");
    }
    assert_eq!(ring(&world, job, 1).await.star, Some(StarReason::Disagreement));
}

/// What a member must not do: bring a sum that it was not asked for, or another one than was agreed on; send its own
/// update while members add up; say two sums.
#[tokio::test]
async fn what_was_not_agreed_on_is_refused_and_changes_nothing() {
    let world = World::start_driven().await;
    let (job, ghosts) = ghosts(&world, 3, &json!({})).await;
    let bring = async |ghost: &Ghost, body: &[u8]| {
        let path = format!("/assignments/{}/sum?examples=30&steps=3&train_ms=21", ghost.assignment);
        let digest = repr_digest(Sha256Hash::of(body));
        let request = ghost.device.request(Method::PUT, &path).header("repr-digest", digest).body(body.to_vec());
        Answer::to(request).await
    };
    bring(&ghosts[0], b"sum").await.refused(ProblemType::WrongState);
    let own = ghosts[0].device.put_update(ghosts[0].assignment, &figures(10), vec![0; 64]).await;
    own.refused(ProblemType::WrongState);
    let said = ghosts.iter().map(async |ghost| ghost.put("ring/outcome", &outcome(1, b"sum")).await);
    let (mut asked, mut waiting) = (None, 0);
    let mut said: FuturesUnordered<_> = said.collect();
    // One is asked for the sum; the others are held until it has come.
    while asked.is_none() {
        let answer = within_reason(said.next()).await.unwrap();
        waiting += 1;
        if answer.value()["answer"] == "upload" {
            asked = Some(answer);
        }
    }
    assert_eq!(waiting, 1, "{asked:?}");
    assert_eq!(asked.unwrap().value()["examples"], 30);
    bring(&ghosts[0], b"another sum").await.refused(ProblemType::WrongState);
    let twice = ghosts[1].put("ring/outcome", &outcome(1, b"another sum")).await;
    twice.refused(ProblemType::UpdateConflict);
    let stranger = world.device().await;
    let path = format!("/assignments/{}/ring/outcome", ghosts[1].assignment);
    let stranger = Answer::to(stranger.request(Method::PUT, &path).json(&outcome(1, b"sum"))).await;
    stranger.refused(ProblemType::Forbidden);
    ghosts[1].put("ring", &json!({ "attempt": 0 })).await.refused(ProblemType::Malformed);
    let round = world.round(job, 1).await;
    assert_eq!((round.phase, round.reported), (Phase::Training, 0), "{round:?}");
}

/// A sum has the figures of all its members, and the upload of a wrong one is refused: so each member answers for its
/// own figures before it is in a group.
#[tokio::test]
async fn a_member_whose_figures_are_wrong_is_in_no_group() {
    let world = World::start_driven().await;
    let (_, ghosts) = drawn_ghosts(&world, 2, &json!({})).await;
    let wrong = [
        json!({ "weight": 10, "loss": 1e300, "steps": 1, "train_ms": 7 }),
        json!({ "weight": 0, "loss": 0.5, "steps": 1, "train_ms": 7 }),
        json!({ "weight": 4_000_000_000u32, "loss": 0.5, "steps": 1, "train_ms": 7 }),
    ];
    for report in wrong {
        ghosts[0].ready_with(0, report).await.refused(ProblemType::Malformed);
    }
}

/// A client that does not listen is not drawn, and the operator is told why.
#[tokio::test]
async fn a_client_that_does_not_listen_is_not_drawn() {
    let world = World::start().await;
    let mut file = job(&json!({}), true);
    file["round"]["updates_goal"] = json!(2);
    world.job(file).await;
    let deaf: [Device; 3] = world.devices().await;
    for answer in join_all(deaf.iter().map(|device| device.check_in(0))).await {
        assert!(!matches!(answer, CheckInResponse::Assigned(_)), "{answer:?}");
    }
}

/// A member that begins again without a memory of the last attempt is in the next one, and so is one that is late.
#[tokio::test]
async fn whoever_comes_back_or_finishes_late_is_in_the_next_attempt() {
    let world = World::start_driven().await;
    let device = ghost(&world).await;
    let devices = [ghost(&world).await, ghost(&world).await, ghost(&world).await];
    let mut file = brisk(&json!({}));
    // The last one is not waited for.
    file["round"]["updates_goal"] = json!(3);
    file["round"]["over_selection"] = json!(1.3);
    let job = world.job(file).await.head.id;
    let all = join_all(devices.into_iter().chain([device]).map(Ghost::drawn)).await;
    let (late, first) = all.split_last().unwrap();
    let formed = join_all(first.iter().map(|ghost| ghost.ready(0))).await;
    assert!(formed.iter().all(|answer| answer.value()["answer"] == "formed"), "{formed:?}");
    let late = late.ready(0);
    let stall = json!({ "attempt": 1, "rank": 1, "what": "closed", "step": 0 });
    first[0].put("ring/stall", &stall).await;
    let answers = async {
        while ring(&world, job, 1).await.attempts[0].state != RingState::Failed {
            tokio::task::yield_now().await;
        }
        // The first knows the attempt, the others have begun again.
        join_all([first[0].ready(1), first[1].ready(0), first[2].ready(0)]).await
    };
    let (late, answers) = within_reason(join(late, answers)).await;
    for answer in answers.iter().chain([&late]) {
        let (value, members) = (answer.value(), answer.value()["members"].as_array().map(Vec::len));
        assert_eq!((value["attempt"].as_u64(), members), (Some(2), Some(4)), "{answer:?}");
    }
}
