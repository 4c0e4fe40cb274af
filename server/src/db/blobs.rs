//! Bodies of models and updates, in parts.

use super::tx::{execute, fetch, stored};
use super::{DbError, Tx};

/// Bytes of one part: neither database ever holds more of a body in memory at once.
pub const BLOB_CHUNK_BYTES: usize = 1 << 20;

impl Tx {
    /// Stores a body under a key that has none.
    ///
    /// # Errors
    /// [`DbError::Duplicate`] when the key has a body.
    pub async fn insert_blob(&mut self, key: &str, body: &[u8]) -> Result<(), DbError> {
        let sql = "insert into blob_chunks (blob, part, data) values ($1, $2, $3)";
        for (part, data) in (0i64..).zip(body.chunks(BLOB_CHUNK_BYTES)) {
            execute!(self, sql, key, part, data);
        }
        Ok(())
    }

    /// One part of a body: bytes `part * BLOB_CHUNK_BYTES ..`; none past the end.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn blob_part(&mut self, key: &str, part: u64) -> Result<Option<Vec<u8>>, DbError> {
        let sql = "select data from blob_chunks where blob = $1 and part = $2";
        let row = fetch!(self, (Vec<u8>,), fetch_optional, sql, key, stored(part));
        Ok(row.map(|(data,)| data))
    }

    /// Deletes the updates of one round: it is final, so its sum is in a model version or nowhere.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn delete_updates(&mut self, round: super::RoundKey) -> Result<(), DbError> {
        let sql = "delete from blob_chunks where blob in \
                   (select 'update/' || id from assignments where job = $1 and task = $2 and round = $3)";
        execute!(self, sql, round.job.to_string(), round.task.as_str(), i64::from(round.number));
        Ok(())
    }
}
