//! Private jobs: one noise and one charge for each release, whatever happens meanwhile; a budget that ends the job.

use std::path::Path;
use std::sync::Arc;

use reqwest::Method;
use serde_json::{Value, json};
use tributary_engine::privacy::{NOISE_PLACES, Normal, block_key};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::operator::{Event, Job, JobPrivacy, JobPrivacyState, Page, check_ledger};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AbandonReason, JobState, Phase, Task};
use tributary_server::backup;
use tributary_server::db::RoundKey;

use crate::support::{Device, WEIGHTS, World, directory_in_memory, job_file};

const KEY: [u8; 32] = [9; 32];

/// A job of three clients a round, with these settings of its privacy.
pub(super) fn private(rounds: u32, privacy: &Value) -> Value {
    let mut file = job_file(&json!({
        "round": { "updates_goal": 3 },
        "aggregation": { "combine": "uniform_mean" },
        "stop": { "rounds": rounds },
        "privacy": { "epsilon": 8.0, "delta": 1e-6 },
    }));
    for (key, value) in privacy.as_object().unwrap() {
        file["privacy"][key] = value.clone();
    }
    file
}

/// Often the same clients, with independent noise.
pub(super) fn often(changes: &Value) -> Value {
    let mut settings = json!({ "mechanism": "gaussian", "participations_max": 100, "separation": 1, "clip": 1.0 });
    settings.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    settings
}

fn delta(place: usize) -> Vec<f32> {
    (0..WEIGHTS).map(|index| 0.05 * (index + 3 * place) as f32 - 0.4).collect()
}

async fn privacy(world: &World, job: &str) -> JobPrivacy {
    let state: JobPrivacyState = world.look(&format!("/jobs/{job}/privacy")).await.ok();
    state.privacy.expect("the job is private")
}

/// One round of these clients.
async fn round(world: &World, devices: &[Device; 3]) {
    let [a, b, c] = devices;
    for (place, (device, assignment)) in devices.iter().zip(world.assign([a, b, c]).await).enumerate() {
        device.contribute(&assignment, &delta(place), 10 + place as u32).await;
    }
    world.drive().await;
}

/// Goal: the released model is the clipped sum with exactly the noise of the key, divided by the goal. Method: the same
/// numbers from the formulas.
#[tokio::test]
async fn a_release_is_the_clipped_sum_with_the_noise_of_its_key() {
    let world = World::start().await;
    let key = Sha256Hash(KEY).to_string();
    let settings = often(&json!({ "noise_multiplier": 4.0, "test_key": key, "clip": 0.5 }));
    let job: Job = world.create_job(&private(50, &settings)).await.ok();
    let devices: [_; 3] = world.devices().await;
    round(&world, &devices).await;
    let id = job.head.id;
    let (before, after) = (world.weights(id, 0).await, world.weights(id, 1).await);
    let mut normal = Normal::new(block_key(&KEY, &7u64.to_le_bytes(), 1, 0));
    let mut wanted = vec![0.0; WEIGHTS];
    for place in 0..3 {
        let delta = delta(place);
        let norm = delta.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
        assert_eq!(norm > 0.5, place == 0, "one is clipped: {norm}");
        for (wanted, value) in wanted.iter_mut().zip(delta) {
            *wanted += f64::from(value) * (0.5 / norm).min(1.0);
        }
    }
    for ((before, after), wanted) in before.iter().zip(after).zip(wanted) {
        let noise = 0.5 * 4.0 * normal.rounded(NOISE_PLACES) as f64 / f64::from(1u32 << NOISE_PLACES);
        let got = f64::from(after - before) * 3.0;
        assert!((got - wanted - noise).abs() < 1e-4, "{got} instead of {wanted} + {noise}");
    }
    world.check_books(id).await;
}

/// Plays three rounds with correlated noise and a clip that moves; the coordinator restarts while each aggregates.
async fn played(restarts: bool) -> (Vec<Vec<u8>>, JobPrivacy) {
    let mut world = World::start().await;
    let settings = json!({ "separation": 1, "test_key": Sha256Hash(KEY).to_string() });
    let job: Job = world.create_job(&private(3, &settings)).await.ok();
    let devices: [_; 3] = world.devices().await;
    for number in 1..=3 {
        let [a, b, c] = &devices;
        for (place, (device, assignment)) in devices.iter().zip(world.assign([a, b, c]).await).enumerate() {
            device.contribute(&assignment, &delta(place), 10).await;
        }
        if restarts {
            assert_eq!(world.round(job.head.id, number).await.phase, Phase::Aggregating);
            world.restart().await;
        }
        world.drive().await;
        assert_eq!(world.round(job.head.id, number).await.phase, Phase::Committed);
    }
    let mut models = Vec::new();
    for version in 0..=3 {
        models.push(world.model_file(job.head.id, version).await);
    }
    (models, privacy(&world, &job.head.id.to_string()).await)
}

#[tokio::test]
async fn a_restart_while_a_sum_is_released_changes_no_bit_of_its_noise() {
    let (models, ledger) = played(false).await;
    let (others, other) = played(true).await;
    assert!(models == others, "the same key makes the same noise");
    assert!(models.windows(2).all(|pair| pair[0] != pair[1]));
    assert_eq!((ledger.ledger.len(), other.ledger.len()), (3, 3), "one charge for each release");
    assert_eq!(check_ledger(&other.ledger), Ok(()));
    assert_eq!(ledger.spent, None, "a test key promises nothing");
}

/// Goal: a sum is released with one noise, whoever releases it and how often. Method: the database of a round that
/// aggregates is kept. Ten coordinators in turn commit the round, each on a copy. The key is a secret one.
#[tokio::test]
async fn ten_coordinators_that_begin_while_a_round_aggregates_make_ten_equal_models() {
    let mut world = World::start_on_sqlite().await;
    let job: Job = world.create_job(&private(20, &json!({ "separation": 1 }))).await.ok();
    let devices: [_; 3] = world.devices().await;
    // The noise of a later version follows from buffers, too.
    round(&world, &devices).await;
    let [a, b, c] = &devices;
    for (place, (device, assignment)) in devices.iter().zip(world.assign([a, b, c]).await).enumerate() {
        device.contribute(&assignment, &delta(place), 10).await;
    }
    assert_eq!(world.round(job.head.id, 2).await.phase, Phase::Aggregating);
    world.stop().await;
    let (database, kept) = (world.database(), directory_in_memory());
    let folder = Path::new(&database).parent().unwrap();
    copy(folder, kept.path());
    let mut models = Vec::new();
    for _ in 0..10 {
        copy(kept.path(), folder);
        world.resume().await;
        world.drive().await;
        assert_eq!(world.round(job.head.id, 2).await.phase, Phase::Committed);
        models.push(world.model_file(job.head.id, 2).await);
        let ledger = privacy(&world, &job.head.id.to_string()).await.ledger;
        assert_eq!(ledger.iter().map(|entry| entry.round).collect::<Vec<_>>(), [1, 2]);
        world.stop().await;
    }
    assert!(models.iter().all(|model| *model == models[0]));
    world.resume().await;
    let of = |version| world.model_file(job.head.id, version);
    assert!(of(2).await != of(1).await, "there is noise");
}

/// Puts the files of one folder into another one, which has no others afterwards.
fn copy(from: &Path, to: &Path) {
    for file in std::fs::read_dir(to).unwrap() {
        std::fs::remove_file(file.unwrap().path()).unwrap();
    }
    for file in std::fs::read_dir(from).unwrap().map(|file| file.unwrap()) {
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

#[tokio::test]
async fn two_drivers_at_once_charge_once_and_release_one_noise() {
    let world = World::start().await;
    let job: Job = world.create_job(&private(20, &often(&json!({})))).await.ok();
    let devices: [_; 3] = world.devices().await;
    let other = world.beside().await;
    for number in 1..=2 {
        let [a, b, c] = &devices;
        for (place, (device, assignment)) in devices.iter().zip(world.assign([a, b, c]).await).enumerate() {
            device.contribute(&assignment, &delta(place), 10).await;
        }
        let (one, two) = (Arc::clone(world.app()), Arc::clone(other.app()));
        let drivers = (
            tokio::spawn(async move { one.driver().run_once().await }),
            tokio::spawn(async move { two.driver().run_once().await }),
        );
        drivers.0.await.unwrap().unwrap();
        drivers.1.await.unwrap().unwrap();
        world.drive().await;
        assert_eq!(world.round(job.head.id, number).await.phase, Phase::Committed);
    }
    let JobPrivacy { ledger, spent, .. } = privacy(&world, &job.head.id.to_string()).await;
    assert_eq!(ledger.iter().map(|entry| entry.participations).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(check_ledger(&ledger), Ok(()));
    let spent = spent.unwrap();
    assert!(spent.models > 0.0 && spent.models <= 8.0, "{spent:?}");
    world.check_books(job.head.id).await;
}

/// A budget for 37 updates of each client ends the job after 37 rounds, also after a restart, and says so.
#[tokio::test]
async fn a_budget_for_37_rounds_ends_the_job_after_37() {
    let mut world = World::start().await;
    // One Gaussian release of mu 1.5315 spends 8: 37 of this noise spend a little less, 38 more.
    let noise = 37.2f64.sqrt() / 1.531_545;
    let job: Job = world.create_job(&private(50, &often(&json!({ "noise_multiplier": noise })))).await.ok();
    let devices: [_; 3] = world.devices().await;
    for number in 1..=37 {
        if number == 20 {
            world.restart().await;
        }
        round(&world, &devices).await;
    }
    world.drive().await;
    let now = world.job_now(job.head.id).await;
    assert_eq!((now.head.state, now.head.rounds_committed), (JobState::Completed, 37));
    let privacy = privacy(&world, &job.head.id.to_string()).await;
    assert!(privacy.is_spent && privacy.spent.unwrap().models <= 8.0, "{privacy:?}");
    let events: Page<Event> = world.look(&format!("/events?job={}&limit=1000", job.head.id)).await.ok();
    let last = events.items.last().unwrap();
    assert_eq!((last.became.as_str(), last.cause.as_deref()), ("completed", Some("privacy_budget")));
    world.check_books(job.head.id).await;
}

/// Goal: a backup tells nobody the noise, and a coordinator that is restored from it draws none a second time. Method:
/// the backup of a round that aggregates; the key in no byte of it; the database replaced by it.
#[tokio::test]
async fn a_backup_has_no_key_and_its_round_is_abandoned_where_it_is_restored() {
    let mut world = World::start_on_sqlite().await;
    let job: Job = world.create_job(&private(50, &often(&json!({})))).await.ok();
    let devices: [_; 3] = world.devices().await;
    let [a, b, c] = &devices;
    for (place, (device, assignment)) in devices.iter().zip(world.assign([a, b, c]).await).enumerate() {
        device.contribute(&assignment, &delta(place), 10).await;
    }
    assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Aggregating);
    let key = RoundKey { job: job.head.id, task: Task::Train, number: 1 };
    let mut tx = world.app().db.read().await.unwrap();
    let secret = tx.round_key(key).await.unwrap().unwrap().to_string();
    drop(tx);
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.db");
    backup::copy(Path::new(&world.database()), &copy).await.unwrap();
    let has_key = || std::fs::read(&copy).unwrap().windows(secret.len()).any(|bytes| bytes == secret.as_bytes());
    assert!(has_key(), "a whole copy has it");
    backup::forget_secrets(&copy).await.unwrap();
    assert!(!has_key());
    world.stop().await;
    let database = world.database();
    for log in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{database}{log}"));
    }
    std::fs::copy(&copy, &database).unwrap();
    world.resume().await;
    world.drive().await;
    let abandoned = world.round(job.head.id, 1).await;
    assert_eq!((abandoned.phase, abandoned.reason), (Phase::Abandoned, Some(AbandonReason::Fault)));
    let privacy = privacy(&world, &job.head.id.to_string()).await;
    assert_eq!(privacy.ledger.len(), 1, "it stays charged");
}

#[tokio::test]
async fn clients_rest_for_as_many_versions_as_the_job_promises() {
    let world = World::start().await;
    let mut file = private(4, &json!({ "participations_max": 2, "separation": 2 }));
    file["round"]["updates_goal"] = json!(1);
    let job: Job = world.create_job(&file).await.ok();
    let [a, b] = world.devices().await;
    let [first] = world.assign([&a]).await;
    a.contribute(&first, &delta(0), 10).await;
    world.drive().await;
    assert_eq!(world.gather(&[&a]).await, [None], "version 2 is too near to version 1");
    let [second] = world.assign([&b]).await;
    b.contribute(&second, &delta(1), 10).await;
    world.drive().await;
    let [third] = world.assign([&a]).await;
    a.contribute(&third, &delta(2), 10).await;
    world.drive().await;
    let [fourth] = world.assign([&b]).await;
    b.contribute(&fourth, &delta(2), 10).await;
    world.drive().await;
    assert_eq!(world.job_now(job.head.id).await.head.state, JobState::Completed);
}

#[tokio::test]
async fn a_budget_that_cannot_be_kept_is_refused_at_creation() {
    let world = World::start().await;
    let refused = world.create_job(&private(9, &json!({ "epsilon": 0.5, "noise_multiplier": 0.1 }))).await;
    let problem = refused.refused(ProblemType::JobFileInvalid);
    assert!(problem.detail.contains("[privacy]"), "{problem:?}");
    let draft: Value =
        world.operate(Method::POST, "/jobs?dry_run=true", &json!({ "job": private(100, &json!({})) })).await.ok();
    assert!(draft["privacy"]["terms"]["noise_multiplier"].as_f64().unwrap() > 0.5, "{draft}");
    assert_eq!(draft["privacy"]["units_needed"], json!(75));
}

/// Goal: an operator cannot change the rounds of a running job to such with which it would have been refused.
#[tokio::test]
async fn a_change_of_rounds_keeps_what_the_promise_rests_on() {
    let world = World::start().await;
    let mut file = private(9, &often(&json!({ "sampling": "poisson" })));
    file["round"]["updates_goal"] = json!(40);
    file["round"]["available_min"] = json!(60);
    file["round"]["selection"] = json!({ "kind": "poisson", "rate": 0.2 });
    let job: Job = world.create_job(&file).await.ok();
    let change = async |available: u32| {
        let path = format!("/jobs/{}/round-policy", job.head.id);
        world.operate(Method::PATCH, &path, &json!({ "available_min": available })).await
    };
    let problem = change(400).await.refused(ProblemType::JobFileInvalid);
    assert!(problem.detail.contains("draws of 400 clients with a chance of 0.2"), "{problem:?}");
    change(50).await.ok::<Job>();
}
