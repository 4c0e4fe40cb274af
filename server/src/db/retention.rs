//! Deletes what a job's retention no longer keeps. The rows of versions and rounds stay as summaries.

use tributary_protocol::id::{JobId, TokenId};
use tributary_protocol::state::Task;

use super::tx::{execute, fetch};
use super::{DbError, RoundKey, Tx};
use crate::blob::model_key;

#[derive(sqlx::FromRow)]
struct Key {
    #[sqlx(try_from = "String")]
    task: Task,
    #[sqlx(try_from = "i64")]
    number: u32,
}

#[derive(sqlx::FromRow)]
struct Version {
    #[sqlx(try_from = "i64")]
    version: u32,
}

impl Tx {
    /// The versions of a job whose files are stored, oldest first.
    pub async fn stored_versions(&mut self, job: JobId) -> Result<Vec<u32>, DbError> {
        let sql = "select version from models where job = $1 and deleted_at_ms is null order by version";
        let rows = fetch!(self, Version, fetch_all, sql, job.to_string());
        Ok(rows.into_iter().map(|row| row.version).collect())
    }

    /// Deletes the file of a model version, and the files derived from it. Returns false when it is deleted already.
    pub async fn delete_model_file(&mut self, job: JobId, version: u32, now_ms: i64) -> Result<bool, DbError> {
        let sql = "update models set deleted_at_ms = $3 where job = $1 and version = $2 and deleted_at_ms is null";
        if execute!(self, sql, job.to_string(), i64::from(version), now_ms) == 0 {
            return Ok(false);
        }
        // An object in a store becomes an orphan here; the sweep deletes it.
        self.delete_blob(&model_key(job, version)).await?;
        self.delete_model_files(job, version).await?;
        Ok(true)
    }

    /// Rounds of a job that ended before `before_ms` and still have assignments. Training rounds only below number
    /// `train_below`.
    pub async fn rounds_to_prune(
        &mut self,
        job: JobId,
        before_ms: i64,
        train_below: u32,
        limit: u32,
    ) -> Result<Vec<RoundKey>, DbError> {
        let sql = "select task, number from rounds where job = $1 and ended_at_ms < $2 and pruned_at_ms is null \
                   and (task <> 'train' or number < $3) order by number, task limit $4";
        let (train_below, limit) = (i64::from(train_below), i64::from(limit));
        let rows = fetch!(self, Key, fetch_all, sql, job.to_string(), before_ms, train_below, limit);
        Ok(rows.into_iter().map(|row| RoundKey { job, task: row.task, number: row.number }).collect())
    }

    /// Deletes the assignments of a round that has ended. Returns false when the round is open or already pruned.
    pub async fn prune_round(&mut self, key: RoundKey, now_ms: i64) -> Result<bool, DbError> {
        let (job, task, number) = (key.job.to_string(), key.task.as_str(), i64::from(key.number));
        let sql = "update rounds set pruned_at_ms = $4 where job = $1 and task = $2 and number = $3 \
                   and ended_at_ms is not null and pruned_at_ms is null";
        if execute!(self, sql, job.as_str(), task, number, now_ms) == 0 {
            return Ok(false);
        }
        let sql = "delete from assignments where job = $1 and task = $2 and round = $3";
        execute!(self, sql, job.as_str(), task, number);
        Ok(true)
    }

    /// Deletes the events of rounds with sequence numbers in `after + 1 ..= to`. Events of the job itself stay. Returns
    /// the number of deleted events.
    pub async fn delete_round_events(&mut self, job: JobId, after: u64, to: u64) -> Result<u64, DbError> {
        let sql = "delete from events where job = $1 and sequence > $2 and sequence <= $3 and round is not null";
        Ok(execute!(self, sql, job.to_string(), after.cast_signed(), to.cast_signed()))
    }

    /// Tokens that expired before `before_ms` and that no client enrolled with. Revoked tokens stay: a configuration
    /// may still contain such a token, and if it were forgotten it would be accepted again.
    pub async fn spent_tokens(&mut self, before_ms: i64, limit: u32) -> Result<Vec<TokenId>, DbError> {
        let sql = "select id from tokens where expires_at_ms < $1 and revoked_at_ms is null \
                   and not exists (select 1 from clients where clients.token = tokens.id) order by id limit $2";
        let rows = fetch!(self, (String,), fetch_all, sql, before_ms, i64::from(limit));
        rows.into_iter().map(|(id,)| id.parse().map_err(|error| DbError::corrupt("tokens.id", error))).collect()
    }

    /// Deletes a token that no client enrolled with.
    ///
    /// # Errors
    /// [`DbError`] when a client was enrolled with it, among others.
    pub async fn delete_token(&mut self, id: TokenId) -> Result<(), DbError> {
        execute!(self, "delete from tokens where id = $1", id.to_string());
        Ok(())
    }
}
