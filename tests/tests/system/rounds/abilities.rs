//! A job that most clients of a fleet cannot follow: no round draws them, so the others play as if they were alone.

use reqwest::Method;
use serde_json::{Value, json};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::operator::{JobDraft, Round};
use tributary_protocol::state::{AssignmentState, HealthKind, Phase, Severity};

use crate::support::{Answer, Device, World, job_file};

/// Rounds that are played.
const ROUNDS: u32 = 6;
/// Clients of a cohort.
const COHORT: u32 = 4;
/// Clients whose SDK knows every layer of the job: two fifths of the fleet. They enrol first, as cohorts are drawn by
/// the order of enrolment.
const ABLE: usize = 8;
const UNABLE: usize = 12;

/// A job with a recurrent layer.
fn job() -> Value {
    json!({
        "model": {
            "parameters": null, "input": [3, 2],
            "layers": [{ "kind": "gru", "hidden_size": 2 }, { "kind": "linear", "out_features": 2 }],
        },
        "round": { "updates_goal": COHORT, "updates_min": COHORT },
    })
}

/// What became of the rounds of a fleet.
#[derive(Debug, PartialEq)]
struct Played {
    committed: u32,
    /// Assignments without an update.
    lost: u32,
    /// Clients in the order of enrolment that were drawn.
    drawn: Vec<usize>,
    model: Vec<u8>,
}

/// Plays rounds with clients that know the layer and with others, which give back what they cannot follow.
async fn play(unable: usize, abilities: &'static [&'static str]) -> Played {
    let world = World::start().await;
    let mut fleet: Vec<Device> = Vec::new();
    for number in 0..ABLE + unable {
        let device = world.device().await;
        fleet.push(if number < ABLE { device } else { device.able(abilities) });
    }
    let job = world.job(job()).await.head.id;
    let (mut committed, mut lost, mut drawn) = (0, 0, Vec::new());
    for number in 1..=ROUNDS {
        let work = world.gather(&fleet.iter().collect::<Vec<_>>()).await;
        for (client, assignment) in work.iter().enumerate() {
            let Some(assignment) = assignment else { continue };
            drawn.push(client);
            if client < ABLE {
                let values = assignment.plan.model.parameters().unwrap().total();
                fleet[client].contribute(assignment, &vec![0.25; values], 10).await;
            } else {
                fleet[client].fail(assignment.id, "does_not_fit").await.value();
            }
        }
        // A round that lost a slot waits for its deadline, and the next one for a while after it.
        world.pass_ms(20_000).await;
        world.pass_ms(5_000).await;
        let round: Round = world.round(job, number).await;
        committed += u32::from(round.phase == Phase::Committed);
        let assignments = world.assignments(job, number).await;
        lost += assignments.iter().filter(|one| one.state != AssignmentState::Reported).count() as u32;
    }
    let version = world.job_now(job).await.head.rounds_committed;
    Played { committed, lost, drawn, model: world.model_file(job, version).await }
}

#[tokio::test]
async fn clients_that_cannot_follow_a_plan_take_no_slot_of_its_rounds() {
    let alone = play(0, &["first"]).await;
    assert_eq!((alone.committed, alone.lost), (ROUNDS, 0));
    assert_eq!(alone.drawn.len(), (ROUNDS * COHORT) as usize);
    let among_others = play(UNABLE, &["first", "-layer:gru"]).await;
    assert_eq!((among_others.committed, among_others.lost), (ROUNDS, 0), "{:?}", among_others.drawn);
    assert_eq!(among_others, alone, "the same clients are drawn, and the model has the same bits");
    // What they would cost if their SDKs said nothing.
    let unsaid = play(UNABLE, &["first"]).await;
    assert!(unsaid.lost > 0 && unsaid.committed < ROUNDS, "{unsaid:?}");
}

#[tokio::test]
async fn the_check_and_the_health_of_a_job_count_who_cannot_follow_it() {
    let world = World::start().await;
    for abilities in [&["first"][..], &["first", "-layer:gru"], &["first", "-layer:gru"], &["task:train", "layer:gru"]]
    {
        world.device().await.able(abilities).check_in(0).await;
    }
    let check = async |changes: Value| {
        let draft: JobDraft =
            world.operate(Method::POST, "/jobs?dry_run=true", &json!({ "job": job_file(&changes) })).await.ok();
        draft.remarks.into_iter().find(|remark| remark.contains("cannot follow"))
    };
    let counted = "3 of 4 clients cannot follow this plan, and no round draws them: 2 with test, which lacks layer:gru; \
                   1 with test, which lacks layer:linear, loss:cross_entropy, optimizer:sgd, algorithm:plain";
    assert_eq!(check(job()).await.as_deref(), Some(counted));
    let running = world.job(job()).await.head.id;
    let health = world.job_now(running).await.health;
    let line = health.iter().find(|line| line.kind == HealthKind::CannotFollow).unwrap();
    assert_eq!((line.text.as_str(), line.severity), (counted, Severity::Warning));
    let own = check(json!({ "name": "own" })).await.unwrap();
    assert!(own.starts_with("1 of 4 clients cannot follow this plan"), "{own}");
}

#[tokio::test]
async fn the_check_and_the_health_of_a_job_count_who_has_another_table() {
    let world = World::start().await;
    let running = world.job(json!({ "round": { "updates_goal": 2, "updates_min": 2 } })).await.head.id;
    let said = async |world: &World| -> (Option<String>, Option<String>) {
        let file = job_file(&json!({ "name": "next" }));
        let draft: JobDraft = world.operate(Method::POST, "/jobs?dry_run=true", &json!({ "job": file })).await.ok();
        let health = world.job_now(running).await.health;
        let line = health.into_iter().find(|line| line.kind == HealthKind::OtherTables);
        (draft.remarks.into_iter().find(|remark| remark.contains("other columns")), line.map(|line| line.text))
    };
    assert_eq!(said(&world).await, (None, None));
    let waits = |device: &Device, schema: Option<&str>| {
        let mut request = device.check_in_request(60_000);
        request["schema"] = json!(schema);
        let request = device.request(Method::POST, "/checkins").json(&request);
        tokio::spawn(Answer::to(request))
    };
    let (other, own) = (world.device().await, world.device().await);
    let waiting = [waits(&other, Some(&Sha256Hash::of(b"another job's").to_string())), waits(&own, None)];
    world.until_waiting(2).await;
    // A count is kept for a while.
    world.pass_ms(20_000).await;
    let counted = "1 of 2 waiting clients have a table with other columns or classes than this job, and no round draws \
                   them";
    let named = format!("{counted}: {}", other.id);
    assert_eq!(said(&world).await, (Some(named), Some(counted.to_owned())));
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn a_client_learns_what_its_sdk_lacks() {
    let world = World::start().await;
    world.job(job()).await;
    world.drive().await;
    let device = world.device().await.able(&["first", "-layer:gru", "-layer:hologram"]);
    let answer = serde_json::to_value(device.check_in(0).await).unwrap();
    let reason = "its SDK cannot follow the plan: it lacks layer:gru";
    assert_eq!((&answer["waits_for"]["kind"], &answer["waits_for"]["reason"]), (&json!("admission"), &json!(reason)));
}
