//! A client in Python without our SDK takes part in a round beside clients with it.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use reqwest::Method;
use serde_json::{Value, json};
use tributary_client::examples::{MemoryExamples, Targets};
use tributary_client::{AlwaysOn, Client, LayerTrainer, Outcome, TrainTask, Trainer};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::layers::ModelSpec;
use tributary_protocol::model::Model;
use tributary_protocol::operator::{self, Job, Page, Round};
use tributary_protocol::plan::Training;
use tributary_protocol::seed::Seed;
use tributary_protocol::state::{AssignmentState, Phase};

use super::Listening;
use crate::support::{Answer, output, python, within_reason};

/// What the client imports.
pub(super) const MODULES: &str = "numpy, requests, cryptography";
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python/client.py");

/// A decoder of coded sections, and sections to try it on.
const CODED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python/coded_levels.py");

/// Numbers of an example.
pub(super) const FEATURES: usize = 4;
pub(super) const CLASSES: usize = 3;

/// Rows of numbers, and the class of each.
#[derive(Clone)]
pub(super) struct Examples {
    /// Numbers of a row.
    width: usize,
    inputs: Vec<f32>,
    pub(super) classes: Vec<u32>,
}

impl Examples {
    pub(super) fn draw(count: usize, seed: u64) -> Self {
        Self::draw_of(count, [FEATURES, CLASSES], seed)
    }

    /// Draws examples with this many numbers, whose class is where the largest of the first of them is.
    pub(super) fn draw_of(count: usize, [width, classes]: [usize; 2], seed: u64) -> Self {
        let mut stream = Seed(seed).stream();
        let inputs: Vec<f32> = (0..count * width).map(|_| stream.uniform(-1.0, 1.0)).collect();
        let largest = |row: &[f32]| (0..classes).max_by(|a, b| row[*a].total_cmp(&row[*b])).unwrap() as u32;
        let classes = inputs.chunks(width).map(largest).collect();
        Self { width, inputs, classes }
    }

    pub(super) fn new(width: usize, inputs: Vec<f32>, classes: Vec<u32>) -> Self {
        Self { width, inputs, classes }
    }

    pub(super) fn inputs(&self) -> &[f32] {
        &self.inputs
    }

    pub(super) fn trainer(&self) -> LayerTrainer {
        let classes = Targets::Classes(self.classes.clone());
        LayerTrainer::new(Arc::new(MemoryExamples::new(vec![self.width], self.inputs.clone(), classes).unwrap()))
    }

    /// A table with a line of names, as `client.py` and `tributary client run` read it.
    pub(super) fn table(&self) -> String {
        let names: String = (1..=self.width).map(|column| format!("x{column},")).collect();
        let rows = self.inputs.chunks(self.width).zip(&self.classes);
        let row = |(row, class): (&[f32], &u32)| {
            row.iter().map(|value| format!("{value},")).collect::<String>() + &format!("{class}\n")
        };
        names + "class\n" + &rows.map(row).collect::<String>()
    }
}

pub(super) fn job_file() -> Value {
    json!({
        "name": "classes", "population": "default", "seed": 7,
        "model": { "input": [FEATURES], "layers": [
            { "kind": "linear", "out_features": 8 }, { "kind": "relu" }, { "kind": "linear", "out_features": 3 },
        ] },
        "training": { "steps": 2, "optimizer": { "kind": "sgd", "learning_rate": 0.5 } },
        "update": { "codec": "f32" },
        "round": { "updates_goal": 3, "updates_min": 3, "over_selection": 1.0 },
        "stop": { "rounds": 1 },
    })
}

/// The client in this directory, with a table of these examples. It sends its update in chunks of so many bytes, and
/// resumes it after each.
pub(super) fn client(
    (python, token): (&Path, &str),
    listening: &Listening,
    directory: &Path,
    examples: &Examples,
    chunk_bytes: usize,
) -> Command {
    std::fs::write(directory.join("examples.csv"), examples.table()).unwrap();
    let mut command = Command::new(python);
    // Without bytecode, which Python would store beside its modules.
    command.args(["-B", SCRIPT, "--examples", "examples.csv", "--server", &listening.url(), "--token", token]);
    command.args(["--chunk-bytes", &chunk_bytes.to_string()]).current_dir(directory).env("TMPDIR", directory);
    command
}

async fn run(python: &Path, listening: &Listening, token: &str, directory: &Path, examples: &Examples) -> Output {
    // Its file has about 700 bytes.
    output(client((python, token), listening, directory, examples, 300)).await
}

/// One session of the SDK.
pub(super) async fn session(listening: &Listening, directory: &Path, examples: &Examples) -> Outcome {
    let client = Client::builder(listening.url(), listening.enrolment.clone()).state_dir(directory).build().unwrap();
    client.run_once(&mut examples.trainer(), &AlwaysOn).await.unwrap()
}

/// What a client's training makes of a model: computed here, where the client is not asked.
fn trained(file: &Value, model: &Model, examples: &Examples) -> Vec<f32> {
    let spec: ModelSpec = serde_json::from_value(file["model"].clone()).unwrap();
    let training: Training = serde_json::from_value(file["training"].clone()).unwrap();
    let task = TrainTask::new(model, &spec, &training, Seed(0));
    examples.trainer().train(&task, &|| false).unwrap().values
}

/// The model after a round of these clients.
pub(super) fn averaged(model: &Model, clients: &[&Examples]) -> Vec<f64> {
    averaged_by(&job_file(), model, clients)
}

/// The model after a round of these clients in a job of this file.
pub(super) fn averaged_by(file: &Value, model: &Model, clients: &[&Examples]) -> Vec<f64> {
    let mut sum = vec![0.0; model.values().len()];
    for client in clients {
        let local = trained(file, model, client);
        for ((sum, local), global) in sum.iter_mut().zip(local).zip(model.values()) {
            *sum += f64::from(local - global) * client.classes.len() as f64;
        }
    }
    let weight: usize = clients.iter().map(|client| client.classes.len()).sum();
    sum.iter().zip(model.values()).map(|(sum, global)| f64::from(*global) + sum / weight as f64).collect()
}

pub(super) fn distance(model: &Model, values: &[f64]) -> f64 {
    let distances = model.values().iter().zip(values).map(|(ours, theirs)| (f64::from(*ours) - theirs).abs());
    distances.fold(0.0, f64::max)
}

/// Goal: the protocol page is enough to write a client. Method: one that was written from it and two of the SDK do one
/// round, whose outcome is computed from their three tables of examples.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_written_from_the_protocol_page_contributes_beside_the_sdk() {
    let Some(python) = python(MODULES) else { return };
    let listening = Listening::start().await;
    let job: Job = Answer::to(listening.operate(Method::POST, "/jobs").json(&json!({ "job": job_file() }))).await.ok();

    let [first, second, third] = [(20, 1), (30, 2), (40, 3)].map(|(count, seed)| Examples::draw(count, seed));
    let directories = ["first", "second", "third"].map(|name| listening.directory.path().join(name));
    directories.iter().for_each(|directory| std::fs::create_dir(directory).unwrap());
    let [one, two, three] = &directories;
    let (one, two, output) = within_reason(async {
        tokio::join!(
            session(&listening, one, &first),
            session(&listening, two, &second),
            run(&python, &listening, &listening.enrolment, three, &third),
        )
    })
    .await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for outcome in [one, two] {
        assert!(matches!(outcome, Outcome::Contributed { round: 1, .. }), "{outcome:?}");
    }

    listening.until_completed(job.head.id).await;
    let rounds: Page<Round> = listening.look(&format!("/jobs/{}/rounds?task=train", job.head.id)).await.ok();
    let round = &rounds.items[0];
    assert_eq!((round.phase, round.reported), (Phase::Committed, 3));
    let path = format!("/jobs/{}/rounds/1/assignments", job.head.id);
    let assignments: Page<operator::Assignment> = listening.look(&path).await.ok();
    let theirs = assignments.items.iter().find(|assignment| assignment.weight == Some(40)).unwrap();
    assert_eq!(theirs.state, AssignmentState::Reported);
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed["round"], 1);
    assert_eq!(printed["loss"].as_f64(), theirs.loss, "{printed}");

    let (before, after) = (listening.model(job.head.id, 0).await, listening.model(job.head.id, 1).await);
    let error = distance(&after, &averaged(&before, &[&first, &second, &third]));
    assert!(error < 1e-6, "the model is {error} away from the mean of the three clients");
    let without = distance(&after, &averaged(&before, &[&first, &second]));
    assert!(without > 1e-3, "the share of the client in Python is no more than {without}");
    listening.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_tells_nothing_to_a_server_of_another_ca() {
    let Some(python) = python(MODULES) else { return };
    let listening = Listening::start().await;
    let pinned = listening.ca.fingerprint.to_string();
    let token = listening.enrolment.replace(&pinned, &Sha256Hash::of(b"another CA").to_string());
    let output = run(&python, &listening, &token, listening.directory.path(), &Examples::draw(5, 1)).await;
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && error.contains("has the fingerprint of the token"), "{error}");
    let clients: Page<operator::Client> = listening.look("/clients?population=default").await.ok();
    assert!(clients.items.is_empty());
    listening.stop().await;
}

/// Goal: the page is enough to read coded sections. Method: a decoder written from it reads those of two tests.
#[tokio::test]
async fn coded_sections_are_read_by_the_page_of_the_protocol() {
    let Some(python) = python(MODULES) else { return };
    let mut command = Command::new(python);
    command.args(["-B", CODED]);
    let output = output(command).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "ok");
}
