//! A coded tree of real processes: three relays with four clients each, of which each parent loses one child.
//!
//! Goal: whichever they are, the model is that of the round in which all answer. Method: clients that wait for work are
//! stopped by a signal, so their relay still draws them, and they never answer. The relay that is lost is killed when
//! its round is open; the client beside it is stopped too, so that it cannot have delivered before.

use std::path::Path;
use std::process::Child;
use std::time::Duration;

use serde_json::json;
use tributary_engine::coded::reduce::{Member, Reduce};
use tributary_engine::coded::tree::Tree;
use tributary_protocol::safetensors::model_from_bytes;
use tributary_protocol::state::Phase;

use super::coded::{start, stop, write_parts};
use crate::support::operator::Operator;
use crate::support::process::{Parent, Process, Setup, kill};

const CHILDREN: usize = 3;
const PARTS: usize = 15;
/// Only a failing test ever waits that long.
const PATIENCE: Duration = Duration::from_secs(120);

/// Which child each parent loses.
#[derive(Clone, Copy, Debug)]
struct Lost {
    relay: usize,
    /// Of each relay, among its three.
    clients: [usize; CHILDREN],
}

/// A relay with the clients that are enrolled at it: the one beside it, then its children.
struct Relay {
    /// None once it was killed.
    process: Option<Process>,
    operator: Operator,
    entrance: (String, String),
    clients: Vec<Child>,
}

impl Relay {
    async fn start(folder: &Path, (url, token): (&str, &str)) -> Self {
        std::fs::create_dir(folder).unwrap();
        let parent = Parent { url: url.to_owned(), token: token.to_owned(), state_folder: folder.join("identity") };
        let database = folder.join("db.sqlite").display().to_string();
        let setup = Setup { parent: Some(parent), ..Setup::new(database) };
        let process = Process::start(setup.clone()).await;
        let url = format!("http://{}", process.address);
        let operator = Operator::new(url.clone(), &setup.token);
        let enrolment = process.serving["enrolment_token"].as_str().unwrap().to_owned();
        Self { process: Some(process), operator, entrance: (url, enrolment), clients: Vec::new() }
    }

    /// Starts the client of a member.
    fn add(&mut self, name: &str, member: &Member, folder: &Path) {
        let parts = member.kept.iter().map(|(part, _)| part_name(*part));
        let (url, token) = &self.entrance;
        self.clients.push(start((url, token), (name, parts), folder));
    }
}

fn part_name(part: usize) -> String {
    format!("p{part}")
}

fn job() -> serde_json::Value {
    let names: Vec<_> = (0..PARTS).map(part_name).collect();
    json!({
        "model": { "input": [2], "layers": [{ "kind": "linear", "out_features": 2 }] },
        "training": { "epochs": 2, "batch_size": 8, "optimizer": { "kind": "sgd", "learning_rate": 0.1 } },
        "update": { "codec": "f32" },
        "aggregation": { "combine": "uniform_mean" },
        "round": { "selection_timeout_ms": 86_400_000, "deadline_ms": 600_000 },
        "coded": {
            "parts": names, "stragglers": 1, "code": "cyclic", "tree": { "children": CHILDREN, "levels": 2 },
        },
    })
}

/// The values of the first model, and of that after a round with these losses.
async fn play(lost: Option<Lost>) -> [Vec<f32>; 2] {
    let folder = tempfile::tempdir().unwrap();
    write_parts(folder.path(), (0..PARTS).map(part_name));
    let setup = Setup::new(folder.path().join("db.sqlite").display().to_string());
    let root = Process::start(setup.clone()).await;
    let url = format!("http://{}", root.address);
    let operator = Operator::new(url.clone(), &setup.token);
    operator.population().await;
    let token = operator.relay_token().await;
    let id = operator.create_job(1, &job(), None).await;
    let mut relays = Vec::new();
    for place in 0..CHILDREN {
        relays.push(Relay::start(&folder.path().join(format!("relay-{place}")), (&url, &token)).await);
    }
    let played = tokio::time::timeout(PATIENCE, round(&operator, &id, (&mut relays, folder.path()), lost)).await;
    let mut told = Vec::new();
    for relay in relays.iter().filter(|relay| relay.process.is_some() && played.is_err()) {
        told.push(relay.operator.rounds(&id).await);
    }
    relays.iter_mut().flat_map(|relay| relay.clients.drain(..)).for_each(|client| kill(Some(client)));
    assert!(played.is_ok(), "{lost:?}: {:?}\n{told:#?}", operator.rounds(&id).await);
    let mut versions = [Vec::new(), Vec::new()];
    for (version, values) in (0..).zip(&mut versions) {
        *values = model_from_bytes(&operator.model_file(&id, version).await).unwrap().into_values();
    }
    versions
}

/// Starts the clients, and loses some of them, until the round is committed.
async fn round(operator: &Operator, job: &str, (relays, folder): (&mut [Relay], &Path), lost: Option<Lost>) {
    let shape = Reduce::of(Tree::new(CHILDREN as u32, 2, 1).unwrap()).unwrap();
    // The round begins with the last client of the last relay.
    for (place, (relay, member)) in relays.iter_mut().zip(shape.children()).enumerate() {
        let silent = lost.map(|lost| lost.clients[place]);
        let last = (0..CHILDREN).rev().find(|child| Some(*child) != silent).unwrap();
        relay.add(&format!("{place}"), member, folder);
        let early: Vec<_> = (0..CHILDREN).filter(|child| *child != last).collect();
        for child in &early {
            relay.add(&format!("{place}.{child}"), &member.children[*child], folder);
        }
        relay.operator.are_online(1 + early.len()).await;
        let beside = lost.filter(|lost| lost.relay == place).map(|_| 0);
        let child = early.iter().position(|child| Some(*child) == silent).map(|child| 1 + child);
        beside.into_iter().chain(child).for_each(|place| stop(&relay.clients[place]));
        relay.add(&format!("{place}.{last}"), &member.children[last], folder);
    }
    if let Some(lost) = lost {
        let relay = &mut relays[lost.relay];
        relay.operator.knows(job).await;
        relay.operator.round_is(job, 1, Phase::Training).await;
        relay.process = None;
    }
    operator.round_is(job, 1, Phase::Committed).await;
}

/// The largest difference of two values.
fn distance(one: &[f32], other: &[f32]) -> f32 {
    one.iter().zip(other).map(|(one, other)| (one - other).abs()).fold(0.0, f32::max)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whichever_child_each_parent_loses_the_model_is_that_of_all() {
    let [first, all] = play(None).await;
    let moved = distance(&first, &all);
    assert!(moved > 1e-3, "{moved}");
    for (relay, clients) in [(0, [0, 1, 2]), (1, [2, 0, 1]), (2, [1, 2, 0])] {
        let lost = Lost { relay, clients };
        let [_, without] = play(Some(lost)).await;
        let apart = distance(&all, &without);
        assert!(apart < 1e-5 * moved, "{apart} of {moved} with {lost:?}");
    }
}
