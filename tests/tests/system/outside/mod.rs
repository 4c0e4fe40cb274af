//! Who comes from outside: programs of other people, over TLS, to a coordinator as `serve --tls-dev` starts it.
//!
//! | file | who comes |
//! |---|---|
//! | [`app`] | apps in C and Kotlin |
//! | [`boards`] | the program for small boards, under an emulator |
//! | [`page`] | a reader of `docs/protocol.md` |
//! | [`client`] | a client in Python, written from that page |
//! | [`examples`] | the example apps of the SDK and of the Python package |
//! | [`key_exchange`] | TLS clients that know the post-quantum group, and those that do not |
//! | [`masked`] | that client and the SDK in one group of secure aggregation |
//! | [`mixed_cohort`] | clients of all kinds in one round, two tabs of a browser among them |
//! | [`package`] | clients of the Python package, which is the SDK with Python's types |
//! | [`predictions`] | clients of all kinds predict while there is no coordinator |
//! | [`relayed`] | members of a group, of which one link goes through the coordinator |
//! | [`scan`] | sslyze, a scanner of TLS |
//! | [`smallest`] | the shortest apps of all languages |
//! | [`two_models`] | apps of all languages with two models |

mod answers;
mod app;
mod boards;
mod client;
mod examples;
mod key_exchange;
mod masked;
mod mixed_cohort;
mod package;
mod page;
mod predictions;
mod relayed;
mod scan;
mod smallest;
mod two_models;

use std::net::SocketAddr;
use std::sync::Arc;

use reqwest::Method;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tributary_client::Trust;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::JobId;
use tributary_protocol::model::Model;
use tributary_protocol::operator::Job;
use tributary_protocol::safetensors::model_from_bytes;
use tributary_protocol::state::JobState;
use tributary_server::app::App;
use tributary_server::net::{PinnedCa, TlsSource};
use tributary_server::{Config, Coordinator};

use crate::support::{Answer, directory_in_memory, within_reason};

/// A coordinator with a private CA, on a port of the loopback address.
struct Listening {
    directory: TempDir,
    address: SocketAddr,
    ca: PinnedCa,
    operator: String,
    /// A token of the population `default`, which the first start creates. It names the CA.
    enrolment: String,
    http: reqwest::Client,
    app: Arc<App>,
    stop: CancellationToken,
    served: JoinHandle<()>,
}

/// An HTTP client that accepts only the certificates of this CA, and offers these protocols.
fn http(ca: Sha256Hash, protocols: &[&[u8]]) -> reqwest::Client {
    let mut config = Trust::Pinned(ca).client_config().unwrap().unwrap();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    reqwest::Client::builder().no_proxy().tls_backend_preconfigured(config).build().unwrap()
}

impl Listening {
    async fn start() -> Self {
        let directory = directory_in_memory();
        let database = directory.path().join("tributary.db").display().to_string();
        let tls = TlsSource::Dev { directory: directory.path().join("tls"), names: vec!["localhost".into()] };
        let config = Config { database: database.into(), tls: Some(tls), join: true, ..Config::default() };
        let coordinator = Coordinator::open(&config).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let ca = coordinator.tls().unwrap().ca().unwrap().clone();
        let operator = coordinator.first_operator_token().unwrap().expose();
        let enrolment = coordinator.first_clients().unwrap().token.expose();
        let http = http(ca.fingerprint, &[b"h2", b"http/1.1"]);
        let (app, stopped) = (Arc::clone(coordinator.app()), stop.clone());
        let served = tokio::spawn(async move { coordinator.serve(listener, stopped).await.unwrap() });
        Self { directory, address, ca, operator, enrolment, http, app, stop, served }
    }

    fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// A request of the operator.
    fn operate(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("{}/operator/v1{path}", self.url())).bearer_auth(&self.operator)
    }

    async fn look(&self, path: &str) -> Answer {
        Answer::to(self.operate(Method::GET, path)).await
    }

    /// A version of a job's model.
    async fn model(&self, job: JobId, version: u32) -> Model {
        model_from_bytes(&self.look(&format!("/jobs/{job}/models/{version}")).await.body).unwrap()
    }

    /// Waits until all rounds of a job have ended.
    async fn until_completed(&self, job: JobId) {
        let mut changes = self.app.signals.watch();
        let completed = async {
            while self.look(&format!("/jobs/{job}")).await.ok::<Job>().head.state != JobState::Completed {
                changes.changed().await.unwrap();
            }
        };
        within_reason(completed).await;
    }

    /// The folder of all, which is removed when it is dropped.
    async fn stop(self) -> TempDir {
        self.stop.cancel();
        within_reason(self.served).await.unwrap();
        self.directory
    }
}
