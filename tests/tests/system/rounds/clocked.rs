//! Stale-synchronous jobs: members with clocks, of which none runs too far ahead of the slowest.

use serde_json::{Value, json};
use tributary_protocol::operator::{Job, MemberClock, RoundDetail};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AbandonReason, Phase};

use super::buffered::{buffered, report, versions};
use crate::support::{Device, WEIGHTS, World, job_file, postgres};

const STEP: [f32; WEIGHTS] = [0.5; WEIGHTS];

/// A job file with members.
fn clocked(members: u32, slack: u32, changes: &Value) -> Value {
    buffered(&json!({ "kind": "stale_synchronous", "members": members, "slack": slack }), changes)
}

async fn start(world: &World, members: u32, slack: u32) -> Job {
    world.create_job(&clocked(members, slack, &json!({}))).await.ok()
}

async fn clocks(world: &World, job: &Job, round: u32) -> Vec<MemberClock> {
    let detail: RoundDetail = world.look(&format!("/jobs/{}/rounds/{round}", job.head.id)).await.ok();
    detail.clocks
}

/// Clock and presence of each member.
async fn at(world: &World, job: &Job, round: u32) -> Vec<(u32, bool)> {
    clocks(world, job, round).await.iter().map(|member| (member.clock, member.is_working)).collect()
}

#[tokio::test]
async fn a_slack_of_0_gives_synchronous_rounds_to_the_last_bit() {
    let synchronous = job_file(&json!({ "round": { "updates_goal": 3, "updates_min": 3 } }));
    assert_eq!(versions(&clocked(3, 0, &json!({}))).await, versions(&synchronous).await);
}

/// Goal: a fast member runs ahead by the slack, sees the versions made meanwhile, waits then, and begins again with the
/// update that lifts the bound.
/// Method: of two members with a slack of 1, one reports twice before the other reports once.
async fn a_fast_member_waits_for_the_slowest(mut world: World) {
    let job = start(&world, 2, 1).await;
    let [fast, slow] = world.devices().await;
    assert_eq!(world.gather(&[&fast]).await, [None], "the round waits for both");
    assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Selecting);
    let [first, late] = world.assign([&fast, &slow]).await;
    assert_eq!(late.deadline_in_ms, 10_000);
    report(&fast, &first, &STEP, 10).await;
    let [second] = world.assign([&fast]).await;
    assert_ne!(first.seed, second.seed);
    report(&fast, &second, &STEP, 10).await;
    world.restart().await;
    assert_eq!(world.gather(&[&fast]).await, [None], "it is two updates ahead");
    let open = world.round(job.head.id, 2).await;
    assert_eq!((open.phase, open.reported, open.buffer.unwrap().slack), (Phase::Training, 0, Some(1)));
    assert_eq!(at(&world, &job, 2).await, [(2, false), (0, true)]);
    report(&slow, &late, &STEP, 30).await;
    let [third] = world.assign([&fast]).await;
    assert_eq!((third.round, third.model_version), (2, 1), "both updates of the fast one made version 1");
    let [again] = world.assign([&slow]).await;
    report(&slow, &again, &STEP, 30).await;
    world.drive().await;
    let counted = world.assignments(job.head.id, 2).await;
    let mut stale: Vec<_> = counted.iter().map(|update| (update.client_number, update.staleness)).collect();
    stale.sort_unstable();
    assert_eq!(stale, [(2, 0), (2, 1)], "of the slow one, with its whole weight");
    assert_eq!(world.round(job.head.id, 2).await.buffer.unwrap().lost_weight, 0.0);
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn a_fast_member_waits_for_the_slowest_on_sqlite() {
    a_fast_member_waits_for_the_slowest(World::start_on_sqlite().await).await;
}

#[tokio::test]
async fn a_fast_member_waits_for_the_slowest_on_postgres() {
    let Some(database) = postgres().await else { return };
    a_fast_member_waits_for_the_slowest(World::start_on(database).await).await;
}

/// Goal: who dies at work leaves at its deadline, and the sum closes without it.
#[tokio::test]
async fn a_member_that_dies_leaves_at_its_deadline() {
    let mut world = World::start().await;
    let job = start(&world, 3, 0).await;
    let devices: [Device; 3] = world.devices().await;
    let [a, b, dead] = &devices;
    let [one, two, _] = world.assign([a, b, dead]).await;
    report(a, &one, &STEP, 10).await;
    report(b, &two, &STEP, 10).await;
    assert_eq!(world.gather(&[a, b]).await, [None, None], "a slack of 0");
    world.restart().await;
    world.pass_ms(9_999).await;
    assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Training);
    world.pass_ms(1).await;
    let round = world.round(job.head.id, 1).await;
    assert_eq!((round.phase, round.reported, round.expired), (Phase::Committed, 2, 1));
    let [one, two] = world.assign([a, b]).await;
    assert_eq!((one.round, two.model_version), (2, 1));
    assert_eq!(at(&world, &job, 2).await, [(1, true), (1, true)]);
    // A newcomer, even one that was a member, has the clock of the fastest.
    let [third] = world.assign([dead]).await;
    assert_eq!(at(&world, &job, 2).await, [(1, true); 3]);
    for (device, work) in [(a, &one), (b, &two), (dead, &third)] {
        report(device, work, &STEP, 10).await;
    }
    world.drive().await;
    assert_eq!(world.round(job.head.id, 2).await.reported, 3);
    world.check_books(job.head.id).await;
}

/// Goal: who reports and does not come back leaves too, once it could have begun for the time of a work.
#[tokio::test]
async fn a_member_that_stays_away_leaves() {
    let world = World::start().await;
    let job = start(&world, 2, 0).await;
    let [stays, goes] = world.devices().await;
    let [one, two] = world.assign([&stays, &goes]).await;
    report(&goes, &two, &STEP, 10).await;
    world.pass_ms(9_000).await;
    report(&stays, &one, &STEP, 10).await;
    let [again] = world.assign([&stays]).await;
    let missed = clocks(&world, &job, 2).await;
    assert!(missed[0].missed_at_ms.is_none() && missed[1].missed_at_ms.is_some(), "{missed:?}");
    report(&stays, &again, &STEP, 10).await;
    world.pass_ms(9_999).await;
    assert_eq!(world.round(job.head.id, 2).await.phase, Phase::Training, "it may still come");
    world.pass_ms(1).await;
    let round = world.round(job.head.id, 2).await;
    assert_eq!((round.phase, round.reported, round.expired), (Phase::Committed, 1, 0));
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn a_selection_without_clients_is_abandoned_and_a_paused_job_begins_nothing() {
    let world = World::start().await;
    let job = start(&world, 2, 3).await;
    world.drive().await;
    world.pass_ms(300_000).await;
    let round = world.round(job.head.id, 1).await;
    assert_eq!((round.phase, round.reason), (Phase::Abandoned, Some(AbandonReason::SelectionTimeout)));
    world.pass_ms(1_000).await;
    let path = |action: &str| format!("/jobs/{}/{action}", job.head.id);
    world.operate(reqwest::Method::POST, &path("pause"), &json!({})).await.value();
    let [a, b] = world.devices().await;
    assert_eq!(world.gather(&[&a, &b]).await, [None, None]);
    world.operate(reqwest::Method::POST, &path("resume"), &json!({})).await.value();
    world.assign([&a, &b]).await;
    world.operate(reqwest::Method::POST, &path("stop"), &json!({})).await.value();
    world.drive().await;
    assert_eq!(world.round(job.head.id, 2).await.reason, Some(AbandonReason::JobStopped));
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn what_makes_no_sense_with_members_is_refused_with_the_reason() {
    let world = World::start().await;
    for (changes, why) in [
        (json!({ "aggregation": { "combine": "median" } }), "a round may have 1"),
        (json!({ "eligibility": { "separation_rounds": 1 } }), "clients that all rest"),
        (
            json!({ "training": { "algorithm": { "kind": "fed_dyn", "alpha": 0.1, "clients": 9 } } }),
            "corrections that are those of the newest version",
        ),
    ] {
        let refused = world.create_job(&clocked(3, 2, &changes)).await.refused(ProblemType::JobFileInvalid);
        assert!(refused.detail.contains("[round] mode") && refused.detail.contains(why), "{}", refused.detail);
    }
    let mut file = clocked(3, 2, &json!({}));
    file["round"]["updates_goal"] = json!(3);
    file["round"]["updates_min"] = json!(3);
    let refused = world.create_job(&file).await.refused(ProblemType::JobFileInvalid);
    assert!(refused.detail.contains("members that stay"), "{}", refused.detail);
}
