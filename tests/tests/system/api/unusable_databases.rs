//! Databases that cannot be opened: a typed error each, and the file stays as it was.

use std::fs;

use sqlx::Connection;
use sqlx_sqlite::SqliteConnection;
use tempfile::TempDir;
use tributary_protocol::id::{Secret, SecretKind};
use tributary_server::db::DbError;
use tributary_server::runtime::clock::Clock;
use tributary_server::{Config, Coordinator, ServeError};

use crate::support::World;

async fn open(database: impl std::fmt::Display) -> Result<Coordinator, ServeError> {
    Coordinator::open(&Config { database: database.to_string().into(), operator_token: None, ..Config::default() })
        .await
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("holiday.jpg");
    let content = vec![0xd8; 10_000];
    fs::write(&path, &content).unwrap();
    let error = open(path.display()).await.expect_err("not a database");
    assert!(matches!(error, ServeError::Db(DbError::NotADatabase { .. })), "{error}");
    assert!(error.to_string().contains("holiday.jpg"));
    assert_eq!(fs::read(&path).unwrap(), content);
}

#[tokio::test]
async fn a_database_of_a_newer_or_a_foreign_release_is_refused() {
    let insert = "insert into _sqlx_migrations (version, description, success, checksum, execution_time) \
                  values (9999, 'from the future', true, x'00', 0)";
    let change = "update _sqlx_migrations set checksum = x'00'";
    for statement in [insert, change] {
        let mut world = World::start_on_sqlite().await;
        world.stop().await;
        let url = format!("sqlite:{}", world.database());
        let mut connection = SqliteConnection::connect(&url).await.unwrap();
        sqlx::query(statement).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        let error = open(url).await.expect_err("another release's");
        match error {
            ServeError::Db(DbError::TooNew(9999)) if statement == insert => {}
            ServeError::Db(DbError::ForeignSchema(_)) if statement == change => {}
            other => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn a_place_where_no_file_can_be_is_named() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "x").unwrap();
    let error = open(file.join("deeper").join("t.db").display()).await.expect_err("below a file");
    assert!(matches!(error, ServeError::Directory { .. }), "{error}");
    let error = open(directory.path().display()).await.expect_err("a directory");
    assert!(matches!(error, ServeError::Db(DbError::CannotOpen { .. })), "{error}");
    assert!(error.to_string().contains(&*directory.path().to_string_lossy()));
    // Nobody can write here, not even root.
    let error = open("/proc/tributary/t.db").await.expect_err("unwritable");
    assert!(matches!(error, ServeError::Directory { .. }), "{error}");
    for url in ["mysql://localhost/x", "sqlite:"] {
        let error = open(url).await.expect_err(url);
        assert!(matches!(error, ServeError::Db(DbError::UnknownKind(_))), "{url}: {error}");
    }
}

#[tokio::test]
async fn a_missing_directory_is_named_and_every_form_of_the_path_is_the_same_database() {
    let directory = TempDir::new().unwrap();
    let missing = directory.path().join("deep");
    let error = open(missing.join("t.db").display()).await.expect_err("a directory that does not exist");
    assert!(matches!(&error, ServeError::Directory { path } if *path == missing), "{error}");
    assert!(!missing.exists());
    let path = directory.path().join("t.db");
    let first = open(path.display()).await.unwrap();
    assert!(first.first_operator_token().is_some());
    for prefix in ["", "sqlite:", "sqlite://"] {
        let again = open(format!("{prefix}{}", path.display())).await.unwrap();
        assert!(again.first_operator_token().is_none(), "{prefix}: somebody can operate it already");
    }
}

#[tokio::test]
async fn a_configured_operator_token_is_let_in_until_it_is_revoked() {
    let directory = TempDir::new().unwrap();
    let database = directory.path().join("t.db").display().to_string();
    let secret = |kind| Secret::from_random(kind, [7; 32]);
    let (clock, _) = Clock::manual(1_000);
    let open = |kind| {
        let config =
            Config { database: database.as_str().into(), operator_token: Some(secret(kind)), ..Config::default() };
        let clock = clock.clone();
        async move { Coordinator::open_with(&config, clock).await }
    };
    let error = open(SecretKind::Enrolment).await.expect_err("not an operator's");
    assert!(matches!(error, ServeError::WrongToken), "{error}");
    for _ in 0..2 {
        let coordinator = open(SecretKind::Operator).await.unwrap();
        assert!(coordinator.first_operator_token().is_none());
        let mut tx = coordinator.app().db.read().await.unwrap();
        assert_eq!(tx.tokens(None, "", 10).await.unwrap().len(), 1, "stored once");
    }
    let coordinator = open(SecretKind::Operator).await.unwrap();
    let mut tx = coordinator.app().db.begin().await.unwrap();
    let id = tx.tokens(None, "", 10).await.unwrap()[0].id;
    assert!(tx.revoke_token(id, 1_000).await.unwrap());
    tx.commit().await.unwrap();
    let coordinator = open(SecretKind::Operator).await.unwrap();
    assert!(!coordinator.app().db.read().await.unwrap().has_admin_token(1_000).await.unwrap(), "revoked stays revoked");
}
