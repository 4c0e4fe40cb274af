//! Releases of models, and which clients have them.

use std::collections::BTreeMap;

use tributary_protocol::card::ModelCard;
use tributary_protocol::gate::Gate;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{ClientId, JobId, Name, ReleaseId};
use tributary_protocol::operator::{HeldRelease, Release};
use tributary_protocol::release::{Difference, Share};
use tributary_protocol::state::ReleaseState;

use super::jobs::number;
use super::tx::{Json, Text, execute, fetch, on_postgres, stored};
use super::{DbError, Tx};

/// A stored release.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct ReleaseRow {
    #[sqlx(try_from = "String")]
    pub id: ReleaseId,
    #[sqlx(try_from = "String")]
    pub population: Name,
    #[sqlx(try_from = "String")]
    pub channel: Name,
    #[sqlx(try_from = "i64")]
    pub number: u32,
    #[sqlx(try_from = "String")]
    pub job: JobId,
    #[sqlx(try_from = "String")]
    pub job_name: Name,
    #[sqlx(try_from = "i64")]
    pub version: u32,
    #[sqlx(try_from = "String")]
    pub card: Json<ModelCard>,
    #[sqlx(try_from = "String")]
    pub state: ReleaseState,
    share: i64,
    #[sqlx(try_from = "String")]
    pub attributes: Json<BTreeMap<String, String>>,
    pub gate: Option<Text<Gate>>,
    pub gate_job: Option<Text<JobId>>,
    pub verdict: Option<String>,
    #[sqlx(try_from = "String")]
    pub sha256: Sha256Hash,
    #[sqlx(try_from = "i64")]
    pub bytes: u64,
    base: Option<i64>,
    base_sha256: Option<Text<Sha256Hash>>,
    difference_sha256: Option<Text<Sha256Hash>>,
    difference_bytes: Option<i64>,
    pub difference_packed: Option<bool>,
    pub created_at_ms: i64,
    pub changed_at_ms: i64,
    pub deleted_at_ms: Option<i64>,
}

/// A release that is stored now.
#[derive(Clone, Debug)]
pub struct NewRelease {
    pub id: ReleaseId,
    pub population: Name,
    pub channel: Name,
    pub number: u32,
    pub job: JobId,
    pub card: ModelCard,
    pub state: ReleaseState,
    pub share: Share,
    pub attributes: BTreeMap<String, String>,
    pub gate: Option<Gate>,
    pub gate_job: Option<JobId>,
    pub sha256: Sha256Hash,
    pub bytes: u64,
    pub difference: Option<NewDifference>,
}

/// The differences of a release that is stored now.
#[derive(Clone, Copy, Debug)]
pub struct NewDifference {
    /// Number of the release that they are added to.
    pub base: u32,
    pub base_sha256: Sha256Hash,
    pub sha256: Sha256Hash,
    pub bytes: u64,
    pub packed: bool,
}

impl ReleaseRow {
    /// Share of the clients that it is meant for.
    pub fn share(&self) -> Result<Share, DbError> {
        let share = u32::try_from(self.share).ok().and_then(|share| Share::try_from(share).ok());
        share.ok_or_else(|| DbError::corrupt("releases.share", self.share))
    }

    /// The differences that lead to it, if there are any.
    pub fn difference(&self) -> Option<Difference> {
        let (Some(Text(base_sha256)), Some(Text(sha256))) = (self.base_sha256, self.difference_sha256) else {
            return None;
        };
        let bytes = u64::try_from(self.difference_bytes?).ok()?;
        Some(Difference { release: self.id, number: self.number, base_sha256, sha256, bytes })
    }

    /// What operators see of it, with the number of clients that have it.
    pub fn seen(self, clients: u64) -> Result<Release, DbError> {
        let share = self.share()?;
        Ok(Release {
            id: self.id,
            population: self.population,
            channel: self.channel,
            number: self.number,
            job: self.job,
            job_name: self.job_name,
            version: self.version,
            state: self.state,
            share,
            attributes: self.attributes.0,
            gate: self.gate.map(|Text(gate)| gate),
            gate_job: self.gate_job.map(|Text(job)| job),
            verdict: self.verdict,
            sha256: self.sha256,
            bytes: self.bytes,
            base: number("releases.base", self.base)?,
            difference_bytes: number("releases.difference_bytes", self.difference_bytes)?,
            clients,
            created_at_ms: self.created_at_ms,
            changed_at_ms: self.changed_at_ms,
            deleted_at_ms: self.deleted_at_ms,
        })
    }
}

/// The columns of a [`ReleaseRow`].
macro_rules! release_columns {
    () => {
        "id, population, channel, number, job, job_name, version, card, state, share, attributes, gate, gate_job, \
         verdict, sha256, bytes, base, base_sha256, difference_sha256, difference_bytes, difference_packed, \
         created_at_ms, changed_at_ms, deleted_at_ms"
    };
}

#[derive(sqlx::FromRow)]
struct HeldRow {
    #[sqlx(try_from = "String")]
    channel: Name,
    #[sqlx(try_from = "i64")]
    number: u32,
    #[sqlx(try_from = "String")]
    job_name: Name,
    #[sqlx(try_from = "i64")]
    version: u32,
    since_ms: i64,
}

/// The name of the body of a release's model.
pub fn release_key(id: ReleaseId) -> String {
    format!("release/{id}")
}

/// The name of the body of the differences that lead to a release.
pub fn difference_key(id: ReleaseId) -> String {
    format!("difference/{id}")
}

impl Tx {
    /// Locks a population until the transaction ends: its releases are numbered one after the other, and two jobs do
    /// not spend the same rest of its budget.
    pub async fn lock_population(&mut self, population: &Name) -> Result<(), DbError> {
        on_postgres!(self, "select name from populations where name = $1 for update", population.as_str());
        Ok(())
    }

    /// # Errors
    /// [`DbError::Duplicate`] when the channel has a release of this number.
    pub async fn insert_release(&mut self, new: &NewRelease, now_ms: i64) -> Result<(), DbError> {
        let sql = "insert into releases (id, population, channel, number, job, job_name, version, card, state, share, \
                   attributes, gate, gate_job, sha256, bytes, base, base_sha256, difference_sha256, difference_bytes, \
                   difference_packed, created_at_ms, changed_at_ms) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, \
                   $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $21)";
        execute!(
            self,
            sql,
            new.id.to_string(),
            new.population.as_str(),
            new.channel.as_str(),
            i64::from(new.number),
            new.job.to_string(),
            new.card.job.as_str(),
            i64::from(new.card.version),
            Json::text(&new.card)?,
            new.state.as_str(),
            i64::from(new.share.millionths()),
            Json::text(&new.attributes)?,
            new.gate.as_ref().map(Gate::to_string),
            new.gate_job.map(|job| job.to_string()),
            new.sha256.to_string(),
            stored(new.bytes),
            new.difference.map(|difference| i64::from(difference.base)),
            new.difference.map(|difference| difference.base_sha256.to_string()),
            new.difference.map(|difference| difference.sha256.to_string()),
            new.difference.map(|difference| stored(difference.bytes)),
            new.difference.map(|difference| difference.packed),
            now_ms
        );
        Ok(())
    }

    pub async fn release(&mut self, id: ReleaseId) -> Result<Option<ReleaseRow>, DbError> {
        let sql = concat!("select ", release_columns!(), " from releases where id = $1");
        Ok(fetch!(self, ReleaseRow, fetch_optional, sql, id.to_string()))
    }

    /// The release that a job evaluates for its gate.
    pub async fn gated_by(&mut self, job: JobId) -> Result<Option<ReleaseRow>, DbError> {
        let sql = concat!("select ", release_columns!(), " from releases where gate_job = $1");
        Ok(fetch!(self, ReleaseRow, fetch_optional, sql, job.to_string()))
    }

    /// The releases of a population, the newest of each channel first.
    pub async fn releases(&mut self, population: &Name) -> Result<Vec<ReleaseRow>, DbError> {
        let sql = concat!(
            "select ",
            release_columns!(),
            " from releases where population = $1 order by channel, number desc"
        );
        Ok(fetch!(self, ReleaseRow, fetch_all, sql, population.as_str()))
    }

    /// Those of them that are out, with their files.
    pub async fn releases_out(&mut self, population: &Name) -> Result<Vec<ReleaseRow>, DbError> {
        let sql = concat!(
            "select ",
            release_columns!(),
            " from releases where population = $1 and state = 'out' and deleted_at_ms is null \
             order by channel, number desc"
        );
        Ok(fetch!(self, ReleaseRow, fetch_all, sql, population.as_str()))
    }

    /// The newest release of a channel that had this file, wherever it stands now.
    pub async fn release_with_file(
        &mut self,
        population: &Name,
        channel: &Name,
        sha256: Sha256Hash,
    ) -> Result<Option<ReleaseId>, DbError> {
        let sql = "select id from releases where population = $1 and channel = $2 and sha256 = $3 \
                   order by number desc limit 1";
        let (population, channel) = (population.as_str(), channel.as_str());
        let row = fetch!(self, (Text<ReleaseId>,), fetch_optional, sql, population, channel, sha256.to_string());
        Ok(row.map(|(Text(id),)| id))
    }

    /// The number of clients that have each release of a population.
    pub async fn release_holders(&mut self, population: &Name) -> Result<BTreeMap<ReleaseId, u64>, DbError> {
        let sql = "select c.release, count(*) from client_releases c join releases r on r.id = c.release \
                   where r.population = $1 group by c.release";
        let rows = fetch!(self, (Text<ReleaseId>, i64), fetch_all, sql, population.as_str());
        Ok(rows.into_iter().map(|(Text(id), clients)| (id, clients.cast_unsigned())).collect())
    }

    /// Stores where a release stands, and what its gate came to.
    pub async fn set_release_state(
        &mut self,
        id: ReleaseId,
        state: ReleaseState,
        verdict: Option<&str>,
        now_ms: i64,
    ) -> Result<(), DbError> {
        let sql = "update releases set state = $2, verdict = coalesce($3, verdict), changed_at_ms = $4 where id = $1";
        execute!(self, sql, id.to_string(), state.as_str(), verdict, now_ms);
        Ok(())
    }

    pub async fn set_release_share(&mut self, id: ReleaseId, share: Share, now_ms: i64) -> Result<(), DbError> {
        let sql = "update releases set share = $2, changed_at_ms = $3 where id = $1";
        execute!(self, sql, id.to_string(), i64::from(share.millionths()), now_ms);
        Ok(())
    }

    /// Deletes the files of a release. An object in a store is an orphan from here on; the sweep deletes it.
    pub async fn delete_release_files(&mut self, id: ReleaseId, now_ms: i64) -> Result<(), DbError> {
        let sql = "update releases set deleted_at_ms = $2, base_sha256 = null, difference_sha256 = null, \
                   difference_bytes = null where id = $1 and deleted_at_ms is null";
        execute!(self, sql, id.to_string(), now_ms);
        self.delete_blob(&release_key(id)).await?;
        self.delete_blob(&difference_key(id)).await?;
        Ok(())
    }

    /// The release that a client said it has of a channel.
    pub async fn held_release(&mut self, client: ClientId, channel: &Name) -> Result<Option<ReleaseId>, DbError> {
        let sql = "select release from client_releases where client = $1 and channel = $2";
        let row = fetch!(self, (Text<ReleaseId>,), fetch_optional, sql, client.to_string(), channel.as_str());
        Ok(row.map(|(Text(id),)| id))
    }

    /// Stores which release a client says it has; none for none.
    pub async fn set_held_release(
        &mut self,
        client: ClientId,
        channel: &Name,
        release: Option<ReleaseId>,
        now_ms: i64,
    ) -> Result<(), DbError> {
        let (client, channel) = (client.to_string(), channel.as_str());
        let Some(release) = release else {
            execute!(self, "delete from client_releases where client = $1 and channel = $2", client, channel);
            return Ok(());
        };
        let sql = "insert into client_releases (client, channel, release, since_ms) values ($1, $2, $3, $4) \
                   on conflict (client, channel) do update set release = excluded.release, since_ms = excluded.since_ms";
        execute!(self, sql, client, channel, release.to_string(), now_ms);
        Ok(())
    }

    /// The releases that a client says it has, by channel.
    pub async fn held_releases(&mut self, client: ClientId) -> Result<Vec<HeldRelease>, DbError> {
        let sql = "select c.channel, r.number, r.job_name, r.version, c.since_ms from client_releases c \
                   join releases r on r.id = c.release where c.client = $1 order by c.channel";
        let rows = fetch!(self, HeldRow, fetch_all, sql, client.to_string());
        let held = |HeldRow { channel, number, job_name, version, since_ms }| HeldRelease {
            channel,
            number,
            job_name,
            version,
            since_ms,
        };
        Ok(rows.into_iter().map(held).collect())
    }
}
