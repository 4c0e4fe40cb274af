//! What is recorded: sessions of the SDK, and requests by hand for what its sessions rarely do.

use std::sync::Arc;

use reqwest::Method;
use serde_json::json;
use tempfile::TempDir;
use tributary_client::examples::{MemoryExamples, RawTargets};
use tributary_client::{
    AlwaysOn, Client, ClientError, Freshness, LayerTrainer, Outcome, TrainError, Trainer, Transport,
};
use tributary_protocol::operator::{Job, Page};

use super::by_hand::{downloads, misplaced, refusals, relayed, resume, turned_away};
use super::exchange::Recorded;
use super::recording::Recorder;
use crate::support::{
    Adds, Answer, JumpingClock, Meanwhile, Scatters, World, bytes_of_tensors, evaluated_job, job_file, sdk_client,
    within_reason,
};

/// Parameters of the model whose updates are long enough to be resumed: of this many, also as a zstd frame.
const LARGE: usize = 400_000;
/// Parameters of the model whose versions are shorter as differences.
const SMALL: usize = 2_000;
/// After this time a client asks for a release again.
const ASKS_AGAIN_MS: u64 = 7_200_000;

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
    /// Calls that belong to other jobs.
    Misplaced,
    /// A record that a masked group cannot take.
    TurnedAway,
    /// The sum of a relay.
    Relayed,
    /// A client of SCAFFOLD, with the control vectors of the others.
    Corrected,
    /// An upload that breaks off and goes on, by a session.
    Broken,
    /// The same by hand, with mistakes.
    Resume,
    /// A model as the difference to the one before, and in pieces.
    Downloads,
    /// A released model, for a client that does not train.
    Released,
    /// The next release, as the difference to the one that the client has.
    Updated,
    /// A client that leaves.
    Leave,
}

impl Story {
    pub(super) const ALL: [Self; 15] = [
        Self::Train,
        Self::Evaluate,
        Self::Describe,
        Self::GiveUp,
        Self::Refusals,
        Self::Misplaced,
        Self::TurnedAway,
        Self::Relayed,
        Self::Corrected,
        Self::Broken,
        Self::Resume,
        Self::Downloads,
        Self::Released,
        Self::Updated,
        Self::Leave,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Evaluate => "evaluate",
            Self::Describe => "describe",
            Self::GiveUp => "give_up",
            Self::Refusals => "refusals",
            Self::Misplaced => "misplaced",
            Self::TurnedAway => "turned_away",
            Self::Relayed => "relayed",
            Self::Corrected => "corrected",
            Self::Broken => "broken",
            Self::Resume => "resume",
            Self::Downloads => "downloads",
            Self::Released => "released",
            Self::Updated => "updated",
            Self::Leave => "leave",
        }
    }

    /// How the session ends; none where there is no session.
    pub(super) fn outcome(self) -> Option<&'static str> {
        match self {
            Self::Train | Self::Corrected | Self::Broken => Some("contributed"),
            Self::Evaluate => Some("evaluated"),
            Self::Describe => Some("described"),
            Self::GiveUp => Some("gave up"),
            Self::Released => Some("released"),
            Self::Updated => Some("updated"),
            Self::Leave => Some("left"),
            _ => None,
        }
    }

    /// Whether the client of the recording can be played: where its update is kept.
    pub(super) fn is_kept(self) -> bool {
        self != Self::Broken
    }

    /// A world in which the story can be told.
    pub(super) async fn world(self) -> World {
        let mut world = World::start().await;
        match self {
            Self::Train | Self::GiveUp | Self::Refusals | Self::Misplaced | Self::Resume | Self::Leave => {
                world.job(json!({})).await;
            }
            Self::TurnedAway => {
                let mut file = job_file(&json!({
                    "round": { "updates_goal": 3, "updates_min": 3 },
                    "aggregation": { "combine": "uniform_mean" },
                    "secure_aggregation": {},
                }));
                file.as_object_mut().unwrap().remove("update");
                world.create_job(&file).await.value();
                others_wait(&world, 2).await;
            }
            Self::Relayed => {
                world.job(json!({ "round": { "updates_goal": 3, "updates_min": 1 } })).await;
                world.enrolment = world.relay_token().await;
            }
            Self::Downloads => {
                world.job(json!({ "download": { "delta": true } })).await;
                let device = world.device().await.reading(&["f32", "f16", "int8"]);
                let [work] = world.assign([&device]).await;
                device.contribute(&work, &[0.5; 6], 10).await;
                world.drive().await;
            }
            Self::Released => {
                world.job(json!({})).await;
                let device = world.device().await;
                let [work] = world.assign([&device]).await;
                device.contribute(&work, &[0.5; 6], 10).await;
                world.drive().await;
                release(&world, 1).await;
            }
            Self::Corrected => {
                let training = json!({
                    "epochs": null, "steps": 1, "algorithm": { "kind": "scaffold", "clients": 2 },
                });
                let aggregation = json!({ "combine": "uniform_mean" });
                world.job(json!({ "training": training, "aggregation": aggregation })).await;
                // The first round has no vectors yet.
                let folder = TempDir::new().unwrap();
                let client = sdk_client(&world, folder.path());
                played(&world, run(&client, &mut Adds::new(0.5).following())).await.unwrap();
            }
            Self::Broken => {
                let parameters = json!({ "parameters": [{ "name": "w", "shape": [LARGE] }] });
                let job = world.job(json!({ "model": parameters, "initial_model": "upload" })).await.head.id;
                let zeros = bytes_of_tensors(&[("w", &[LARGE], &vec![0.0; LARGE])], &[]);
                let upload = world.operator_request(Method::PUT, &format!("/jobs/{job}/models/0"));
                Answer::to(upload.body(zeros)).await.value();
            }
            Self::Updated => {
                world.job(json!({ "model": { "parameters": [{ "name": "w", "shape": [SMALL] }] } })).await;
                let folder = TempDir::new().unwrap();
                let (client, mut trainer) = (sdk_client(&world, folder.path()), Scatters(Adds::new(0.5)));
                for _ in 0..2 {
                    played(&world, run(&client, &mut trainer)).await.unwrap();
                }
                release(&world, 1).await;
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

    /// One session of this SDK, told in a word; with what happens meanwhile, where it is recorded.
    pub(super) async fn session(
        self,
        server: &str,
        token: &str,
        transport: Arc<dyn Transport>,
        live: Option<(&World, &Recorder)>,
    ) -> &'static str {
        let directory = TempDir::new().unwrap();
        let clock = Arc::new(JumpingClock::default());
        let builder = Client::builder(server, token).state_dir(directory.path()).transport(transport);
        let builder = builder.clock(Arc::clone(&clock) as Arc<_>);
        let builder = if self == Self::Evaluate { builder.attribute("evaluator", "yes") } else { builder };
        let client = builder.build().unwrap();
        let outcome = match self {
            Self::Released => {
                let released = client.released("stable", Freshness::Latest, &AlwaysOn).await;
                assert_eq!(released.unwrap().unwrap().card.version, 1);
                return "released";
            }
            Self::Updated => {
                let latest = async || client.released("stable", Freshness::Latest, &AlwaysOn).await.unwrap().unwrap();
                assert_eq!(latest().await.card.version, 1);
                clock.advance_ms(ASKS_AGAIN_MS);
                if let Some((world, recorder)) = live {
                    recorder.release(world, 2).await;
                }
                assert_eq!(latest().await.card.version, 2);
                return "updated";
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
            Self::Corrected => run(&client, &mut Adds::new(0.5).following()).await,
            Self::Broken => {
                if let Some((_, recorder)) = live {
                    recorder.breaks_off();
                }
                run(&client, &mut Scatters(Adds::new(0.5))).await
            }
            _ => run(&client, &mut Adds::new(0.5)).await,
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
            (Self::Misplaced, _) => Box::pin(misplaced(&world, &recorder)).await,
            (Self::TurnedAway, _) => Box::pin(turned_away(&world, &recorder)).await,
            (Self::Relayed, _) => Box::pin(relayed(&world, &recorder)).await,
            (Self::Resume, _) => Box::pin(resume(&world, &recorder)).await,
            (Self::Downloads, _) => Box::pin(downloads(&world, &recorder)).await,
            (_, expected) => {
                let way = Arc::clone(&recorder) as Arc<_>;
                let server = world.server();
                let session = self.session(&server, &world.enrolment, way, Some((&world, &recorder)));
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

/// Other clients of the first round, which wait for it.
async fn others_wait(world: &World, clients: usize) {
    for _ in 0..clients {
        world.device().await.wait();
    }
    world.until_waiting(clients).await;
}

/// An operator releases a version of the only job.
pub(super) async fn release(world: &World, version: u32) {
    let jobs: Page<Job> = world.look("/jobs?population=devices").await.ok();
    let wanted = json!({ "job": jobs.items[0].head.id, "version": version, "channel": "stable" });
    world.operate(Method::POST, "/releases", &wanted).await.value();
}

/// Something that the coordinator answers; the driver acts whenever a client waits.
pub(super) async fn played<T>(world: &World, work: impl Future<Output = T>) -> T {
    // Boxed: a story is many requests in one future, and the threads of tests have small stacks.
    let work = Box::pin(work);
    let driver = async {
        loop {
            world.until_held(|held| held > 0).await;
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
