//! The coordinator as a whole: opens, serves, stops.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tributary_protocol::id::{Name, Secret, SecretKind};
use tributary_protocol::operator::Engine;
use tributary_protocol::sealed::Sealed;

use crate::api::{Browsers, Routes, WebOrigin};
use crate::app::{App, AppSettings};
use crate::blob::{self, BlobError, Blobs, OpenStoreError, OpenedStore, sweep};
#[cfg(feature = "postgres")]
use crate::cluster::bell;
use crate::cluster::lease::LEASE_DEFAULT;
use crate::db::{Db, DbError};
use crate::devices::{DeviceSettings, Devices};
use crate::evaluator::Evaluator;
use crate::first::{FIRST_POPULATION, FirstClients, let_clients_in, let_operator_in};
use crate::fleet::seats;
use crate::guard::Limits;
use crate::metrics::{Metrics, MetricsAccess};
use crate::net::{ConnectionLimits, Listeners, Tls, TlsError, TlsSource, listen};
use crate::notify::{self, NotifySettings};
use crate::people::{Entrance, OidcSettings, People};
use crate::relay::Upstream;
use crate::relay::run::Relaying;
use crate::runtime::clock::Clock;
use crate::runtime::entropy;
use crate::services::Services;
use crate::{api, backup, load, scheduled, watch};

/// How often recorded times are sorted into their buckets, with or without a reader. Until then they take memory.
const METRICS_TIDY_EVERY: Duration = Duration::from_secs(5);
/// How often the files of the certificate are looked at.
const CERTIFICATE_EVERY_MS: i64 = 10_000;
/// A certificate that ends sooner is a notification, in milliseconds: those that the coordinator renews have more left.
const CERTIFICATE_ENDS_MS: i64 = 7 * 24 * 3600 * 1000;
/// Longest wait for requests in flight when the coordinator stops.
const DRAIN_MAX: Duration = Duration::from_secs(10);

/// The value of [`Config::blobs`] that keeps models and updates in the database.
pub const IN_DATABASE: &str = "database";

/// Default memory for updates that are being received, in bytes.
pub const UPLOAD_MEMORY_DEFAULT: usize = 12 << 20;

#[derive(Clone, Debug)]
pub struct Config {
    /// A file path, or a `sqlite:` or `postgres:` URL, which may contain a password.
    pub database: Sealed<String>,
    /// Where models and updates are: [`IN_DATABASE`], or the URL of an object store, for [`crate::blob::open_store`].
    /// Default: beside a SQLite database ([`crate::blob::open_beside`]), in a PostgreSQL database.
    pub blobs: Option<String>,
    /// An operator token that is accepted in addition to those in the database.
    pub operator_token: Option<Secret>,
    /// A proxy is in front of the coordinator, and its `X-Forwarded-For` and `X-Forwarded-Proto` are to be believed.
    pub behind_proxy: bool,
    /// An identity provider with which people sign in.
    pub oidc: Option<OidcSettings>,
    /// This process's name among the coordinators of its database; random unless given. A coordinator that restarts
    /// under the same name continues its jobs at once. SQLite has one coordinator, so there the name does not matter.
    pub node: Option<Name>,
    /// The address at which clients reach this coordinator among those of its database: they send it the parts of
    /// updates that it adds up. None: any of them takes all parts.
    pub node_url: Option<String>,
    /// Time until another coordinator takes over the jobs of a dead one.
    pub lease: Duration,
    /// Memory for updates that are being received, in bytes. A large one needs 1 to 3 MiB, a small one in proportion to
    /// its length. Further ones wait, their bodies unread.
    pub upload_memory: usize,
    pub metrics: MetricsAccess,
    /// Serves the page `/join`, with which a browser that has an enrolment token becomes a client.
    pub join: bool,
    /// Origins whose pages may call the device API from a browser.
    pub cors_origins: Vec<WebOrigin>,
    pub connections: ConnectionLimits,
    /// The address at which clients reach the coordinator, where that is not the one of the page. The page writes it
    /// into command lines and QR codes.
    pub clients_url: Option<String>,
    /// Limits of single callers.
    pub limits: Limits,
    /// `None`: the listener speaks plain HTTP.
    pub tls: Option<TlsSource>,
    /// How clients prove who they are.
    pub devices: DeviceSettings,
    /// A webhook that receives notifications.
    pub notify: Option<NotifySettings>,
    /// What computes networks for `[evaluation] where = "coordinator"`. Without it such jobs are refused.
    pub evaluator: Option<Arc<dyn Evaluator>>,
    /// The parent, where this coordinator is a relay.
    pub relay: Option<RelaySettings>,
}

/// The parent of a relay.
#[derive(Clone, Debug)]
pub struct RelaySettings {
    pub upstream: Arc<dyn Upstream>,
    /// The population of the relay at its parent. Its own clients are of a population with the same name, which is
    /// created at the first start.
    pub population: Name,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            database: "tributary.db".into(),
            blobs: None,
            operator_token: None,
            behind_proxy: false,
            oidc: None,
            node: None,
            node_url: None,
            lease: LEASE_DEFAULT,
            upload_memory: UPLOAD_MEMORY_DEFAULT,
            metrics: MetricsAccess::default(),
            join: false,
            cors_origins: Vec::new(),
            connections: ConnectionLimits::default(),
            clients_url: None,
            limits: Limits::default(),
            tls: None,
            devices: DeviceSettings::default(),
            notify: None,
            evaluator: None,
            relay: None,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(transparent)]
    Db(#[from] DbError),
    #[error(transparent)]
    OpenStore(#[from] OpenStoreError),
    #[error(transparent)]
    Blob(#[from] BlobError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Only the file is created. A folder that is missing is more often a mistyped one than a new one.
    #[error("{}: there is no such directory; create it, or name another place for the database", path.display())]
    Directory { path: PathBuf },
    #[error("cannot set up requests to the identity provider or the attestation webhook: {0}")]
    Requests(#[from] reqwest::Error),
    #[error("clients can be identified by certificates only where the listener speaks TLS")]
    ClientAuthWithoutTls,
    #[error("cannot set up requests to the notification webhook: {0}")]
    Notify(#[source] reqwest::Error),
    #[error("the configured operator token is not an operator's: it must start with \"tributary_operator_\"")]
    WrongToken,
}

#[derive(Debug)]
pub struct Coordinator {
    app: Arc<App>,
    connections: ConnectionLimits,
    tls: Option<Arc<Tls>>,
    first_operator_token: Option<Secret>,
    first_clients: Option<FirstClients>,
    notifier: Option<notify::Sender>,
    relay: Option<RelaySettings>,
    browsers: Browsers,
}

impl Coordinator {
    /// Opens the database and brings its schema up to date. If no operator token works yet, this creates one: see
    /// [`Self::first_operator_token`].
    pub async fn open(config: &Config) -> Result<Self, ServeError> {
        Self::open_with(config, Clock::System).await
    }

    /// Like [`Self::open`], with the caller's clock.
    pub async fn open_with(config: &Config, clock: Clock) -> Result<Self, ServeError> {
        check_directory(config.database.expose())?;
        Self::open_on(config, store_of(config)?, clock).await
    }

    /// Like [`Self::open`], with the caller's store instead of the configured one. Without one, bodies are in the
    /// database.
    pub async fn open_on(config: &Config, store: Option<OpenedStore>, clock: Clock) -> Result<Self, ServeError> {
        let asks_clients = config.devices.client_auth.asks_for_certificates();
        if asks_clients && config.tls.is_none() {
            return Err(ServeError::ClientAuthWithoutTls);
        }
        let metrics = Metrics::new(config.metrics, clock.now_ms());
        let db = Db::open_watched(config.database.expose(), Arc::clone(&metrics)).await?;
        let blobs = Blobs::open(store, &db).await?;
        if config.operator_token.as_ref().is_some_and(|secret| secret.kind() != SecretKind::Operator) {
            return Err(ServeError::WrongToken);
        }
        let first_operator_token = let_operator_in(&db, &clock, config.operator_token.as_ref()).await?;
        let node = match (db.engine(), &config.node) {
            // SQLite has one coordinator. Under the same name after each start it continues its leases at once, instead
            // of waiting for them to end.
            (Engine::Sqlite, _) => "local".parse().expect("a valid name"),
            (Engine::Postgres, Some(node)) => node.clone(),
            (Engine::Postgres, None) => entropy::node(),
        };
        let tls = config.tls.as_ref().map(|source| Tls::open(source, asks_clients, clock.now_ms())).transpose()?;
        if let Some(tls) = &tls {
            metrics.certificate_used(tls.expires_at_ms());
        }
        let ca = tls.as_ref().and_then(|tls| tls.ca()).map(|ca| ca.fingerprint);
        let first_clients = match (&config.relay, &config.tls) {
            (Some(relay), _) => let_clients_in(&db, &clock, ca, &relay.population).await?,
            (None, Some(TlsSource::Dev { .. })) => {
                let population = FIRST_POPULATION.parse().expect("letters make a name");
                let_clients_in(&db, &clock, ca, &population).await?
            }
            (None, _) => None,
        };
        let entrance = Entrance { is_encrypted: tls.is_some(), is_behind_proxy: config.behind_proxy };
        let mut services = Services::new(db, node, blobs, clock, metrics);
        services.node_url.clone_from(&config.node_url);
        services.evaluator.clone_from(&config.evaluator);
        services.upstream = config.relay.as_ref().map(|relay| Arc::clone(&relay.upstream));
        services.notify = config.notify.as_ref().map(|notify| Arc::new(notify.targets()));
        let notifier = config.notify.clone().map(notify::Sender::new).transpose().map_err(ServeError::Notify)?;
        let people = People::new(entrance, config.oidc.clone())?;
        let devices = Devices::new(&config.devices)?;
        let (lease, upload_memory, limits) = (config.lease, config.upload_memory, config.limits);
        let clients_url = config.clients_url.clone();
        let app = App::new(services, people, devices, AppSettings { lease, upload_memory, limits, ca, clients_url });
        let browsers = Browsers { join: config.join, origins: config.cors_origins.clone() };
        let (connections, relay) = (config.connections, config.relay.clone());
        Ok(Self { app, connections, tls, first_operator_token, first_clients, notifier, relay, browsers })
    }

    /// The operator token that was created because none worked. It cannot be read later, because only its hash is
    /// stored.
    pub fn first_operator_token(&self) -> Option<&Secret> {
        self.first_operator_token.as_ref()
    }

    /// The population that was created because there was none; only with [`TlsSource::Dev`].
    pub fn first_clients(&self) -> Option<&FirstClients> {
        self.first_clients.as_ref()
    }

    /// The certificate and its CA; `None` without TLS.
    pub fn tls(&self) -> Option<&Tls> {
        self.tls.as_deref()
    }

    /// This process's name among the coordinators.
    pub fn node(&self) -> &Name {
        &self.app.node
    }

    /// The shared state, for tests that call [`crate::driver::Driver::run_once`] themselves.
    pub fn app(&self) -> &Arc<App> {
        &self.app
    }

    /// Every route, for tests that call it without a socket.
    pub fn router(&self) -> axum::Router {
        api::router(Arc::clone(&self.app), Routes::All, &self.browsers)
    }

    /// Serves until `shutdown` is cancelled. Then it accepts no more requests, answers those in flight (held check-ins
    /// at once), and closes the database. Open rounds stay open, and the next start continues them.
    ///
    /// # Errors
    /// None at present: a listener that fails is tried again.
    pub async fn serve(self, listeners: impl Into<Listeners>, shutdown: CancellationToken) -> Result<(), ServeError> {
        let Listeners { main, operators } = listeners.into();
        let app = self.app;
        let mut tasks = background(&app, self.notifier);
        if let Some(RelaySettings { upstream, population }) = self.relay {
            let (services, fleet, updates) = (app.services.clone(), Arc::clone(&app.fleet), Arc::clone(&app.updates));
            tasks.spawn(Relaying { services, fleet, updates, upstream, population }.run());
        }
        if let Some(tls) = &self.tls {
            tasks.spawn(keep_certificate(Arc::clone(&app), Arc::clone(tls)));
        }
        let stopping = app.stopping.clone();
        let stop = async move {
            tokio::select! {
                () = shutdown.cancelled() => stopping.cancel(),
                () = stopping.cancelled() => {}
            }
        };
        tasks.spawn(stop);
        let connections = listen::connections(self.connections, &app.metrics);
        let serve = |listener, routes| {
            let router = api::router(Arc::clone(&app), routes, &self.browsers);
            listen::serve(listener, router, &connections, self.tls.clone(), app.stopping.clone())
        };
        let serving = async {
            match operators {
                None => serve(main, Routes::All).await,
                Some(operators) => {
                    let (devices, operators) = (serve(main, Routes::Devices), serve(operators, Routes::Operators));
                    tokio::join!(devices, operators);
                }
            }
        };
        let drained = async {
            app.stopping.cancelled().await;
            tokio::time::sleep(DRAIN_MAX).await;
        };
        tokio::select! {
            () = serving => {}
            () = drained => {
                tracing::warn!("some requests did not end in time and are dropped");
            }
        }
        app.stopping.cancel();
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a background task failed");
            }
        }
        app.evaluations.ended().await;
        if let Err(error) = app.leases.leave(&app).await {
            tracing::warn!(%error, "the leases could not be given up; they stay until they expire");
        }
        if let Err(error) = tell_audit_head(&app).await {
            tracing::warn!(%error, "the newest hash of the audit log could not be read");
        }
        app.db.close().await;
        Ok(())
    }
}

/// Everything that runs beside the requests until the coordinator stops.
fn background(app: &Arc<App>, notifier: Option<notify::Sender>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let keeper = Arc::clone(app);
    tasks.spawn(async move { keeper.leases.keep(&keeper).await });
    let driver = app.driver();
    tasks.spawn(async move { driver.run().await });
    let sweeper = Arc::clone(app);
    tasks.spawn(async move {
        let Services { blobs, db, clock, stopping, .. } = &sweeper.services;
        sweep::run(blobs, db, clock, stopping).await;
    });
    tasks.spawn(tidy_metrics(Arc::clone(app)));
    let loaded = Arc::clone(app);
    tasks.spawn(async move { load::keep(&loaded).await });
    if let Some(notifier) = notifier {
        let (app, watched) = (Arc::clone(app), Arc::clone(app));
        tasks.spawn(async move { notifier.run(&app).await });
        // A manual clock has no looks, so tests call `watch::look` themselves.
        if matches!(watched.clock, Clock::System) {
            tasks.spawn(async move { watch::run(&watched).await });
        }
    }
    if app.fleet.seats.is_some() {
        let app = Arc::clone(app);
        tasks.spawn(async move {
            if let Some(seats) = &app.fleet.seats {
                seats::run(&app, seats).await;
            }
        });
    }
    #[cfg(feature = "postgres")]
    if let Db::Postgres { connections, pool, .. } = &app.db {
        let (app, database) = (Arc::clone(app), (connections.clone(), pool.clone()));
        tasks.spawn(async move { bell::run(&app, database, |clients| app.fleet.lobby.call(clients)).await });
    }
    // A manual clock has no ticks, so tests call `scheduled::run_due` themselves.
    if matches!(app.clock, Clock::System) {
        let app = Arc::clone(app);
        tasks.spawn(async move { scheduled::run(&app).await });
    }
    tasks
}

/// Calls [`crate::metrics::Metrics::tidy`] regularly until the coordinator stops.
async fn tidy_metrics(app: Arc<App>) {
    loop {
        tokio::select! {
            () = app.stopping.cancelled() => return,
            () = tokio::time::sleep(METRICS_TIDY_EVERY) => app.metrics.tidy(),
        }
    }
}

/// Uses a new certificate when its files change or when it must be renewed.
async fn keep_certificate(app: Arc<App>, tls: Arc<Tls>) {
    let mut told_of = None;
    loop {
        let now_ms = app.clock.now_ms();
        let looked = tokio::select! {
            () = app.stopping.cancelled() => return,
            looked = tls.look_again(now_ms) => looked,
        };
        match looked {
            Ok(true) => {
                app.metrics.certificate_used(tls.expires_at_ms());
                tracing::info!("a new TLS certificate is in use");
            }
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "the TLS certificate stays the old one"),
        }
        let ends_at_ms = tls.expires_at_ms();
        if ends_at_ms - now_ms < CERTIFICATE_ENDS_MS && told_of != Some(ends_at_ms) {
            match watch::certificate_ends(&app, ends_at_ms, now_ms).await {
                Ok(()) => told_of = Some(ends_at_ms),
                Err(error) => tracing::warn!(%error, "the end of the TLS certificate could not be notified"),
            }
        }
        tokio::select! {
            () = app.stopping.cancelled() => return,
            () = app.clock.sleep_until(now_ms + CERTIFICATE_EVERY_MS) => {}
        }
    }
}

/// Logs the newest hash of the audit log. Kept elsewhere, it shows later whether entries were removed or replaced.
async fn tell_audit_head(app: &App) -> Result<(), DbError> {
    let (number, hash) = app.db.read().await?.audit_head().await?;
    tracing::info!(number, %hash, "the audit log ends with this entry");
    Ok(())
}

/// The store of models and updates; none if they are in the database.
fn store_of(config: &Config) -> Result<Option<OpenedStore>, OpenStoreError> {
    let file = backup::file_of(config.database.expose()).ok();
    match (config.blobs.as_deref(), file) {
        (Some(IN_DATABASE), _) | (None, None) => Ok(None),
        (None, Some(file)) => blob::open_beside(&file).map(Some),
        (Some(url), file) => {
            let store = blob::open_store(url, blob::environment())?;
            // Bodies from before the store was named stay readable.
            let beside = file.filter(|file| blob::folder_beside(file).is_dir());
            let beside = beside.map(|file| blob::open_beside(&file)).transpose()?.map(Box::new);
            Ok(Some(OpenedStore { beside, ..store }))
        }
    }
}

fn check_directory(database: &str) -> Result<(), ServeError> {
    let path = database.strip_prefix("sqlite://").or_else(|| database.strip_prefix("sqlite:")).unwrap_or(database);
    if path.contains("://") {
        return Ok(());
    }
    let Some(directory) = std::path::Path::new(path).parent().filter(|path| !path.as_os_str().is_empty()) else {
        return Ok(());
    };
    if directory.is_dir() { Ok(()) } else { Err(ServeError::Directory { path: directory.to_owned() }) }
}
