//! Copies of a SQLite database: written while a coordinator serves it, and checked before one replaces it.
//!
//! This module handles the contents of files. The caller handles names, renaming, and which files may be overwritten.
//! A copy is one file: it contains the bodies that are files beside the database.

mod bodies;
mod links;
mod open;

use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::Connection;
use sqlx_sqlite::SqliteJournalMode;

use self::links::Links;
pub use self::open::BackupError;
use self::open::{COPY_ATTEMPTS, engine, open, options};
use crate::blob::folder_beside;
use crate::db::{DbError, sqlite_path, sqlite_schema};

/// How often to try a database that another process has open. A process that has just ended may still be closing it.
const RELEASE_ATTEMPTS: u32 = 10;
const RELEASE_PAUSE: Duration = Duration::from_millis(100);

/// The file of a SQLite database.
///
/// # Errors
/// [`BackupError::Postgres`] and [`BackupError::Url`] when the URL names no file.
pub fn file_of(database: &str) -> Result<PathBuf, BackupError> {
    if database.starts_with("postgres://") || database.starts_with("postgresql://") {
        return Err(BackupError::Postgres);
    }
    sqlite_path(database).map(PathBuf::from).map_err(BackupError::Url)
}

/// Copies the current state of a database into an empty file, without its free pages and with the bodies beside it. A
/// coordinator can serve the database meanwhile.
///
/// # Errors
/// After any [`BackupError`] the contents of the file are undefined.
pub async fn copy(database: &Path, into: &Path) -> Result<(), BackupError> {
    let failed = |source| engine(database, source);
    let mut connection = open(database, options(database)).await?;
    sqlite_schema(&mut connection).await.map_err(|source| schema(database, source))?;
    // Rounds end while their updates are copied.
    let (folder, links) = (folder_beside(database), Links::to(&folder_beside(database)));
    for _ in 0..COPY_ATTEMPTS {
        links.take();
        let copied = sqlx::query("vacuum into $1").bind(into.to_string_lossy()).execute(&mut connection).await;
        copied.map_err(failed)?;
        links.take();
        if bodies::embed(&mut connection, [&folder, links.folder()], into).await? {
            return connection.close().await.map_err(failed);
        }
        // SQLite copies only into an empty file.
        std::fs::write(into, []).map_err(|source| BackupError::Body { path: into.to_owned(), source })?;
    }
    Err(BackupError::Moving(database.to_owned()))
}

/// Takes out of a copy what the promises of private jobs rest on and no restored coordinator needs: the keys of noise,
/// and the seeds of draws. Nothing of them stays in the file. A round whose noise had such a key is abandoned by the
/// coordinator that is restored: another noise for the same sum would average it away. A round that has not drawn its
/// clients draws them by another seed.
///
/// # Errors
/// After any [`BackupError`] the contents of the file are undefined.
pub async fn forget_secrets(copy: &Path) -> Result<(), BackupError> {
    let failed = |source| engine(copy, source);
    let options = options(copy)
        .journal_mode(SqliteJournalMode::Off)
        // Deleted rows are overwritten.
        .pragma("secure_delete", "on");
    let mut connection = open(copy, options).await?;
    for sql in [
        "delete from round_keys",
        "update rounds set seed = abs(random() % 9007199254740992) where json_extract(policy, '$.is_private')",
    ] {
        sqlx::query(sql).execute(&mut connection).await.map_err(failed)?;
    }
    connection.close().await.map_err(failed)
}

/// Checks that a file is a complete Tributary database that this release can use.
pub async fn check(database: &Path) -> Result<(), BackupError> {
    let failed = |source| engine(database, source);
    let mut connection = open(database, options(database).read_only(true).immutable(true)).await?;
    sqlite_schema(&mut connection).await.map_err(|source| schema(database, source))?;
    let (detail,): (String,) =
        sqlx::query_as("pragma quick_check(1)").fetch_one(&mut connection).await.map_err(failed)?;
    connection.close().await.map_err(failed)?;
    if detail == "ok" { Ok(()) } else { Err(BackupError::Damaged { path: database.to_owned(), detail }) }
}

/// Prepares a database to be replaced: no other process has it open, and its one file contains everything. (A log that
/// stayed behind would be applied to the file that replaces it.)
///
/// # Errors
/// [`BackupError::InUse`] while a coordinator serves it.
pub async fn release(database: &Path) -> Result<(), BackupError> {
    // Leaving WAL mode needs exclusive access. On success the files of the log are deleted.
    let options = options(database).journal_mode(SqliteJournalMode::Delete).busy_timeout(Duration::ZERO);
    for _ in 1..RELEASE_ATTEMPTS {
        match open(database, options.clone()).await {
            Err(BackupError::InUse(_)) => tokio::time::sleep(RELEASE_PAUSE).await,
            opened => return opened?.close().await.map_err(|source| engine(database, source)),
        }
    }
    open(database, options).await?.close().await.map_err(|source| engine(database, source))
}

fn schema(database: &Path, source: DbError) -> BackupError {
    let path = database.to_owned();
    match source {
        DbError::Unavailable(source) => engine(database, source),
        DbError::NotADatabase { .. } => BackupError::Foreign(path),
        source => BackupError::Schema { path, source },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use sqlx::ConnectOptions;
    use tributary_protocol::id::Name;

    use super::*;
    use crate::db::Db;

    fn name(number: u32) -> Name {
        format!("p{number}").parse().unwrap()
    }

    async fn add(db: &Db, number: u32) {
        let mut tx = db.begin().await.unwrap();
        tx.insert_population(&name(number), 0).await.unwrap();
        tx.commit().await.unwrap();
    }

    async fn count(path: &Path) -> usize {
        let db = Db::open(path.to_str().unwrap()).await.unwrap();
        let populations = db.read().await.unwrap().populations(None, "", 1_000_000).await.unwrap().len();
        db.close().await;
        populations
    }

    /// Goal: a copy taken during writes is complete and has everything that was committed before it began.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_copy_taken_during_writes_is_whole_and_has_all_that_was_committed_before() {
        let folder = tempfile::tempdir().unwrap();
        let (path, into) = (folder.path().join("a.db"), folder.path().join("b.db"));
        let db = Db::open(path.to_str().unwrap()).await.unwrap();
        add(&db, 0).await;
        let writing = Arc::new(AtomicBool::new(true));
        let writer = tokio::spawn({
            let (db, writing) = (db.clone(), Arc::clone(&writing));
            async move {
                let mut number = 0;
                while writing.load(Ordering::Relaxed) {
                    number += 1;
                    add(&db, number).await;
                }
                number as usize
            }
        });
        for _ in 0..5 {
            let before = db.read().await.unwrap().populations(None, "", 1_000_000).await.unwrap().len();
            let _ = std::fs::remove_file(&into);
            copy(&path, &into).await.unwrap();
            check(&into).await.unwrap();
            assert!(count(&into).await >= before);
        }
        writing.store(false, Ordering::Relaxed);
        let written = writer.await.unwrap();
        db.close().await;
        assert_eq!(count(&path).await, written + 1, "the original is as it was");
    }

    #[tokio::test]
    async fn a_database_that_is_served_is_not_released_and_one_that_is_not_leaves_no_log() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let db = Db::open(path.to_str().unwrap()).await.unwrap();
        add(&db, 0).await;
        assert!(matches!(release(&path).await, Err(BackupError::InUse(_))));
        db.close().await;
        release(&path).await.unwrap();
        let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
        assert_eq!(files, ["a.db"]);
        assert_eq!(count(&path).await, 1);
    }

    #[tokio::test]
    async fn files_of_something_else_and_damaged_ones_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        assert!(matches!(check(&path("missing")).await, Err(BackupError::Missing(_))));
        std::fs::write(path("text"), "no database at all, but long enough to look at it. ".repeat(100)).unwrap();
        assert!(matches!(check(&path("text")).await, Err(BackupError::Foreign(_))));
        std::fs::write(path("empty"), "").unwrap();
        assert!(matches!(check(&path("empty")).await, Err(BackupError::Foreign(_))));

        let db = Db::open(path("a.db").to_str().unwrap()).await.unwrap();
        add(&db, 0).await;
        db.close().await;
        check(&path("a.db")).await.unwrap();
        let bytes = std::fs::read(path("a.db")).unwrap();
        std::fs::write(path("cut"), &bytes[..bytes.len() - 3 * 4096]).unwrap();
        assert!(check(&path("cut")).await.is_err());

        let newer = options(&path("a.db")).connect().await;
        let mut newer = newer.unwrap();
        let sql = "insert into _sqlx_migrations (version, description, success, checksum, execution_time) \
                   values (9999, 'later', true, x'00', 0)";
        sqlx::query(sql).execute(&mut newer).await.unwrap();
        newer.close().await.unwrap();
        let refused = check(&path("a.db")).await;
        assert!(matches!(refused, Err(BackupError::Schema { source: DbError::TooNew(9999), .. })), "{refused:?}");
    }

    #[test]
    fn a_postgres_url_is_refused_with_the_tool_to_use() {
        let refused = file_of("postgres://user:secret@host/db").expect_err("not a file").to_string();
        assert!(refused.contains("pg_dump") && !refused.contains("secret"), "{refused}");
        assert_eq!(file_of("sqlite:a.db").unwrap(), Path::new("a.db"));
    }
}
