//! Enrolled clients.

use tributary_protocol::device::Attributes;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{ClientId, JobId, Name, TokenId};
use tributary_protocol::operator::Client;

use super::tx::{Json, execute, fetch, stored};
use super::{DbError, Tx};

/// A stored client.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct ClientRow {
    /// Its id.
    #[sqlx(try_from = "String")]
    pub id: ClientId,
    /// Its population.
    #[sqlx(try_from = "String")]
    pub population: Name,
    /// Its number in the order of enrolment, from 1.
    #[sqlx(try_from = "i64")]
    pub number: u64,
    /// What it said it is.
    #[sqlx(try_from = "String")]
    pub attributes: Json<Attributes>,
    /// Examples that it said it holds.
    #[sqlx(try_from = "i64")]
    pub examples: u64,
    /// When it enrolled.
    pub created_at_ms: i64,
    /// When it was last heard of, to the minute.
    pub last_seen_at_ms: i64,
}

#[derive(sqlx::FromRow)]
struct ClientWithCounts {
    #[sqlx(flatten)]
    client: ClientRow,
    #[sqlx(try_from = "i64")]
    reported: u64,
    #[sqlx(try_from = "i64")]
    expired: u64,
    #[sqlx(try_from = "i64")]
    failed: u64,
}

#[derive(sqlx::FromRow)]
struct LastRound {
    #[sqlx(try_from = "String")]
    client: ClientId,
    #[sqlx(try_from = "i64")]
    round: u32,
}

impl Tx {
    /// Takes the next client number of a population (from 1).
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn next_client_number(&mut self, population: &Name) -> Result<u64, DbError> {
        let sql = "update populations set clients = clients + 1 where name = $1 returning clients";
        let (number,) = fetch!(self, (i64,), fetch_one, sql, population.as_str());
        u64::try_from(number).map_err(|error| DbError::corrupt("populations.clients", error))
    }

    /// Stores a client by the hash of its secret.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn insert_client(
        &mut self,
        client: &ClientRow,
        token: TokenId,
        secret: &Sha256Hash,
    ) -> Result<(), DbError> {
        let sql = "insert into clients (id, population, number, token, secret_sha256, attributes, examples, \
                   created_at_ms, last_seen_at_ms) values ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
        execute!(
            self,
            sql,
            client.id.to_string(),
            client.population.as_str(),
            stored(client.number),
            token.to_string(),
            secret.to_string(),
            Json::text(&client.attributes.0)?,
            stored(client.examples),
            client.created_at_ms,
            client.last_seen_at_ms
        );
        Ok(())
    }

    /// The client of this secret.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn client_by_secret(&mut self, secret: &Sha256Hash) -> Result<Option<ClientRow>, DbError> {
        let sql = "select id, population, number, attributes, examples, created_at_ms, last_seen_at_ms \
                   from clients where secret_sha256 = $1";
        Ok(fetch!(self, ClientRow, fetch_optional, sql, secret.to_string()))
    }

    /// Stores what a client said of itself at a check-in.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn client_seen(
        &mut self,
        id: ClientId,
        attributes: &Attributes,
        examples: u64,
        now_ms: i64,
    ) -> Result<(), DbError> {
        let sql = "update clients set attributes = $2, examples = $3, last_seen_at_ms = $4 where id = $1";
        execute!(self, sql, id.to_string(), Json::text(attributes)?, stored(examples), now_ms);
        Ok(())
    }

    /// Clients of a population by number, after `after`, with how their assignments ended.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn clients(&mut self, population: &Name, after: u64, limit: u32) -> Result<Vec<Client>, DbError> {
        let sql = "select id, population, number, attributes, examples, created_at_ms, last_seen_at_ms, \
                   (select count(*) from assignments where client = clients.id and state = 'reported') as reported, \
                   (select count(*) from assignments where client = clients.id and state = 'expired') as expired, \
                   (select count(*) from assignments where client = clients.id and state in ('failed', 'rejected')) as failed \
                   from clients where population = $1 and number > $2 order by number limit $3";
        let rows = fetch!(self, ClientWithCounts, fetch_all, sql, population.as_str(), stored(after), i64::from(limit));
        Ok(rows.into_iter().map(with_counts).collect())
    }

    /// For each client that trained in round `since` of the job or later: the last such round.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn last_rounds(&mut self, job: JobId, since: u32) -> Result<Vec<(ClientId, u32)>, DbError> {
        let sql = "select client, max(round) as round from assignments \
                   where job = $1 and task = 'train' and round >= $2 group by client";
        let rows = fetch!(self, LastRound, fetch_all, sql, job.to_string(), i64::from(since));
        Ok(rows.into_iter().map(|row| (row.client, row.round)).collect())
    }
}

fn with_counts(row: ClientWithCounts) -> Client {
    let ClientWithCounts { client, reported, expired, failed } = row;
    Client {
        id: client.id,
        number: client.number,
        population: client.population,
        attributes: client.attributes.0,
        examples: client.examples,
        created_at_ms: client.created_at_ms,
        last_seen_at_ms: client.last_seen_at_ms,
        reported,
        expired,
        failed,
    }
}
