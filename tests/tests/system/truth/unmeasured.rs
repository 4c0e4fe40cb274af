//! Jobs that end without a measurement of their models.

use serde_json::json;
use tributary_protocol::operator::{Job, Page};
use tributary_protocol::state::{HealthKind, JobState, Severity};

use crate::support::{WEIGHTS, World};

/// Goal: a job that ends without a measurement does not look clean, today and tomorrow.
/// Method: an evaluation by clients that do not exist; beside it, a job that asks for none.
#[tokio::test]
async fn a_job_that_ends_without_a_measurement_keeps_the_warning() {
    let world = World::start().await;
    let changes = json!({ "stop": { "rounds": 1 }, "evaluation": {
        "attributes": { "role": "nobody" }, "selection_timeout_ms": 20_000,
    } });
    let job = world.job(changes).await.head.id;
    let device = world.device().await.with("role", "phone");
    let [work] = world.assign([&device]).await;
    device.contribute(&work, &[0.1; WEIGHTS], 10).await;
    world.drive().await;
    let wants = "0 of 1 enrolled clients have role=nobody (phone 1)";
    let waits = world.job_now(job).await.health;
    assert_eq!((waits[0].severity, waits[0].kind), (Severity::Warning, HealthKind::WaitingForEvaluators));
    assert!(waits[0].text.ends_with(wants), "{waits:?}");

    world.pass_ms(20_000).await;
    let now = world.job_now(job).await;
    assert_eq!((now.head.state, now.progress.unwrap().accuracy), (JobState::Completed, None));
    let kinds: Vec<_> = now.health.iter().map(|line| (line.severity, line.kind)).collect();
    assert_eq!(kinds, [(Severity::Warning, HealthKind::NotMeasured), (Severity::Ok, HealthKind::Ended)]);
    let text = &now.health[0].text;
    assert!(
        text.starts_with("the job ended, and its model was never measured. The evaluation of round 1 was"),
        "{text}"
    );
    assert!(text.ends_with(&format!("; {wants}.")), "{text}");
    world.pass_ms(7 * 24 * 3_600_000).await;
    let jobs: Page<Job> = world.look("/jobs").await.ok();
    assert_eq!(jobs.items[0].health, now.health, "a week later");

    let plain = world.job(json!({ "name": "plain", "stop": { "rounds": 1 } })).await.head.id;
    let [work] = world.assign([&device]).await;
    device.contribute(&work, &[0.1; WEIGHTS], 10).await;
    world.drive().await;
    let kinds: Vec<_> = world.job_now(plain).await.health.iter().map(|line| line.kind).collect();
    assert_eq!(kinds, [HealthKind::Ended], "it asked for no measurement");
    world.check_books(job).await;
}
