//! Populations, and the tokens with which operators and apps authenticate.

use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{Name, TokenId};
use tributary_protocol::operator::{Population, Token};

use super::tx::{Text, execute, fetch};
use super::{DbError, Tx};

/// A stored token.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct TokenRow {
    #[sqlx(try_from = "String")]
    id: TokenId,
    population: Option<Text<Name>>,
    label: String,
    created_at_ms: i64,
    expires_at_ms: Option<i64>,
    revoked_at_ms: Option<i64>,
}

/// The columns of a [`TokenRow`].
macro_rules! token_columns {
    () => {
        "id, population, label, created_at_ms, expires_at_ms, revoked_at_ms"
    };
}

impl From<TokenRow> for Token {
    fn from(row: TokenRow) -> Self {
        Self {
            id: row.id,
            population: row.population.map(|Text(name)| name),
            label: row.label,
            created_at_ms: row.created_at_ms,
            expires_at_ms: row.expires_at_ms,
            revoked_at_ms: row.revoked_at_ms,
        }
    }
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

    /// Populations by name, after `after`.
    pub async fn populations(&mut self, after: &str, limit: u32) -> Result<Vec<Population>, DbError> {
        let sql = "select name, clients, created_at_ms from populations where name > $1 order by name limit $2";
        let rows = fetch!(self, PopulationRow, fetch_all, sql, after, i64::from(limit));
        Ok(rows.into_iter().map(population).collect())
    }

    /// Stores a token, and the hash of its secret instead of the secret.
    pub async fn insert_token(&mut self, token: &Token, secret: &Sha256Hash) -> Result<(), DbError> {
        let sql = "insert into tokens (id, population, label, secret_sha256, created_at_ms, expires_at_ms) \
                   values ($1, $2, $3, $4, $5, $6)";
        execute!(
            self,
            sql,
            token.id.to_string(),
            token.population.as_ref().map(Name::as_str),
            token.label.as_str(),
            secret.to_string(),
            token.created_at_ms,
            token.expires_at_ms
        );
        Ok(())
    }

    /// The token with this hash of its secret, if it is neither revoked nor expired.
    pub async fn working_token(&mut self, secret: &Sha256Hash, now_ms: i64) -> Result<Option<Token>, DbError> {
        let sql = concat!(
            "select ",
            token_columns!(),
            " from tokens  where secret_sha256 = $1 and revoked_at_ms is null and (expires_at_ms is null or expires_at_ms > $2)"
        );
        Ok(fetch!(self, TokenRow, fetch_optional, sql, secret.to_string(), now_ms).map(Token::from))
    }

    /// Whether an operator token exists that is neither revoked nor expired.
    pub async fn has_operator_token(&mut self, now_ms: i64) -> Result<bool, DbError> {
        let sql = concat!(
            "select ",
            token_columns!(),
            " from tokens  where population is null and revoked_at_ms is null and (expires_at_ms is null or expires_at_ms > $1) limit 1"
        );
        Ok(fetch!(self, TokenRow, fetch_optional, sql, now_ms).is_some())
    }

    /// Tokens by id, after `after`.
    pub async fn tokens(&mut self, after: &str, limit: u32) -> Result<Vec<Token>, DbError> {
        let sql = concat!("select ", token_columns!(), " from tokens  where id > $1 order by id limit $2");
        let rows = fetch!(self, TokenRow, fetch_all, sql, after, i64::from(limit));
        Ok(rows.into_iter().map(Token::from).collect())
    }

    /// Revokes a token for good. Returns false when there is no such token.
    pub async fn revoke_token(&mut self, id: TokenId, now_ms: i64) -> Result<bool, DbError> {
        let sql = "update tokens set revoked_at_ms = coalesce(revoked_at_ms, $2) where id = $1";
        Ok(execute!(self, sql, id.to_string(), now_ms) == 1)
    }
}

fn population(row: PopulationRow) -> Population {
    Population { name: row.name, clients: row.clients, created_at_ms: row.created_at_ms }
}
