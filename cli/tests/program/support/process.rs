//! A coordinator's process.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};
use tributary_protocol::id::{Secret, SecretKind};

/// How long a coordinator counts as alive that says nothing, where there are others.
const SHORT_LEASE: &str = "2s";

/// The settings of every process of a run.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) database: String,
    /// The operator's.
    pub(crate) token: Secret,
    /// Of a relay.
    pub(crate) parent: Option<Parent>,
    pub(crate) node: Node,
}

/// One of the coordinators on a database.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) name: String,
    /// Where its clients reach it, if it tells them.
    pub(crate) url: Option<String>,
}

/// What a relay knows of its parent.
#[derive(Clone)]
pub(crate) struct Parent {
    pub(crate) url: String,
    /// An enrolment token that grants relays.
    pub(crate) token: String,
    pub(crate) state_folder: PathBuf,
}

impl Setup {
    pub(crate) fn new(database: impl Into<String>) -> Self {
        let token = Secret::from_random(SecretKind::Operator, [7; 32]);
        let node = Node { name: "one".into(), url: None };
        Self { database: database.into(), token, parent: None, node }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tributary"));
        command.arg("--json");
        match &self.parent {
            None => command.arg("serve"),
            Some(parent) => {
                command.args(["relay", "--upstream", &parent.url, "--token", &parent.token]);
                command.arg("--state-dir").arg(&parent.state_folder)
            }
        };
        if let Some(url) = &self.node.url {
            command.args(["--lease", SHORT_LEASE, "--node-url", url]);
        }
        command
            .args(["--listen", "127.0.0.1:0", "--node", &self.node.name, "--log", "error"])
            .args(["--database", &self.database])
            .env("TRIBUTARY_OPERATOR_TOKEN", self.token.expose())
            .env_remove("TRIBUTARY_CONFIG")
            .env_remove("TRIBUTARY_BLOBS")
            .env_remove("TRIBUTARY_LEASE")
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        command
    }
}

/// A process that listens; killed when dropped.
pub(crate) struct Process {
    child: Child,
    pub(crate) address: SocketAddr,
    /// The first line of its output.
    pub(crate) serving: Value,
}

impl Process {
    /// Starts it and waits until it listens.
    pub(crate) async fn start(setup: Setup) -> Self {
        tokio::task::spawn_blocking(move || {
            let mut child = setup.command().spawn().unwrap();
            let mut line = String::new();
            BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
            let serving: Value = serde_json::from_str(&line).expect("it did not start");
            let url = serving["url"].as_str().unwrap();
            let address = url.trim_start_matches("http://").trim_end_matches('/').parse().unwrap();
            Self { child, address, serving }
        })
        .await
        .unwrap()
    }
}

impl Process {
    /// Asks it to stop, as a service manager does. Returns when it has, without a failure.
    pub(crate) async fn stopped(mut self) {
        let mut a_child_ended = signal(SignalKind::child()).unwrap();
        let asked = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        assert!(asked.success());
        while self.child.try_wait().unwrap().is_none() {
            a_child_ended.recv().await;
        }
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Process {
    /// SIGKILL.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client's process, which says nothing.
pub(crate) fn client(arguments: &[String], folder: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_tributary"))
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// SIGKILL.
pub(crate) fn kill(client: Option<Child>) {
    if let Some(mut client) = client {
        let _ = client.kill();
        let _ = client.wait();
    }
}
