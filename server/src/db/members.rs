//! Members of stale-synchronous jobs, and their clocks.

use tributary_engine::round::{Clocks, Member, Tempo};
use tributary_protocol::id::{ClientId, JobId};
use tributary_protocol::operator::MemberClock;

use super::tx::{execute, fetch};
use super::{DbError, Tx};

#[derive(sqlx::FromRow)]
struct MemberRow {
    #[sqlx(try_from = "String")]
    client: ClientId,
    #[sqlx(try_from = "i64")]
    number: u64,
    #[sqlx(try_from = "i64")]
    clock: u32,
    #[sqlx(try_from = "i64")]
    open: u32,
    missed_at_ms: Option<i64>,
}

impl Tx {
    /// The clocks of a job whose rounds have this tempo; none if it has no members.
    pub async fn clocks(&mut self, job: JobId, tempo: Tempo) -> Result<Option<Clocks>, DbError> {
        let Tempo::Members { members_max, slack } = tempo else { return Ok(None) };
        Ok(Some(Clocks::new(members_max, slack, self.members(job).await?)))
    }

    /// The members of a job.
    pub async fn members(&mut self, job: JobId) -> Result<Vec<Member>, DbError> {
        let members = self.member_rows(job).await?.into_iter().map(|row| Member {
            client: row.client,
            clock: row.clock,
            is_working: row.open > 0,
            missed_at_ms: row.missed_at_ms,
        });
        Ok(members.collect())
    }

    /// The clocks of a job's members, for people, by the number of the client.
    pub async fn member_clocks(&mut self, job: JobId) -> Result<Vec<MemberClock>, DbError> {
        let clocks = self.member_rows(job).await?.into_iter().map(|row| MemberClock {
            client_number: row.number,
            clock: row.clock,
            is_working: row.open > 0,
            missed_at_ms: row.missed_at_ms,
        });
        Ok(clocks.collect())
    }

    async fn member_rows(&mut self, job: JobId) -> Result<Vec<MemberRow>, DbError> {
        let sql = "select m.client, c.number, m.clock, m.missed_at_ms, (select count(*) from assignments a \
                   where a.client = m.client and a.job = m.job and a.task = 'train' and a.state = 'assigned') as open \
                   from members m join clients c on c.id = m.client where m.job = $1 order by c.number";
        Ok(fetch!(self, MemberRow, fetch_all, sql, job.to_string()))
    }

    /// Number of members of a job.
    pub async fn count_members(&mut self, job: JobId) -> Result<u32, DbError> {
        let sql = "select count(*) from members where job = $1";
        let (count,) = fetch!(self, (i64,), fetch_one, sql, job.to_string());
        u32::try_from(count).map_err(|error| DbError::corrupt("count of members", error))
    }

    /// A client begins work as a member: a newcomer with this clock, a member with its own.
    pub async fn enter_member(&mut self, job: JobId, client: ClientId, clock: u32) -> Result<(), DbError> {
        let sql = "insert into members (job, client, clock) values ($1, $2, $3) \
                   on conflict (job, client) do update set missed_at_ms = null";
        execute!(self, sql, job.to_string(), client.to_string(), i64::from(clock));
        Ok(())
    }

    /// A member has contributed an update.
    pub async fn tick_member(&mut self, job: JobId, client: ClientId) -> Result<(), DbError> {
        let sql = "update members set clock = clock + 1 where job = $1 and client = $2";
        execute!(self, sql, job.to_string(), client.to_string());
        Ok(())
    }

    /// A member could begin its next work and does not wait for it. Earlier notes stay.
    pub async fn miss_member(&mut self, job: JobId, client: ClientId, now_ms: i64) -> Result<(), DbError> {
        let sql = "update members set missed_at_ms = $3 where job = $1 and client = $2 and missed_at_ms is null";
        execute!(self, sql, job.to_string(), client.to_string(), now_ms);
        Ok(())
    }

    /// A member that is missed leaves. Nothing happens when it has begun work meanwhile.
    pub async fn dismiss_member(&mut self, job: JobId, client: ClientId) -> Result<(), DbError> {
        let sql = "delete from members where job = $1 and client = $2 and missed_at_ms is not null";
        execute!(self, sql, job.to_string(), client.to_string());
        Ok(())
    }

    /// The work of a client has ended without a report: it is no member any more.
    pub async fn remove_member(&mut self, job: JobId, client: ClientId) -> Result<(), DbError> {
        let sql = "delete from members where job = $1 and client = $2";
        execute!(self, sql, job.to_string(), client.to_string());
        Ok(())
    }
}
