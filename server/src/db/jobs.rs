//! Jobs and the versions of their models.

use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{AssignmentId, JobId, Name};
use tributary_protocol::job_file::JobFile;
use tributary_protocol::operator::ModelVersion;
use tributary_protocol::state::JobState;

use super::measured::{MeasuredRow, measured_columns};
use super::tx::{Json, Text, execute, fetch, on_postgres, stored};
use super::{DbError, Tx};

#[derive(sqlx::FromRow)]
struct FileRow {
    #[sqlx(try_from = "String")]
    file: Json<JobFile>,
}

#[derive(Clone, Debug)]
pub struct NewJob<'a> {
    pub id: JobId,
    /// The job file, with its seed filled in.
    pub file: &'a JobFile,
    /// Number of parameters of the model.
    pub parameters: u64,
    /// Running, or awaiting its model.
    pub state: JobState,
}

#[derive(Clone, Debug, sqlx::FromRow)]
pub struct JobRow {
    #[sqlx(try_from = "String")]
    pub id: JobId,
    /// The job file, with its seed filled in.
    #[sqlx(try_from = "String")]
    pub file: Json<JobFile>,
    /// Number of parameters of the model.
    #[sqlx(try_from = "i64")]
    pub parameters: u64,
    #[sqlx(try_from = "String")]
    pub state: JobState,
    /// Newest model version.
    pub model_version: Option<i64>,
    /// Number of training rounds opened.
    #[sqlx(try_from = "i64")]
    pub rounds_opened: u32,
    /// Number of training rounds committed.
    #[sqlx(try_from = "i64")]
    pub rounds_committed: u32,
    /// Number of training rounds abandoned since the last committed one.
    #[sqlx(try_from = "i64")]
    pub abandoned_in_a_row: u32,
    /// When the last training round ended.
    pub round_ended_at_ms: Option<i64>,
    /// Number of the last committed training round.
    pub committed_round: Option<i64>,
    /// When the job was created.
    pub created_at_ms: i64,
    /// When the job was stopped or completed.
    pub ended_at_ms: Option<i64>,
    #[sqlx(try_from = "String")]
    pub tags: Json<Vec<Name>>,
    pub notes: String,
    pub archived_at_ms: Option<i64>,
}

impl JobRow {
    /// Newest model version; none before the first.
    pub fn version(&self) -> Result<Option<u32>, DbError> {
        number("jobs.model_version", self.model_version)
    }

    /// Number of the last committed training round.
    pub fn last_committed(&self) -> Result<Option<u32>, DbError> {
        number("jobs.committed_round", self.committed_round)
    }
}

/// The columns of a [`JobRow`].
macro_rules! job_columns {
    () => {
        "id, file, parameters, state, model_version, rounds_opened, rounds_committed, abandoned_in_a_row, round_ended_at_ms, committed_round, created_at_ms, ended_at_ms, tags, notes, archived_at_ms"
    };
}
pub(super) use job_columns;

/// A nullable integer column as its Rust type.
pub(super) fn number<T: TryFrom<i64, Error: std::fmt::Display>>(
    column: &str,
    value: Option<i64>,
) -> Result<Option<T>, DbError> {
    value.map(T::try_from).transpose().map_err(|error| DbError::corrupt(column, error))
}

#[derive(sqlx::FromRow)]
struct ModelRow {
    #[sqlx(try_from = "i64")]
    version: u32,
    round: Option<i64>,
    #[sqlx(try_from = "String")]
    sha256: Sha256Hash,
    #[sqlx(try_from = "i64")]
    bytes: u64,
    created_at_ms: i64,
    deleted_at_ms: Option<i64>,
    pinned_at_ms: Option<i64>,
    loss: Option<f64>,
    #[sqlx(flatten)]
    measured: MeasuredRow,
}

/// Versions `m` with the evaluations of their rounds `r`, as [`ModelRow`]s.
macro_rules! models_measured {
    () => {
        concat!(
            "select m.version, m.round, m.sha256, m.bytes, m.created_at_ms, m.deleted_at_ms, m.pinned_at_ms, r.loss, ",
            measured_columns!(),
            " from models m left join rounds r on r.job = m.job and r.task = 'evaluate' and r.number = m.round "
        )
    };
}

impl TryFrom<ModelRow> for ModelVersion {
    type Error = DbError;

    fn try_from(row: ModelRow) -> Result<Self, DbError> {
        Ok(Self {
            version: row.version,
            round: number("models.round", row.round)?,
            sha256: row.sha256,
            bytes: row.bytes,
            created_at_ms: row.created_at_ms,
            deleted_at_ms: row.deleted_at_ms,
            accuracy: row.measured.accuracy,
            measured_on: row.measured.on(),
            loss: row.loss,
            best: false,
            pinned_at_ms: row.pinned_at_ms,
        })
    }
}

impl Tx {
    /// # Errors
    /// [`DbError::Duplicate`] when its population has a job of this name.
    pub async fn insert_job(&mut self, job: &NewJob<'_>, now_ms: i64) -> Result<(), DbError> {
        let sql = "insert into jobs (id, population, name, file, parameters, state, created_at_ms) \
                   values ($1, $2, $3, $4, $5, $6, $7)";
        execute!(
            self,
            sql,
            job.id.to_string(),
            job.file.population.as_str(),
            job.file.name.as_str(),
            Json::text(job.file)?,
            stored(job.parameters),
            job.state.as_str(),
            now_ms
        );
        Ok(())
    }

    pub async fn job(&mut self, id: JobId) -> Result<Option<JobRow>, DbError> {
        let sql = concat!("select ", job_columns!(), " from jobs where id = $1");
        Ok(fetch!(self, JobRow, fetch_optional, sql, id.to_string()))
    }

    /// The state of a job of this population.
    pub async fn job_state(&mut self, id: JobId, population: &Name) -> Result<Option<JobState>, DbError> {
        let sql = "select state from jobs where id = $1 and population = $2";
        let row = fetch!(self, (Text<JobState>,), fetch_optional, sql, id.to_string(), population.as_str());
        Ok(row.map(|(Text(state),)| state))
    }

    /// The jobs that this coordinator plays for its parent, the oldest first, at most so many.
    pub async fn relayed_jobs(&mut self, limit: usize) -> Result<Vec<JobId>, DbError> {
        let sql = "select id from jobs where state = $1 order by created_at_ms, id limit $2";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = fetch!(self, (Text<JobId>,), fetch_all, sql, JobState::Relaying.as_str(), limit);
        Ok(rows.into_iter().map(|(Text(id),)| id).collect())
    }

    /// Locks the row of a job until the transaction ends. Every transaction that changes a job or its rounds holds this
    /// lock, so two never interleave. (On SQLite a writing transaction excludes every other writer already.)
    pub async fn lock_job(&mut self, id: JobId) -> Result<(), DbError> {
        on_postgres!(self, "select id from jobs where id = $1 for update", id.to_string());
        Ok(())
    }

    /// Like [`Self::lock_job`], for the job of an assignment.
    pub async fn lock_job_of(&mut self, id: AssignmentId) -> Result<(), DbError> {
        let sql = "select id from jobs where id = (select job from assignments where id = $1) for update";
        on_postgres!(self, sql, id.to_string());
        Ok(())
    }

    /// Like [`Self::job`], with the row locked until the transaction ends.
    pub async fn job_locked(&mut self, id: JobId) -> Result<Option<JobRow>, DbError> {
        self.lock_job(id).await?;
        self.job(id).await
    }

    /// Jobs by id, after `after`; with `population`, only its jobs.
    pub async fn jobs(&mut self, population: Option<&Name>, after: &str, limit: u32) -> Result<Vec<JobRow>, DbError> {
        let sql = concat!(
            "select ",
            job_columns!(),
            " from jobs  where id > $1 and (population = $2 or $2 = '') order by id limit $3"
        );
        Ok(fetch!(self, JobRow, fetch_all, sql, after, population.map_or("", Name::as_str), i64::from(limit)))
    }

    /// The jobs that need a driver, with their populations: those that may open rounds, and those with open rounds.
    pub async fn live_jobs(&mut self) -> Result<Vec<(JobId, Name)>, DbError> {
        let sql = "select id, population from jobs where state in ('running', 'relaying', 'paused') or exists (select 1 from rounds \
                   where rounds.job = jobs.id and phase in ('selecting', 'training', 'aggregating')) \
                   or exists (select 1 from assignments where assignments.job = jobs.id and state = 'assigned' \
                   and deadline_at_ms is not null) \
                   order by id";
        let rows = fetch!(self, (String, String), fetch_all, sql);
        let job = |(id, population): (String, String)| {
            let id = id.parse().map_err(|error| DbError::corrupt("jobs.id", error))?;
            Ok((id, population.parse().map_err(|error| DbError::corrupt("jobs.population", error))?))
        };
        rows.into_iter().map(job).collect()
    }

    /// Whether a job needs a driver.
    pub async fn is_live(&mut self, job: JobId) -> Result<bool, DbError> {
        let sql = "select count(*) from jobs where id = $1 and (state in ('running', 'relaying', 'paused') or exists (select 1 \
                   from rounds where rounds.job = jobs.id and phase in ('selecting', 'training', 'aggregating')) \
                   or exists (select 1 from assignments where assignments.job = jobs.id and state = 'assigned' \
                   and deadline_at_ms is not null))";
        let (count,) = fetch!(self, (i64,), fetch_one, sql, job.to_string());
        Ok(count > 0)
    }

    pub async fn has_running_job(&mut self, population: &Name) -> Result<bool, DbError> {
        let sql = "select count(*) from jobs where population = $1 and state in ('running', 'relaying')";
        let (count,) = fetch!(self, (i64,), fetch_one, sql, population.as_str());
        Ok(count > 0)
    }

    /// The clients that the running jobs of a population draw together, when each of them opens a round.
    pub async fn running_places(&mut self, population: &Name) -> Result<u64, DbError> {
        let sql = "select file from jobs where population = $1 and state in ('running', 'relaying')";
        let rows = fetch!(self, FileRow, fetch_all, sql, population.as_str());
        Ok(rows.into_iter().map(|FileRow { file }| u64::from(file.0.round.cohort_size())).sum())
    }

    pub async fn has_job_named(&mut self, population: &Name, name: &Name) -> Result<bool, DbError> {
        let sql = "select count(*) from jobs where population = $1 and name = $2";
        let (count,) = fetch!(self, (i64,), fetch_one, sql, population.as_str(), name.as_str());
        Ok(count > 0)
    }

    pub async fn job_named(&mut self, population: &Name, name: &Name) -> Result<Option<JobRow>, DbError> {
        let sql = concat!("select ", job_columns!(), " from jobs where population = $1 and name = $2");
        Ok(fetch!(self, JobRow, fetch_optional, sql, population.as_str(), name.as_str()))
    }

    /// Replaces the job file. The population and everything that the model depends on must be unchanged.
    ///
    /// # Errors
    /// [`DbError::Duplicate`] when its population has another job of the new name.
    pub async fn set_job_file(&mut self, id: JobId, file: &JobFile) -> Result<(), DbError> {
        let sql = "update jobs set name = $2, file = $3 where id = $1";
        execute!(self, sql, id.to_string(), file.name.as_str(), Json::text(file)?);
        Ok(())
    }

    pub async fn set_job_state(&mut self, id: JobId, state: JobState, now_ms: i64) -> Result<(), DbError> {
        let sql = "update jobs set state = $2, ended_at_ms = $3 where id = $1";
        execute!(self, sql, id.to_string(), state.as_str(), state.is_final().then_some(now_ms));
        Ok(())
    }

    /// Stores a model version and makes it the job's newest. A version never changes.
    ///
    /// # Errors
    /// [`DbError::Duplicate`] when the job has this version.
    pub async fn insert_model(&mut self, job: JobId, model: &ModelVersion) -> Result<(), DbError> {
        let sql =
            "insert into models (job, version, round, sha256, bytes, created_at_ms) values ($1, $2, $3, $4, $5, $6)";
        execute!(
            self,
            sql,
            job.to_string(),
            i64::from(model.version),
            model.round.map(i64::from),
            model.sha256.to_string(),
            stored(model.bytes),
            model.created_at_ms
        );
        let sql = "update jobs set model_version = $2 where id = $1";
        execute!(self, sql, job.to_string(), i64::from(model.version));
        Ok(())
    }

    pub async fn model(&mut self, job: JobId, version: u32) -> Result<Option<ModelVersion>, DbError> {
        let sql = concat!(models_measured!(), "where m.job = $1 and m.version = $2");
        let row = fetch!(self, ModelRow, fetch_optional, sql, job.to_string(), i64::from(version));
        row.map(ModelVersion::try_from).transpose()
    }

    /// The version that a training round produced.
    pub async fn version_of_round(&mut self, job: JobId, round: u32) -> Result<Option<u32>, DbError> {
        let sql = "select version from models where job = $1 and round = $2 and deleted_at_ms is null";
        let row = fetch!(self, (i64,), fetch_optional, sql, job.to_string(), i64::from(round));
        number("models.version", row.map(|(version,)| version))
    }

    /// Model versions of a job, from `from` on.
    pub async fn models(&mut self, job: JobId, from: u32, limit: u32) -> Result<Vec<ModelVersion>, DbError> {
        let sql = concat!(models_measured!(), "where m.job = $1 and m.version >= $2 order by m.version limit $3");
        let rows = fetch!(self, ModelRow, fetch_all, sql, job.to_string(), i64::from(from), i64::from(limit));
        rows.into_iter().map(ModelVersion::try_from).collect()
    }
}
