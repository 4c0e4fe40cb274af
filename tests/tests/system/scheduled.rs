//! What is done by the clock: rounds in their minutes, retention and upkeep once for all coordinators.

use axum::http::Method;
use serde_json::json;
use tributary_protocol::id::JobId;
use tributary_protocol::operator::{Event, Job, ModelVersion, Page, ScheduledWork};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::Phase;
use tributary_server::scheduled::{self, Work};

use crate::rounds::buffered::buffered;
use crate::support::{Device, NOW_MS, WEIGHTS, World, evaluated_job};

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;

/// Plays one round of a job whose rounds want one update.
async fn play_round(world: &World, device: &Device) {
    let [assignment] = world.assign([device]).await;
    device.contribute(&assignment, &[0.5; WEIGHTS], 10).await;
    world.drive().await;
}

/// Runs retention: the clock advances until it is due.
async fn retain(world: &World) -> ScheduledWork {
    scheduled::run_due(world.app()).await.unwrap();
    world.hand.advance_ms(HOUR_MS);
    assert!(scheduled::run_due(world.app()).await.unwrap().contains(&Work::Retention));
    let works: Page<ScheduledWork> = world.look("/schedules").await.ok();
    works.items.into_iter().find(|work| work.name == "retention").unwrap()
}

async fn stored_versions(world: &World, job: JobId) -> Vec<u32> {
    let models: Page<ModelVersion> = world.look(&format!("/jobs/{job}/models")).await.ok();
    models.items.iter().filter(|model| model.deleted_at_ms.is_none()).map(|model| model.version).collect()
}

#[tokio::test]
async fn rounds_open_only_in_their_minutes() {
    let world = World::start().await;
    let schedule = json!({ "rounds": "* 2-3 * * *", "time_zone": "Europe/Berlin" });
    let job = world.job(json!({ "schedule": schedule, "round": { "deadline_ms": DAY_MS } })).await;
    // In 1970 Berlin was an hour ahead.
    assert_eq!(job.head.rounds_not_before_ms, Some(HOUR_MS));
    let device = world.device().await;
    world.hand.advance_ms(HOUR_MS - 1 - NOW_MS);
    world.drive().await;
    assert_eq!(world.job_now(job.head.id).await.head.rounds_opened, 0);
    world.pass_ms(1).await;
    assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Selecting);
    assert_eq!(world.job_now(job.head.id).await.head.rounds_not_before_ms, None, "another could open at any moment");
    // A round that is open goes on after its minutes are over; the next one waits for tomorrow.
    let [assignment] = world.assign([&device]).await;
    world.hand.advance_ms(2 * HOUR_MS);
    device.contribute(&assignment, &[0.5; WEIGHTS], 10).await;
    world.drive().await;
    assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Committed);
    let now = world.job_now(job.head.id).await;
    assert_eq!((now.head.rounds_opened, now.head.rounds_not_before_ms), (1, Some(DAY_MS + HOUR_MS)));
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn a_schedule_that_makes_no_sense_is_refused_with_the_reason() {
    let world = World::start().await;
    let cases = [
        (json!({ "rounds": "* * *" }), "five fields"),
        (json!({ "rounds": "* 25 * * *" }), "[schedule] \"* 25 * * *\""),
        (json!({ "rounds": "* * 30 2 *" }), "never matches"),
        (json!({ "rounds": "* * * * *", "time_zone": "Europe/Atlantis" }), "Europe/Atlantis"),
    ];
    for (schedule, named) in cases {
        let refused = world.create_job(&crate::support::job_file(&json!({ "schedule": schedule }))).await;
        let problem = refused.refused(ProblemType::JobFileInvalid);
        assert!(problem.detail.contains(named), "{named}: {}", problem.detail);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_coordinators_do_each_run_once_and_what_was_missed_once() {
    let world = World::start().await;
    let other = world.open_coordinator().await;
    assert_eq!(scheduled::run_due(world.app()).await.unwrap(), [], "nothing is due at the first start");
    for hours in [1, 1, 50] {
        world.hand.advance_ms(hours * HOUR_MS);
        let run = |app: &std::sync::Arc<tributary_server::app::App>| {
            let app = std::sync::Arc::clone(app);
            tokio::spawn(async move { scheduled::run_due(&app).await.unwrap() })
        };
        let (one, two) = (run(world.app()), run(other.app()));
        let done = [one.await.unwrap(), two.await.unwrap()].concat();
        let count = |work| done.iter().filter(|done| **done == work).count();
        assert_eq!(count(Work::Retention), 1, "after {hours} hours: {done:?}");
        if hours > 24 {
            assert_eq!(count(Work::Upkeep), 1, "{done:?}");
        }
    }
    let works: Page<ScheduledWork> = world.look("/schedules").await.ok();
    assert_eq!(works.items.len(), Work::ALL.len());
    let now_ms = NOW_MS + 52 * HOUR_MS;
    for work in works.items {
        let run = work.last.unwrap();
        assert_eq!((run.started_at_ms, run.ended_at_ms, run.failed), (now_ms, Some(now_ms), false), "{}", run.outcome);
        assert!(work.next_at_ms > now_ms);
    }
    other.app().db.close().await;
}

#[tokio::test]
async fn a_restart_keeps_the_minute_that_was_drawn() {
    let mut world = World::start().await;
    scheduled::run_due(world.app()).await.unwrap();
    let before = world.look("/schedules").await.value();
    world.restart().await;
    scheduled::run_due(world.app()).await.unwrap();
    assert_eq!(world.look("/schedules").await.value(), before);
}

#[tokio::test]
async fn retention_deletes_versions_that_nobody_needs() {
    let world = World::start().await;
    let job = world.job(json!({ "retention": { "models": { "last": 2 } } })).await;
    let device = world.device().await;
    for _ in 1..=4 {
        play_round(&world, &device).await;
    }
    let newest = world.weights(job.head.id, 4).await;
    let run = retain(&world).await.last.unwrap();
    assert!(run.outcome.starts_with("deleted 3 model versions"), "{}", run.outcome);
    assert_eq!(stored_versions(&world, job.head.id).await, [3, 4]);
    for version in 0..=2 {
        let problem =
            world.look(&format!("/jobs/{}/models/{version}", job.head.id)).await.refused(ProblemType::Deleted);
        assert!(problem.detail.contains(&format!("version {version}")), "{}", problem.detail);
        let fetched = device.request(Method::GET, &format!("/jobs/{}/models/{version}", job.head.id));
        crate::support::Answer::to(fetched).await.refused(ProblemType::Deleted);
    }
    world.look(&format!("/jobs/{}/models/5", job.head.id)).await.refused(ProblemType::NotFound);
    assert_eq!(world.weights(job.head.id, 4).await, newest);
    play_round(&world, &device).await;
    assert_eq!(world.round(job.head.id, 5).await.phase, Phase::Committed, "the job goes on");
}

/// Goal: outside of its minutes a buffered job draws nobody, and takes what is on its way.
#[tokio::test]
async fn the_calendar_of_a_buffered_job_limits_its_draws() {
    let world = World::start().await;
    let schedule = json!({ "rounds": "* 2-3 * * *", "time_zone": "Europe/Berlin" });
    let changes = json!({ "schedule": schedule, "round": { "deadline_ms": DAY_MS } });
    let file = buffered(&json!({ "buffer": 1, "concurrency": 2 }), &changes);
    let job: Job = world.create_job(&file).await.ok();
    let [fast, slow] = world.devices().await;
    assert_eq!(world.gather(&[&fast]).await, [None], "it is too early");
    world.pass_ms(HOUR_MS - NOW_MS).await;
    let [first, second] = world.assign([&fast, &slow]).await;
    world.hand.advance_ms(2 * HOUR_MS);
    fast.contribute(&first, &[0.5; WEIGHTS], 10).await;
    world.drive().await;
    assert_eq!(world.gather(&[&fast]).await, [None], "its minutes are over");
    slow.contribute(&second, &[0.5; WEIGHTS], 10).await;
    world.drive().await;
    assert_eq!(world.job_now(job.head.id).await.head.model_version, Some(2));
    assert_eq!(world.assignments(job.head.id, 2).await[0].staleness, 1);
    world.pass_ms(22 * HOUR_MS).await;
    let [third] = world.assign([&fast]).await;
    assert_eq!(third.model_version, 2);
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn retention_spares_what_open_work_starts_from() {
    let world = World::start().await;
    let changes = json!({ "retention": { "models": { "last": 1 } }, "round": { "deadline_ms": 10 * DAY_MS } });
    let job: Job = world.create_job(&buffered(&json!({ "buffer": 1, "concurrency": 2 }), &changes)).await.ok();
    let [fast, slow] = world.devices().await;
    let [mut work, old] = world.assign([&fast, &slow]).await;
    for version in 1..=2 {
        fast.contribute(&work, &[0.5; WEIGHTS], 10).await;
        world.drive().await;
        if version == 1 {
            [work] = world.assign([&fast]).await;
        }
    }
    retain(&world).await;
    assert_eq!(stored_versions(&world, job.head.id).await, [0, 2]);
    slow.contribute(&old, &[0.5; WEIGHTS], 10).await;
    world.drive().await;
    retain(&world).await;
    assert_eq!(stored_versions(&world, job.head.id).await, [3]);
}

#[tokio::test]
async fn retention_spares_what_open_evaluations_measure() {
    let world = World::start().await;
    let file = evaluated_job(&json!({ "retention": { "models": { "last": 1 } } }));
    let job: tributary_protocol::operator::Job = world.create_job(&file).await.ok();
    let device = world.device().await;
    for _ in 1..=3 {
        play_round(&world, &device).await;
    }
    // Nobody evaluates: the evaluation of version 1 waits for evaluators, and further ones do not open meanwhile.
    assert_eq!(world.evaluation(job.head.id, 1).await.phase, Phase::Selecting);
    retain(&world).await;
    assert_eq!(stored_versions(&world, job.head.id).await, [1, 3]);
    world.drive().await;
    assert_eq!(world.evaluation(job.head.id, 1).await.phase, Phase::Abandoned);
    retain(&world).await;
    assert_eq!(stored_versions(&world, job.head.id).await, [3]);
}

#[tokio::test]
async fn history_is_deleted_and_summaries_stay() {
    let world = World::start().await;
    let job = world.job(json!({ "retention": { "history_days": 2 } })).await;
    let device = world.device().await;
    play_round(&world, &device).await;
    let first = world.round(job.head.id, 1).await;
    world.hand.advance_ms(2 * DAY_MS - HOUR_MS);
    play_round(&world, &device).await;
    let waiting = world.assign([&device]).await;

    let run = retain(&world).await.last.unwrap();
    assert!(run.outcome.contains("of 0 rounds"), "two days are not over: {}", run.outcome);
    world.hand.advance_ms(1);
    let run = retain(&world).await.last.unwrap();
    assert!(run.outcome.contains("the assignments of 1 rounds"), "{}", run.outcome);
    assert_eq!(world.round(job.head.id, 1).await, first, "its summary stays");
    let gone = world.look(&format!("/jobs/{}/rounds/1/assignments", job.head.id)).await;
    assert!(gone.refused(ProblemType::Deleted).detail.contains("history_days"));
    assert_eq!(world.assignments(job.head.id, 2).await.len(), 1);
    let events: Page<Event> = world.look(&format!("/events?job={}&limit=1000", job.head.id)).await.ok();
    assert!(events.items.iter().all(|event| event.round != Some(1) || event.at_ms > NOW_MS), "{events:?}");
    assert_eq!((events.items[0].sequence, events.items[0].became.as_str()), (1, "running"), "the job's own stay");
    assert_eq!(stored_versions(&world, job.head.id).await, [0, 1, 2], "models are another matter");

    // The round that was open all the time goes on, whatever its age.
    world.hand.advance_ms(9 * DAY_MS);
    retain(&world).await;
    assert_eq!(world.assignments(job.head.id, 3).await[0].id, waiting[0].id);
}

#[tokio::test]
async fn upkeep_gives_deleted_space_back() {
    let world = World::start_on_sqlite().await;
    let keys: Vec<String> = (0..4).map(|number| format!("model/test/{number}")).collect();
    let mut tx = world.app().db.begin().await.unwrap();
    for key in &keys {
        tx.insert_blob(key, &vec![7; 3 << 20]).await.unwrap();
    }
    tx.commit().await.unwrap();
    assert_eq!(world.app().db.tidy().await.unwrap(), 0, "nothing was deleted");
    let size = || std::fs::metadata(world.database()).unwrap().len();
    let before = size();
    assert!(before > 12 << 20, "{before} bytes");
    let pool = sqlx_sqlite::SqlitePool::connect(&format!("sqlite:{}", world.database())).await.unwrap();
    sqlx::query("delete from blob_chunks where blob like 'model/test/%'").execute(&pool).await.unwrap();
    pool.close().await;
    let bytes = world.app().db.tidy().await.unwrap();
    assert!(bytes > 12 << 20, "{bytes} bytes given back");
    // A page for each table and index is left.
    assert!(size() < 2 << 20, "{} bytes are left of {before}", size());
}
