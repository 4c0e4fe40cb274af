//! The coordinator never has the update of a client whose job is masked.
//!
//! Method: one client's update is drawn from a seed. Its values are searched for in the memory of the coordinator's
//! process, in its database, in the bodies beside that, in its log and in a backup, after the updates came and after
//! the round has committed. In a job without masks the same search finds them.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use futures_util::future::join_all;
use serde_json::{Value, json};
use tempfile::TempDir;
use tributary_protocol::id::{Secret, SecretKind};
use tributary_protocol::safetensors::model_from_bytes;
use tributary_protocol::secure::Words;
use tributary_protocol::seed::Seed;

use super::device::{Seat, Sent};
use super::search::Runs;
use crate::support::device::{Device, plain_update};
use crate::support::operator::Operator;

const CLIENTS: usize = 5;
/// Values of the model: bodies in the clear are files beside the database, masked ones too.
const VALUES: usize = 270_000;
/// The client whose update is searched for. The others' updates are drawn from other seeds.
const MARKED: usize = 2;
/// Few enough that the values of a masked update have at most 16 bits.
const LEVELS: u32 = 64;
/// Above the norm of every update.
const CLIP: f64 = 8.0;
/// Numbers of a run. Of small integers there are twice as many, because most of their bits are zeros.
const RUN_NUMBERS: usize = 8;

/// A coordinator that logs all that it does, in a folder with everything that it stores.
struct Watched {
    child: Child,
    folder: TempDir,
    token: Secret,
    url: String,
}

impl Watched {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let token = Secret::from_random(SecretKind::Operator, [7; 32]);
        let mut child = Command::new(env!("CARGO_BIN_EXE_tributary"))
            .args(["--json", "serve", "--listen", "127.0.0.1:0", "--log", "trace", "--database", "tributary.db"])
            .current_dir(folder.path())
            .env_clear()
            .env("TRIBUTARY_OPERATOR_TOKEN", token.expose())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(folder.path().join("log")).unwrap())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let serving: Value = serde_json::from_str(&line).expect("it did not start");
        let url = serving["url"].as_str().unwrap().trim_end_matches('/').to_owned();
        Self { child, folder, token, url }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn in_memory(&self, runs: &Runs) -> BTreeSet<&'static str> {
        runs.in_memory(self.child.id())
    }

    /// Writes a backup into the folder.
    fn back_up(&self, file: &str) -> PathBuf {
        let mut backup = Command::new(env!("CARGO_BIN_EXE_tributary"));
        backup.args(["backup", file, "--database", "tributary.db"]).current_dir(self.path()).env_clear();
        let output = backup.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        self.path().join(file)
    }

    fn operator(&self) -> Operator {
        Operator::new(self.url.clone(), &self.token)
    }

    /// A job of one round of all clients, who are enrolled.
    async fn begin(&self, operator: &Operator, mut sections: Value) -> (String, Vec<Device>) {
        let token = operator.population().await;
        sections["model"] = json!({ "parameters": [{ "name": "w", "shape": [VALUES] }] });
        sections["round"] = json!({
            "updates_goal": CLIENTS, "updates_min": 3, "over_selection": 1.0, "available_min": CLIENTS,
            "selection_timeout_ms": 86_400_000, "deadline_ms": 86_400_000,
        });
        let job = operator.create_job(1, &sections, None).await;
        let devices = join_all((0..CLIENTS).map(|_| Device::enrol(&self.url, &token))).await;
        (job, devices)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn delta(client: usize) -> Vec<f32> {
    let mut stream = Seed(31).derive("delta", client as u64).stream();
    (0..VALUES).map(|_| stream.uniform(-0.01, 0.01)).collect()
}

/// The bytes of numbers.
fn bytes<T, const N: usize>(numbers: impl IntoIterator<Item = T>, encode: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    numbers.into_iter().flat_map(encode).collect()
}

/// Runs of the update as it is before it is masked.
fn runs_of_values(delta: &[f32]) -> Runs {
    let mut runs = Runs::default();
    runs.add("f32", bytes(delta.iter().copied(), f32::to_le_bytes), 4 * RUN_NUMBERS);
    runs.add("f64", bytes(delta.iter().copied().map(f64::from), f64::to_le_bytes), 8 * RUN_NUMBERS);
    runs
}

/// Adds runs of the update as its client quantised it, and of what follows from that.
fn add_quantised(runs: &mut Runs, sent: &Sent) {
    let integers = || sent.integers.iter().copied();
    runs.add("i64", bytes(integers(), i64::to_le_bytes), 8 * RUN_NUMBERS);
    runs.add("i32", bytes(integers(), |value| (value as i32).to_le_bytes()), 8 * RUN_NUMBERS);
    runs.add("i16", bytes(integers(), |value| (value as i16).to_le_bytes()), 4 * RUN_NUMBERS);
    let words = Words::of(sent.bits, &sent.integers);
    let words = words.values(0..words.len());
    runs.add("u64 words", bytes(words.iter().copied(), u64::to_le_bytes), 8 * RUN_NUMBERS);
    runs.add("u32 words", bytes(words.iter().copied(), |word| (word as u32).to_le_bytes()), 8 * RUN_NUMBERS);
    runs.add("u16 words", bytes(words.iter().copied(), |word| (word as u16).to_le_bytes()), 4 * RUN_NUMBERS);
    // After the roster, which every member sends.
    runs.add("packed", sent.bare[34..].to_vec(), 4 * RUN_NUMBERS);
    runs.add("restored f64", bytes(sent.restored.iter().copied(), f64::to_le_bytes), 8 * RUN_NUMBERS);
    let restored = sent.restored.iter().map(|value| *value as f32);
    runs.add("restored f32", bytes(restored, f32::to_le_bytes), 4 * RUN_NUMBERS);
}

/// Runs of the values of a model version.
async fn runs_of_model(operator: &Operator, job: &str) -> Runs {
    let model = model_from_bytes(&operator.model_file(job, 1).await).unwrap().into_values();
    runs_of_values(&model)
}

/// Chi-squared of the bytes' frequencies against those of uniform bytes, with 255 degrees of freedom.
fn chi_squared(bytes: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    bytes.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    let expected = bytes.len() as f64 / 256.0;
    counts.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum()
}

/// Uniform bytes are above it with a probability below 1e-9 (Wilson-Hilferty: 415).
const CHI_SQUARED_MAX: f64 = 430.0;

/// The control: what the search finds of a job without masks. A quantised codec is searched for as its body.
async fn find_in_the_clear(codec: &str) {
    let coordinator = Watched::start();
    let operator = coordinator.operator();
    let (job, devices) = coordinator.begin(&operator, json!({ "update": { "codec": codec } })).await;
    let assignments = join_all(devices.iter().map(Device::work)).await;
    let marked = plain_update(&assignments[MARKED], &delta(MARKED));
    let header = u64::from_le_bytes(marked[..8].try_into().unwrap()) as usize;
    let mut runs = runs_of_values(&delta(MARKED));
    runs.add("body", marked[8 + header..].to_vec(), 4 * RUN_NUMBERS);
    for (client, (device, assignment)) in devices.iter().zip(&assignments).enumerate() {
        if client + 1 == CLIENTS {
            assert!(coordinator.in_memory(&runs).contains("body"), "{codec}: an update that came was in memory");
            coordinator.back_up("backup");
            let stored = runs.in_files(coordinator.path());
            let is_body = |name: &str| stored.iter().any(|(file, form)| file.contains(name) && *form == "body");
            assert!(is_body(""), "{codec}: {stored:?}");
        }
        device.contribute(assignment, &delta(client)).await;
    }
    operator.completed(&job).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_search_finds_updates_that_are_not_masked() {
    for codec in ["f32", "int8"] {
        find_in_the_clear(codec).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_never_has_an_update_of_a_masked_job() {
    let coordinator = Watched::start();
    let operator = coordinator.operator();
    let sections = json!({
        "aggregation": { "combine": "uniform_mean" }, "secure_aggregation": { "clip": CLIP, "levels": LEVELS },
    });
    let (job, devices) = coordinator.begin(&operator, sections).await;
    let assignments = join_all(devices.iter().map(Device::work)).await;
    let seats = devices.into_iter().zip(assignments);
    let mut seats: Vec<Seat> = seats.map(|(device, assignment)| Seat::new(device, assignment, VALUES)).collect();
    join_all(seats.iter_mut().map(Seat::share)).await;
    let sending = seats.iter_mut().enumerate();
    let sending = sending.map(|(client, seat)| async move { seat.send(&delta(client), Seed(client as u64)).await });
    let sent = join_all(sending).await;
    for Sent { body, bare, .. } in &sent {
        let chi_squared = [&body[34..], &bare[34..]].map(chi_squared);
        assert!(chi_squared[0] < CHI_SQUARED_MAX, "a masked body is like uniform bytes: {chi_squared:?}");
        assert!(chi_squared[1] > 100.0 * CHI_SQUARED_MAX, "a bare one is not: {chi_squared:?}");
    }
    let mut runs = runs_of_values(&delta(MARKED));
    add_quantised(&mut runs, &sent[MARKED]);
    let mut masked = Runs::default();
    masked.add("masked", sent[MARKED].body[34..].to_vec(), 4 * RUN_NUMBERS);
    assert!(coordinator.in_memory(&masked).contains("masked"), "the masked body was in memory");
    assert!(!masked.in_files(coordinator.path()).is_empty(), "and is stored");

    let nothing_is_found = |when: &str| {
        assert_eq!(coordinator.in_memory(&runs), BTreeSet::new(), "in memory, {when}");
        coordinator.back_up(when);
        assert_eq!(runs.in_files(coordinator.path()), BTreeSet::new(), "in files, {when}");
    };
    nothing_is_found("before the sum is open");
    join_all(seats.iter_mut().map(Seat::open)).await;
    operator.completed(&job).await;
    nothing_is_found("after the round");
    let model = runs_of_model(&operator, &job).await;
    let found = model.in_files(coordinator.path());
    assert!(found.iter().any(|(_, form)| *form == "f32"), "the same search finds the sum: {found:?}");
}
