//! A job that evaluates on clients that do not exist.

use serde_json::json;
use tributary_protocol::operator::{Job, Page, Round, RoundDetail};
use tributary_protocol::state::{AbandonReason, HealthKind, JobState, Phase, Severity};

use crate::support::{WEIGHTS, World, evaluated_job};

/// Rounds of the job.
const ROUNDS: u32 = 8;

#[tokio::test]
async fn evaluations_without_an_evaluator_do_not_pile_up_and_say_whom_they_want() {
    let world = World::start().await;
    let changes = json!({ "stop": { "rounds": ROUNDS }, "evaluation": { "attributes": { "evaluator": "nobody" } } });
    let job: Job = world.create_job(&evaluated_job(&changes)).await.ok();
    let device = world.device().await;
    for round in 1..=ROUNDS {
        let [work] = world.assign([&device]).await;
        assert_eq!(work.round, round);
        device.contribute(&work, &[0.1; WEIGHTS], 10).await;
        world.drive().await;
        let overview = world.look("/overview").await.value();
        let open = overview["jobs"][0]["open_rounds"].as_array().unwrap();
        let evaluations = open.iter().filter(|round| round["task"] == "evaluate").count();
        assert_eq!(evaluations, 1, "after round {round}");
    }
    let rounds: Page<Round> = world.look(&format!("/jobs/{}/rounds?task=evaluate", job.head.id)).await.ok();
    let ends: Vec<_> = rounds.items.iter().map(|round| (round.number, round.phase, round.reason)).collect();
    let superseded = (1, Phase::Abandoned, Some(AbandonReason::Superseded));
    assert_eq!(ends, [superseded, (ROUNDS, Phase::Selecting, None)], "the first waited, the last takes its place");

    let wants = "0 of 1 enrolled clients have evaluator=nobody (none 1)";
    let now = world.job_now(job.head.id).await;
    let health = now.health[0].clone();
    assert_eq!((now.head.state, health.severity), (JobState::Running, Severity::Warning));
    assert_eq!(health.kind, HealthKind::WaitingForEvaluators);
    let begins = "trained; waits for its last evaluation: the evaluation of round 8 has 0 of the 1 evaluator it needs";
    assert!(health.text.starts_with(begins) && health.text.ends_with(wants), "{}", health.text);
    assert!(health.remedy.unwrap().contains("evaluator=nobody"));
    let detail: RoundDetail = world.look(&format!("/jobs/{}/rounds/8?task=evaluate", job.head.id)).await.ok();
    assert!(detail.explanation.contains(wants), "{}", detail.explanation);

    world.pass_ms(20_000).await;
    assert_eq!(world.job_now(job.head.id).await.head.state, JobState::Completed, "it does not wait for ever");
    world.check_books(job.head.id).await;
}
