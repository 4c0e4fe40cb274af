//! A coordinator that dies, watched each second.

use serde_json::json;
use tributary_protocol::operator::{Node, Page, RoundDetail};
use tributary_protocol::state::{HealthKind, NodeState, Phase, Severity};

use crate::support::{WEIGHTS, World, postgres};

/// From the second second on, what a person sees of a dead coordinator's job is called waiting, and not work.
const TOLD_AFTER_S: i64 = 2;
const LEASE_S: i64 = 10;

/// Goal: a failover is called so within two seconds of the death, each second until it is over.
/// Method: two coordinators under one clock. The first one's driver acts no more after it has an update: the round is
/// aggregating, which would be told as work.
#[tokio::test]
async fn a_failover_is_called_so_in_each_of_its_seconds() {
    let Some(database) = postgres().await else { return };
    let south = World::start_on(database).await;
    let job = south.job(json!({ "round": { "updates_goal": 1, "deadline_ms": 60_000 } })).await.head.id;
    let north = south.beside().await;
    let device = south.device().await;
    let [work] = south.assign([&device]).await;
    north.drive().await;
    device.contribute(&work, &[0.5; WEIGHTS], 10).await;
    for second in 0..LEASE_S {
        let nodes: Page<Node> = north.look("/nodes").await.ok();
        let health = north.job_now(job).await.health;
        let detail: RoundDetail = north.look(&format!("/jobs/{job}/rounds/1")).await.ok();
        let is_told = second >= TOLD_AFTER_S;
        let expected = if is_told { NodeState::Late } else { NodeState::Alive };
        assert_eq!((nodes.items[0].id.as_str(), nodes.items[0].state), ("one", expected), "second {second}");
        let line = (health[0].severity, health[0].kind);
        assert_eq!(line == (Severity::Trouble, HealthKind::NoDriver), is_told, "second {second}: {health:?}");
        assert_eq!(detail.explanation.contains("waits for a coordinator"), is_told, "second {second}");
        assert_eq!(detail.round.phase, Phase::Aggregating, "what is stored is as before");
        // North lives: it renews.
        south.hand.advance_ms(1_000);
        if second + 1 < LEASE_S {
            north.drive().await;
        }
    }
    north.drive().await;
    let nodes: Page<Node> = north.look("/nodes").await.ok();
    assert_eq!(nodes.items[0].state, NodeState::Dead);
    let health = north.job_now(job).await.health;
    assert!(health.iter().all(|line| line.kind != HealthKind::NoDriver), "{health:?}");
    let detail: RoundDetail = north.look(&format!("/jobs/{job}/rounds/1")).await.ok();
    assert_eq!(detail.round.phase, Phase::Committed);
    north.check_books(job).await;
}
