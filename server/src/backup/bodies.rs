//! Moves the bodies that a copy refers to from the files beside its database into the copy.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use sqlx::Connection;
use sqlx_sqlite::{SqliteConnection, SqliteJournalMode, SqliteSynchronous};

use super::open::{BackupError, engine, open, options};
use crate::db::BLOB_CHUNK_BYTES;

/// Where a body or a chunk of one is.
#[derive(sqlx::FromRow)]
struct Row {
    blob: String,
    object: String,
    #[sqlx(try_from = "i64")]
    begins: u64,
    #[sqlx(try_from = "i64")]
    bytes: u64,
    crc: i64,
}

/// Where a chunk of a body is stored: its name and its number.
struct Chunk<'a> {
    blob: &'a str,
    first: i64,
}

/// Puts the bodies into the copy: those of the folder of the database, or of a folder with links to what was there.
/// Returns false if the coordinator deleted one since the copy was made. An object that neither has, and that the
/// database still refers to, is in an object store and stays there.
///
/// One chunk is in memory at a time.
pub(super) async fn embed(
    database: &mut SqliteConnection,
    [folder, links]: [&Path; 2],
    copy: &Path,
) -> Result<bool, BackupError> {
    if !folder.is_dir() {
        return Ok(true);
    }
    let failed = |source| engine(copy, source);
    // A copy that breaks off is thrown away.
    let options = options(copy).journal_mode(SqliteJournalMode::Off).synchronous(SqliteSynchronous::Off);
    let mut into = open(copy, options).await?;
    let deployment: Option<(String,)> =
        sqlx::query_as("select id from deployment").fetch_optional(&mut into).await.map_err(failed)?;
    let Some((deployment,)) = deployment else { return Ok(true) };
    let sql = "select blob, object, begins, bytes, crc from objects";
    let objects: Vec<Row> = sqlx::query_as(sql).fetch_all(&mut into).await.map_err(failed)?;
    let mut tx = into.begin().await.map_err(failed)?;
    let mut staged = BTreeSet::new();
    for Row { blob, object, begins, bytes, crc: stored_crc } in &objects {
        let path = folder.join(&deployment).join(object);
        let unreadable = |source| BackupError::Body { path: path.clone(), source };
        let linked = links.join(&deployment).join(object);
        let file = match File::open(&path).or_else(|error| File::open(&linked).map_err(|_| error)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let sql = "select blob from objects where object = $1";
                let known: Option<(String,)> =
                    sqlx::query_as(sql).bind(object).fetch_optional(&mut *database).await.map_err(failed)?;
                if known.is_some() {
                    continue;
                }
                return Ok(false);
            }
            Err(error) => return Err(unreadable(error)),
        };
        let chunk = Chunk::of(blob);
        let is_one_chunk = *bytes <= BLOB_CHUNK_BYTES as u64;
        for (number, data) in (chunk.first..).zip(Chunks::of(file, *begins, *bytes).map_err(unreadable)?) {
            let data = data.map_err(unreadable)?;
            // As it was stored, so that what a disk did to the file is found in the copy too.
            let crc = if is_one_chunk { *stored_crc } else { i64::from(crc32fast::hash(&data)) };
            let sql = "insert into blob_chunks (blob, chunk, data, crc) values ($1, $2, $3, $4)";
            let query = sqlx::query(sql).bind(chunk.blob).bind(number).bind(data).bind(crc);
            query.execute(&mut *tx).await.map_err(failed)?;
        }
        sqlx::query("delete from objects where blob = $1").bind(blob).execute(&mut *tx).await.map_err(failed)?;
        staged.insert(chunk.blob);
    }
    for body in staged {
        let sql = "update staged_bodies set in_store = false where id = $1";
        sqlx::query(sql).bind(body).execute(&mut *tx).await.map_err(failed)?;
    }
    tx.commit().await.map_err(failed)?;
    into.close().await.map_err(failed)?;
    Ok(true)
}

impl<'a> Chunk<'a> {
    /// The first chunk of an object: that of a staged body (`staged/ID/CHUNK`) is one chunk of it; any other object is
    /// a whole body.
    fn of(blob: &'a str) -> Self {
        let chunk = blob.strip_prefix("staged/").and_then(|_| blob.rsplit_once('/'));
        let chunk = chunk.and_then(|(id, chunk)| Some(Self { blob: id, first: chunk.parse().ok()? }));
        chunk.unwrap_or(Self { blob, first: 0 })
    }
}

/// A range of the bytes of a file in chunks of [`BLOB_CHUNK_BYTES`]. What a truncated file lacks is left out.
struct Chunks(io::Take<File>);

impl Chunks {
    fn of(mut file: File, begins: u64, bytes: u64) -> io::Result<Self> {
        file.seek(SeekFrom::Start(begins))?;
        Ok(Self(file.take(bytes)))
    }
}

impl Iterator for Chunks {
    type Item = io::Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut chunk = Vec::new();
        match (&mut self.0).take(BLOB_CHUNK_BYTES as u64).read_to_end(&mut chunk) {
            Ok(0) => None,
            Ok(_) => Some(Ok(chunk)),
            Err(error) => Some(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backup::file_of;
    use crate::db::{Db, ObjectRow};

    const OBJECT: &str = "staged/a/1-x";

    /// A database file whose one object is the second chunk of a body; `refers`: whether it refers to it.
    async fn database(folder: &Path, name: &str, refers: bool) -> std::path::PathBuf {
        let file = folder.join(name);
        let db = Db::open(file.to_str().unwrap()).await.unwrap();
        let mut tx = db.begin().await.unwrap();
        tx.deployment("d").await.unwrap();
        if refers {
            tx.insert_object("staged/a/1", &ObjectRow::range(OBJECT.to_owned(), 2, b"abc")).await.unwrap();
        }
        tx.commit().await.unwrap();
        db.close().await;
        file_of(file.to_str().unwrap()).unwrap()
    }

    /// Goal: a copy lacks no body: one that the coordinator deleted meanwhile makes the copy begin again, one in an
    /// object store stays there, and one in a file becomes a chunk.
    #[tokio::test]
    async fn a_copy_has_every_body_that_is_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let (files, links) = (folder.path().join("files"), folder.path().join("links"));
        std::fs::create_dir_all(files.join("d/staged/a")).unwrap();
        std::fs::create_dir_all(links.join("d/staged/a")).unwrap();
        let copy = database(folder.path(), "copy", true).await;
        for (refers, expected) in [(false, false), (true, true)] {
            let database = database(folder.path(), &format!("database {refers}"), refers).await;
            let mut connection = open(&database, options(&database)).await.unwrap();
            assert_eq!(embed(&mut connection, [&files, &links], &copy).await.unwrap(), expected);
            connection.close().await.unwrap();
        }
        // Deleted meanwhile, and linked before.
        std::fs::write(links.join("d").join(OBJECT), b"..abc...").unwrap();
        let mut connection = open(&copy, options(&copy)).await.unwrap();
        assert!(embed(&mut connection, [&files, &links], &copy).await.unwrap());
        connection.close().await.unwrap();
        let db = Db::open(copy.to_str().unwrap()).await.unwrap();
        let mut tx = db.read().await.unwrap();
        let chunk = tx.blob_chunk("staged/a", 1).await.unwrap().unwrap();
        assert_eq!((&chunk.data[..], chunk.crc), (&b"abc"[..], 0x3524_41c2));
        assert!(!tx.has_objects("").await.unwrap());
        drop(tx);
        db.close().await;
    }
}
