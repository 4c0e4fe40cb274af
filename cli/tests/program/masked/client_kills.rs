//! Clients of a masked job that are killed again and again.
//!
//! Goal: a client that comes back goes on where it was. It never masks twice, never gives both secrets of a neighbour,
//! and its update counts once. Method: `client run` processes, each behind a [`Gate`] that kills it at seeded requests
//! of its exchange, before and after they were handled, and starts it again with the same state folder. That
//! the values are right, too, is asserted in the tests of the SDK, whose clients are dropped at any request.

use std::fmt::Write;
use std::sync::Arc;

use serde_json::{Value, json};
use tributary_protocol::seed::Seed;

use super::exchanges::Exchanges;
use super::gate::{Gate, Start};
use super::{CLIENTS, audit, outcome};
use crate::support::is_ci;
use crate::support::operator::Operator;
use crate::support::process::{Process, Setup};

/// Columns of the tables.
const INPUTS: usize = 4;

/// Rounds, and kills of each client: 30 in all under CI, else 10.
fn lengths() -> (u32, u32) {
    if is_ci() { (6, 6) } else { (3, 2) }
}

fn sections() -> Value {
    json!({
        "model": { "input": [INPUTS], "layers": [{ "kind": "linear", "out_features": 2 }] },
        "training": { "epochs": 1, "batch_size": 8, "optimizer": { "kind": "sgd", "learning_rate": 0.1 } },
        "round": {
            "updates_goal": CLIENTS, "updates_min": 3, "over_selection": 1.0, "available_min": CLIENTS,
            "selection_timeout_ms": 86_400_000, "deadline_ms": 2_592_000_000_u64, "backoff_ms": 1, "backoff_max_ms": 1,
        },
        "aggregation": { "combine": "uniform_mean" },
        // Above the norm of every update.
        "secure_aggregation": { "clip": 4.0, "levels": 4_096 },
    })
}

/// A table of examples: the label says whether the first column is positive.
fn table(client: usize) -> String {
    let mut stream = Seed(5).derive("client", client as u64).stream();
    let mut text = "a,b,c,d,label\n".to_owned();
    for _ in 0..40 {
        let inputs = [(); INPUTS].map(|()| stream.uniform(-1.0, 1.0));
        let [a, b, c, d] = inputs;
        writeln!(text, "{a},{b},{c},{d},{}", u8::from(a > 0.0)).unwrap();
    }
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_are_killed_again_and_again_mask_once_and_go_on() {
    let (rounds, kills) = lengths();
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("tributary.db").display().to_string();
    let setup = Setup::new(&*database);
    let coordinator = Process::start(setup.clone()).await;
    audit::begin(&database).await;
    let url = format!("http://{}", coordinator.address);
    let operator = Operator::new(url.clone(), &setup.token);
    let token = operator.population().await;
    let job = operator.create_job(rounds, &sections(), None).await;
    let record = Arc::new(Exchanges::default());
    let mut gates = Vec::new();
    for client in 0..CLIENTS {
        let folder = directory.path().join(client.to_string());
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("table.csv"), table(client)).unwrap();
        let (coordinator, token, table) = (url.clone(), token.clone(), "table.csv".to_owned());
        let start = Start { coordinator, token, folder, table };
        let stream = Seed(11).derive("kills", client as u64).stream();
        gates.push(Gate::start(start, &record, (stream, kills)).await);
    }
    operator.completed(&job).await;
    let killed: Vec<u32> = gates.iter().map(Gate::kills).collect();
    assert_eq!(killed, [kills; CLIENTS], "the run was too short for all its kills");
    for gate in gates {
        gate.stop().await;
    }

    let survivors = audit::check(&database).await;
    for (group, told) in record.check() {
        assert_eq!(survivors.get(&group), Some(&told), "{group}: what members were told is what is stored");
    }
    let counts = outcome::check(&operator, &job, None).await;
    assert_eq!((counts.committed, counts.lost), (rounds, 0), "a client that comes back in time is not lost");
}
