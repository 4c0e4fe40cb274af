//! Buffered private jobs: late updates count for their part of a clip, and a unit for one update in a version.

use serde_json::{Value, json};
use tributary_engine::privacy::{NOISE_PLACES, Normal, block_key};
use tributary_protocol::device::Assignment;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::operator::{Job, JobPrivacyState, LedgerEntry, check_ledger};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{JobState, Phase};

use super::buffered::buffered;
use super::private::often;
use crate::support::{Device, WEIGHTS, World, postgres};

const KEY: [u8; 32] = [9; 32];
const CLIP: f64 = 0.5;
const NOISE: f64 = 4.0;
/// Within the clip.
const SMALL: [f32; WEIGHTS] = [0.1, -0.1, 0.2, 0.0, 0.1, -0.2];
/// Beyond it.
const LARGE: [f32; WEIGHTS] = [3.0, -1.0, 2.0, 0.5, -4.0, 1.0];

/// A buffered job with a budget for this many versions, with these settings of its privacy.
pub(super) fn private(mode: &Value, rounds: u32, privacy: &Value) -> Value {
    let mut file = buffered(
        mode,
        &json!({
            "aggregation": { "combine": "uniform_mean" },
            "stop": { "rounds": rounds },
            "privacy": { "epsilon": 8.0, "delta": 1e-6 },
        }),
    );
    file["privacy"].as_object_mut().unwrap().extend(privacy.as_object().unwrap().clone());
    file
}

async fn ledger(world: &World, job: &Job) -> Vec<LedgerEntry> {
    let state: JobPrivacyState = world.look(&format!("/jobs/{}/privacy", job.head.id)).await.ok();
    state.privacy.expect("the job is private").ledger
}

async fn drawn(world: &World, devices: &[&Device]) -> Vec<bool> {
    world.gather(devices).await.iter().map(Option::is_some).collect()
}

/// Goal: the released model is the sum of the clipped updates, late ones with the weight of their staleness, with
/// exactly the noise of the key, divided by the size of the buffer. Method: of three clients at work two report for a
/// buffer of two, and the third one a version later; the same numbers from the formulas.
async fn late_updates_count_for_their_part(world: World) {
    let settings = often(&json!({
        "noise_multiplier": NOISE, "test_key": Sha256Hash(KEY).to_string(), "clip": CLIP,
    }));
    let file = private(&json!({ "buffer": 2, "concurrency": 3 }), 50, &settings);
    let job: Job = world.create_job(&file).await.ok();
    let id = job.head.id;
    let [a, b, slow] = world.devices().await;
    let [first, second, late] = world.assign([&a, &b, &slow]).await;
    a.contribute(&first, &SMALL, 10).await;
    assert_eq!(drawn(&world, &[&a]).await, [false], "it is in the buffer");
    b.contribute(&second, &LARGE, 900).await;
    world.drive().await;
    check_step(&world, &job, 1, &[(&SMALL, 1.0), (&LARGE, 1.0)]).await;

    let [fresh] = world.assign([&a]).await;
    a.contribute(&fresh, &SMALL, 10).await;
    slow.contribute(&late, &LARGE, 10).await;
    world.drive().await;
    // Its factor is a multiple of 2^-16.
    let factor = (65536.0 / 2f64.sqrt()).round() / 65536.0;
    check_step(&world, &job, 2, &[(&SMALL, 1.0), (&LARGE, factor)]).await;

    let ledger = ledger(&world, &job).await;
    let of = |entry: &LedgerEntry| (entry.round, entry.version, entry.participations);
    assert_eq!(ledger.iter().map(of).collect::<Vec<_>>(), [(1, 1, 1), (2, 2, 2)]);
    assert_eq!(check_ledger(&ledger), Ok(()));
    world.check_books(id).await;
}

/// Checks what a version changed.
async fn check_step(world: &World, job: &Job, version: u32, updates: &[(&[f32; WEIGHTS], f64)]) {
    let (before, after) = (world.weights(job.head.id, version - 1).await, world.weights(job.head.id, version).await);
    let mut normal = Normal::new(block_key(&KEY, &7u64.to_le_bytes(), version.into(), 0));
    for index in 0..WEIGHTS {
        let clipped = |(delta, factor): &(&[f32; WEIGHTS], f64)| {
            let norm = delta.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
            f64::from(delta[index]) * (CLIP / norm).min(1.0) * factor
        };
        let sum: f64 = updates.iter().map(clipped).sum();
        let noise = CLIP * NOISE * normal.rounded(NOISE_PLACES) as f64 / f64::from(1u32 << NOISE_PLACES);
        let got = f64::from(after[index] - before[index]) * 2.0;
        assert!((got - sum - noise).abs() < 1e-4, "version {version}: {got} instead of {sum} + {noise}");
    }
}

#[tokio::test]
async fn late_updates_count_for_their_part_on_sqlite() {
    late_updates_count_for_their_part(World::start_on_sqlite().await).await;
}

#[tokio::test]
async fn late_updates_count_for_their_part_on_postgres() {
    let Some(database) = postgres().await else { return };
    late_updates_count_for_their_part(World::start_on(database).await).await;
}

/// Goal: a user with two devices has one update in a version, and one piece of work at a time, also when the buffer has
/// moved on meanwhile.
#[tokio::test]
async fn a_user_is_once_in_a_version() {
    let world = World::start().await;
    let settings = often(&json!({ "unit": { "attribute": "user" } }));
    let file = private(&json!({ "buffer": 1, "concurrency": 4 }), 50, &settings);
    let job: Job = world.create_job(&file).await.ok();
    let of = |user| world.device_granted("user", user);
    let (phone, tablet, other) = (of("ada").await, of("ada").await, of("bob").await);
    let both = world.gather(&[&phone, &tablet, &other]).await;
    let [Some(of_phone), None, Some(of_other)] = &both[..] else { panic!("{both:?}") };
    assert_eq!(drawn(&world, &[&tablet]).await, [false], "the user's other device is at work");
    other.contribute(of_other, &SMALL, 10).await;
    world.drive().await;
    assert_eq!(drawn(&world, &[&tablet]).await, [false], "it still is, on the version before");
    phone.contribute(of_phone, &SMALL, 10).await;
    world.drive().await;
    assert_eq!(world.round(job.head.id, 2).await.phase, Phase::Committed);
    assert_eq!(drawn(&world, &[&tablet]).await, [true], "a version of its own");
    let ledger = ledger(&world, &job).await;
    assert_eq!(ledger.iter().map(|entry| entry.participations).collect::<Vec<_>>(), [1, 1]);
}

/// Goal: correlated noise goes with buffers. A client rests between the versions in which it counts, not those from
/// which it started, and its work follows from no seed of the round.
#[tokio::test]
async fn clients_rest_between_the_versions_in_which_they_count() {
    let world = World::start().await;
    let privacy = json!({ "participations_max": 2, "separation": 2, "clip": CLIP });
    let file = private(&json!({ "buffer": 1, "concurrency": 2 }), 4, &privacy);
    let job: Job = world.create_job(&file).await.ok();
    let [slow, a, b] = world.devices().await;
    let [late, first] = world.assign([&slow, &a]).await;
    assert!(late.seed != first.seed);
    a.contribute(&first, &SMALL, 10).await;
    world.drive().await;
    slow.contribute(&late, &SMALL, 10).await;
    world.drive().await;
    assert_eq!(drawn(&world, &[&slow]).await, [false], "it started from version 0, and counts in version 2");
    let work: Vec<Assignment> = world.gather(&[&a, &b]).await.into_iter().flatten().collect();
    assert_eq!(work.iter().map(|work| work.model_version).collect::<Vec<_>>(), [2, 2]);
    a.contribute(&work[0], &SMALL, 10).await;
    world.drive().await;
    b.contribute(&work[1], &SMALL, 10).await;
    world.drive().await;
    assert_eq!(world.job_now(job.head.id).await.head.state, JobState::Completed);
    let ledger = ledger(&world, &job).await;
    assert_eq!(ledger.iter().map(|entry| entry.participations).collect::<Vec<_>>(), [1, 1, 2, 2]);
    world.check_books(job.head.id).await;
}

/// Members of a stale-synchronous job report several times for a version, so it is refused with what to use instead.
#[tokio::test]
async fn a_stale_synchronous_private_job_is_refused_by_name() {
    let world = World::start().await;
    let mut file = private(&json!({}), 5, &often(&json!({})));
    file["round"]["mode"] = json!({ "kind": "stale_synchronous", "members": 3 });
    let problem = world.create_job(&file).await.refused(ProblemType::JobFileInvalid);
    assert!(problem.detail.contains("several updates of a fast member"), "{problem:?}");
    let weights = json!({ "buffer": 2, "concurrency": 3, "divisor": "weights" });
    let problem = world.create_job(&private(&weights, 5, &often(&json!({})))).await;
    let problem = problem.refused(ProblemType::JobFileInvalid);
    assert!(problem.detail.contains("divisor = \"count\""), "{problem:?}");
}
