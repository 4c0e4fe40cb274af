//! `tributary relay`: a coordinator whose rounds are parts of another coordinator's rounds.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tributary_client::{Builder, Client, ClientError, Settings, Uplink};
use tributary_engine::round::Offer;
use tributary_protocol::device::{Assignment, OpenJob};
use tributary_protocol::id::{AssignmentId, JobId};
use tributary_protocol::relay::{Delivered, Part};
use tributary_protocol::sealed::Sealed;
use tributary_server::RelaySettings;
use tributary_server::relay::{Offered, Upstream, UpstreamError};

use crate::error::CliError;
use crate::http;
use crate::options::{ServerUrl, enrolling};
use crate::output::Output;
use crate::serve::{self, ServeArgs};

#[derive(Debug, Args)]
pub struct RelayArgs {
    /// The parent's address. --token is an enrolment token that the parent made with `token create --relay`, and --ca
    /// the CA of the parent's certificate.
    #[arg(long, env = "TRIBUTARY_UPSTREAM", value_name = "URL")]
    upstream: ServerUrl,
    /// Where the relay keeps who it is to its parent [default: tributary-relay in the working directory].
    #[arg(long, env = "TRIBUTARY_RELAY_STATE", value_name = "FOLDER")]
    state_dir: Option<PathBuf>,
    #[command(flatten)]
    serve: ServeArgs,
}

/// Serves until Ctrl-C or SIGTERM. Token and CA are those of the parent.
pub async fn run(
    args: RelayArgs,
    token: Option<&Sealed<String>>,
    ca: Option<&Path>,
    output: &Output,
) -> Result<(), CliError> {
    let uplink = client(&args, token, ca)?.into_uplink();
    // This call enrols the relay: a wrong address or token ends the program before it serves.
    let population = uplink.population().await?;
    let relay = RelaySettings { upstream: Arc::new(Parent(uplink)), population };
    serve::run(args.serve, Some(relay), output).await
}

/// The relay as a client of its parent.
fn client(args: &RelayArgs, token: Option<&Sealed<String>>, ca: Option<&Path>) -> Result<Client, CliError> {
    let (token, trust) = enrolling(token, ca)?;
    let url = args.upstream.url();
    let mut settings = Settings::new(url.as_str(), token.expose());
    settings.state_dir = Some(args.state_dir.clone().unwrap_or_else(|| "tributary-relay".into()));
    settings.allow_plaintext = true;
    let transport = http::transport(url, &trust).map_err(|error| ClientError::Setup(error.to_string()))?;
    Ok(Builder::from(settings).transport(Arc::new(transport)).build()?)
}

/// The parent, by the SDK's calls.
#[derive(Debug)]
pub struct Parent(pub Uplink);

fn told(error: ClientError) -> UpstreamError {
    UpstreamError(error.to_string())
}

impl Upstream for Parent {
    fn address(&self) -> &str {
        self.0.address()
    }

    fn next(&self, Offer { places, sets }: Offer, wait: Duration) -> BoxFuture<'_, Result<Offered, UpstreamError>> {
        async move {
            Ok(match self.0.next(places, sets, wait).await.map_err(told)? {
                tributary_client::NextOrder::Order(assignment) => Offered::Part(assignment),
                tributary_client::NextOrder::Wait(pause) => Offered::Nothing(pause),
            })
        }
        .boxed()
    }

    fn model<'a>(&'a self, assignment: &'a Assignment) -> BoxFuture<'a, Result<Bytes, UpstreamError>> {
        async move { self.0.model(assignment).await.map_err(told) }.boxed()
    }

    fn control<'a>(&'a self, assignment: &'a Assignment) -> BoxFuture<'a, Result<Option<Bytes>, UpstreamError>> {
        async move { self.0.control(assignment).await.map_err(told) }.boxed()
    }

    fn ended(&self, jobs: Vec<JobId>) -> BoxFuture<'_, Result<Vec<JobId>, UpstreamError>> {
        async move { self.0.ended(jobs).await.map_err(told) }.boxed()
    }

    fn jobs(&self) -> BoxFuture<'_, Result<Vec<OpenJob>, UpstreamError>> {
        async move { self.0.jobs().await.map_err(told) }.boxed()
    }

    fn is_open(&self, assignment: AssignmentId) -> BoxFuture<'_, Result<bool, UpstreamError>> {
        async move { Ok(self.0.is_open(assignment).await.map_err(told)?.is_some()) }.boxed()
    }

    fn round_trip(&self) -> Option<Duration> {
        self.0.round_trip()
    }

    fn deliver(&self, assignment: AssignmentId, part: Part) -> BoxFuture<'_, Result<Delivered, UpstreamError>> {
        async move { self.0.deliver(assignment, part).await.map_err(told) }.boxed()
    }

    fn give_up(&self, assignment: AssignmentId, reason: String) -> BoxFuture<'_, Result<(), UpstreamError>> {
        async move { self.0.give_up(assignment, &reason).await.map_err(told) }.boxed()
    }
}
