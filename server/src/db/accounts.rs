//! Accounts of people, and the sessions of their browsers.

use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::Name;
use tributary_protocol::operator::{Account, Session};
use tributary_protocol::state::Role;

use super::tx::{Text, execute, fetch};
use super::{DbError, Tx};

#[derive(sqlx::FromRow)]
struct AccountRow {
    #[sqlx(try_from = "String")]
    name: Name,
    #[sqlx(try_from = "String")]
    role: Role,
    population: Option<Text<Name>>,
    created_at_ms: i64,
    password_at_ms: i64,
    revoked_at_ms: Option<i64>,
}

/// The columns of an [`AccountRow`].
macro_rules! account_columns {
    () => {
        "name, role, population, created_at_ms, password_at_ms, revoked_at_ms"
    };
}

#[derive(sqlx::FromRow)]
struct SessionRow {
    address: Option<String>,
    created_at_ms: i64,
    last_used_at_ms: i64,
    expires_at_ms: i64,
}

/// A session that begins.
#[derive(Clone, Debug)]
pub struct NewSession<'a> {
    /// None where an identity provider knows the person.
    pub account: Option<&'a Name>,
    /// `account:` and the name, or `oidc:` and the provider's subject.
    pub actor: &'a str,
    pub name: &'a str,
    /// What the provider's groups allow; none for accounts, whose own role and population count.
    pub role: Option<Role>,
    pub population: Option<&'a Name>,
    pub session: Session,
}

/// A session that has not ended, with what its person may do.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct SignedInRow {
    pub actor: String,
    pub name: String,
    #[sqlx(try_from = "String")]
    pub role: Role,
    pub population: Option<Text<Name>>,
    pub last_used_at_ms: i64,
    pub expires_at_ms: i64,
}

impl From<AccountRow> for Account {
    fn from(row: AccountRow) -> Self {
        Self {
            name: row.name,
            role: row.role,
            population: row.population.map(|Text(name)| name),
            created_at_ms: row.created_at_ms,
            password_at_ms: row.password_at_ms,
            revoked_at_ms: row.revoked_at_ms,
        }
    }
}

impl From<SessionRow> for Session {
    fn from(row: SessionRow) -> Self {
        let SessionRow { address, created_at_ms, last_used_at_ms, expires_at_ms } = row;
        Self { address, created_at_ms, last_used_at_ms, expires_at_ms }
    }
}

impl Tx {
    /// Stores an account with the hash of its password.
    ///
    /// # Errors
    /// [`DbError::Duplicate`] when the name is taken, also by a revoked account.
    pub async fn insert_account(&mut self, account: &Account, password: &str) -> Result<(), DbError> {
        let sql = "insert into accounts (name, role, population, password, password_at_ms, created_at_ms) \
                   values ($1, $2, $3, $4, $5, $6)";
        execute!(
            self,
            sql,
            account.name.as_str(),
            account.role.as_str(),
            account.population.as_ref().map(Name::as_str),
            password,
            account.password_at_ms,
            account.created_at_ms
        );
        Ok(())
    }

    pub async fn account(&mut self, name: &Name) -> Result<Option<Account>, DbError> {
        let sql = concat!("select ", account_columns!(), " from accounts where name = $1");
        Ok(fetch!(self, AccountRow, fetch_optional, sql, name.as_str()).map(Account::from))
    }

    /// Accounts by name, after `after`; with `population`, only those that are restricted to it.
    pub async fn accounts(
        &mut self,
        population: Option<&Name>,
        after: &str,
        limit: u32,
    ) -> Result<Vec<Account>, DbError> {
        let sql = concat!(
            "select ",
            account_columns!(),
            " from accounts where name > $1 and (population = $2 or $2 = '') order by name limit $3"
        );
        let rows =
            fetch!(self, AccountRow, fetch_all, sql, after, population.map_or("", Name::as_str), i64::from(limit));
        Ok(rows.into_iter().map(Account::from).collect())
    }

    /// The hash of the password of an account that is not revoked.
    pub async fn password(&mut self, name: &Name) -> Result<Option<String>, DbError> {
        let sql = "select password from accounts where name = $1 and revoked_at_ms is null";
        Ok(fetch!(self, (String,), fetch_optional, sql, name.as_str()).map(|(password,)| password))
    }

    /// Replaces the hash of a password. The account must not be revoked.
    pub async fn set_password(&mut self, name: &Name, password: &str, now_ms: i64) -> Result<bool, DbError> {
        let sql = "update accounts set password = $2, password_at_ms = $3 where name = $1 and revoked_at_ms is null";
        Ok(execute!(self, sql, name.as_str(), password, now_ms) == 1)
    }

    /// Revokes an account for good.
    pub async fn revoke_account(&mut self, name: &Name, now_ms: i64) -> Result<(), DbError> {
        let sql = "update accounts set revoked_at_ms = coalesce(revoked_at_ms, $2) where name = $1";
        execute!(self, sql, name.as_str(), now_ms);
        Ok(())
    }

    /// Stores a session, and the hash of its secret instead of the secret.
    pub async fn insert_session(&mut self, new: &NewSession<'_>, secret: &Sha256Hash) -> Result<(), DbError> {
        let sql = "insert into sessions (secret_sha256, account, actor, name, role, population, address, created_at_ms, \
                   last_used_at_ms, expires_at_ms) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
        let session = &new.session;
        execute!(
            self,
            sql,
            secret.to_string(),
            new.account.map(Name::as_str),
            new.actor,
            new.name,
            new.role.map(Role::as_str),
            new.population.map(Name::as_str),
            session.address.as_deref(),
            session.created_at_ms,
            session.last_used_at_ms,
            session.expires_at_ms
        );
        Ok(())
    }

    /// The session with this hash of its secret, if it was used at `used_since_ms` or later, has not expired, and its
    /// account is not revoked.
    pub async fn session(
        &mut self,
        secret: &Sha256Hash,
        used_since_ms: i64,
        now_ms: i64,
    ) -> Result<Option<SignedInRow>, DbError> {
        let sql = "select s.actor, s.name, coalesce(a.role, s.role) as role, \
                   case when s.account is null then s.population else a.population end as population, \
                   s.last_used_at_ms, s.expires_at_ms from sessions s left join accounts a on a.name = s.account \
                   where s.secret_sha256 = $1 and s.last_used_at_ms >= $2 and s.expires_at_ms > $3 \
                   and a.revoked_at_ms is null";
        Ok(fetch!(self, SignedInRow, fetch_optional, sql, secret.to_string(), used_since_ms, now_ms))
    }

    /// Stores that a session was used, unless that was stored at `unless_since_ms` or later.
    pub async fn session_used(
        &mut self,
        secret: &Sha256Hash,
        unless_since_ms: i64,
        now_ms: i64,
    ) -> Result<(), DbError> {
        let sql = "update sessions set last_used_at_ms = $3 where secret_sha256 = $1 and last_used_at_ms < $2";
        execute!(self, sql, secret.to_string(), unless_since_ms, now_ms);
        Ok(())
    }

    /// The sessions of a person that have not expired, newest first.
    pub async fn sessions(&mut self, actor: &str, now_ms: i64, limit: u32) -> Result<Vec<Session>, DbError> {
        let sql = "select address, created_at_ms, last_used_at_ms, expires_at_ms from sessions \
                   where actor = $1 and expires_at_ms > $2 order by created_at_ms desc, secret_sha256 limit $3";
        let rows = fetch!(self, SessionRow, fetch_all, sql, actor, now_ms, i64::from(limit));
        Ok(rows.into_iter().map(Session::from).collect())
    }

    pub async fn delete_session(&mut self, secret: &Sha256Hash) -> Result<(), DbError> {
        execute!(self, "delete from sessions where secret_sha256 = $1", secret.to_string());
        Ok(())
    }

    /// Ends all sessions of a person. Returns how many there were.
    pub async fn delete_sessions(&mut self, actor: &str) -> Result<u64, DbError> {
        Ok(execute!(self, "delete from sessions where actor = $1", actor))
    }

    /// The sessions of a person whom an identity provider knows, newest first; with `population`, only those that are
    /// restricted to it.
    pub async fn provider_sessions(
        &mut self,
        actor: &str,
        population: Option<&Name>,
        now_ms: i64,
        limit: u32,
    ) -> Result<Vec<Session>, DbError> {
        let sql = "select address, created_at_ms, last_used_at_ms, expires_at_ms from sessions \
                   where actor = $1 and account is null and expires_at_ms > $2 and (population = $4 or $4 = '') \
                   order by created_at_ms desc, secret_sha256 limit $3";
        let only = population.map_or("", Name::as_str);
        let rows = fetch!(self, SessionRow, fetch_all, sql, actor, now_ms, i64::from(limit), only);
        Ok(rows.into_iter().map(Session::from).collect())
    }

    /// Ends [`Self::provider_sessions`]. Returns how many there were.
    pub async fn delete_provider_sessions(&mut self, actor: &str, population: Option<&Name>) -> Result<u64, DbError> {
        let sql = "delete from sessions where actor = $1 and account is null and (population = $2 or $2 = '')";
        Ok(execute!(self, sql, actor, population.map_or("", Name::as_str)))
    }

    /// The key that signs what browsers keep of a sign-in; none before the first one.
    pub async fn sign_in_key(&mut self) -> Result<Option<String>, DbError> {
        let row = fetch!(self, (String,), fetch_optional, "select key from sign_in_key");
        Ok(row.map(|(key,)| key))
    }

    /// Stores the key, unless there is one.
    pub async fn make_sign_in_key(&mut self, key: &str) -> Result<(), DbError> {
        execute!(self, "insert into sign_in_key (one, key) values (1, $1) on conflict do nothing", key);
        Ok(())
    }

    /// Ends all but the newest sessions of a person, and deletes those that have expired.
    pub async fn keep_newest_sessions(&mut self, actor: &str, keep: u32, now_ms: i64) -> Result<(), DbError> {
        let sql = "delete from sessions where actor = $1 and (expires_at_ms <= $3 or secret_sha256 not in ( \
                   select secret_sha256 from sessions where actor = $1 order by created_at_ms desc limit $2))";
        execute!(self, sql, actor, i64::from(keep), now_ms);
        Ok(())
    }

    /// Deletes the sessions of all accounts that expired before `before_ms`.
    pub async fn delete_expired_sessions(&mut self, before_ms: i64) -> Result<u64, DbError> {
        Ok(execute!(self, "delete from sessions where expires_at_ms < $1", before_ms))
    }
}
