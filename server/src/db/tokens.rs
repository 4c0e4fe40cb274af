//! Populations, and the tokens with which operators and apps authenticate.

use tributary_protocol::device::Attributes;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{Name, Secret, TokenId};
use tributary_protocol::operator::{Population, Token};
use tributary_protocol::state::{Role, TokenKind};

use super::jobs::number;
use super::tx::{Json, Text, execute, fetch, stored};
use super::{DbError, Tx};

/// A stored token.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct TokenRow {
    #[sqlx(try_from = "String")]
    id: TokenId,
    #[sqlx(try_from = "String")]
    kind: TokenKind,
    population: Option<Text<Name>>,
    role: Option<Text<Role>>,
    label: String,
    created_at_ms: i64,
    expires_at_ms: Option<i64>,
    revoked_at_ms: Option<i64>,
    last_used_at_ms: Option<i64>,
    #[sqlx(try_from = "i64")]
    uses: u64,
    uses_max: Option<i64>,
    per_minute_max: Option<i64>,
    #[sqlx(try_from = "String")]
    attributes: Json<Attributes>,
}

/// The columns of a [`TokenRow`].
macro_rules! token_columns {
    () => {
        "id, kind, population, role, label, created_at_ms, expires_at_ms, revoked_at_ms, last_used_at_ms, uses, uses_max, per_minute_max, attributes"
    };
}

impl TryFrom<TokenRow> for Token {
    type Error = DbError;

    fn try_from(row: TokenRow) -> Result<Self, DbError> {
        Ok(Self {
            id: row.id,
            kind: row.kind,
            population: row.population.map(|Text(name)| name),
            role: row.role.map(|Text(role)| role),
            label: row.label,
            created_at_ms: row.created_at_ms,
            expires_at_ms: row.expires_at_ms,
            revoked_at_ms: row.revoked_at_ms,
            last_used_at_ms: row.last_used_at_ms,
            uses: row.uses,
            uses_max: number("tokens.uses_max", row.uses_max)?,
            per_minute_max: number("tokens.per_minute_max", row.per_minute_max)?,
            attributes: row.attributes.0,
        })
    }
}

/// Length of the minute in which an enrolment token's enrolments are counted, from the first of them on.
const MINUTE_MS: i64 = 60_000;

#[derive(sqlx::FromRow)]
struct TokenMinute {
    #[sqlx(flatten)]
    token: TokenRow,
    minute_at_ms: i64,
}

/// The hash under which a secret is stored. A secret has 32 random bytes, so it needs neither salt nor a slow hash.
pub(crate) fn stored_hash(secret: &Secret) -> Sha256Hash {
    Sha256Hash::of(secret.expose().as_bytes())
}

/// What an enrolment token says to one more enrolment.
#[derive(Clone, Debug, PartialEq)]
pub enum Enrolment {
    /// The enrolment is counted.
    Counted(Box<Token>),
    /// The token is unknown, revoked or expired.
    Unknown,
    /// It has enrolled as many clients as it may.
    UsedUp { uses_max: u64 },
    /// It has enrolled as many clients in this minute as it may.
    TooSoon { per_minute_max: u32, retry_after_ms: u64 },
}

#[derive(sqlx::FromRow)]
struct PopulationRow {
    #[sqlx(try_from = "String")]
    name: Name,
    #[sqlx(try_from = "i64")]
    clients: u64,
    created_at_ms: i64,
}

impl Tx {
    /// # Errors
    /// [`DbError::Duplicate`] when the name is taken.
    pub async fn insert_population(&mut self, name: &Name, now_ms: i64) -> Result<(), DbError> {
        let sql = "insert into populations (name, created_at_ms) values ($1, $2)";
        execute!(self, sql, name.as_str(), now_ms);
        Ok(())
    }

    /// A population, and how many clients enrolled in it.
    pub async fn population(&mut self, name: &Name) -> Result<Option<Population>, DbError> {
        let sql = "select name, clients, created_at_ms from populations where name = $1";
        let row = fetch!(self, PopulationRow, fetch_optional, sql, name.as_str());
        Ok(row.map(population))
    }

    /// Populations by name, after `after`; with `only`, at most this one.
    pub async fn populations(
        &mut self,
        only: Option<&Name>,
        after: &str,
        limit: u32,
    ) -> Result<Vec<Population>, DbError> {
        let sql = "select name, clients, created_at_ms from populations \
                   where name > $1 and (name = $2 or $2 = '') order by name limit $3";
        let only = only.map_or("", Name::as_str);
        let rows = fetch!(self, PopulationRow, fetch_all, sql, after, only, i64::from(limit));
        Ok(rows.into_iter().map(population).collect())
    }

    /// Stores a token, and the hash of its secret instead of the secret.
    pub async fn insert_token(&mut self, token: &Token, secret: &Sha256Hash) -> Result<(), DbError> {
        let sql = "insert into tokens (id, kind, population, role, label, secret_sha256, created_at_ms, expires_at_ms, \
                   uses_max, per_minute_max, attributes) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
        execute!(
            self,
            sql,
            token.id.to_string(),
            token.kind.as_str(),
            token.population.as_ref().map(Name::as_str),
            token.role.map(Role::as_str),
            token.label.as_str(),
            secret.to_string(),
            token.created_at_ms,
            token.expires_at_ms,
            token.uses_max.map(stored),
            token.per_minute_max.map(i64::from),
            Json::text(&token.attributes)?
        );
        Ok(())
    }

    /// The token with this hash of its secret, if it is neither revoked nor expired.
    pub async fn working_token(&mut self, secret: &Sha256Hash, now_ms: i64) -> Result<Option<Token>, DbError> {
        let sql = concat!(
            "select ",
            token_columns!(),
            " from tokens where secret_sha256 = $1 and revoked_at_ms is null and (expires_at_ms is null or expires_at_ms > $2)"
        );
        fetch!(self, TokenRow, fetch_optional, sql, secret.to_string(), now_ms).map(Token::try_from).transpose()
    }

    /// Whether a token is neither revoked nor expired.
    pub async fn token_works(&mut self, id: TokenId, now_ms: i64) -> Result<bool, DbError> {
        let sql = "select count(*) from tokens \
                   where id = $1 and revoked_at_ms is null and (expires_at_ms is null or expires_at_ms > $2)";
        let (count,) = fetch!(self, (i64,), fetch_one, sql, id.to_string(), now_ms);
        Ok(count > 0)
    }

    /// Whether a token of an admin of the whole deployment exists that is neither revoked nor expired.
    pub async fn has_admin_token(&mut self, now_ms: i64) -> Result<bool, DbError> {
        let sql = "select count(*) from tokens where kind = 'operator' and role = 'admin' and population is null \
                   and revoked_at_ms is null and (expires_at_ms is null or expires_at_ms > $1)";
        let (count,) = fetch!(self, (i64,), fetch_one, sql, now_ms);
        Ok(count > 0)
    }

    /// Stores that a token was used, unless that was stored at `unless_since_ms` or later.
    pub async fn token_used(&mut self, id: TokenId, unless_since_ms: i64, now_ms: i64) -> Result<(), DbError> {
        let sql = "update tokens set last_used_at_ms = $3 \
                   where id = $1 and (last_used_at_ms is null or last_used_at_ms < $2)";
        execute!(self, sql, id.to_string(), unless_since_ms, now_ms);
        Ok(())
    }

    /// Counts one more enrolment with a token, if its limits allow it. The row stays locked until the transaction ends,
    /// so concurrent enrolments count exactly.
    pub async fn count_enrolment(&mut self, id: TokenId, now_ms: i64) -> Result<Enrolment, DbError> {
        // A minute that begins in the future began before the clock was set back.
        let sql = "update tokens set uses = uses + 1, last_used_at_ms = $2, \
                   minute_uses = case when minute_at_ms > $3 and minute_at_ms <= $2 then minute_uses + 1 else 1 end, \
                   minute_at_ms = case when minute_at_ms > $3 and minute_at_ms <= $2 then minute_at_ms else $2 end \
                   where id = $1 and kind = 'enrolment' and revoked_at_ms is null \
                   and (expires_at_ms is null or expires_at_ms > $2) and (uses_max is null or uses < uses_max) \
                   and (per_minute_max is null or minute_uses < per_minute_max or minute_at_ms <= $3 or minute_at_ms > $2)";
        let is_counted = execute!(self, sql, id.to_string(), now_ms, now_ms.saturating_sub(MINUTE_MS)) == 1;
        let sql = concat!("select ", token_columns!(), ", minute_at_ms from tokens where id = $1");
        let row = fetch!(self, TokenMinute, fetch_optional, sql, id.to_string());
        let Some(TokenMinute { token, minute_at_ms }) = row else { return Ok(Enrolment::Unknown) };
        let token = Token::try_from(token)?;
        if is_counted {
            return Ok(Enrolment::Counted(Box::new(token)));
        }
        let works = token.revoked_at_ms.is_none() && token.expires_at_ms.is_none_or(|at_ms| at_ms > now_ms);
        Ok(match (token.uses_max, token.per_minute_max) {
            _ if !works => Enrolment::Unknown,
            (Some(uses_max), _) if token.uses >= uses_max => Enrolment::UsedUp { uses_max },
            (_, Some(per_minute_max)) => {
                let left_ms = minute_at_ms.saturating_add(MINUTE_MS).saturating_sub(now_ms);
                Enrolment::TooSoon { per_minute_max, retry_after_ms: u64::try_from(left_ms).unwrap_or(0) }
            }
            // An operator's token, which the kind of the secret rules out.
            _ => Enrolment::Unknown,
        })
    }

    /// Tokens by id, after `after`; with `population`, only its tokens.
    pub async fn tokens(&mut self, population: Option<&Name>, after: &str, limit: u32) -> Result<Vec<Token>, DbError> {
        let sql = concat!(
            "select ",
            token_columns!(),
            " from tokens where id > $1 and (population = $2 or $2 = '') order by id limit $3"
        );
        let rows = fetch!(self, TokenRow, fetch_all, sql, after, population.map_or("", Name::as_str), i64::from(limit));
        rows.into_iter().map(Token::try_from).collect()
    }

    pub async fn token(&mut self, id: TokenId) -> Result<Option<Token>, DbError> {
        let sql = concat!("select ", token_columns!(), " from tokens where id = $1");
        fetch!(self, TokenRow, fetch_optional, sql, id.to_string()).map(Token::try_from).transpose()
    }

    /// Revokes a token for good. Returns false when there is no such token.
    pub async fn revoke_token(&mut self, id: TokenId, now_ms: i64) -> Result<bool, DbError> {
        let sql = "update tokens set revoked_at_ms = coalesce(revoked_at_ms, $2) where id = $1";
        Ok(execute!(self, sql, id.to_string(), now_ms) == 1)
    }
}

fn population(row: PopulationRow) -> Population {
    Population { name: row.name, clients: row.clients, created_at_ms: row.created_at_ms, online: 0, working: 0 }
}
