//! `tributary backup` and `tributary restore`.

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use tempfile::NamedTempFile;
use tributary_protocol::sealed::Sealed;
use tributary_server::backup::{BackupError, check, copy, file_of, forget_secrets, release};

use crate::error::{CliError, Failure};
use crate::files::private_beside;
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The file to write.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The database: a file or sqlite:FILE. For PostgreSQL, use pg_dump.
    #[arg(
        long,
        env = "TRIBUTARY_DATABASE",
        default_value = "tributary.db",
        value_name = "URL",
        hide_env_values = true
    )]
    database: Sealed<String>,
    /// Replaces FILE if it exists.
    #[arg(long)]
    force: bool,
    /// Keeps the keys of noise and the seeds of draws of private jobs in the copy. Without them, a private round that
    /// is aggregating is abandoned where the copy is restored.
    #[arg(long)]
    with_secrets: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// A file that `tributary backup` wrote.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The database to create: a file or sqlite:FILE. For PostgreSQL, use pg_restore.
    #[arg(long, env = "TRIBUTARY_DATABASE", value_name = "URL", hide_env_values = true)]
    database: Sealed<String>,
    /// Replaces the database if it exists. Refused while a coordinator serves it.
    #[arg(long)]
    force: bool,
}

impl Failure for BackupError {}

/// A file that --force would replace.
#[derive(Debug, thiserror::Error)]
#[error("{} exists", .0.display())]
struct Exists(PathBuf);

impl Failure for Exists {
    fn hint(&self) -> Option<String> {
        Some("choose another name, or pass --force to replace it".into())
    }
}

#[derive(Debug, Serialize)]
struct Written<'a> {
    event: &'static str,
    file: &'a Path,
    bytes: u64,
}

/// Writes a consistent copy of the database, also while a coordinator serves it.
pub(crate) async fn backup(args: &BackupArgs, output: &Output) -> Result<(), CliError> {
    let database = file_of(args.database.expose())?;
    refuse_existing(&args.file, args.force)?;
    let temporary = private_beside(&args.file).map_err(CliError::file("create", &args.file))?;
    copy(&database, temporary.path()).await?;
    if !args.with_secrets {
        forget_secrets(temporary.path()).await?;
    }
    let bytes = keep(temporary, &args.file, args.force)?;
    let written = Written { event: "backup", file: &args.file, bytes };
    output.object(&written, || format!("{} is saved in {} ({bytes} bytes)", database.display(), args.file.display()))
}

/// Creates the database from a backup.
pub(crate) async fn restore(args: &RestoreArgs, output: &Output) -> Result<(), CliError> {
    let database = file_of(args.database.expose())?;
    if !args.file.is_file() {
        return Err(BackupError::Missing(args.file.clone()).into());
    }
    refuse_existing(&database, args.force)?;
    let mut temporary = private_beside(&database).map_err(CliError::file("create", &database))?;
    let copied = std::fs::File::open(&args.file).and_then(|mut from| io::copy(&mut from, temporary.as_file_mut()));
    copied.map_err(CliError::file("copy", &args.file))?;
    // The copy is checked, not the file, which could change in between.
    check(temporary.path()).await.map_err(|error| error.of_file(&args.file))?;
    if database.exists() {
        release(&database).await?;
    }
    let bytes = keep(temporary, &database, args.force)?;
    let written = Written { event: "restore", file: &database, bytes };
    output.object(&written, || format!("{} is restored from {}", database.display(), args.file.display()))
}

fn refuse_existing(file: &Path, force: bool) -> Result<(), Exists> {
    if file.exists() && !force { Err(Exists(file.to_owned())) } else { Ok(()) }
}

/// Makes the file durable under its name; returns its size in bytes.
fn keep(temporary: NamedTempFile, file: &Path, force: bool) -> Result<u64, CliError> {
    let synced = temporary.as_file().sync_all().and_then(|()| temporary.as_file().metadata());
    let bytes = synced.map_err(CliError::file("write", file))?.len();
    let kept = if force { temporary.persist(file) } else { temporary.persist_noclobber(file) };
    match kept {
        Ok(_) => sync_folder(file).map_err(CliError::file("write", file)).map(|()| bytes),
        // It was created after the check.
        Err(failed) if failed.error.kind() == io::ErrorKind::AlreadyExists => Err(Exists(file.to_owned()).into()),
        Err(failed) => Err(CliError::file("write", file)(failed.error)),
    }
}

/// A rename is durable only when its folder is.
fn sync_folder(file: &Path) -> io::Result<()> {
    if cfg!(not(unix)) {
        return Ok(());
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use tributary_server::{Config, Coordinator};

    fn output() -> Output {
        testing::output(true).0
    }

    fn text(path: &Path) -> String {
        path.to_str().unwrap().to_owned()
    }

    /// Goal: a backup of a served database can be restored, and neither command overwrites a file without --force.
    #[tokio::test]
    async fn a_served_database_is_saved_and_restored_and_nothing_is_overwritten_by_accident() {
        let folder = tempfile::tempdir().unwrap();
        let [served, file, other] = ["served.db", "backup", "other.db"].map(|name| folder.path().join(name));
        let config = Config { database: text(&served).into(), ..Config::default() };
        let coordinator = Coordinator::open(&config).await.unwrap();
        let save =
            |force| BackupArgs { file: file.clone(), database: text(&served).into(), force, with_secrets: false };
        backup(&save(false), &output()).await.unwrap();
        let exists = |refused: Result<(), CliError>| refused.expect_err("a refusal").cause::<Exists>().is_some();
        assert!(exists(backup(&save(false), &output()).await));
        backup(&save(true), &output()).await.unwrap();

        let load = |to: &Path, force| RestoreArgs { file: file.clone(), database: text(to).into(), force };
        restore(&load(&other, false), &output()).await.unwrap();
        assert!(exists(restore(&load(&other, false), &output()).await));
        restore(&load(&other, true), &output()).await.unwrap();
        let in_use = restore(&load(&served, true), &output()).await.expect_err("it is served");
        assert!(matches!(in_use.cause(), Some(BackupError::InUse(_))), "{in_use:?}");
        coordinator.app().db.close().await;
        restore(&load(&served, true), &output()).await.unwrap();

        // The copy has the operator token of the original, so that no token is created.
        let config = Config { database: text(&other).into(), ..Config::default() };
        let restored = Coordinator::open(&config).await.unwrap();
        assert!(restored.first_operator_token().is_none());
        restored.app().db.close().await;
    }

    #[tokio::test]
    async fn a_file_that_is_no_backup_is_named_and_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let [file, database] = ["notes.txt", "a.db"].map(|name| folder.path().join(name));
        std::fs::write(&file, "notes ".repeat(1000)).unwrap();
        let args = RestoreArgs { file: file.clone(), database: text(&database).into(), force: false };
        let refused = restore(&args, &output()).await.expect_err("no database").to_string();
        assert!(refused.contains("notes.txt"), "{refused}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
