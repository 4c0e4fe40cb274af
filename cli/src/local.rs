//! A coordinator inside this process, for the demo and for benchmarks.

use std::net::SocketAddr;
use std::path::Path;

use reqwest::Url;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tributary_protocol::id::{Name, Secret, SecretKind};
use tributary_protocol::operator::CreateToken;
use tributary_server::{Config, Coordinator, ServeError};

use crate::api::Api;
use crate::error::CliError;

/// A coordinator that serves in the background.
pub(crate) struct LocalCoordinator {
    /// Where it is.
    pub(crate) url: Url,
    /// Its operator API.
    pub(crate) api: Api,
    /// Its operator token.
    pub(crate) operator: Secret,
    shutdown: CancellationToken,
    serving: JoinHandle<Result<(), ServeError>>,
}

impl LocalCoordinator {
    /// Starts a coordinator on a database file of its own.
    ///
    /// # Errors
    /// When the address is in use or the folder cannot be written.
    pub(crate) async fn start(listen: SocketAddr, database: &Path) -> Result<Self, CliError> {
        let listener = bind(listen).await?;
        let address = listener.local_addr().map_err(|source| CliError::Listen { address: listen, source })?;
        let operator = Secret::from_random(SecretKind::Operator, random()?);
        let config = Config {
            database: database.to_string_lossy().into_owned().into(),
            operator_token: Some(operator.clone()),
            ..Config::default()
        };
        let coordinator = Coordinator::open(&config).await?;
        let shutdown = CancellationToken::new();
        let serving = tokio::spawn(coordinator.serve(listener, shutdown.clone()));
        let url: Url = format!("http://{address}").parse().expect("an address makes a URL");
        let api = Api::new(url.clone(), Some(operator.clone()))?;
        Ok(Self { url, api, operator, shutdown, serving })
    }

    /// Makes a population and a token that enrols clients in it.
    ///
    /// # Errors
    /// Those of the calls.
    pub(crate) async fn population(&self, name: &Name) -> Result<Secret, CliError> {
        self.api.create_population(name.clone()).await?;
        let wanted = CreateToken { population: Some(name.clone()), label: "local".into(), valid_for_ms: None };
        Ok(self.api.create_token(&wanted).await?.secret)
    }

    /// The address without a slash at its end.
    pub(crate) fn address(&self) -> String {
        self.url.as_str().trim_end_matches('/').to_owned()
    }

    /// The dashboard, signed in by one click: the token is in the part of the address that browsers keep to themselves.
    pub(crate) fn dashboard_url(&self) -> Url {
        let mut url = self.url.clone();
        url.set_fragment(Some(&format!("token={}", self.operator.expose())));
        url
    }

    /// Stops it and waits until its database is closed.
    ///
    /// # Errors
    /// When serving had failed.
    pub(crate) async fn stop(self) -> Result<(), CliError> {
        self.shutdown.cancel();
        match self.serving.await {
            Ok(served) => Ok(served?),
            Err(failed) => std::panic::resume_unwind(failed.into_panic()),
        }
    }
}

/// Listens, or says that somebody else does.
///
/// # Errors
/// [`CliError::Listen`].
pub(crate) async fn bind(address: SocketAddr) -> Result<TcpListener, CliError> {
    TcpListener::bind(address).await.map_err(|source| CliError::Listen { address, source })
}

fn random() -> Result<[u8; 32], CliError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| CliError::Runtime(std::io::Error::other(error.to_string())))?;
    Ok(bytes)
}
