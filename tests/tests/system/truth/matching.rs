//! Jobs for which nobody fits.

use serde_json::json;
use tributary_protocol::operator::{Job, Page, RoundDetail};
use tributary_protocol::state::{HealthKind, Severity};

use crate::support::World;

/// Goal: a job that no client fits says so before and after its rounds are abandoned, and what there is instead.
/// Method: clients of three platforms, and a job for a fourth.
#[tokio::test]
async fn a_job_that_nobody_fits_says_what_there_is_instead() {
    let world = World::start().await;
    let platforms = ["android", "ios", "android", "pi", "android", "ios"];
    for platform in platforms {
        world.device().await.with("platform", platform).check_in(0).await;
    }
    world.device().await.check_in(0).await;
    let changes = json!({ "eligibility": { "attributes": { "platform": "watch" } } });
    let job = world.job(changes).await.head.id;
    world.drive().await;
    let wants = "0 of 7 enrolled clients have platform=watch (android 3, ios 2, none 1, pi 1)";
    let waits = world.job_now(job).await.health;
    assert_eq!((waits[0].severity, waits[0].kind), (Severity::Warning, HealthKind::WaitingForClients));
    assert!(waits[0].text.ends_with(wants), "{waits:?}");
    for _ in 0..3 {
        world.pass_ms(60_000).await;
        world.pass_ms(4_000).await;
    }
    let health = world.job_now(job).await.health;
    let kinds: Vec<_> = health.iter().map(|line| (line.severity, line.kind)).collect();
    let expected =
        [(Severity::Trouble, HealthKind::RoundsAbandoned), (Severity::Warning, HealthKind::WaitingForClients)];
    assert_eq!(kinds, expected, "one line does not hide the other");
    let why = format!("fewer than 1 eligible client checked in within 1 min; {wants}.");
    assert!(health[0].text.ends_with(&why), "{health:?}");
    let detail: RoundDetail = world.look(&format!("/jobs/{job}/rounds/1")).await.ok();
    assert_eq!(detail.explanation, format!("Round 1 was abandoned: {why}"));
    let jobs: Page<Job> = world.look("/jobs").await.ok();
    assert_eq!(jobs.items[0].health, health, "the list has the same lines");
    let overview = world.look("/overview").await.value();
    assert_eq!(overview["jobs"][0]["health"][0]["kind"], "rounds_abandoned");

    world.operate(reqwest::Method::POST, &format!("/jobs/{job}/stop"), &json!({})).await.value();
    world.drive().await;
    let health = world.job_now(job).await.health;
    let kinds: Vec<_> = health.iter().map(|line| (line.severity, line.kind)).collect();
    assert_eq!(kinds, [(Severity::Warning, HealthKind::RoundsAbandoned), (Severity::Ok, HealthKind::Ended)]);
    world.check_books(job).await;
}
