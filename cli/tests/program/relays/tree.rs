//! The processes of a tree, and what must be true of a job that they have played.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::operator::Round;
use tributary_protocol::state::Phase;

use super::fleet::{Fleet, weight_of_all};
use super::{CLIENTS, RELAYS, ROUNDS, within_reason};
use crate::support::host::Host;
use crate::support::operator::Operator;
use crate::support::process::{Parent, Setup};
use crate::support::proxy::Proxy;

const PARENT: &str = "parent";

/// A parent and its relays. Clients and relays reach the processes through proxies, so their addresses stay when a
/// process is started again.
pub(super) struct Tree {
    pub(super) parent: Arc<Host>,
    pub(super) operator: Operator,
    pub(super) relays: Vec<Relay>,
    pub(super) fleet: Fleet,
    _front: Proxy,
    folder: TempDir,
}

/// Which process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Victim {
    /// Each relay, by its own traffic with its clients and with the parent.
    Relay,
    /// The parent, by the traffic of both relays.
    Parent,
}

pub(super) struct Relay {
    pub(super) host: Arc<Host>,
    /// The first line of its first start.
    pub(super) serving: Value,
    pub(super) operator: Operator,
    pub(super) uplink: Proxy,
    front: Proxy,
}

impl Relay {
    async fn start(folder: &Path, parent: &Arc<Host>, victim: Victim, token: &str) -> Self {
        std::fs::create_dir(folder).unwrap();
        let host = Host::new();
        let uplink_victim = match victim {
            Victim::Relay => &host,
            Victim::Parent => parent,
        };
        let uplink = Proxy::between(parent, uplink_victim).await;
        let front = Proxy::between(&host, &host).await;
        let parent = Parent { url: uplink.url(), token: token.to_owned(), state_folder: folder.join("identity") };
        let setup = Setup { parent: Some(parent), ..Setup::new(database(folder)) };
        let operator = Operator::new(front.url(), &setup.token);
        let serving = host.start(setup).await;
        Self { host, serving, operator, uplink, front }
    }

    /// Its rounds of a job.
    pub(super) async fn rounds(&self, job: &str) -> Vec<Round> {
        self.operator.rounds(job).await
    }

    /// URL and enrolment token for its clients.
    fn entrance(&self) -> (String, String) {
        (self.front.url(), self.serving["enrolment_token"].as_str().unwrap().to_owned())
    }
}

impl Tree {
    /// `victim` says whose kills the traffic between relays and parent counts for, if kills are asked for later.
    pub(super) async fn start(victim: Victim) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let parent = Host::new();
        std::fs::create_dir(folder.path().join(PARENT)).unwrap();
        let setup = Setup::new(database(&folder.path().join(PARENT)));
        parent.start(setup.clone()).await;
        let front = Proxy::between(&parent, &Host::new()).await;
        let operator = Operator::new(front.url(), &setup.token);
        operator.population().await;
        let token = operator.relay_token().await;
        let mut relays = Vec::new();
        for relay in 0..RELAYS {
            relays.push(Relay::start(&folder.path().join(relay.to_string()), &parent, victim, &token).await);
        }
        let entrances: Vec<_> = relays.iter().map(Relay::entrance).collect();
        let fleet = Fleet::enrol(&entrances).await;
        Self { parent, operator, relays, fleet, _front: front, folder }
    }

    /// Where the parent's database is, and nothing else.
    pub(super) fn parent_folder(&self) -> PathBuf {
        self.folder.path().join(PARENT)
    }

    pub(super) async fn create_job(&self) -> String {
        self.operator.create_job(ROUNDS, &sections(), None).await
    }

    /// A job that is like the first, by another name.
    pub(super) async fn create_second_job(&self) -> String {
        let mut sections = sections();
        sections["name"] = "second".into();
        self.operator.create_job(ROUNDS, &sections, None).await
    }

    /// Plays a job to its end with all clients; returns the hashes of its versions.
    pub(super) async fn play(&self, job: &str) -> Vec<Sha256Hash> {
        play(&self.operator, &self.fleet, job).await
    }

    /// Returns when the relays have ended their last round, which they do after the parent, and checks their books.
    pub(super) async fn settle(&self, job: &str) {
        for relay in &self.relays {
            within_reason("a relay ends its last round", relay.operator.rounds_end(job)).await;
            check_books(&relay.rounds(job).await, (CLIENTS / RELAYS) as u32);
        }
    }

    /// Ends all processes, before the folder with their databases goes.
    pub(super) async fn end(self) {
        for relay in &self.relays {
            relay.host.stop().await;
        }
        self.parent.stop().await;
    }
}

/// The same clients at one coordinator; returns the hashes of all versions.
pub(super) async fn flat() -> Vec<Sha256Hash> {
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup::new(database(folder.path()));
    let proxy = Proxy::start(setup.clone()).await;
    let operator = Operator::new(proxy.url(), &setup.token);
    let token = operator.population().await;
    let fleet = Fleet::enrol(&[(proxy.url(), token)]).await;
    let job = operator.create_job(ROUNDS, &sections(), None).await;
    let versions = play(&operator, &fleet, &job).await;
    proxy.stop().await;
    versions
}

fn database(folder: &Path) -> String {
    let database: PathBuf = folder.join("tributary.db");
    database.display().to_string()
}

/// Rounds of all clients, without anything that follows from the seeds of clients.
fn sections() -> Value {
    json!({
        "round": {
            "updates_goal": CLIENTS, "updates_min": CLIENTS, "over_selection": 1.0, "available_min": CLIENTS,
            "selection_timeout_ms": 86_400_000, "deadline_ms": 2_592_000_000_u64,
        },
        "update": { "codec": "f32" },
    })
}

async fn play(operator: &Operator, fleet: &Fleet, job: &str) -> Vec<Sha256Hash> {
    let acknowledged = within_reason("the job is completed", fleet.play_until(operator.completed(job))).await;
    let all = (0..CLIENTS).flat_map(|client| (0..ROUNDS).map(move |version| (client, version)));
    // An acknowledgement that was lost is repeated, or the round has ended meanwhile.
    assert!(acknowledged.iter().all(|update| all.clone().any(|known| known == *update)), "{acknowledged:?}");
    let rounds = operator.rounds(job).await;
    check_books(&rounds, CLIENTS as u32);
    let committed: Vec<_> = rounds.iter().filter(|round| round.phase == Phase::Committed).collect();
    assert_eq!(committed.len() as u32, ROUNDS);
    for round in committed {
        assert_eq!(round.weight, weight_of_all(round.base_version), "each update counts once: {round:?}");
    }
    let mut hashes = Vec::new();
    for version in 0..=ROUNDS {
        hashes.push(operator.model(job, version).await);
    }
    hashes
}

/// Every round has committed with so many updates, or says why it did not.
fn check_books(rounds: &[Round], reported: u32) {
    for round in rounds {
        match round.phase {
            Phase::Committed => assert_eq!(round.reported, reported, "{round:?}"),
            Phase::Abandoned => assert!(round.reason.is_some(), "{round:?}"),
            _ => panic!("a round is still open: {round:?}"),
        }
    }
}
