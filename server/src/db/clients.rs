//! Enrolled clients.

use std::collections::BTreeMap;

use tributary_engine::round::LastReport;
use tributary_protocol::abilities::Abilities;
use tributary_protocol::device::{Attributes, Consent};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{ClientId, JobId, Name, TokenId};
use tributary_protocol::operator::{Client, ClientOrder, Order};
use tributary_protocol::relay::RELAY_ATTRIBUTE;
use tributary_protocol::state::Standing;

use super::changes::{ClientChange, Seen};
use super::jobs::number;
use super::needed::goal_met;
use super::software::Software;
use super::tx::{Json, Text, execute, fetch, stored};
use super::{DbError, Tx};

#[derive(Clone, Debug, sqlx::FromRow)]
pub struct ClientRow {
    #[sqlx(try_from = "String")]
    pub id: ClientId,
    #[sqlx(try_from = "String")]
    pub population: Name,
    /// Its number in the order of enrolment, from 1. Cohorts are drawn by it.
    #[sqlx(try_from = "i64")]
    pub number: u64,
    /// As the client declared them at its latest check-in, with the granted ones.
    #[sqlx(try_from = "String")]
    pub attributes: Json<Attributes>,
    /// Those that its enrolment token granted.
    #[sqlx(try_from = "String")]
    pub granted: Json<Attributes>,
    #[sqlx(try_from = "String")]
    pub standing: Standing,
    /// Kind of its SDK, as of its latest check-in.
    pub sdk: Option<Text<Name>>,
    /// Release of its SDK in its own words.
    pub sdk_version: Option<String>,
    /// What its SDK can do.
    #[sqlx(try_from = "String")]
    pub abilities: Json<Abilities>,
    /// Number of examples that the client declared.
    #[sqlx(try_from = "i64")]
    pub examples: u64,
    /// The names of its example sets, in order.
    #[sqlx(try_from = "String")]
    pub sets: Json<Vec<Name>>,
    /// When the client enrolled.
    pub created_at_ms: i64,
    /// Time of the latest check-in, rounded to the minute.
    pub last_seen_at_ms: i64,
}

impl ClientRow {
    /// Its SDK, as of its latest check-in.
    pub fn software(&self) -> Software {
        let kind = self.sdk.as_ref().map(|Text(kind)| kind.clone());
        Software { kind, version: self.sdk_version.clone(), abilities: self.abilities.0 }
    }

    /// Whether its token lets it send the sums of a relay.
    pub fn is_relay(&self) -> bool {
        self.granted.0.as_map().get(RELAY_ATTRIBUTE).is_some_and(|value| value == "true")
    }
}

#[derive(sqlx::FromRow)]
struct ClientWithCounts {
    #[sqlx(flatten)]
    client: ClientRow,
    standing_reason: Option<String>,
    consent: Option<Text<Json<Consent>>>,
    certificate_until_ms: Option<i64>,
    #[sqlx(try_from = "i64")]
    reported: u64,
    #[sqlx(try_from = "i64")]
    expired: u64,
    #[sqlx(try_from = "i64")]
    spare: u64,
    #[sqlx(try_from = "i64")]
    failed: u64,
    #[sqlx(try_from = "i64")]
    rejected: u64,
    #[sqlx(try_from = "i64")]
    bytes_up: u64,
    #[sqlx(try_from = "i64")]
    bytes_down: u64,
    work_ms_mean: Option<i64>,
    /// Where it stands in the order of a list; smaller is earlier.
    #[sqlx(default)]
    place: i64,
}

/// A page of clients: filter and order.
#[derive(Clone, Copy, Debug)]
pub struct ClientsList<'a> {
    pub population: &'a Name,
    /// Only clients whose id, number or attributes contain this text; all clients when it is empty.
    pub search: &'a str,
    pub order: ClientOrder,
    pub direction: Order,
    /// The end of the previous page, as [`Tx::clients`] returned it; none for the first page.
    pub after: Option<(i64, u64)>,
    /// Number of clients on the page.
    pub limit: u32,
}

/// Assignments `a` of stragglers that their rounds did not need, and that came back. Few are asked about their round.
macro_rules! is_spare {
    () => {
        concat!(
            "a.state = 'expired' and (a.late_at_ms is not null or a.stopped_at_ms is not null) \
         and exists (select 1 from rounds r where r.job = a.job and r.task = a.task and r.number = a.round and ",
            goal_met!(),
            ")"
        )
    };
}

/// Counts of the assignments `a` of one client.
macro_rules! counts {
    () => {
        concat!(
            "count(case when a.state = 'reported' then 1 end) as reported, \
         count(case when a.state = 'expired' then 1 end) as expired, count(case when ",
            is_spare!(),
            " then 1 end) as spare, \
         count(case when a.state in ('failed', 'rejected') then 1 end) as failed, \
         count(case when a.state = 'rejected' then 1 end) as rejected, \
         cast(sum(a.bytes_up) as bigint) as bytes_up, cast(sum(a.bytes_down) as bigint) as bytes_down, \
         cast(avg(a.work_ms) as bigint) as work_ms_mean, \
         1000000 * (count(case when a.state in ('expired', 'failed', 'rejected') then 1 end) - count(case when ",
            is_spare!(),
            " then 1 end)) / case when count(a.ended_at_ms) = 0 then 1 else count(a.ended_at_ms) end as drops"
        )
    };
}

/// Clients `c` with their counts `s`; a client without assignments has none.
macro_rules! columns_with_counts {
    () => {
        "c.id, c.population, c.number, c.attributes, c.granted, c.standing, c.standing_reason, c.consent, c.certificate_until_ms, c.sdk, \
         c.sdk_version, c.abilities, c.examples, c.sets, \
         c.created_at_ms, \
         c.last_seen_at_ms, \
         coalesce(s.reported, 0) as reported, coalesce(s.expired, 0) as expired, coalesce(s.spare, 0) as spare, coalesce(s.failed, 0) as failed, \
         coalesce(s.rejected, 0) as rejected, coalesce(s.bytes_up, 0) as bytes_up, \
         coalesce(s.bytes_down, 0) as bytes_down, s.work_ms_mean, coalesce(s.drops, 0) as drops"
    };
}

/// Clients of population `$1` that match the pattern `$2` in id, number or attributes.
macro_rules! found {
    () => {
        "population = $1 and is_nobody = 0 and ($2 = '' or lower(id) like $2 escape '!' or lower(attributes) like $2 escape '!' \
         or cast(number as text) like $2 escape '!')"
    };
}

#[derive(sqlx::FromRow)]
struct LastRound {
    #[sqlx(try_from = "String")]
    client: ClientId,
    #[sqlx(try_from = "i64")]
    round: u32,
}

#[derive(sqlx::FromRow)]
struct LastReportRow {
    #[sqlx(try_from = "String")]
    client: ClientId,
    loss: f64,
    weight: i64,
    work_ms: i64,
    #[sqlx(try_from = "i64")]
    round: u32,
}

impl Tx {
    /// How many clients of a population checked in or enrolled at this time or later.
    pub async fn clients_seen(&mut self, population: &Name, since_ms: i64) -> Result<u64, DbError> {
        let sql = "select count(*) from clients where population = $1 and last_seen_at_ms >= $2";
        let (clients,) = fetch!(self, (i64,), fetch_one, sql, population.as_str(), since_ms);
        Ok(u64::try_from(clients).unwrap_or(0))
    }

    /// How many active clients of a population with these attributes checked in at this time or later; at most `most`.
    pub async fn clients_lately(
        &mut self,
        population: &Name,
        attributes: &BTreeMap<String, String>,
        (since_ms, most): (i64, u32),
    ) -> Result<u32, DbError> {
        // Of a large fleet the first ones show that there are enough.
        let limit = if attributes.is_empty() { most } else { most.saturating_mul(100) };
        let sql = "select attributes from clients where population = $1 and last_seen_at_ms >= $2 \
                   and standing = 'active' limit $3";
        let rows =
            fetch!(self, (Text<Json<Attributes>>,), fetch_all, sql, population.as_str(), since_ms, i64::from(limit));
        let clients = rows.iter().filter(|(Text(Json(own)),)| own.include(attributes)).count();
        Ok(u32::try_from(clients).unwrap_or(most).min(most))
    }

    /// Takes the next client number of a population, from 1.
    pub async fn next_client_number(&mut self, population: &Name) -> Result<u64, DbError> {
        let sql = "update populations set clients = clients + 1 where name = $1 returning clients";
        let (number,) = fetch!(self, (i64,), fetch_one, sql, population.as_str());
        u64::try_from(number).map_err(|error| DbError::corrupt("populations.clients", error))
    }

    /// Stores a client, and the hash of its secret instead of the secret.
    pub async fn insert_client(
        &mut self,
        client: &ClientRow,
        token: TokenId,
        secret: &Sha256Hash,
        consent: Option<&Consent>,
    ) -> Result<(), DbError> {
        let sql = "insert into clients (id, population, number, token, secret_sha256, attributes, granted, \
                   examples, created_at_ms, last_seen_at_ms, secret_at_ms, consent) \
                   values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $9, $11)";
        execute!(
            self,
            sql,
            client.id.to_string(),
            client.population.as_str(),
            stored(client.number),
            token.to_string(),
            secret.to_string(),
            Json::text(&client.attributes.0)?,
            Json::text(&client.granted.0)?,
            stored(client.examples),
            client.created_at_ms,
            client.last_seen_at_ms,
            consent.map(Json::text).transpose()?
        );
        Ok(())
    }

    /// Changes the standing of a client, unless it is revoked, and returns its population and number. None when nothing
    /// changed.
    pub async fn change_standing(
        &mut self,
        id: ClientId,
        standing: Standing,
        reason: Option<&str>,
        now_ms: i64,
    ) -> Result<Option<(Name, u64)>, DbError> {
        let sql = "update clients set standing = $2, standing_reason = $3, standing_at_ms = $4 \
                   where id = $1 and standing <> 'revoked' and standing <> $2 returning population, number";
        self.changes(id, || ClientChange::Identity);
        let (id, standing) = (id.to_string(), standing.as_str());
        let row = fetch!(self, (Text<Name>, i64), fetch_optional, sql, id, standing, reason, now_ms);
        Ok(row.map(|(Text(population), number)| (population, u64::try_from(number).unwrap_or(0))))
    }

    /// Whether the last `updates` updates of a client were all rejected, since its standing was changed.
    pub async fn only_rejections(&mut self, id: ClientId, updates: u32) -> Result<bool, DbError> {
        let sql = "select count(*) from (select state from assignments \
                   where client = $1 and state in ('reported', 'rejected') \
                   and ended_at_ms > (select standing_at_ms from clients where id = $1) \
                   order by ended_at_ms desc limit $2) as last where state = 'rejected'";
        let (rejected,) = fetch!(self, (i64,), fetch_one, sql, id.to_string(), i64::from(updates));
        Ok(rejected == i64::from(updates))
    }

    /// The clients that an enrolment token enrolled and that are not revoked.
    pub async fn clients_of_token(&mut self, token: TokenId) -> Result<Vec<ClientId>, DbError> {
        let sql = "select id from clients where token = $1 and standing <> 'revoked' order by number";
        let rows = fetch!(self, (Text<ClientId>,), fetch_all, sql, token.to_string());
        Ok(rows.into_iter().map(|(Text(id),)| id).collect())
    }

    /// Stores what a client declared at a check-in: its examples without a name, and the names of its example sets.
    pub async fn client_seen(
        &mut self,
        id: ClientId,
        attributes: &Attributes,
        software: &Software,
        examples: (u64, &[Name]),
        now_ms: i64,
    ) -> Result<(), DbError> {
        let sql = "update clients set attributes = $2, examples = $3, last_seen_at_ms = $4, sdk = $5, \
                   sdk_version = $6, abilities = $7, sets = $8 where id = $1";
        let (examples, sets) = examples;
        let Software { kind, version, abilities } = software;
        execute!(
            self,
            sql,
            id.to_string(),
            Json::text(attributes)?,
            stored(examples),
            now_ms,
            kind.as_ref().map(Name::as_str),
            version.as_deref(),
            Json::text(abilities)?,
            Json::text(&sets)?
        );
        let seen = || {
            let (attributes, software, sets) = (attributes.clone(), software.clone(), sets.to_vec());
            Seen { attributes, software, examples, sets, at_ms: now_ms }
        };
        self.changes(id, || ClientChange::Seen(Box::new(seen())));
        Ok(())
    }

    /// Clients of a population with the outcomes of their assignments. The pair with each client is the cursor of a
    /// page that ends with it.
    pub async fn clients(&mut self, list: &ClientsList<'_>) -> Result<Vec<(Client, (i64, u64))>, DbError> {
        let by_number = concat!(
            "with page as (select * from clients where ",
            found!(),
            " and number > $4 and $3 = $3 and $6 = $6 and $7 = $7 order by number limit $5), \
             s as (select page.id as client, ",
            counts!(),
            " from page left join assignments a on a.client = page.id group by page.id) select ",
            columns_with_counts!(),
            " from s join clients c on c.id = s.client order by c.number"
        );
        let by_client = concat!(
            "with placed as (select c.*, $7 * case $6 when 'number' then number when 'last_seen' then last_seen_at_ms \
             else examples end as place from clients c where ",
            found!(),
            "), page as (select * from placed where place > $3 or (place = $3 and number > $4) \
             order by place, number limit $5), s as (select page.id as client, min(page.place) as place, ",
            counts!(),
            " from page left join assignments a on a.client = page.id group by page.id) select ",
            columns_with_counts!(),
            ", s.place from s join clients c on c.id = s.client order by s.place, c.number"
        );
        // Only these orders need the counts of all clients before they can cut a page.
        let by_counts = concat!(
            "with page as (select id from clients where ",
            found!(),
            "), s as (select page.id as client, ",
            counts!(),
            " from page left join assignments a on a.client = page.id group by page.id), placed as (select ",
            columns_with_counts!(),
            ", coalesce($7 * case $6 when 'reported' then coalesce(s.reported, 0) \
             when 'late' then coalesce(s.expired, 0) - coalesce(s.spare, 0) when 'failed' then coalesce(s.failed, 0) \
             when 'drop_rate' then coalesce(s.drops, 0) when 'up' then coalesce(s.bytes_up, 0) \
             else s.work_ms_mean end, 4611686018427387904) as place from s join clients c on c.id = s.client) \
             select * from placed where place > $3 or (place = $3 and number > $4) order by place, number limit $5"
        );
        let is_by_number = list.order == ClientOrder::Number && list.direction == Order::Asc;
        let sql = match list.order {
            ClientOrder::Number if is_by_number => by_number,
            ClientOrder::Number | ClientOrder::LastSeen | ClientOrder::Examples => by_client,
            _ => by_counts,
        };
        let (place, after) = list.after.unwrap_or((i64::MIN, 0));
        let (pattern, limit) = (pattern(list.search), i64::from(list.limit));
        let population = list.population.as_str();
        let sign: i64 = if list.direction == Order::Asc { 1 } else { -1 };
        let (after, order) = (stored(after), list.order.as_str());
        let rows =
            fetch!(self, ClientWithCounts, fetch_all, sql, population, pattern, place, after, limit, order, sign);
        let ends = |row: ClientWithCounts| {
            let end = (row.place, row.client.number);
            Ok((Client::try_from(row)?, end))
        };
        rows.into_iter().map(ends).collect()
    }

    /// One client with the outcomes of its assignments.
    pub async fn client(&mut self, id: ClientId) -> Result<Option<Client>, DbError> {
        let sql = concat!(
            "with s as (select a.client, ",
            counts!(),
            " from assignments a where a.client = $1 group by a.client) select ",
            columns_with_counts!(),
            " from clients c left join s on s.client = c.id where c.id = $1"
        );
        let row = fetch!(self, ClientWithCounts, fetch_optional, sql, id.to_string());
        row.map(Client::try_from).transpose()
    }

    /// For each client that trained in round `since` of the job or later, the last such round.
    pub async fn last_rounds(&mut self, job: JobId, since: u32) -> Result<Vec<(ClientId, u32)>, DbError> {
        let sql = "select client, max(round) as round from assignments \
                   where job = $1 and task = 'train' and round >= $2 group by client";
        let rows = fetch!(self, LastRound, fetch_all, sql, job.to_string(), i64::from(since));
        Ok(rows.into_iter().map(|row| (row.client, row.round)).collect())
    }

    /// What each client reported with its last accepted update of a job.
    pub async fn last_reports(&mut self, job: JobId) -> Result<Vec<(ClientId, LastReport)>, DbError> {
        let sql = "select a.client, a.loss, coalesce(a.weight, 0) as weight, coalesce(a.work_ms, 0) as work_ms, a.round \
                   from assignments a where a.job = $1 and a.task = 'train' \
                   and a.state = 'reported' and a.loss is not null and a.round = \
                   (select max(b.round) from assignments b where b.client = a.client and b.job = a.job \
                   and b.task = 'train' and b.state = 'reported')";
        let rows = fetch!(self, LastReportRow, fetch_all, sql, job.to_string());
        let report = |LastReportRow { client, loss, weight, work_ms, round }: LastReportRow| {
            let [examples, work_ms] = [weight, work_ms].map(|value| u64::try_from(value).unwrap_or_default());
            (client, LastReport { loss, examples, work_ms, round })
        };
        Ok(rows.into_iter().map(report).collect())
    }
}

/// A `like` pattern that matches a text anywhere, ignoring case; empty for an empty text.
fn pattern(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    let mut pattern = String::from("%");
    for letter in text.chars().flat_map(char::to_lowercase) {
        if matches!(letter, '%' | '_' | '!') {
            pattern.push('!');
        }
        pattern.push(letter);
    }
    pattern.push('%');
    pattern
}

impl TryFrom<ClientWithCounts> for Client {
    type Error = DbError;

    fn try_from(row: ClientWithCounts) -> Result<Self, DbError> {
        let client = row.client;
        Ok(Self {
            id: client.id,
            number: client.number,
            population: client.population,
            attributes: client.attributes.0,
            granted: client.granted.0,
            standing: client.standing,
            standing_reason: row.standing_reason,
            consent: row.consent.map(|Text(Json(consent))| consent),
            releases: Vec::new(),
            certificate_until_ms: row.certificate_until_ms,
            sdk: client.sdk.map(|Text(sdk)| sdk),
            examples: client.examples,
            created_at_ms: client.created_at_ms,
            last_seen_at_ms: client.last_seen_at_ms,
            online: false,
            working: false,
            places: None,
            reported: row.reported,
            expired: row.expired,
            spare: row.spare,
            failed: row.failed,
            rejected: row.rejected,
            bytes_up: row.bytes_up,
            bytes_down: row.bytes_down,
            work_ms_mean: number("assignments.work_ms", row.work_ms_mean)?,
        })
    }
}
