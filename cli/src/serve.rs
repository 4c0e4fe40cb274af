//! `tributary serve`: the coordinator as a daemon.

use std::convert::Infallible;
use std::fmt;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use reqwest::Url;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};
use tributary_protocol::id::{Name, Secret, SecretKind};
use tributary_server::cluster::lease::LEASE_DEFAULT;
use tributary_server::coordinator::UPLOAD_MEMORY_DEFAULT;
use tributary_server::metrics::MetricsAccess;
use tributary_server::{Config, Coordinator};

use crate::args::TokenText;
use crate::error::CliError;
use crate::format::parse_duration_ms;
use crate::local::bind;
use crate::otlp::Exporter;
use crate::output::Output;

/// Largest configuration file in bytes.
const CONFIG_BYTES_MAX: u64 = 64 * 1024;

/// What is logged unless somebody says otherwise: these libraries tell every connection and every tick.
const LOG_DEFAULT: &str = "info,sqlx=warn,tokio_cron_scheduler=warn,object_store=warn";

/// `tributary serve`. A setting on the command line counts before one in the environment, that before one in the file.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServeArgs {
    /// A TOML file with these settings under their long names (listen, database, blobs, operator_token, node, lease_ms,
    /// upload_memory, metrics, log, log_format, otlp_endpoint).
    #[arg(long, env = "TRIBUTARY_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where to listen [default: 127.0.0.1:7300]. Without TLS in front, stay on the loopback address.
    #[arg(long, env = "TRIBUTARY_LISTEN", value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// The database: a file, sqlite:FILE, or postgres://USER@HOST/NAME [default: tributary.db].
    #[arg(long, env = "TRIBUTARY_DATABASE", value_name = "URL", hide_env_values = true)]
    database: Option<SecretText>,
    /// An object store for models and updates [default: they are in the database]: file:///DIRECTORY, s3://BUCKET/PREFIX,
    /// gs://BUCKET/PREFIX or az://CONTAINER/PREFIX. Credentials and endpoints come from the environment under their usual
    /// names (AWS_ACCESS_KEY_ID, AWS_ENDPOINT, GOOGLE_SERVICE_ACCOUNT, AZURE_STORAGE_ACCOUNT_NAME, ..).
    #[arg(long, env = "TRIBUTARY_BLOBS", value_name = "URL")]
    blobs: Option<String>,
    /// An operator token to let in; without one the first start makes a token and prints it, once.
    #[arg(long, env = "TRIBUTARY_OPERATOR_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    operator_token: Option<TokenText>,
    /// Name of this process among several coordinators on one PostgreSQL; a random one unless given. One that restarts
    /// under its name takes its jobs back at once.
    #[arg(long, env = "TRIBUTARY_NODE", value_name = "NAME")]
    node: Option<Name>,
    /// How long a dead coordinator's jobs wait until another takes them over (10s, 1min) [default: 10s].
    #[arg(long, env = "TRIBUTARY_LEASE", value_name = "DURATION", value_parser = parse_duration_ms)]
    lease: Option<u64>,
    /// Memory for updates that are being received, in MiB. A large one takes 0.7 MiB, 1.4 MiB where it has to be
    /// unpacked, a small one what it needs. Further ones wait their turn [default: 12].
    #[arg(long, env = "TRIBUTARY_UPLOAD_MEMORY", value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..=4096))]
    upload_memory: Option<u32>,
    /// Who may read /metrics (Prometheus): whoever reaches the coordinator, operators with their token, or nobody; then
    /// nothing is measured [default: open]. It tells names of populations and how much goes on, no client or token.
    #[arg(long, env = "TRIBUTARY_METRICS", value_enum, value_name = "WHO")]
    metrics: Option<MetricsFor>,
    /// Adds updates when their round is committed instead of while they arrive: the yardstick of `bench aggregate`.
    #[arg(long, hide = true)]
    fold_at_commit: bool,
    /// What is logged to standard error: error, warn, info, debug, trace, or a list [default: info, and
    /// warn for sqlx, object_store and tokio_cron_scheduler].
    #[arg(long, env = "TRIBUTARY_LOG", value_name = "FILTER")]
    log: Option<String>,
    /// Sends spans of requests and round steps to an OpenTelemetry collector at this address (OTLP over HTTP, as JSON, to
    /// URL/v1/traces). Only what --log lets through is sent; OTEL_TRACES_SAMPLER and the like are obeyed.
    #[arg(long, env = "TRIBUTARY_OTLP_ENDPOINT", value_name = "URL", value_parser = parse_otlp)]
    otlp_endpoint: Option<Url>,
    /// How log lines look [default: text].
    #[arg(long, env = "TRIBUTARY_LOG_FORMAT", value_enum, value_name = "FORMAT")]
    log_format: Option<LogFormat>,
}

fn parse_otlp(text: &str) -> Result<Url, String> {
    let url: Url = text.parse().map_err(|error| format!("{error}"))?;
    let is_http = matches!(url.scheme(), "http" | "https");
    if is_http { Ok(url) } else { Err("it must be http://HOST:4318 or https://HOST".into()) }
}

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Who may read `/metrics`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
enum MetricsFor {
    /// Anybody who reaches the coordinator.
    #[default]
    Open,
    /// Operators, with their token.
    Token,
    /// Nobody: nothing is measured.
    Off,
}

impl From<MetricsFor> for MetricsAccess {
    fn from(metrics: MetricsFor) -> Self {
        match metrics {
            MetricsFor::Open => Self::Open,
            MetricsFor::Token => Self::Token,
            MetricsFor::Off => Self::Off,
        }
    }
}

/// A text that may hold a password: `Debug` does not show it.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
struct SecretText(String);

impl FromStr for SecretText {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SecretText(..)")
    }
}

/// The settings as a file has them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ConfigFile {
    listen: Option<SocketAddr>,
    database: Option<SecretText>,
    blobs: Option<String>,
    operator_token: Option<Secret>,
    node: Option<Name>,
    lease_ms: Option<u64>,
    upload_memory: Option<u32>,
    metrics: Option<MetricsFor>,
    log: Option<String>,
    log_format: Option<LogFormat>,
    #[serde(default, deserialize_with = "otlp_endpoint")]
    otlp_endpoint: Option<Url>,
}

fn otlp_endpoint<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Url>, D::Error> {
    parse_otlp(&String::deserialize(deserializer)?).map(Some).map_err(D::Error::custom)
}

/// The settings that count.
#[derive(Debug)]
struct Settings {
    listen: SocketAddr,
    coordinator: Config,
    log: String,
    log_format: LogFormat,
    otlp_endpoint: Option<Url>,
}

/// What is printed when it serves.
#[derive(Serialize)]
struct Serving {
    event: &'static str,
    url: String,
    node: Name,
    #[serde(skip_serializing_if = "Option::is_none")]
    operator_token: Option<Secret>,
}

/// Serves until Ctrl-C or a SIGTERM.
///
/// # Errors
/// When a setting is wrong, the address is in use or the database cannot be opened.
pub(crate) async fn run(args: &ServeArgs, output: &Output) -> Result<(), CliError> {
    let settings = settings(args)?;
    let exporter = start_log(&settings)?;
    let listener = bind(settings.listen).await?;
    let address = listener.local_addr().map_err(|source| CliError::Listen { address: settings.listen, source })?;
    let coordinator = Coordinator::open(&settings.coordinator).await?;
    let serving = Serving {
        event: "serving",
        url: format!("http://{address}/"),
        node: coordinator.node().clone(),
        operator_token: coordinator.first_operator_token().cloned(),
    };
    output.object(&serving, || text(&serving))?;

    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    tokio::spawn(async move {
        asked_to_stop().await;
        tracing::info!("stopping: open rounds go on at the next start");
        stop.cancel();
    });
    let served = coordinator.serve(listener, shutdown).await;
    if let Some(exporter) = exporter {
        exporter.finish().await;
    }
    Ok(served?)
}

fn text(serving: &Serving) -> String {
    let url = format!("{} as {}", serving.url, serving.node);
    match &serving.operator_token {
        None => format!("serving at {url}"),
        Some(token) => format!(
            "serving at {url}\n\nThis is the first start. The operator token, shown this once:\n\n  {}\n\n\
             next: export TRIBUTARY_TOKEN=.. and `tributary population create NAME`",
            token.expose()
        ),
    }
}

/// Returns at Ctrl-C or, where there is one, a SIGTERM.
async fn asked_to_stop() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}

fn settings(args: &ServeArgs) -> Result<Settings, CliError> {
    let file = args.config.as_deref().map(read_config).transpose()?.unwrap_or_default();
    let operator_token = match &args.operator_token {
        Some(text) => Some(text.secret(SecretKind::Operator)?),
        None => file.operator_token,
    };
    let database = args.database.clone().or(file.database);
    let default_address = SocketAddr::from(([127, 0, 0, 1], 7300));
    Ok(Settings {
        listen: args.listen.or(file.listen).unwrap_or(default_address),
        coordinator: Config {
            database: database.map_or_else(|| Config::default().database, |SecretText(url)| url.into()),
            blobs: args.blobs.clone().or(file.blobs),
            operator_token,
            node: args.node.clone().or(file.node),
            lease: args.lease.or(file.lease_ms).map_or(LEASE_DEFAULT, Duration::from_millis),
            upload_memory: args
                .upload_memory
                .or(file.upload_memory)
                .map_or(UPLOAD_MEMORY_DEFAULT, |mib| (mib as usize) << 20),
            metrics: args.metrics.or(file.metrics).unwrap_or_default().into(),
            fold_at_commit: args.fold_at_commit,
        },
        log: args.log.clone().or(file.log).unwrap_or_else(|| LOG_DEFAULT.into()),
        log_format: args.log_format.or(file.log_format).unwrap_or_default(),
        otlp_endpoint: args.otlp_endpoint.clone().or(file.otlp_endpoint),
    })
}

fn read_config(path: &Path) -> Result<ConfigFile, CliError> {
    use std::io::Read;
    let mut text = String::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(CONFIG_BYTES_MAX + 1).read_to_string(&mut text));
    read.map_err(CliError::file("read", path))?;
    if text.len() as u64 > CONFIG_BYTES_MAX {
        return Err(CliError::BadSetting(format!("{}: more than {CONFIG_BYTES_MAX} bytes", path.display())));
    }
    toml::from_str(&text).map_err(|source| CliError::Config { path: path.to_owned(), source: Box::new(source) })
}

/// Starts to log; returns what sends spans to a collector, if there is one.
fn start_log(settings: &Settings) -> Result<Option<Exporter>, CliError> {
    let filter: EnvFilter =
        settings.log.parse().map_err(|error| CliError::BadSetting(format!("log {:?}: {error}", settings.log)))?;
    let colours = std::io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(colours);
    let lines = match settings.log_format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().boxed(),
    };
    let log = tracing_subscriber::registry().with(filter).with(lines);
    let node = settings.coordinator.node.as_ref().map(Name::as_str);
    let exporter = settings.otlp_endpoint.as_ref().map(|url| Exporter::to(url, node)).transpose()?;
    log.with(exporter.as_ref().map(Exporter::layer)).init();
    Ok(exporter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        serve: ServeArgs,
    }

    fn settings_of(line: &str) -> Result<Settings, CliError> {
        settings(&Line::try_parse_from(std::iter::once("serve").chain(line.split_whitespace())).unwrap().serve)
    }

    #[test]
    fn the_command_line_counts_before_the_file_and_the_file_before_the_defaults() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tributary.toml");
        std::fs::write(&path, "listen = \"127.0.0.1:1\"\ndatabase = \"a.db\"\nlog_format = \"json\"\n").unwrap();
        let settings = settings_of(&format!("--config {} --database b.db", path.display())).unwrap();
        assert_eq!(settings.listen.port(), 1);
        assert_eq!((settings.coordinator.database.expose().as_str(), settings.log.as_str()), ("b.db", LOG_DEFAULT));
        assert_eq!(settings.log_format, LogFormat::Json);
        assert_eq!(settings_of("").unwrap().listen, "127.0.0.1:7300".parse().unwrap());
    }

    #[test]
    fn an_unknown_key_and_a_wrong_token_are_named_and_the_token_is_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tributary.toml");
        std::fs::write(&path, "databas = \"a.db\"\n").unwrap();
        let error = settings_of(&format!("--config {}", path.display())).unwrap_err().to_string();
        assert!(error.contains("tributary.toml") && error.contains("databas"), "{error}");
        let error = settings_of("--operator-token tributary_operator_5ecret").unwrap_err();
        assert!(!format!("{error} {error:?}").contains("5ecret"));
    }
}
