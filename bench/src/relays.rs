//! Processes of relays below a coordinator of a benchmark, and clients of them.

use std::collections::BTreeMap;
use std::path::Path;

use hyper::header::HeaderValue;
use reqwest::Url;
use serde::Deserialize;
use tributary::error::CliError;
use tributary_protocol::device::Attributes;
use tributary_protocol::id::{Name, PinnedSecret, Secret};
use tributary_protocol::operator::CreateToken;
use tributary_protocol::relay::RELAY_ATTRIBUTE;

use crate::device::Server;
use crate::error::BenchError;
use crate::fleet;
use crate::process::{ChildProcess, CoordinatorProcess, own_process};

/// A relay; it ends with this value.
pub(crate) struct RelayProcess {
    process: ChildProcess,
    pub(crate) url: Url,
    /// The enrolment token of its clients.
    pub(crate) enrolment: Secret,
}

/// The first line of `relay --json`.
#[derive(Deserialize)]
struct Serving {
    url: String,
    enrolment_token: PinnedSecret,
}

impl RelayProcess {
    /// Starts a relay below `root`, with its files in `folder`, and waits until it listens.
    pub(crate) async fn start(
        root: &CoordinatorProcess,
        token: &Secret,
        folder: &Path,
        number: u32,
    ) -> Result<Self, CliError> {
        let path = |name: &str| folder.join(format!("{name}-{number}")).display().to_string();
        let (state, database) = (path("state"), path("relay"));
        let arguments = ["--json", "relay", "--upstream", root.url.as_str(), "--state-dir", &state];
        let arguments = [&arguments[..], &["--listen", "127.0.0.1:0", "--log", "error"]].concat();
        let token = token.expose();
        let variables = [("TRIBUTARY_TOKEN", &*token), ("TRIBUTARY_DATABASE", database.as_str())];
        let (process, line) = own_process(&arguments, &variables).await?;
        let serving: Serving = serde_json::from_str(&line)
            .map_err(|_| BenchError::Start("a relay ended at once; its messages are above".into()))?;
        let url = serving.url.parse().map_err(|_| BenchError::Start(format!("a relay serves at {}", serving.url)))?;
        Ok(Self { process, url, enrolment: serving.enrolment_token.secret().clone() })
    }

    /// Processor time in seconds.
    pub(crate) fn cpu_s(&self) -> Result<f64, CliError> {
        self.process.cpu_s()
    }

    /// Resident memory in bytes; `None` on systems without `/proc`.
    pub(crate) fn resident_bytes(&self) -> Option<u64> {
        self.process.resident_bytes()
    }
}

/// Clients of one server.
pub(crate) struct Branch {
    pub(crate) server: Server,
    pub(crate) clients: Vec<HeaderValue>,
    /// None for those of the coordinator itself.
    pub(crate) relay: Option<RelayProcess>,
}

/// So many clients behind each of as many relays, or the same clients at the coordinator. Creates their population.
pub(crate) async fn branches(
    root: &CoordinatorProcess,
    population: &Name,
    folder: &Path,
    (clients, has_relays): (&[u32], bool),
) -> Result<Vec<Branch>, CliError> {
    let token = root.population(population).await?;
    if !has_relays {
        return Ok(vec![Branch::of(root, &token, clients.iter().sum()).await?]);
    }
    let token = relay_token(root, population).await?;
    let mut branches = Vec::new();
    for (number, clients) in (0..).zip(clients) {
        branches.push(Branch::below(root, &token, folder, (number, *clients)).await?);
    }
    Ok(branches)
}

impl Branch {
    /// Clients of the coordinator.
    async fn of(root: &CoordinatorProcess, token: &Secret, clients: u32) -> Result<Self, CliError> {
        let server = fleet::server(root)?;
        let clients = fleet::enrol(&server, token, clients).await?;
        Ok(Self { server, clients, relay: None })
    }

    /// A relay below the coordinator, with so many clients.
    async fn below(
        root: &CoordinatorProcess,
        token: &Secret,
        folder: &Path,
        (number, clients): (u32, u32),
    ) -> Result<Self, CliError> {
        let relay = RelayProcess::start(root, token, folder, number).await?;
        let address = relay.url.socket_addrs(|| None).ok().and_then(|addresses| addresses.into_iter().next());
        let address = address.ok_or_else(|| BenchError::Start(format!("a relay serves at {}", relay.url)))?;
        let server = Server::new(address, None).map_err(CliError::http)?;
        let clients = fleet::enrol(&server, &relay.enrolment, clients).await?;
        Ok(Self { server, clients, relay: Some(relay) })
    }
}

/// An enrolment token for relays of a population.
pub(crate) async fn relay_token(root: &CoordinatorProcess, population: &Name) -> Result<Secret, CliError> {
    let granted = BTreeMap::from([(RELAY_ATTRIBUTE.to_owned(), "true".to_owned())]);
    let attributes = Attributes::try_from(granted).map_err(|error| CliError::Internal(error.to_string()))?;
    let wanted = CreateToken::Enrolment {
        population: population.clone(),
        label: "relays".to_owned(),
        valid_for_ms: None,
        uses_max: None,
        per_minute_max: None,
        attributes,
    };
    Ok(root.api.create_token(&wanted).await?.secret.secret().clone())
}
