//! The settings of `tributary serve`: one struct for flags, variables and the file.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use serde::Deserialize;
use tributary_protocol::id::{Name, SecretKind};
use tributary_protocol::sealed::Sealed;
use tributary_server::Config;
use tributary_server::metrics::MetricsAccess;

use super::oidc::{Given, RoleOfGroup};
use crate::error::CliError;
use crate::options::secret;
use crate::settings_file;
use crate::units::{ByteSize, HttpUrl, HumanDuration};

/// These libraries log every connection and every tick at `info`.
const LOG_DEFAULT: &str = "info,sqlx=warn,tokio_cron_scheduler=warn,object_store=warn";

/// A flag counts before a variable, a variable before the file, and the file before the default.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServeArgs {
    /// A TOML file with these settings, under the names of the flags with `_` for `-` (examples/serve.toml).
    #[arg(long, env = "TRIBUTARY_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    settings: ServeSettings,
    /// Adds updates when their round is committed instead of while they arrive: the yardstick of `bench aggregate`.
    #[arg(long, hide = true)]
    fold_at_commit: bool,
}

#[derive(Clone, Debug, Default, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ServeSettings {
    /// Where to listen [default: 127.0.0.1:7300]. The coordinator speaks plain HTTP: for any but the loopback address,
    /// put a proxy with TLS in front of it.
    #[arg(long, env = "TRIBUTARY_LISTEN", value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// The database: a file, sqlite:FILE, or postgres://USER@HOST/NAME [default: tributary.db].
    #[arg(long, env = "TRIBUTARY_DATABASE", value_name = "URL", hide_env_values = true)]
    database: Option<Sealed<String>>,
    /// An object store for models and updates [default: they are stored in the database]: file:///DIRECTORY,
    /// s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX. Credentials and endpoints come from the usual
    /// variables (AWS_ACCESS_KEY_ID, AWS_ENDPOINT, GOOGLE_SERVICE_ACCOUNT, AZURE_STORAGE_ACCOUNT_NAME, ..).
    #[arg(long, env = "TRIBUTARY_BLOBS", value_name = "URL")]
    blobs: Option<String>,
    /// A valid operator token, besides those in the database [default: the first start creates a token and prints it].
    #[arg(long, env = "TRIBUTARY_OPERATOR_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    operator_token: Option<Sealed<String>>,
    /// A proxy is in front of the coordinator and sets X-Forwarded-For and X-Forwarded-Proto: sign-ins are limited by
    /// the addresses that it names, and session cookies are sent over HTTPS only if it says so.
    #[arg(long, env = "TRIBUTARY_BEHIND_PROXY", num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    behind_proxy: Option<bool>,
    /// An OpenID Connect provider with which people sign in to the dashboard, as its tokens name it. Its other settings
    /// must be set, too, but for scopes and claim.
    #[arg(long, env = "TRIBUTARY_OIDC_ISSUER", value_name = "URL")]
    oidc_issuer: Option<String>,
    /// The coordinator's client id at the provider.
    #[arg(long, env = "TRIBUTARY_OIDC_CLIENT_ID", value_name = "ID")]
    oidc_client_id: Option<String>,
    /// The coordinator's client secret at the provider. Prefer the variable or the file.
    #[arg(long, env = "TRIBUTARY_OIDC_CLIENT_SECRET", value_name = "SECRET", hide_env_values = true)]
    oidc_client_secret: Option<Sealed<String>>,
    /// The address at which browsers reach the coordinator. The provider must know URL/operator/v1/oidc/callback.
    #[arg(long, env = "TRIBUTARY_OIDC_PUBLIC_URL", value_name = "URL")]
    oidc_public_url: Option<HttpUrl>,
    /// What the provider is asked for [default: openid profile email].
    #[arg(long, env = "TRIBUTARY_OIDC_SCOPES", value_name = "SCOPES")]
    oidc_scopes: Option<String>,
    /// The claim that lists a person's groups [default: groups].
    #[arg(long, env = "TRIBUTARY_OIDC_GROUPS_CLAIM", value_name = "NAME")]
    oidc_groups_claim: Option<String>,
    /// Roles by group, separated by `;`: GROUP=ROLE or GROUP=ROLE@POPULATION. The first group that a person has
    /// decides; others may not sign in.
    #[arg(long, env = "TRIBUTARY_OIDC_ROLES", value_delimiter = ';', value_name = "GROUP=ROLE")]
    oidc_roles: Option<Vec<RoleOfGroup>>,
    /// Name of this process among several coordinators on one PostgreSQL [default: a random name]. A coordinator that
    /// restarts with the same name has its jobs back at once.
    #[arg(long, env = "TRIBUTARY_NODE", value_name = "NAME")]
    node: Option<Name>,
    /// How long the jobs of a dead coordinator wait until another one drives them (10s, 1min) [default: 10s].
    #[arg(long, env = "TRIBUTARY_LEASE", value_name = "DURATION")]
    lease: Option<HumanDuration>,
    /// Memory for updates that are being received [default: 12MiB]. A large update takes 0.7 MiB, or 1.4 MiB if it has
    /// to be unpacked; a small one takes its size. Further uploads wait.
    #[arg(long, env = "TRIBUTARY_UPLOAD_MEMORY", value_name = "SIZE")]
    upload_memory: Option<UploadMemory>,
    /// Access to /metrics, for Prometheus [default: open]. The metrics name populations, but no clients and no tokens.
    #[arg(long, env = "TRIBUTARY_METRICS", value_enum, value_name = "ACCESS")]
    metrics: Option<MetricsFor>,
    /// What is logged to standard error: error, warn, info, debug, trace, or a list such as info,sqlx=debug [default:
    /// info, and warn for sqlx, object_store and tokio_cron_scheduler].
    #[arg(long, env = "TRIBUTARY_LOG", value_name = "FILTER")]
    log: Option<String>,
    /// The format of log lines [default: text].
    #[arg(long, env = "TRIBUTARY_LOG_FORMAT", value_enum, value_name = "FORMAT")]
    log_format: Option<LogFormat>,
    /// Sends spans of requests and round steps to an OpenTelemetry collector: OTLP over HTTP, as JSON, to
    /// URL/v1/traces.
    /// --log filters them, too, and OTEL_TRACES_SAMPLER and its siblings apply.
    #[arg(long, env = "TRIBUTARY_OTLP_ENDPOINT", value_name = "URL")]
    otlp_endpoint: Option<HttpUrl>,
}

/// The resolved settings.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) listen: SocketAddr,
    pub(super) coordinator: Config,
    pub(super) log: String,
    pub(super) log_format: LogFormat,
    pub(super) otlp_endpoint: Option<HttpUrl>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
enum MetricsFor {
    /// For everybody who reaches the coordinator.
    #[default]
    Open,
    /// For operators, with their token.
    Token,
    /// Nothing is measured.
    Off,
}

/// From 1 MiB to 4 GiB.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "String")]
struct UploadMemory(usize);

impl FromStr for UploadMemory {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bytes = text.parse::<ByteSize>().map_err(|error| error.to_string())?.bytes();
        let allowed = ((1 << 20)..=(4 << 30)).contains(&bytes);
        if allowed { Ok(Self(bytes as usize)) } else { Err("it must be from 1MiB to 4GiB".into()) }
    }
}

impl TryFrom<String> for UploadMemory {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
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

impl ServeArgs {
    /// Reads the file and checks what flags, variables and file say together.
    pub(super) fn resolve(self) -> Result<Settings, CliError> {
        let file = self.config.as_deref().map(settings_file::read).transpose()?.unwrap_or_default();
        let settings = self.settings.over(file);
        let operator_token = settings.operator_token.as_ref();
        let defaults = Config::default();
        Ok(Settings {
            listen: settings.listen.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 7300))),
            coordinator: Config {
                database: settings.database.unwrap_or(defaults.database),
                blobs: settings.blobs,
                operator_token: operator_token.map(|token| secret(token, SecretKind::Operator)).transpose()?,
                behind_proxy: settings.behind_proxy.unwrap_or_default(),
                oidc: Given {
                    issuer: settings.oidc_issuer,
                    client_id: settings.oidc_client_id,
                    client_secret: settings.oidc_client_secret,
                    public_url: settings.oidc_public_url,
                    scopes: settings.oidc_scopes,
                    groups_claim: settings.oidc_groups_claim,
                    roles: settings.oidc_roles,
                }
                .settings()?,
                node: settings.node,
                lease: settings.lease.map_or(defaults.lease, HumanDuration::duration),
                upload_memory: settings.upload_memory.map_or(defaults.upload_memory, |UploadMemory(bytes)| bytes),
                metrics: settings.metrics.unwrap_or_default().into(),
                fold_at_commit: self.fold_at_commit,
            },
            log: settings.log.unwrap_or_else(|| LOG_DEFAULT.into()),
            log_format: settings.log_format.unwrap_or_default(),
            otlp_endpoint: settings.otlp_endpoint,
        })
    }
}

impl ServeSettings {
    /// Flags and variables, and the file for what they leave open.
    fn over(self, file: Self) -> Self {
        Self {
            listen: self.listen.or(file.listen),
            database: self.database.or(file.database),
            blobs: self.blobs.or(file.blobs),
            operator_token: self.operator_token.or(file.operator_token),
            behind_proxy: self.behind_proxy.or(file.behind_proxy),
            oidc_issuer: self.oidc_issuer.or(file.oidc_issuer),
            oidc_client_id: self.oidc_client_id.or(file.oidc_client_id),
            oidc_client_secret: self.oidc_client_secret.or(file.oidc_client_secret),
            oidc_public_url: self.oidc_public_url.or(file.oidc_public_url),
            oidc_scopes: self.oidc_scopes.or(file.oidc_scopes),
            oidc_groups_claim: self.oidc_groups_claim.or(file.oidc_groups_claim),
            oidc_roles: self.oidc_roles.or(file.oidc_roles),
            node: self.node.or(file.node),
            lease: self.lease.or(file.lease),
            upload_memory: self.upload_memory.or(file.upload_memory),
            metrics: self.metrics.or(file.metrics),
            log: self.log.or(file.log),
            log_format: self.log_format.or(file.log_format),
            otlp_endpoint: self.otlp_endpoint.or(file.otlp_endpoint),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        serve: ServeArgs,
    }

    fn settings_of(line: &str) -> Result<Settings, CliError> {
        Line::try_parse_from(std::iter::once("serve").chain(line.split_whitespace())).unwrap().serve.resolve()
    }

    /// The settings of a file with this text, and of a command line beside it.
    fn settings_of_file(text: &str, line: &str) -> Result<Settings, CliError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("serve.toml");
        std::fs::write(&path, text).unwrap();
        settings_of(&format!("--config {} {line}", path.display()))
    }

    #[test]
    fn the_command_line_counts_before_the_file_and_the_file_before_the_defaults() {
        let text = "listen = \"127.0.0.1:1\"\ndatabase = \"a.db\"\nlog_format = \"json\"\n";
        let settings = settings_of_file(text, "--database b.db").unwrap();
        assert_eq!(settings.listen.port(), 1);
        assert_eq!((settings.coordinator.database.expose().as_str(), settings.log.as_str()), ("b.db", LOG_DEFAULT));
        assert_eq!(settings.log_format, LogFormat::Json);
        assert_eq!(settings_of("").unwrap().listen, "127.0.0.1:7300".parse().unwrap());
    }

    #[test]
    fn a_value_is_written_alike_in_a_flag_and_in_the_file() {
        let flags =
            settings_of("--lease 90s --upload-memory 64MiB --otlp-endpoint http://h:4318 --metrics off").unwrap();
        let text = "lease = '90s'\nupload_memory = '64MiB'\notlp_endpoint = 'http://h:4318'\nmetrics = 'off'";
        let file = settings_of_file(text, "").unwrap();
        for settings in [flags, file] {
            assert_eq!(settings.coordinator.lease, Duration::from_secs(90));
            assert_eq!(settings.coordinator.upload_memory, 64 << 20);
            assert_eq!(settings.otlp_endpoint.unwrap().url().port(), Some(4318));
            assert_eq!(settings.coordinator.metrics, MetricsAccess::Off);
        }
    }

    #[test]
    fn an_unknown_key_a_wrong_unit_and_a_wrong_token_are_named_and_the_token_is_not_shown() {
        for (text, named) in [
            ("databas = \"a.db\"\n", "serve.toml: line 1: databas: "),
            ("upload_memory = 64\n", "serve.toml: line 1: upload_memory: "),
            ("upload_memory = \"8GiB\"\n", "serve.toml: line 1: upload_memory: it must be from 1MiB to 4GiB"),
            ("lease = \"10\"\n", "serve.toml: line 1: lease: a duration is "),
            ("metrics = \"all\"\n", "serve.toml: line 1: metrics: unknown variant `all`"),
        ] {
            let error = settings_of_file(text, "").unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
        let text = "operator_token = \"tributary_operator_5ecret\"";
        for error in [
            settings_of("--operator-token tributary_operator_5ecret").unwrap_err(),
            settings_of_file(text, "").unwrap_err(),
        ] {
            assert!(!format!("{error} {error:?}").contains("5ecret"));
        }
    }

    /// Goal: the example can be used as it is, and is complete. Method: keys that are commented out are uncommented.
    #[test]
    fn the_example_file_is_valid_and_holds_every_setting() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/serve.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        settings_of(&format!("--config {}", path.display())).unwrap();
        let is_key = |line: &str| line.split_once(" = ").is_some_and(|(key, _)| !key.contains(' '));
        let uncommented: Vec<&str> =
            text.lines().map(|line| line.strip_prefix("# ").filter(|rest| is_key(rest)).unwrap_or(line)).collect();
        let uncommented = uncommented.join("\n");
        let table: toml::Table = toml::from_str(&uncommented).unwrap();
        toml::from_str::<ServeSettings>(&uncommented).unwrap();
        let command = ServeSettings::augment_args(clap::Command::new("serve"));
        for argument in command.get_arguments() {
            assert!(table.contains_key(argument.get_id().as_str()), "{}", argument.get_id());
        }
    }
}
