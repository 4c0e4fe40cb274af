//! The coordinator as a whole: open it, serve it, stop it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tributary_protocol::id::{Name, Secret, SecretKind, TokenId};
use tributary_protocol::operator::Token;
use tributary_protocol::sealed::Sealed;

use crate::app::App;
use crate::blob::{self, BlobError, Blobs, OpenStoreError, OpenedStore, sweep};
use crate::cluster::bell;
use crate::cluster::lease::LEASE_DEFAULT;
use crate::db::{Db, DbError};
use crate::fleet::seats;
use crate::metrics::{Metrics, MetricsAccess};
use crate::runtime::clock::Clock;
use crate::runtime::{entropy, listen};
use crate::services::Services;
use crate::{api, scheduled};

/// How often recorded times are sorted into their buckets, whether or not anybody reads them.
const METRICS_TIDY_EVERY: Duration = Duration::from_secs(5);
/// Longest wait for requests that are under way when the coordinator stops.
const DRAIN_MAX: Duration = Duration::from_secs(10);

/// Memory for updates that are being received unless the settings say otherwise, in bytes.
pub const UPLOAD_MEMORY_DEFAULT: usize = 12 << 20;

/// Settings of a coordinator.
#[derive(Clone, Debug)]
pub struct Config {
    /// A file path, or a `sqlite:` or `postgres:` URL, which may carry a password.
    pub database: Sealed<String>,
    /// The object store for models and updates, as [`crate::blob::open_store`] takes it; without one they are in the database.
    pub blobs: Option<String>,
    /// An operator token that is let in besides those in the database.
    pub operator_token: Option<Secret>,
    /// This process's name among the coordinators of its database; a random one unless given. One that comes back under
    /// its name takes its jobs back at once. On SQLite there is one coordinator, and the name does not matter.
    pub node: Option<Name>,
    /// How long a dead coordinator's jobs wait before another takes them over.
    pub lease: Duration,
    /// Memory for updates that are being received, in bytes. A large one takes 1 to 3 MiB, a small one what it
    /// needs. Further ones wait, their bodies unread.
    pub upload_memory: usize,
    /// Who may read `/metrics`.
    pub metrics: MetricsAccess,
    /// Whether updates are added when their round is committed instead of while they arrive: for a benchmark of what
    /// adding costs.
    pub fold_at_commit: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            database: "tributary.db".into(),
            blobs: None,
            operator_token: None,
            node: None,
            lease: LEASE_DEFAULT,
            upload_memory: UPLOAD_MEMORY_DEFAULT,
            metrics: MetricsAccess::default(),
            fold_at_commit: false,
        }
    }
}

/// Why a coordinator cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The database.
    #[error(transparent)]
    Db(#[from] DbError),
    /// The object store cannot be opened.
    #[error(transparent)]
    OpenStore(#[from] OpenStoreError),
    /// Bodies that the database refers to cannot be read.
    #[error(transparent)]
    Blob(#[from] BlobError),
    /// The directory of the database file cannot be made.
    #[error("{}: cannot make the directory: {source}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The configured operator token is of another kind.
    #[error("the configured operator token is not an operator's: it must start with \"tributary_operator_\"")]
    WrongToken,
}

/// A coordinator on an open database.
#[derive(Debug)]
pub struct Coordinator {
    app: Arc<App>,
    first_operator_token: Option<Secret>,
}

impl Coordinator {
    /// Opens the database and brings its schema up to date. When nobody could operate the coordinator yet, an operator
    /// token is made: see [`Self::first_operator_token`].
    ///
    /// # Errors
    /// [`ServeError`] when the database cannot be opened.
    pub async fn open(config: &Config) -> Result<Self, ServeError> {
        Self::open_with(config, Clock::System).await
    }

    /// The same, with a clock of the caller's.
    pub async fn open_with(config: &Config, clock: Clock) -> Result<Self, ServeError> {
        let store = config.blobs.as_ref().map(|url| blob::open_store(url, blob::environment())).transpose()?;
        Self::open_on(config, store, clock).await
    }

    /// The same, with an object store of the caller's in place of the configured one.
    pub async fn open_on(config: &Config, store: Option<OpenedStore>, clock: Clock) -> Result<Self, ServeError> {
        make_directory(config.database.expose())?;
        let metrics = Metrics::new(config.metrics, clock.now_ms());
        let db = Db::open_watched(config.database.expose(), Arc::clone(&metrics)).await?;
        let blobs = Blobs::open(store, &db).await?;
        let first_operator_token = let_operator_in(&db, &clock, config.operator_token.as_ref()).await?;
        let node = match (&db, &config.node) {
            (Db::Sqlite { .. }, _) => "local".parse().expect("a valid name"),
            (Db::Postgres { .. }, Some(node)) => node.clone(),
            (Db::Postgres { .. }, None) => entropy::node(),
        };
        let app = App::new(Services::new(db, node, blobs, clock, metrics), config.lease, config.upload_memory);
        if config.fold_at_commit {
            app.updates.sums.leave_to_commits();
        }
        Ok(Self { app, first_operator_token })
    }

    /// The operator token that was made because there was none. This is the only chance to see it.
    #[must_use]
    pub fn first_operator_token(&self) -> Option<&Secret> {
        self.first_operator_token.as_ref()
    }

    /// This process's name among the coordinators.
    #[must_use]
    pub fn node(&self) -> &Name {
        &self.app.node
    }

    /// The shared state, for tests that call [`crate::driver::Driver::run_once`] themselves.
    #[must_use]
    pub fn app(&self) -> &Arc<App> {
        &self.app
    }

    /// Every route, for tests that call it without a socket.
    pub fn router(&self) -> axum::Router {
        api::router(Arc::clone(&self.app))
    }

    /// Serves until `shutdown` ends: then takes no more requests, answers those it has (held check-ins at once), and
    /// closes the database. Open rounds stay open; the next start goes on with them.
    ///
    /// # Errors
    /// None at present: a listener that fails is tried again.
    pub async fn serve(self, listener: TcpListener, shutdown: CancellationToken) -> Result<(), ServeError> {
        let app = self.app;
        let mut tasks = JoinSet::new();
        let keeper = Arc::clone(&app);
        tasks.spawn(async move { keeper.leases.keep(&keeper).await });
        let driver = app.driver();
        tasks.spawn(async move { driver.run().await });
        let sweeper = Arc::clone(&app);
        tasks.spawn(async move {
            let Services { blobs, db, clock, stopping, .. } = &sweeper.services;
            sweep::run(blobs, db, clock, stopping).await;
        });
        tasks.spawn(tidy_metrics(Arc::clone(&app)));
        if app.fleet.seats.is_some() {
            let app = Arc::clone(&app);
            tasks.spawn(async move {
                if let Some(seats) = &app.fleet.seats {
                    seats::run(&app, seats).await;
                }
            });
        }
        if let Db::Postgres { pool, .. } = &app.db {
            let (app, pool) = (Arc::clone(&app), pool.clone());
            tasks.spawn(async move { bell::run(&app, pool, |clients| app.fleet.lobby.call(clients)).await });
        }
        // A clock that a test moves has no ticks: such a test calls `scheduled::run_due` itself.
        if matches!(app.clock, Clock::System) {
            let app = Arc::clone(&app);
            tasks.spawn(async move { scheduled::run(&app).await });
        }
        let stopping = app.stopping.clone();
        let stop = async move {
            tokio::select! {
                () = shutdown.cancelled() => stopping.cancel(),
                () = stopping.cancelled() => {}
            }
        };
        tasks.spawn(stop);
        let serving = listen::serve(listener, api::router(Arc::clone(&app)), app.stopping.clone());
        let drained = async {
            app.stopping.cancelled().await;
            tokio::time::sleep(DRAIN_MAX).await;
        };
        tokio::select! {
            () = serving => {}
            () = drained => {
                tracing::warn!("some requests did not end in time; they are dropped");
            }
        }
        app.stopping.cancel();
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a background task ended badly");
            }
        }
        if let Err(error) = app.leases.leave(&app).await {
            tracing::warn!(%error, "the leases stay until they expire");
        }
        app.db.close().await;
        Ok(())
    }
}

/// Keeps what is measured small until the coordinator stops.
async fn tidy_metrics(app: Arc<App>) {
    loop {
        tokio::select! {
            () = app.stopping.cancelled() => return,
            () = tokio::time::sleep(METRICS_TIDY_EVERY) => app.metrics.tidy(),
        }
    }
}

fn make_directory(database: &str) -> Result<(), ServeError> {
    let path = database.strip_prefix("sqlite://").or_else(|| database.strip_prefix("sqlite:")).unwrap_or(database);
    if path.contains("://") {
        return Ok(());
    }
    let Some(directory) = std::path::Path::new(path).parent().filter(|path| !path.as_os_str().is_empty()) else {
        return Ok(());
    };
    std::fs::create_dir_all(directory).map_err(|source| ServeError::Directory { path: directory.to_owned(), source })
}

/// Makes sure that somebody can operate the coordinator; returns a token that was made for that.
async fn let_operator_in(db: &Db, clock: &Clock, configured: Option<&Secret>) -> Result<Option<Secret>, ServeError> {
    let now_ms = clock.now_ms();
    if configured.is_some_and(|secret| secret.kind() != SecretKind::Operator) {
        return Err(ServeError::WrongToken);
    }
    let mut tx = db.begin().await?;
    let (secret, label) = match configured {
        Some(secret) if tx.working_token(&api::stored_hash(secret), now_ms).await?.is_some() => return Ok(None),
        Some(secret) => (secret.clone(), "from the configuration"),
        None if tx.has_operator_token(now_ms).await? => return Ok(None),
        None => (entropy::secret(SecretKind::Operator), "made at the first start"),
    };
    let token = Token {
        id: TokenId::from_random(entropy::random()),
        population: None,
        label: label.to_owned(),
        created_at_ms: now_ms,
        expires_at_ms: None,
        revoked_at_ms: None,
    };
    match tx.insert_token(&token, &api::stored_hash(&secret)).await {
        // The configured token was revoked: it stays out.
        Err(DbError::Duplicate) => {
            tracing::warn!("the configured operator token was revoked; it is not let in");
            return Ok(None);
        }
        stored => stored?,
    }
    tx.commit().await?;
    Ok(configured.is_none().then_some(secret))
}
