//! A coordinator in this process, for the demo and for benchmarks.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use reqwest::Url;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tributary_protocol::id::{Name, Secret, SecretKind};
use tributary_protocol::operator::CreateToken;
use tributary_server::guard::Limits;
use tributary_server::{Config, Coordinator, ServeError};

use crate::api::Api;
use crate::error::CliError;
use crate::evaluator::LayerEvaluator;
use crate::listen::listen;
use crate::random::random;

/// No fleet of this process is so large, so its clients never pause between two check-ins: a cohort is drawn as soon as
/// all wait, however slow the machine is.
const CHECKINS_PER_SECOND: u32 = 2_000;

/// A coordinator that serves in the background.
pub struct LocalCoordinator {
    pub url: Url,
    pub api: Api,
    pub operator: Secret,
    shutdown: CancellationToken,
    serving: JoinHandle<Result<(), ServeError>>,
}

impl LocalCoordinator {
    /// Starts a coordinator on a database file.
    pub async fn start(address: SocketAddr, database: &Path) -> Result<Self, CliError> {
        let (listener, address) = listen(address).await?;
        let operator = Secret::from_random(SecretKind::Operator, random()?);
        let config = Config {
            database: database.to_string_lossy().into_owned().into(),
            operator_token: Some(operator.clone()),
            evaluator: Some(Arc::new(LayerEvaluator)),
            limits: Limits { checkins_per_second: CHECKINS_PER_SECOND, ..Limits::default() },
            ..Config::default()
        };
        let coordinator = Coordinator::open(&config).await?;
        let shutdown = CancellationToken::new();
        let serving = tokio::spawn(coordinator.serve(listener, shutdown.clone()));
        let url: Url = format!("http://{address}").parse().expect("an address makes a URL");
        let api = Api::new(url.clone(), Some(operator.clone()))?;
        Ok(Self { url, api, operator, shutdown, serving })
    }

    /// Creates a population and returns an enrolment token for it.
    pub async fn population(&self, name: &Name) -> Result<Secret, CliError> {
        self.api.create_population(name.clone(), None).await?;
        let wanted = CreateToken::enrolment(name.clone(), "local");
        Ok(self.api.create_token(&wanted).await?.secret.secret().clone())
    }

    /// The URL without the slash at its end.
    pub fn address(&self) -> String {
        self.url.as_str().trim_end_matches('/').to_owned()
    }

    /// A link that opens the dashboard signed in. The token is in the URL's fragment, which browsers do not send.
    pub fn dashboard_url(&self) -> Url {
        let mut url = self.url.clone();
        url.set_fragment(Some(&format!("token={}", self.operator.expose())));
        url
    }

    /// Stops the coordinator and waits until its database is closed.
    pub async fn stop(self) -> Result<(), CliError> {
        self.shutdown.cancel();
        match self.serving.await {
            Ok(served) => Ok(served?),
            Err(failed) => std::panic::resume_unwind(failed.into_panic()),
        }
    }
}
