//! A coordinator that dies: what the other one says of it.

use serde_json::json;
use tributary_protocol::operator::{AuditEntry, Event, Node, Page, RoundDetail};
use tributary_protocol::state::{AuditAction, HealthKind, NodeState, Severity};

use crate::support::{WEIGHTS, World, postgres};

const DAY_MS: i64 = 24 * 3600 * 1000;

async fn nodes(world: &World) -> Vec<(String, NodeState)> {
    let nodes: Page<Node> = world.look("/nodes").await.ok();
    nodes.items.into_iter().map(|node| (node.id.to_string(), node.state)).collect()
}

/// Goal: a dead coordinator is late, then dead, stays in the list for a day, and what it left undone is called by its
/// name; who took over is an event, an audit entry and the reason why the round took long.
/// Method: two coordinators under one clock; the first one's driver acts no more after it has an update.
#[tokio::test]
async fn a_dead_coordinator_is_dead_on_screen_when_its_lease_is_over_and_the_takeover_is_told_everywhere() {
    let Some(database) = postgres().await else { return };
    let south = World::start_on(database).await;
    let job = south.job(json!({ "round": { "updates_goal": 1, "deadline_ms": 60_000 } })).await;
    let north = south.beside().await;
    let device = south.device().await;
    let [work] = south.assign([&device]).await;
    north.drive().await;
    device.contribute(&work, &[0.5; WEIGHTS], 10).await;
    let alive = |name: &str| (name.to_owned(), NodeState::Alive);
    assert_eq!(nodes(&north).await, [alive("one"), alive("other")]);

    // South is dead from here on: nobody drives it.
    let silent = |ms: i64| {
        south.hand.advance_ms(ms);
        north.drive()
    };
    // It is called so within two seconds, and until another one takes over.
    silent(1_900).await;
    assert_eq!(nodes(&north).await, [alive("one"), alive("other")]);
    silent(100).await;
    assert_eq!(nodes(&north).await, [("one".to_owned(), NodeState::Late), alive("other")]);
    silent(5_000).await;
    assert_eq!(nodes(&north).await, [("one".to_owned(), NodeState::Late), alive("other")]);
    let path = format!("/jobs/{}/rounds/1", job.head.id);
    let detail: RoundDetail = north.look(&path).await.ok();
    assert_eq!(
        detail.explanation,
        "Round 1 waits for a coordinator: one was last seen 7 s ago, and another coordinator takes over in 3 s."
    );
    let health = north.job_now(job.head.id).await.health[0].clone();
    assert_eq!((health.severity, health.kind), (Severity::Trouble, HealthKind::NoDriver));
    south.hand.advance_ms(3_000);
    assert_eq!(nodes(&north).await[0], ("one".to_owned(), NodeState::Dead), "at the end of its lease");

    north.drive().await;
    let took_over = "other took over from one, 10 s after its last sign of life";
    let events: Page<Event> = north.look(&format!("/events?job={}&limit=1000", job.head.id)).await.ok();
    let told: Vec<_> = events.items.iter().filter(|event| event.became == "taken_over").collect();
    assert_eq!((told.len(), told[0].cause.as_deref(), told[0].round), (1, Some(took_over), None));
    let audit: Page<AuditEntry> = north.look("/audit").await.ok();
    let entry = audit.items.iter().find(|entry| entry.action == AuditAction::JobTakeOver).unwrap();
    assert_eq!((entry.actor.as_str(), entry.detail.as_deref()), ("coordinator", Some(took_over)));
    let detail: RoundDetail = north.look(&path).await.ok();
    assert_eq!(
        detail.explanation,
        "Round 1 took 10 s: 10 s of it without a coordinator, until other took over from one."
    );
    assert_ne!(north.job_now(job.head.id).await.health[0].kind, HealthKind::NoDriver);

    silent(20_000).await;
    assert_eq!(nodes(&north).await[0], ("one".to_owned(), NodeState::Dead), "it stays in the list");
    silent(DAY_MS).await;
    assert_eq!(nodes(&north).await, [alive("other")]);
    north.check_books(job.head.id).await;
}
