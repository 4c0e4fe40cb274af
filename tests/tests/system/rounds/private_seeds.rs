//! The draw and the noise of a private job follow from nothing that is stored or known but its secrets.
//!
//! Goal: who has the job's seed and every stored value but the sealed ones foresees neither a cohort nor noise. Method:
//! every number and every key of the rows is tried as the seed or key from which a draw or noise would follow. The same
//! search succeeds where they do follow: the draw of a job without privacy, the noise of a `test_key`.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use sqlx_sqlite::SqlitePool;
use tributary_engine::aggregate::NoiseMaker;
use tributary_engine::privacy::NOISE_PLACES;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::operator::Job;
use tributary_protocol::seed::Seed;
use tributary_protocol::state::Phase;

use super::private::{often, private};
use crate::support::{Device, WEIGHTS, World, job_file};

/// The job's seed, as [`job_file`] has it.
const JOB_SEED: Seed = Seed(7);
/// Clients that wait for a draw. A wrong seed draws the right half of them once in 2^24 times.
const WAITING: usize = 24;
const RATE: f64 = 0.5;
/// What is sealed, table and column: no API, export or log has it.
const KEYS: (&str, &str) = ("round_keys", "key");
/// The seed of a private round is another secret until its cohort is drawn.
const ROUND_SEEDS: (&str, &str) = ("rounds", "seed");

/// All values that are stored, but for the sealed ones.
async fn stored(world: &World, sealed: &[(&str, &str)]) -> Vec<String> {
    let pool = SqlitePool::connect(&format!("sqlite:{}", world.database())).await.unwrap();
    let tables = "select name from sqlite_master where type = 'table' order by name";
    let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(&pool).await.unwrap();
    let (mut values, mut passed_over) = (Vec::new(), 0);
    for table in &tables {
        let columns = format!("select name from pragma_table_info('{table}')");
        let columns: Vec<String> = sqlx::query_scalar(AssertSqlSafe(columns)).fetch_all(&pool).await.unwrap();
        for column in columns {
            if sealed.contains(&(table.as_str(), column.as_str())) {
                passed_over += 1;
                continue;
            }
            let column = format!("select quote({column}) from {table}");
            values.extend(sqlx::query_scalar::<_, String>(AssertSqlSafe(column)).fetch_all(&pool).await.unwrap());
        }
    }
    pool.close().await;
    assert_eq!(passed_over, sealed.len(), "{tables:?}");
    values
}

/// Words of letters and digits.
fn words(rows: &[String]) -> impl Iterator<Item = &str> {
    rows.iter().flat_map(|value| value.split(|c: char| !c.is_ascii_alphanumeric())).filter(|word| !word.is_empty())
}

/// Each number of the rows as a seed, and what a coordinator derives from it for round 1.
fn seeds(rows: &[String]) -> BTreeSet<Seed> {
    let numbers = words(rows).filter_map(|word| word.parse().ok()).map(Seed);
    let stored: BTreeSet<Seed> = numbers.chain([JOB_SEED]).collect();
    stored.iter().flat_map(|seed| [*seed, seed.derive("train", 1), seed.derive("job", 0)]).collect()
}

/// Each key of the rows, and each that would follow from a seed.
fn keys(rows: &[String]) -> BTreeSet<[u8; 32]> {
    let mut keys: BTreeSet<[u8; 32]> =
        words(rows).filter_map(|word| word.to_lowercase().parse::<Sha256Hash>().ok()).map(|hash| hash.0).collect();
    for seed in seeds(rows) {
        let bytes = seed.0.to_le_bytes();
        let mut padded = [0; 32];
        padded[..8].copy_from_slice(&bytes);
        keys.extend([padded, Sha256Hash::of(&bytes).0]);
    }
    keys
}

/// The places in the order of enrolment that a seed draws.
fn drawn(seed: Seed) -> Vec<usize> {
    let mut stream = seed.derive("cohort", 0).stream();
    (0..WAITING).filter(|_| stream.unit() < RATE).collect()
}

/// Whether the cohort of the first round follows from what is stored while the round waits for clients.
async fn is_cohort_foreseen(changes: &Value) -> bool {
    let world = World::start_on_sqlite().await;
    let devices: [Device; WAITING] = world.devices().await;
    let mut file = job_file(&json!({
        "round": {
            "updates_goal": WAITING, "available_min": WAITING, "selection": { "kind": "poisson", "rate": RATE },
        },
        "aggregation": { "combine": "uniform_mean" },
        "stop": { "rounds": 4 },
    }));
    file.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    let job: Job = world.create_job(&file).await.ok();
    world.drive().await;
    assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Selecting);
    let before = stored(&world, &[KEYS, ROUND_SEEDS]).await;
    let everybody: Vec<&Device> = devices.iter().collect();
    let work = world.gather(&everybody).await;
    let cohort: Vec<usize> = (0..WAITING).filter(|place| work[*place].is_some()).collect();
    assert!((1..WAITING).contains(&cohort.len()), "{cohort:?}");
    seeds(&before).into_iter().any(|seed| drawn(seed) == cohort)
}

#[tokio::test]
async fn the_cohort_of_a_private_job_cannot_be_foreseen_from_what_is_stored() {
    let privacy = json!({
        "epsilon": 8.0, "delta": 1e-6, "mechanism": "gaussian", "participations_max": 4, "separation": 1, "clip": 1.0,
    });
    assert!(!is_cohort_foreseen(&json!({ "privacy": privacy })).await);
    assert!(is_cohort_foreseen(&json!({})).await, "that of another job follows from its seed");
}

/// Whether the noise of a committed round follows from what is stored while it aggregates, or afterwards.
async fn is_noise_found(changes: &Value) -> bool {
    let world = World::start_on_sqlite().await;
    let mut settings = often(&json!({ "noise_multiplier": 4.0 }));
    settings.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    let job: Job = world.create_job(&private(50, &settings)).await.ok();
    let devices: [Device; 3] = world.devices().await;
    let [a, b, c] = &devices;
    let delta = [0.125; WEIGHTS];
    for (device, assignment) in devices.iter().zip(world.assign([a, b, c]).await) {
        device.contribute(&assignment, &delta, 10).await;
    }
    assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Aggregating);
    let mut values = stored(&world, &[KEYS]).await;
    world.drive().await;
    values.extend(stored(&world, &[KEYS]).await);
    let (before, after) = (world.weights(job.head.id, 0).await, world.weights(job.head.id, 1).await);
    let step = 4.0 / f64::from(1u32 << NOISE_PLACES);
    let noise: Vec<f64> = before
        .iter()
        .zip(&after)
        .map(|(before, after)| (f64::from(after - before) * 3.0 - 3.0 * f64::from(delta[0])) / step)
        .collect();
    let is_that = |key: &[u8; 32]| {
        let made = NoiseMaker::new(*key, JOB_SEED, 1, None).make(0..WEIGHTS, &[]).noise;
        // The model's numbers have 24 binary places.
        made.iter().zip(&noise).all(|(made, noise)| (*made as f64 - noise).abs() < 100.0)
    };
    let keys = keys(&values);
    assert!(keys.len() > 100, "{}", keys.len());
    keys.iter().any(is_that)
}

#[tokio::test]
async fn the_noise_of_a_private_job_cannot_be_found_from_what_is_stored() {
    assert!(!is_noise_found(&json!({})).await);
    let key = Sha256Hash([9; 32]).to_string();
    assert!(is_noise_found(&json!({ "test_key": key })).await, "that of a test follows from the key in its file");
}

/// Whether the seed of a client's work follows from a number that is stored, such as the seed of its round.
async fn is_seed_found(file: &Value) -> bool {
    let world = World::start_on_sqlite().await;
    let _: Job = world.create_job(file).await.ok();
    let devices: [Device; 3] = world.devices().await;
    let [a, b, c] = &devices;
    let work = world.assign([a, b, c]).await;
    assert_ne!(work[0].seed, work[1].seed);
    for (device, assignment) in devices.iter().zip(&work) {
        assert_eq!(device.work().await.seed, assignment.seed, "asked again, it is the same");
    }
    let follows = |seed: &Seed| (0..10).any(|number| seed.derive("client", number) == work[0].seed);
    seeds(&stored(&world, &[KEYS]).await).iter().any(follows)
}

/// A client that found the seed of its round, whose 53 bits can be searched, would learn who else was drawn.
#[tokio::test]
async fn the_seed_of_a_client_does_not_follow_from_that_of_its_private_round() {
    assert!(!is_seed_found(&private(9, &often(&json!({})))).await);
    assert!(is_seed_found(&job_file(&json!({ "round": { "updates_goal": 3 } }))).await, "that of another job does");
}
