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
const SETTINGS: [&str; 10] = [
    "TRIBUTARY_CONFIG",
    "TRIBUTARY_LISTEN",
    "TRIBUTARY_DATABASE",
    "TRIBUTARY_LOG",
    "TRIBUTARY_LOG_FORMAT",
    "TRIBUTARY_METRICS",
    "TRIBUTARY_OTLP_ENDPOINT",
    "TRIBUTARY_BLOBS",
    "TRIBUTARY_LEASE",
    "TRIBUTARY_UPLOAD_MEMORY",
];

/// A process that is killed when this is dropped.
pub(super) struct ChildProcess(Child);

/// A coordinator in a process of its own.
pub(super) struct CoordinatorProcess {
    process: ChildProcess,
    /// Where it is.
    pub(super) url: Url,
    /// Its operator API.
    pub(super) api: Api,
}

/// Options of `tributary serve` that a benchmark may set.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Options<'a> {
    /// Where bodies go; into the database unless given.
    pub(super) blobs: Option<&'a str>,
    /// Adds updates at the commit instead of while they arrive.
    pub(super) fold_at_commit: bool,
}

/// What `tributary serve --json` says first.
#[derive(Deserialize)]
struct Serving {
    url: String,
}

/// Starts this very program with these arguments and variables, and waits for its first line.
///
/// # Errors
/// [`BenchError::Start`].
pub(super) async fn own_process(
    arguments: &[&str],
    variables: &[(&str, &str)],
) -> Result<(ChildProcess, String), CliError> {
    let failed = |error: std::io::Error| BenchError::Start(error.to_string());
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    for setting in SETTINGS {
        command.env_remove(setting);
    }
    command.args(arguments).envs(variables.iter().copied());
    let mut child = ChildProcess(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(failed)?);
    let stdout = child.0.stdout.take();
    let line = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        stdout.map_or(Ok(0), |stdout| BufReader::new(stdout).read_line(&mut line)).map(|_| line)
    });
    let line = line.await.map_err(|error| BenchError::Start(error.to_string()))?.map_err(failed)?;
    Ok((child, line))
}

impl ChildProcess {
    /// Processor time that it has used, in user and kernel mode, in seconds; exact to a clock tick (10 ms).
    ///
    /// # Errors
    /// [`BenchError::Start`] where the system does not say.
    pub(super) fn cpu_s(&self) -> Result<f64, CliError> {
        // proc_pid_stat(5): fields 14 and 15, in ticks of a hundredth of a second on every Linux of today. The name before
        // them is in parentheses and may have spaces.
        const TICKS_PER_S: f64 = 100.0;
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id()));
        let ticks = stat.ok().and_then(|stat| {
            let fields = stat.rsplit_once(')')?.1.split_whitespace();
            let ticks: Vec<f64> = fields.skip(11).take(2).map_while(|field| field.parse().ok()).collect();
            (ticks.len() == 2).then(|| ticks.iter().sum::<f64>())
        });
        let ticks = ticks.ok_or_else(|| BenchError::Start("no /proc to read processor times from".into()))?;
        Ok(ticks / TICKS_PER_S)
    }

    /// An amount of memory in `/proc/PID/status`, in bytes; none where the system does not say.
    fn memory_bytes(&self, key: &str) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib * 1024)
    }
}

impl Drop for ChildProcess {
    /// SIGKILL: a benchmark's process has nothing to lose.
    fn drop(&mut self) {
        // Either fails only when the process has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl CoordinatorProcess {
    /// Starts it on a database and waits until it listens.
    ///
    /// # Errors
    /// [`BenchError::Start`].
    pub(super) async fn start(database: &str, operator: &Secret) -> Result<Self, CliError> {
        Self::start_with(database, operator, Options::default()).await
    }

    /// The same with further options.
    ///
    /// # Errors
    /// [`BenchError::Start`].
    pub(super) async fn start_with(database: &str, operator: &Secret, options: Options<'_>) -> Result<Self, CliError> {
        let mut arguments =
            vec!["--json", "serve", "--listen", "127.0.0.1:0", "--log", "error", "--database", database];
        // The same name each time: on PostgreSQL a restarted node has its jobs back at once.
        arguments.extend(["--node", "bench"]);
        arguments.extend(options.blobs.iter().flat_map(|blobs| ["--blobs", *blobs]));
        arguments.extend(options.fold_at_commit.then_some("--fold-at-commit"));
        let (process, line) = own_process(&arguments, &[("TRIBUTARY_OPERATOR_TOKEN", &operator.expose())]).await?;
        let serving: Serving = serde_json::from_str(&line)
            .map_err(|_| BenchError::Start("it ended at once; its messages are above".into()))?;
        let url: Url = serving.url.parse().map_err(|_| BenchError::Start(format!("it serves at {}", serving.url)))?;
        let api = Api::new(url.clone(), Some(operator.clone()))?;
        Ok(Self { process, url, api })
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
        self.process.memory_bytes("VmRSS:")
    }

    /// Most memory that it ever had resident, in bytes; none where the system does not say.
    pub(super) fn peak_resident_bytes(&self) -> Option<u64> {
        self.process.memory_bytes("VmHWM:")
    }

    /// Processor time that it has used, in seconds.
    ///
    /// # Errors
    /// [`BenchError::Start`] where the system does not say.
    pub(super) fn cpu_s(&self) -> Result<f64, CliError> {
        self.process.cpu_s()
    }
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
