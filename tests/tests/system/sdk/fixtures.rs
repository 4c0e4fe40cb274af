//! Fixture jobs: after the same rounds with the same seeds, their models have the bits that they had before.
//!
//! The trainers compute with additions and products alone, so the bits are the same on every machine. A change of a
//! hash here is a change of results: it is intended, or it is a defect.

use serde_json::{Value, json};
use tempfile::TempDir;
use tributary_client::{AlwaysOn, EvaluateTask, Evaluated, TrainError, TrainTask, Trained, Trainer};
use tributary_protocol::device::Assignment;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::JobId;
use tributary_protocol::operator::Job;
use tributary_protocol::plan::Algorithm;
use tributary_protocol::state::Phase;

use crate::support::{Device, World, job_file, sdk_client, within_reason};

const CLIENTS: usize = 3;
const ROUNDS: u32 = 4;
const VALUES: usize = 96;

/// `w` and `v` are shared, `head` is personal where the job says so.
fn model(personal: &[&str]) -> Value {
    let parameters = json!([
        { "name": "w", "shape": [16, 4] }, { "name": "head", "shape": [8] }, { "name": "v", "shape": [24] },
    ]);
    json!({ "parameters": parameters, "personal": personal })
}

/// Pulls each value towards a target of the client's own.
struct Pulls {
    client: usize,
    diverges: bool,
}

impl Trainer for Pulls {
    fn examples(&self) -> u64 {
        10 + 7 * self.client as u64
    }

    fn follows(&self, _: &Algorithm) -> bool {
        true
    }

    fn train(&mut self, task: &TrainTask<'_>, _: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        if self.diverges {
            return Err(TrainError::Diverged);
        }
        let correction = task.correction();
        let rate = task.training.optimizer.learning_rate() as f32;
        let steps = u64::from(task.training.steps.unwrap_or(1));
        let mut values = task.model.values().to_vec();
        for (place, y) in values.iter_mut().enumerate() {
            let target = ((place * 7 + self.client * 13) % 11) as f32 * 0.125 - 0.5;
            let constant = correction.constant.map_or(0.0, |constant| constant[place]);
            let start = task.model.values()[place];
            for _ in 0..steps {
                *y -= rate * ((*y - target) + correction.pull as f32 * (*y - start) + constant);
            }
        }
        let loss = 0.25 + 0.125 * self.client as f64;
        Ok(Trained::new(values, self.examples(), steps, loss))
    }

    fn evaluate(&mut self, _: &EvaluateTask<'_>, _: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        Err(TrainError::NoExamples)
    }
}

async fn create(world: &World, mut file: Value, personal: &[&str]) -> JobId {
    file["model"] = model(personal);
    world.create_job(&file).await.ok::<Job>().head.id
}

async fn sha256(world: &World, job: JobId, version: u32) -> String {
    world.check_books(job).await;
    Sha256Hash::of(&world.model_file(job, version).await).to_string()
}

/// Four versions by three clients of the SDK. In the second round one of them diverges, so the round is abandoned
/// although it took the updates of the others.
async fn synchronous(changes: Value, personal: &[&str]) -> String {
    let world = World::start().await;
    let round = json!({ "updates_goal": 3, "updates_min": 3, "backoff_ms": 1 });
    let training = json!({ "epochs": null, "steps": 3, "optimizer": { "kind": "sgd", "learning_rate": 0.125 } });
    let mut file = job_file(&json!({ "round": round, "training": training }));
    merge(&mut file, &changes);
    let job = create(&world, file, personal).await;
    let directories: [TempDir; CLIENTS] = std::array::from_fn(|_| TempDir::new().unwrap());
    for directory in &directories {
        sdk_client(&world, directory.path()).enrol().await.unwrap();
    }
    let (mut version, mut number) = (0, 0);
    while version < ROUNDS {
        number += 1;
        let diverges = number == 2;
        let sessions = directories.iter().enumerate().map(|(client, directory)| {
            let client_of_sdk = sdk_client(&world, directory.path());
            let mut trainer = Pulls { client, diverges: diverges && client == 1 };
            async move { client_of_sdk.run_once(&mut trainer, &AlwaysOn).await.map(|_| ()) }
        });
        let helped = async {
            world.until_waiting(CLIENTS).await;
            world.drive().await;
        };
        within_reason(async { tokio::join!(futures_util::future::join_all(sessions), helped) }).await;
        world.drive().await;
        if diverges {
            world.pass_ms(10_000).await;
            assert_eq!(world.round(job, number).await.phase, Phase::Abandoned);
            world.pass_ms(10_000).await;
        } else {
            version += 1;
        }
        assert_eq!(world.job_now(job).await.head.model_version, Some(version));
    }
    sha256(&world, job, ROUNDS).await
}

fn merge(target: &mut Value, changes: &Value) {
    match (target, changes) {
        (Value::Object(target), Value::Object(changes)) => {
            for (key, change) in changes {
                merge(target.entry(key).or_insert(Value::Null), change);
            }
        }
        (target, change) => *target = change.clone(),
    }
}

async fn contribute(device: &Device, assignment: &Assignment, client: usize) {
    let delta: Vec<f32> = (0..VALUES)
        .map(|place| ((place * 5 + client * 3 + assignment.round as usize) % 9) as f32 * 0.0625 - 0.25)
        .collect();
    device.contribute(assignment, &delta, 10 + 7 * client as u32).await;
}

/// Versions of a buffered job whose third client is always the slowest.
async fn buffered(mode: Value, changes: Value) -> String {
    let world = World::start().await;
    let mut file = job_file(&changes);
    let round = file["round"].as_object_mut().unwrap();
    for setting in ["updates_goal", "updates_min", "over_selection", "selection_timeout_ms"] {
        round.remove(setting);
    }
    round.insert("mode".into(), mode);
    let job = create(&world, file, &[]).await;
    let devices: [Device; CLIENTS] = world.devices().await;
    let mut work = world.assign([&devices[0], &devices[1], &devices[2]]).await;
    for turn in 0..9 {
        let client = [0, 1, 0, 1, 2, 0, 1, 2, 0][turn];
        contribute(&devices[client], &work[client], client).await;
        world.drive().await;
        let again = world.gather(&[&devices[client]]).await;
        if let [Some(next)] = &again[..] {
            work[client] = next.clone();
        }
    }
    let version = world.job_now(job).await.head.model_version.unwrap();
    format!("{version}:{}", sha256(&world, job, version).await)
}

#[tokio::test]
async fn synchronous_jobs_have_the_bits_that_they_had() {
    let uniform = json!({ "combine": "uniform_mean" });
    let adam = json!({ "optimizer": { "kind": "adam", "learning_rate": 0.0625 } });
    let cases = [
        ("FedAvg", json!({}), vec![], "44c6cb2da7a3e25ce141f39fe7dde21b906464c17ff70c18fbb9cffa74db0b8f"),
        (
            "FedAdam",
            json!({ "aggregation": adam, "update": { "codec": "int8" } }),
            vec![],
            "5c96641a7b62d494c254e68e06d4b9f45a761e7040430d174ecfd35792260754",
        ),
        (
            "SCAFFOLD",
            json!({ "training": { "algorithm": { "kind": "scaffold", "clients": 3 } }, "aggregation": uniform }),
            vec![],
            "5576654d65294d7aed219fa5372e91bb7b6da3f064e800441bfd8c1374a7bbe7",
        ),
        (
            "FedDyn",
            json!({
                "training": { "algorithm": { "kind": "fed_dyn", "alpha": 0.5, "clients": 3 } },
                "aggregation": uniform,
            }),
            vec![],
            "0b572212dcca5a297e2557da8b61b7dc641b87e5fe70728c91ff72ab99b64062",
        ),
        (
            "EASGD",
            json!({ "training": { "algorithm": { "kind": "easgd", "alpha": 0.25 } }, "aggregation": uniform }),
            vec![],
            "b2f7cdf210ad064a889b85f8861092c56373c117a245b215475c0e3d0f76b9e7",
        ),
        (
            "personal layers",
            json!({ "update": { "codec": "int8" } }),
            vec!["head"],
            "71cd391f5e312387dbcfb6ba79e8993e8297df6c0d80a0b83dbe3a5a1de06ca1",
        ),
        (
            "ternary",
            json!({ "update": { "codec": "ternary" } }),
            vec![],
            "304462f294d5976422bb07f8d0f42af646a70526f759f28a16cf544be456c79f",
        ),
        (
            "DGC",
            json!({ "update": { "codec": "dgc", "norm_max": 2.0 } }),
            vec![],
            "9f372c5f6366677618d0123576cd15e74eb86c8ede996c1c6b1947400232db5f",
        ),
    ];
    let mut found = Vec::new();
    for (name, changes, personal, expected) in cases {
        found.push((name, synchronous(changes, &personal).await, expected));
    }
    assert!(found.iter().all(|(_, sha256, expected)| sha256 == expected), "{found:#?}");
}

#[tokio::test]
async fn buffered_jobs_have_the_bits_that_they_had() {
    let inverse = json!({ "kind": "inverse" });
    let buffer = json!({
        "kind": "buffered", "buffer": 2, "concurrency": 3, "per_client": 2, "staleness_weight": inverse,
    });
    let members = json!({ "kind": "stale_synchronous", "members": 3, "slack": 1 });
    let adam = json!({ "aggregation": { "optimizer": { "kind": "adam", "learning_rate": 0.0625 } } });
    let cases = [
        ("buffered", buffer, adam, "4:b66858d4ed4ecd57b68a34e3b7c5bfa6b634021c9efcc930e68e491dd1d26ce7"),
        ("stale-synchronous", members, json!({}), "2:bac225dc4fd249041b946715e33152093a1992fff6600e5111919736529f148a"),
    ];
    let mut found = Vec::new();
    for (name, mode, changes, expected) in cases {
        found.push((name, buffered(mode, changes).await, expected));
    }
    assert!(found.iter().all(|(_, sha256, expected)| sha256 == expected), "{found:#?}");
}
