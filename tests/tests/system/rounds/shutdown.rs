//! Stopping: what is held is answered, what is open stays open.

use serde_json::json;
use tributary_protocol::device::CheckInResponse;
use tributary_protocol::state::Phase;

use crate::support::{Answer, WEIGHTS, World, within_reason};

#[tokio::test]
async fn a_stop_answers_held_check_ins_with_a_retry_window() {
    let mut world = World::start().await;
    let device = world.device().await;
    let waiting = device.wait();
    world.until_waiting(1).await;
    world.stop().await;
    let answer = within_reason(waiting).await.unwrap();
    assert!(matches!(answer, CheckInResponse::Retry { retry_after_ms, .. } if retry_after_ms >= 500), "{answer:?}");
}

#[tokio::test]
async fn a_stop_ends_event_streams_and_long_polls() {
    let mut world = World::start_driven().await;
    let job = world.job(json!({})).await;
    let request = world.operator_request(reqwest::Method::GET, &format!("/events?job={}", job.head.id));
    let mut stream = request.header("accept", "text/event-stream").send().await.unwrap();
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    assert!(stream.chunk().await.unwrap().is_some(), "the events so far come at once");
    let held =
        world.operator_request(reqwest::Method::GET, &format!("/events?job={}&after=1000&wait_ms=60000", job.head.id));
    let held = tokio::spawn(Answer::to(held));
    world.stop().await;
    while within_reason(stream.chunk()).await.unwrap().is_some() {}
    // It was answered, or it came too late to be.
    let _ = within_reason(held).await;
}

#[tokio::test]
async fn a_whole_round_runs_by_itself_under_the_system_clock() {
    let world = World::start_driven().await;
    let job = world.job(json!({ "stop": { "rounds": 1 } })).await;
    let device = world.device().await;
    let CheckInResponse::Assigned(assignment) = within_reason(device.check_in(60_000)).await else {
        panic!("one client is enough")
    };
    device.contribute(&assignment, &[0.5; WEIGHTS], 10).await;
    let mut after = 0;
    // Long polls: each waits for what comes next.
    loop {
        let path = format!("/events?job={}&after={after}&wait_ms=60000", job.head.id);
        let events = within_reason(world.look(&path)).await.value();
        let events = events["items"].as_array().unwrap().clone();
        after += events.len();
        if events.iter().any(|event| event["became"] == "completed") {
            break;
        }
    }
    assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Committed);
    world.check_books(job.head.id).await;
}
