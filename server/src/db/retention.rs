//! Deleting what a job's retention no longer keeps. Summaries stay: the rows of versions and rounds.

use tributary_protocol::id::{JobId, TokenId};
use tributary_protocol::operator::BestVersion;
use tributary_protocol::state::Task;

use super::measured::{MeasuredRow, measured_columns};
use super::names::model_key;
use super::tx::{execute, fetch};
use super::{DbError, RoundKey, Tx};

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

#[derive(sqlx::FromRow)]
struct Best {
    #[sqlx(try_from = "i64")]
    version: u32,
    #[sqlx(try_from = "i64")]
    round: u32,
    loss: Option<f64>,
    #[sqlx(flatten)]
    measured: MeasuredRow,
}

impl Tx {
    /// The versions of a job whose files are there, oldest first.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn stored_versions(&mut self, job: JobId) -> Result<Vec<u32>, DbError> {
        let sql = "select version from models where job = $1 and deleted_at_ms is null order by version";
        let rows = fetch!(self, Version, fetch_all, sql, job.to_string());
        Ok(rows.into_iter().map(|row| row.version).collect())
    }

    /// The version of a job with the best evaluation: the highest lower bound of its accuracy, or without one the
    /// lowest loss. Of equal ones, the oldest.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn best_version(&mut self, job: JobId) -> Result<Option<BestVersion>, DbError> {
        let sql = concat!(
            "select m.version, r.number as round, r.loss, ",
            measured_columns!(),
            " from rounds r join models m on m.job = r.job and m.round = r.number \
             where r.job = $1 and r.task = 'train' and r.phase = 'committed' and r.loss is not null \
             order by coalesce(r.accuracy_low, -1) desc, r.loss, r.number limit 1"
        );
        let best = fetch!(self, Best, fetch_optional, sql, job.to_string());
        Ok(best.map(|Best { version, round, loss, measured }| BestVersion {
            version,
            round,
            accuracy: measured.accuracy,
            measured_on: measured.on(),
            loss,
        }))
    }

    /// Deletes the file of a model version, and those that are made of it. False when it is gone already or pinned.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn delete_model_file(&mut self, job: JobId, version: u32, now_ms: i64) -> Result<bool, DbError> {
        let sql = "update models set deleted_at_ms = $3 where job = $1 and version = $2 and deleted_at_ms is null \
                   and pinned_at_ms is null";
        if execute!(self, sql, job.to_string(), i64::from(version), now_ms) == 0 {
            return Ok(false);
        }
        // An object in a store is an orphan from here on; the sweep deletes it.
        self.delete_blob(&model_key(job, version)).await?;
        self.delete_model_files(job, version).await?;
        Ok(true)
    }

    /// Rounds of a job that ended before `before_ms` and still have their assignments; training rounds only below
    /// number
    /// `train_below`.
    ///
    /// # Errors
    /// [`DbError`].
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

    /// Deletes the assignments of a round that has ended. False when it is open, or they are gone already.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn prune_round(&mut self, key: RoundKey, now_ms: i64) -> Result<bool, DbError> {
        let (job, task, number) = (key.job.to_string(), key.task.as_str(), i64::from(key.number));
        let sql = "update rounds set pruned_at_ms = $4 where job = $1 and task = $2 and number = $3 \
                   and ended_at_ms is not null and pruned_at_ms is null";
        if execute!(self, sql, job.as_str(), task, number, now_ms) == 0 {
            return Ok(false);
        }
        let sql = "delete from assignments where job = $1 and task = $2 and round = $3 and state <> 'assigned'";
        execute!(self, sql, job.as_str(), task, number);
        Ok(true)
    }

    /// Deletes the events of rounds from after one sequence number to another; those of the job itself stay. Returns
    /// how many there were.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn delete_round_events(&mut self, job: JobId, after: u64, to: u64) -> Result<u64, DbError> {
        let sql = "delete from events where job = $1 and sequence > $2 and sequence <= $3 and round is not null";
        Ok(execute!(self, sql, job.to_string(), after.cast_signed(), to.cast_signed()))
    }

    /// Tokens that expired before `before_ms` and let nobody in. Revoked ones are not among them: a revoked token that
    /// were forgotten would be let in again where it stands in a configuration.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn spent_tokens(&mut self, before_ms: i64, limit: u32) -> Result<Vec<TokenId>, DbError> {
        let sql = "select id from tokens where expires_at_ms < $1 and revoked_at_ms is null \
                   and not exists (select 1 from clients where clients.token = tokens.id) order by id limit $2";
        let rows = fetch!(self, (String,), fetch_all, sql, before_ms, i64::from(limit));
        rows.into_iter().map(|(id,)| id.parse().map_err(|error| DbError::corrupt("tokens.id", error))).collect()
    }

    /// Deletes a token that let nobody in.
    ///
    /// # Errors
    /// [`DbError`]; among others when a client was enrolled with it.
    pub async fn delete_token(&mut self, id: TokenId) -> Result<(), DbError> {
        execute!(self, "delete from tokens where id = $1", id.to_string());
        Ok(())
    }
}
