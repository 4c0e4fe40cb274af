//! The settings of `tributary serve`: one struct for flags, variables and the file.

#[cfg(test)]
mod tests;
mod values;

use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use rustls::pki_types::ServerName;
use serde::Deserialize;
use tributary_protocol::id::{Name, Secret, SecretKind};
use tributary_protocol::sealed::Sealed;
use tributary_server::Config;
use tributary_server::api::WebOrigin;
use tributary_server::guard::Limits;
use tributary_server::net::{AcmeSettings, ConnectionLimits, TlsSource, directory_beside};
use tributary_server::notify::{ABANDONED_DEFAULT, NotifySettings};

use super::devices::{self, ClientAuthBy};
use super::oidc::{Given, RoleOfGroup};
use crate::error::{CliError, Failure};
use crate::evaluator::LayerEvaluator;
use crate::options::{TokenError, secret};
use crate::settings_file;
use crate::units::{HttpUrl, HumanDuration};
use values::{MetricsFor, NotifyPopulation, NotifyUrl, UploadMemory};

pub(super) use values::LogFormat;

/// These libraries log every connection and every tick at `info`.
const LOG_DEFAULT: &str = "info,sqlx=warn,tokio_cron_scheduler=warn,object_store=warn";

const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// A flag counts before a variable, a variable before the file, and the file before the default.
#[derive(Clone, Debug, Args)]
pub struct ServeArgs {
    /// A TOML file with these settings, under the names of the flags with `_` for `-` (examples/serve.toml).
    #[arg(long, env = "TRIBUTARY_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    settings: ServeSettings,
}

#[derive(Clone, Debug, Default, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ServeSettings {
    /// Where to listen [default: 127.0.0.1:7300]. For any but the loopback address, choose --tls-dev, --tls-cert,
    /// --acme-domain or --insecure-plaintext.
    #[arg(long, env = "TRIBUTARY_LISTEN", value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Where to listen for operators: the dashboard, the operator API and the metrics. --listen then has only the
    /// device API, the page /join and the health probes. Both have the same TLS [default: everything is at --listen].
    #[arg(long, env = "TRIBUTARY_LISTEN_OPERATORS", value_name = "ADDRESS")]
    listen_operators: Option<SocketAddr>,
    /// The address at which clients reach this coordinator, for the command lines and QR codes of the dashboard
    /// [default: with --listen-operators the address of --listen, else the one of the dashboard].
    #[arg(long, env = "TRIBUTARY_CLIENTS_URL", value_name = "URL")]
    clients_url: Option<HttpUrl>,
    /// Serves with TLS: a PEM file with the certificate and those between it and its CA. It is read again when it
    /// changes.
    #[arg(long, env = "TRIBUTARY_TLS_CERT", value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key, a PEM file.
    #[arg(long, env = "TRIBUTARY_TLS_KEY", value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// The private CA of --tls-cert, a PEM file. Enrolment tokens then carry its fingerprint, so that clients need no
    /// CA file. Leave it out for certificates that the clients' systems trust.
    #[arg(long, env = "TRIBUTARY_TLS_CA", value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Serves with TLS and makes what it needs: a private CA at the first start, and certificates from it. Enrolment
    /// tokens carry the CA's fingerprint. Where there is no population, it also creates one ("default") and an
    /// enrolment token for it.
    #[arg(long, env = "TRIBUTARY_TLS_DEV", value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    tls_dev: Option<bool>,
    /// Serves with TLS, with a certificate of Let's Encrypt for this host name, whose terms of service are accepted so;
    /// may be repeated. Port 443 of the name must lead to this listener.
    #[arg(long, env = "TRIBUTARY_ACME_DOMAIN", value_name = "NAME", value_delimiter = ',')]
    acme_domain: Vec<String>,
    /// A mail address that the CA of --acme-domain may write to.
    #[arg(long, env = "TRIBUTARY_ACME_CONTACT", value_name = "MAIL")]
    acme_contact: Option<String>,
    /// The directory of another CA that speaks ACME [default: the one of Let's Encrypt].
    #[arg(long, env = "TRIBUTARY_ACME_SERVER", value_name = "URL")]
    acme_server: Option<HttpUrl>,
    /// The CA of the certificate of --acme-server itself, a PEM file [default: those that the system trusts].
    #[arg(long, env = "TRIBUTARY_ACME_SERVER_CA", value_name = "FILE")]
    acme_server_ca: Option<PathBuf>,
    /// Where --tls-dev stores its CA, and --acme-domain its account and certificate [default: tributary-tls beside the
    /// SQLite database, with PostgreSQL in the working directory]. Several coordinators of a database need copies of
    /// the same folder.
    #[arg(long, env = "TRIBUTARY_TLS_DIR", value_name = "FOLDER")]
    tls_dir: Option<PathBuf>,
    /// A name or address under which clients reach this coordinator, for the certificate of --tls-dev; may be repeated
    /// [default: the addresses of this machine and its host name]. The loopback addresses are always in it.
    #[arg(long, env = "TRIBUTARY_TLS_NAME", value_name = "NAME", value_delimiter = ',')]
    tls_name: Vec<String>,
    /// How clients authenticate to this listener [default: bearer]. With `certificate` and `either`, the TLS handshake
    /// asks for client certificates. Clients get them at enrolment from a CA of their population, which the coordinator
    /// keeps in its database, and renew them by themselves. Move from bearer to certificate by way of `either`.
    #[arg(long, env = "TRIBUTARY_CLIENT_AUTH", value_enum, value_name = "BY")]
    client_auth: Option<ClientAuthBy>,
    /// How long a client's certificate is valid, from 1h to 3650d [default: 7d]. Clients renew it when two thirds of
    /// the time are over. One whose certificate expired enrols again, with its token, and keeps its id.
    #[arg(long, env = "TRIBUTARY_CLIENT_CERTIFICATE_LIFE", value_name = "DURATION")]
    client_certificate_life: Option<HumanDuration>,
    /// A webhook that decides on each enrolment: it receives what the device's platform says about it, and answers
    /// {"allowed": true} or {"allowed": false, "reason": ".."}. Any other answer, or none, refuses the enrolment.
    #[arg(long, env = "TRIBUTARY_ATTESTATION_URL", value_name = "URL")]
    attestation_url: Option<HttpUrl>,
    /// How long the webhook may take [default: 10s].
    #[arg(long, env = "TRIBUTARY_ATTESTATION_TIMEOUT", value_name = "DURATION")]
    attestation_timeout: Option<HumanDuration>,
    /// Speaks plain HTTP on an address that other machines can reach. Only behind a proxy with TLS: everyone on the way
    /// can read models, updates and tokens.
    #[arg(long, env = "TRIBUTARY_INSECURE_PLAINTEXT", value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    insecure_plaintext: Option<bool>,
    /// The database: a file, sqlite:FILE, or postgres://USER@HOST/NAME [default: tributary.db].
    #[arg(long, env = "TRIBUTARY_DATABASE", value_name = "URL", hide_env_values = true)]
    database: Option<Sealed<String>>,
    /// Where models and updates are stored: `database`, or an object store: file:///DIRECTORY, s3://BUCKET/PREFIX,
    /// gs://BUCKET/PREFIX or az://CONTAINER/PREFIX (releases have these three; otherwise build with --features full)
    /// [default: with SQLite, those above 1 MiB in files next to it, in DATABASE.bodies; with PostgreSQL, the
    /// database]. Credentials and endpoints come from the usual
    /// variables (AWS_ACCESS_KEY_ID, AWS_ENDPOINT, GOOGLE_SERVICE_ACCOUNT, AZURE_STORAGE_ACCOUNT_NAME, ..).
    #[arg(long, env = "TRIBUTARY_BLOBS", value_name = "PLACE")]
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
    /// The address at which clients reach this one of several coordinators, for the parts of updates in jobs with
    /// shards [default: clients send all parts to the coordinator that they know].
    #[arg(long, env = "TRIBUTARY_NODE_URL", value_name = "URL")]
    node_url: Option<HttpUrl>,
    /// How long the jobs of a dead coordinator wait until another one drives them (10s, 1min) [default: 10s].
    #[arg(long, env = "TRIBUTARY_LEASE", value_name = "DURATION")]
    lease: Option<HumanDuration>,
    /// Memory for updates that are being received [default: 12MiB]. A large update takes 0.7 MiB, or 1.4 MiB if it has
    /// to be unpacked; a small one takes its size. Further uploads wait.
    #[arg(long, env = "TRIBUTARY_UPLOAD_MEMORY", value_name = "SIZE")]
    upload_memory: Option<UploadMemory>,
    /// Connections in all [default: the limit of open files, less an eighth of it (256 to 4096) for the database]. The
    /// limit of open files is raised as far as the system allows.
    #[arg(long, env = "TRIBUTARY_CONNECTIONS_MAX", value_name = "COUNT")]
    connections_max: Option<NonZeroUsize>,
    /// Connections from one address, or from one IPv6 network of 64 bits [default: half of --connections-max]. The
    /// loopback address is exempt. Behind a proxy on another machine all connections have the proxy's address: set it
    /// to --connections-max.
    #[arg(long, env = "TRIBUTARY_CONNECTIONS_PER_ADDRESS", value_name = "COUNT")]
    connections_per_address: Option<NonZeroUsize>,
    /// Requests of one client in a minute; it may save up as many [default: 6000].
    #[arg(long, env = "TRIBUTARY_CLIENT_REQUESTS_PER_MINUTE", value_name = "COUNT")]
    client_requests_per_minute: Option<NonZeroU32>,
    /// Check-ins that are held from one address, or from one IPv6 network of 64 bits [default: 20000]. The loopback
    /// address is exempt.
    #[arg(long, env = "TRIBUTARY_HELD_PER_ADDRESS", value_name = "COUNT")]
    held_per_address: Option<NonZeroUsize>,
    /// Most check-ins of idle clients of a population in a second [default: 100]. Larger fleets come back later.
    #[arg(long, env = "TRIBUTARY_CHECKINS_PER_SECOND", value_name = "COUNT")]
    checkins_per_second: Option<NonZeroU32>,
    /// Bytes that members of groups of one population may send each other through the coordinator in a second
    /// [default: 12500000, a line of 100 Mbit/s].
    #[arg(long, env = "TRIBUTARY_LINK_BYTES_PER_SECOND", value_name = "COUNT")]
    link_bytes_per_second: Option<NonZeroU64>,
    /// Event streams and polls of one operator, which open dashboards are, at the same time [default: 32].
    #[arg(long, env = "TRIBUTARY_FEEDS_PER_OPERATOR", value_name = "COUNT")]
    feeds_per_operator: Option<NonZeroUsize>,
    /// Access to /metrics, for Prometheus [default: open]. The metrics name populations, but no clients and no tokens.
    #[arg(long, env = "TRIBUTARY_METRICS", value_enum, value_name = "ACCESS")]
    metrics: Option<MetricsFor>,
    /// Serves the page /join: who opens it with an enrolment token (/join#token=..) draws digits, and the browser
    /// trains with them. Drawings stay on the device.
    #[arg(long, env = "TRIBUTARY_JOIN", value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    join: Option<bool>,
    /// An origin whose pages may use the device API from a browser, such as https://app.example.org; may be repeated.
    /// In the variable, `,` stands between two. The operator API allows none [default: only pages of the coordinator's
    /// own origin].
    #[arg(long, env = "TRIBUTARY_CORS_ORIGIN", value_name = "ORIGIN", value_delimiter = ',')]
    cors_origin: Vec<WebOrigin>,
    /// A webhook that is notified by POST of each change of a job's health, and of what else an operator should know
    /// (docs/operations.md). Put slack+ or teams+ before a URL of Slack or Teams. Needs --notify-secret.
    #[arg(long, env = "TRIBUTARY_NOTIFY_URL", value_name = "URL")]
    notify_url: Option<NotifyUrl>,
    /// A webhook that is notified of what concerns one population: NAME=URL; may be repeated. In the variable, `;`
    /// stands between two.
    #[arg(long, env = "TRIBUTARY_NOTIFY_POPULATION", value_name = "NAME=URL", value_delimiter = ';')]
    notify_population: Vec<NotifyPopulation>,
    /// Signs notifications, in the header Tributary-Signature (docs/operations.md). Prefer the variable or the file.
    #[arg(long, env = "TRIBUTARY_NOTIFY_SECRET", value_name = "SECRET", hide_env_values = true)]
    notify_secret: Option<Sealed<String>>,
    /// How many rounds of a job are abandoned in a row before a notification is sent [default: 3].
    #[arg(long, env = "TRIBUTARY_NOTIFY_ABANDONED", value_name = "COUNT")]
    notify_abandoned: Option<NonZeroU32>,
    /// What is logged to standard error: error, warn, info, debug, trace, or a list such as info,sqlx=debug [default:
    /// info, and warn for sqlx, object_store and tokio_cron_scheduler].
    #[arg(long, env = "TRIBUTARY_LOG", value_name = "FILTER")]
    log: Option<String>,
    /// The format of log lines [default: text].
    #[arg(long, env = "TRIBUTARY_LOG_FORMAT", value_enum, value_name = "FORMAT")]
    log_format: Option<LogFormat>,
    /// Sends spans of requests and round steps to an OpenTelemetry collector: OTLP over HTTP, as JSON, to
    /// URL/v1/traces. Releases have it; otherwise build with --features full. --log filters them, too, and
    /// OTEL_TRACES_SAMPLER and its siblings apply.
    #[arg(long, env = "TRIBUTARY_OTLP_ENDPOINT", value_name = "URL")]
    otlp_endpoint: Option<HttpUrl>,
}

/// The resolved settings.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) listen: SocketAddr,
    pub(super) listen_operators: Option<SocketAddr>,
    pub(super) coordinator: Config,
    pub(super) log: String,
    pub(super) log_format: LogFormat,
    pub(super) otlp_endpoint: Option<HttpUrl>,
}

impl ServeArgs {
    /// Reads the file and checks what flags, variables and file say together.
    pub(super) fn resolve(self) -> Result<Settings, CliError> {
        let file = self.config.as_deref().map(settings_file::read).transpose()?.unwrap_or_default();
        let settings = self.settings.over(file);
        let defaults = Config::default();
        let listen = settings.listen.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 7300)));
        let database = settings.database.clone().unwrap_or(defaults.database);
        let tls = settings.tls(database.expose())?;
        // Tokens and models in clear text on a network are an operator's choice, never a default.
        let is_plaintext = tls.is_none() && !settings.insecure_plaintext.unwrap_or_default();
        let exposed = [Some(listen), settings.listen_operators].into_iter().flatten();
        if let Some(exposed) = exposed.filter(|address| !address.ip().is_loopback()).find(|_| is_plaintext) {
            return Err(PlaintextError(exposed).into());
        }
        if settings.listen_operators.is_some() && settings.clients_url.is_none() && listen.ip().is_unspecified() {
            let missing = "listen_operators needs clients_url where listen is the address of all interfaces: the \
                           dashboard tells clients where the coordinator is";
            return Err(CliError::BadSetting(missing.into()));
        }
        let notify = settings.notify()?;
        let devices = devices::Given {
            client_auth: settings.client_auth,
            certificate_life: settings.client_certificate_life,
            attestation_url: settings.attestation_url,
            attestation_timeout: settings.attestation_timeout,
            has_tls: tls.is_some(),
        };
        Ok(Settings {
            listen,
            listen_operators: settings.listen_operators,
            coordinator: Config {
                devices: devices.settings()?,
                database,
                tls,
                blobs: settings.blobs,
                operator_token: operator(settings.operator_token.as_ref())?,
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
                node_url: settings.node_url.map(|url| url.url().as_str().trim_end_matches('/').to_owned()),
                lease: settings.lease.map_or(defaults.lease, HumanDuration::duration),
                upload_memory: settings.upload_memory.map_or(defaults.upload_memory, |UploadMemory(bytes)| bytes),
                metrics: settings.metrics.unwrap_or_default().into(),
                join: settings.join.unwrap_or_default(),
                cors_origins: settings.cors_origin,
                connections: ConnectionLimits {
                    max: settings.connections_max.map(NonZeroUsize::get),
                    per_address: settings.connections_per_address.map(NonZeroUsize::get),
                },
                clients_url: settings.clients_url.map(|url| url.url().as_str().trim_end_matches('/').to_owned()),
                notify,
                evaluator: Some(Arc::new(LayerEvaluator)),
                relay: None,
                limits: Limits {
                    requests_per_minute: settings
                        .client_requests_per_minute
                        .map_or(defaults.limits.requests_per_minute, NonZeroU32::get),
                    held_per_address: settings
                        .held_per_address
                        .map_or(defaults.limits.held_per_address, NonZeroUsize::get),
                    feeds_per_operator: settings
                        .feeds_per_operator
                        .map_or(defaults.limits.feeds_per_operator, NonZeroUsize::get),
                    checkins_per_second: settings
                        .checkins_per_second
                        .map_or(defaults.limits.checkins_per_second, NonZeroU32::get),
                    link_bytes_per_second: settings
                        .link_bytes_per_second
                        .map_or(defaults.limits.link_bytes_per_second, NonZeroU64::get),
                },
            },
            log: settings.log.unwrap_or_else(|| LOG_DEFAULT.into()),
            log_format: settings.log_format.unwrap_or_default(),
            otlp_endpoint: settings.otlp_endpoint,
        })
    }
}

fn operator(token: Option<&Sealed<String>>) -> Result<Option<Secret>, TokenError> {
    token.map(|token| secret(token, SecretKind::Operator)).transpose()
}

/// Plain HTTP where other machines can reach it.
#[derive(Debug, thiserror::Error)]
#[error("{0} can be reached from other machines, and plain HTTP shows them models, updates and tokens")]
pub(super) struct PlaintextError(SocketAddr);

impl Failure for PlaintextError {
    fn hint(&self) -> Option<String> {
        let hint = "--tls-dev serves with a CA of its own, --tls-cert and --tls-key with your certificate, --acme-domain \
                    with one of Let's Encrypt, and --insecure-plaintext is for a coordinator behind a proxy with TLS";
        Some(hint.into())
    }
}

impl ServeSettings {
    /// `None`: without TLS.
    fn tls(&self, database: &str) -> Result<Option<TlsSource>, CliError> {
        let wrong = |message: &str| Err(CliError::BadSetting(message.into()));
        let is_acme = !self.acme_domain.is_empty();
        let (is_dev, has_certificate) = (self.tls_dev.unwrap_or_default(), self.tls_cert.is_some());
        let has_acme = self.acme_contact.is_some() || self.acme_server.is_some() || self.acme_server_ca.is_some();
        let names = || self.tls_name.iter().chain(&self.acme_domain);
        if self.tls_key.is_some() != has_certificate {
            return wrong("tls_cert and tls_key belong together");
        } else if u8::from(has_certificate) + u8::from(is_dev) + u8::from(is_acme) > 1 {
            return wrong("tls_cert, tls_dev and acme_domain are three ways to a certificate; choose one");
        } else if self.tls_ca.is_some() && !has_certificate {
            return wrong("tls_ca is the CA of tls_cert, which is missing");
        } else if !self.tls_name.is_empty() && !is_dev {
            return wrong("tls_name is for tls_dev");
        } else if has_acme && !is_acme {
            return wrong("acme_contact, acme_server and acme_server_ca are for acme_domain");
        } else if self.tls_dir.is_some() && !is_dev && !is_acme {
            return wrong("tls_dir is for tls_dev and acme_domain");
        } else if let Some(name) = names().find(|name| ServerName::try_from(name.as_str()).is_err()) {
            return Err(CliError::BadSetting(format!("{name:?} is neither a host name nor an address")));
        }
        let directory = || self.tls_dir.clone().unwrap_or_else(|| directory_beside(database));
        Ok(match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => {
                let (certificate, key, ca) = (certificate.clone(), key.clone(), self.tls_ca.clone());
                Some(TlsSource::Files { certificate, key, ca })
            }
            _ if is_dev => Some(TlsSource::Dev { directory: directory(), names: self.tls_name.clone() }),
            _ if is_acme => Some(TlsSource::Acme(AcmeSettings {
                directory: directory(),
                domains: self.acme_domain.clone(),
                contact: self.acme_contact.clone(),
                server: self.acme_server.as_ref().map_or(LETS_ENCRYPT.into(), |server| server.url().to_string()),
                server_ca: self.acme_server_ca.clone(),
            })),
            _ => None,
        })
    }

    /// `None`: without a webhook.
    fn notify(&self) -> Result<Option<NotifySettings>, CliError> {
        let has_webhook = self.notify_url.is_some() || !self.notify_population.is_empty();
        match self.notify_secret.as_ref().filter(|secret| !secret.expose().is_empty()) {
            Some(secret) if has_webhook => Ok(Some(NotifySettings {
                everything: self.notify_url.clone().map(|NotifyUrl(webhook)| webhook),
                populations: self.notify_population.iter().map(NotifyPopulation::entry).collect(),
                secret: secret.clone(),
                abandoned: self.notify_abandoned.map_or(ABANDONED_DEFAULT, NonZeroU32::get),
            })),
            None if !has_webhook && self.notify_abandoned.is_none() => Ok(None),
            _ => Err(CliError::BadSetting("notify_url or notify_population, and notify_secret belong together".into())),
        }
    }

    /// Flags and variables, and the file for what they leave open.
    fn over(self, file: Self) -> Self {
        Self {
            listen: self.listen.or(file.listen),
            listen_operators: self.listen_operators.or(file.listen_operators),
            clients_url: self.clients_url.or(file.clients_url),
            tls_cert: self.tls_cert.or(file.tls_cert),
            tls_key: self.tls_key.or(file.tls_key),
            tls_ca: self.tls_ca.or(file.tls_ca),
            tls_dev: self.tls_dev.or(file.tls_dev),
            acme_domain: if self.acme_domain.is_empty() { file.acme_domain } else { self.acme_domain },
            acme_contact: self.acme_contact.or(file.acme_contact),
            acme_server: self.acme_server.or(file.acme_server),
            acme_server_ca: self.acme_server_ca.or(file.acme_server_ca),
            tls_dir: self.tls_dir.or(file.tls_dir),
            tls_name: if self.tls_name.is_empty() { file.tls_name } else { self.tls_name },
            client_auth: self.client_auth.or(file.client_auth),
            client_certificate_life: self.client_certificate_life.or(file.client_certificate_life),
            attestation_url: self.attestation_url.or(file.attestation_url),
            attestation_timeout: self.attestation_timeout.or(file.attestation_timeout),
            insecure_plaintext: self.insecure_plaintext.or(file.insecure_plaintext),
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
            node_url: self.node_url.or(file.node_url),
            lease: self.lease.or(file.lease),
            upload_memory: self.upload_memory.or(file.upload_memory),
            connections_max: self.connections_max.or(file.connections_max),
            connections_per_address: self.connections_per_address.or(file.connections_per_address),
            client_requests_per_minute: self.client_requests_per_minute.or(file.client_requests_per_minute),
            held_per_address: self.held_per_address.or(file.held_per_address),
            feeds_per_operator: self.feeds_per_operator.or(file.feeds_per_operator),
            checkins_per_second: self.checkins_per_second.or(file.checkins_per_second),
            link_bytes_per_second: self.link_bytes_per_second.or(file.link_bytes_per_second),
            metrics: self.metrics.or(file.metrics),
            join: self.join.or(file.join),
            cors_origin: if self.cors_origin.is_empty() { file.cors_origin } else { self.cors_origin },
            notify_url: self.notify_url.or(file.notify_url),
            notify_population: if self.notify_population.is_empty() {
                file.notify_population
            } else {
                self.notify_population
            },
            notify_secret: self.notify_secret.or(file.notify_secret),
            notify_abandoned: self.notify_abandoned.or(file.notify_abandoned),
            log: self.log.or(file.log),
            log_format: self.log_format.or(file.log_format),
            otlp_endpoint: self.otlp_endpoint.or(file.otlp_endpoint),
        }
    }
}
