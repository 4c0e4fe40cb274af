//! Faults of the storage: a full disk, a database that goes away. The answer is 503 with a time to come back;
//! nothing that was acknowledged is lost, and when the fault ends the round continues.

use reqwest::Method;
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection};
use sqlx_postgres::PgConnection;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AssignmentState, Phase, Task};
use tributary_server::db::{Db, DbError, RoundKey};
use tributary_server::driver::DriverError;

use crate::support::{Database, WEIGHTS, World, delta_file, figures, postgres};

/// Lets SQLite's file grow to this many pages; none is as many as it has.
async fn pages_max(world: &World, pages: Option<u32>) {
    let Db::Sqlite { writer, .. } = &world.app().db else { panic!("a test of SQLite") };
    let (used,): (u32,) =
        sqlx::query_as("pragma page_count").fetch_one(&mut *writer.acquire().await.unwrap()).await.unwrap();
    let limit = format!("pragma max_page_count = {}", pages.unwrap_or(used));
    sqlx::query(AssertSqlSafe(limit)).execute(&mut *writer.acquire().await.unwrap()).await.unwrap();
}

#[tokio::test]
async fn a_full_disk_refuses_for_a_while_and_the_round_goes_on_when_there_is_room() {
    let world = World::start_on_sqlite().await;
    let job = world.job(json!({ "round": { "updates_goal": 2, "updates_min": 1, "over_selection": 1.0 } })).await;
    let [first, second] = world.devices().await;
    world.drive().await;
    let [one, two] = world.assign([&first, &second]).await;
    first.contribute(&one, &[0.5; WEIGHTS], 1).await;

    pages_max(&world, None).await;
    // Until the free space inside the file's pages is used up, small rows still fit.
    let mut refused = None;
    for _ in 0..200 {
        let answer = world
            .operate(
                Method::POST,
                "/tokens",
                &json!({ "kind": "operator", "role": "viewer", "label": "x".repeat(200) }),
            )
            .await;
        if answer.status == 503 {
            refused = Some(answer.refused(ProblemType::Unavailable));
            break;
        }
    }
    assert!(refused.expect("the file cannot grow for ever").retry_after_ms.is_some());
    let states: Vec<_> = world.assignments(job.head.id, 1).await.iter().map(|assignment| assignment.state).collect();
    assert_eq!(states, [AssignmentState::Reported, AssignmentState::Assigned]);

    pages_max(&world, Some(1 << 20)).await;
    let token = world
        .operate(Method::POST, "/tokens", &json!({ "kind": "operator", "role": "viewer", "label": "x".repeat(200) }))
        .await;
    assert_eq!(token.status, 201, "the connection that met the full disk is of no more use, and was replaced");
    second.contribute(&two, &[1.5; WEIGHTS], 1).await;
    world.drive().await;
    let expected: Vec<f32> = world.weights(job.head.id, 0).await.iter().map(|weight| weight + 1.0).collect();
    assert_eq!(world.weights(job.head.id, 1).await, expected);
    world.check_books(job.head.id).await;
}

/// Goal: of an update that met a full disk halfway nothing is in the sum, and it counts once there is room.
#[tokio::test]
async fn a_disk_that_fills_up_while_an_update_arrives_leaves_no_trace_in_the_sum() {
    const PARAMETERS: usize = 1_000_000;
    /// Fewer than the 4 MB of an update have.
    const PAGES_LEFT: u32 = 250;
    let world = World::start_on_sqlite().await;
    let model = json!({ "parameters": [{ "name": "w", "shape": [PARAMETERS] }] });
    let round = json!({ "updates_goal": 2, "updates_min": 1, "over_selection": 1.0 });
    let job = world.job(json!({ "model": model, "round": round })).await;
    let [first, second] = world.devices().await;
    world.drive().await;
    let [one, two] = world.assign([&first, &second]).await;
    first.contribute(&one, &vec![0.5; PARAMETERS], 1).await;
    let base = world.weights(job.head.id, 0).await;
    let sum =
        world.app().updates.sums.get(RoundKey { job: job.head.id, task: Task::Train, number: 1 }, None).expect("a sum");
    let before = sum.accumulator().clone();

    let Db::Sqlite { writer, .. } = &world.app().db else { panic!("a test of SQLite") };
    let (used,): (u32,) =
        sqlx::query_as("pragma page_count").fetch_one(&mut *writer.acquire().await.unwrap()).await.unwrap();
    pages_max(&world, Some(used + PAGES_LEFT)).await;
    let body = delta_file(&two, &vec![1.5; PARAMETERS]);
    let refused = second.put_update(two.id, &figures(1), body.clone()).await.refused(ProblemType::Unavailable);
    assert!(refused.retry_after_ms.is_some());
    assert_eq!((sum.updates(), sum.is_invalid()), (1, false));
    assert_eq!(*sum.accumulator(), before);

    pages_max(&world, Some(1 << 20)).await;
    second.put_update(two.id, &figures(1), body).await.value();
    world.drive().await;
    assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Committed);
    let moved = world.weights(job.head.id, 1).await[7] - base[7];
    assert!((moved - 1.0).abs() < 1e-6, "{moved}");
    world.check_books(job.head.id).await;
}

/// Turns every connection to a database away, or lets them in again.
async fn reachable(database: &Database, reachable: bool) {
    let (front, back) = database.url.split_once("/test_").unwrap();
    let (name, host) = back.split_once('?').unwrap();
    let mut connection = PgConnection::connect(&format!("{front}/postgres?{host}")).await.unwrap();
    for statement in [
        format!("alter database test_{name} allow_connections {reachable}"),
        format!(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = 'test_{name}' and not {reachable}"
        ),
    ] {
        sqlx::query(AssertSqlSafe(statement)).execute(&mut connection).await.unwrap();
    }
    connection.close().await.unwrap();
}

#[tokio::test]
async fn a_database_that_goes_away_refuses_for_a_while_and_loses_nothing() {
    let Some(database) = postgres().await else { return };
    let world = World::start_on(database.clone()).await;
    let job = world.job(json!({ "round": { "updates_goal": 2, "updates_min": 1, "over_selection": 1.0 } })).await;
    let [first, second] = world.devices().await;
    world.drive().await;
    let [one, two] = world.assign([&first, &second]).await;
    first.contribute(&one, &[0.5; WEIGHTS], 1).await;
    let body = delta_file(&two, &[1.5; WEIGHTS]);

    reachable(&database, false).await;
    let refused = second.put_update(two.id, &figures(1), body.clone()).await.refused(ProblemType::Unavailable);
    assert!(refused.retry_after_ms.is_some(), "{refused}");
    let failed = world.app().driver().run_once().await.unwrap_err();
    assert!(matches!(failed, DriverError::Db(DbError::Unavailable(_))), "{failed}");

    reachable(&database, true).await;
    second.put_update(two.id, &figures(1), body).await.value();
    world.drive().await;
    assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Committed);
    let expected: Vec<f32> = world.weights(job.head.id, 0).await.iter().map(|weight| weight + 1.0).collect();
    assert_eq!(world.weights(job.head.id, 1).await, expected);
    world.check_books(job.head.id).await;
}
