//! The model that an app predicts with, whether or not its device trains.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use axum::body::Bytes;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tributary_client::transport::{Request, Response, TransportError};
use tributary_client::{
    AlwaysOn, Client, EvaluateTask, Evaluated, Freshness, HttpTransport, MemoryStore, Outcome, TrainError, TrainTask,
    Trained, Trainer, Transport,
};
use tributary_protocol::id::JobId;
use tributary_protocol::operator::{Client as Enrolled, HeldRelease, Job, Page, Release};
use tributary_protocol::seed::Seed;

use super::session;
use super::usable::{Remembers, client_of};
use crate::support::{JumpingClock, World, job_file, sdk_client, sdk_client_at};

/// Parameters of the network: differences to it are shorter than the whole.
const PARAMETERS: usize = 201 * 100;

fn network() -> Value {
    let mut file = job_file(&json!({}));
    file["model"] = json!({ "input": [200], "layers": [{ "kind": "linear", "out_features": 100 }] });
    file
}

/// "Trains" by adding numbers that do not shrink.
struct Drifts(u64);

impl Trainer for Drifts {
    fn examples(&self) -> u64 {
        10
    }

    fn train(&mut self, task: &TrainTask<'_>, _: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        self.0 += 1;
        let mut stream = Seed(self.0).stream();
        let values = task.model.values().iter().map(|value| value + stream.uniform(-0.1, 0.1)).collect();
        Ok(Trained::new(values, 10, 1, 0.5))
    }

    fn evaluate(&mut self, _: &EvaluateTask<'_>, _: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        Ok(Evaluated::new(10, 0.5))
    }
}

/// A job with this many versions beside the first.
async fn trained(world: &World, versions: u32) -> JobId {
    let job: Job = world.create_job(&network()).await.ok();
    let (folder, mut trainer) = (TempDir::new().unwrap(), Drifts(0));
    let client = sdk_client(world, folder.path());
    for _ in 0..versions {
        let outcome = session(world, &client, &mut trainer).await.unwrap();
        assert!(matches!(outcome, Outcome::Contributed { .. }), "{outcome:?}");
    }
    job.head.id
}

async fn release(world: &World, job: JobId, version: u32) -> Release {
    let wanted = json!({ "job": job, "version": version, "channel": "stable" });
    world.operate(Method::POST, "/releases", &wanted).await.ok()
}

/// Counts what comes down, and damages bodies of models while it should.
#[derive(Debug)]
struct Counts {
    http: HttpTransport,
    bytes: AtomicU64,
    damages: AtomicBool,
}

impl Counts {
    fn new(world: &World) -> Arc<Self> {
        let http = HttpTransport::new(world.http.clone());
        Arc::new(Self { http, bytes: AtomicU64::new(0), damages: AtomicBool::new(false) })
    }
}

/// The transport of the client, over the counting one.
#[derive(Debug, Clone)]
struct Through(Arc<Counts>);

impl Transport for Through {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, TransportError>> {
        Box::pin(async move {
            let is_file = request.url.contains("/releases/");
            let Response { status, headers, body } = self.0.http.send(request).await?;
            let counts = Arc::clone(&self.0);
            let damages = is_file && counts.damages.load(Ordering::SeqCst);
            let body = body.map(move |piece| {
                let mut piece = piece?.to_vec();
                counts.bytes.fetch_add(piece.len() as u64, Ordering::SeqCst);
                if let Some(last) = piece.last_mut().filter(|_| damages) {
                    *last ^= 1;
                }
                Ok(Bytes::from(piece))
            });
            Ok(Response { status, headers, body: body.boxed() })
        })
    }
}

/// Goal: a device that never trains has the newest release, downloads differences where it has a base, and keeps what
/// it has when a download is bad or nobody answers. Method: three releases, a step back; the bits are those of a client
/// that downloads the whole; the bytes are counted.
#[tokio::test]
async fn a_device_that_never_trains_has_its_release() {
    let world = World::start().await;
    let job = trained(&world, 3).await;
    let (folder, counts) = (TempDir::new().unwrap(), Counts::new(&world));
    let clock = Arc::new(JumpingClock::default());
    let client = sdk_client_at(&world, folder.path(), Arc::new(Through(Arc::clone(&counts))), Arc::clone(&clock));
    let get = async |freshness| client.released("stable", freshness, &AlwaysOn).await;
    let later = || {
        clock.advance_ms(7_200_000);
        world.hand.advance_ms(7_200_000);
        counts.bytes.swap(0, Ordering::SeqCst)
    };
    assert!(get(Freshness::Latest).await.unwrap().is_none());
    let first = release(&world, job, 1).await;
    assert!(get(Freshness::Latest).await.unwrap().is_none(), "it asks when it may, and not before");
    later();
    assert!(get(Freshness::Local).await.unwrap().is_none());
    let here = get(Freshness::LocalThenUpdate).await.unwrap().unwrap();
    assert_eq!((here.number, here.card.version, here.model.values().len()), (1, 1, PARAMETERS));
    assert_eq!(here.usable().unwrap().predict(&[0.5; 200]).unwrap().outputs.len(), 100);
    let whole = later();
    assert!(whole > first.bytes, "{whole}");
    // The next one by its differences, a session later: the app has the old one at once.
    let second = release(&world, job, 2).await;
    let here = get(Freshness::LocalThenUpdate).await.unwrap().unwrap();
    assert_eq!(here.number, 1);
    assert!(client.update_releases(&AlwaysOn).await.unwrap() > std::time::Duration::ZERO, "it follows none");
    assert_eq!(get(Freshness::Latest).await.unwrap().unwrap().number, 2);
    let by_difference = later();
    assert!(by_difference * 10 < first.bytes * 3, "{by_difference} of {}", first.bytes);
    let other = TempDir::new().unwrap();
    let fresh = sdk_client(&world, other.path()).released("stable", Freshness::Latest, &AlwaysOn).await.unwrap();
    assert_eq!(fresh.unwrap(), get(Freshness::Local).await.unwrap().unwrap(), "the same bits");
    // A bad download leaves it, and is made good later.
    counts.damages.store(true, Ordering::SeqCst);
    let third = release(&world, job, 3).await;
    world.hand.advance_ms(2_000);
    assert_eq!(get(Freshness::Latest).await.unwrap().unwrap().number, 2);
    counts.damages.store(false, Ordering::SeqCst);
    later();
    assert_eq!(get(Freshness::Latest).await.unwrap().unwrap().number, 3);
    // The operator takes it back.
    world.operate(Method::POST, &format!("/releases/{}/withdraw", third.id), &json!({})).await.value();
    later();
    assert_eq!(get(Freshness::Latest).await.unwrap().unwrap().number, 2);
    world.operate(Method::POST, &format!("/releases/{}/withdraw", second.id), &json!({})).await.value();
    world.operate(Method::POST, &format!("/releases/{}/withdraw", first.id), &json!({})).await.value();
    let offline = Client::builder("http://127.0.0.1:1", world.enrolment.clone()).state_dir(other.path());
    let offline = offline.build().unwrap().released("stable", Freshness::Local, &AlwaysOn).await.unwrap();
    assert_eq!(offline.unwrap().number, 2, "it is used without a network");
    later();
    assert!(get(Freshness::Latest).await.unwrap().is_none(), "there is none to go back to");
}

/// Goal: a client that trains gets releases with its check-ins, and operators see what it has.
#[tokio::test]
async fn a_client_that_trains_gets_releases_with_its_check_ins() {
    let world = World::start().await;
    let job = trained(&world, 1).await;
    release(&world, job, 1).await;
    let builder = Client::builder(world.server(), world.enrolment.clone()).channel("stable").channel("beta");
    let transport = Arc::new(HttpTransport::new(world.http.clone()));
    let store = Arc::new(MemoryStore::new());
    let builder = builder.transport(transport).store(store).clock(Arc::new(JumpingClock::default()));
    let client = builder.build().unwrap();
    session(&world, &client, &mut Drifts(9)).await.unwrap();
    let here = client.released("stable", Freshness::Local, &AlwaysOn).await.unwrap().unwrap();
    assert_eq!(here.card.version, 1);
    assert!(client.released("beta", Freshness::Local, &AlwaysOn).await.unwrap().is_none());
    let id = client.enrol().await.unwrap();
    let seen: Enrolled = world.look(&format!("/clients/{id}")).await.ok();
    let held: Vec<(String, u32, u32)> =
        seen.releases.iter().map(|held: &HeldRelease| (held.channel.to_string(), held.number, held.version)).collect();
    assert_eq!(held, [("stable".to_owned(), 1, 1)]);
    assert!(client.leave().await.unwrap());
    let listed: Page<Release> = world.look("/releases?population=devices").await.ok();
    assert_eq!(listed.items[0].clients, 0, "it has left");
}

/// Goal: a process that dies at any moment of a download has the old or the new release.
#[tokio::test]
async fn a_client_that_died_at_any_moment_has_the_old_or_the_new_release() {
    let world = World::start().await;
    let job = trained(&world, 2).await;
    let store = Remembers::of(BTreeMap::new());
    let mut before = 0;
    for version in 1..=2 {
        before = store.moments.lock().unwrap().len();
        release(&world, job, version).await;
        let client = client_of(&world, Arc::clone(&store));
        let here = client.released("stable", Freshness::Latest, &AlwaysOn).await.unwrap().unwrap();
        assert_eq!(here.card.version, version);
    }
    let moments: Vec<_> = store.moments.lock().unwrap()[before - 1..].to_vec();
    let mut versions = Vec::new();
    for entries in moments {
        let client = client_of(&world, Remembers::of(entries));
        let here = client.released("stable", Freshness::Local, &AlwaysOn).await.unwrap();
        versions.push(here.expect("there is one at every moment").card.version);
    }
    assert!(versions.is_sorted() && versions[0] == 1 && versions.ends_with(&[2]), "{versions:?}");
}
