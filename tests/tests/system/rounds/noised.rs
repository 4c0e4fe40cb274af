//! Masked jobs whose clients add noise: what is in the sums, what is charged, and what an app allows.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tributary_client::{AlwaysOn, Client, Outcome, PrivacyFloor};
use tributary_engine::privacy::spent_by;
use tributary_protocol::job_file::Mechanism;
use tributary_protocol::noise::epsilon_of_integers;
use tributary_protocol::operator::{Job, JobPrivacy, JobPrivacyState, check_ledger};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::Phase;

use super::masked::{CLIENTS, Seat, delta, detail, masked, seats};
use crate::support::{Adds, World, draw_everybody, http};

/// Deviations of the noise in the sum of a group, in clips.
const NOISE: f64 = 1.5;
const CLIP: f64 = 0.5;
const DELTA: f64 = 1e-6;

/// A masked job with noise, for so many parameters.
fn noised(parameters: usize) -> Value {
    let mut file = masked();
    file["model"] = json!({ "parameters": [{ "name": "w", "shape": [parameters] }] });
    file["secure_aggregation"] = json!({ "levels": 64 });
    file["stop"] = json!({ "rounds": 20 });
    file["privacy"] = json!({
        "epsilon": 50.0, "delta": DELTA, "mechanism": "distributed", "noise_multiplier": NOISE, "clip": CLIP,
        "participations_max": 4, "separation": 1,
    });
    file
}

async fn privacy(world: &World, job: &Job) -> JobPrivacy {
    let state: JobPrivacyState = world.look(&format!("/jobs/{}/privacy", job.head.id)).await.ok();
    state.privacy.unwrap()
}

/// Clients of the SDK that demand this, which have enrolled.
async fn clients(world: &World, folders: &[TempDir], floor: PrivacyFloor) -> Vec<Client> {
    let mut clients = Vec::new();
    for folder in folders {
        let client = Client::builder(world.server(), world.enrolment.clone()).state_dir(folder.path());
        let client = client.http_client(http()).wait(Duration::ZERO).privacy_floor(floor).build().unwrap();
        client.run_once(&mut Adds::new(0.0), &AlwaysOn).await.unwrap();
        clients.push(client);
    }
    clients
}

fn folders() -> Vec<TempDir> {
    (0..CLIENTS).map(|_| TempDir::new().unwrap()).collect()
}

/// Goal: a model has the noise that the ledger says. Method: clients that change nothing; what is in the model then is
/// noise alone, of five members of which four were counted on.
#[tokio::test]
async fn the_noise_of_the_clients_is_in_the_model_and_in_the_ledger() {
    const PARAMETERS: usize = 20_000;
    let world = World::start().await;
    let job: Job = world.create_job(&noised(PARAMETERS)).await.ok();
    let folders = folders();
    let clients = clients(&world, &folders, PrivacyFloor::default()).await;
    for round in 1..=2 {
        draw_everybody(&world).await;
        let sessions = clients.iter().map(async |client| client.run_once(&mut Adds::new(0.0), &AlwaysOn).await);
        for outcome in world.driven(join_all(sessions)).await {
            assert!(matches!(outcome, Ok(Outcome::Contributed { .. })), "{outcome:?}");
        }
        world.drive().await;
        let done = world.round(job.head.id, round).await;
        assert_eq!((done.phase, done.reported), (Phase::Committed, CLIENTS as u32));
        assert_eq!(done.training_loss, None, "losses stay with the clients");
    }
    let (first, second) = (world.weights(job.head.id, 1).await, world.weights(job.head.id, 2).await);
    let square: f64 = first.iter().zip(&second).map(|(a, b)| f64::from(b - a).powi(2)).sum();
    let deviation = (square / PARAMETERS as f64).sqrt();
    let wanted = NOISE * CLIP * (CLIENTS as f64 / 4.0).sqrt() / CLIENTS as f64;
    assert!((deviation / wanted - 1.0).abs() < 0.03, "{deviation} is not {wanted}");
    let JobPrivacy { ledger, spent, .. } = privacy(&world, &job).await;
    assert_eq!(check_ledger(&ledger), Ok(()));
    let entries: Vec<_> = ledger.iter().map(|entry| (entry.mechanism, entry.round, entry.participations)).collect();
    assert_eq!(entries, [(Mechanism::Distributed, 1, 1), (Mechanism::Distributed, 2, 2)]);
    let spent = spent.unwrap();
    assert_eq!(spent, spent_by(&ledger, DELTA).unwrap());
    assert!((spent.cohorts - epsilon_of_integers(NOISE, 2, DELTA)).abs() < 1e-9, "{spent:?}");
    assert_eq!(spent.models.to_bits(), spent.cohorts.to_bits(), "one group is a version");
    world.check_books(job.head.id).await;
}

/// Goal: what the coordinator can see is charged, once, whether or not a model comes of it. Method: the members of a
/// group leave when its sum begins to be opened, with a restart before and after.
#[tokio::test]
async fn a_sum_that_begins_to_be_opened_is_charged_though_its_round_is_abandoned() {
    let mut world = World::start().await;
    let mut file = masked();
    let privacy_of = noised(1)["privacy"].take();
    file["secure_aggregation"] = json!({ "levels": 4_096 });
    file["stop"] = json!({ "rounds": 20 });
    file["privacy"] = privacy_of;
    file["privacy"]["clip"] = 2.0.into();
    let job: Job = world.create_job(&file).await.ok();
    let mut seats = seats(&world).await;
    let shares = world.driven(join_all(seats.iter_mut().map(Seat::join))).await;
    world.driven(join_all(seats.iter_mut().zip(shares).map(|(seat, shares)| seat.share(shares)))).await;
    seats.pop().unwrap().give_up().await;
    for seat in &mut seats {
        let values = seat.quantised(&delta(seat.place));
        let body = seat.masked_as(&values);
        seat.taken(Method::PUT, "/update", body).await;
    }
    assert!(privacy(&world, &job).await.ledger.is_empty(), "nothing can be opened yet");
    world.restart().await;
    world.driven(join_all(seats.iter_mut().map(Seat::survive))).await;
    assert_eq!(privacy(&world, &job).await.ledger.len(), 1, "before a share comes");
    world.restart().await;
    for seat in &seats {
        seat.give_up().await;
    }
    world.drive().await;
    assert_eq!(detail(&world, &job).await.round.phase, Phase::Abandoned);
    let JobPrivacy { ledger, .. } = privacy(&world, &job).await;
    assert_eq!((ledger.len(), ledger[0].participations, check_ledger(&ledger)), (1, 1, Ok(())));
}

/// Goal: a device keeps its own budget, also after a restart of its app. Method: clients that allow what two updates
/// spend, in a job that would go on.
#[tokio::test]
async fn a_client_stops_where_its_app_says() {
    let world = World::start().await;
    let job: Job = world.create_job(&noised(64)).await.ok();
    let mut floor = PrivacyFloor::default();
    floor.epsilon_max = Some(epsilon_of_integers(NOISE, 2, DELTA) + 0.01);
    let folders = folders();
    let mut clients = clients(&world, &folders, floor).await;
    for round in 1..=3 {
        draw_everybody(&world).await;
        let sessions = clients.iter().map(async |client| client.run_once(&mut Adds::new(0.1), &AlwaysOn).await);
        for outcome in world.driven(join_all(sessions)).await {
            match outcome {
                Ok(outcome) => assert!(round < 3 && matches!(outcome, Outcome::Contributed { .. }), "{outcome:?}"),
                Err(error) => assert!(round == 3 && error.to_string().contains("one more update spends"), "{error}"),
            }
        }
        world.drive().await;
        // The app starts again.
        clients.clear();
        for folder in &folders {
            let client = Client::builder(world.server(), world.enrolment.clone()).state_dir(folder.path());
            clients.push(client.http_client(http()).wait(Duration::ZERO).privacy_floor(floor).build().unwrap());
        }
    }
    assert_eq!(world.round(job.head.id, 3).await.phase, Phase::Abandoned);
    // They cost no slots for an hour.
    world.pass_ms(60_000).await;
    draw_everybody(&world).await;
    assert_eq!(world.round(job.head.id, 4).await.phase, Phase::Selecting);
    world.pass_ms(3_600_000).await;
    world.pass_ms(60_000).await;
    draw_everybody(&world).await;
    assert_eq!(world.round(job.head.id, 5).await.phase, Phase::Training);
}

#[tokio::test]
async fn noise_that_members_cannot_add_is_refused_with_what_to_set() {
    let world = World::start().await;
    let refused = async |change: &dyn Fn(&mut Value)| {
        let mut file = noised(16);
        change(&mut file);
        world.create_job(&file).await.refused(ProblemType::JobFileInvalid).detail
    };
    let coarse = refused(&|file| {
        file["secure_aggregation"]["levels"] = 1.into();
        file["privacy"]["noise_multiplier"] = 0.5.into();
    });
    let coarse = coarse.await;
    assert!(coarse.contains("set [secure_aggregation] levels = 3 or more"), "{coarse}");
    let of_the_coordinator = refused(&|file| file["privacy"]["mechanism"] = "blt".into()).await;
    assert!(of_the_coordinator.contains("\"distributed\" with [secure_aggregation]"), "{of_the_coordinator}");
    let plain = refused(&|file| drop(file.as_object_mut().unwrap().remove("secure_aggregation"))).await;
    assert!(plain.contains("without [secure_aggregation]"), "{plain}");
    let two = refused(&|file| file["secure_aggregation"]["clip"] = 3.0.into()).await;
    assert!(two.contains("left out with [privacy]"), "{two}");
}
