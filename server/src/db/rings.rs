//! Groups that add up among themselves: members that are ready, attempts, and what became of them.

use tributary_protocol::group::messages::{RingMember, RingOutcome, RingReport, RingStall};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{AssignmentId, ClientId, GroupId};
use tributary_protocol::state::{RingState, StallKind, StarReason};

use super::tx::{Json, Text, execute, fetch, stored};
use super::{DbError, RoundKey, Tx};

/// A client that has finished.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct RingReadyRow {
    #[sqlx(try_from = "String")]
    pub assignment: AssignmentId,
    #[sqlx(try_from = "String")]
    pub client: ClientId,
    /// Number of the client's enrolment.
    #[sqlx(try_from = "i64")]
    pub number: u64,
    /// When it last asked for its group.
    pub asked_at_ms: i64,
    /// The attempt that it saw last.
    #[sqlx(try_from = "i64")]
    pub seen: u32,
    /// Exchanges that it has completed while it trains.
    #[sqlx(try_from = "i64")]
    pub exchanged: u32,
    key_sha256: Text<Sha256Hash>,
    #[sqlx(try_from = "String")]
    addresses: Json<Vec<String>>,
    #[sqlx(try_from = "i64")]
    pub weight: u32,
    pub loss: Option<f64>,
    #[sqlx(try_from = "i64")]
    pub steps: u64,
    #[sqlx(try_from = "i64")]
    pub work_ms: u64,
}

/// An attempt of a round.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct RingAttemptRow {
    #[sqlx(try_from = "String")]
    pub id: GroupId,
    #[sqlx(try_from = "i64")]
    pub number: u32,
    #[sqlx(try_from = "String")]
    pub state: RingState,
    pub formed_at_ms: i64,
    pub since_ms: i64,
    /// Exchanges after which its members go on.
    #[sqlx(try_from = "i64")]
    pub exchanged: u32,
    sha256: Option<Text<Sha256Hash>>,
}

/// What a member that waits has to know first.
#[derive(Clone, Copy, Debug, sqlx::FromRow)]
pub struct RingStanding {
    pub is_open: bool,
    pub is_asked: bool,
    pub is_star: bool,
    number: Option<i64>,
    state: Option<Text<RingState>>,
}

impl RingStanding {
    /// Number and state of the newest attempt of which it is a member.
    pub fn attempt(&self) -> Option<(u32, RingState)> {
        let number = self.number.and_then(|number| u32::try_from(number).ok())?;
        Some((number, self.state?.0))
    }
}

/// A member of an attempt.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct RingMemberRow {
    #[sqlx(try_from = "i64")]
    pub position: u16,
    #[sqlx(try_from = "String")]
    pub assignment: AssignmentId,
    outcome: Option<Text<Sha256Hash>>,
    pub outcome_at_ms: Option<i64>,
    pub bytes_sent: Option<i64>,
    pub bytes_received: Option<i64>,
    pub took_ms: Option<i64>,
    pub sent_kbit_s: Option<i64>,
    /// Distance of its model from the mean of all, in gossip.
    pub distance: Option<f64>,
    asked: i64,
    blames: Option<i64>,
    blames_for: Option<Text<StallKind>>,
    pub blames_step: Option<i64>,
    relayed: i64,
    pub relayed_bytes: Option<i64>,
    /// Whether its assignment is open.
    pub is_open: bool,
    #[sqlx(flatten)]
    pub ready: RingReadyRow,
}

impl RingReadyRow {
    /// How others reach it.
    pub fn member(&self) -> RingMember {
        RingMember { key: self.key_sha256.0, addresses: self.addresses.0.clone() }
    }
}

impl RingAttemptRow {
    /// Of the body on which its members agree.
    pub fn sha256(&self) -> Option<Sha256Hash> {
        self.sha256.map(|Text(sha256)| sha256)
    }
}

impl RingMemberRow {
    /// SHA-256 of the sum that it has.
    pub fn outcome(&self) -> Option<Sha256Hash> {
        self.outcome.map(|Text(sha256)| sha256)
    }

    /// Whether it was asked for the sum.
    pub fn was_asked(&self) -> bool {
        self.asked != 0
    }

    /// Whether its link to the next member goes through a coordinator.
    pub fn is_relayed(&self) -> bool {
        self.relayed != 0
    }

    /// What the member did that it could not go on with.
    pub fn blames_for(&self) -> Option<StallKind> {
        self.blames_for.map(|Text(kind)| kind)
    }

    /// The position of the member that it could not go on with.
    pub fn blames(&self) -> Option<u16> {
        self.blames.and_then(|position| u16::try_from(position).ok())
    }
}

/// The columns of a [`RingReadyRow`] from `y`, joined with assignments `a` and clients `c`.
macro_rules! ready_columns {
    () => {
        "y.assignment, a.client, c.number, y.asked_at_ms, y.seen, y.exchanged, y.key_sha256, y.addresses, y.weight, \
         y.loss, y.steps, y.work_ms"
    };
}

/// The columns of a [`RingAttemptRow`].
macro_rules! attempt_columns {
    () => {
        "id, number, state, formed_at_ms, since_ms, exchanged, sha256 from ring_attempts"
    };
}

impl Tx {
    /// A client has finished, or asks again.
    pub async fn ring_ready(
        &mut self,
        assignment: AssignmentId,
        round: RoundKey,
        (seen, member, report, exchanged): (u32, &RingMember, &RingReport, u32),
        now_ms: i64,
    ) -> Result<(), DbError> {
        let sql = "insert into ring_ready (assignment, job, task, round, ready_at_ms, asked_at_ms, seen, key_sha256, \
                   addresses, weight, loss, steps, work_ms, exchanged) values ($1, $2, $3, $4, $5, $5, $6, $7, $8, $9, $10, \
                   $11, $12, $13) on conflict (assignment) do update set asked_at_ms = $5, seen = $6, key_sha256 = $7, \
                   addresses = $8, exchanged = $13";
        let (job, number) = (round.job.to_string(), i64::from(round.number));
        execute!(
            self,
            sql,
            assignment.to_string(),
            job,
            round.task.as_str(),
            number,
            now_ms,
            i64::from(seen),
            member.key.to_string(),
            Json::text(&member.addresses)?,
            i64::from(report.weight),
            report.loss,
            stored(report.steps),
            stored(report.train_ms),
            i64::from(exchanged)
        );
        Ok(())
    }

    /// Notes what a member tells of its training once it has ended.
    pub async fn ring_report(&mut self, assignment: AssignmentId, report: &RingReport) -> Result<(), DbError> {
        let sql = "update ring_ready set weight = $2, loss = $3, steps = $4, work_ms = $5 where assignment = $1";
        let (steps, work_ms) = (stored(report.steps), stored(report.train_ms));
        execute!(self, sql, assignment.to_string(), i64::from(report.weight), report.loss, steps, work_ms);
        Ok(())
    }

    /// The clients of a round that have finished and are still at work, in the order of their enrolment.
    pub async fn ring_waiting(&mut self, round: RoundKey) -> Result<Vec<RingReadyRow>, DbError> {
        let sql = concat!(
            "select ",
            ready_columns!(),
            " from ring_ready y join assignments a on a.id = y.assignment join clients c on c.id = a.client \
             where y.job = $1 and y.task = $2 and y.round = $3 and a.state = 'assigned' order by c.number"
        );
        let (job, number) = (round.job.to_string(), i64::from(round.number));
        Ok(fetch!(self, RingReadyRow, fetch_all, sql, job, round.task.as_str(), number))
    }

    /// The attempts of a round, in their order.
    pub async fn ring_attempts(&mut self, round: RoundKey) -> Result<Vec<RingAttemptRow>, DbError> {
        let sql =
            concat!("select ", attempt_columns!(), " where job = $1 and task = $2 and round = $3 order by number");
        let (job, number) = (round.job.to_string(), i64::from(round.number));
        Ok(fetch!(self, RingAttemptRow, fetch_all, sql, job, round.task.as_str(), number))
    }

    /// The newest attempt of which a client is a member.
    pub async fn ring_attempt_of(&mut self, assignment: AssignmentId) -> Result<Option<RingAttemptRow>, DbError> {
        let sql = concat!(
            "select ",
            attempt_columns!(),
            " where id in (select attempt from ring_members where assignment = $1) order by number desc limit 1"
        );
        Ok(fetch!(self, RingAttemptRow, fetch_optional, sql, assignment.to_string()))
    }

    /// Where a member stands, in one statement: all members that wait ask after each change.
    pub async fn ring_standing(&mut self, assignment: AssignmentId) -> Result<Option<RingStanding>, DbError> {
        let sql = "select a.state = 'assigned' as is_open, a.brings > 0 as is_asked, s.job is not null as is_star, \
                   g.number, g.state from assignments a left join ring_attempts g on g.id = (select m.attempt \
                   from ring_members m join ring_attempts t on t.id = m.attempt where m.assignment = a.id \
                   order by t.number desc limit 1) \
                   left join ring_stars s on s.job = a.job and s.task = a.task and s.round = a.round where a.id = $1";
        Ok(fetch!(self, RingStanding, fetch_optional, sql, assignment.to_string()))
    }

    /// The members of an attempt, around the ring.
    pub async fn ring_members(&mut self, attempt: GroupId) -> Result<Vec<RingMemberRow>, DbError> {
        let sql = concat!(
            "select m.position, m.outcome, m.outcome_at_ms, m.bytes_sent, m.bytes_received, m.took_ms, m.sent_kbit_s, \
             m.distance, m.asked, m.blames, m.blames_for, m.blames_step, m.relayed, m.relayed_bytes, \
             a.state = 'assigned' as is_open, ",
            ready_columns!(),
            " from ring_members m join ring_ready y on y.assignment = m.assignment \
             join assignments a on a.id = m.assignment join clients c on c.id = a.client \
             where m.attempt = $1 order by m.position"
        );
        Ok(fetch!(self, RingMemberRow, fetch_all, sql, attempt.to_string()))
    }

    /// Stores an attempt with its members, around the ring, and whether the link of each to the next one is relayed.
    ///
    /// # Errors
    /// [`DbError::Duplicate`] when the round has an attempt of this number.
    pub async fn insert_ring(
        &mut self,
        (id, round, attempt): (GroupId, RoundKey, u32),
        (members, exchanged): (&[(AssignmentId, bool)], u32),
        now_ms: i64,
    ) -> Result<(), DbError> {
        let sql = "insert into ring_attempts (id, job, task, round, number, state, formed_at_ms, since_ms, exchanged) \
                   values ($1, $2, $3, $4, $5, 'formed', $6, $6, $7)";
        let (job, number, id) = (round.job.to_string(), i64::from(round.number), id.to_string());
        let (attempt, exchanged) = (i64::from(attempt), i64::from(exchanged));
        execute!(self, sql, id.as_str(), job, round.task.as_str(), number, attempt, now_ms, exchanged);
        let sql = "insert into ring_members (attempt, position, assignment, relayed) values ($1, $2, $3, $4)";
        for (position, (member, is_relayed)) in (0i64..).zip(members) {
            execute!(self, sql, id.as_str(), position, member.to_string(), i64::from(*is_relayed));
        }
        Ok(())
    }

    /// Moves an attempt from one state to another. False when it was in another one.
    pub async fn move_ring(
        &mut self,
        attempt: GroupId,
        [from, to]: [RingState; 2],
        sha256: Option<Sha256Hash>,
        now_ms: i64,
    ) -> Result<bool, DbError> {
        let sql = "update ring_attempts set state = $3, since_ms = $4, sha256 = coalesce($5, sha256) \
                   where id = $1 and state = $2";
        let sha256 = sha256.map(|sha256| sha256.to_string());
        Ok(execute!(self, sql, attempt.to_string(), from.as_str(), to.as_str(), now_ms, sha256) == 1)
    }

    /// Notes that a member has the sum. False when it said another one.
    pub async fn ring_outcome(
        &mut self,
        attempt: GroupId,
        assignment: AssignmentId,
        outcome: &RingOutcome,
        now_ms: i64,
    ) -> Result<bool, DbError> {
        let sql = "update ring_members set outcome = $3, outcome_at_ms = coalesce(outcome_at_ms, $4), bytes_sent = $5, \
                   bytes_received = $6, took_ms = $7, sent_kbit_s = $8, distance = $9 where attempt = $1 and \
                   assignment = $2 and (outcome is null or outcome = $3)";
        let RingOutcome { attempt: _, sha256, bytes_sent, bytes_received, took_ms, sent_kbit_s, report: _, distance } =
            *outcome;
        let kbit_s = sent_kbit_s.map(stored);
        let (sent, received, took) = (stored(bytes_sent), stored(bytes_received), stored(took_ms));
        let (attempt, member, sha256) = (attempt.to_string(), assignment.to_string(), sha256.to_string());
        Ok(execute!(self, sql, attempt, member, sha256, now_ms, sent, received, took, kbit_s, distance) == 1)
    }

    /// Notes whom a member could not go on with.
    pub async fn ring_stall(
        &mut self,
        attempt: GroupId,
        assignment: AssignmentId,
        stall: &RingStall,
    ) -> Result<(), DbError> {
        let sql = "update ring_members set blames = $3, blames_for = $4, blames_step = $5 \
                   where attempt = $1 and assignment = $2 and blames is null";
        let (rank, what, step) = (i64::from(stall.rank), stall.what.as_str(), i64::from(stall.step));
        execute!(self, sql, attempt.to_string(), assignment.to_string(), rank, what, step);
        Ok(())
    }

    /// Asks a member for the sum of so many updates, and no other one of its attempt.
    pub async fn ask_for_ring(
        &mut self,
        attempt: GroupId,
        member: Option<AssignmentId>,
        updates: u32,
    ) -> Result<(), DbError> {
        let sql = "update assignments set brings = 0 where brings > 0 and state = 'assigned' \
                   and id in (select assignment from ring_members where attempt = $1)";
        execute!(self, sql, attempt.to_string());
        let Some(member) = member else { return Ok(()) };
        let member = member.to_string();
        let sql = "update assignments set brings = $2 where id = $1 and state = 'assigned'";
        execute!(self, sql, member.as_str(), i64::from(updates));
        let sql = "update ring_members set asked = 1 where attempt = $1 and assignment = $2";
        execute!(self, sql, attempt.to_string(), member);
        Ok(())
    }

    /// Why the members of a round send their own updates; none where they may add up.
    pub async fn ring_star(&mut self, round: RoundKey) -> Result<Option<StarReason>, DbError> {
        let sql = "select reason from ring_stars where job = $1 and task = $2 and round = $3";
        let (job, number) = (round.job.to_string(), i64::from(round.number));
        let row = fetch!(self, (Text<StarReason>,), fetch_optional, sql, job, round.task.as_str(), number);
        Ok(row.map(|(Text(reason),)| reason))
    }

    /// Lets the members of a round send their own updates. False when they do already.
    pub async fn begin_star(&mut self, round: RoundKey, reason: StarReason, now_ms: i64) -> Result<bool, DbError> {
        let sql = "insert into ring_stars (job, task, round, reason, at_ms) values ($1, $2, $3, $4, $5) \
                   on conflict (job, task, round) do nothing";
        let (job, number) = (round.job.to_string(), i64::from(round.number));
        Ok(execute!(self, sql, job, round.task.as_str(), number, reason.as_str(), now_ms) == 1)
    }
}
