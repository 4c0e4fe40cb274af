//! A coordinator in a process of its own: this very program, serving on a free port of the loopback address.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use reqwest::Url;
use serde::Deserialize;
use tributary_protocol::id::{Name, Secret, SecretKind};
use tributary_protocol::operator::CreateToken;

use super::BenchError;
use crate::api::Api;
use crate::error::CliError;

/// Settings of the surroundings that must not reach the process.
const SETTINGS: [&str; 9] = [
    "TRIBUTARY_CONFIG",
    "TRIBUTARY_LISTEN",
    "TRIBUTARY_DATABASE",
    "TRIBUTARY_LOG",
    "TRIBUTARY_LOG_FORMAT",
    "TRIBUTARY_METRICS",
    "TRIBUTARY_OTLP_ENDPOINT",
    "TRIBUTARY_BLOBS",
    "TRIBUTARY_LEASE",
];

/// A coordinator that is killed when this is dropped.
pub(super) struct CoordinatorProcess {
    child: Child,
    /// Where it is.
    pub(super) url: Url,
    /// Its operator API.
    pub(super) api: Api,
}

/// What `tributary serve --json` says first.
#[derive(Deserialize)]
struct Serving {
    url: String,
}

impl CoordinatorProcess {
    /// Starts it on a database and waits until it listens.
    ///
    /// # Errors
    /// [`BenchError::Start`].
    pub(super) async fn start(database: &str, operator: &Secret) -> Result<Self, CliError> {
        let failed = |error: std::io::Error| BenchError::Start(error.to_string());
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.args(["--json", "serve", "--listen", "127.0.0.1:0", "--log", "error", "--database", database]);
        // The same name each time: on PostgreSQL a restarted node has its jobs back at once.
        command.args(["--node", "bench"]);
        command.env("TRIBUTARY_OPERATOR_TOKEN", operator.expose());
        for setting in SETTINGS {
            command.env_remove(setting);
        }
        let mut child = Owned(Some(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(failed)?));
        let stdout = child.0.as_mut().and_then(|child| child.stdout.take());
        let line = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            stdout.map_or(Ok(0), |stdout| BufReader::new(stdout).read_line(&mut line)).map(|_| line)
        });
        let line = line.await.map_err(|error| BenchError::Start(error.to_string()))?.map_err(failed)?;
        let serving: Serving = serde_json::from_str(&line)
            .map_err(|_| BenchError::Start("it ended at once; its messages are above".into()))?;
        let url: Url = serving.url.parse().map_err(|_| BenchError::Start(format!("it serves at {}", serving.url)))?;
        let api = Api::new(url.clone(), Some(operator.clone()))?;
        let child = child.0.take().expect("nobody else takes it");
        Ok(Self { child, url, api })
    }

    /// Makes a population and a token that enrols clients in it.
    ///
    /// # Errors
    /// Those of the calls.
    pub(super) async fn population(&self, name: &Name) -> Result<Secret, CliError> {
        self.api.create_population(name.clone()).await?;
        let wanted = CreateToken { population: Some(name.clone()), label: "bench".into(), valid_for_ms: None };
        Ok(self.api.create_token(&wanted).await?.secret)
    }

    /// Memory that it has resident, in bytes; none where the system does not say.
    pub(super) fn resident_bytes(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib * 1024)
    }
}

impl Drop for CoordinatorProcess {
    /// SIGKILL: a benchmark's coordinator has nothing to lose.
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// A process that is ended when its start fails.
struct Owned(Option<Child>);

impl Drop for Owned {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            end(child);
        }
    }
}

fn end(child: &mut Child) {
    // Either fails only when the process has ended already.
    let _ = child.kill();
    let _ = child.wait();
}

/// A fresh credential.
///
/// # Errors
/// When the operating system gives no random bytes.
pub(super) fn operator_token() -> Result<Secret, CliError> {
    Ok(Secret::from_random(SecretKind::Operator, random()?))
}

/// A name that no other run has: a server's database may be used for several.
///
/// # Errors
/// When the operating system gives no random bytes.
pub(super) fn population_name() -> Result<Name, CliError> {
    let random = u64::from_le_bytes(random()?);
    Ok(format!("bench-{random:016x}").parse().expect("letters, digits and a dash make a name"))
}

fn random<const N: usize>() -> Result<[u8; N], CliError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| CliError::Runtime(std::io::Error::other(error.to_string())))?;
    Ok(bytes)
}
