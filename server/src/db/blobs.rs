//! Bodies of models and updates: their chunks, or the keys of those that are in an object store.

use std::collections::{BTreeSet, HashSet};

use super::tx::{execute, execute_all, fetch, fetch_in, stored};
use super::{DbError, RoundKey, Tx};

/// Length of every chunk but the last. No database buffers more of a body than this at once.
pub const BLOB_CHUNK_BYTES: usize = 1 << 20;

/// A chunk of a body in the database.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct StoredChunk {
    pub data: Vec<u8>,
    /// CRC-32 of the data when it was stored.
    #[sqlx(try_from = "i64")]
    pub crc: u32,
}

/// Where in an object a body is, or a chunk of one.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct ObjectRow {
    /// The object's key in the store.
    pub object: String,
    /// The first of its bytes in the object.
    #[sqlx(try_from = "i64")]
    pub begins: u64,
    #[sqlx(try_from = "i64")]
    pub bytes: u64,
    /// CRC-32 of its bytes when it was stored.
    #[sqlx(try_from = "i64")]
    pub crc: u32,
}

/// The object of a body.
#[derive(sqlx::FromRow)]
struct Named {
    blob: String,
    #[sqlx(flatten)]
    object: ObjectRow,
}

/// Names of the updates of a round (`$1` job, `$2` task, `$3` number). Masked ones of open groups are not among them:
/// those groups move on to the next round.
macro_rules! updates_of_round {
    () => {
        "(select 'update/' || id from assignments where job = $1 and task = $2 and round = $3 \
         union all select 'update/' || p.assignment || '/' || p.part from assignments a \
         join update_parts p on p.assignment = a.id where a.job = $1 and a.task = $2 and a.round = $3 \
         and (a.state <> 'assigned' or a.deadline_at_ms is null) \
         union all select 'masked/' || m.assignment from secure_members m left join secure_groups g on g.id = m.group_id \
         where m.job = $1 and m.task = $2 and m.round = $3 and (g.id is null or g.stage in ('summed', 'failed')))"
    };
}

impl ObjectRow {
    /// An object with these bytes.
    pub fn of(object: String, data: &[u8]) -> Self {
        Self::range(object, 0, data)
    }

    /// These bytes within an object.
    pub fn range(object: String, begins: u64, data: &[u8]) -> Self {
        Self { object, begins, bytes: data.len() as u64, crc: crc32fast::hash(data) }
    }
}

impl Tx {
    /// Stores a whole body under a name.
    ///
    /// # Errors
    /// [`DbError::Duplicate`] when a body of this name is in the database.
    pub async fn insert_blob(&mut self, name: &str, body: &[u8]) -> Result<(), DbError> {
        let sql = "insert into blob_chunks (blob, chunk, data, crc) values ($1, $2, $3, $4)";
        for (chunk, data) in (0i64..).zip(body.chunks(BLOB_CHUNK_BYTES)) {
            execute!(self, sql, name, chunk, data, i64::from(crc32fast::hash(data)));
        }
        Ok(())
    }

    /// One chunk of a body, from byte `chunk * BLOB_CHUNK_BYTES` on; none past the end.
    pub async fn blob_chunk(&mut self, name: &str, chunk: u64) -> Result<Option<StoredChunk>, DbError> {
        let sql = "select data, crc from blob_chunks where blob = $1 and chunk = $2";
        Ok(fetch!(self, StoredChunk, fetch_optional, sql, name, stored(chunk)))
    }

    /// Stores one chunk of a body, and replaces what was stored there.
    pub async fn put_chunk(&mut self, name: &str, chunk: u64, data: &[u8]) -> Result<(), DbError> {
        let sql = "insert into blob_chunks (blob, chunk, data, crc) values ($1, $2, $3, $4) \
                   on conflict (blob, chunk) do update set data = excluded.data, crc = excluded.crc";
        execute!(self, sql, name, stored(chunk), data, i64::from(crc32fast::hash(data)));
        Ok(())
    }

    /// Stores the object that has the body of this name. Returns the object that it replaces, which the caller deletes
    /// after the commit.
    pub async fn put_object(&mut self, name: &str, object: &ObjectRow) -> Result<Option<String>, DbError> {
        let former = self.object(name).await?;
        let sql = "insert into objects (blob, object, begins, bytes, crc) values ($1, $2, $3, $4, $5) \
                   on conflict (blob) do update set object = excluded.object, begins = excluded.begins, \
                   bytes = excluded.bytes, crc = excluded.crc";
        let ObjectRow { object, begins, bytes, crc } = object;
        execute!(self, sql, name, object.as_str(), stored(*begins), stored(*bytes), i64::from(*crc));
        Ok(former.map(|former| former.object))
    }

    /// Stores the object that has the body of this name.
    ///
    /// # Errors
    /// [`DbError::Duplicate`] when the name has an object.
    pub async fn insert_object(&mut self, name: &str, object: &ObjectRow) -> Result<(), DbError> {
        self.insert_objects(&[(name.to_owned(), object.clone())]).await
    }

    /// Stores the objects of several bodies, each with the name of its body.
    ///
    /// # Errors
    /// As [`Self::insert_object`].
    pub async fn insert_objects(&mut self, objects: &[(String, ObjectRow)]) -> Result<(), DbError> {
        let sql = "insert into objects (blob, object, begins, bytes, crc) ";
        execute_all!(self, sql, objects, |values, (name, object)| {
            values.push_bind(name.as_str()).push_bind(object.object.as_str()).push_bind(stored(object.begins));
            values.push_bind(stored(object.bytes)).push_bind(i64::from(object.crc));
        });
        Ok(())
    }

    /// The object that has the body of this name; none when the body is in the database or missing.
    pub async fn object(&mut self, name: &str) -> Result<Option<ObjectRow>, DbError> {
        let sql = "select object, begins, bytes, crc from objects where blob = $1";
        Ok(fetch!(self, ObjectRow, fetch_optional, sql, name))
    }

    /// The objects of several bodies, each with the name of its body, in no order. A body without an object is left
    /// out.
    pub async fn objects(&mut self, names: &[String]) -> Result<Vec<(String, ObjectRow)>, DbError> {
        let sql = "select blob, object, begins, bytes, crc from objects where blob in ";
        let rows = fetch_in!(self, Named, sql, names, "");
        Ok(rows.into_iter().map(|Named { blob, object }| (blob, object)).collect())
    }

    /// Forgets the objects of several bodies. Returns them: the caller deletes them after the commit.
    pub async fn forget_objects(&mut self, names: &[String]) -> Result<Vec<String>, DbError> {
        let rows = fetch_in!(self, (String,), "delete from objects where blob in ", names, " returning object");
        // The chunks of a body may be in one object.
        let objects: BTreeSet<_> = rows.into_iter().map(|(object,)| object).collect();
        Ok(objects.into_iter().collect())
    }

    /// Those of these objects in which a body is stored.
    pub async fn known_objects(&mut self, objects: &[String]) -> Result<HashSet<String>, DbError> {
        let rows = fetch_in!(self, (String,), "select object from objects where object in ", objects, "");
        Ok(rows.into_iter().map(|(object,)| object).collect())
    }

    /// Whether any body is stored in an object whose key does not begin with this.
    pub async fn has_objects(&mut self, but: &str) -> Result<bool, DbError> {
        let sql = "select bytes from objects where $1 = '' or substr(object, 1, length($1)) <> $1 limit 1";
        Ok(fetch!(self, (i64,), fetch_optional, sql, but).is_some())
    }

    /// Deletes the body of this name. Returns the object that had it, which the caller deletes after the commit. The
    /// chunks of a staged body become obsolete and are deleted later, a few at a time.
    pub async fn delete_blob(&mut self, name: &str) -> Result<Option<String>, DbError> {
        execute!(self, "update staged_bodies set blob = null, expires_at_ms = 0 where blob = $1", name);
        execute!(self, "delete from blob_chunks where blob = $1", name);
        let row = fetch!(self, (String,), fetch_optional, "delete from objects where blob = $1 returning object", name);
        Ok(row.map(|(object,)| object))
    }

    /// Deletes the updates of a round that has ended. Returns the objects that had them, which the caller deletes after
    /// the commit. Staged updates become obsolete, finished or not.
    pub async fn delete_updates(&mut self, round: RoundKey) -> Result<Vec<String>, DbError> {
        let (job, number) = (round.job.to_string(), i64::from(round.number));
        self.discard_uploads(round).await?;
        let chunks =
            concat!("update staged_bodies set blob = null, expires_at_ms = 0 where blob in ", updates_of_round!());
        execute!(self, chunks, job.as_str(), round.task.as_str(), number);
        let chunks = concat!("delete from blob_chunks where blob in ", updates_of_round!());
        execute!(self, chunks, job.as_str(), round.task.as_str(), number);
        let objects = concat!("delete from objects where blob in ", updates_of_round!(), " returning object");
        let rows = fetch!(self, (String,), fetch_all, objects, job.as_str(), round.task.as_str(), number);
        self.forget_parts(round).await?;
        Ok(rows.into_iter().map(|(object,)| object).collect())
    }

    /// The id of this database, which is the prefix of its objects in a store. A database without one takes `fresh`.
    pub async fn deployment(&mut self, fresh: &str) -> Result<String, DbError> {
        execute!(self, "insert into deployment (one, id) values (1, $1) on conflict do nothing", fresh);
        Ok(fetch!(self, (String,), fetch_one, "select id from deployment").0)
    }
}
