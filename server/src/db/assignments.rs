//! Assignments: one client in one round.

use tributary_engine::job::JobSpec;
use tributary_engine::round::Term;
use tributary_protocol::classes::ClassCounts;
use tributary_protocol::coded::CodedShare;
use tributary_protocol::figures::Figures;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{AssignmentId, ClientId, JobId};
use tributary_protocol::inputs::Description;
use tributary_protocol::job_file::JobFile;
use tributary_protocol::seed::Seed;
use tributary_protocol::state::{AssignmentState, Task};
use tributary_protocol::traffic::Traffic;

use super::traffic::TrafficRow;
use super::tx::{Json, Text, execute, execute_all, fetch, fetch_in, stored};
use super::{DbError, RoundKey, RoundRow, Tx};

/// An assignment to store.
#[derive(Clone, Debug)]
pub struct NewAssignment {
    pub id: AssignmentId,
    pub round: RoundKey,
    pub client: ClientId,
    /// The model version that the client starts from.
    pub base_version: u32,
    /// The number of examples that the client told; 0 where the round keeps no figure of a client.
    pub examples: u64,
    /// Most updates of the sum that it brings; 0 for an update.
    pub places: u32,
    /// Its share of a coded round.
    pub share: Option<Box<CodedShare>>,
    pub term: Term,
}

impl NewAssignment {
    /// The row that it is once it is stored.
    pub fn stored(&self, now_ms: i64) -> AssignmentRow {
        let Self { id, round, client, base_version, examples, places, ref share, term } = *self;
        let (deadline_at_ms, seed) = columns(term);
        AssignmentRow {
            id,
            job: round.job,
            task: round.task,
            round: round.number,
            client,
            assigned_at_ms: now_ms,
            deadline_at_ms,
            seed,
            base_version,
            examples,
            places,
            share: share.as_deref().map(|share| Text(Json(share.clone()))),
            brings: 0,
            state: AssignmentState::Assigned,
            reason: None,
            late_at_ms: None,
            stopped_at_ms: None,
            report_sha256: None,
        }
    }
}

/// The columns of an assignment that rules read.
#[derive(Clone, Debug, PartialEq, sqlx::FromRow)]
pub struct AssignmentRow {
    #[sqlx(try_from = "String")]
    pub id: AssignmentId,
    #[sqlx(try_from = "String")]
    job: JobId,
    #[sqlx(try_from = "String")]
    task: Task,
    #[sqlx(try_from = "i64")]
    round: u32,
    #[sqlx(try_from = "String")]
    pub client: ClientId,
    pub assigned_at_ms: i64,
    deadline_at_ms: Option<i64>,
    seed: Option<i64>,
    /// The model version that the client starts from.
    #[sqlx(try_from = "i64")]
    pub base_version: u32,
    #[sqlx(try_from = "i64")]
    examples: u64,
    /// Most updates of the sum that it brings, as a relay or as the holder of parts; 0 for an update.
    #[sqlx(try_from = "i64")]
    pub places: u32,
    share: Option<Text<Json<CodedShare>>>,
    /// Of the member that brings the sum of its group: the updates in it; 0 for everybody else.
    #[sqlx(try_from = "i64")]
    brings: u32,
    #[sqlx(try_from = "String")]
    pub state: AssignmentState,
    /// Why the assignment was rejected or failed.
    pub reason: Option<String>,
    /// When the client came back with finished work after the round had closed.
    pub late_at_ms: Option<i64>,
    /// When the client stopped unfinished after the round had closed.
    pub stopped_at_ms: Option<i64>,
    report_sha256: Option<Text<Sha256Hash>>,
}

impl AssignmentRow {
    pub fn round(&self) -> RoundKey {
        RoundKey { job: self.job, task: self.task, number: self.round }
    }

    pub fn term(&self) -> Term {
        match (self.deadline_at_ms, self.seed) {
            (Some(deadline_at_ms), Some(seed)) => Term::Own { deadline_at_ms, seed: Seed(seed.cast_unsigned()) },
            // The schema has both or neither.
            _ => Term::Round,
        }
    }

    /// The examples that bound its report: what the client told when it was drawn, at least 1. What it tells later
    /// changes nothing. None where no number of a client is kept, and for a relay, which counts its clients' itself.
    fn examples_max(&self, job: &JobFile) -> Option<u64> {
        let is_hidden = self.task == Task::Train && job.hides_updates();
        (!is_hidden && !self.is_sum()).then(|| self.examples.max(1))
    }

    /// The largest weight of its report: at most the job's, and the examples that bound it.
    pub fn weight_max(&self, job: &JobFile) -> u32 {
        let job_max = job.update.weight_max;
        self.examples_max(job).map_or(job_max, |examples| u32::try_from(examples).unwrap_or(u32::MAX).min(job_max))
    }

    /// Its share of a coded round.
    pub fn share(&self) -> Option<&CodedShare> {
        self.share.as_ref().map(|Text(Json(share))| share)
    }

    /// Whether it brings a sum, and not an update: that of a relay, of a group, or of the parts of a block.
    pub fn is_sum(&self) -> bool {
        self.places > 0 || self.brings > 0
    }

    /// Whether it brings the sum of its group.
    pub fn is_of_group(&self) -> bool {
        self.brings > 0
    }

    /// Most updates of the sum that it brings.
    pub fn sum_updates_max(&self) -> u32 {
        self.places.max(self.brings)
    }

    /// Most updates that it can bring: what its round counts it for until it ends.
    pub fn updates_max(&self) -> u32 {
        self.places.max(1)
    }

    /// The number of reports that a report without tensors stands for, which a relay says.
    ///
    /// # Errors
    /// Why it cannot be so many.
    pub fn stands_for(&self, reports: Option<u32>) -> Result<u32, String> {
        match (self.places, reports) {
            (0, None) => Ok(1),
            (0, Some(_)) => Err("this client is no relay, so its report stands for itself alone".into()),
            (_, None) => Err("a relay says for how many clients its report stands".into()),
            (places, Some(reports)) if (1..=places).contains(&reports) => Ok(reports),
            (places, Some(reports)) => Err(format!("{reports} reports, where 1 to {places} belong to the assignment")),
        }
    }

    /// Most steps of its report, where a rule reads them.
    pub fn steps_max(&self, spec: &JobSpec) -> Option<u64> {
        spec.steps_max(self.base_version, self.examples_max(&spec.file)?)
    }

    /// When it takes no more reports.
    pub fn until_ms(&self, round: &RoundRow) -> Option<i64> {
        self.term().until_ms(round.deadline_at_ms)
    }

    /// SHA-256 of the accepted report's bytes; sent again, the same report is acknowledged again.
    pub fn report(&self) -> Option<Sha256Hash> {
        self.report_sha256.map(|Text(hash)| hash)
    }
}

/// The columns of a [`AssignmentRow`].
macro_rules! assignment_columns {
    () => {
        "id, job, task, round, client, assigned_at_ms, deadline_at_ms, seed, base_version, examples, places, share, brings, state, reason, late_at_ms, stopped_at_ms, report_sha256"
    };
}
pub(super) use assignment_columns;

/// Deadline and seed of a term, as they are stored.
fn columns(term: Term) -> (Option<i64>, Option<i64>) {
    match term {
        Term::Round => (None, None),
        Term::Own { deadline_at_ms, seed } => (Some(deadline_at_ms), Some(seed.0.cast_signed())),
    }
}

/// End times of the stages of a session, as far as they are known and not stored yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// The last byte of the model was sent.
    pub fetched_at_ms: Option<i64>,
    /// The first byte of the update arrived. A resumed upload keeps the time of its first request.
    pub upload_at_ms: Option<i64>,
    /// The last byte of the update arrived.
    pub uploaded_at_ms: Option<i64>,
}

/// An accepted update or evaluation.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub figures: Figures,
    /// Accuracy as an evaluating client reported it; none for an update.
    pub accuracy: Option<f64>,
    /// Time that the client worked, in milliseconds, as it reported it.
    pub work_ms: u64,
    /// Counts by class of an evaluation. They are added to those of the round, and not stored with the assignment.
    pub classes: Option<ClassCounts>,
    /// Sums of the client's table. They are added to those of the round, and not stored with the assignment.
    pub description: Option<Description>,
    /// SHA-256 of the report's bytes.
    pub sha256: Sha256Hash,
    /// Traffic of the assignment that is not counted in the database yet.
    pub traffic: Traffic,
    pub times: Times,
    /// Of a relay, and where it says so.
    pub below: Option<Below>,
}

/// What a relay says of its clients and of its uplink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Below {
    /// Bytes of its clients' updates.
    pub bytes: Option<u64>,
    /// How long this coordinator took to answer it.
    pub round_trip_ms: Option<u64>,
}

/// Assignments whose time is over at `$2`: they expired, or the driver has yet to expire them.
macro_rules! is_over {
    () => {
        "(state = 'expired' or (state = 'assigned' and deadline_at_ms <= $2) \
         or (state = 'assigned' and deadline_at_ms is null and exists (select 1 from rounds r where r.job = assignments.job \
         and r.task = assignments.task and r.number = assignments.round and r.deadline_at_ms <= $2)))"
    };
}

impl Tx {
    /// # Errors
    /// [`DbError::Duplicate`] when a client has an open assignment, or is in the cohort of this round already. Then the
    /// transaction is of no more use.
    pub async fn insert_assignments(&mut self, assignments: &[NewAssignment], now_ms: i64) -> Result<(), DbError> {
        for assignment in assignments {
            self.forgets_downloads(assignment.client);
        }
        let sql = "insert into assignments (id, job, task, round, client, state, assigned_at_ms, base_version, \
                   examples, places, share, deadline_at_ms, seed) ";
        let texts = assignments.iter().map(|new| new.share.as_deref().map(Json::text).transpose());
        let texts: Vec<Option<String>> = texts.collect::<Result<_, _>>()?;
        let assignments: Vec<_> = assignments.iter().zip(texts).collect();
        execute_all!(self, sql, assignments.as_slice(), |values, assignment| {
            let (assignment, share) = assignment;
            let NewAssignment { id, round, client, base_version, examples, places, term, .. } = **assignment;
            let (deadline_at_ms, seed) = columns(term);
            values.push_bind(id.to_string()).push_bind(round.job.to_string()).push_bind(round.task.as_str());
            values.push_bind(i64::from(round.number)).push_bind(client.to_string());
            values.push_bind(AssignmentState::Assigned.as_str()).push_bind(now_ms);
            values.push_bind(i64::from(base_version)).push_bind(stored(examples)).push_bind(i64::from(places));
            values.push_bind(share.clone());
            values.push_bind(deadline_at_ms).push_bind(seed);
        });
        Ok(())
    }

    pub async fn assignment(&mut self, id: AssignmentId) -> Result<Option<AssignmentRow>, DbError> {
        let sql = concat!("select ", assignment_columns!(), " from assignments where id = $1");
        Ok(fetch!(self, AssignmentRow, fetch_optional, sql, id.to_string()))
    }

    /// Those of these assignments that there are, in no order.
    pub async fn assignments_by_id(&mut self, ids: &[String]) -> Result<Vec<AssignmentRow>, DbError> {
        let sql = concat!("select ", assignment_columns!(), " from assignments where id in ");
        Ok(fetch_in!(self, AssignmentRow, sql, ids, ""))
    }

    /// The open assignment of a client. A client has at most one.
    pub async fn open_assignment(&mut self, client: ClientId) -> Result<Option<AssignmentRow>, DbError> {
        let sql =
            concat!("select ", assignment_columns!(), " from assignments where client = $1 and state = 'assigned'");
        Ok(fetch!(self, AssignmentRow, fetch_optional, sql, client.to_string()))
    }

    /// The training round that took the last accepted update of a client in a job, if it was abandoned afterwards.
    pub async fn dropped_round(&mut self, job: JobId, client: ClientId) -> Result<Option<u32>, DbError> {
        let sql = "select a.round, r.phase = 'abandoned' from assignments a \
                   join rounds r on r.job = a.job and r.task = a.task and r.number = a.round \
                   where a.client = $1 and a.job = $2 and a.task = 'train' and a.state = 'reported' \
                   order by a.round desc limit 1";
        let row = fetch!(self, (i64, bool), fetch_optional, sql, client.to_string(), job.to_string());
        let dropped = row.filter(|(_, is_dropped)| *is_dropped);
        Ok(dropped.and_then(|(round, _)| u32::try_from(round).ok()))
    }

    /// The L2 norms of the newest accepted updates of a job, at most `limit`, from training round `since` on.
    pub async fn recent_norms(&mut self, job: JobId, since: u32, limit: u32) -> Result<Vec<f64>, DbError> {
        let sql = "select update_norm from assignments where job = $1 and task = 'train' and round >= $2 \
                   and state = 'reported' and update_norm is not null order by round desc, id limit $3";
        let rows = fetch!(self, (f64,), fetch_all, sql, job.to_string(), i64::from(since), i64::from(limit));
        Ok(rows.into_iter().map(|(norm,)| norm).collect())
    }

    /// The assignments of a round whose clients have not answered.
    pub async fn working_assignments(&mut self, round: RoundKey) -> Result<Vec<AssignmentRow>, DbError> {
        let sql = concat!(
            "select ",
            assignment_columns!(),
            " from assignments where job = $1 and task = $2 and round = $3 and state = 'assigned' order by id"
        );
        let (job, number) = (round.job.to_string(), i64::from(round.number));
        Ok(fetch!(self, AssignmentRow, fetch_all, sql, job.as_str(), round.task.as_str(), number))
    }

    /// Assigned to Reported. Returns the whole traffic of the assignment, or none when it is not open.
    pub async fn accept_report(
        &mut self,
        id: AssignmentId,
        report: &Report,
        now_ms: i64,
    ) -> Result<Option<Traffic>, DbError> {
        let sql = "update assignments set state = 'reported', ended_at_ms = $2, weight = $3, loss = $4, accuracy = $5, \
                   updates = $18, steps = $6, work_ms = $7, update_norm = $8, report_sha256 = $9, bytes_up = bytes_up + $10, \
                   bytes_down = bytes_down + $11, raw_bytes_up = raw_bytes_up + $12, \
                   raw_bytes_down = raw_bytes_down + $13, metrics = $17, fetched_at_ms = coalesce($14, fetched_at_ms), \
                   upload_at_ms = coalesce(upload_at_ms, $15), upload_ms = case \
                   when $16 < coalesce(upload_at_ms, $15) then 0 else $16 - coalesce(upload_at_ms, $15) end \
                   where id = $1 and state = 'assigned' \
                   returning bytes_up, bytes_down, raw_bytes_up, raw_bytes_down";
        let Figures { contribution, loss, norm, steps, metrics } = &report.figures;
        let metrics = (!metrics.is_empty()).then(|| Json::text(metrics)).transpose()?;
        let row = fetch!(
            self,
            TrafficRow,
            fetch_optional,
            sql,
            id.to_string(),
            now_ms,
            stored(contribution.weight.whole_examples()),
            *loss,
            report.accuracy,
            stored(*steps),
            stored(report.work_ms),
            *norm,
            report.sha256.to_string(),
            stored(report.traffic.bytes_up),
            stored(report.traffic.bytes_down),
            stored(report.traffic.raw_bytes_up),
            stored(report.traffic.raw_bytes_down),
            report.times.fetched_at_ms,
            report.times.upload_at_ms,
            report.times.uploaded_at_ms,
            metrics,
            i64::from(contribution.updates)
        );
        if let Some(Below { bytes, round_trip_ms }) = report.below.filter(|_| row.is_some()) {
            let sql = "update assignments set bytes_below = $2, round_trip_ms = $3 where id = $1";
            execute!(self, sql, id.to_string(), bytes.map(stored), round_trip_ms.map(stored));
        }
        Ok(row.map(Traffic::from))
    }

    /// Assigned to Rejected, Failed or Expired. Returns the whole traffic of the assignment, or none when it is not
    /// open.
    pub async fn end_assignment(
        &mut self,
        id: AssignmentId,
        state: AssignmentState,
        reason: Option<&str>,
        traffic: Traffic,
        now_ms: i64,
    ) -> Result<Option<Traffic>, DbError> {
        let sql = "update assignments set state = $2, reason = $3, bytes_up = bytes_up + $4, \
                   bytes_down = bytes_down + $5, raw_bytes_up = raw_bytes_up + $6, \
                   raw_bytes_down = raw_bytes_down + $7, ended_at_ms = $8 where id = $1 and state = 'assigned' \
                   returning bytes_up, bytes_down, raw_bytes_up, raw_bytes_down";
        let row = fetch!(
            self,
            TrafficRow,
            fetch_optional,
            sql,
            id.to_string(),
            state.as_str(),
            reason,
            stored(traffic.bytes_up),
            stored(traffic.bytes_down),
            stored(traffic.raw_bytes_up),
            stored(traffic.raw_bytes_down),
            now_ms
        );
        Ok(row.map(Traffic::from))
    }

    /// Stores the end times of a session's stages. An update that comes in several requests keeps the time of the
    /// first.
    pub async fn store_times(&mut self, id: AssignmentId, times: Times) -> Result<(), DbError> {
        let sql = "update assignments set fetched_at_ms = coalesce($2, fetched_at_ms), \
                   upload_at_ms = coalesce(upload_at_ms, $3), upload_ms = coalesce(case \
                   when $4 < coalesce(upload_at_ms, $3) then 0 else $4 - coalesce(upload_at_ms, $3) end, upload_ms) \
                   where id = $1";
        execute!(self, sql, id.to_string(), times.fetched_at_ms, times.upload_at_ms, times.uploaded_at_ms);
        Ok(())
    }

    /// Stores when the last byte of a model was sent to a client, with its open assignment.
    pub async fn download_ended(&mut self, client: ClientId, at_ms: i64) -> Result<(), DbError> {
        // The client may have a newer assignment by now, which this download does not belong to.
        let sql = "update assignments set fetched_at_ms = $2 \
                   where client = $1 and state = 'assigned' and assigned_at_ms <= $2";
        execute!(self, sql, client.to_string(), at_ms);
        Ok(())
    }

    /// Adds to the download traffic of a client's open assignment: bytes as sent, and bytes of the same content in a
    /// plain file. Negative values take back bytes that were counted but not sent.
    pub async fn count_download(&mut self, client: ClientId, bytes: i64, raw_bytes: i64) -> Result<(), DbError> {
        let sql = "update assignments set \
                   bytes_down = case when bytes_down + $2 < 0 then 0 else bytes_down + $2 end, \
                   raw_bytes_down = case when raw_bytes_down + $3 < 0 then 0 else raw_bytes_down + $3 end \
                   where client = $1 and state = 'assigned'";
        execute!(self, sql, client.to_string(), bytes, raw_bytes);
        Ok(())
    }

    /// Adds the bytes of a refused body to its assignment, and to its round if the round has counted the assignment
    /// already. The caller holds the lock on the job's row. Returns how many bodies of the update counted as attempts.
    pub async fn count_upload(
        &mut self,
        id: AssignmentId,
        round: RoundKey,
        bytes: u64,
        is_attempt: bool,
    ) -> Result<u64, DbError> {
        let sql = "update assignments set bytes_up = bytes_up + $2, attempts = attempts + $3 where id = $1 \
                   returning state, attempts";
        let row =
            fetch!(self, (String, i64), fetch_optional, sql, id.to_string(), stored(bytes), i64::from(is_attempt));
        let Some((state, attempts)) = row else { return Ok(0) };
        if state != AssignmentState::Assigned.as_str() {
            let sql = "update rounds set bytes_up = bytes_up + $4 where job = $1 and task = $2 and number = $3";
            let (job, number) = (round.job.to_string(), i64::from(round.number));
            execute!(self, sql, job.as_str(), round.task.as_str(), number, stored(bytes));
        }
        u64::try_from(attempts).map_err(|error| DbError::corrupt("assignments.attempts", error))
    }

    /// Records that a client stopped, unfinished, after its round closed or its deadline passed, and with its round the
    /// time that it had left until the deadline. Returns false when it is recorded that the client came back.
    pub async fn stopped_late(&mut self, id: AssignmentId, round: RoundKey, now_ms: i64) -> Result<bool, DbError> {
        let sql = concat!(
            "update assignments set stopped_at_ms = $2 where id = $1 and late_at_ms is null and stopped_at_ms is null and ",
            is_over!()
        );
        if execute!(self, sql, id.to_string(), now_ms) == 0 {
            return Ok(false);
        }
        let sql = "update rounds set saved_ms = saved_ms + deadline_at_ms - $4 \
                   where job = $1 and task = $2 and number = $3 and deadline_at_ms > $4";
        execute!(self, sql, round.job.to_string(), round.task.as_str(), i64::from(round.number), now_ms);
        Ok(true)
    }

    /// Records that a client finished after its round closed or its deadline passed. Returns false when that is
    /// recorded already.
    pub async fn came_late(&mut self, id: AssignmentId, now_ms: i64) -> Result<bool, DbError> {
        let sql =
            concat!("update assignments set late_at_ms = $2 where id = $1 and late_at_ms is null and ", is_over!());
        Ok(execute!(self, sql, id.to_string(), now_ms) == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: &str = "name = 'a'\npopulation = 'b'\n[model]\nparameters = [{ name = 'w', shape = [2] }]\n[update]\n\
                       weight_max = 50\n[aggregation]\ncombine = 'uniform_mean'\n[training]\nepochs = 1\n\
                       optimizer = { kind = 'sgd', learning_rate = 0.1 }\n";

    fn weight_max(task: Task, examples: u64, places: u32, rest: &str) -> u32 {
        let job = JobFile::parse(&format!("{JOB}{rest}")).unwrap();
        let round = RoundKey { job: JobId::from_random([1; 16]), task, number: 1 };
        let (id, client) = (AssignmentId::from_random([2; 16]), ClientId::from_random([3; 16]));
        let drawn =
            NewAssignment { id, round, client, base_version: 0, examples, places, share: None, term: Term::Round };
        drawn.stored(0).weight_max(&job)
    }

    #[test]
    fn a_report_weighs_at_most_what_its_client_told_and_one_if_it_told_none() {
        for task in [Task::Train, Task::Evaluate] {
            let capped = [0, 1, 7, 51, u64::MAX].map(|examples| weight_max(task, examples, 0, ""));
            assert_eq!(capped, [1, 1, 7, 50, 50], "{task}");
        }
    }

    #[test]
    fn a_round_without_figures_of_its_clients_and_a_relay_have_the_cap_of_the_job() {
        assert_eq!(weight_max(Task::Train, 0, 4, ""), 50, "a relay bounds its clients itself");
        let masked = "[secure_aggregation]\n";
        assert_eq!(weight_max(Task::Train, 0, 0, masked), 50, "no number of examples is kept");
        assert_eq!(weight_max(Task::Evaluate, 0, 0, masked), 1);
    }
}
