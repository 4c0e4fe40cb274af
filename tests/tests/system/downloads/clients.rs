//! The SDK's way down: from its cache, by steps, or as a whole; the same bits in every client of a round.

use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{StreamExt, TryStreamExt};
use serde_json::{Value, json};
use tempfile::TempDir;
use tributary_client::transport::{Request, Response, TransportError};
use tributary_client::{
    AlwaysOn, Client, EvaluateTask, Evaluated, HttpTransport, Outcome, TrainError, TrainTask, Trained, Trainer,
    Transport,
};
use tributary_engine::round::Candidate;
use tributary_protocol::abilities::Abilities;
use tributary_protocol::example_sets::ExampleSets;
use tributary_protocol::operator::{Client as Enrolled, Job, Page};
use tributary_protocol::state::Phase;
use tributary_protocol::update::CodecName;

use super::bits_of;
use crate::support::{Adds, World, http, job_file, sdk_client, sdk_client_over, within_reason};

/// Values of the model: enough that headers do not matter.
const VALUES: usize = 20_000;
/// Clients of a round.
const CLIENTS: usize = 5;

/// Notes where it began, and moves every weight by an amount of its own.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<Vec<u32>>>>);

impl Trainer for Notes {
    fn examples(&self) -> u64 {
        10
    }

    fn train(&mut self, task: &TrainTask<'_>, _: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        self.0.lock().unwrap().push(bits_of(task.model.values()));
        let mut stream = task.seed.stream();
        let values = task.model.values().iter().map(|value| value + stream.uniform(-0.1, 0.1)).collect();
        Ok(Trained::new(values, 10, 1, 0.5))
    }

    fn evaluate(&mut self, task: &EvaluateTask<'_>, _: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        self.0.lock().unwrap().push(bits_of(task.model.values()));
        Ok(Evaluated::new(10, 0.5).with_accuracy(0.75))
    }
}

fn job(download: Value) -> Value {
    job_file(&json!({
        "model": { "parameters": [{ "name": "w", "shape": [100, 190] }, { "name": "b", "shape": [1000] }] },
        "round": { "updates_goal": CLIENTS, "updates_min": CLIENTS, "deadline_ms": 100_000 },
        "download": download,
    }))
}

/// A way to the coordinator that turns one bit in every piece of a model delta.
#[derive(Debug)]
struct Damaging(HttpTransport);

impl Transport for Damaging {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, TransportError>> {
        Box::pin(async move {
            let damages = request.url.ends_with("/delta");
            let mut response = self.0.send(request).await?;
            if damages {
                response.body = response.body.map_ok(damaged).boxed();
            }
            Ok(response)
        })
    }
}

fn damaged(piece: Bytes) -> Bytes {
    let mut bytes = piece.to_vec();
    if let Some(last) = bytes.last_mut() {
        *last ^= 1;
    }
    bytes.into()
}

struct Fleet {
    clients: Vec<Client>,
    directories: Vec<TempDir>,
    notes: Vec<Notes>,
}

impl Fleet {
    /// Enrolled one after another; the last one's way to the coordinator turns bits in steps.
    async fn of(world: &World) -> Self {
        let mut fleet = Self { clients: Vec::new(), directories: Vec::new(), notes: Vec::new() };
        for number in 0..CLIENTS {
            let directory = TempDir::new().unwrap();
            let http = HttpTransport::new(http());
            let transport: Arc<dyn Transport> =
                if number + 1 == CLIENTS { Arc::new(Damaging(http)) } else { Arc::new(http) };
            let client = sdk_client_over(world, directory.path(), transport);
            client.enrol().await.unwrap();
            fleet.clients.push(client);
            fleet.directories.push(directory);
            fleet.notes.push(Notes::default());
        }
        fleet
    }

    /// One round of all of them: each begins where the version's file says, bit for bit. Answers what each one fetched.
    async fn play(&mut self, world: &World, job: &Job, round: u32) -> Vec<u64> {
        draw_everybody(world).await;
        for (client, notes) in self.clients.iter().zip(&mut self.notes) {
            let outcome = within_reason(client.run_once(notes, &AlwaysOn)).await.unwrap();
            assert!(matches!(outcome, Outcome::Contributed { .. }), "{outcome:?}");
        }
        world.drive().await;
        assert_eq!(world.round(job.head.id, round).await.phase, Phase::Committed);
        let began: Vec<_> = self.notes.iter().map(|notes| notes.0.lock().unwrap().pop().unwrap()).collect();
        assert!(began.windows(2).all(|pair| pair[0] == pair[1]), "round {round}");
        if job.file.download.codec == tributary_protocol::download::ModelForm::F32 {
            assert!(began[0] == bits_of(&world.weights(job.head.id, round - 1).await), "round {round}");
        }
        world.assignments(job.head.id, round).await.iter().map(|assignment| assignment.traffic.bytes_down).collect()
    }

    fn set_cache(&self, client: usize, model: Option<&[u8]>) {
        let path = self.directories[client].path().join("model.safetensors");
        match model {
            Some(model) => std::fs::write(path, model).unwrap(),
            None => std::fs::remove_file(path).unwrap(),
        }
    }
}

/// Lets everybody be drawn; each finds its assignment at its next check-in.
async fn draw_everybody(world: &World) {
    let enrolled: Page<Enrolled> = world.look("/clients?population=devices").await.ok();
    assert_eq!(enrolled.items.len(), CLIENTS);
    let seats: Vec<_> = enrolled
        .items
        .into_iter()
        .map(|client| {
            let candidate = Candidate {
                client: client.id,
                number: client.number,
                attributes: client.attributes,
                examples: 10,
                sets: ExampleSets::default(),
                codecs: CodecName::ALL.to_vec(),
                abilities: Abilities::FIRST,
                schema: None,
                answers: false,
                masks: false,
                signs: false,
                relay: None,
                share: None,
            };
            world.app().fleet.lobby.enter(client.population, Arc::new(candidate))
        })
        .collect();
    world.drive().await;
    drop(seats);
}

/// Goal: whoever is up to date fetches steps, whoever is not fetches the model; all begin with the same bits.
/// Method: before each round the caches are set as if their clients had missed rounds.
#[tokio::test]
async fn clients_with_and_without_the_versions_before_begin_with_the_same_bits() {
    let mut world = World::start().await;
    let job: Job = world.create_job(&job(json!({ "delta": true }))).await.ok();
    let mut fleet = Fleet::of(&world).await;
    let whole = world.model_file(job.head.id, 0).await.len() as u64;
    assert_eq!(fleet.play(&world, &job, 1).await, [whole; CLIENTS]);
    let second = fleet.play(&world, &job, 2).await;
    let step = second[0];
    assert!(step * 100 < whole * 27, "a step of {step} bytes, a model of {whole}");
    assert_eq!(second, [step, step, step, step, step + whole], "the damaged step is fetched once, then the model");

    for round in 3..=6 {
        world.restart().await;
        fleet.play(&world, &job, round).await;
    }
    // 0: up to date. 1: missed one round. 2: missed five. 3: has nothing, or another file.
    for (round, other) in [(7, None), (8, Some(&b"no model at all"[..]))] {
        fleet.set_cache(1, Some(&world.model_file(job.head.id, round - 3).await));
        fleet.set_cache(2, Some(&world.model_file(job.head.id, round - 7).await));
        fleet.set_cache(3, other);
        let fetched = fleet.play(&world, &job, round).await;
        let two = fetched[1];
        assert!(fetched[0] < two && two * 100 < whole * 54, "{fetched:?}");
        assert_eq!(fetched[2..4], [whole, whole], "{fetched:?}");
        let round = world.round(job.head.id, round).await;
        // A chain of steps stands for one model; the last client was sent a step in vain.
        assert_eq!(round.traffic.raw_bytes_down, (CLIENTS as u64 + 1) * whole);
        assert_eq!(round.traffic.bytes_down, fetched.iter().sum::<u64>());
    }
    // The longest chain: three steps.
    fleet.set_cache(1, Some(&world.model_file(job.head.id, 5).await));
    let fetched = fleet.play(&world, &job, 9).await;
    assert!(fetched[1] > 2 * fetched[0] && fetched[1] < whole, "{fetched:?}");
    world.check_books(job.head.id).await;
}

/// Goal: steps that are gone, or lead elsewhere than they should, cost a download and nothing else.
#[tokio::test]
async fn a_step_that_is_gone_or_wrong_is_as_good_as_none() {
    let world = World::start().await;
    let job: Job = world.create_job(&job(json!({ "delta": true }))).await.ok();
    let mut fleet = Fleet::of(&world).await;
    let whole = world.model_file(job.head.id, 0).await.len() as u64;
    fleet.play(&world, &job, 1).await;
    fleet.play(&world, &job, 2).await;
    for client in 0..CLIENTS {
        fleet.set_cache(client, Some(&world.model_file(job.head.id, 1).await));
    }
    // The body of the newest step disappears behind its row.
    let name = tributary_server::blob::model_file_key(job.head.id, 2, tributary_server::db::MadeFor::Delta);
    let mut tx = world.app().db.begin().await.unwrap();
    tx.delete_blob(&name).await.unwrap();
    // In its place comes another step of the same length, whose hash is not the announced one.
    let other = tributary_server::blob::model_file_key(job.head.id, 1, tributary_server::db::MadeFor::Delta);
    let mut body = Vec::new();
    while let Some(part) = tx.blob_chunk(&other, body.len() as u64 >> 20).await.unwrap() {
        body.extend(part.data);
    }
    tx.insert_blob(&name, &body).await.unwrap();
    tx.commit().await.unwrap();
    let fetched = fleet.play(&world, &job, 3).await;
    assert!(fetched.iter().all(|fetched| *fetched > whole && *fetched < 2 * whole), "{fetched:?}");
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn the_clients_of_a_form_begin_with_the_same_bits_and_fetch_a_fraction() {
    for (form, share) in [("f16", 0.51), ("int8", 0.27)] {
        let mut world = World::start().await;
        let job: Job = world.create_job(&job(json!({ "codec": form }))).await.ok();
        let mut fleet = Fleet::of(&world).await;
        let whole = world.model_file(job.head.id, 0).await.len() as u64;
        for round in 1..=3 {
            let fetched = fleet.play(&world, &job, round).await;
            assert!(fetched.windows(2).all(|pair| pair[0] == pair[1]), "{fetched:?}");
            assert!(fetched[0] as f64 <= share * whole as f64, "{form}: {fetched:?} of {whole}");
            world.restart().await;
        }
        let round = world.round(job.head.id, 3).await;
        assert_eq!(round.traffic.raw_bytes_down, CLIENTS as u64 * whole);
        world.check_books(job.head.id).await;
    }
}

#[tokio::test]
async fn evaluators_measure_the_bits_that_clients_train_from() {
    for download in [json!({ "codec": "int8" }), json!({ "codec": "f16" }), json!({ "delta": true })] {
        let world = World::start().await;
        let mut file = crate::support::evaluated_job(&json!({ "download": download }));
        file["model"] = json!({ "parameters": [{ "name": "w", "shape": [VALUES] }] });
        let job: Job = world.create_job(&file).await.ok();
        let (one, two) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let trains = sdk_client(&world, one.path());
        let measures = Client::builder(world.server(), world.enrolment.clone()).state_dir(two.path());
        let measures = measures.attribute("evaluator", "yes").http_client(http()).build().unwrap();
        let (mut trainer, mut evaluator) = (Notes::default(), Notes::default());
        for round in 1..=2 {
            crate::sdk::session(&world, &trains, &mut trainer).await.unwrap();
            let outcome = crate::sdk::session(&world, &measures, &mut evaluator).await.unwrap();
            assert!(matches!(outcome, Outcome::Evaluated { .. }), "{outcome:?}");
            if round == 2 {
                // What was measured after the first round is what the second one began with.
                let began = trainer.0.lock().unwrap()[1].clone();
                assert!(evaluator.0.lock().unwrap()[0] == began);
            }
        }
        world.check_books(job.head.id).await;
    }
}

#[tokio::test]
async fn a_model_in_a_form_that_the_client_has_is_not_downloaded_again() {
    let world = World::start().await;
    // The first round is abandoned, so the second one starts from the same model.
    let changes = json!({ "download": { "codec": "int8" }, "round": { "updates_goal": 1, "backoff_ms": 1 } });
    let job = world.job(changes).await;
    let directory = TempDir::new().unwrap();
    let client = sdk_client(&world, directory.path());
    let mut diverges = crate::support::Meanwhile(Adds::new(0.5), || Err(TrainError::Diverged));
    crate::sdk::session(&world, &client, &mut diverges).await.expect_err("it diverged");
    world.pass_ms(1).await;
    crate::sdk::session(&world, &client, &mut Adds::new(0.5)).await.unwrap();
    assert!(world.round(job.head.id, 1).await.traffic.bytes_down > 0);
    assert_eq!(world.round(job.head.id, 2).await.traffic.bytes_down, 0);
}
