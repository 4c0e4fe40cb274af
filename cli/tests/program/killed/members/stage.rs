//! A coordinator and four members as processes, and which of them fails where.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpSocket;
use tributary_client::Client;
use tributary_protocol::seed::Seed;

use super::taps::{before_coordinator, before_listener};
use crate::support::operator::Operator;
use crate::support::process::{self, Process, Setup};

pub(super) const MEMBERS: usize = 4;
/// Columns of the tables: enough that a frame of sums is longer than any other one.
pub(super) const INPUTS: usize = 100;

/// A member that fails, and where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) victim: usize,
    pub(super) place: Place,
}

/// Where a member fails.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// At its frame of this step, which its neighbour does not get.
    Sum { step: u32, fault: Fault },
    /// It is killed after its frame of this step.
    After { step: u32 },
    /// It is killed before it says that it is ready; after all members that fail at a frame.
    Ready,
    /// It is killed after it has said so.
    Joined,
    /// It is killed before it says which sum it has.
    Outcome,
    /// It is killed when it brings the sum.
    Upload,
    /// It says another hash than that of its sum: one of this digit only.
    Lie(char),
}

/// How a member fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Killed,
    Restarted,
    /// SIGSTOP.
    Stopped,
    /// An operator revokes it.
    Revoked,
    /// What others send to its right neighbour does not arrive any more.
    Cut,
    /// It arrives byte by byte.
    Slow,
}

/// The way of others to a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Way {
    #[default]
    Open,
    Cut,
    Slow,
}

/// What the taps share.
pub(super) struct Shared {
    /// What has not happened yet.
    rows: Mutex<Vec<Row>>,
    ways: Mutex<[Way; MEMBERS]>,
    members: Vec<Member>,
    operator: Operator,
}

struct Member {
    arguments: Vec<String>,
    folder: PathBuf,
    process: Mutex<Option<Child>>,
}

/// All of it. Processes end with it.
pub(super) struct Stage {
    shared: Arc<Shared>,
    _coordinator: Process,
    _folder: TempDir,
    /// Keep the ports of the members.
    _places: Vec<TcpSocket>,
}

/// A table of examples: the label says whether the first column is positive.
fn table(client: usize) -> String {
    let mut stream = Seed(5).derive("client", client as u64).stream();
    let mut text: String = (0..INPUTS).map(|column| format!("c{column},")).collect();
    text.push_str("label\n");
    for _ in 0..24 {
        let row: Vec<f32> = (0..INPUTS).map(|_| stream.uniform(-1.0, 1.0)).collect();
        row.iter().for_each(|value| write!(text, "{value},").unwrap());
        writeln!(text, "{}", u8::from(row[0] > 0.0)).unwrap();
    }
    text
}

/// A port that nobody else gets, and that a member can listen at.
fn place() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

impl Stage {
    pub(super) async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let setup = Setup::new(folder.path().join("tributary.db").display().to_string());
        let coordinator = Process::start(setup.clone()).await;
        let url = format!("http://{}", coordinator.address);
        let operator = Operator::new(url, &setup.token);
        let token = operator.population().await;
        let (mut places, mut members, mut taps, mut servers) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for number in 0..MEMBERS {
            let folder = folder.path().join(number.to_string());
            std::fs::create_dir(&folder).unwrap();
            std::fs::write(folder.join("table.csv"), table(number)).unwrap();
            let (place, listens) = place();
            let calls = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let links = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let server = format!("http://{}", calls.local_addr().unwrap());
            let (listen, advertise) = (listens.to_string(), links.local_addr().unwrap().to_string());
            let arguments = ["--server", &server, "--token", &token, "client", "run", "--state-dir", "state"];
            let more = ["--csv", "table.csv", "--listen", &listen, "--advertise", &advertise];
            let arguments = arguments.iter().chain(&more).map(|argument| (*argument).to_owned()).collect();
            members.push(Member { arguments, folder, process: Mutex::new(None) });
            places.push(place);
            taps.push((calls, links, listens));
            servers.push(server);
        }
        let shared = Arc::new(Shared { rows: Mutex::default(), ways: Mutex::default(), members, operator });
        for (number, (calls, links, listens)) in taps.into_iter().enumerate() {
            tokio::spawn(before_coordinator(calls, coordinator.address, (Arc::clone(&shared), number)));
            tokio::spawn(before_listener(links, listens, (Arc::clone(&shared), number)));
        }
        // One after the other, so that the numbers of clients follow their order. A client's state names its server.
        for (member, server) in shared.members.iter().zip(servers) {
            let client = Client::builder(&server, &token).state_dir(member.folder.join("state")).build().unwrap();
            client.enrol().await.unwrap();
        }
        Self { shared, _coordinator: coordinator, _folder: folder, _places: places }
    }

    pub(super) fn operator(&self) -> &Operator {
        &self.shared.operator
    }

    /// Lets members fail.
    pub(super) fn arm(&self, rows: &[Row]) {
        *self.shared.rows.lock().unwrap() = rows.to_vec();
        *self.shared.ways.lock().unwrap() = Default::default();
    }

    /// Whether some have yet to fail.
    pub(super) fn is_armed(&self) -> bool {
        !self.shared.rows.lock().unwrap().is_empty()
    }

    /// Starts all members.
    pub(super) fn begin(&self) {
        for member in &self.shared.members {
            *member.process.lock().unwrap() = Some(member.spawn());
        }
    }

    /// Kills all members.
    pub(super) fn end(&self) {
        (0..MEMBERS).for_each(|number| self.shared.kill(number));
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.end();
    }
}

fn signal(process: &Child, signal: &str) {
    assert!(Command::new("kill").args([signal, &process.id().to_string()]).status().unwrap().success());
}

impl Member {
    /// The id that the coordinator has given it.
    fn client(&self) -> String {
        let identity = std::fs::read(self.folder.join("state/identity.json")).unwrap();
        let identity: Value = serde_json::from_slice(&identity).unwrap();
        identity["client"].as_str().unwrap().to_owned()
    }

    fn spawn(&self) -> Child {
        process::client(&self.arguments, &self.folder)
    }
}

impl Shared {
    /// The place at which this member fails, if it is one for which that holds. It is taken: it fails once.
    pub(super) fn due(&self, victim: usize, is_it: impl Fn(Place) -> bool) -> Option<Place> {
        let mut rows = self.rows.lock().unwrap();
        let at = rows.iter().position(|row| row.victim == victim && is_it(row.place))?;
        let is_at_frame = |row: &Row| matches!(row.place, Place::Sum { .. } | Place::After { .. });
        if matches!(rows[at].place, Place::Ready) && rows.iter().any(is_at_frame) {
            return None;
        }
        Some(rows.remove(at).place)
    }

    pub(super) fn way(&self, to: usize) -> Way {
        self.ways.lock().unwrap()[to]
    }

    /// SIGKILL.
    pub(super) fn kill(&self, victim: usize) {
        process::kill(self.members[victim].process.lock().unwrap().take());
    }

    pub(super) async fn fail(&self, victim: usize, fault: Fault) {
        let right = (victim + 1) % MEMBERS;
        match fault {
            Fault::Killed => self.kill(victim),
            Fault::Restarted => {
                self.kill(victim);
                *self.members[victim].process.lock().unwrap() = Some(self.members[victim].spawn());
            }
            Fault::Stopped => signal(self.members[victim].process.lock().unwrap().as_ref().unwrap(), "-STOP"),
            Fault::Revoked => self.operator.revoke(&self.members[victim].client()).await,
            Fault::Cut => self.ways.lock().unwrap()[right] = Way::Cut,
            Fault::Slow => self.ways.lock().unwrap()[right] = Way::Slow,
        }
    }
}
