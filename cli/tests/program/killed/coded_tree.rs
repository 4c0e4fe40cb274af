//! A coded tree of real processes, in which one child of every parent is lost in the middle of a round.
//!
//! Goal: the model is that of the round in which nobody is lost. Method: the clients that train on what relays keep are
//! stopped while they wait for work, so no relay can answer. When the round has begun, one relay is killed or stopped,
//! and those clients go on. The lost clients of the last level were stopped while they waited, too: their relay
//! still holds their check-ins and draws them.

use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use serde_json::json;
use tributary_engine::coded::reduce::{Member, Reduce};
use tributary_engine::coded::tree::Tree;
use tributary_protocol::seed::Seed;
use tributary_protocol::state::{AssignmentState, Phase};

use crate::support::operator::Operator;
use crate::support::process::{Parent, Process, Setup, client, kill};

/// Relays, and children of each.
const CHILDREN: usize = 3;
/// As `tributary tree plan --children 3 --levels 2 --stragglers 1` says.
const PARTS: usize = 15;
/// Only a failing test ever waits that long.
const PATIENCE: Duration = Duration::from_secs(120);

/// Who is lost: a relay, and how; a child of each other relay.
#[derive(Clone, Copy, Debug)]
struct Lost {
    relay: usize,
    child: usize,
    signal: &'static str,
}

fn write_parts(folder: &Path) {
    for part in 0..PARTS {
        let mut stream = Seed(9).derive("part", part as u64).stream();
        let rows = (0..30).map(|_| {
            let [a, b] = [(); 2].map(|()| stream.uniform(-1.0, 1.0));
            format!("{a},{b},{}\n", u32::from(a + b > 0.1 * part as f32 - 0.7))
        });
        let table: String = std::iter::once("a,b,y\n".to_owned()).chain(rows).collect();
        std::fs::write(folder.join(format!("p{part}.csv")), table).unwrap();
    }
}

/// Sends a signal.
fn signal(process: u32, signal: &str) {
    let sent = Command::new("kill").args([&format!("-{signal}"), &process.to_string()]).status().unwrap();
    assert!(sent.success());
}

/// A relay with the clients beside it: the one that trains on what the relay keeps, then one for each child.
struct Branch {
    process: Process,
    operator: Operator,
    url: String,
    clients: Vec<Child>,
}

impl Branch {
    async fn start(folder: &Path, number: usize, (url, token): (&str, &str)) -> Self {
        let own = folder.join(format!("relay-{number}"));
        std::fs::create_dir(&own).unwrap();
        let parent = Parent { url: url.to_owned(), token: token.to_owned(), state_folder: own.join("identity") };
        let setup = Setup { parent: Some(parent), ..Setup::new(own.join("db.sqlite").display().to_string()) };
        let process = Process::start(setup.clone()).await;
        let url = format!("http://{}", process.address);
        Self { operator: Operator::new(url.clone(), &setup.token), process, url, clients: Vec::new() }
    }

    /// Starts the next client, and waits until it waits for work.
    async fn join(&mut self, folder: &Path, name: &str, member: &Member, is_last: bool) {
        let token = self.process.serving["enrolment_token"].as_str().unwrap();
        let mut arguments: Vec<String> =
            ["client", "run", "--server", &self.url, "--token", token].into_iter().map(str::to_owned).collect();
        arguments.extend(["--state-dir".to_owned(), format!("state-{name}")]);
        for (part, _) in &member.kept {
            arguments.extend(["--part".to_owned(), format!("p{part}=p{part}.csv")]);
        }
        self.clients.push(client(&arguments, folder));
        // The last one of all lets the round begin.
        if !is_last {
            self.operator.are_online(self.clients.len()).await;
        }
    }
}

/// The values of the model before and after the round.
async fn play(lost: Option<Lost>) -> [Vec<f32>; 2] {
    let folder = tempfile::tempdir().unwrap();
    write_parts(folder.path());
    let setup = Setup::new(folder.path().join("db.sqlite").display().to_string());
    let process = Process::start(setup.clone()).await;
    let url = format!("http://{}", process.address);
    let operator = Operator::new(url.clone(), &setup.token);
    operator.population().await;
    let relay_token = operator.relay_token().await;
    let names: Vec<String> = (0..PARTS).map(|part| format!("p{part}")).collect();
    let tree = json!({ "children": CHILDREN, "levels": 2 });
    let sections = json!({
        "model": { "input": [2], "layers": [{ "kind": "linear", "out_features": 2 }] },
        "training": { "epochs": 2, "batch_size": 8, "optimizer": { "kind": "sgd", "learning_rate": 0.1 } },
        "update": { "codec": "f32" },
        "aggregation": { "combine": "uniform_mean" },
        "round": { "selection_timeout_ms": 86_400_000, "deadline_ms": 86_400_000 },
        "coded": { "parts": names, "stragglers": 1, "code": "cyclic", "tree": tree },
    });
    let job = operator.create_job(1, &sections, None).await;
    let mut branches = Vec::new();
    for number in 0..CHILDREN {
        branches.push(Branch::start(folder.path(), number, (&url, &relay_token)).await);
    }
    let played = round(folder.path(), &operator, &job, &mut branches, lost);
    let ended = tokio::time::timeout(PATIENCE, played).await;
    if ended.is_err() {
        for branch in branches.iter().filter(|branch| lost.is_none_or(|lost| branch.url != branches[lost.relay].url)) {
            eprintln!("{:?}", branch.operator.history(&job).await);
        }
    }
    for branch in branches {
        branch.clients.into_iter().for_each(|client| kill(Some(client)));
    }
    assert!(ended.is_ok(), "{lost:?}: {:?}", operator.history(&job).await);
    [values(&operator.model_file(&job, 0).await), values(&operator.model_file(&job, 1).await)]
}

/// Plays the round until it is committed.
async fn round(folder: &Path, operator: &Operator, job: &str, branches: &mut [Branch], lost: Option<Lost>) {
    let plan = Reduce::of(Tree::new(CHILDREN as u32, 2, 1).unwrap()).unwrap();
    for (number, (branch, member)) in branches.iter_mut().zip(plan.children()).enumerate() {
        for (place, beside) in std::iter::once(member).chain(&member.children).enumerate() {
            let is_last = number + 1 == CHILDREN && place == CHILDREN;
            if is_last && let Some(lost) = lost {
                assert!(lost.child + 1 < CHILDREN, "the last child starts the round");
            }
            branch.join(folder, &format!("{number}-{place}"), beside, is_last).await;
            let is_lost = lost.is_some_and(|lost| lost.relay != number && lost.child + 1 == place);
            if lost.is_some() && (is_lost || place == 0) {
                signal(branch.clients[place].id(), "STOP");
            }
        }
    }
    if let Some(lost) = lost {
        while operator.rounds(job).await.first().is_none_or(|round| round.phase == Phase::Selecting) {
            tokio::task::yield_now().await;
        }
        signal(branches[lost.relay].process.id(), lost.signal);
        branches.iter().for_each(|branch| signal(branch.clients[0].id(), "CONT"));
    }
    operator.round_is(job, 1, Phase::Committed).await;
    let (_, assignments) = operator.history(job).await.remove(0);
    let answered = assignments.iter().filter(|one| one.state == AssignmentState::Reported).count();
    assert_eq!((assignments.len(), answered), (CHILDREN, CHILDREN - 1));
}

fn values(file: &[u8]) -> Vec<f32> {
    let header = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    file[8 + header..].chunks(4).map(|value| f32::from_le_bytes(value.try_into().unwrap())).collect()
}

fn distance(one: &[f32], other: &[f32]) -> f64 {
    assert_eq!(one.len(), other.len());
    one.iter().zip(other).map(|(one, other)| f64::from((one - other).abs())).fold(0.0, f64::max)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whichever_child_of_each_parent_is_lost_the_model_is_that_of_all_parts() {
    let [before, whole] = play(None).await;
    let moved = distance(&before, &whole);
    assert!(moved > 1e-3, "the model has moved by {moved}");
    for lost in [
        Lost { relay: 0, child: 1, signal: "KILL" },
        Lost { relay: 1, child: 0, signal: "STOP" },
        Lost { relay: 2, child: 1, signal: "KILL" },
    ] {
        let [_, without] = play(Some(lost)).await;
        let apart = distance(&whole, &without);
        assert!(apart < 1e-5 * moved, "{apart} of {moved}, {lost:?}");
    }
}
