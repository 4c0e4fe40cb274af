//! What is recorded: sessions of the SDK, and requests by hand for what its sessions rarely do.

use std::sync::Arc;

use reqwest::Method;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use serde_json::{Value, json};
use tempfile::TempDir;
use tributary_client::examples::{MemoryExamples, RawTargets};
use tributary_client::transport::Request;
use tributary_client::{
    AlwaysOn, Client, ClientError, Freshness, LayerTrainer, Outcome, TrainError, Trainer, Transport,
};
use tributary_protocol::device::{CheckInResponse, EnrolResponse, PARTIAL_UPLOAD, UPLOAD_COMPLETE, UPLOAD_OFFSET};
use tributary_protocol::digest::{REPR_DIGEST, repr_digest};
use tributary_protocol::hash::Sha256Hash;

use super::exchange::Recorded;
use super::old_client::UNKNOWN;
use super::recording::Recorder;
use crate::support::{Adds, JumpingClock, Meanwhile, World, delta_file, evaluated_job, job_file, within_reason};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Story {
    /// A session that trains.
    Train,
    /// One that evaluates.
    Evaluate,
    /// One that describes its table.
    Describe,
    /// One that has nothing to train with.
    GiveUp,
    /// What the coordinator refuses.
    Refusals,
    /// An upload that breaks off and goes on.
    Resume,
    /// A model as the difference to the one before, and in pieces.
    Downloads,
    /// A released model, for a client that does not train.
    Released,
    /// A client that leaves.
    Leave,
}

impl Story {
    pub(super) const ALL: [Self; 9] = [
        Self::Train,
        Self::Evaluate,
        Self::Describe,
        Self::GiveUp,
        Self::Refusals,
        Self::Resume,
        Self::Downloads,
        Self::Released,
        Self::Leave,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Evaluate => "evaluate",
            Self::Describe => "describe",
            Self::GiveUp => "give_up",
            Self::Refusals => "refusals",
            Self::Resume => "resume",
            Self::Downloads => "downloads",
            Self::Released => "released",
            Self::Leave => "leave",
        }
    }

    /// How the session ends; none where there is no session.
    pub(super) fn outcome(self) -> Option<&'static str> {
        match self {
            Self::Train => Some("contributed"),
            Self::Evaluate => Some("evaluated"),
            Self::Describe => Some("described"),
            Self::GiveUp => Some("gave up"),
            Self::Released => Some("released"),
            Self::Leave => Some("left"),
            Self::Refusals | Self::Resume | Self::Downloads => None,
        }
    }

    /// A world in which the story can be told.
    pub(super) async fn world(self) -> World {
        let world = World::start().await;
        match self {
            Self::Train | Self::GiveUp | Self::Refusals | Self::Resume | Self::Leave => {
                world.job(json!({})).await;
            }
            Self::Downloads => {
                world.job(json!({ "download": { "delta": true } })).await;
                let device = world.device().await.reading(&["f32", "f16", "int8"]);
                let [work] = world.assign([&device]).await;
                device.contribute(&work, &[0.5; 6], 10).await;
                world.drive().await;
            }
            Self::Released => {
                let job = world.job(json!({})).await.head.id;
                let device = world.device().await;
                let [work] = world.assign([&device]).await;
                device.contribute(&work, &[0.5; 6], 10).await;
                world.drive().await;
                let wanted = json!({ "job": job, "version": 1, "channel": "stable" });
                world.operate(Method::POST, "/releases", &wanted).await.value();
            }
            Self::Evaluate => {
                world.create_job(&evaluated_job(&json!({ "stop": { "rounds": 1 } }))).await.value();
                let device = world.device().await;
                let [work] = world.assign([&device]).await;
                device.contribute(&work, &[0.5; 6], 10).await;
                world.drive().await;
            }
            Self::Describe => {
                let mut file = job_file(&json!({}));
                file["model"] = json!({
                    "input": [1],
                    "layers": [{ "kind": "linear", "out_features": 2 }],
                    "inputs": {
                        "standardize": "federated",
                        "columns": [{ "name": "age" }],
                        "target": { "name": "stays", "classes": ["no", "yes"] },
                    },
                });
                world.create_job(&file).await.value();
            }
        }
        world
    }

    /// One session of this SDK, told in a word.
    pub(super) async fn session(self, server: &str, token: &str, transport: Arc<dyn Transport>) -> &'static str {
        let directory = TempDir::new().unwrap();
        let builder = Client::builder(server, token).state_dir(directory.path()).transport(transport);
        let builder = builder.clock(Arc::new(JumpingClock::default()));
        let builder = if self == Self::Evaluate { builder.attribute("evaluator", "yes") } else { builder };
        let client = builder.build().unwrap();
        let outcome = match self {
            Self::Released => {
                let released = client.released("stable", Freshness::Latest, &AlwaysOn).await;
                assert_eq!(released.unwrap().unwrap().card.version, 1);
                return "released";
            }
            Self::Leave => {
                client.enrol().await.unwrap();
                assert!(client.leave().await.unwrap(), "the coordinator knows");
                return "left";
            }
            Self::Describe => {
                let rows = MemoryExamples::from_rows(
                    1,
                    vec![20.0, 40.0, 60.0, 50.0, 30.0, 40.0],
                    RawTargets::Classes(vec![0, 1, 1, 1, 0, 0]),
                );
                run(&client, &mut LayerTrainer::new(Arc::new(rows.unwrap()))).await
            }
            Self::GiveUp => run(&client, &mut Meanwhile(Adds::new(0.5), || Err(TrainError::NoExamples))).await,
            Self::Train | Self::Evaluate | Self::Refusals | Self::Resume | Self::Downloads => {
                run(&client, &mut Adds::new(0.5)).await
            }
        };
        match outcome {
            Ok(Outcome::Contributed { .. }) => "contributed",
            Ok(Outcome::Evaluated { .. }) => "evaluated",
            Ok(Outcome::Described { .. }) => "described",
            Err(ClientError::Training(TrainError::NoExamples)) => "gave up",
            other => panic!("{}: {other:?}", self.name()),
        }
    }

    pub(super) async fn record(self) -> Recorded {
        let world = self.world().await;
        let recorder = Recorder::before(&world);
        match (self, self.outcome()) {
            (Self::Refusals, _) => Box::pin(refusals(&world, &recorder)).await,
            (Self::Resume, _) => Box::pin(resume(&world, &recorder)).await,
            (Self::Downloads, _) => Box::pin(downloads(&world, &recorder)).await,
            (_, expected) => {
                let way = Arc::clone(&recorder) as Arc<_>;
                let server = world.server();
                let session = self.session(&server, &world.enrolment, way);
                let outcome = played(&world, session).await;
                assert_eq!(Some(outcome), expected, "{}", self.name());
            }
        }
        recorder.recorded()
    }
}

async fn run<T: Trainer>(client: &Client, trainer: &mut T) -> Result<Outcome, ClientError> {
    client.run_once(trainer, &AlwaysOn).await
}

/// Something that the coordinator answers; the driver acts whenever a client waits.
pub(super) async fn played<T>(world: &World, work: impl Future<Output = T>) -> T {
    // Boxed: a story is many requests in one future, and the threads of tests have small stacks.
    let work = Box::pin(work);
    let driver = async {
        loop {
            world.until_waiting(1).await;
            world.drive().await;
        }
    };
    let outcome = within_reason(async {
        tokio::select! { done = work => done, () = driver => unreachable!() }
    })
    .await;
    world.drive().await;
    outcome
}

/// Requests that are made by hand.
struct Hand<'a> {
    world: &'a World,
    recorder: &'a Recorder,
    secret: String,
}

impl Hand<'_> {
    /// Sends a request and expects this status. The answer's body.
    async fn send(&self, call: (Method, &str), headers: &[(&str, &str)], body: Vec<u8>, status: u16) -> Vec<u8> {
        let (method, path) = call;
        let mut request = Request {
            method,
            url: format!("{}/device/v1{path}", self.world.server()),
            headers: [(AUTHORIZATION, format!("Bearer {}", self.secret).parse::<HeaderValue>().unwrap())]
                .into_iter()
                .collect(),
            body: body.into(),
        };
        for (name, value) in headers {
            request.headers.insert(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        let sent = played(self.world, self.recorder.send(request)).await.unwrap();
        assert_eq!(sent.status.as_u16(), status, "{path}");
        let pieces: Vec<axum::body::Bytes> = futures_util::TryStreamExt::try_collect(sent.body).await.unwrap();
        pieces.concat()
    }

    async fn json(&self, call: (Method, &str), body: &Value, status: u16) -> Vec<u8> {
        self.send(call, &[("content-type", "application/json")], body.to_string().into_bytes(), status).await
    }

    async fn enrolled<'a>(world: &'a World, recorder: &'a Recorder) -> Hand<'a> {
        let newcomer = Hand { world, recorder, secret: world.enrolment.clone() };
        newcomer.send((Method::GET, "/jobs"), &[], Vec::new(), 200).await;
        let request = json!({ "attributes": { "platform": "linux" } });
        let enrolled = newcomer.json((Method::POST, "/clients"), &request, 200).await;
        let enrolled: EnrolResponse = serde_json::from_slice(&enrolled).unwrap();
        Hand { secret: enrolled.secret.expose(), ..newcomer }
    }

    async fn work(&self) -> Box<tributary_protocol::device::Assignment> {
        let request = json!({
            "state": { "examples": 4 }, "sdk_version": "by hand", "codecs": ["f32", "f16", "int8"],
            "wait_ms": 60_000,
        });
        let answer = self.json((Method::POST, "/checkins"), &request, 200).await;
        match serde_json::from_slice(&answer).unwrap() {
            CheckInResponse::Assigned(assignment) => assignment,
            other => panic!("{other:?}"),
        }
    }
}

const FIGURES: &str = "weight=4&loss=0.75&steps=1&train_ms=12";

async fn refusals(world: &World, recorder: &Recorder) {
    let known = Hand::enrolled(world, recorder).await;
    let stranger = Hand { world, recorder, secret: UNKNOWN.to_owned() };
    let request = json!({ "state": { "examples": 4 }, "sdk_version": "by hand", "codecs": ["f32"] });
    stranger.json((Method::POST, "/checkins"), &request, 401).await;
    stranger.json((Method::POST, "/clients"), &json!({}), 403).await;
    known.json((Method::POST, "/checkins"), &json!({ "state": 7 }), 400).await;
    known.json((Method::POST, "/nothing"), &json!({}), 404).await;
    known.json((Method::PUT, "/checkins"), &json!({}), 405).await;
    known.send((Method::POST, "/secret"), &[], Vec::new(), 200).await;
    let work = known.work().await;
    let path = |rest: &str| format!("/assignments/{}{rest}", work.id);
    let evaluation = json!({ "examples": 4, "loss": 0.5, "evaluate_ms": 3 });
    known.json((Method::PUT, &path("/evaluation")), &evaluation, 409).await;
    known.send((Method::GET, &path("")), &[], Vec::new(), 200).await;
    known.send((Method::PUT, &path(&format!("/update?{FIGURES}"))), &[], b"no update".to_vec(), 422).await;
    known.send((Method::GET, &path("")), &[], Vec::new(), 422).await;
    recorder.pass_ms(world, 20_000).await;
    let late = known.work().await;
    recorder.pass_ms(world, 20_000).await;
    let update = format!("/assignments/{}/update?{FIGURES}", late.id);
    known.send((Method::PUT, &update), &[], delta_file(&late, &[0.5; 6]), 410).await;
}

async fn resume(world: &World, recorder: &Recorder) {
    let client = Hand::enrolled(world, recorder).await;
    let work = client.work().await;
    let model = format!("/jobs/{}/models/{}", work.job, work.model_version);
    client.send((Method::GET, &model), &[], Vec::new(), 200).await;
    let body = delta_file(&work, &[0.5; 6]);
    let digest = repr_digest(Sha256Hash::of(&body));
    let update = format!("/assignments/{}/update", work.id);
    let sent = format!("{update}?{FIGURES}");
    let part = body[..200].to_vec();
    client.send((Method::PUT, &sent), &[(REPR_DIGEST, &digest), (UPLOAD_COMPLETE, "?0")], part, 204).await;
    client.send((Method::HEAD, &update), &[], Vec::new(), 204).await;
    for (offset, status) in [(100, 409), (200, 200)] {
        let at = offset.to_string();
        let headers =
            [("content-type", PARTIAL_UPLOAD), (REPR_DIGEST, &digest), (UPLOAD_OFFSET, &at), (UPLOAD_COMPLETE, "?1")];
        client.send((Method::PATCH, &sent), &headers, body[offset..].to_vec(), status).await;
    }
    client.send((Method::HEAD, &update), &[], Vec::new(), 204).await;
    client.send((Method::PUT, &sent), &[], body, 200).await;
}

async fn downloads(world: &World, recorder: &Recorder) {
    let client = Hand::enrolled(world, recorder).await;
    let work = client.work().await;
    let model = format!("/jobs/{}/models/{}", work.job, work.model_version);
    client.send((Method::GET, &format!("{model}/delta")), &[], Vec::new(), 200).await;
    client.send((Method::GET, &format!("{model}?form=f32")), &[], Vec::new(), 200).await;
    client.send((Method::GET, &model), &[("range", "bytes=100-")], Vec::new(), 206).await;
    client.send((Method::GET, &model), &[("range", "bytes=100000-")], Vec::new(), 416).await;
    client.json((Method::POST, &format!("/assignments/{}/failure", work.id)), &json!({ "reason": "other" }), 200).await;
}
