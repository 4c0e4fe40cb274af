//! A budget that all private jobs of a population share: what one spends, others cannot.

use reqwest::Method;
use serde_json::{Value, json};
use tributary_engine::privacy::gaussian;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::operator::{BudgetState, Event, Job, JobPrivacyState, Page, PopulationBudget};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{JobState, Phase};

use super::private::{often, private};
use crate::support::{Device, WEIGHTS, World, job_file};

const BUDGET: &str = "/populations/devices/budget";
/// Each round of a job tells as much as one Gaussian release of mu 1/4.
const NOISE: f64 = 4.0;
const DELTA: f64 = 1e-6;

fn named(name: &str, changes: &Value) -> Value {
    let mut settings = often(&json!({ "noise_multiplier": NOISE }));
    settings.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    let mut file = private(50, &settings);
    file["name"] = json!(name);
    file
}

async fn budget(world: &World) -> BudgetState {
    let state: PopulationBudget = world.look(BUDGET).await.ok();
    state.budget.unwrap()
}

/// What so many rounds of all jobs together spend.
fn of_rounds(rounds: u32) -> f64 {
    gaussian::epsilon(f64::from(rounds).sqrt() / NOISE, DELTA)
}

async fn round(world: &World, devices: &[Device; 3]) {
    let [a, b, c] = devices;
    for (device, assignment) in devices.iter().zip(world.assign([a, b, c]).await) {
        device.contribute(&assignment, &[0.01; WEIGHTS], 10).await;
    }
    world.drive().await;
}

async fn act(world: &World, job: &Job, action: &str) {
    world.operate(Method::POST, &format!("/jobs/{}/{action}", job.head.id), &json!({})).await.value();
}

async fn ended_by(world: &World, job: &Job) -> Option<String> {
    let events: Page<Event> = world.look(&format!("/events?job={}&limit=1000", job.head.id)).await.ok();
    events.items.into_iter().rev().find(|event| event.became == "completed").and_then(|event| event.cause)
}

/// Goal: two jobs spend one budget, whatever becomes of them. Method: six rounds fit, of which the first job has three,
/// and an open one that is counted before it closes; a deleted job gives nothing back.
#[tokio::test]
async fn jobs_of_a_population_spend_one_budget() {
    let mut world = World::start().await;
    let shared = json!({ "epsilon": f64::midpoint(of_rounds(6), of_rounds(7)), "delta": DELTA });
    let set: PopulationBudget = world.operate(Method::PUT, BUDGET, &shared).await.ok();
    assert_eq!((set.budget.as_ref().unwrap().spent, set.budget.unwrap().jobs.len()), (0.0, 0));
    let first: Job = world.create_job(&named("first", &json!({}))).await.ok();
    let devices: [_; 3] = world.devices().await;
    for _ in 0..2 {
        round(&world, &devices).await;
    }
    let [a, b, c] = &devices;
    let last = world.assign([a, b, c]).await;
    // A round that is open when its job is paused goes on, and no further one opens.
    act(&world, &first, "pause").await;
    for (device, assignment) in devices.iter().zip(last) {
        device.contribute(&assignment, &[0.01; WEIGHTS], 10).await;
    }
    world.drive().await;
    assert_eq!(budget(&world).await.spent.to_bits(), of_rounds(3).to_bits());
    let second: Job = world.create_job(&named("second", &json!({}))).await.ok();
    for number in 1..=2 {
        round(&world, &devices).await;
        assert_eq!(world.round(second.head.id, number).await.phase, Phase::Committed);
    }
    // The second job's third round is open: with the first one's next it would be too much, if it comes to a sum.
    let open = world.assign([a, b, c]).await;
    assert!(open.iter().all(|assignment| assignment.job == second.head.id));
    act(&world, &first, "resume").await;
    world.restart().await;
    world.drive().await;
    let waits = world.job_now(first.head.id).await.head;
    assert_eq!((waits.state, waits.rounds_committed), (JobState::Running, 3));
    for (device, assignment) in devices.iter().zip(open) {
        device.contribute(&assignment, &[0.01; WEIGHTS], 10).await;
    }
    world.drive().await;
    let now = world.job_now(second.head.id).await;
    assert_eq!((now.head.state, now.head.rounds_committed), (JobState::Completed, 3));
    assert_eq!(ended_by(&world, &second).await.as_deref(), Some("privacy_budget"));
    assert_eq!(world.job_now(first.head.id).await.head.state, JobState::Completed);
    assert_eq!(ended_by(&world, &first).await.as_deref(), Some("privacy_budget"));
    let spent = budget(&world).await;
    assert_eq!((spent.spent.to_bits(), spent.jobs.len()), (of_rounds(6).to_bits(), 2));
    assert!((spent.jobs[1].epsilon - of_rounds(3)).abs() < 1e-12);
    let privacy: JobPrivacyState = world.look(&format!("/jobs/{}/privacy", first.head.id)).await.ok();
    assert_eq!(privacy.shared, Some(spent.clone()));

    let path = format!("/jobs/{}", second.head.id);
    assert_eq!(world.operate(Method::DELETE, &path, &json!({})).await.status, 204);
    world.drive().await;
    let after = budget(&world).await;
    assert_eq!((after.spent.to_bits(), after.jobs.len()), (spent.spent.to_bits(), 1), "what was told stays told");
    let refused = world.create_job(&named("third", &json!({}))).await;
    let refused = refused.refused(ProblemType::JobFileInvalid).detail;
    assert!(refused.contains("the first round of third would spend epsilon"), "{refused}");
}

/// Goal: a job that no budget can count is refused by name, and a budget that was spent from only becomes stricter.
#[tokio::test]
async fn what_a_shared_budget_cannot_count_is_refused() {
    let world = World::start().await;
    let plain: Job = world.create_job(&job_file(&json!({ "name": "plain" }))).await.ok();
    let shared = |epsilon: f64| json!({ "epsilon": epsilon, "delta": DELTA });
    let put = async |value: &Value| world.operate(Method::PUT, BUDGET, value).await;
    let refused = put(&shared(3.0)).await.refused(ProblemType::WrongState).detail;
    assert!(refused.contains("plain would tell about its clients what no budget counts"), "{refused}");
    act(&world, &plain, "stop").await;
    for wrong in [shared(0.0), shared(101.0), json!({ "epsilon": 1.0, "delta": 0.5 })] {
        put(&wrong).await.refused(ProblemType::Malformed);
    }
    put(&shared(3.0)).await.value();
    let nobody = world.operate(Method::PUT, "/populations/nobody/budget", &shared(3.0)).await;
    nobody.refused(ProblemType::NotFound);
    let key = json!({ "test_key": Sha256Hash([1; 32]).to_string() });
    for (file, why) in [
        (job_file(&json!({ "name": "second" })), "each needs [privacy]"),
        (named("second", &key), "has a test_key, which hides nothing"),
        (named("second", &json!({ "unit": { "attribute": "user" } })), "protects another unit"),
        (named("second", &json!({ "noise_multiplier": 1.0 })), "would spend epsilon"),
    ] {
        let refused = world.create_job(&file).await.refused(ProblemType::JobFileInvalid).detail;
        assert!(refused.contains(why), "{refused}");
        let dry = world.operate(Method::POST, "/jobs?dry_run=true", &json!({ "job": file })).await;
        assert_eq!(dry.refused(ProblemType::JobFileInvalid).detail, refused);
    }
    // Nothing is spent yet, so it may still grow.
    put(&shared(4.0)).await.value();
    world.create_job(&named("second", &json!({}))).await.value();
    round(&world, &world.devices().await).await;
    let refused = put(&shared(5.0)).await.refused(ProblemType::WrongState).detail;
    assert!(refused.contains("can only become stricter"), "{refused}");
    put(&shared(2.0)).await.value();
    assert_eq!(budget(&world).await.budget.epsilon.to_bits(), 2f64.to_bits());
}
