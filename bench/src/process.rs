//! A coordinator in a separate process: this program again, serving on a free port of the loopback address.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use reqwest::Url;
use serde::Deserialize;
use tributary_client::Trust;
use tributary_protocol::id::{Name, Secret, SecretKind};
use tributary_protocol::operator::CreateToken;
use tributary_protocol::sealed::Sealed;

use crate::error::BenchError;
use tributary::api::Api;
use tributary::error::CliError;
use tributary::options::authorities;
use tributary::random::random;
use tributary::serve;

/// A process that is killed when the value is dropped.
pub(crate) struct ChildProcess(Child);

/// A coordinator in a separate process.
pub(crate) struct CoordinatorProcess {
    process: ChildProcess,
    pub(crate) url: Url,
    /// `None`: it serves without TLS.
    pub(crate) trust: Option<Trust>,
    pub(crate) api: Api,
}

/// Options of `tributary serve` that a benchmark may set.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options<'a> {
    /// `None`: bodies are where `serve` stores them by default.
    pub(crate) blobs: Option<&'a str>,
    /// `None`: the coordinator's default, which keeps many files back.
    pub(crate) connections_max: Option<u32>,
    /// Serves with TLS, with a CA in this folder.
    pub(crate) tls: Option<&'a Path>,
    /// `None`: this program.
    pub(crate) program: Option<&'a Path>,
    /// `None`: the same name for all, which is enough where one coordinator serves.
    pub(crate) node: Option<&'a str>,
    /// Where clients reach this one of several coordinators.
    pub(crate) node_url: Option<&'a str>,
    /// `None`: the coordinator's default.
    pub(crate) checkins_per_second: Option<u32>,
}

/// The first line of `tributary serve --json`.
#[derive(Deserialize)]
struct Serving {
    url: String,
    ca_file: Option<PathBuf>,
}

/// Starts this program with arguments and variables, and waits for its first line.
pub(crate) async fn own_process(
    arguments: &[&str],
    variables: &[(&str, &str)],
) -> Result<(ChildProcess, String), CliError> {
    first_line(this_program()?, arguments, variables).await
}

async fn first_line(
    mut command: Command,
    arguments: &[&str],
    variables: &[(&str, &str)],
) -> Result<(ChildProcess, String), CliError> {
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

/// Runs this program with arguments to its end; returns what it prints.
pub(crate) async fn whole_process(arguments: Vec<String>) -> Result<String, CliError> {
    let mut command = this_program()?;
    command.args(&arguments).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = tokio::task::spawn_blocking(move || command.output()).await.map_err(CliError::task)?;
    let output = output.map_err(failed)?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(BenchError::Ended { command: arguments.join(" "), status: output.status }.into()),
    }
}

/// This program again. The settings of the surroundings must not change what is measured.
fn this_program() -> Result<Command, BenchError> {
    Ok(program(&std::env::current_exe().map_err(failed)?))
}

fn program(file: &Path) -> Command {
    let mut command = Command::new(file);
    for variable in serve::variables() {
        command.env_remove(variable);
    }
    command
}

fn failed(error: std::io::Error) -> BenchError {
    BenchError::Start(error.to_string())
}

impl ChildProcess {
    /// Asks it to stop, as a service manager does, and returns when it has.
    async fn stopped(mut self) -> Result<ExitStatus, CliError> {
        let asked = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status().map_err(failed)?;
        if !asked.success() {
            return Err(BenchError::Start("it ended before it was asked to".into()).into());
        }
        let ended = tokio::task::spawn_blocking(move || self.0.wait()).await.map_err(CliError::task)?;
        Ok(ended.map_err(failed)?)
    }

    /// Processor time in seconds.
    pub(crate) fn cpu_s(&self) -> Result<f64, CliError> {
        Ok(cpu_s(self.0.id())?)
    }

    /// Resident memory in bytes; `None` on systems without `/proc`.
    pub(crate) fn resident_bytes(&self) -> Option<u64> {
        resident_bytes(self.0.id())
    }
}

/// Processor time of a process in user and kernel mode, in seconds, with the resolution of a clock tick (10 ms).
pub(crate) fn cpu_s(process: u32) -> Result<f64, BenchError> {
    // proc_pid_stat(5): fields 14 and 15, in ticks of 10 ms on today's Linux. The name before them is in parentheses
    // and may contain spaces.
    const TICKS_PER_S: f64 = 100.0;
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"));
    let ticks = stat.ok().and_then(|stat| {
        let fields = stat.rsplit_once(')')?.1.split_whitespace();
        let ticks: Vec<f64> = fields.skip(11).take(2).map_while(|field| field.parse().ok()).collect();
        (ticks.len() == 2).then(|| ticks.iter().sum::<f64>())
    });
    let ticks = ticks.ok_or_else(|| BenchError::Start("no /proc to read processor times from".into()))?;
    Ok(ticks / TICKS_PER_S)
}

/// Peak resident memory of a process in bytes; `None` on systems without `/proc`.
pub(crate) fn peak_resident_bytes(process: u32) -> Option<u64> {
    memory_bytes(process, "VmHWM:")
}

/// Resident memory of a process in bytes; `None` on systems without `/proc`.
pub(crate) fn resident_bytes(process: u32) -> Option<u64> {
    memory_bytes(process, "VmRSS:")
}

/// The peak of this process starts again from what it holds now. Where that is not possible, it stays as it is.
pub(crate) fn forget_peak() {
    // proc_pid_clear_refs(5): 5 resets the peak of resident memory.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// A memory size from `/proc/PID/status`, in bytes; `None` on systems without it.
fn memory_bytes(process: u32, key: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib * 1024)
}

impl Drop for ChildProcess {
    /// SIGKILL: a benchmark's process has no data to save.
    fn drop(&mut self) {
        // Both fail only when the process has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl CoordinatorProcess {
    /// Starts it on a database and waits until it listens.
    pub(crate) async fn start(database: &Sealed<String>, operator: &Secret) -> Result<Self, CliError> {
        Self::start_with(database, operator, Options::default()).await
    }

    /// As [`Self::start`], with further options.
    pub(crate) async fn start_with(
        database: &Sealed<String>,
        operator: &Secret,
        options: Options<'_>,
    ) -> Result<Self, CliError> {
        let mut arguments = vec!["--json", "serve", "--listen", "127.0.0.1:0", "--log", "error"];
        // Always the same name, so that on PostgreSQL a restarted node has its jobs back at once.
        arguments.extend(["--node", options.node.unwrap_or("bench")]);
        arguments.extend(options.node_url.iter().flat_map(|url| ["--node-url", *url]));
        arguments.extend(options.blobs.iter().flat_map(|blobs| ["--blobs", *blobs]));
        let connections_max = options.connections_max.map(|connections| connections.to_string());
        arguments.extend(connections_max.iter().flat_map(|connections| ["--connections-max", connections]));
        let checkins = options.checkins_per_second.map(|checkins| checkins.to_string());
        arguments.extend(checkins.iter().flat_map(|checkins| ["--checkins-per-second", checkins]));
        let tls_dir = options.tls.map(|folder| folder.display().to_string());
        arguments.extend(tls_dir.iter().flat_map(|folder| ["--tls-dev", "--tls-dir", folder]));
        // Secrets are variables, because other users of the machine can see arguments.
        let variables =
            [("TRIBUTARY_OPERATOR_TOKEN", &*operator.expose()), ("TRIBUTARY_DATABASE", database.expose().as_str())];
        let command = options.program.map_or_else(this_program, |file| Ok(program(file)))?;
        let (process, line) = first_line(command, &arguments, &variables).await?;
        let serving: Serving = serde_json::from_str(&line)
            .map_err(|_| BenchError::Start("it ended at once; its messages are above".into()))?;
        let url: Url = serving.url.parse().map_err(|_| BenchError::Start(format!("it serves at {}", serving.url)))?;
        let trust = serving.ca_file.as_deref().map(authorities).transpose()?;
        let api = Api::trusting(url.clone(), Some(operator.clone()), &trust.clone().unwrap_or_default())?;
        Ok(Self { process, url, trust, api })
    }

    /// Asks it to stop, as a service manager does, and returns when it has.
    pub(crate) async fn stopped(self) -> Result<ExitStatus, CliError> {
        self.process.stopped().await
    }

    /// Creates a population and returns an enrolment token for it.
    pub(crate) async fn population(&self, name: &Name) -> Result<Secret, CliError> {
        self.api.create_population(name.clone(), None).await?;
        let wanted = CreateToken::enrolment(name.clone(), "bench");
        Ok(self.api.create_token(&wanted).await?.secret.secret().clone())
    }

    /// Resident memory in bytes; `None` on systems without `/proc`.
    pub(crate) fn resident_bytes(&self) -> Option<u64> {
        self.process.resident_bytes()
    }

    /// Peak resident memory in bytes; `None` on systems without `/proc`.
    pub(crate) fn peak_resident_bytes(&self) -> Option<u64> {
        peak_resident_bytes(self.process.0.id())
    }

    /// Processor time in seconds.
    pub(crate) fn cpu_s(&self) -> Result<f64, CliError> {
        self.process.cpu_s()
    }
}

/// A random operator token.
pub(crate) fn operator_token() -> Result<Secret, CliError> {
    Ok(Secret::from_random(SecretKind::Operator, random()?))
}

/// A random name, because several runs may use one database.
pub(crate) fn population_name() -> Result<Name, CliError> {
    let random = u64::from_le_bytes(random()?);
    Ok(format!("bench-{random:016x}").parse().expect("letters, digits and a dash make a name"))
}

/// The chosen database, or a file in the folder.
pub(crate) fn database_of(chosen: Option<&Sealed<String>>, folder: &Path) -> Sealed<String> {
    chosen.cloned().unwrap_or_else(|| folder.join("tributary.db").to_string_lossy().into_owned().into())
}

/// The database engine of a URL.
pub(crate) fn engine(database: &str) -> &'static str {
    if database.starts_with("postgres") { "postgres" } else { "sqlite" }
}
