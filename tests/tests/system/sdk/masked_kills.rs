//! Clients of a masked job whose processes are killed at any request of their exchange.
//!
//! Goal: a client that comes back with the same state folder goes on where it was. Nobody trains or masks twice, gives
//! both secrets of a neighbour, or counts twice. Method: at the moment of its death a client's session is dropped with
//! the client, before the coordinator gets the request or after it has answered. Then a new client runs.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::Notify;
use tributary_client::transport::{Request, Response, TransportError};
use tributary_client::{AlwaysOn, Client, HttpTransport, Outcome, Transport};
use tributary_protocol::operator::{Job, RoundDetail};
use tributary_protocol::secure::Survivors;
use tributary_protocol::seed::Seed;
use tributary_protocol::state::{GroupStage, Phase};

use crate::support::{
    Adds, Exchanges, JumpingClock, World, call_of, directory_in_memory, draw_everybody, job_file, within_reason,
};

const CLIENTS: usize = 5;
/// Requests of a session that is not disturbed: check-in, model, and five of the exchange.
const REQUESTS: u32 = 7;

/// When a client is killed.
#[derive(Clone, Copy, Debug)]
struct Death {
    /// The number of the request, from 0, over all sessions of the round.
    request: u32,
    /// Whether the request was handled. Its answer is lost.
    is_handled: bool,
}

/// What a client adds to every weight. The sum of some says which ones they are.
fn step(client: usize) -> f32 {
    0.5 / (1 << client) as f32
}

/// The HTTP transport of a client that is killed at some requests.
#[derive(Debug)]
struct Mortal {
    http: HttpTransport,
    exchanges: Arc<Exchanges>,
    deaths: Vec<Death>,
    sent: AtomicU32,
    died: Notify,
}

impl Mortal {
    /// The client is dropped at this point.
    async fn die(&self) -> ! {
        self.died.notify_one();
        std::future::pending().await
    }
}

impl Transport for Mortal {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, TransportError>> {
        Box::pin(async move {
            let number = self.sent.fetch_add(1, Ordering::SeqCst);
            let death = self.deaths.iter().find(|death| death.request == number);
            let url = request.url.clone();
            self.exchanges.sent(&request.method, &url, &request.body);
            if death.is_some_and(|death| !death.is_handled) {
                self.die().await;
            }
            let response = self.http.send(request).await?;
            if call_of(&url).is_none() && death.is_none() {
                return Ok(response);
            }
            let Response { status, headers, body } = response;
            let pieces: Vec<_> = body.try_collect().await?;
            let body = pieces.concat();
            self.exchanges.told(&url, status, &body);
            if death.is_some() {
                self.die().await;
            }
            Ok(Response { status, headers, body: stream::once(async { Ok(body.into()) }).boxed() })
        })
    }
}

/// A world with a masked job, and clients.
struct Scene {
    world: World,
    job: Job,
    folders: Vec<TempDir>,
    trainers: Vec<Mutex<Adds>>,
    exchanges: Arc<Exchanges>,
    rounds: u32,
}

impl Scene {
    async fn start() -> Self {
        let world = World::start().await;
        let mut file = job_file(&json!({
            "round": { "updates_goal": CLIENTS, "updates_min": 3 },
            "aggregation": { "combine": "uniform_mean" },
            "secure_aggregation": { "clip": 2.0, "levels": 4_096 },
        }));
        file.as_object_mut().unwrap().remove("update");
        let job: Job = world.create_job(&file).await.ok();
        let folders: Vec<_> = (0..CLIENTS).map(|_| directory_in_memory()).collect();
        let trainers = (0..CLIENTS).map(|client| Mutex::new(Adds::new(step(client)))).collect();
        let scene = Self { world, job, folders, trainers, exchanges: Arc::default(), rounds: 0 };
        for folder in &scene.folders {
            let http = Arc::new(HttpTransport::new(scene.world.http.clone()));
            // The coordinator learns how many examples it has.
            let mut trainer = Adds::new(0.0);
            scene.client(folder.path(), http).run_once(&mut trainer, &AlwaysOn).await.unwrap();
        }
        scene
    }

    /// A client that does not wait for work.
    fn client(&self, folder: &Path, transport: Arc<dyn Transport>) -> Client {
        let builder = Client::builder(self.world.server(), self.world.enrolment.clone()).state_dir(folder);
        let builder = builder.transport(transport).clock(Arc::new(JumpingClock::default())).wait(Duration::ZERO);
        builder.build().unwrap()
    }

    /// Runs sessions of a client until one of them ends by itself.
    async fn session(&self, client: usize, deaths: &[Death]) -> Outcome {
        let (http, exchanges) = (HttpTransport::new(self.world.http.clone()), Arc::clone(&self.exchanges));
        let (deaths, sent, died) = (deaths.to_vec(), AtomicU32::new(0), Notify::new());
        let mortal = Arc::new(Mortal { http, exchanges, deaths, sent, died });
        let folder: &Path = self.folders[client].path();
        let mut trainer = self.trainers[client].lock().unwrap().clone();
        let outcome = loop {
            let client = self.client(folder, Arc::clone(&mortal) as Arc<_>);
            tokio::select! {
                outcome = client.run_once(&mut trainer, &AlwaysOn) => break outcome.unwrap(),
                () = mortal.died.notified() => {}
            }
        };
        *self.trainers[client].lock().unwrap() = trainer;
        outcome
    }

    /// Plays a round in which clients are killed, and checks it.
    async fn play(&mut self, deaths: &[Vec<Death>; CLIENTS]) {
        self.rounds += 1;
        let (scene, round) = (&*self, self.rounds);
        draw_everybody(&scene.world).await;
        let sessions = deaths.iter().enumerate().map(|(client, deaths)| scene.session(client, deaths));
        let outcomes = within_reason(scene.world.driven(join_all(sessions))).await;
        let contributed = |outcome: &Outcome| matches!(outcome, Outcome::Contributed { .. });
        assert!(outcomes.iter().all(contributed), "round {round}, {deaths:?}: {outcomes:?}");
        scene.world.drive().await;
        let detail: RoundDetail = scene.world.look(&format!("/jobs/{}/rounds/{round}", scene.job.head.id)).await.ok();
        assert_eq!((detail.round.phase, detail.round.reported), (Phase::Committed, CLIENTS as u32), "{deaths:?}");
        assert!(detail.groups.len() == 1 && detail.groups[0].stage == GroupStage::Summed, "{deaths:?}");
        for client in &scene.trainers {
            assert_eq!(client.lock().unwrap().trained, round, "nobody trains twice: {deaths:?}");
        }
        let told = scene.exchanges.check();
        assert_eq!(told[&detail.groups[0].id], Survivors::new(CLIENTS as u16, 0..CLIENTS as u16), "{deaths:?}");
        let mean = (0..CLIENTS).map(step).sum::<f32>() / CLIENTS as f32;
        let [before, after] = [scene.weights(round - 1).await, scene.weights(round).await];
        for (before, after) in before.iter().zip(&after) {
            assert!((after - before - mean).abs() < 1e-3, "{} instead of {mean}: {deaths:?}", after - before);
        }
        for folder in &scene.folders {
            assert!(!folder.path().join("member.json").exists(), "the keys of a group end with it: {deaths:?}");
        }
    }

    async fn weights(&self, version: u32) -> Vec<f32> {
        self.world.weights(self.job.head.id, version).await
    }
}

#[tokio::test]
async fn a_member_that_is_killed_at_any_of_its_requests_goes_on_and_counts_once() {
    let mut scene = Scene::start().await;
    for request in 0..REQUESTS {
        for is_handled in [false, true] {
            let mut deaths = [const { Vec::new() }; CLIENTS];
            deaths[request as usize % CLIENTS].push(Death { request, is_handled });
            scene.play(&deaths).await;
        }
    }
    scene.world.check_books(scene.job.head.id).await;
}

/// Rounds with about three deaths each: 60 of them under CI.
#[tokio::test]
async fn members_that_are_killed_at_seeded_requests_go_on_and_count_once() {
    let rounds = if std::env::var_os("CI").is_some_and(|ci| ci == "true") { 10 } else { 5 };
    let mut scene = Scene::start().await;
    let mut stream = Seed(23).stream();
    for _ in 0..rounds {
        let mut deaths = [const { Vec::new() }; CLIENTS];
        for _ in 0..3 {
            // Sessions after a death have requests of their own.
            let death = Death { request: stream.below(10) as u32, is_handled: stream.below(2) == 0 };
            deaths[stream.below(CLIENTS as u64) as usize].push(death);
        }
        scene.play(&deaths).await;
    }
    scene.world.check_books(scene.job.head.id).await;
}
