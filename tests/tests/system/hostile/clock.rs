//! A clock that steps back, as NTP or a machine without a battery does.

use reqwest::Method;
use serde_json::{Value, json};
use tributary_protocol::operator::Page;
use tributary_protocol::state::Phase;

use crate::support::{WEIGHTS, World};

const STEP: [f32; WEIGHTS] = [0.5; WEIGHTS];

/// Goal: whatever the clock does, nothing that is stored makes an answer fail. Method: the clock jumps between two
/// reports of one round; then every list and document about the round is read.
#[tokio::test]
async fn a_clock_that_steps_back_leaves_nothing_that_cannot_be_read() {
    for back_ms in [60_000, 10 * 86_400_000] {
        let world = World::start().await;
        let round = json!({ "updates_goal": 2, "updates_min": 1 });
        let job = world.job(json!({ "round": round })).await;
        let [one, other] = world.devices().await;
        let [first, second] = world.assign([&one, &other]).await;
        world.hand.advance_ms(-back_ms);
        one.contribute(&first, &STEP, 10).await;
        everything_answers(&world, &job.head.id.to_string()).await;
        world.hand.advance_ms(-back_ms);
        other.contribute(&second, &STEP, 10).await;
        world.drive().await;
        let round = world.round(job.head.id, 1).await;
        assert_eq!((round.phase, round.clients_ms), (Phase::Committed, 0), "time that ran backwards counts as none");
        everything_answers(&world, &job.head.id.to_string()).await;
        world.hand.advance_ms(2 * back_ms);
        let [third, _] = world.assign([&one, &other]).await;
        world.hand.advance_ms(1_000);
        one.contribute(&third, &STEP, 10).await;
        assert_eq!(world.round(job.head.id, 2).await.clients_ms, 12);
        everything_answers(&world, &job.head.id.to_string()).await;
        world.check_books(job.head.id).await;
    }
}

async fn everything_answers(world: &World, job: &str) {
    let round = format!("/jobs/{job}/rounds/1");
    for path in [
        "/overview".to_owned(),
        "/jobs".to_owned(),
        format!("/jobs/{job}"),
        format!("/jobs/{job}/rounds"),
        round.clone(),
        format!("{round}/assignments"),
        format!("/events?job={job}"),
        format!("/jobs/{job}/models"),
        "/clients?population=devices".to_owned(),
        "/system".to_owned(),
    ] {
        let answer = world.look(&path).await;
        assert_eq!(answer.status, 200, "{path}");
    }
    let clients: Page<Value> = world.look("/clients?population=devices").await.ok();
    for client in clients.items {
        world.look(&format!("/clients/{}", client["id"].as_str().unwrap())).await.value();
    }
    assert!(world.request(Method::GET, "/metrics").send().await.unwrap().status().is_success());
}

/// Finding L11: a round stayed open as long as the clock was wrong. Method: the clock jumps by ten days, forwards and
/// back, in open rounds with and without a report, and between rounds.
#[tokio::test]
async fn a_clock_that_jumps_both_ways_keeps_no_round_open_and_the_job_goes_on() {
    const TEN_DAYS_MS: i64 = 10 * 86_400_000;
    let world = World::start().await;
    let job = world.job(json!({ "round": { "updates_goal": 2, "updates_min": 1 } })).await;
    let [one, other] = world.devices().await;
    for (round, jump_ms, reports, ended) in [
        (1, TEN_DAYS_MS, true, Phase::Committed),
        (2, -TEN_DAYS_MS, true, Phase::Committed),
        (3, TEN_DAYS_MS, false, Phase::Abandoned),
        (4, -TEN_DAYS_MS, false, Phase::Abandoned),
        (5, 10_000, true, Phase::Committed),
    ] {
        let [work, _] = world.assign([&one, &other]).await;
        assert_eq!(work.round, round);
        if reports {
            one.contribute(&work, &STEP, 10).await;
        }
        world.pass_ms(jump_ms).await;
        assert_eq!(world.round(job.head.id, round).await.phase, ended, "round {round}");
        everything_answers(&world, &job.head.id.to_string()).await;
        world.pass_ms(4_000).await;
    }
    world.hand.advance_ms(-TEN_DAYS_MS);
    let [work, others] = world.assign([&one, &other]).await;
    one.contribute(&work, &STEP, 10).await;
    other.contribute(&others, &STEP, 10).await;
    world.drive().await;
    assert_eq!(world.round(job.head.id, 6).await.phase, Phase::Committed);
    world.check_books(job.head.id).await;
}
