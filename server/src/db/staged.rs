//! Staged bodies: bodies that are written chunk by chunk under a name of their own, before a transaction makes them
//! count. A staged body is unfinished, then either in use (its column `blob` names it) or obsolete (`expires_at_ms` is
//! 0). The chunks of obsolete bodies are deleted later.

use std::ops::Range;

use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::AssignmentId;

use super::tx::{Text, execute, fetch, stored};
use super::{DbError, RoundKey, Tx};

#[derive(Clone, Copy, Debug)]
pub struct NewStaged<'a> {
    /// The name under which its chunks are stored.
    pub id: &'a str,
    /// The assignment of an update, and which part of it this is; none for a model.
    pub assignment: Option<(AssignmentId, u16)>,
    /// Whether the chunks are in an object store.
    pub in_store: bool,
    /// Length of every chunk but the last.
    pub chunk_bytes: u64,
    /// Number of bytes that are stored.
    pub bytes: u64,
    /// The hash of the whole body, as its sender announced it.
    pub sha256: Option<Sha256Hash>,
    /// When an unfinished body becomes obsolete.
    pub expires_at_ms: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct StagedRow {
    /// The name under which its chunks are stored.
    pub id: String,
    /// Whether the chunks are in an object store.
    pub in_store: bool,
    /// Length of every chunk but the last.
    #[sqlx(try_from = "i64")]
    pub chunk_bytes: u64,
    /// Number of bytes that are stored.
    #[sqlx(try_from = "i64")]
    pub bytes: u64,
    sha256: Option<Text<Sha256Hash>>,
    /// Number of the request that may add to the body. Each new request raises it, which stops the earlier ones.
    pub attempt: i64,
}

impl StagedRow {
    /// An unfinished body without a stored byte.
    pub fn begun(id: String, in_store: bool, chunk_bytes: usize) -> Self {
        Self { id, in_store, chunk_bytes: chunk_bytes as u64, bytes: 0, sha256: None, attempt: 1 }
    }

    /// The hash of the whole body, as its sender announced it.
    pub fn sha256(&self) -> Option<Sha256Hash> {
        self.sha256.map(|Text(hash)| hash)
    }

    /// Number of chunks.
    pub fn chunks(&self) -> u64 {
        self.bytes.div_ceil(self.chunk_bytes.max(1))
    }

    /// The names in `objects` of these chunks.
    pub fn chunk_names(&self, chunks: Range<u64>) -> Vec<String> {
        chunks.map(|chunk| chunk_name(&self.id, chunk)).collect()
    }
}

/// The columns of a [`StagedRow`].
macro_rules! staged_columns {
    () => {
        "id, in_store, chunk_bytes, bytes, sha256, attempt"
    };
}

impl Tx {
    /// Begins a body. An unfinished update of the same assignment becomes obsolete.
    ///
    /// # Errors
    /// [`DbError::Duplicate`] when another request begins an update of the assignment at the same time.
    pub async fn insert_staged(&mut self, staged: &NewStaged<'_>) -> Result<(), DbError> {
        if let Some((assignment, part)) = staged.assignment {
            let sql = "update staged_bodies set assignment = null, expires_at_ms = 0 \
                       where assignment = $1 and part = $2";
            execute!(self, sql, assignment.to_string(), i64::from(part));
        }
        let sql = "insert into staged_bodies (id, assignment, part, in_store, chunk_bytes, bytes, sha256, \
                   expires_at_ms) values ($1, $2, $8, $3, $4, $5, $6, $7)";
        execute!(
            self,
            sql,
            staged.id,
            staged.assignment.map(|(id, _)| id.to_string()),
            staged.in_store,
            stored(staged.chunk_bytes),
            stored(staged.bytes),
            staged.sha256.map(|hash| hash.to_string()),
            staged.expires_at_ms,
            staged.assignment.map_or(0, |(_, part)| i64::from(part))
        );
        Ok(())
    }

    /// Takes over a body that coordinators write one after another, and cuts it to the length at which it was handed
    /// over. Earlier writers can add nothing more. Returns its new row and its former one; none for an obsolete body.
    pub async fn take_staged(&mut self, id: &str, bytes: u64) -> Result<Option<(StagedRow, StagedRow)>, DbError> {
        let sql = concat!(
            "select ",
            staged_columns!(),
            " from staged_bodies where id = $1 and blob is null and expires_at_ms > 0"
        );
        let Some(former) = fetch!(self, StagedRow, fetch_optional, sql, id) else { return Ok(None) };
        let sql = concat!(
            "update staged_bodies set attempt = attempt + 1, bytes = $2 \
             where id = $1 and blob is null and expires_at_ms > 0 and bytes >= $2 returning ",
            staged_columns!()
        );
        let row = fetch!(self, StagedRow, fetch_optional, sql, id, stored(bytes));
        Ok(row.map(|row| (row, former)))
    }

    /// Stores the new length of an unfinished body. Returns false when another request continues it, or it is obsolete.
    pub async fn extend_staged(&mut self, id: &str, attempt: i64, bytes: u64) -> Result<bool, DbError> {
        let sql = "update staged_bodies set bytes = $3 \
                   where id = $1 and attempt = $2 and blob is null and expires_at_ms > 0";
        Ok(execute!(self, sql, id, attempt, stored(bytes)) == 1)
    }

    /// Makes a staged body the body of this name. Returns false unless the unfinished body has this length and this
    /// attempt wrote it.
    ///
    /// # Errors
    /// [`DbError::Duplicate`] when the name has a body.
    pub async fn settle_staged(&mut self, id: &str, attempt: i64, bytes: u64, name: &str) -> Result<bool, DbError> {
        let sql = "update staged_bodies set blob = $4, assignment = null, expires_at_ms = null \
                   where id = $1 and attempt = $2 and bytes = $3 and blob is null and expires_at_ms > 0";
        Ok(execute!(self, sql, id, attempt, stored(bytes), name) == 1)
    }

    /// The staged body that is in use under this name.
    pub async fn staged_body(&mut self, name: &str) -> Result<Option<StagedRow>, DbError> {
        let sql = concat!("select ", staged_columns!(), " from staged_bodies where blob = $1");
        Ok(fetch!(self, StagedRow, fetch_optional, sql, name))
    }

    /// Takes over an unfinished part of the update of an assignment; an update in one body is part 0. Earlier requests
    /// can add nothing more, because this raises the attempt.
    pub async fn take_upload(&mut self, assignment: AssignmentId, part: u16) -> Result<Option<StagedRow>, DbError> {
        let sql = concat!(
            "update staged_bodies set attempt = attempt + 1 \
             where assignment = $1 and part = $2 and blob is null and expires_at_ms > 0 returning ",
            staged_columns!()
        );
        Ok(fetch!(self, StagedRow, fetch_optional, sql, assignment.to_string(), i64::from(part)))
    }

    /// Makes an unfinished body obsolete. Returns false when it is in use, or another request continues it.
    pub async fn discard_staged(&mut self, id: &str, attempt: i64) -> Result<bool, DbError> {
        let sql = "update staged_bodies set assignment = null, expires_at_ms = 0 \
                   where id = $1 and attempt = $2 and blob is null";
        Ok(execute!(self, sql, id, attempt) == 1)
    }

    /// Makes the unfinished update of an assignment obsolete.
    pub async fn discard_upload(&mut self, assignment: AssignmentId) -> Result<(), DbError> {
        let sql = "update staged_bodies set assignment = null, expires_at_ms = 0 where assignment = $1";
        execute!(self, sql, assignment.to_string());
        Ok(())
    }

    /// Makes the unfinished updates of a round obsolete, because the round accepts no more. Those of open assignments
    /// in a buffered job count in the next round.
    pub async fn discard_uploads(&mut self, round: RoundKey) -> Result<(), DbError> {
        let sql = "update staged_bodies set assignment = null, expires_at_ms = 0 where assignment in \
                   (select id from assignments where job = $1 and task = $2 and round = $3 \
                   and (state <> 'assigned' or deadline_at_ms is null))";
        execute!(self, sql, round.job.to_string(), round.task.as_str(), i64::from(round.number));
        Ok(())
    }

    /// Makes the unfinished bodies obsolete that have expired. Returns their number.
    pub async fn expire_staged(&mut self, now_ms: i64) -> Result<u64, DbError> {
        let sql = "update staged_bodies set assignment = null, expires_at_ms = 0 \
                   where blob is null and expires_at_ms > 0 and expires_at_ms <= $1";
        Ok(execute!(self, sql, now_ms))
    }

    /// Obsolete bodies, whose chunks can be deleted.
    pub async fn useless_staged(&mut self, limit: u32) -> Result<Vec<StagedRow>, DbError> {
        let sql = concat!(
            "select ",
            staged_columns!(),
            " from staged_bodies where blob is null and expires_at_ms = 0 order by id limit $1"
        );
        Ok(fetch!(self, StagedRow, fetch_all, sql, i64::from(limit)))
    }

    /// Deletes the last chunks of an obsolete body, at most `chunks_max`; with the first chunk, also its row. Returns
    /// the objects that had the chunks, which the caller deletes after the commit, and whether the whole body is
    /// deleted.
    pub async fn delete_chunks(&mut self, staged: &StagedRow, chunks_max: u64) -> Result<(Vec<String>, bool), DbError> {
        let chunks = staged.chunks();
        let kept = chunks.saturating_sub(chunks_max);
        let mut objects = Vec::new();
        if staged.in_store {
            objects = self.forget_objects(&staged.chunk_names(kept..chunks)).await?;
        } else {
            let sql = "delete from blob_chunks where blob = $1 and chunk >= $2";
            execute!(self, sql, staged.id.as_str(), stored(kept));
        }
        if kept == 0 {
            execute!(self, "delete from staged_bodies where id = $1 and blob is null", staged.id.as_str());
        } else {
            let sql = "update staged_bodies set bytes = $2 where id = $1 and blob is null";
            execute!(self, sql, staged.id.as_str(), stored(kept * staged.chunk_bytes));
        }
        Ok((objects, kept == 0))
    }
}

/// The name in `objects` of one chunk.
pub fn chunk_name(id: &str, chunk: u64) -> String {
    format!("{id}/{chunk}")
}
