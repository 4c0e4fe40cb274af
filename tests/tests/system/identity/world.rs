//! A coordinator behind its own TLS listener, with a clock that the tests move, and devices of every kind.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use reqwest::{Method, RequestBuilder};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpSocket;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tributary_client::Client;
use tributary_client::client::Builder;
use tributary_protocol::device::EnrolResponse;
use tributary_protocol::id::{Name, PinnedSecret};
use tributary_protocol::operator::{self, CreatedToken, Job, Page};
use tributary_server::app::App;
use tributary_server::devices::{ClientAuth, DeviceSettings};
use tributary_server::net::TlsSource;
use tributary_server::runtime::clock::{Clock, ManualClock};
use tributary_server::{Config, Coordinator};

use crate::support::{Answer, JumpingClock, directory_in_memory, job_file, within_reason};

/// What the coordinator's clock shows at first: in 2027.
pub(super) const NOW_MS: i64 = 1_800_000_000_000;
pub(super) const DAY_MS: i64 = 24 * 3_600_000;

pub(super) struct TlsWorld {
    directory: TempDir,
    address: SocketAddr,
    clock: Clock,
    pub(super) hand: Arc<ManualClock>,
    pub(super) operator: String,
    /// Of the population `devices`.
    pub(super) enrolment: String,
    /// Without a certificate of its own.
    http: reqwest::Client,
    ca: CertificateDer<'static>,
    /// Keeps the port for the time between two coordinators.
    _place: TcpSocket,
    running: Option<(Arc<App>, CancellationToken, JoinHandle<()>)>,
}

impl TlsWorld {
    pub(super) async fn start(client_auth: ClientAuth) -> Self {
        let directory = directory_in_memory();
        let ca = write_certificates(directory.path());
        let (clock, hand) = Clock::manual(NOW_MS);
        let place = TcpSocket::new_v4().unwrap();
        place.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        // Only now: with it before, two worlds could be given the same port.
        place.set_reuseaddr(true).unwrap();
        let mut world = Self {
            directory,
            address: place.local_addr().unwrap(),
            _place: place,
            clock,
            hand,
            operator: String::new(),
            enrolment: String::new(),
            http: reqwest_with(&ca, None),
            ca,
            running: None,
        };
        world.begin(client_auth).await;
        world.operate(Method::POST, "/populations", &json!({ "name": "devices" })).await.value();
        world.enrolment = world.token("devices").await.secret.expose();
        world
    }

    async fn begin(&mut self, client_auth: ClientAuth) {
        let path = |name: &str| self.directory.path().join(name);
        let tls = TlsSource::Files { certificate: path("cert.pem"), key: path("key.pem"), ca: Some(path("ca.pem")) };
        let config = Config {
            database: path("tributary.db").display().to_string().into(),
            tls: Some(tls),
            devices: DeviceSettings { client_auth, ..DeviceSettings::default() },
            ..Config::default()
        };
        let coordinator = Coordinator::open_with(&config, self.clock.clone()).await.unwrap();
        if let Some(first) = coordinator.first_operator_token() {
            self.operator = first.expose();
        }
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(self.address).unwrap();
        let listener = socket.listen(128).unwrap();
        let (app, stop) = (Arc::clone(coordinator.app()), CancellationToken::new());
        let stopped = stop.clone();
        let served = tokio::spawn(async move { coordinator.serve(listener, stopped).await.unwrap() });
        self.running = Some((app, stop, served));
    }

    pub(super) async fn stop(&mut self) {
        let (_, stop, served) = self.running.take().unwrap();
        stop.cancel();
        within_reason(served).await.unwrap();
    }

    pub(super) async fn restart(&mut self, client_auth: ClientAuth) {
        self.stop().await;
        self.begin(client_auth).await;
    }

    pub(super) fn app(&self) -> &Arc<App> {
        &self.running.as_ref().unwrap().0
    }

    pub(super) fn server(&self) -> String {
        format!("https://{}", self.address)
    }

    pub(super) async fn operate(&self, method: Method, path: &str, body: &Value) -> Answer {
        let url = format!("{}/operator/v1{path}", self.server());
        Answer::to(self.http.request(method, url).bearer_auth(&self.operator).json(body)).await
    }

    pub(super) async fn look(&self, path: &str) -> Answer {
        let url = format!("{}/operator/v1{path}", self.server());
        Answer::to(self.http.get(url).bearer_auth(&self.operator)).await
    }

    pub(super) async fn token(&self, population: &str) -> CreatedToken {
        self.operate(Method::POST, "/tokens", &json!({ "kind": "enrolment", "population": population })).await.ok()
    }

    pub(super) async fn job(&self, changes: Value) -> Job {
        self.create(&job_file(&changes)).await.ok()
    }

    /// Creates a job of this file.
    pub(super) async fn create(&self, file: &Value) -> Answer {
        self.operate(Method::POST, "/jobs", &json!({ "job": file })).await
    }

    /// Waits for the first round of a job.
    pub(super) async fn until_committed(&self, job: &Job) {
        let mut after = 0;
        loop {
            let path = format!("/events?job={}&after={after}&wait_ms=60000", job.head.id);
            let page = within_reason(self.look(&path)).await.value();
            let events = page["items"].as_array().unwrap();
            if events.iter().any(|event| event["became"] == "committed") {
                return;
            }
            after += events.len();
        }
    }

    pub(super) async fn clients(&self) -> Vec<operator::Client> {
        let page: Page<operator::Client> = self.look("/clients?population=devices").await.ok();
        page.items
    }

    pub(super) async fn set_standing(&self, client: &str, standing: &str) {
        let path = format!("/clients/{client}/standing");
        self.operate(Method::PUT, &path, &json!({ "standing": standing, "reason": "a test" })).await.value();
    }

    /// Settings of a client of the SDK, which pins the coordinator's CA by its token.
    pub(super) fn sdk(&self, directory: &Path) -> Builder {
        let builder = Client::builder(self.server(), self.enrolment.clone()).state_dir(directory);
        builder.clock(Arc::new(JumpingClock::default())).wait(std::time::Duration::ZERO)
    }

    /// A device that speaks by hand: it enrols with a key and a request.
    pub(super) async fn device(&self) -> RawDevice {
        let key = KeyPair::generate().unwrap();
        let answer = self.enrol(&self.enrolment, &self.http, Some(&request_for(&key))).await;
        self.device_of(key, &answer.ok())
    }

    pub(super) fn device_of(&self, key: KeyPair, enrolled: &EnrolResponse) -> RawDevice {
        let certificate = enrolled.certificate.as_ref().expect("it was requested").certificate.clone();
        let http = self.http_with(&certificate, &key);
        RawDevice {
            id: enrolled.client.to_string(),
            secret: enrolled.secret.expose(),
            server: self.server(),
            key,
            certificate,
            http,
        }
    }

    pub(super) async fn enrol(&self, token: &str, http: &reqwest::Client, request: Option<&str>) -> Answer {
        let url = format!("{}/device/v1/clients", self.server());
        // The text names the CA, too.
        let token = token.parse::<PinnedSecret>().unwrap().secret().expose();
        let body = match request {
            Some(request) => json!({ "certificate_request": request }),
            None => json!({}),
        };
        Answer::to(http.post(url).bearer_auth(token).json(&body)).await
    }

    /// An HTTP client without a certificate.
    pub(super) fn http(&self) -> &reqwest::Client {
        &self.http
    }

    /// One that presents this certificate.
    pub(super) fn http_with(&self, certificate: &str, key: &KeyPair) -> reqwest::Client {
        reqwest_with(&self.ca, Some((certificate, key)))
    }

    /// A certificate for a key, as the CA of this population would sign it.
    pub(super) async fn signed_by(&self, population: &Name, uri: &str, key: &KeyPair) -> String {
        let ca = self.app().db.read().await.unwrap().population_ca(population).await.unwrap().unwrap();
        let ca_key = KeyPair::try_from(&PrivatePkcs8KeyDer::from(ca.private_key.as_slice())).unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name = Default::default();
        params.distinguished_name.push(rcgen::DnType::CommonName, "Tributary devices");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        let issuer = rcgen::Issuer::new(params, ca_key);
        leaf_params(uri).signed_by(key, &issuer).unwrap().pem()
    }
}

/// An enrolled client that says anything.
pub(super) struct RawDevice {
    pub(super) id: String,
    pub(super) secret: String,
    server: String,
    pub(super) key: KeyPair,
    pub(super) certificate: String,
    /// Presents the certificate.
    pub(super) http: reqwest::Client,
}

impl RawDevice {
    /// A check-in over this HTTP client, without a secret.
    pub(super) fn check_in_over(&self, http: &reqwest::Client) -> RequestBuilder {
        let body = json!({ "state": { "examples": 1 }, "sdk_version": "test", "codecs": ["f32"] });
        http.post(format!("{}/device/v1/checkins", self.server)).json(&body)
    }

    pub(super) async fn check_in(&self) -> Answer {
        Answer::to(self.check_in_over(&self.http)).await
    }

    pub(super) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}/device/v1{path}", self.server))
    }
}

/// A certificate for clients, valid from 1975 to 4096.
pub(super) fn leaf_params(uri: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.subject_alt_names = vec![rcgen::SanType::URI(uri.try_into().unwrap())];
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    params
}

pub(super) fn request_for(key: &KeyPair) -> String {
    CertificateParams::default().serialize_request(key).unwrap().pem().unwrap()
}

/// A CA, and a certificate of it for this machine, in files. They are valid for thousands of years.
fn write_certificates(directory: &Path) -> CertificateDer<'static> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &ca).unwrap();
    for (name, text) in [("ca.pem", ca.pem()), ("cert.pem", certificate.pem()), ("key.pem", key.serialize_pem())] {
        std::fs::write(directory.join(name), text).unwrap();
    }
    ca.der().clone()
}

/// Trusts the CA. A connection for each request, so that each has a handshake.
fn reqwest_with(ca: &CertificateDer<'static>, presents: Option<(&str, &KeyPair)>) -> reqwest::Client {
    let mut roots = RootCertStore::empty();
    roots.add(ca.clone()).unwrap();
    let provider = tributary_tls::provider();
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots);
    let config = match presents {
        Some((certificate, key)) => {
            let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
            let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
            config.with_client_auth_cert(chain, key).unwrap()
        }
        None => config.with_no_client_auth(),
    };
    let builder = reqwest::Client::builder().pool_max_idle_per_host(0).tls_backend_preconfigured(config);
    builder.build().unwrap()
}
