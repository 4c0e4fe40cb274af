//! Rounds: of every task.

use std::collections::HashSet;

use tributary_engine::round::{Opening, TaskPolicy, Tempo};
use tributary_protocol::classes::ClassTotals;
use tributary_protocol::fixed::Contribution;
use tributary_protocol::id::{AssignmentId, ClientId, JobId, Name};
use tributary_protocol::operator::{Round, RoundBuffer};
use tributary_protocol::seed::Seed;
use tributary_protocol::state::{AbandonReason, AssignmentState, Phase, Task};
use tributary_protocol::traffic::Traffic;

use super::measured::MeasuredRow;
use super::traffic::TrafficRow;
use super::tx::{Json, Text, execute, execute_all, fetch, stored};
use super::{DbError, Tx};
use crate::metrics::Counted;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RoundKey {
    pub job: JobId,
    pub task: Task,
    /// Number in the job, from 1. An evaluation has the number of the training round whose model it evaluates.
    pub number: u32,
}

#[derive(Clone, Copy, Debug)]
pub struct NewRound {
    pub key: RoundKey,
    /// The model version that the round starts from.
    pub base_version: u32,
    pub opening: Opening,
}

#[derive(Clone, Debug, sqlx::FromRow)]
pub struct RoundRow {
    #[sqlx(try_from = "String")]
    pub job: JobId,
    #[sqlx(try_from = "String")]
    pub task: Task,
    #[sqlx(try_from = "i64")]
    pub number: u32,
    #[sqlx(try_from = "String")]
    pub phase: Phase,
    reason: Option<Text<AbandonReason>>,
    /// The model version that the round started from.
    #[sqlx(try_from = "i64")]
    pub base_version: u32,
    seed: i64,
    /// Number of reports that closes the round before its deadline.
    #[sqlx(try_from = "i64")]
    pub goal: u32,
    #[sqlx(try_from = "i64")]
    minimum: u32,
    pub opened_at_ms: i64,
    /// When the cohort was drawn.
    pub selected_at_ms: Option<i64>,
    /// When training ends, whether or not the goal is met; none in a buffered job.
    pub deadline_at_ms: Option<i64>,
    closed_at_ms: Option<i64>,
    ended_at_ms: Option<i64>,
    /// Number of clients in the cohort.
    #[sqlx(try_from = "i64")]
    pub cohort: u32,
    /// Number of accepted reports.
    #[sqlx(try_from = "i64")]
    pub reported: u32,
    #[sqlx(try_from = "i64")]
    rejected: u32,
    #[sqlx(try_from = "i64")]
    failed: u32,
    #[sqlx(try_from = "i64")]
    expired: u32,
    #[sqlx(try_from = "i64")]
    spare: u32,
    #[sqlx(try_from = "i64")]
    weight: u64,
    /// Mean loss of the local trainings of a committed round.
    pub training_loss: Option<f64>,
    /// Mean loss of the evaluation of its model.
    pub loss: Option<f64>,
    /// Accuracy of the model that the round produced, once it is evaluated.
    #[sqlx(flatten)]
    measured: MeasuredRow,
    #[sqlx(flatten)]
    traffic: TrafficRow,
    #[sqlx(try_from = "i64")]
    work_ms: u64,
    step_norm: Option<f64>,
    diversity: Option<f64>,
    #[sqlx(try_from = "i64")]
    saved_ms: u64,
    #[sqlx(try_from = "String")]
    policy: Json<TaskPolicy>,
    /// Largest L2 norm of an update; none if there is no bound.
    pub norm_max: Option<f64>,
    /// When retention deleted the assignments of the round.
    pub pruned_at_ms: Option<i64>,
    class_totals: Option<Text<Json<ClassTotals>>>,
    /// Clients drawn one by one into a buffer.
    #[sqlx(try_from = "i64")]
    pub drawn: u32,
    #[sqlx(try_from = "i64")]
    staleness: u64,
    lost_weight: f64,
}

impl RoundRow {
    pub fn key(&self) -> RoundKey {
        RoundKey { job: self.job, task: self.task, number: self.number }
    }

    pub fn seed(&self) -> Seed {
        Seed(self.seed.cast_unsigned())
    }

    /// The policy that the round was opened with, which later changes of the job do not affect.
    pub fn policy(&self) -> &TaskPolicy {
        &self.policy.0
    }

    /// Whether the round is a buffer, which its assignments outlast.
    pub fn is_buffer(&self) -> bool {
        self.policy().tempo.is_buffer()
    }

    /// Whether the round draws clients that wait now.
    pub fn draws(&self) -> bool {
        self.policy().draws(self.phase, self.working())
    }

    /// Number of clients of the cohort that have not answered.
    pub fn working(&self) -> u32 {
        self.cohort.saturating_sub(self.reported + self.rejected + self.failed + self.expired)
    }
}

impl From<RoundRow> for Round {
    fn from(row: RoundRow) -> Self {
        let policy = *row.policy();
        let buffer = |concurrency, staleness_max, slack| RoundBuffer {
            concurrency,
            staleness_max,
            slack,
            staleness_mean: (row.reported > 0).then(|| row.staleness as f64 / f64::from(row.reported)),
            lost_weight: row.lost_weight,
        };
        let buffer = match policy.tempo {
            Tempo::Cohort | Tempo::Coordinator | Tempo::Panel { .. } => None,
            Tempo::Buffer { concurrency, staleness_max } => Some(buffer(concurrency, Some(staleness_max), None)),
            Tempo::Members { members_max, slack } => Some(buffer(members_max, None, Some(slack))),
        };
        Self {
            spare: match buffer {
                None if row.reported >= row.goal => row.expired,
                None => 0,
                Some(_) => row.spare,
            },
            buffer,
            adapted: policy.adapted,
            adapted_goal: policy.adapted_goal,
            number: row.number,
            task: row.task,
            phase: row.phase,
            base_version: row.base_version,
            // Who was drawn for a private round follows from its seed.
            seed: if policy.is_private { Seed(0) } else { row.seed() },
            reason: row.reason.map(|Text(reason)| reason),
            goal: match policy.tempo {
                Tempo::Panel { expected, .. } if row.cohort == 0 => expected,
                Tempo::Panel { .. } => row.cohort,
                _ => row.goal,
            },
            minimum: row.minimum,
            cohort: row.cohort,
            reported: row.reported,
            folded: None,
            assigned: row.working(),
            rejected: row.rejected,
            failed: row.failed,
            expired: row.expired,
            saved_ms: row.saved_ms,
            opened_at_ms: row.opened_at_ms,
            selected_at_ms: row.selected_at_ms,
            deadline_at_ms: row.deadline_at_ms,
            closed_at_ms: row.closed_at_ms,
            ended_at_ms: row.ended_at_ms,
            clients_ms: row.work_ms,
            weight: row.weight,
            training_loss: row.training_loss,
            loss: row.loss,
            accuracy: row.measured.accuracy,
            measured_on: row.measured.on(),
            traffic: row.traffic.into(),
            step_norm: row.step_norm,
            diversity: row.diversity,
            norm_max: row.norm_max,
            clip_norm: policy.clip_norm,
            mu: policy.proximal.map(|proximal| proximal.mu),
            metrics: Vec::new(),
            evaluation_metrics: Vec::new(),
            classes: row.class_totals.map(|Text(Json(totals))| totals),
        }
    }
}

/// The columns of a [`RoundRow`].
macro_rules! round_columns {
    () => {
        "job, task, number, phase, reason, base_version, seed, goal, minimum, opened_at_ms, selected_at_ms, \
         deadline_at_ms, closed_at_ms, ended_at_ms, cohort, reported, rejected, failed, expired, spare, weight, training_loss, \
         loss, accuracy, bytes_up, bytes_down, raw_bytes_up, raw_bytes_down, work_ms, step_norm, diversity, saved_ms, \
         policy, norm_max, pruned_at_ms, class_totals, drawn, staleness, lost_weight, accuracy_examples, \
         accuracy_clients, accuracy_low, accuracy_worst, accuracy_p10"
    };
}

pub(super) use round_columns;

/// Time that the clients of a round worked for their accepted reports (`$1` job, `$2` task, `$3` number). Each claim is
/// capped at the duration of the assignment, which is 0 if the clock stepped back meanwhile.
macro_rules! work_of_round {
    () => {
        "(select coalesce(cast(sum(case when ended_at_ms < assigned_at_ms then 0 \
         when work_ms < ended_at_ms - assigned_at_ms then work_ms else ended_at_ms - assigned_at_ms end) as bigint), 0) \
         from assignments where job = $1 and task = $2 and round = $3 and state = 'reported')"
    };
}

/// Update statistics of a round.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RoundStatistics {
    /// L2 norm of the aggregated model delta.
    pub step_norm: Option<f64>,
    /// Diversity of the updates; none where they cancel out.
    pub diversity: Option<f64>,
    /// How many updates of equal weight they are worth, where there is a diversity.
    pub effective_updates: Option<f64>,
    /// Cosine between each update and the mean, where it is known.
    pub cosines: Vec<(AssignmentId, f64)>,
}

impl Tx {
    /// Opens a round. A training round also advances the job's counter.
    ///
    /// # Errors
    /// [`DbError::Duplicate`] when the round exists.
    pub async fn insert_round(&mut self, round: &NewRound, now_ms: i64) -> Result<(), DbError> {
        let NewRound { key, base_version, opening: Opening { policy, seed, norm_max } } = *round;
        let sql = "insert into rounds (job, task, number, phase, base_version, seed, goal, minimum, opened_at_ms, policy, \
                   norm_max) values ($1, $2, $3, 'selecting', $4, $5, $6, $7, $8, $9, $10)";
        execute!(
            self,
            sql,
            key.job.to_string(),
            key.task.as_str(),
            i64::from(key.number),
            i64::from(base_version),
            seed.0.cast_signed(),
            i64::from(policy.goal),
            i64::from(policy.minimum),
            now_ms,
            Json::text(&policy)?,
            norm_max
        );
        if key.task == Task::Train {
            let sql = "update jobs set rounds_opened = $2 where id = $1";
            execute!(self, sql, key.job.to_string(), i64::from(key.number));
        }
        Ok(())
    }

    pub async fn round(&mut self, key: RoundKey) -> Result<Option<RoundRow>, DbError> {
        let sql = concat!("select ", round_columns!(), " from rounds where job = $1 and task = $2 and number = $3");
        Ok(fetch!(self, RoundRow, fetch_optional, sql, key.job.to_string(), key.task.as_str(), i64::from(key.number)))
    }

    /// The open rounds of a job: at most one training round, and any number of evaluations.
    pub async fn open_rounds(&mut self, job: JobId) -> Result<Vec<RoundRow>, DbError> {
        let sql = concat!(
            "select ",
            round_columns!(),
            " from rounds where job = $1 and phase in ('selecting', 'training', 'aggregating') order by number, task"
        );
        Ok(fetch!(self, RoundRow, fetch_all, sql, job.to_string()))
    }

    /// Other jobs of a population with a round that collects clients, to train or to describe.
    pub async fn selecting_jobs(&mut self, population: &Name, but: JobId, limit: u32) -> Result<Vec<JobId>, DbError> {
        let sql = "select distinct rounds.job from rounds join jobs on jobs.id = rounds.job \
                   where phase = 'selecting' and task <> 'evaluate' and population = $1 and rounds.job <> $2 \
                   order by rounds.job limit $3";
        let rows = fetch!(self, (Text<JobId>,), fetch_all, sql, population.as_str(), but.to_string(), i64::from(limit));
        Ok(rows.into_iter().map(|(Text(job),)| job).collect())
    }

    /// When a job drew clients for a training last.
    pub async fn last_draw_ms(&mut self, job: JobId) -> Result<Option<i64>, DbError> {
        let sql = "select selected_at_ms from rounds where job = $1 and task = 'train' and selected_at_ms is not null \
                   order by number desc limit 1";
        let row = fetch!(self, (i64,), fetch_optional, sql, job.to_string());
        Ok(row.map(|(at_ms,)| at_ms))
    }

    /// Time in milliseconds that the clients of an open round have worked for their accepted reports. An ended round
    /// stores this figure.
    pub async fn work_ms(&mut self, key: RoundKey) -> Result<u64, DbError> {
        let sql = concat!("select ", work_of_round!());
        let (job, number) = (key.job.to_string(), i64::from(key.number));
        let (work_ms,) = fetch!(self, (i64,), fetch_one, sql, job.as_str(), key.task.as_str(), number);
        u64::try_from(work_ms).map_err(|error| DbError::corrupt("assignments.work_ms", error))
    }

    /// Selecting to Training. Returns false when the round is not selecting, because another driver was faster.
    pub async fn start_round(
        &mut self,
        key: RoundKey,
        cohort: u32,
        now_ms: i64,
        deadline_at_ms: Option<i64>,
    ) -> Result<bool, DbError> {
        let sql = "update rounds set phase = 'training', cohort = $4, selected_at_ms = $5, deadline_at_ms = $6 \
                   where job = $1 and task = $2 and number = $3 and phase = 'selecting'";
        let (job, number) = (key.job.to_string(), i64::from(key.number));
        let changed =
            execute!(self, sql, job.as_str(), key.task.as_str(), number, i64::from(cohort), now_ms, deadline_at_ms);
        Ok(changed == 1)
    }

    /// Training to Aggregating: the round accepts no more reports. Returns false when the round is not training.
    pub async fn close_round(&mut self, key: RoundKey, now_ms: i64) -> Result<bool, DbError> {
        let sql = "update rounds set phase = 'aggregating', closed_at_ms = $4 \
                   where job = $1 and task = $2 and number = $3 and phase = 'training'";
        Ok(execute!(self, sql, key.job.to_string(), key.task.as_str(), i64::from(key.number), now_ms) == 1)
    }

    /// Aggregating to Committed. Returns false when the round is not aggregating.
    pub async fn commit_round(&mut self, key: RoundKey, now_ms: i64) -> Result<bool, DbError> {
        let sql = concat!(
            "update rounds set phase = 'committed', ended_at_ms = $4, work_ms = ",
            work_of_round!(),
            ", training_loss = (select sum(loss * weight) / sum(case when loss is null then 0 else weight end) from assignments where job = $1 and task = $2 \
             and round = $3 and state = 'reported' and task = 'train') \
             where job = $1 and task = $2 and number = $3 and phase = 'aggregating'"
        );
        let (job, number) = (key.job.to_string(), i64::from(key.number));
        if execute!(self, sql, job.as_str(), key.task.as_str(), number, now_ms) == 0 {
            return Ok(false);
        }
        if key.task == Task::Train {
            let sql = "update jobs set rounds_committed = rounds_committed + 1, abandoned_in_a_row = 0, \
                       round_ended_at_ms = $2, committed_round = $3 where id = $1";
            execute!(self, sql, job.as_str(), now_ms, number);
        }
        Ok(true)
    }

    /// Stores the statistics of the updates of a round.
    pub async fn store_statistics(&mut self, key: RoundKey, statistics: &RoundStatistics) -> Result<(), DbError> {
        let sql = "update rounds set step_norm = $4, diversity = $5, effective_updates = $6 \
                   where job = $1 and task = $2 and number = $3";
        let RoundStatistics { step_norm, diversity, effective_updates, cosines } = statistics;
        let (job, number) = (key.job.to_string(), i64::from(key.number));
        let (step_norm, diversity, effective_updates) = (*step_norm, *diversity, *effective_updates);
        execute!(self, sql, job.as_str(), key.task.as_str(), number, step_norm, diversity, effective_updates);
        // Both engines name the columns of a list of values so.
        let sql = "update assignments set cosine = listed.column2 from (";
        let rest = ") as listed where assignments.id = listed.column1";
        execute_all!(self, sql, cosines, rest, |values, (assignment, cosine)| {
            values.push_bind(assignment.to_string()).push_bind(*cosine);
        });
        Ok(())
    }

    /// Ends an open round without a result. Returns false when the round has ended already.
    pub async fn abandon_round(&mut self, key: RoundKey, reason: AbandonReason, now_ms: i64) -> Result<bool, DbError> {
        let sql = concat!(
            "update rounds set phase = 'abandoned', reason = $4, ended_at_ms = $5, work_ms = ",
            work_of_round!(),
            " where job = $1 and task = $2 and number = $3 and phase in ('selecting', 'training', 'aggregating')"
        );
        let (job, number) = (key.job.to_string(), i64::from(key.number));
        if execute!(self, sql, job.as_str(), key.task.as_str(), number, reason.as_str(), now_ms) == 0 {
            return Ok(false);
        }
        if key.task == Task::Train {
            let sql =
                "update jobs set abandoned_in_a_row = abandoned_in_a_row + 1, round_ended_at_ms = $2 where id = $1";
            execute!(self, sql, job.as_str(), now_ms);
        }
        Ok(true)
    }

    /// Adds assignments that a buffer did not need because its job had ended.
    pub async fn count_spare(&mut self, key: RoundKey, updates: u32) -> Result<(), DbError> {
        let sql = "update rounds set spare = spare + $4 where job = $1 and task = $2 and number = $3";
        let (job, number) = (key.job.to_string(), i64::from(key.number));
        execute!(self, sql, job, key.task.as_str(), number, i64::from(updates));
        Ok(())
    }

    /// Adds assignments that ended, or the updates of those that reported, to the counts of their round.
    pub async fn count_ended(
        &mut self,
        key: RoundKey,
        state: AssignmentState,
        Contribution { weight, updates }: Contribution,
        traffic: Traffic,
    ) -> Result<(), DbError> {
        let sql = "update rounds set \
                   reported = reported + case when $8 = 'reported' then $4 else 0 end, \
                   rejected = rejected + case when $8 = 'rejected' then $4 else 0 end, \
                   failed = failed + case when $8 = 'failed' then $4 else 0 end, \
                   expired = expired + case when $8 = 'expired' then $4 else 0 end, \
                   weight = weight + $5, bytes_up = bytes_up + $6, bytes_down = bytes_down + $7, \
                   raw_bytes_up = raw_bytes_up + $9, raw_bytes_down = raw_bytes_down + $10 \
                   where job = $1 and task = $2 and number = $3";
        execute!(
            self,
            sql,
            key.job.to_string(),
            key.task.as_str(),
            i64::from(key.number),
            i64::from(updates),
            stored(weight.whole_examples()),
            stored(traffic.bytes_up),
            stored(traffic.bytes_down),
            state.as_str(),
            stored(traffic.raw_bytes_up),
            stored(traffic.raw_bytes_down)
        );
        self.counts(Counted::Bytes(traffic));
        Ok(())
    }

    /// Number of training rounds of a job that came to nothing: abandoned, but neither stopped with the job nor
    /// superseded by its result.
    pub async fn lost_rounds(&mut self, job: JobId) -> Result<u32, DbError> {
        let sql = "select count(*) from rounds where job = $1 and task = 'train' and phase = 'abandoned' \
                   and reason not in ('job_stopped', 'superseded')";
        let (count,) = fetch!(self, (i64,), fetch_one, sql, job.to_string());
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// Adds clients to the cohort of a round that is training. Returns false when another driver was faster: the cohort
    /// is no longer `before`.
    pub async fn widen_round(&mut self, key: RoundKey, before: u32, clients: u32) -> Result<bool, DbError> {
        let sql = "update rounds set cohort = cohort + $5 \
                   where job = $1 and task = $2 and number = $3 and phase = 'training' and cohort = $4";
        let (job, number) = (key.job.to_string(), i64::from(key.number));
        Ok(execute!(self, sql, job.as_str(), key.task.as_str(), number, i64::from(before), i64::from(clients)) == 1)
    }

    /// The clients that were drawn for a round.
    pub async fn drawn_clients(&mut self, key: RoundKey) -> Result<HashSet<ClientId>, DbError> {
        let sql = "select distinct client from assignments where job = $1 and task = $2 and round = $3";
        let (job, number) = (key.job.to_string(), i64::from(key.number));
        let rows = fetch!(self, (String,), fetch_all, sql, job.as_str(), key.task.as_str(), number);
        let client = |(id,): (String,)| id.parse().map_err(|error| DbError::corrupt("assignments.client", error));
        rows.into_iter().map(client).collect()
    }
}
