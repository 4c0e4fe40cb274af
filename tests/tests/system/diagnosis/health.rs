//! The health line of a job: in its list, in the overview, in the metrics.

use reqwest::Method;
use serde_json::json;
use tributary_protocol::operator::{Job, Page, System};
use tributary_protocol::state::{HealthKind, Severity};
use tributary_server::metrics::MetricsAccess;

use crate::support::{Answer, World};

#[tokio::test]
async fn a_job_that_finds_no_clients_says_how_many_it_wants_and_then_that_it_is_in_trouble() {
    let mut world = World::start().await;
    world.set_metrics(MetricsAccess::Open);
    world.restart().await;
    let round = json!({ "updates_goal": 10, "updates_min": 5, "over_selection": 1.3 });
    let job = world.job(json!({ "round": round })).await;
    let device = world.device().await;
    let _waiting = device.wait();
    world.until_waiting(1).await;
    world.drive().await;
    let health = world.job_now(job.head.id).await.health[0].clone();
    assert_eq!((health.severity, health.kind), (Severity::Warning, HealthKind::WaitingForClients));
    assert_eq!(
        health.text,
        "round 1 waits for clients: 1 of 13 are here; in 1 min it starts with those, or is abandoned with fewer than 5; \
         1 of 1 enrolled clients can join"
    );
    for _ in 0..3 {
        // The time of the selection, and of the longest pause.
        world.pass_ms(60_000).await;
        world.pass_ms(4_000).await;
    }
    let jobs: Page<Job> = world.look("/jobs").await.ok();
    let health = jobs.items[0].health[0].clone();
    assert_eq!((health.severity, health.kind), (Severity::Trouble, HealthKind::RoundsAbandoned));
    let begins = "3 of the last 3 rounds were abandoned. Round 3 was abandoned: fewer than 5 eligible clients checked in \
                  within 1 min.";
    assert!(health.text.starts_with(begins), "{}", health.text);
    assert!(health.remedy.unwrap().contains("updates_min"));
    let metrics = Answer::to(world.request(Method::GET, "/metrics")).await;
    let text = String::from_utf8(metrics.body.to_vec()).unwrap();
    for (kind, jobs) in [("rounds_abandoned", 1), ("waiting_for_clients", 0)] {
        assert!(text.contains(&format!("tributary_jobs{{kind=\"{kind}\"}} {jobs}\n")), "{kind} in\n{text}");
    }
}

#[tokio::test]
async fn the_system_says_how_much_room_the_disk_has() {
    let world = World::start_on_sqlite().await;
    let system: System = world.look("/system").await.ok();
    assert!(system.storage.free_bytes.is_some_and(|bytes| bytes > 0), "{:?}", system.storage);
    assert_eq!(system.storage.full_in_ms, None, "no model, no growth");
    world.job(json!({})).await;
    let system: System = world.look("/system").await.ok();
    assert!(system.storage.full_in_ms.is_some_and(|ms| ms > 0), "{:?}", system.storage);
}
