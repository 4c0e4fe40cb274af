//! Tables that several coordinators share: nodes, leases, and seats (which node holds which waiting client).

use tributary_protocol::abilities::Abilities;
use tributary_protocol::device::Attributes;
use tributary_protocol::example_sets::ExampleSets;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{ClientId, JobId, Name};
use tributary_protocol::operator::{Lease, Node};
use tributary_protocol::state::NodeState;
use tributary_protocol::update::CodecName;

use super::tx::{Json, Text, execute, execute_all, fetch, on_postgres, stored};
use super::{DbError, Tx};
use tributary_engine::round::Candidate;

/// How often a node with leases of this length renews them: many times, so that its silence is soon known.
pub fn renew_every_ms(lease_ms: i64) -> i64 {
    lease_ms / 8
}

/// The silence after which a node is late: it has missed a renewal, and was given more than half of its time besides.
fn late_after_ms(lease_ms: i64) -> i64 {
    lease_ms / 5
}

#[derive(sqlx::FromRow)]
struct NodeRow {
    #[sqlx(try_from = "String")]
    id: Name,
    version: String,
    started_at_ms: i64,
    seen_at_ms: i64,
    lease_ms: i64,
    url: Option<String>,
}

impl NodeRow {
    fn state(&self, now_ms: i64) -> NodeState {
        match now_ms.saturating_sub(self.seen_at_ms) {
            silent_ms if silent_ms >= self.lease_ms => NodeState::Dead,
            silent_ms if silent_ms >= late_after_ms(self.lease_ms) => NodeState::Late,
            _ => NodeState::Alive,
        }
    }
}

/// The lease on a job, and its holder as last seen.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Holder {
    #[sqlx(try_from = "String")]
    pub node: Name,
    pub expires_at_ms: i64,
    /// None for a node that said goodbye or was forgotten.
    pub seen_at_ms: Option<i64>,
    lease_ms: Option<i64>,
}

impl Holder {
    /// When the holder was last seen, as far as that is known.
    pub fn seen_at_ms(&self) -> i64 {
        self.seen_at_ms.unwrap_or(self.expires_at_ms)
    }

    /// Whether it has missed a renewal, and so may be dead.
    pub fn is_missing(&self, now_ms: i64) -> bool {
        let late_ms = late_after_ms(self.lease_ms.unwrap_or(0));
        now_ms >= self.expires_at_ms || self.seen_at_ms.is_none_or(|seen_at_ms| now_ms - seen_at_ms >= late_ms)
    }
}

/// A job changed hands because its coordinator died.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct TakeoverRow {
    pub at_ms: i64,
    pub from_node: String,
    pub to_node: String,
    /// When the dead coordinator was last seen.
    pub seen_at_ms: i64,
}

#[derive(sqlx::FromRow)]
struct LeaseRow {
    #[sqlx(try_from = "String")]
    job: JobId,
    #[sqlx(try_from = "String")]
    node: Name,
    #[sqlx(try_from = "i64")]
    token: u64,
    expires_at_ms: i64,
}

#[derive(sqlx::FromRow)]
struct SeatRow {
    #[sqlx(try_from = "String")]
    client: ClientId,
    #[sqlx(try_from = "i64")]
    number: u64,
    #[sqlx(try_from = "String")]
    attributes: Json<Attributes>,
    #[sqlx(try_from = "i64")]
    examples: u64,
    #[sqlx(try_from = "String")]
    sets: Json<ExampleSets>,
    #[sqlx(try_from = "String")]
    codecs: Json<Vec<CodecName>>,
    #[sqlx(try_from = "String")]
    abilities: Json<Abilities>,
    schema_sha256: Option<Text<Sha256Hash>>,
    answers: bool,
    masks: bool,
    signs: bool,
    relay: Option<i64>,
}

impl From<SeatRow> for Candidate {
    fn from(row: SeatRow) -> Self {
        Self {
            client: row.client,
            number: row.number,
            attributes: row.attributes.0,
            examples: row.examples,
            sets: row.sets.0,
            codecs: row.codecs.0,
            abilities: row.abilities.0,
            schema: row.schema_sha256.map(|Text(schema)| schema),
            answers: row.answers,
            masks: row.masks,
            signs: row.signs,
            relay: row.relay.and_then(|places| u32::try_from(places).ok()),
            share: None,
        }
    }
}

impl Tx {
    /// Records that a node is alive.
    pub async fn node_seen(
        &mut self,
        node: &Name,
        version: &str,
        started_at_ms: i64,
        now_ms: i64,
        lease_ms: i64,
        url: Option<&str>,
    ) -> Result<(), DbError> {
        let sql = "insert into nodes (id, version, started_at_ms, seen_at_ms, lease_ms, url) \
                   values ($1, $2, $3, $4, $5, $6) on conflict (id) do update \
                   set version = $2, started_at_ms = $3, seen_at_ms = $4, lease_ms = $5, url = $6";
        execute!(self, sql, node.as_str(), version, started_at_ms, now_ms, lease_ms, url);
        Ok(())
    }

    /// Deletes the nodes that were last seen before `before_ms`, and the seats of those that were last seen before
    /// `seated_ms`.
    pub async fn forget_nodes(&mut self, before_ms: i64, seated_ms: i64) -> Result<(), DbError> {
        execute!(self, "delete from nodes where seen_at_ms < $1", before_ms);
        execute!(self, "delete from seats where node not in (select id from nodes where seen_at_ms >= $1)", seated_ms);
        Ok(())
    }

    /// Deletes a node that stops, with its seats, and gives its leases up. Their rows stay, because the token of a
    /// lease counts on: it names a takeover.
    pub async fn node_leaves(&mut self, node: &Name) -> Result<(), DbError> {
        execute!(self, "update leases set expires_at_ms = 0 where node = $1", node.as_str());
        execute!(self, "delete from seats where node = $1", node.as_str());
        execute!(self, "delete from nodes where id = $1", node.as_str());
        Ok(())
    }

    /// Nodes by name, after `after`, as they are at `now_ms`.
    pub async fn nodes(&mut self, after: &str, limit: u32, now_ms: i64) -> Result<Vec<Node>, DbError> {
        let sql = "select id, version, started_at_ms, seen_at_ms, lease_ms, url from nodes where id > $1 order by id limit $2";
        let rows = fetch!(self, NodeRow, fetch_all, sql, after, i64::from(limit));
        let node = |row: NodeRow| Node {
            state: row.state(now_ms),
            id: row.id,
            version: row.version,
            started_at_ms: row.started_at_ms,
            seen_at_ms: row.seen_at_ms,
            leases: Vec::new(),
            shards: Vec::new(),
            url: row.url,
        };
        Ok(rows.into_iter().map(node).collect())
    }

    /// The leases on jobs that have not ended. The lease on an ended job stays, because its token counts on.
    pub async fn leases(&mut self) -> Result<Vec<(Name, Lease)>, DbError> {
        let sql = "select l.job, l.node, l.token, l.expires_at_ms from leases l join jobs j on j.id = l.job \
                   where l.expires_at_ms > 0 and (j.state not in ('stopped', 'completed') or exists (select 1 from rounds r where r.job = j.id \
                   and r.phase in ('selecting', 'training', 'aggregating'))) order by l.job";
        let rows = fetch!(self, LeaseRow, fetch_all, sql);
        let lease =
            |row: LeaseRow| (row.node, Lease { job: row.job, token: row.token, expires_at_ms: row.expires_at_ms });
        Ok(rows.into_iter().map(lease).collect())
    }

    /// Takes or renews the lease on a job until `expires_at_ms`. Returns false when another node has one that has not
    /// expired.
    pub async fn take_lease(
        &mut self,
        job: JobId,
        node: &Name,
        now_ms: i64,
        expires_at_ms: i64,
    ) -> Result<bool, DbError> {
        let sql = "insert into leases (job, node, token, expires_at_ms) values ($1, $2, 1, $4) \
                   on conflict (job) do update set node = $2, expires_at_ms = $4, \
                   token = case when leases.node = $2 then leases.token else leases.token + 1 end \
                   where leases.node = $2 or leases.expires_at_ms <= $3";
        Ok(execute!(self, sql, job.to_string(), node.as_str(), now_ms, expires_at_ms) == 1)
    }

    /// Renews the leases of a node and returns their jobs. Includes expired leases that no other node has taken.
    pub async fn renew_leases(&mut self, node: &Name, expires_at_ms: i64) -> Result<Vec<JobId>, DbError> {
        let sql = "update leases set expires_at_ms = $2 where node = $1 and expires_at_ms > 0 returning job";
        let rows = fetch!(self, (String,), fetch_all, sql, node.as_str(), expires_at_ms);
        rows.into_iter().map(|(id,)| id.parse().map_err(|error| DbError::corrupt("leases.job", error))).collect()
    }

    /// Which node has the lease on a job, expired or not; none where it was given up.
    pub async fn holder(&mut self, job: JobId) -> Result<Option<Holder>, DbError> {
        let sql = "select l.node, l.expires_at_ms, n.seen_at_ms, n.lease_ms from leases l \
                   left join nodes n on n.id = l.node where l.job = $1 and l.expires_at_ms > 0";
        Ok(fetch!(self, Holder, fetch_optional, sql, job.to_string()))
    }

    /// Stores that a job changed hands because its coordinator died.
    pub async fn insert_takeover(&mut self, job: JobId, to: &Name, from: &Holder, now_ms: i64) -> Result<(), DbError> {
        let sql = "insert into takeovers (job, token, at_ms, from_node, to_node, seen_at_ms) \
                   select job, token, $2, $3, $4, $5 from leases where job = $1";
        execute!(self, sql, job.to_string(), now_ms, from.node.as_str(), to.as_str(), from.seen_at_ms());
        Ok(())
    }

    /// The last time that a job changed hands, between two moments.
    pub async fn last_takeover(
        &mut self,
        job: JobId,
        from_ms: i64,
        until_ms: i64,
    ) -> Result<Option<TakeoverRow>, DbError> {
        let sql = "select at_ms, from_node, to_node, seen_at_ms from takeovers \
                   where job = $1 and at_ms >= $2 and at_ms <= $3 order by token desc limit 1";
        Ok(fetch!(self, TakeoverRow, fetch_optional, sql, job.to_string(), from_ms, until_ms))
    }

    /// Records that a node holds these clients of these populations until `until_ms`. They come in the order of their
    /// ids.
    pub async fn sit(&mut self, node: &Name, seats: &[(&Name, &Candidate)], until_ms: i64) -> Result<(), DbError> {
        let mut rows = Vec::with_capacity(seats.len());
        for (population, candidate) in seats {
            let Candidate { attributes, codecs, abilities, sets, .. } = candidate;
            let texts = [Json::text(attributes)?, Json::text(codecs)?, Json::text(abilities)?, Json::text(sets)?];
            rows.push((population, candidate, texts));
        }
        let sql = "insert into seats (node, until_ms, population, client, number, examples, schema_sha256, answers, \
                   masks, signs, relay, attributes, codecs, abilities, sets) ";
        let again = " on conflict (client) do update set node = excluded.node, until_ms = excluded.until_ms, \
                     population = excluded.population, number = excluded.number, examples = excluded.examples, \
                     schema_sha256 = excluded.schema_sha256, answers = excluded.answers, masks = excluded.masks, \
                     signs = excluded.signs, relay = excluded.relay, attributes = excluded.attributes, \
                     codecs = excluded.codecs, abilities = excluded.abilities, sets = excluded.sets";
        execute_all!(self, sql, &rows, again, |values, (population, candidate, texts)| {
            values.push_bind(node.as_str()).push_bind(until_ms).push_bind(population.as_str());
            values.push_bind(candidate.client.to_string()).push_bind(stored(candidate.number));
            values.push_bind(stored(candidate.examples));
            values.push_bind(candidate.schema.map(|schema| schema.to_string()));
            values.push_bind(candidate.answers).push_bind(candidate.masks).push_bind(candidate.signs);
            values.push_bind(candidate.relay.map(i64::from));
            for text in texts {
                values.push_bind(text.as_str());
            }
        });
        Ok(())
    }

    /// Deletes the seats of these clients at this node.
    pub async fn stand_up(&mut self, node: &Name, clients: &[ClientId]) -> Result<(), DbError> {
        self.lock_seats(clients).await?;
        execute_all!(self, "delete from seats where (client, node) in (", clients, ")", |values, client| {
            values.push_bind(client.to_string()).push_bind(node.as_str());
        });
        Ok(())
    }

    /// Deletes the seats of these clients, whichever nodes hold them.
    pub async fn stand_up_everywhere(&mut self, clients: &[ClientId]) -> Result<(), DbError> {
        self.lock_seats(clients).await?;
        execute_all!(self, "delete from seats where client in (", clients, ")", |values, client| {
            values.push_bind(client.to_string());
        });
        Ok(())
    }

    /// Locks seats in the order in which [`Self::sit`] writes them: a statement for several rows takes them in an order
    /// of its own, and two transactions could wait for each other.
    async fn lock_seats(&mut self, clients: &[ClientId]) -> Result<(), DbError> {
        let ids: Vec<String> = clients.iter().map(ClientId::to_string).collect();
        let sql = "select from seats where client = any($1) order by client collate \"C\" for update";
        on_postgres!(self, sql, ids.as_slice());
        Ok(())
    }

    /// Clients of a population that any node holds.
    pub async fn seated(&mut self, population: &Name, now_ms: i64) -> Result<Vec<Candidate>, DbError> {
        let sql = "select client, number, attributes, examples, sets, codecs, abilities, schema_sha256, answers, masks, \
                   signs, relay from seats where population = $1 and until_ms > $2";
        let rows = fetch!(self, SeatRow, fetch_all, sql, population.as_str(), now_ms);
        Ok(rows.into_iter().map(Candidate::from).collect())
    }

    /// Clients that any node holds, with their populations.
    pub async fn seats(&mut self, now_ms: i64) -> Result<Vec<(ClientId, Name)>, DbError> {
        let sql = "select client, population from seats where until_ms > $1";
        let rows = fetch!(self, (Text<ClientId>, Text<Name>), fetch_all, sql, now_ms);
        Ok(rows.into_iter().map(|(Text(client), Text(population))| (client, population)).collect())
    }

    /// The clients with an open assignment that were given it or heard of since `since_ms`, with their populations.
    pub async fn working(&mut self, since_ms: i64) -> Result<Vec<(ClientId, Name)>, DbError> {
        let sql = "select c.id, c.population from assignments a join clients c on c.id = a.client \
                   where a.state = 'assigned' and (a.assigned_at_ms >= $1 or c.last_seen_at_ms >= $1)";
        let rows = fetch!(self, (Text<ClientId>, Text<Name>), fetch_all, sql, since_ms);
        Ok(rows.into_iter().map(|(Text(client), Text(population))| (client, population)).collect())
    }

    /// Clients with an open assignment of a job.
    pub async fn working_clients(&mut self, job: JobId) -> Result<Vec<ClientId>, DbError> {
        let rows = fetch!(
            self,
            (String,),
            fetch_all,
            "select client from assignments where job = $1 and state = 'assigned'",
            job.to_string()
        );
        clients(rows)
    }

    /// Clients with an open assignment of any job.
    pub async fn working_clients_of_all(&mut self) -> Result<Vec<ClientId>, DbError> {
        let rows = fetch!(self, (String,), fetch_all, "select client from assignments where state = 'assigned'");
        clients(rows)
    }

    /// Notifies the other coordinators when this transaction commits, and only then. Does nothing on SQLite, which has
    /// one coordinator.
    pub async fn notify(&mut self, news: &str) -> Result<(), DbError> {
        let sender = self.sender();
        on_postgres!(self, "select pg_notify('tributary', $1 || ' ' || $2)", sender.as_deref(), news);
        Ok(())
    }
}

fn clients(rows: Vec<(String,)>) -> Result<Vec<ClientId>, DbError> {
    rows.into_iter().map(|(id,)| id.parse().map_err(|error| DbError::corrupt("assignments.client", error))).collect()
}
