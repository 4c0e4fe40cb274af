//! Shards: who adds up which range of parameters, the parts that have come of updates, versions that are made range by
//! range.

use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{AssignmentId, JobId, Name};
use tributary_protocol::operator::NodeShard;

use super::tx::{Text, execute, execute_all, fetch};
use super::{DbError, RoundKey, Tx};

/// A part of an update that has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PartRow {
    pub part: u16,
    pub sha256: Sha256Hash,
    /// Examples that the update weighs.
    pub weight: u64,
    /// Squared L2 norm of the part.
    pub squares: f64,
}

#[derive(sqlx::FromRow)]
struct StoredPart {
    #[sqlx(try_from = "i64")]
    part: u16,
    sha256: Text<Sha256Hash>,
    #[sqlx(try_from = "i64")]
    weight: u64,
    squares: f64,
}

#[derive(sqlx::FromRow)]
struct ShardRow {
    #[sqlx(try_from = "i64")]
    shard: u16,
    #[sqlx(try_from = "String")]
    node: Name,
}

#[derive(sqlx::FromRow)]
struct MakingRow {
    #[sqlx(try_from = "i64")]
    done: u16,
    state: String,
}

#[derive(sqlx::FromRow)]
struct PartHash {
    #[sqlx(try_from = "String")]
    assignment: AssignmentId,
    sha256: Text<Sha256Hash>,
}

impl From<StoredPart> for PartRow {
    fn from(StoredPart { part, sha256: Text(sha256), weight, squares }: StoredPart) -> Self {
        Self { part, sha256, weight, squares }
    }
}

impl Tx {
    /// The coordinators that add up a job's shards, in the order of the shards.
    pub async fn shards(&mut self, job: JobId) -> Result<Vec<Name>, DbError> {
        let sql = "select shard, node from shards where job = $1 order by shard";
        let rows = fetch!(self, ShardRow, fetch_all, sql, job.to_string());
        let is_whole = (0..).zip(&rows).all(|(number, row)| row.shard == number);
        is_whole
            .then(|| rows.into_iter().map(|row| row.node).collect())
            .ok_or_else(|| DbError::Corrupt(format!("a shard of {job} has no coordinator")))
    }

    /// The shards of all jobs that have not ended, each with its coordinator.
    pub async fn shards_of_all(&mut self) -> Result<Vec<(Name, NodeShard)>, DbError> {
        let sql = "select s.node, s.job, s.shard from shards s join jobs j on j.id = s.job \
                   where j.state not in ('stopped', 'completed') order by s.job, s.shard";
        let rows = fetch!(self, (Text<Name>, Text<JobId>, i64), fetch_all, sql);
        let shard = |(Text(node), Text(job), shard): (Text<Name>, Text<JobId>, i64)| {
            let shard = u16::try_from(shard).map_err(|error| DbError::corrupt("shards.shard", error))?;
            Ok((node, NodeShard { job, shard }))
        };
        rows.into_iter().map(shard).collect()
    }

    /// Names the coordinators that add up a job's shards from now on, in the order of the shards.
    pub async fn set_shards(&mut self, job: JobId, nodes: &[Name]) -> Result<(), DbError> {
        let (job, numbered) = (job.to_string(), (0i64..).zip(nodes).collect::<Vec<_>>());
        let again = " on conflict (job, shard) do update set node = excluded.node";
        execute_all!(self, "insert into shards (job, shard, node) ", &numbered, again, |values, (number, node)| {
            values.push_bind(job.as_str()).push_bind(*number).push_bind(node.as_str());
        });
        Ok(())
    }

    /// The URLs of the coordinators that add up a job's shards, in the order of the shards; none for one that has none
    /// of its own, or is gone.
    pub async fn shard_urls(&mut self, job: JobId) -> Result<Vec<Option<String>>, DbError> {
        let sql = "select n.url from shards s left join nodes n on n.id = s.node where s.job = $1 order by s.shard";
        let rows = fetch!(self, (Option<String>,), fetch_all, sql, job.to_string());
        Ok(rows.into_iter().map(|(url,)| url).collect())
    }

    /// Stores that a part of an update has come.
    ///
    /// # Errors
    /// [`DbError::Duplicate`] when it had come before.
    pub async fn insert_part(&mut self, assignment: AssignmentId, part: &PartRow) -> Result<(), DbError> {
        let sql = "insert into update_parts (assignment, part, sha256, weight, squares) values ($1, $2, $3, $4, $5)";
        let (sha256, weight) = (part.sha256.to_string(), super::tx::stored(part.weight));
        execute!(self, sql, assignment.to_string(), i64::from(part.part), sha256, weight, part.squares);
        Ok(())
    }

    /// The parts of an update that have come, in their order.
    pub async fn parts(&mut self, assignment: AssignmentId) -> Result<Vec<PartRow>, DbError> {
        let sql = "select part, sha256, weight, squares from update_parts where assignment = $1 order by part";
        let rows = fetch!(self, StoredPart, fetch_all, sql, assignment.to_string());
        Ok(rows.into_iter().map(PartRow::from).collect())
    }

    /// The hashes of one part of a round's updates, whether or not the other parts have come.
    pub async fn part_hashes(
        &mut self,
        round: RoundKey,
        part: u16,
    ) -> Result<Vec<(AssignmentId, Sha256Hash)>, DbError> {
        let sql = "select p.assignment, p.sha256 from assignments a join update_parts p on p.assignment = a.id \
                   where a.job = $1 and a.task = $2 and a.round = $3 and p.part = $4 order by p.assignment";
        let (job, number) = (round.job.to_string(), i64::from(round.number));
        let rows = fetch!(self, PartHash, fetch_all, sql, job.as_str(), round.task.as_str(), number, i64::from(part));
        Ok(rows.into_iter().map(|PartHash { assignment, sha256: Text(sha256) }| (assignment, sha256)).collect())
    }

    /// Forgets the parts of a round that has ended, but for those of assignments that go on to the next round.
    pub(super) async fn forget_parts(&mut self, round: RoundKey) -> Result<(), DbError> {
        let sql = "delete from update_parts where assignment in (select id from assignments \
                   where job = $1 and task = $2 and round = $3 and (state <> 'assigned' or deadline_at_ms is null))";
        let (job, number) = (round.job.to_string(), i64::from(round.number));
        execute!(self, sql, job.as_str(), round.task.as_str(), number);
        Ok(())
    }

    /// How many ranges of a round's version are made, and its files so far; none before the first.
    pub async fn making(&mut self, round: RoundKey) -> Result<Option<(u16, String)>, DbError> {
        let sql = "select done, state from shard_makings where job = $1 and task = $2 and round = $3";
        let (job, number) = (round.job.to_string(), i64::from(round.number));
        let row = fetch!(self, MakingRow, fetch_optional, sql, job.as_str(), round.task.as_str(), number);
        Ok(row.map(|MakingRow { done, state }| (done, state)))
    }

    /// Stores that one more range is made, after so many. Returns false when another coordinator was faster.
    pub async fn make_on(&mut self, round: RoundKey, done: u16, state: &str) -> Result<bool, DbError> {
        let (job, number, done) = (round.job.to_string(), i64::from(round.number), i64::from(done));
        let sql = "insert into shard_makings (job, task, round, done, state) values ($1, $2, $3, $4 + 1, $5) \
                   on conflict (job, task, round) do update set done = $4 + 1, state = $5 \
                   where shard_makings.done = $4";
        Ok(execute!(self, sql, job.as_str(), round.task.as_str(), number, done, state) == 1)
    }

    /// Forgets the making of a round that has ended. Its files belong to the version, or become obsolete.
    pub async fn forget_making(&mut self, round: RoundKey) -> Result<(), DbError> {
        let sql = "delete from shard_makings where job = $1 and task = $2 and round = $3";
        let (job, number) = (round.job.to_string(), i64::from(round.number));
        execute!(self, sql, job.as_str(), round.task.as_str(), number);
        Ok(())
    }
}
