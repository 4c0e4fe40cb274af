//! Clients that are shut out: by an operator, or because their updates are rejected again and again.

use reqwest::Method;
use serde_json::{Value, json};
use tributary_protocol::device::CheckInResponse;
use tributary_protocol::operator::{AuditEntry, Client, Page};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AssignmentState, AuditAction, Phase, Standing};

use crate::support::{Answer, Device, WEIGHTS, World, delta_file, figures};

const STEP: [f32; WEIGHTS] = [0.5; WEIGHTS];

async fn set_standing(world: &World, device: &Device, change: Value) -> Answer {
    world.operate(Method::PUT, &format!("/clients/{}/standing", device.id), &change).await
}

async fn standing(world: &World, device: &Device) -> (Standing, Option<String>) {
    let client: Client = world.look(&format!("/clients/{}", device.id)).await.ok();
    (client.standing, client.standing_reason)
}

async fn actions(world: &World) -> Vec<AuditAction> {
    let entries: Page<AuditEntry> = world.look("/audit").await.ok();
    entries.items.iter().map(|entry| entry.action).collect()
}

#[tokio::test]
async fn a_revoked_client_is_out_at_once_and_for_good_and_its_round_goes_on() {
    let world = World::start().await;
    let job = world.job(json!({ "round": { "updates_goal": 2, "updates_min": 1 } })).await;
    let [bad, good] = world.devices().await;
    let [theirs, ours] = world.assign([&bad, &good]).await;
    let revoked: Client =
        set_standing(&world, &bad, json!({ "standing": "revoked", "reason": "leaked secret" })).await.ok();
    assert_eq!((revoked.standing, revoked.standing_reason.as_deref()), (Standing::Revoked, Some("leaked secret")));
    let body = delta_file(&theirs, &STEP);
    bad.put_update(theirs.id, &figures(10), body).await.refused(ProblemType::ClientRevoked);
    Answer::to(bad.request(Method::POST, "/checkins").json(&bad.check_in_request(0)))
        .await
        .refused(ProblemType::ClientRevoked);
    good.contribute(&ours, &STEP, 10).await;
    world.pass_ms(10_000).await;
    let round = world.round(job.head.id, 1).await;
    assert_eq!((round.phase, round.reported, round.failed), (Phase::Committed, 1, 1));
    set_standing(&world, &bad, json!({ "standing": "active" })).await.refused(ProblemType::WrongState);
    assert!(actions(&world).await.contains(&AuditAction::ClientRevoke));
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn a_client_whose_updates_are_rejected_again_and_again_gets_no_work_until_it_is_released() {
    let world = World::start().await;
    let job = world.job(json!({ "round": { "updates_goal": 2, "updates_min": 1 } })).await;
    let [bad, good] = world.devices().await;
    for round in 1..=3 {
        assert_eq!(standing(&world, &bad).await.0, Standing::Active);
        let [theirs, ours] = world.assign([&bad, &good]).await;
        let broken = delta_file(&theirs, &[f32::NAN; WEIGHTS]);
        bad.put_update(theirs.id, &figures(10), broken).await.refused(ProblemType::UpdateRejected);
        good.contribute(&ours, &STEP, 10).await;
        world.pass_ms(10_000).await;
        assert_eq!(world.round(job.head.id, round).await.phase, Phase::Committed);
    }
    let (now, reason) = standing(&world, &bad).await;
    assert_eq!((now, reason.as_deref()), (Standing::Quarantined, Some("its last 3 updates were rejected")));
    assert_eq!(actions(&world).await[0], AuditAction::ClientQuarantine);
    // It is answered at once, though it would wait, and takes no place in a cohort.
    assert!(matches!(bad.check_in(60_000).await, CheckInResponse::Retry { .. }));
    set_standing(&world, &bad, json!({ "standing": "active" })).await.value();
    let [theirs, ours] = world.assign([&bad, &good]).await;
    bad.contribute(&theirs, &STEP, 10).await;
    good.contribute(&ours, &STEP, 10).await;
    world.drive().await;
    // What was rejected before its release does not count again.
    let [theirs, _] = world.assign([&bad, &good]).await;
    let broken = delta_file(&theirs, &[f32::NAN; WEIGHTS]);
    bad.put_update(theirs.id, &figures(10), broken).await.refused(ProblemType::UpdateRejected);
    assert_eq!(standing(&world, &bad).await, (Standing::Active, None));
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn a_quarantine_ends_open_work_and_a_token_can_be_revoked_with_its_clients() {
    let world = World::start().await;
    let job = world.job(json!({})).await;
    let device = world.device().await;
    let [assignment] = world.assign([&device]).await;
    set_standing(&world, &device, json!({ "standing": "quarantined", "reason": "\u{1b}[2Jwhy" })).await.value();
    assert_eq!(standing(&world, &device).await.1.as_deref(), Some("\u{fffd}[2Jwhy"), "it acts on no terminal");
    assert_eq!(world.assignments(job.head.id, 1).await[0].state, AssignmentState::Failed);
    let body = delta_file(&assignment, &STEP);
    device.put_update(assignment.id, &figures(10), body).await.refused(ProblemType::AssignmentClosed);

    let tokens: Page<Value> = world.look("/tokens").await.ok();
    let enrolment = tokens.items.iter().find(|token| token["kind"] == "enrolment").unwrap();
    let path = format!("/tokens/{}?with_clients=true", enrolment["id"].as_str().unwrap());
    assert_eq!(Answer::to(world.operator_request(Method::DELETE, &path)).await.status, 204);
    assert_eq!(standing(&world, &device).await.0, Standing::Revoked);
    let enrol = world.request(Method::POST, "/device/v1/clients").bearer_auth(&world.enrolment);
    Answer::to(enrol.json(&json!({}))).await.refused(ProblemType::Unauthorized);
    world.check_books(job.head.id).await;
}
