//! The deletion of what is stored of a client.

use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{ClientId, JobId};

use super::changes::ClientChange;
use super::tx::{Text, execute, fetch, on_postgres, stored};
use super::{ClientRow, DbError, Tx};

impl Tx {
    /// The client, whose row is locked until the transaction ends.
    pub async fn client_locked(&mut self, id: ClientId) -> Result<Option<ClientRow>, DbError> {
        on_postgres!(self, "select id from clients where id = $1 for update", id.to_string());
        Ok(self.known_client(id).await?.map(|known| known.client))
    }

    /// The jobs that have a round open in which the client was drawn.
    pub async fn jobs_at_work(&mut self, id: ClientId) -> Result<Vec<JobId>, DbError> {
        let sql = "select distinct a.job from assignments a join rounds r on r.job = a.job and r.task = a.task \
                   and r.number = a.round where a.client = $1 and r.ended_at_ms is null order by a.job";
        let rows = fetch!(self, (Text<JobId>,), fetch_all, sql, id.to_string());
        Ok(rows.into_iter().map(|(Text(job),)| job).collect())
    }

    /// Deletes a client with its history. Whether it took part in rounds that are open stays with `nobody`, a client
    /// without attributes, which [`Self::delete_nobodies`] deletes once they have ended. The key of a client that may
    /// not take part stays too, so that its device does not come back as another client.
    pub async fn erase_client(
        &mut self,
        client: &ClientRow,
        nobody: (ClientId, u64, Sha256Hash),
        now_ms: i64,
    ) -> Result<(), DbError> {
        let (id, population) = (client.id.to_string(), client.population.as_str());
        self.changes(client.id, || ClientChange::Identity);
        let (other, number, secret) = nobody;
        let sql = "insert into clients (id, population, number, token, secret_sha256, secret_at_ms, key_sha256, \
                   attributes, examples, created_at_ms, last_seen_at_ms, standing, standing_at_ms, is_nobody) \
                   select $2, population, $3, token, $4, $5, case when standing <> 'active' then key_sha256 end, \
                   '{}', 0, $5, 0, case when standing = 'active' then 'revoked' else standing end, $5, 1 \
                   from clients where id = $1";
        execute!(self, sql, id.as_str(), other.to_string(), stored(number), secret.to_string(), now_ms);
        let sql = "update assignments set client = $2 where client = $1 and exists (select 1 from rounds r \
                   where r.job = assignments.job and r.task = assignments.task and r.number = assignments.round \
                   and r.ended_at_ms is null)";
        execute!(self, sql, id.as_str(), other.to_string());
        execute!(self, "delete from assignments where client = $1", id.as_str());
        execute!(self, "delete from members where client = $1", id.as_str());
        execute!(self, "delete from client_releases where client = $1", id.as_str());
        execute!(self, "delete from clients where id = $1", id.as_str());
        self.erase_units(client, population).await?;
        self.delete_nobodies().await.map(drop)
    }

    /// Forgets what a client contributed to private jobs: as itself, or as a person of whom no other client is left.
    async fn erase_units(&mut self, client: &ClientRow, population: &str) -> Result<(), DbError> {
        execute!(self, "delete from privacy_units where unit = $1", client.id.to_string());
        for value in client.attributes.0.as_map().values() {
            let text = serde_json::to_string(value).map_err(|error| DbError::corrupt("clients.attributes", error))?;
            let sql = "delete from privacy_units where unit = $1 \
                       and job in (select id from jobs where population = $2) \
                       and not exists (select 1 from clients where population = $2 and attributes like $3 escape '!')";
            let pattern = text.replace('!', "!!").replace('%', "!%").replace('_', "!_");
            execute!(self, sql, value.as_str(), population, format!("%:{pattern}%"));
        }
        Ok(())
    }

    /// Deletes what was left of erased clients and is not needed any more. Returns how many there were.
    pub async fn delete_nobodies(&mut self) -> Result<u64, DbError> {
        let sql = "delete from assignments where client in (select id from clients where is_nobody = 1) \
                   and not exists (select 1 from rounds r where r.job = assignments.job and r.task = assignments.task \
                   and r.number = assignments.round and r.ended_at_ms is null)";
        execute!(self, sql);
        let sql = "delete from clients where is_nobody = 1 and key_sha256 is null \
                   and not exists (select 1 from assignments a where a.client = clients.id)";
        Ok(execute!(self, sql))
    }
}
