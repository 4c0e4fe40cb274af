//! Private jobs: the ledger of what they spent, the keys of their noise, what units contributed.

use std::collections::{BTreeMap, HashMap};

use tributary_engine::privacy::Charged;
use tributary_engine::round::Contributed;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{ClientId, JobId};
use tributary_protocol::job_file::{JobFile, Mechanism};
use tributary_protocol::operator::LedgerEntry;

use super::tx::{Text, execute, execute_all, fetch, fetch_in};
use super::{DbError, RoundKey, Tx};

#[derive(sqlx::FromRow)]
struct LedgerRow {
    #[sqlx(try_from = "i64")]
    number: u32,
    #[sqlx(try_from = "i64")]
    round: u32,
    #[sqlx(try_from = "i64")]
    version: u32,
    mechanism: Text<Mechanism>,
    noise_multiplier: f64,
    sensitivity: f64,
    rate: Option<f64>,
    #[sqlx(try_from = "i64")]
    participations: u32,
    at_ms: i64,
    #[sqlx(try_from = "String")]
    previous: Sha256Hash,
    #[sqlx(try_from = "String")]
    hash: Sha256Hash,
}

#[derive(sqlx::FromRow)]
struct UnitRow {
    #[sqlx(try_from = "String")]
    job: JobId,
    unit: String,
    #[sqlx(try_from = "i64")]
    updates: u32,
    #[sqlx(try_from = "i64")]
    version: u32,
}

/// The columns of a [`LedgerRow`].
macro_rules! ledger_columns {
    () => {
        "number, round, version, mechanism, noise_multiplier, sensitivity, rate, participations, at_ms, previous, hash"
    };
}

impl From<LedgerRow> for LedgerEntry {
    fn from(row: LedgerRow) -> Self {
        Self {
            number: row.number,
            round: row.round,
            version: row.version,
            mechanism: row.mechanism.0,
            noise_multiplier: row.noise_multiplier,
            sensitivity: row.sensitivity,
            rate: row.rate,
            participations: row.participations,
            at_ms: row.at_ms,
            previous: row.previous,
            hash: row.hash,
        }
    }
}

impl Tx {
    /// Appends an entry to the ledger of a job, in the transaction that closes its round.
    ///
    /// # Errors
    /// [`DbError::Duplicate`] when the ledger has an entry of this number.
    pub async fn charge(&mut self, job: JobId, entry: &LedgerEntry) -> Result<(), DbError> {
        let sql = "insert into privacy_ledger (job, number, round, version, mechanism, noise_multiplier, sensitivity, \
                   rate, participations, at_ms, previous, hash) \
                   values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
        execute!(
            self,
            sql,
            job.to_string(),
            i64::from(entry.number),
            i64::from(entry.round),
            i64::from(entry.version),
            entry.mechanism.as_str(),
            entry.noise_multiplier,
            entry.sensitivity,
            entry.rate,
            i64::from(entry.participations),
            entry.at_ms,
            entry.previous.to_string(),
            entry.hash.to_string()
        );
        Ok(())
    }

    /// The ledger of a job, oldest entries first.
    pub async fn ledger(&mut self, job: JobId) -> Result<Vec<LedgerEntry>, DbError> {
        let sql = concat!("select ", ledger_columns!(), " from privacy_ledger where job = $1 order by number");
        let rows = fetch!(self, LedgerRow, fetch_all, sql, job.to_string());
        Ok(rows.into_iter().map(LedgerEntry::from).collect())
    }

    /// The newest entry of a job's ledger.
    pub async fn last_charge(&mut self, job: JobId) -> Result<Option<LedgerEntry>, DbError> {
        let sql =
            concat!("select ", ledger_columns!(), " from privacy_ledger where job = $1 order by number desc limit 1");
        Ok(fetch!(self, LedgerRow, fetch_optional, sql, job.to_string()).map(LedgerEntry::from))
    }

    /// What a job has spent.
    pub async fn charged(&mut self, job: JobId) -> Result<Charged, DbError> {
        let last = self.last_charge(job).await?;
        Ok(last.map_or_else(Charged::default, |last| Charged {
            releases: last.number,
            participations: last.participations,
        }))
    }

    /// Stores the key of a round's noise.
    ///
    /// # Errors
    /// [`DbError::Duplicate`] when the round has one: it is never replaced, because two releases of one sum with
    /// different noise would average it away.
    pub async fn store_round_key(&mut self, round: RoundKey, key: Sha256Hash) -> Result<(), DbError> {
        let sql = "insert into round_keys (job, task, round, key) values ($1, $2, $3, $4)";
        let (job, number) = (round.job.to_string(), i64::from(round.number));
        execute!(self, sql, job.as_str(), round.task.as_str(), number, key.to_string());
        Ok(())
    }

    /// The key of the noise of a round that is aggregating.
    pub async fn round_key(&mut self, round: RoundKey) -> Result<Option<Sha256Hash>, DbError> {
        let sql = "select key from round_keys where job = $1 and task = $2 and round = $3";
        let (job, number) = (round.job.to_string(), i64::from(round.number));
        let key = fetch!(self, (Text<Sha256Hash>,), fetch_optional, sql, job.as_str(), round.task.as_str(), number);
        Ok(key.map(|(Text(key),)| key))
    }

    /// Deletes the key of a round that has ended.
    pub async fn delete_round_key(&mut self, round: RoundKey) -> Result<(), DbError> {
        let sql = "delete from round_keys where job = $1 and task = $2 and round = $3";
        execute!(self, sql, round.job.to_string(), round.task.as_str(), i64::from(round.number));
        Ok(())
    }

    /// Stores the noised share of a round's updates that were within its clip.
    pub async fn store_clip_share(&mut self, round: RoundKey, share: f64) -> Result<(), DbError> {
        let sql = "update rounds set clip_share = $4 where job = $1 and task = $2 and number = $3";
        let (job, number) = (round.job.to_string(), i64::from(round.number));
        execute!(self, sql, job.as_str(), round.task.as_str(), number, share);
        Ok(())
    }

    /// The noised share of a round's updates that were within its clip, once it was released.
    pub async fn clip_share(&mut self, round: RoundKey) -> Result<Option<f64>, DbError> {
        let sql = "select clip_share from rounds where job = $1 and task = $2 and number = $3";
        let (job, number) = (round.job.to_string(), i64::from(round.number));
        let row = fetch!(self, (Option<f64>,), fetch_optional, sql, job.as_str(), round.task.as_str(), number);
        Ok(row.and_then(|(share,)| share))
    }

    /// Clients with an accepted report in a round.
    pub async fn reporters(&mut self, round: RoundKey) -> Result<Vec<ClientId>, DbError> {
        let sql = "select client from assignments where job = $1 and task = $2 and round = $3 and state = 'reported'";
        self.clients_of(round, sql).await
    }

    /// Clients whose reports in a round were read, whether or not they were accepted.
    pub async fn sent_in(&mut self, round: RoundKey) -> Result<Vec<ClientId>, DbError> {
        let sql = "select client from assignments \
                   where job = $1 and task = $2 and round = $3 and state in ('reported', 'rejected')";
        self.clients_of(round, sql).await
    }

    /// Clients that work for a buffer, or have reported into it.
    pub async fn in_buffer(&mut self, round: RoundKey) -> Result<Vec<ClientId>, DbError> {
        let sql = "select client from assignments \
                   where job = $1 and task = $2 and round = $3 and state in ('assigned', 'reported')";
        self.clients_of(round, sql).await
    }

    async fn clients_of(&mut self, round: RoundKey, sql: &'static str) -> Result<Vec<ClientId>, DbError> {
        let (job, number) = (round.job.to_string(), i64::from(round.number));
        let rows = fetch!(self, (Text<ClientId>,), fetch_all, sql, job.as_str(), round.task.as_str(), number);
        Ok(rows.into_iter().map(|(Text(client),)| client).collect())
    }

    /// The unit of each of these clients in a job. A client without one is left out.
    pub async fn units(&mut self, file: &JobFile, clients: &[ClientId]) -> Result<HashMap<ClientId, String>, DbError> {
        match file.unit_attribute() {
            Some(attribute) => self.granted(clients, attribute).await,
            None => Ok(clients.iter().map(|client| (*client, client.to_string())).collect()),
        }
    }

    /// The value that each of these clients was granted of an attribute. Those without are left out.
    async fn granted(&mut self, clients: &[ClientId], attribute: &str) -> Result<HashMap<ClientId, String>, DbError> {
        let ids: Vec<String> = clients.iter().map(ClientId::to_string).collect();
        let rows = fetch_in!(self, (Text<ClientId>, String), "select id, granted from clients where id in ", &ids, "");
        let mut values = HashMap::new();
        for (Text(client), granted) in rows {
            let mut granted: BTreeMap<String, String> =
                serde_json::from_str(&granted).map_err(|error| DbError::corrupt("clients.granted", error))?;
            values.extend(granted.remove(attribute).map(|value| (client, value)));
        }
        Ok(values)
    }

    /// What these units have contributed to a job. Those that have not are left out.
    pub async fn contributed(&mut self, job: JobId, units: &[String]) -> Result<HashMap<String, Contributed>, DbError> {
        let sql = "select job, unit, updates, version from privacy_units where unit in ";
        let rows = fetch_in!(self, UnitRow, sql, units, "");
        let read = |UnitRow { unit, updates, version, .. }| (unit, Contributed { updates, version });
        Ok(rows.into_iter().filter(|row| row.job == job).map(read).collect())
    }

    /// Counts an update of each of these units towards a version. Returns the most updates of one of them.
    pub async fn contribute(&mut self, job: JobId, units: &[String], version: u32) -> Result<u32, DbError> {
        let before = self.contributed(job, units).await?;
        let (job, version) = (job.to_string(), i64::from(version));
        let sql = "insert into privacy_units (job, unit, updates, version) ";
        let counted = " on conflict (unit, job) do update \
                       set updates = privacy_units.updates + 1, version = excluded.version";
        execute_all!(self, sql, units, counted, |values, unit| {
            values.push_bind(job.as_str()).push_bind(unit.as_str()).push_bind(1i64).push_bind(version);
        });
        let after = |unit: &String| before.get(unit).map_or(0, |contributed| contributed.updates) + 1;
        Ok(units.iter().map(after).max().unwrap_or(0))
    }
}
