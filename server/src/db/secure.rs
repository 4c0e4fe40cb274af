//! Secure aggregation: clients that have joined, their groups, and what members send each other.

use std::collections::HashMap;

use tributary_engine::round::masking::{FAILED_APART, Past};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{AssignmentId, ClientId, GroupId, JobId};
use tributary_protocol::secure::Survivors;
use tributary_protocol::secure::messages::Join;
use tributary_protocol::state::{GroupFailure, GroupStage};

use super::tx::{Text, execute, execute_all, fetch, fetch_in, stored};
use super::{DbError, RoundKey, Tx, masked_key};

/// A group of a round.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct SecureGroupRow {
    #[sqlx(try_from = "String")]
    pub id: GroupId,
    /// What its members agree on, as they hash it.
    pub context: Vec<u8>,
    #[sqlx(try_from = "String")]
    pub stage: GroupStage,
    pub stage_since_ms: i64,
    /// How long a member may take for its masked update.
    pub masking_ms: i64,
    #[sqlx(try_from = "i64")]
    pub members: u32,
    /// The members whose masked updates are in the sum, as they are told.
    pub survivors: Option<Vec<u8>>,
    summed: Option<i64>,
    whole: Option<i64>,
    reason: Option<Text<GroupFailure>>,
}

/// A client that joined with finished work.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct SecureMemberRow {
    #[sqlx(try_from = "String")]
    pub assignment: AssignmentId,
    #[sqlx(try_from = "String")]
    pub client: ClientId,
    /// Number of the client's enrolment.
    #[sqlx(try_from = "i64")]
    pub number: u64,
    pub joined_at_ms: i64,
    /// When it last asked for its group.
    pub asked_at_ms: i64,
    /// Its public keys and commitments.
    pub record: Vec<u8>,
    /// The model version that it trained.
    #[sqlx(try_from = "i64")]
    pub base_version: u32,
    /// When its assignment ends, where that is not with the round.
    pub deadline_at_ms: Option<i64>,
    group_id: Option<Text<GroupId>>,
    position: Option<i64>,
    body: Option<Text<Sha256Hash>>,
    /// Its signature over the survivors, once it has come.
    pub signature: Option<Vec<u8>>,
}

/// What a member sent another one.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct SecureShareRow {
    #[sqlx(try_from = "i64")]
    pub sender: u16,
    #[sqlx(try_from = "i64")]
    pub recipient: u16,
    pub share: Vec<u8>,
}

/// When members send each other something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareStage {
    Sharing,
    Unmasking,
}

/// A group that forms.
#[derive(Clone, Debug)]
pub struct NewSecureGroup {
    pub id: GroupId,
    pub round: RoundKey,
    pub context: Vec<u8>,
    pub masking_ms: i64,
    /// How long all its stages may take together.
    pub stages_ms: i64,
    /// In the order of the roster.
    pub members: Vec<AssignmentId>,
}

impl SecureGroupRow {
    /// The members whose masked updates are in the sum, once that is fixed.
    pub fn survivors(&self) -> Option<Survivors> {
        self.survivors.as_ref().and_then(|bytes| Survivors::from_bytes(bytes).ok())
    }

    pub fn reason(&self) -> Option<GroupFailure> {
        self.reason.map(|Text(reason)| reason)
    }

    /// Updates in the opened sum.
    pub fn summed(&self) -> u32 {
        self.summed.and_then(|summed| u32::try_from(summed).ok()).unwrap_or(0)
    }

    /// Updates in the opened sum that were within the clip.
    pub fn whole(&self) -> u32 {
        self.whole.and_then(|whole| u32::try_from(whole).ok()).unwrap_or(0)
    }
}

impl SecureMemberRow {
    pub fn group(&self) -> Option<GroupId> {
        self.group_id.map(|Text(group)| group)
    }

    /// Its place in the roster of its group.
    pub fn position(&self) -> Option<u16> {
        self.position.and_then(|position| u16::try_from(position).ok())
    }

    /// SHA-256 of its masked update, once it is stored.
    pub fn body(&self) -> Option<Sha256Hash> {
        self.body.map(|Text(body)| body)
    }
}

impl ShareStage {
    fn as_str(self) -> &'static str {
        match self {
            Self::Sharing => "sharing",
            Self::Unmasking => "unmasking",
        }
    }
}

/// The columns of a [`SecureMemberRow`] from `m`, joined with assignments `a` and clients `c`.
macro_rules! member_columns {
    () => {
        "m.assignment, a.client, c.number, a.base_version, a.deadline_at_ms, m.joined_at_ms, m.asked_at_ms, m.record, \
         m.group_id, m.position, m.body, m.signature \
         from secure_members m join assignments a on a.id = m.assignment join clients c on c.id = a.client"
    };
}

/// The columns of a [`SecureGroupRow`].
macro_rules! group_columns {
    () => {
        "id, context, stage, stage_since_ms, masking_ms, members, survivors, summed, whole, reason from secure_groups"
    };
}

impl Tx {
    /// A client joins with finished work.
    ///
    /// # Errors
    /// [`DbError::Duplicate`] when it has joined before.
    pub async fn join_secure(
        &mut self,
        assignment: AssignmentId,
        round: RoundKey,
        join: &Join,
        now_ms: i64,
    ) -> Result<(), DbError> {
        let sql = "insert into secure_members \
                   (assignment, job, task, round, joined_at_ms, asked_at_ms, record, certificate) \
                   values ($1, $2, $3, $4, $5, $5, $6, $7)";
        let (job, number) = (round.job.to_string(), i64::from(round.number));
        let (record, certificate) = (join.record.to_bytes().to_vec(), join.certificate.as_slice());
        execute!(self, sql, assignment.to_string(), job, round.task.as_str(), number, now_ms, record, certificate);
        Ok(())
    }

    /// Whether another client has joined this round with this certificate.
    pub async fn is_certificate_used(
        &mut self,
        round: RoundKey,
        client: ClientId,
        certificate: &[u8],
    ) -> Result<bool, DbError> {
        let sql = "select 1 from secure_members m join assignments a on a.id = m.assignment \
                   where m.job = $1 and m.task = $2 and m.round = $3 and m.certificate = $4 and a.client <> $5 limit 1";
        let (job, number) = (round.job.to_string(), i64::from(round.number));
        let task = round.task.as_str();
        let found = fetch!(self, (i32,), fetch_optional, sql, job, task, number, certificate, client.to_string());
        Ok(found.is_some())
    }

    /// The certificates of the members of a group, in the order of its roster.
    pub async fn secure_certificates(&mut self, group: GroupId) -> Result<Vec<Vec<u8>>, DbError> {
        let sql = "select certificate from secure_members where group_id = $1 order by position";
        let rows = fetch!(self, (Vec<u8>,), fetch_all, sql, group.to_string());
        Ok(rows.into_iter().map(|(certificate,)| certificate).collect())
    }

    /// The certificate of a client that joined.
    pub async fn secure_certificate(&mut self, assignment: AssignmentId) -> Result<Option<Vec<u8>>, DbError> {
        let sql = "select certificate from secure_members where assignment = $1";
        let row = fetch!(self, (Vec<u8>,), fetch_optional, sql, assignment.to_string());
        Ok(row.map(|(certificate,)| certificate))
    }

    /// Stores the signature of a member over the survivors. False when there is one.
    pub async fn store_signature(&mut self, assignment: AssignmentId, signature: &[u8]) -> Result<bool, DbError> {
        let sql = "update secure_members set signature = $2 where assignment = $1 and signature is null";
        Ok(execute!(self, sql, assignment.to_string(), signature) == 1)
    }

    /// A client that waits for a group asks again.
    pub async fn ask_secure(&mut self, assignment: AssignmentId, now_ms: i64) -> Result<(), DbError> {
        let sql = "update secure_members set asked_at_ms = $2 where assignment = $1";
        execute!(self, sql, assignment.to_string(), now_ms);
        Ok(())
    }

    /// A client that joined, by its assignment.
    pub async fn secure_member(&mut self, assignment: AssignmentId) -> Result<Option<SecureMemberRow>, DbError> {
        let sql = concat!("select ", member_columns!(), " where m.assignment = $1");
        Ok(fetch!(self, SecureMemberRow, fetch_optional, sql, assignment.to_string()))
    }

    /// The clients that joined a round, are still at work and have no group, in the order in which they came.
    pub async fn secure_lobby(&mut self, round: RoundKey) -> Result<Vec<SecureMemberRow>, DbError> {
        let sql = concat!(
            "select ",
            member_columns!(),
            " where m.job = $1 and m.task = $2 and m.round = $3 and m.group_id is null and a.state = 'assigned' \
             order by m.joined_at_ms, m.assignment"
        );
        let (job, number) = (round.job.to_string(), i64::from(round.number));
        Ok(fetch!(self, SecureMemberRow, fetch_all, sql, job, round.task.as_str(), number))
    }

    /// Clients that were drawn for a job since this time and gave up because their apps demand more privacy.
    pub async fn refused_for_privacy(&mut self, job: JobId, since_ms: i64) -> Result<Vec<ClientId>, DbError> {
        // As the condition of the index, word by word.
        let sql = "select distinct client from assignments where job = $1 and assigned_at_ms >= $2 \
                   and state = 'failed' and reason >= 'privacy' and reason < 'privacz'";
        let rows = fetch!(self, (Text<ClientId>,), fetch_all, sql, job.to_string(), since_ms);
        Ok(rows.into_iter().map(|(Text(client),)| client).collect())
    }

    /// What became of the groups of clients in the rounds of a job from this one on, before `round`. Nothing is said
    /// where too few groups failed to matter.
    pub async fn secure_past(&mut self, round: RoundKey, since: u32) -> Result<HashMap<ClientId, Past>, DbError> {
        let (job, task) = (round.job.to_string(), round.task.as_str());
        let (since, number) = (i64::from(since), i64::from(round.number));
        // Groups are few and members are many, and mostly no group has failed.
        let sql = "select count(*) from secure_groups where job = $1 and task = $2 and round >= $3 and round < $4 \
                   and reason = 'norm'";
        let (failed,) = fetch!(self, (i64,), fetch_one, sql, job.as_str(), task, since, number);
        if failed < i64::from(FAILED_APART) {
            return Ok(HashMap::new());
        }
        let sql = "select a.client, count(case when g.reason = 'norm' then 1 end), \
                   count(case when g.stage = 'summed' then 1 end) \
                   from secure_members m join secure_groups g on g.id = m.group_id \
                   join assignments a on a.id = m.assignment \
                   where m.job = $1 and m.task = $2 and m.round >= $3 and m.round < $4 group by a.client";
        let rows = fetch!(self, (Text<ClientId>, i64, i64), fetch_all, sql, job.as_str(), task, since, number);
        let count = |count: i64| u32::try_from(count).unwrap_or(u32::MAX);
        let read = |(Text(client), failed, summed)| (client, Past { failed: count(failed), summed: count(summed) });
        Ok(rows.into_iter().map(read).collect())
    }

    /// The members of a group, in the order of its roster.
    pub async fn secure_members(&mut self, group: GroupId) -> Result<Vec<SecureMemberRow>, DbError> {
        let sql = concat!("select ", member_columns!(), " where m.group_id = $1 order by m.position");
        Ok(fetch!(self, SecureMemberRow, fetch_all, sql, group.to_string()))
    }

    /// The open assignments of a job whose clients are in a group.
    pub async fn grouped(&mut self, job: JobId) -> Result<Vec<AssignmentId>, DbError> {
        let sql = "select m.assignment from secure_members m join assignments a on a.id = m.assignment \
                   where m.job = $1 and m.group_id is not null and a.state = 'assigned'";
        let rows = fetch!(self, (Text<AssignmentId>,), fetch_all, sql, job.to_string());
        Ok(rows.into_iter().map(|(Text(assignment),)| assignment).collect())
    }

    /// Lets assignments with deadlines of their own end at this time at the earliest.
    pub async fn prolong(&mut self, assignments: &[AssignmentId], until_ms: i64) -> Result<(), DbError> {
        let sql = "update assignments set deadline_at_ms = $2 where id = $1 and deadline_at_ms < $2";
        for assignment in assignments {
            execute!(self, sql, assignment.to_string(), until_ms);
        }
        Ok(())
    }

    /// Moves the open groups of earlier training rounds to this round, and the clients that wait for a group.
    pub async fn move_secure_groups(&mut self, key: RoundKey) -> Result<(), DbError> {
        let (job, number) = (key.job.to_string(), i64::from(key.number));
        let sql = "update secure_groups set round = $2 where job = $1 and task = 'train' and round < $2 \
                   and stage not in ('summed', 'failed')";
        execute!(self, sql, job.as_str(), number);
        let sql = "update secure_members set round = $2 where job = $1 and task = 'train' and round < $2 and (group_id in \
                   (select id from secure_groups where job = $1 and task = 'train' and round = $2) or (group_id is null \
                   and assignment in (select id from assignments where job = $1 and task = 'train' and round = $2)))";
        execute!(self, sql, job.as_str(), number);
        Ok(())
    }

    /// Stores a group with its members.
    pub async fn insert_secure_group(&mut self, group: &NewSecureGroup, now_ms: i64) -> Result<(), DbError> {
        let sql = "insert into secure_groups (id, job, task, round, context, stage, stage_since_ms, masking_ms, members) \
                   values ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
        let NewSecureGroup { id, round, context, masking_ms, stages_ms: _, members } = group;
        let (job, number) = (round.job.to_string(), i64::from(round.number));
        let (id, stage) = (id.to_string(), GroupStage::Sharing.as_str());
        let (task, size) = (round.task.as_str(), stored(members.len() as u64));
        execute!(self, sql, id.as_str(), job, task, number, context.as_slice(), stage, now_ms, *masking_ms, size);
        let sql = "update secure_members set group_id = $2, position = $3 where assignment = $1 and group_id is null";
        for (position, assignment) in (0i64..).zip(members) {
            if execute!(self, sql, assignment.to_string(), id.as_str(), position) != 1 {
                return Err(DbError::Corrupt(format!("{assignment} cannot be a member of {id}")));
            }
        }
        Ok(())
    }

    /// The groups of a round, in the order of their ids.
    pub async fn secure_groups(&mut self, round: RoundKey) -> Result<Vec<SecureGroupRow>, DbError> {
        let sql = concat!(
            "select ",
            group_columns!(),
            " where job = $1 and task = $2 and round = $3 order by stage_since_ms, id"
        );
        let (job, number) = (round.job.to_string(), i64::from(round.number));
        Ok(fetch!(self, SecureGroupRow, fetch_all, sql, job, round.task.as_str(), number))
    }

    /// The open groups of a job.
    pub async fn open_secure_groups(&mut self, job: JobId) -> Result<Vec<SecureGroupRow>, DbError> {
        let sql =
            concat!("select ", group_columns!(), " where job = $1 and stage not in ('summed', 'failed') order by id");
        Ok(fetch!(self, SecureGroupRow, fetch_all, sql, job.to_string()))
    }

    pub async fn secure_group(&mut self, group: GroupId) -> Result<Option<SecureGroupRow>, DbError> {
        let sql = concat!("select ", group_columns!(), " where id = $1");
        Ok(fetch!(self, SecureGroupRow, fetch_optional, sql, group.to_string()))
    }

    /// Moves a group from one stage to the next one. False when it was in another one.
    pub async fn move_secure_group(
        &mut self,
        group: GroupId,
        [from, to]: [GroupStage; 2],
        now_ms: i64,
    ) -> Result<bool, DbError> {
        let sql = "update secure_groups set stage = $3, stage_since_ms = $4 where id = $1 and stage = $2";
        Ok(execute!(self, sql, group.to_string(), from.as_str(), to.as_str(), now_ms) == 1)
    }

    /// Fixes whose updates are in the sum of a group. False when that was fixed before.
    pub async fn store_survivors(&mut self, group: GroupId, survivors: &[u8]) -> Result<bool, DbError> {
        let sql = "update secure_groups set survivors = $2 where id = $1 and survivors is null";
        Ok(execute!(self, sql, group.to_string(), survivors) == 1)
    }

    /// Stores why a group failed.
    pub async fn store_group_failure(&mut self, group: GroupId, reason: GroupFailure) -> Result<(), DbError> {
        execute!(self, "update secure_groups set reason = $2 where id = $1", group.to_string(), reason.as_str());
        Ok(())
    }

    /// Stores how many updates are in the opened sum, and how many of them were within the clip.
    pub async fn store_summed(&mut self, group: GroupId, [summed, whole]: [u32; 2]) -> Result<(), DbError> {
        let sql = "update secure_groups set summed = $2, whole = $3 where id = $1";
        execute!(self, sql, group.to_string(), i64::from(summed), i64::from(whole));
        Ok(())
    }

    /// Notes that the masked update of a member is stored.
    pub async fn store_masked(&mut self, assignment: AssignmentId, sha256: Sha256Hash) -> Result<bool, DbError> {
        let sql = "update secure_members set body = $2 where assignment = $1 and body is null";
        Ok(execute!(self, sql, assignment.to_string(), sha256.to_string()) == 1)
    }

    /// Stores what a member sends others. False when it has sent something before.
    pub async fn store_shares(
        &mut self,
        group: GroupId,
        stage: ShareStage,
        sender: u16,
        shares: &[(u16, Vec<u8>)],
    ) -> Result<bool, DbError> {
        let sql = "insert into secure_shares (group_id, stage, sender, recipient, share) ";
        let (group, sender) = (group.to_string(), i64::from(sender));
        let stored = async {
            execute_all!(self, sql, shares, |values, (recipient, share)| {
                values.push_bind(group.as_str()).push_bind(stage.as_str()).push_bind(sender);
                values.push_bind(i64::from(*recipient)).push_bind(share.as_slice());
            });
            Ok::<_, DbError>(())
        };
        match stored.await {
            Ok(()) => Ok(true),
            Err(DbError::Duplicate) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// What members of a group have sent in a stage, by sender and recipient.
    pub async fn shares(&mut self, group: GroupId, stage: ShareStage) -> Result<Vec<SecureShareRow>, DbError> {
        let sql = "select sender, recipient, share from secure_shares where group_id = $1 and stage = $2 \
                   order by sender, recipient";
        Ok(fetch!(self, SecureShareRow, fetch_all, sql, group.to_string(), stage.as_str()))
    }

    /// What a member has sent in a stage.
    pub async fn shares_from(
        &mut self,
        group: GroupId,
        stage: ShareStage,
        sender: u16,
    ) -> Result<Vec<SecureShareRow>, DbError> {
        let sql = "select sender, recipient, share from secure_shares where group_id = $1 and stage = $2 and sender = $3 \
                   order by recipient";
        let (group, sender) = (group.to_string(), i64::from(sender));
        Ok(fetch!(self, SecureShareRow, fetch_all, sql, group, stage.as_str(), sender))
    }

    /// What members have sent this one in the stage of sharing.
    pub async fn shares_to(&mut self, group: GroupId, recipient: u16) -> Result<Vec<SecureShareRow>, DbError> {
        let sql = "select sender, recipient, share from secure_shares \
                   where group_id = $1 and stage = 'sharing' and recipient = $2 order by sender";
        Ok(fetch!(self, SecureShareRow, fetch_all, sql, group.to_string(), i64::from(recipient)))
    }

    /// The members of a group that have sent something in a stage.
    pub async fn senders(&mut self, group: GroupId, stage: ShareStage) -> Result<Vec<u16>, DbError> {
        let sql = "select distinct sender from secure_shares where group_id = $1 and stage = $2 order by sender";
        let rows = fetch!(self, (i64,), fetch_all, sql, group.to_string(), stage.as_str());
        Ok(rows.into_iter().filter_map(|(sender,)| u16::try_from(sender).ok()).collect())
    }

    /// The share of a round's updates that were within the clip, over the opened sums of its groups.
    pub async fn clip_share_of_groups(&mut self, round: RoundKey) -> Result<Option<f64>, DbError> {
        let groups = self.secure_groups(round).await?;
        let sum = |of: fn(&SecureGroupRow) -> u32| groups.iter().map(of).map(f64::from).sum::<f64>();
        let summed = sum(SecureGroupRow::summed);
        Ok((summed > 0.0).then(|| sum(SecureGroupRow::whole) / summed))
    }

    /// Deletes the shares of a group that has ended, and the masked updates of these members. Returns the objects that
    /// the caller deletes after the commit.
    pub async fn forget_secrets(&mut self, group: GroupId, members: &[AssignmentId]) -> Result<Vec<String>, DbError> {
        execute!(self, "delete from secure_shares where group_id = $1", group.to_string());
        let names: Vec<String> = members.iter().map(|member| masked_key(*member)).collect();
        self.delete_bodies(&names).await
    }

    /// Deletes bodies by their names. Returns the objects that the caller deletes after the commit.
    pub(super) async fn delete_bodies(&mut self, names: &[String]) -> Result<Vec<String>, DbError> {
        let staged = "update staged_bodies set blob = null, expires_at_ms = 0 where blob in ";
        fetch_in!(self, (String,), staged, names, " returning id");
        fetch_in!(self, (String,), "delete from blob_chunks where blob in ", names, " returning blob");
        let objects = fetch_in!(self, (String,), "delete from objects where blob in ", names, " returning object");
        Ok(objects.into_iter().map(|(object,)| object).collect())
    }
}
