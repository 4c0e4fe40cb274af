//! A coordinator's process.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use tributary_protocol::id::Secret;

/// The settings of every process of a run.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) database: String,
    pub(crate) token: Secret,
}

/// A process that listens; killed when dropped.
pub(crate) struct Process {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Process {
    /// Starts it and waits until it listens.
    pub(crate) async fn start(setup: Setup) -> Self {
        tokio::task::spawn_blocking(move || {
            let mut child = Command::new(env!("CARGO_BIN_EXE_tributary"))
                .args(["--json", "serve", "--listen", "127.0.0.1:0", "--node", "one", "--log", "error"])
                .args(["--database", &setup.database])
                .env("TRIBUTARY_OPERATOR_TOKEN", setup.token.expose())
                .env_remove("TRIBUTARY_CONFIG")
                .env_remove("TRIBUTARY_BLOBS")
                .env_remove("TRIBUTARY_LEASE")
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut line = String::new();
            BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
            let serving: serde_json::Value = serde_json::from_str(&line).expect("it did not start");
            let url = serving["url"].as_str().unwrap();
            let address = url.trim_start_matches("http://").trim_end_matches('/').parse().unwrap();
            Self { child, address }
        })
        .await
        .unwrap()
    }
}

impl Drop for Process {
    /// SIGKILL.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
