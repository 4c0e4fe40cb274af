//! A coordinator on a database file of its own, its operator and its clock.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tributary::relay::Parent;
use tributary_client::Client;
use tributary_protocol::device::{Assignment, CheckInResponse};
use tributary_protocol::id::{JobId, Name};
use tributary_protocol::operator::{self, CreatedToken, Job, Page, Round};
use tributary_protocol::safetensors::model_from_bytes;
use tributary_protocol::state::Role;
use tributary_server::app::App;
use tributary_server::blob::{OpenedStore, open_beside};
use tributary_server::devices::DeviceSettings;
use tributary_server::guard::Limits;
use tributary_server::metrics::MetricsAccess;
use tributary_server::notify::NotifySettings;
use tributary_server::people::OidcSettings;
use tributary_server::runtime::clock::{Clock, ManualClock};
use tributary_server::{Config, Coordinator, RelaySettings};

use super::evaluator::LayerEvaluator;
use super::postgres::Database;
use super::{Answer, Device, job_file};

/// What the coordinator's clock shows at first.
pub(crate) const NOW_MS: i64 = 1_000_000;

/// Longest wait for something that must happen at once; only a failing test ever waits that long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A coordinator that serves, and everything outside it.
pub(crate) struct World {
    pub(crate) http: reqwest::Client,
    pub(crate) address: SocketAddr,
    pub(crate) operator: String,
    pub(crate) enrolment: String,
    /// Moves the coordinator's clock; without effect on a world that lives by the system's.
    pub(crate) hand: Arc<ManualClock>,
    clock: Clock,
    drives: bool,
    /// The coordinator's name among those that share its database.
    node: Name,
    /// Where the coordinator stores everything: a file in the directory, or a database of PostgreSQL.
    store: Store,
    /// Where the bodies of models and updates are; with everything else without one.
    blobs: Option<OpenedStore>,
    metrics: MetricsAccess,
    /// For updates that are being received, in bytes.
    upload_memory: usize,
    limits: Limits,
    behind_proxy: bool,
    oidc: Option<OidcSettings>,
    devices: DeviceSettings,
    notify: Option<NotifySettings>,
    relay: Option<RelaySettings>,
    /// Where a relay keeps who it is to its parent.
    relay_state: Option<Arc<TempDir>>,
    /// Keeps the port for the time between two coordinators.
    _place: TcpSocket,
    running: Option<Running>,
}

#[derive(Clone)]
enum Store {
    File(Arc<TempDir>),
    Postgres(Database),
}

struct Running {
    app: Arc<App>,
    stop: CancellationToken,
    served: JoinHandle<()>,
}

/// A temporary directory, in memory where the system has such a place: a database syncs there for nothing.
pub(crate) fn directory_in_memory() -> TempDir {
    let memory = std::path::Path::new("/dev/shm");
    if memory.is_dir() { TempDir::new_in(memory).unwrap() } else { TempDir::new().unwrap() }
}

/// An HTTP client that opens a connection for each request, so that a restart cannot break one that waits.
pub(crate) fn http() -> reqwest::Client {
    tributary_tls::install();
    reqwest::Client::builder().pool_max_idle_per_host(0).build().unwrap()
}

/// Awaits what must happen soon.
#[track_caller]
pub(crate) fn within_reason<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let caller = std::panic::Location::caller();
    async move {
        match tokio::time::timeout(PATIENCE, future).await {
            Ok(output) => output,
            Err(_) => panic!("{caller}: it never happened"),
        }
    }
}

impl Store {
    /// A file, or with `TRIBUTARY_TEST_ENGINE=postgres` a database of PostgreSQL: what holds on one must hold on the
    /// other.
    async fn of_the_run() -> Self {
        let engine = std::env::var_os("TRIBUTARY_TEST_ENGINE").unwrap_or_default();
        match engine == "postgres" {
            true => Self::Postgres(super::postgres().await.expect("PostgreSQL is asked for")),
            false => Self::file(),
        }
    }

    fn file() -> Self {
        Self::File(Arc::new(directory_in_memory()))
    }
}

impl World {
    /// A coordinator whose clock stands still and whose driver acts only when the test says so.
    pub(crate) async fn start() -> Self {
        let (clock, hand) = Clock::manual(NOW_MS);
        Self::begin(clock, hand, false, Store::of_the_run().await).await
    }

    /// The same for a claim about SQLite alone.
    pub(crate) async fn start_on_sqlite() -> Self {
        let (clock, hand) = Clock::manual(NOW_MS);
        Self::begin(clock, hand, false, Store::file()).await
    }

    /// A coordinator as in production: the system's clock, its own driver.
    pub(crate) async fn start_driven() -> Self {
        let (_, hand) = Clock::manual(NOW_MS);
        Self::begin(Clock::System, hand, true, Store::of_the_run().await).await
    }

    /// The same on PostgreSQL.
    pub(crate) async fn start_driven_on(database: Database) -> Self {
        let (_, hand) = Clock::manual(NOW_MS);
        Self::begin(Clock::System, hand, true, Store::Postgres(database)).await
    }

    /// One that stands still, on PostgreSQL.
    pub(crate) async fn start_on(database: Database) -> Self {
        let (clock, hand) = Clock::manual(NOW_MS);
        Self::begin(clock, hand, false, Store::Postgres(database)).await
    }

    /// Another coordinator beside this one, on the same database, with the same people.
    pub(crate) async fn beside(&self) -> Self {
        self.beside_as("other").await
    }

    /// The same under this name, beside others.
    pub(crate) async fn beside_as(&self, node: &str) -> Self {
        let mut world = Self::place(self.clock.clone(), Arc::clone(&self.hand), self.drives, self.store.clone());
        world.blobs = self.blobs.clone();
        world.node = node.parse().unwrap();
        world.operator.clone_from(&self.operator);
        world.enrolment.clone_from(&self.enrolment);
        world.resume().await;
        world
    }

    /// The same as [`Self::start`], with the bodies of models and updates in a store.
    /// On SQLite, with large bodies in files next to it.
    pub(crate) async fn start_with_files() -> Self {
        let mut world = Self::start_on_sqlite().await;
        world.stop().await;
        world.set_blobs(Some(open_beside(world.database().as_ref()).unwrap()));
        world.resume().await;
        world
    }

    pub(crate) async fn start_with_blobs(blobs: Option<OpenedStore>) -> Self {
        let (clock, hand) = Clock::manual(NOW_MS);
        let mut world = Self::place(clock, hand, false, Store::file());
        world.blobs = blobs;
        world.begun().await
    }

    /// A relay of this coordinator, as in production. Its clients are of the population that it has at its parent.
    pub(crate) async fn relay(&self) -> Self {
        let state = directory_in_memory();
        let client = Client::builder(self.server(), self.relay_token().await).state_dir(state.path());
        let uplink = client.http_client(http()).build().unwrap().into_uplink();
        let population = uplink.population().await.unwrap();
        let (_, hand) = Clock::manual(NOW_MS);
        let mut world = Self::place(Clock::System, hand, true, Store::of_the_run().await);
        world.relay = Some(RelaySettings { upstream: Arc::new(Parent(uplink)), population });
        world.relay_state = Some(Arc::new(state));
        let coordinator = world.open_coordinator().await;
        world.operator = coordinator.first_operator_token().unwrap().expose();
        world.serve(coordinator);
        world.enrolment = world.token("devices").await.secret.expose();
        world
    }

    /// An enrolment token for relays.
    pub(crate) async fn relay_token(&self) -> String {
        self.token_granting("relay", "true").await
    }

    /// An enrolment token that grants this attribute.
    async fn token_granting(&self, name: &str, value: &str) -> String {
        let wanted = json!({ "kind": "enrolment", "population": "devices", "attributes": { name: value } });
        let created: CreatedToken = self.operate(Method::POST, "/tokens", &wanted).await.ok();
        created.secret.expose()
    }

    async fn begin(clock: Clock, hand: Arc<ManualClock>, drives: bool, store: Store) -> Self {
        Self::place(clock, hand, drives, store).begun().await
    }

    /// Starts the first coordinator.
    async fn begun(mut self) -> Self {
        let world = &mut self;
        let coordinator = world.open_coordinator().await;
        world.operator = coordinator.first_operator_token().unwrap().expose();
        world.serve(coordinator);
        world.operate(Method::POST, "/populations", &json!({ "name": "devices" })).await.value();
        world.enrolment = world.token("devices").await.secret.expose();
        self
    }

    /// A world with a port to listen on, where nothing runs yet.
    fn place(clock: Clock, hand: Arc<ManualClock>, drives: bool, store: Store) -> Self {
        let place = TcpSocket::new_v4().unwrap();
        place.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        // Only now: with it before, two worlds could be given the same port.
        place.set_reuseaddr(true).unwrap();
        Self {
            http: http(),
            address: place.local_addr().unwrap(),
            operator: String::new(),
            enrolment: String::new(),
            hand,
            clock,
            drives,
            node: "one".parse().unwrap(),
            store,
            blobs: None,
            _place: place,
            metrics: MetricsAccess::default(),
            upload_memory: Config::default().upload_memory,
            limits: Limits::default(),
            behind_proxy: false,
            oidc: None,
            devices: DeviceSettings::default(),
            notify: None,
            relay: None,
            relay_state: None,
            running: None,
        }
    }

    /// The path or URL of what the coordinator stores everything in.
    pub(crate) fn database(&self) -> String {
        match &self.store {
            Store::File(directory) => directory.path().join("tributary.db").display().to_string(),
            Store::Postgres(database) => database.url.clone(),
        }
    }

    /// Another coordinator on the same database and clock.
    pub(crate) async fn open_coordinator(&self) -> Coordinator {
        let config = Config {
            database: self.database().into(),
            node: Some(self.node.clone()),
            metrics: self.metrics,
            upload_memory: self.upload_memory,
            limits: self.limits,
            behind_proxy: self.behind_proxy,
            oidc: self.oidc.clone(),
            devices: self.devices.clone(),
            notify: self.notify.clone(),
            relay: self.relay.clone(),
            evaluator: Some(Arc::new(LayerEvaluator)),
            ..Config::default()
        };
        Coordinator::open_on(&config, self.blobs.clone(), self.clock.clone()).await.unwrap()
    }

    /// The next coordinator has its bodies here.
    pub(crate) fn set_blobs(&mut self, blobs: Option<OpenedStore>) {
        self.blobs = blobs;
    }

    /// The next coordinator tells its metrics to these.
    pub(crate) fn set_metrics(&mut self, metrics: MetricsAccess) {
        self.metrics = metrics;
    }

    /// The next coordinator has this much memory for updates that are being received, in bytes.
    pub(crate) fn set_upload_memory(&mut self, bytes: usize) {
        self.upload_memory = bytes;
    }

    /// The next coordinator limits single callers so.
    pub(crate) fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// The next coordinator believes a proxy.
    pub(crate) fn set_behind_proxy(&mut self, behind_proxy: bool) {
        self.behind_proxy = behind_proxy;
    }

    /// People sign in to the next coordinator with this provider.
    pub(crate) fn set_oidc(&mut self, oidc: OidcSettings) {
        self.oidc = Some(oidc);
    }

    /// Clients prove to the next coordinator who they are in this way.
    pub(crate) fn set_devices(&mut self, devices: DeviceSettings) {
        self.devices = devices;
    }

    /// The next coordinator stores notifications for this webhook.
    pub(crate) fn set_notify(&mut self, notify: NotifySettings) {
        self.notify = Some(notify);
    }

    fn serve(&mut self, coordinator: Coordinator) {
        let listener = self.listener();
        let (app, stop) = (Arc::clone(coordinator.app()), CancellationToken::new());
        let (stopped, drives) = (stop.clone(), self.drives);
        let served = tokio::spawn(async move {
            if drives {
                return coordinator.serve(listener, stopped).await.unwrap();
            }
            // As in production, but for the driver.
            let (app, router) = (Arc::clone(coordinator.app()), coordinator.router());
            let stopping = app.stopping.clone();
            let stop = async move {
                stopped.cancelled().await;
                stopping.cancel();
            };
            axum::serve(listener, router).with_graceful_shutdown(stop).await.unwrap();
            app.db.close().await;
        });
        self.running = Some(Running { app, stop, served });
    }

    fn listener(&self) -> TcpListener {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(self.address).unwrap();
        socket.listen(128).unwrap()
    }

    /// Stops the coordinator: requests that it has are answered first.
    pub(crate) async fn stop(&mut self) {
        let running = self.running.take().unwrap();
        running.stop.cancel();
        within_reason(running.served).await.unwrap();
    }

    /// Starts a coordinator on what the last one stored.
    pub(crate) async fn resume(&mut self) {
        assert!(self.running.is_none(), "stop it first");
        let coordinator = self.open_coordinator().await;
        self.serve(coordinator);
    }

    /// Stops the coordinator and starts another one on the same database: all that was in memory is gone.
    pub(crate) async fn restart(&mut self) {
        self.stop().await;
        self.resume().await;
    }

    /// Stops the coordinator and starts another one on an empty database, which knows none of the tokens.
    pub(crate) async fn lose_database(&mut self) {
        self.stop().await;
        self.store = Store::file();
        let coordinator = self.open_coordinator().await;
        self.operator = coordinator.first_operator_token().unwrap().expose();
        self.serve(coordinator);
        self.operate(Method::POST, "/populations", &json!({ "name": "devices" })).await.value();
    }

    pub(crate) fn app(&self) -> &Arc<App> {
        &self.running.as_ref().unwrap().app
    }

    /// Lets the driver do all that there is to do now.
    pub(crate) async fn drive(&self) -> Option<i64> {
        self.app().driver().run_once().await.unwrap()
    }

    /// Runs something that waits for the driver, which looks after each change.
    pub(crate) async fn driven<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        let mut changes = self.app().signals.watch();
        loop {
            self.drive().await;
            tokio::select! {
                done = &mut work => return done,
                changed = changes.changed() => changed.unwrap(),
            }
        }
    }

    /// Moves the clock on, then lets the driver act.
    pub(crate) async fn pass_ms(&self, by_ms: i64) {
        self.hand.advance_ms(by_ms);
        self.drive().await;
    }

    /// Waits until this many clients are held.
    pub(crate) async fn until_waiting(&self, clients: usize) {
        within_reason(self.until_held(|held| held == clients)).await;
    }

    /// Waits, for as long as it takes, until as many clients are held as this says.
    pub(crate) async fn until_held(&self, enough: impl Fn(usize) -> bool) {
        while !enough(self.app().fleet.lobby.len()) {
            self.app().signals.unknown_changed().await;
        }
    }

    pub(crate) fn server(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A request to any path, without a token.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.server()))
    }

    /// A request of the operator.
    pub(crate) fn operator_request(&self, method: Method, path: &str) -> RequestBuilder {
        self.request(method, &format!("/operator/v1{path}")).bearer_auth(&self.operator)
    }

    pub(crate) async fn operate(&self, method: Method, path: &str, body: &Value) -> Answer {
        Answer::to(self.operator_request(method, path).json(body)).await
    }

    pub(crate) async fn look(&self, path: &str) -> Answer {
        Answer::to(self.operator_request(Method::GET, path)).await
    }

    pub(crate) async fn token(&self, population: &str) -> CreatedToken {
        self.operate(Method::POST, "/tokens", &json!({ "kind": "enrolment", "population": population })).await.ok()
    }

    /// A token of an operator with a role, for one population or for all.
    pub(crate) async fn operator_token(&self, role: Role, population: Option<&str>) -> CreatedToken {
        let mut wanted = json!({ "kind": "operator", "role": role, "label": role });
        if let Some(population) = population {
            wanted["population"] = population.into();
        }
        self.operate(Method::POST, "/tokens", &wanted).await.ok()
    }

    /// Creates the job of [`job_file`] with these changes.
    pub(crate) async fn job(&self, changes: Value) -> Job {
        self.create_job(&job_file(&changes)).await.ok()
    }

    pub(crate) async fn create_job(&self, file: &Value) -> Answer {
        self.operate(Method::POST, "/jobs", &json!({ "job": file })).await
    }

    pub(crate) async fn job_now(&self, job: JobId) -> Job {
        self.look(&format!("/jobs/{job}")).await.ok()
    }

    pub(crate) async fn round(&self, job: JobId, number: u32) -> Round {
        self.round_of(job, "train", number).await
    }

    pub(crate) async fn evaluation(&self, job: JobId, number: u32) -> Round {
        self.round_of(job, "evaluate", number).await
    }

    pub(crate) async fn description(&self, job: JobId, number: u32) -> Round {
        self.round_of(job, "describe", number).await
    }

    async fn round_of(&self, job: JobId, task: &str, number: u32) -> Round {
        let path = format!("/jobs/{job}/rounds?task={task}&limit=1&after={}", number - 1);
        let page: Page<Round> = self.look(&path).await.ok();
        let round = page.items.into_iter().next().expect("the round exists");
        assert_eq!(round.number, number);
        round
    }

    pub(crate) async fn assignments(&self, job: JobId, number: u32) -> Vec<operator::Assignment> {
        let page: Page<operator::Assignment> =
            self.look(&format!("/jobs/{job}/rounds/{number}/assignments")).await.ok();
        page.items
    }

    /// The file of a model version.
    pub(crate) async fn model_file(&self, job: JobId, version: u32) -> Vec<u8> {
        let answer = self.look(&format!("/jobs/{job}/models/{version}")).await;
        assert_eq!(answer.status, 200, "version {version}");
        answer.body.to_vec()
    }

    /// The values of a model version.
    pub(crate) async fn weights(&self, job: JobId, version: u32) -> Vec<f32> {
        model_from_bytes(&self.model_file(job, version).await).unwrap().into_values()
    }

    /// Enrols a device.
    pub(crate) async fn device(&self) -> Device {
        self.enrolled_with(&self.enrolment).await
    }

    /// Enrols a device to which its token grants this attribute.
    pub(crate) async fn device_granted(&self, name: &str, value: &str) -> Device {
        self.enrolled_with(&self.token_granting(name, value).await).await
    }

    async fn enrolled_with(&self, token: &str) -> Device {
        let request = self.request(Method::POST, "/device/v1/clients").bearer_auth(token);
        let enrolled = Answer::to(request.json(&json!({}))).await.ok();
        Device::new(self.http.clone(), self.server(), &enrolled)
    }

    pub(crate) async fn devices<const N: usize>(&self) -> [Device; N] {
        let mut devices = Vec::new();
        for _ in 0..N {
            devices.push(self.device().await);
        }
        devices.try_into().unwrap()
    }

    /// Ends the quarantine of a device, if it is in one.
    pub(crate) async fn release(&self, device: &Device) {
        let path = format!("/clients/{}/standing", device.id);
        self.operate(Method::PUT, &path, &json!({ "standing": "active" })).await.value();
    }

    /// Checks these devices in, lets the driver draw, and answers what each of them got. Nobody else may be waiting.
    pub(crate) async fn gather(&self, devices: &[&Device]) -> Vec<Option<Assignment>> {
        let waiting: Vec<_> = devices.iter().map(|device| device.wait()).collect();
        self.until_waiting(devices.len()).await;
        self.drive().await;
        // Whoever was not drawn would wait for another round: time is up for them.
        self.app().fleet.lobby.call(devices.iter().map(|device| device.id));
        let mut work = Vec::new();
        for answer in waiting {
            work.push(match within_reason(answer).await.unwrap() {
                CheckInResponse::Assigned(assignment) => Some(*assignment),
                CheckInResponse::Retry { .. } => None,
            });
        }
        work
    }

    /// The same where everybody must be drawn.
    pub(crate) async fn assign<const N: usize>(&self, devices: [&Device; N]) -> [Assignment; N] {
        let work: Vec<_> = self.gather(&devices).await.into_iter().map(|work| work.expect("drawn")).collect();
        work.try_into().unwrap()
    }
}
