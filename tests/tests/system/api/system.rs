//! The coordinator itself: its figures, its audit log, the export of metrics.

use reqwest::Method;
use serde_json::json;
use tributary_protocol::id::Name;
use tributary_protocol::operator::{AuditEntry, CreatedToken, Engine, Page, Round, System};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::AuditAction;

use crate::support::{Answer, NOW_MS, WEIGHTS, World};

#[tokio::test]
async fn the_system_tells_its_load_and_its_size() {
    let world = World::start().await;
    let job = world.job(json!({ "round": { "updates_goal": 2 } })).await;
    let [a, b] = world.devices().await;
    let [work, _] = world.assign([&a, &b]).await;
    a.contribute(&work, &[0.5; WEIGHTS], 1).await;
    let c = world.device().await;
    let _held = c.wait();
    world.until_waiting(1).await;
    world.hand.advance_ms(1_000);
    let system: System = world.look("/system").await.ok();
    let on_postgres = std::env::var_os("TRIBUTARY_TEST_ENGINE").is_some_and(|engine| engine == "postgres");
    assert_eq!(system.engine, if on_postgres { Engine::Postgres } else { Engine::Sqlite });
    assert_eq!((system.started_at_ms, system.held_clients, system.updates_in_flight), (NOW_MS, 1, 0));
    assert!(system.checkins_per_s > 0.0 && system.db.read_ms_p50.is_some() && system.db.write_ms_p99.is_some());
    let round = world.round(job.head.id, 1).await;
    assert_eq!(system.storage.updates_bytes, round.traffic.bytes_up);
    assert_eq!(system.storage.models_bytes, world.model_file(job.head.id, 0).await.len() as u64);
    assert!(system.storage.database_bytes.is_some_and(|bytes| bytes > 4_096));
}

#[tokio::test]
async fn every_change_by_an_operator_is_in_the_audit_log_with_its_token() {
    let world = World::start().await;
    let token: CreatedToken = {
        let wanted = json!({ "kind": "operator", "role": "admin", "label": "night shift" });
        world.operate(Method::POST, "/tokens", &wanted).await.ok()
    };
    let job = world.job(json!({})).await;
    let night = |method: Method, path: String| {
        let request = world.request(method, &format!("/operator/v1{path}"));
        request.bearer_auth(token.secret.expose()).json(&json!({ "deadline_ms": 99 }))
    };
    for (method, path) in [
        (Method::POST, format!("/jobs/{}/pause", job.head.id)),
        (Method::POST, format!("/jobs/{}/pause", job.head.id)),
        (Method::PATCH, format!("/jobs/{}/round-policy", job.head.id)),
        (Method::POST, format!("/jobs/{}/stop", job.head.id)),
        (Method::DELETE, format!("/tokens/{}", token.token.id)),
    ] {
        assert!(Answer::to(night(method, path)).await.status < 300);
    }
    let log: Page<AuditEntry> = world.look("/audit").await.ok();
    let mut told: Vec<_> = log.items.iter().map(|entry| (entry.action.as_str(), entry.label.as_str())).collect();
    // All of it happened in the same millisecond.
    told.sort_unstable();
    let first = "made at the first start";
    let mut expected = vec![
        ("job.create", first),
        ("job.pause", "night shift"),
        ("job.round_policy", "night shift"),
        ("job.stop", "night shift"),
        ("population.create", first),
        ("token.create", first),
        ("token.create", first),
        ("token.create", first),
        ("token.revoke", "night shift"),
    ];
    expected.sort_unstable();
    assert_eq!(told, expected, "a pause of a paused job is no change");
    let policy = log.items.iter().find(|entry| entry.action == AuditAction::JobRoundPolicy).unwrap();
    assert_eq!(
        (policy.subject.clone(), policy.detail.as_deref()),
        (job.head.id.to_string(), Some(r#"{"deadline_ms":99}"#))
    );
    assert_eq!((policy.actor.clone(), policy.at_ms), (token.token.id.to_string(), NOW_MS));
    assert_eq!(policy.population.as_ref().map(Name::as_str), Some("devices"));
    let secrets = [token.secret.expose(), world.operator.clone(), world.enrolment.clone()];
    let text = String::from_utf8(world.look("/audit").await.body.to_vec()).unwrap();
    assert!(secrets.iter().all(|secret| !text.contains(secret)), "an audit log holds no secrets");
    world.look("/audit?after=x").await.refused(ProblemType::Malformed);
}

#[tokio::test]
async fn metrics_are_exported_as_they_are_listed() {
    let world = World::start().await;
    let job = world.job(json!({})).await;
    let device = world.device().await;
    let path = |format: &str| format!("/jobs/{}/metrics?format={format}", job.head.id);
    assert_eq!(world.look(&path("json")).await.ok::<Vec<Round>>(), []);
    for _ in 0..3 {
        let [work] = world.assign([&device]).await;
        device.contribute(&work, &[0.5; WEIGHTS], 1).await;
        world.drive().await;
    }
    let listed: Page<Round> = world.look(&format!("/jobs/{}/rounds", job.head.id)).await.ok();
    assert_eq!(world.look(&path("json")).await.ok::<Vec<Round>>(), listed.items);
    let csv = world.look(&path("csv")).await;
    assert_eq!(csv.header("content-type"), "text/csv; charset=utf-8");
    let text = String::from_utf8(csv.body.to_vec()).unwrap();
    let lines: Vec<_> = text.split_terminator("\r\n").collect();
    assert_eq!(lines.len(), 5);
    assert!(lines[0].starts_with("number,task,phase,reason,opened_at,"), "{text}");
    assert!(lines[3].starts_with("3,train,committed,,1970-01-01T"), "{text}");
    world.look(&path("xml")).await.refused(ProblemType::Malformed);
}
