//! Coded rounds whose clients are real processes, of which some are stopped in the middle of a round.
//!
//! Goal: whichever client of each block falls silent, the model has the bits of the round in which all answer. Method:
//! clients start one after the other. A client that waits for work is stopped by a signal, so the coordinator still
//! holds its check-in and draws it, and it never answers.

use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use serde_json::json;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::seed::Seed;
use tributary_protocol::state::Phase;

use crate::support::operator::Operator;
use crate::support::process::{Process, Setup, client, kill};

const PARTS: [&str; 4] = ["north", "south", "east", "west"];
/// The parts of each client.
const HELD: [[usize; 2]; 4] = [[0, 1], [2, 3], [0, 1], [2, 3]];
/// Only a failing test ever waits that long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Forty examples for each part.
pub(super) fn write_parts(folder: &Path, names: impl IntoIterator<Item = String>) {
    for (name, place) in names.into_iter().zip(0u64..) {
        let mut stream = Seed(8).derive("part", place).stream();
        let rows = (0..40).map(|_| {
            let [a, b] = [(); 2].map(|()| stream.uniform(-1.0, 1.0));
            format!("{a},{b},{}\n", u32::from(a + b > 0.2 * place as f32))
        });
        let table: String = std::iter::once("a,b,y\n".to_owned()).chain(rows).collect();
        std::fs::write(folder.join(format!("{name}.csv")), table).unwrap();
    }
}

/// A client of this name that holds these parts.
pub(super) fn start(
    (url, token): (&str, &str),
    (name, parts): (&str, impl IntoIterator<Item = String>),
    folder: &Path,
) -> Child {
    let mut arguments: Vec<String> =
        ["client", "run", "--server", url, "--token", token].into_iter().map(str::to_owned).collect();
    arguments.extend(["--state-dir".to_owned(), format!("state-{name}")]);
    for part in parts {
        arguments.extend(["--part".to_owned(), format!("{part}={part}.csv")]);
    }
    client(&arguments, folder)
}

/// SIGSTOP.
pub(super) fn stop(client: &Child) {
    let stopped = Command::new("kill").args(["-STOP", &client.id().to_string()]).status().unwrap();
    assert!(stopped.success());
}

/// The model after a round in which these clients fall silent.
async fn play(silent: &[usize]) -> Sha256Hash {
    let folder = tempfile::tempdir().unwrap();
    write_parts(folder.path(), PARTS.map(str::to_owned));
    let setup = Setup::new(folder.path().join("db.sqlite").display().to_string());
    let process = Process::start(setup.clone()).await;
    let url = format!("http://{}", process.address);
    let operator = Operator::new(url.clone(), &setup.token);
    let token = operator.population().await;
    let sections = json!({
        "model": { "input": [2], "layers": [{ "kind": "linear", "out_features": 2 }] },
        "training": { "epochs": 2, "batch_size": 8, "optimizer": { "kind": "sgd", "learning_rate": 0.1 } },
        "update": { "codec": "int8" },
        "round": { "selection_timeout_ms": 86_400_000, "deadline_ms": 600_000 },
        "coded": { "parts": PARTS, "stragglers": 1 },
    });
    let job = operator.create_job(1, &sections, None).await;
    let mut clients = Vec::new();
    let played = async {
        for place in 0..HELD.len() {
            let parts = HELD[place].map(|part| PARTS[part].to_owned());
            clients.push(start((&url, &token), (&place.to_string(), parts), folder.path()));
            // The last one lets the round begin.
            if place + 1 < HELD.len() {
                operator.are_online(place + 1).await;
            }
            if silent.contains(&place) {
                stop(&clients[place]);
            }
        }
        operator.round_is(&job, 1, Phase::Committed).await;
    };
    let ended = tokio::time::timeout(PATIENCE, played).await;
    clients.into_iter().for_each(|client| kill(Some(client)));
    assert!(ended.is_ok(), "{silent:?}: {:?}", operator.rounds(&job).await);
    operator.model(&job, 1).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whichever_client_of_each_block_falls_silent_the_model_has_the_same_bits() {
    let whole = play(&[]).await;
    for silent in [&[0][..], &[1], &[2], &[0, 1], &[1, 2]] {
        assert_eq!(play(silent).await, whole, "without {silent:?}");
    }
}
