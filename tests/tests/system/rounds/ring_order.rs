//! What the coordinator knows of the members of groups before a group forms: who listens, and how fast links were.

use futures_util::future::join_all;
use serde_json::json;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::operator::Health;
use tributary_protocol::state::{HealthKind, RingState, Severity};

use super::ring::{brisk, drawn_ghosts, ghosts, ring};
use crate::support::{World, within_reason};

/// Goal: a group avoids a link that was slow in the last one. Method: of four members played by hand the first tells
/// that its link to the second is slow, and the fourth has another sum. The other three form the next group, in the one
/// order of two in which the first does not send to the second.
#[tokio::test]
async fn a_group_avoids_a_link_that_was_slow() {
    let world = World::start_driven().await;
    let group = json!({ "topology": { "kind": "ring" }, "frame_ms": 600, "order": "measured" });
    let (job, mut ghosts) = ghosts(&world, 4, &json!({ "group": group })).await;
    let first = ring(&world, job, 1).await.attempts.remove(0);
    let numbers: Vec<u64> = first.members.iter().map(|member| member.client_number).collect();
    let said = ghosts.iter().zip([("sum", 10), ("sum", 100_000), ("sum", 100_000), ("lie", 100_000)]);
    let told = join_all(said.map(async |(ghost, (sum, kbit_s))| {
        let sha256 = Sha256Hash::of(sum.as_bytes());
        let mut outcome = json!({ "attempt": 1, "sha256": sha256, "bytes_sent": 1, "bytes_received": 1, "took_ms": 1 });
        outcome["sent_kbit_s"] = json!(kbit_s);
        ghost.put("ring/outcome", &outcome).await
    }));
    within_reason(told).await;
    ghosts.truncate(3);
    let formed = within_reason(join_all(ghosts.iter().map(|ghost| ghost.ready(1)))).await;
    assert!(formed.iter().all(|answer| answer.value()["attempt"] == 2), "{formed:?}");
    let next = ring(&world, job, 1).await.attempts.remove(1);
    let mut order: Vec<u64> = next.members.iter().map(|member| member.client_number).collect();
    let begin = order.iter().position(|number| *number == numbers[0]).unwrap();
    order.rotate_left(begin);
    assert_eq!((next.state, order), (RingState::Formed, vec![numbers[0], numbers[2], numbers[1]]));
}

/// Goal: an operator sees why no round begins where clients do not listen.
#[tokio::test]
async fn a_job_says_how_many_clients_listen() {
    let world = World::start().await;
    let [one, other] = world.devices().await;
    let job = world.job(brisk(&json!({}))).await.head.id;
    world.gather(&[&one, &other]).await;
    let line = |health: Vec<Health>| {
        health.into_iter().find(|line| line.kind == HealthKind::Listeners).expect("a line about listeners")
    };
    let told = line(world.job_now(job).await.health);
    let text = "0 of 2 clients listen for the other members of their group, and a round needs 2 members";
    assert_eq!((told.severity, told.text.as_str()), (Severity::Warning, text));
    assert!(told.remedy.is_some_and(|remedy| remedy.contains("--listen")));

    let world = World::start_driven().await;
    let (job, _) = drawn_ghosts(&world, 3, &json!({})).await;
    let told = line(world.job_now(job).await.health);
    let text = "3 of 3 clients listen for the other members of their group";
    assert_eq!((told.severity, told.text.as_str()), (Severity::Ok, text));
}
