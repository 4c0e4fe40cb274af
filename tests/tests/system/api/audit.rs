//! The audit log: a chain of everything that operators did, of enrolments and of the first refusals.

use reqwest::Method;
use serde_json::json;
use sqlx::AssertSqlSafe;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::operator::{AuditEntry, AuditRow, ChainCheck, ChainError, Page};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AuditAction, Role};
use tributary_server::db::Db;

use crate::support::{Answer, World, figures, within_reason};

async fn export(world: &World) -> Vec<String> {
    let answer = world.look("/audit/export").await;
    assert_eq!((answer.status, answer.header("content-type")), (200, "application/jsonl"));
    String::from_utf8(answer.body.to_vec()).unwrap().lines().map(str::to_owned).collect()
}

fn check(lines: &[String], pinned: Option<Sha256Hash>) -> Result<(u64, Sha256Hash), ChainError> {
    let mut check = ChainCheck::new(pinned);
    lines.iter().try_for_each(|line| check.line(line))?;
    check.finish()
}

async fn change(world: &World, sql: &str) {
    match &world.app().db {
        Db::Sqlite { writer, .. } => {
            let mut connection = writer.acquire().await.unwrap();
            sqlx::query(AssertSqlSafe(sql)).execute(&mut *connection).await.unwrap();
        }
        Db::Postgres { pool, .. } => {
            sqlx::query(AssertSqlSafe(sql)).execute(pool).await.unwrap();
        }
    }
}

/// Goal: whoever changes the table of a running coordinator is found out.
#[tokio::test]
async fn an_export_verifies_until_somebody_changes_the_table() {
    let mut world = World::start().await;
    let job = world.job(json!({})).await;
    world.devices::<3>().await;
    world.restart().await;
    for action in ["pause", "resume", "stop"] {
        world.operate(Method::POST, &format!("/jobs/{}/{action}", job.head.id), &json!({})).await.value();
    }
    let lines = export(&world).await;
    let (entries, head) = check(&lines, None).unwrap();
    assert_eq!(entries, 10, "first token, population, token, job, 3 clients, 3 changes");
    world.operate(Method::POST, "/populations", &json!({ "name": "later" })).await.value();
    assert_eq!(check(&export(&world).await, Some(head)).unwrap().0, 11, "the pinned entry is still there");
    let listed: Page<AuditEntry> = world.look("/audit?limit=3").await.ok();
    assert_eq!(listed.items.iter().map(|entry| entry.number).collect::<Vec<_>>(), [11, 10, 9]);

    change(&world, "update audit set label = 'eve' where number = 4").await;
    assert_eq!(check(&export(&world).await, None), Err(ChainError::Changed(4)));
    change(&world, "delete from audit where number = 3").await;
    assert_eq!(check(&export(&world).await, None), Err(ChainError::Missing { expected: 3, found: 4 }));
    change(&world, "delete from audit where number >= 3").await;
    assert_eq!(check(&export(&world).await, Some(head)), Err(ChainError::HeadMissing(head)));
}

#[tokio::test]
async fn an_export_of_many_pages_is_one_chain() {
    let world = World::start().await;
    let viewer = world.operator_token(Role::Viewer, None).await.secret.expose();
    let mut tx = world.app().db.begin().await.unwrap();
    for number in 0..2_500 {
        let new = tributary_server::db::NewAudit {
            actor: "coordinator".into(),
            label: String::new(),
            action: AuditAction::JobStop,
            subject: number.to_string(),
            population: None,
            detail: None,
        };
        tx.append_audit(new, 1).await.unwrap();
    }
    tx.commit().await.unwrap();
    let answer = Answer::to(world.request(Method::GET, "/operator/v1/audit/export").bearer_auth(viewer)).await;
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    let lines: Vec<_> = text.lines().map(str::to_owned).collect();
    assert_eq!(check(&lines, None).unwrap().0, 2_504);
}

/// Goal: each kind of refusal of each caller is in the log once, with the caller's name, and no more often.
#[tokio::test]
async fn the_first_refusal_of_each_kind_and_caller_is_recorded() {
    let world = World::start().await;
    let job = world.job(json!({})).await;
    let viewer = world.operator_token(Role::Viewer, None).await;
    let device = world.device().await;
    let [work] = world.assign([&device]).await;
    for _ in 0..3 {
        let pause = world.request(Method::POST, &format!("/operator/v1/jobs/{}/pause", job.head.id));
        Answer::to(pause.bearer_auth(viewer.secret.expose())).await.refused(ProblemType::Forbidden);
        Answer::to(world.request(Method::GET, "/operator/v1/jobs")).await.refused(ProblemType::Unauthorized);
        device.put_update(work.id, &figures(1), b"no update".to_vec()).await;
        Answer::to(device.request(Method::GET, "/nothing")).await.refused(ProblemType::NotFound);
    }
    let refusals = async || {
        let log: Page<AuditEntry> = world.look("/audit?limit=100").await.ok();
        let refusals = log.items.into_iter().filter(|entry| entry.action == AuditAction::Refusal);
        let mut refusals: Vec<_> = refusals.map(|entry| (entry.actor, entry.subject, entry.label)).collect();
        refusals.sort();
        refusals
    };
    let mut expected = vec![
        ("anonymous".to_owned(), "unauthorized".to_owned(), String::new()),
        ("client 1".to_owned(), "update-rejected".to_owned(), String::new()),
        (viewer.token.id.to_string(), "forbidden".to_owned(), "viewer".to_owned()),
    ];
    expected.sort();
    // They are written after their answers.
    within_reason(async { while refusals().await.len() < expected.len() {} }).await;
    assert_eq!(refusals().await, expected);
    assert!(check(&export(&world).await, None).is_ok());
}

#[tokio::test]
async fn enrolments_are_in_the_log_with_their_token() {
    let world = World::start().await;
    world.device().await;
    let log: Page<AuditEntry> = world.look("/audit?limit=1").await.ok();
    let entry = &log.items[0];
    assert_eq!((entry.action, entry.subject.clone()), (AuditAction::ClientEnrol, "client 1".to_owned()));
    assert!(entry.actor.starts_with("token_") && entry.population.as_ref().unwrap().as_str() == "devices");
}

#[tokio::test]
async fn the_log_is_searched_within_what_the_operator_may_see() {
    let world = World::start().await;
    world.devices::<3>().await;
    world.operate(Method::POST, "/populations", &json!({ "name": "other" })).await.value();
    let scoped = world.operator_token(Role::Viewer, Some("other")).await.secret.expose();
    let found = async |token: &str, query: &str| {
        let call = world.request(Method::GET, &format!("/operator/v1/audit?{query}")).bearer_auth(token);
        let page: Page<AuditRow> = Answer::to(call).await.ok();
        page.items
    };
    let all = found(&world.operator, "fold=true&action=client.enrol").await;
    assert_eq!((all.len(), all[0].folded.unwrap().entries), (1, 3));
    assert_eq!(found(&world.operator, "action=client.enrol").await.len(), 3);
    assert_eq!(found(&world.operator, "fold=true&subject=client+2").await.len(), 1);
    assert_eq!(found(&scoped, "fold=true&action=client.enrol").await, []);
    let own: Vec<_> = found(&scoped, "person=*&subject=*").await.into_iter().map(|row| row.entry.population).collect();
    assert!(!own.is_empty() && own.iter().all(|population| population.as_ref().unwrap().as_str() == "other"));
    for wrong in ["action=nope", "since_at_ms=today", "person=a%00", &format!("subject={}", "x".repeat(301))] {
        world.look(&format!("/audit?{wrong}")).await.refused(ProblemType::Malformed);
    }
}
