//! Clients that leave, and clients that an operator has erased.
//!
//! Goal: nothing of them is left, in any table or backup, and the rounds and models that they are part of stay as they
//! are.

use std::path::Path;

use futures_util::future::join;
use reqwest::Method;
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection};
use sqlx_postgres::PgConnection;
use sqlx_sqlite::SqlitePool;
use tempfile::TempDir;
use tributary_client::{AlwaysOn, FileStore, Outcome, Store};
use tributary_protocol::operator::{AuditEntry, Client, Page};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AuditAction, Phase, Role};

use crate::support::{Adds, Answer, Device, WEIGHTS, World, sdk_client, within_reason};

/// What only one client says of itself.
const WARD: &str = "north-of-the-river";

/// Every row of every table, as text.
async fn rows(world: &World) -> Vec<String> {
    let database = world.database();
    let mut rows = Vec::new();
    if database.starts_with("postgres") {
        let mut connection = PgConnection::connect(&database).await.unwrap();
        let tables = "select table_name::text from information_schema.tables where table_schema = 'public'";
        let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(&mut connection).await.unwrap();
        for table in tables {
            let all = AssertSqlSafe(format!("select row_to_json(t)::text from {table} t"));
            rows.extend(sqlx::query_scalar::<_, String>(all).fetch_all(&mut connection).await.unwrap());
        }
        return rows;
    }
    let pool = SqlitePool::connect(&format!("sqlite:{database}")).await.unwrap();
    let columns = "select m.name, c.name from sqlite_master m, pragma_table_info(m.name) c where m.type = 'table'";
    let columns: Vec<(String, String)> = sqlx::query_as(columns).fetch_all(&pool).await.unwrap();
    for (table, column) in columns {
        let all = AssertSqlSafe(format!("select quote({column}) from {table}"));
        rows.extend(sqlx::query_scalar::<_, String>(all).fetch_all(&pool).await.unwrap());
    }
    pool.close().await;
    rows
}

fn has(rows: &[String], word: &str) -> bool {
    rows.iter().any(|row| row.contains(word))
}

/// A copy of the database as `tributary backup` makes it; none of PostgreSQL, which has its own.
async fn backup(world: &World) -> Vec<u8> {
    let database = world.database();
    if database.starts_with("postgres") {
        return Vec::new();
    }
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("copy.db");
    tributary_server::backup::copy(Path::new(&database), &file).await.unwrap();
    std::fs::read(file).unwrap()
}

fn holds(bytes: &[u8], word: &str) -> bool {
    bytes.windows(word.len()).any(|window| window == word.as_bytes())
}

async fn clients(world: &World) -> Vec<Client> {
    world.look("/clients?population=devices").await.ok::<Page<Client>>().items
}

async fn leave(device: &Device) -> Answer {
    Answer::to(device.request(Method::DELETE, "/client")).await
}

#[tokio::test]
async fn what_is_stored_of_a_client_that_leaves_is_deleted_and_its_rounds_go_on() {
    let world = World::start().await;
    let job = world.job(json!({ "round": { "updates_goal": 3, "updates_min": 2 } })).await.head.id;
    let [first, second, third] = world.devices().await;
    let first = first.with("ward", WARD);
    for (round, delta) in [(1, 0.5), (2, 0.25)] {
        let work = world.assign([&first, &second, &third]).await;
        first.contribute(&work[0], &[delta; WEIGHTS], 10).await;
        if round == 2 {
            break;
        }
        second.contribute(&work[1], &[0.0; WEIGHTS], 10).await;
        third.contribute(&work[2], &[0.0; WEIGHTS], 10).await;
        world.drive().await;
    }
    let (id, before) = (first.id.to_string(), rows(&world).await);
    assert!(has(&before, &id) && has(&before, WARD));
    // One has sent its update for the open round, the other has not.
    let work = second.work().await;
    for gone in [&first, &third] {
        assert_eq!(leave(gone).await.status, 204);
        assert_eq!(leave(gone).await.refused(ProblemType::Unauthorized).status, 401);
    }
    let (after, copy) = (rows(&world).await, backup(&world).await);
    for word in [id.as_str(), WARD, third.id.to_string().as_str()] {
        assert!(!has(&after, word) && !holds(&copy, word), "{word} is stored");
    }
    second.contribute(&work, &[0.75; WEIGHTS], 10).await;
    world.drive().await;
    let round = world.round(job, 2).await;
    assert_eq!((round.phase, round.reported, round.failed), (Phase::Committed, 2, 1), "{round:?}");
    let [old, new] = [world.weights(job, 1).await, world.weights(job, 2).await];
    assert!(new.iter().zip(&old).all(|(new, old)| (new - old - 0.5).abs() < 1e-6), "the update counts: {new:?}");
    assert_eq!(clients(&world).await.iter().map(|client| client.id).collect::<Vec<_>>(), [second.id]);
    // The open round has ended: the next one that leaves takes with it what was left of nobody.
    assert_eq!(leave(&second).await.status, 204);
    assert!(!has(&rows(&world).await, "client_"));
    assert_eq!(noted(&world, AuditAction::ClientLeave).await, ["client 2", "client 3", "client 1"]);
}

/// Whom the audit log names with an action, the newest first.
async fn noted(world: &World, action: AuditAction) -> Vec<String> {
    let audit: Page<AuditEntry> = world.look("/audit").await.ok();
    audit.items.into_iter().filter(|entry| entry.action == action).map(|entry| entry.subject).collect()
}

#[tokio::test]
async fn an_operator_has_a_client_erased() {
    let world = World::start().await;
    let device = world.device().await.with("ward", WARD);
    device.check_in(0).await;
    let path = format!("/clients/{}", device.id);
    let viewer = world.operator_token(Role::Viewer, None).await.secret.expose();
    let asked = world.request(Method::DELETE, &format!("/operator/v1{path}")).bearer_auth(viewer);
    assert_eq!(Answer::to(asked).await.status, 403);
    assert_eq!(world.operate(Method::DELETE, &path, &json!({})).await.status, 204);
    assert_eq!(world.operate(Method::DELETE, &path, &json!({})).await.status, 404);
    assert!(clients(&world).await.is_empty());
    let rows = rows(&world).await;
    assert!(!has(&rows, &device.id.to_string()) && !has(&rows, WARD));
    let request = device.request(Method::POST, "/checkins").json(&device.check_in_request(0));
    assert_eq!(Answer::to(request).await.refused(ProblemType::Unauthorized).status, 401);
    assert_eq!(noted(&world, AuditAction::ClientErase).await, ["client 1"]);
}

#[tokio::test]
async fn an_app_that_leaves_without_a_network_is_believed_when_it_is_back() {
    let mut world = World::start().await;
    world.job(json!({})).await;
    let folder = TempDir::new().unwrap();
    let client = sdk_client(&world, folder.path());
    let before = within_reason(client.enrol()).await.unwrap();
    let mut trainer = Adds::new(0.5);
    let (trained, ()) = join(within_reason(client.run_once(&mut trainer, &AlwaysOn)), async {
        world.until_waiting(1).await;
        world.drive().await;
    })
    .await;
    let trained = trained.unwrap();
    assert!(matches!(trained, Outcome::Contributed { .. }), "{trained:?}");
    world.stop().await;
    assert!(!within_reason(client.leave()).await.unwrap(), "nobody was told");
    drop(client);
    let store = FileStore::new(folder.path());
    let mut names = store.names().unwrap();
    names.sort();
    drop(store);
    assert!(names.iter().all(|name| ["device.key", "left.json"].contains(&name.as_str())), "{names:?}");
    world.resume().await;
    assert_eq!(clients(&world).await.len(), 1);
    let client = sdk_client(&world, folder.path());
    // An app that takes part again is another client, and the coordinator forgets the first one before.
    let again = within_reason(client.enrol()).await.unwrap();
    assert_eq!(clients(&world).await.iter().map(|client| client.id).collect::<Vec<_>>(), [again]);
    assert_ne!(again, before);
    assert!(within_reason(client.leave()).await.unwrap() && clients(&world).await.is_empty());
    assert!(within_reason(client.leave()).await.unwrap(), "there is nothing more to tell");
    drop(client);
    assert_eq!(FileStore::new(folder.path()).names().unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn the_consent_of_a_client_is_shown_and_goes_with_it() {
    let world = World::start().await;
    let folder = TempDir::new().unwrap();
    let builder = tributary_client::Client::builder(world.server(), world.enrolment.clone()).state_dir(folder.path());
    let client = builder.http_client(world.http.clone()).consent("study-7-v3", 1_798_761_600_000).build().unwrap();
    let id = within_reason(client.enrol()).await.unwrap();
    let shown: Client = world.look(&format!("/clients/{id}")).await.ok();
    let consent = shown.consent.unwrap();
    assert_eq!((consent.text.as_str(), consent.given_at_ms), ("study-7-v3", 1_798_761_600_000));
    for text in ["", "a\u{0}b", &"x".repeat(129)] {
        let request = world.request(Method::POST, "/device/v1/clients").bearer_auth(&world.enrolment);
        let refused = Answer::to(request.json(&json!({ "consent": { "text": text, "given_at_ms": 1 } }))).await;
        assert!(refused.refused(ProblemType::Malformed).detail.contains("consent"), "{text:?}");
    }
    assert!(within_reason(client.leave()).await.unwrap());
    assert!(!has(&rows(&world).await, "study-7-v3"));
}
