//! Coded rounds with the real SDK: several clients hold each part of the data, and whoever is missing, the model is
//! that of all parts.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all, pending};
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tributary_client::{
    AlwaysOn, Client, EvaluateTask, Evaluated, Host, LayerTrainer, Outcome, Sets, TrainError, TrainTask, Trained,
    Trainer,
};
use tributary_protocol::device::{Assignment, CheckInResponse, ReportAccepted};
use tributary_protocol::example_sets::ExampleSets;
use tributary_protocol::fixed::{Contribution, Weight};
use tributary_protocol::id::JobId;
use tributary_protocol::operator::{Assignment as Assigned, Job, Page, RoundDetail};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AssignmentState, JobState, Phase};
use tributary_protocol::sum::{SumWriter, tag};

use super::lockstep::{examples, model};
use crate::support::{Answer, Device, World, figures, http, job_file, within_reason};

/// A client's trainer over the parts that it holds. One that is stuck is asked to train and never comes back. One that
/// waits is asked twice for each training, as a trainer that works elsewhere is.
pub(super) struct Holder {
    sets: Sets,
    pub(super) is_stuck: bool,
    waits: bool,
    has_waited: bool,
}

impl Holder {
    pub(super) fn of(parts: &[usize]) -> Self {
        let with =
            |sets: Sets, part: &usize| sets.with(&format!("p{part}"), LayerTrainer::new(examples(*part))).unwrap();
        Self { sets: parts.iter().fold(Sets::new(), with), is_stuck: false, waits: false, has_waited: false }
    }
}

impl Trainer for Holder {
    fn examples(&self) -> u64 {
        self.sets.examples()
    }

    fn sets(&self) -> ExampleSets {
        self.sets.sets()
    }

    fn train(&mut self, task: &TrainTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        self.has_waited = self.waits && !self.has_waited;
        match self.is_stuck || self.has_waited {
            true => Err(TrainError::Pending),
            false => self.sets.train(task, should_stop),
        }
    }

    fn evaluate(&mut self, task: &EvaluateTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        self.sets.evaluate(task, should_stop)
    }

    fn ready(&mut self) -> BoxFuture<'_, ()> {
        if self.is_stuck { pending().boxed() } else { self.sets.ready() }
    }
}

pub(super) fn names(parts: usize) -> Vec<String> {
    (0..parts).map(|part| format!("p{part}")).collect()
}

pub(super) fn job(coded: &Value, changes: &Value) -> Value {
    let mut file = job_file(&json!({
        "training": { "epochs": 1, "batch_size": 7, "optimizer": { "kind": "sgd", "learning_rate": 0.2 } },
        "round": { "deadline_ms": 600_000 },
        "coded": coded,
        "stop": { "rounds": 1 },
    }));
    file["model"] = model();
    for setting in ["updates_goal", "updates_min", "over_selection"] {
        file["round"].as_object_mut().unwrap().remove(setting);
    }
    for (key, value) in changes.as_object().unwrap() {
        file[key] = value.clone();
    }
    file
}

/// Takes part for as long as it is polled. Ends when a session ends with a refusal.
pub(super) async fn take_part(world: &World, mut trainer: Holder) {
    let directory = TempDir::new().unwrap();
    let builder = Client::builder(world.server(), world.enrolment.clone()).state_dir(directory.path());
    let client = builder.http_client(http()).build().unwrap();
    loop {
        client.run_once(&mut trainer, &AlwaysOn).await.unwrap();
    }
}

pub(super) async fn completed(world: &World, job: JobId) {
    let mut changes = world.app().signals.watch();
    while world.job_now(job).await.head.state != JobState::Completed {
        changes.changed().await.unwrap();
    }
}

/// The files of all versions of a job whose clients hold these parts, and of whom some are stuck.
async fn versions(file: &Value, held: &[Vec<usize>], stuck: &[usize]) -> (World, JobId, Vec<Vec<u8>>) {
    let holder =
        |(place, parts): (usize, &Vec<usize>)| Holder { is_stuck: stuck.contains(&place), ..Holder::of(parts) };
    versions_of(file, held.iter().enumerate().map(holder).collect()).await
}

async fn versions_of(file: &Value, holders: Vec<Holder>) -> (World, JobId, Vec<Vec<u8>>) {
    let world = World::start_driven().await;
    let job = world.create_job(file).await.ok::<Job>().head.id;
    let clients = holders.into_iter().map(|holder| take_part(&world, holder));
    within_reason(async {
        tokio::select! {
            _ = join_all(clients) => unreachable!("clients take part for ever"),
            () = completed(&world, job) => {}
        }
    })
    .await;
    let rounds = world.job_now(job).await.head.rounds_committed;
    let mut files = Vec::new();
    for version in 0..=rounds {
        files.push(world.model_file(job, version).await.to_vec());
    }
    (world, job, files)
}

pub(super) fn values(file: &[u8]) -> Vec<f32> {
    let header = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    file[8 + header..].chunks(4).map(|value| f32::from_le_bytes(value.try_into().unwrap())).collect()
}

pub(super) fn distance(one: &[f32], other: &[f32]) -> f64 {
    assert_eq!(one.len(), other.len());
    one.iter().zip(other).map(|(one, other)| f64::from((one - other).abs())).fold(0.0, f64::max)
}

const PAIRS: [&[usize]; 4] = [&[0, 1], &[0, 1], &[2, 3], &[2, 3]];

fn pairs() -> Vec<Vec<usize>> {
    PAIRS.iter().map(|parts| parts.to_vec()).collect()
}

/// Goal: training depends on the seed, and updates are rounded at random; whoever of a block answers, the sum is the
/// same to the last bit.
#[tokio::test]
async fn whoever_of_a_block_is_missing_the_model_has_the_same_bits() {
    let coded = json!({ "parts": names(4), "stragglers": 1 });
    for changes in [json!({ "update": { "codec": "int8" } }), json!({ "update": { "codec": "f32" } })] {
        let file = job(&coded, &changes);
        let (world, id, whole) = versions(&file, &pairs(), &[]).await;
        assert!(distance(&values(&whole[0]), &values(&whole[1])) > 1e-3, "the model has moved");
        let round: RoundDetail = world.look(&format!("/jobs/{id}/rounds/1")).await.ok();
        assert_eq!((round.round.cohort, round.round.reported, round.round.goal), (8, 4, 4));
        let waiting = PAIRS.iter().map(|parts| Holder { waits: true, ..Holder::of(parts) }).collect();
        assert!(versions_of(&file, waiting).await.2 == whole, "trainers that are waited for");
        for stuck in [&[0][..], &[1], &[2], &[3], &[0, 2], &[1, 2], &[0, 3]] {
            let (_, _, without) = versions(&file, &pairs(), stuck).await;
            assert!(without == whole, "without {stuck:?} the model is another one");
        }
    }
}

/// Goal: over several rounds, and with a server optimiser, the model is that of clients that hold one part each.
#[tokio::test]
async fn the_model_is_that_of_a_star_whose_clients_hold_one_part_each() {
    // All examples in each step, so that no seed matters.
    let changes = json!({
        "training": { "steps": 3, "batch_size": 64, "optimizer": { "kind": "sgd", "learning_rate": 0.2 } },
        "update": { "codec": "f32" },
        "aggregation": { "combine": "uniform_mean", "optimizer": { "kind": "adam", "learning_rate": 0.05 } },
        "stop": { "rounds": 3 },
    });
    let coded = job(&json!({ "parts": names(4), "stragglers": 1 }), &changes);
    let (_, _, coded) = versions(&coded, &pairs(), &[]).await;
    let mut star = job(&Value::Null, &changes);
    star.as_object_mut().unwrap().remove("coded");
    star["round"] = json!({ "updates_goal": 4, "updates_min": 4, "over_selection": 1.0, "deadline_ms": 600_000 });
    let world = World::start_driven().await;
    let id = world.create_job(&star).await.ok::<Job>().head.id;
    let clients = (0..4).map(|part| {
        let world = &world;
        async move {
            let directory = TempDir::new().unwrap();
            let builder = Client::builder(world.server(), world.enrolment.clone()).state_dir(directory.path());
            let client = builder.http_client(http()).build().unwrap();
            let (mut trainer, mut contributed) = (LayerTrainer::new(examples(part)), 0);
            while contributed < 3 {
                let outcome = client.run_once(&mut trainer, &AlwaysOn).await.unwrap();
                contributed += u32::from(matches!(outcome, Outcome::Contributed { .. }));
            }
        }
    });
    within_reason(join_all(clients)).await;
    within_reason(completed(&world, id)).await;
    assert_eq!(coded.len(), 4);
    for (version, file) in (0..).zip(&coded) {
        assert!(*file == world.model_file(id, version).await, "version {version}");
    }
}

/// Goal: any three of five combinations give the weighted mean over all parts, up to rounding.
#[tokio::test]
async fn any_answers_of_a_cyclic_code_give_the_mean_of_all_parts() {
    let changes = json!({ "update": { "codec": "f32" } });
    let cyclic = job(&json!({ "parts": names(5), "stragglers": 2, "code": "cyclic" }), &changes);
    let held: Vec<Vec<usize>> = (0..5).map(|first| (first..first + 3).map(|part| part % 5).collect()).collect();
    let (world, id, first) = versions(&cyclic, &held, &[0, 1]).await;
    let round: RoundDetail = world.look(&format!("/jobs/{id}/rounds/1")).await.ok();
    assert_eq!((round.round.cohort, round.round.reported, round.round.goal), (5, 3, 3));
    // The same parts with the same seeds, each at two clients of blocks of one: no code at all.
    let moved = distance(&values(&first[0]), &values(&first[1]));
    for stuck in [[0, 3], [1, 2], [2, 4], [3, 4]] {
        let (_, _, other) = versions(&cyclic, &held, &stuck).await;
        let apart = distance(&values(&first[1]), &values(&other[1]));
        assert!(apart < 1e-5 && moved > 1e-3, "{apart} of {moved} without {stuck:?}");
    }
}

/// A client that speaks the device API by hand and holds these parts.
async fn holds(world: &World, parts: &[&str]) -> Device {
    world.device().await.able(&["first", "feature:parts"]).owning(parts)
}

/// Checks in until it is drawn.
async fn drawn(device: &Device) -> Assignment {
    within_reason(async {
        loop {
            if let CheckInResponse::Assigned(work) = device.check_in(60_000).await {
                return *work;
            }
        }
    })
    .await
}

/// The body of a sum of so many updates, whose values are all the same, and the figures beside it.
fn sum(assignment: &Assignment, updates: u32, value: i64) -> (Vec<u8>, Value) {
    let terms = assignment.coded.as_ref().unwrap().sum.unwrap();
    let contribution = Contribution { weight: Weight::examples(10 * updates), updates };
    let total = assignment.plan.model.parts().unwrap().shared().total();
    let tag = tag(&assignment.job, assignment.model_version, terms.binary_point);
    let mut writer = SumWriter::new(tag, contribution, total as u32);
    writer.push(&vec![value << 20; total]);
    (writer.finish().unwrap(), json!({ "examples": 10 * updates, "steps": 3, "train_ms": 12 }))
}

async fn put_sum(device: &Device, assignment: &Assignment, (body, figures): (Vec<u8>, Value)) -> Answer {
    let path = format!("/assignments/{}/sum", assignment.id);
    Answer::to(device.request(Method::PUT, &path).query(&figures).body(body)).await
}

/// Goal: the first answer of a block counts, once; the others of the block stop; wrong answers change nothing.
#[tokio::test]
async fn the_first_right_answer_of_a_block_counts() {
    let world = World::start_driven().await;
    let file = job(&json!({ "parts": ["a", "b"], "stragglers": 1 }), &json!({ "update": { "codec": "f32" } }));
    let id = world.create_job(&file).await.ok::<Job>().head.id;
    let [one, other] = [holds(&world, &["a", "b"]).await, holds(&world, &["a", "b"]).await];
    let (first, second) = tokio::join!(drawn(&one), drawn(&other));
    let parts = |work: &Assignment| work.coded.as_ref().unwrap().parts.clone();
    assert_eq!(parts(&first), parts(&second), "the same parts, with the same seeds");
    assert_eq!(first.ask_every_ms, 500, "who is not needed is soon there for the next round");
    assert_eq!(parts(&first).iter().map(|part| part.data.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    let refused = one.put_update(first.id, &figures(10), vec![0; 64]).await;
    refused.refused(ProblemType::WrongState);
    let few = put_sum(&one, &first, sum(&first, 1, 5)).await;
    assert!(few.refused(ProblemType::UpdateRejected).detail.contains("1 updates, where its block has 2 parts"));
    for _again in 0..2 {
        let _: ReportAccepted = put_sum(&other, &second, sum(&second, 2, 5)).await.ok();
    }
    within_reason(completed(&world, id)).await;
    let assigned: Page<Assigned> = world.look(&format!("/jobs/{id}/rounds/1/assignments")).await.ok();
    let states: BTreeMap<_, _> = assigned.items.iter().map(|item| (item.client, item.state)).collect();
    assert_eq!(states[&one.id], AssignmentState::Rejected);
    assert_eq!(states[&other.id], AssignmentState::Reported);
    assert!(assigned.items.iter().all(|item| item.places.is_none() && item.parts.len() == 2));
}

/// Goal: the work of the others ends with the first answer, and their late answers do not count.
#[tokio::test]
async fn the_others_of_a_block_are_told_that_it_is_there() {
    let world = World::start_driven().await;
    let file =
        job(&json!({ "parts": ["a", "b", "c", "d"], "stragglers": 1 }), &json!({ "update": { "codec": "f32" } }));
    let id = world.create_job(&file).await.ok::<Job>().head.id;
    let ab = [holds(&world, &["a", "b"]).await, holds(&world, &["a", "b"]).await];
    let cd = [holds(&world, &["c", "d"]).await, holds(&world, &["c", "d"]).await];
    let work = join_all([&ab[0], &ab[1], &cd[0], &cd[1]].map(drawn)).await;
    let _: ReportAccepted = put_sum(&ab[0], &work[0], sum(&work[0], 2, 5)).await.ok();
    let stale = put_sum(&ab[1], &work[1], sum(&work[1], 2, 7)).await;
    assert!(stale.refused(ProblemType::UpdateStale).detail.contains("another client brought"));
    let round: RoundDetail = world.look(&format!("/jobs/{id}/rounds/1")).await.ok();
    assert_eq!((round.round.phase, round.round.reported), (Phase::Training, 2), "the other block is missing");
    // The other holder of the second block fails, and the first one is enough.
    let _: ReportAccepted = cd[0].fail(work[2].id, "other").await.ok();
    let _: ReportAccepted = put_sum(&cd[1], &work[3], sum(&work[3], 2, 5)).await.ok();
    within_reason(completed(&world, id)).await;
}

/// Goal: a round waits for the holders of each part, and says which part is held too rarely.
#[tokio::test]
async fn a_part_that_is_held_too_rarely_is_named() {
    let world = World::start_driven().await;
    let file = job(&json!({ "parts": ["a", "b"], "stragglers": 1 }), &json!({ "update": { "codec": "f32" } }));
    let id = world.create_job(&file).await.ok::<Job>().head.id;
    let (one, other) = (holds(&world, &["a", "b"]).await, holds(&world, &["a"]).await);
    let waits = (one.wait(), other.wait());
    within_reason(async {
        loop {
            // There is no round before the driver has opened it.
            let answer = world.look(&format!("/jobs/{id}/rounds/1")).await;
            let lacks = |round: &RoundDetail| round.explanation.contains("part b is held by 1 of 2 clients");
            if answer.status == 200 && lacks(&answer.ok()) {
                return;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    let third = holds(&world, &["a", "b"]).await;
    let work = drawn(&third).await;
    assert_eq!(work.coded.as_ref().unwrap().parts.len(), 2);
    waits.0.abort();
    waits.1.abort();
}

/// Stops the session when so many parts have been trained.
struct StopsAfter<'a>(&'a AtomicU32, u32);

impl Host for StopsAfter<'_> {
    fn may_continue(&self) -> bool {
        self.0.load(Ordering::SeqCst) < self.1
    }
}

/// Counts the parts that were trained to their end.
struct Counts<'a>(Holder, &'a AtomicU32);

impl Trainer for Counts<'_> {
    fn examples(&self) -> u64 {
        self.0.examples()
    }

    fn sets(&self) -> ExampleSets {
        self.0.sets()
    }

    fn train(&mut self, task: &TrainTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        let trained = self.0.train(task, should_stop)?;
        self.1.fetch_add(1, Ordering::SeqCst);
        Ok(trained)
    }

    fn evaluate(&mut self, task: &EvaluateTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        self.0.evaluate(task, should_stop)
    }
}

/// Goal: a sum is stored before it is sent. The next session of the app sends it, and trains nothing.
#[tokio::test]
async fn a_sum_that_was_made_before_is_sent_by_the_next_session() {
    let world = World::start_driven().await;
    let file = job(&json!({ "parts": names(2), "stragglers": 1 }), &json!({}));
    let id = world.create_job(&file).await.ok::<Job>().head.id;
    let directory = TempDir::new().unwrap();
    let builder = Client::builder(world.server(), world.enrolment.clone()).state_dir(directory.path());
    let client = builder.http_client(http()).build().unwrap();
    let trained = AtomicU32::new(0);
    let mut trainer = Counts(Holder::of(&[0, 1]), &trained);
    let first = async {
        while trained.load(Ordering::SeqCst) < 2 {
            client.run_once(&mut trainer, &StopsAfter(&trained, 2)).await.unwrap();
        }
    };
    let other = take_part(&world, Holder { is_stuck: true, ..Holder::of(&[0, 1]) });
    within_reason(async {
        tokio::select! {
            () = other => unreachable!("it is stuck"),
            () = first => {}
        }
    })
    .await;
    assert_eq!(world.round(id, 1).await.reported, 0, "it was stopped before it sent the sum");
    let outcome = client.run_once(&mut trainer, &AlwaysOn).await.unwrap();
    assert!(matches!(outcome, Outcome::Contributed { round: 1, .. }), "{outcome:?}");
    assert_eq!(trained.load(Ordering::SeqCst), 2);
    within_reason(completed(&world, id)).await;
}
