//! The audit log: what was done, by whom, as a hash chain.

use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::Name;
use tributary_protocol::operator::AuditEntry;
use tributary_protocol::state::AuditAction;

use super::tx::{Text, execute, fetch, on_postgres, stored};
use super::{DbError, Tx};

/// A client in the audit log: by its number, which leads to nobody once the client is erased. The log itself cannot be
/// changed.
pub fn audited_client(number: u64) -> String {
    format!("client {number}")
}

/// An entry before it has its place in the chain.
#[derive(Clone, Debug)]
pub struct NewAudit {
    /// Who acted: a token's id, [`audited_client`], `account:` and a name, `anonymous` or `coordinator`.
    pub actor: String,
    pub label: String,
    pub action: AuditAction,
    pub subject: String,
    pub population: Option<Name>,
    pub detail: Option<String>,
}

#[derive(sqlx::FromRow)]
struct AuditRow {
    #[sqlx(try_from = "i64")]
    number: u64,
    at_ms: i64,
    actor: String,
    label: String,
    #[sqlx(try_from = "String")]
    action: AuditAction,
    subject: String,
    population: Option<Text<Name>>,
    detail: Option<String>,
    #[sqlx(try_from = "String")]
    previous: Sha256Hash,
    #[sqlx(try_from = "String")]
    hash: Sha256Hash,
}

/// The columns of an [`AuditRow`].
macro_rules! audit_columns {
    () => {
        "number, at_ms, actor, label, action, subject, population, detail, previous, hash"
    };
}

#[derive(sqlx::FromRow)]
struct HeadRow {
    #[sqlx(try_from = "i64")]
    number: u64,
    #[sqlx(try_from = "String")]
    hash: Sha256Hash,
}

impl From<AuditRow> for AuditEntry {
    fn from(row: AuditRow) -> Self {
        Self {
            action: row.action,
            actor: row.actor,
            at_ms: row.at_ms,
            detail: row.detail,
            hash: row.hash,
            label: row.label,
            number: row.number,
            population: row.population.map(|Text(name)| name),
            previous: row.previous,
            subject: row.subject,
        }
    }
}

impl Tx {
    /// Appends an entry in the transaction of the action itself. It locks the end of the chain until the transaction
    /// ends, so it is the last statement before the commit: then no transaction waits for it with the lock in hand.
    pub async fn append_audit(&mut self, new: NewAudit, now_ms: i64) -> Result<(), DbError> {
        on_postgres!(self, "select number from audit_head for update");
        let (last, previous) = self.audit_head().await?;
        let NewAudit { actor, label, action, subject, population, detail } = new;
        let mut entry = AuditEntry {
            action,
            actor,
            at_ms: now_ms,
            detail,
            hash: previous,
            label,
            number: last + 1,
            population,
            previous,
            subject,
        };
        entry.hash = entry.computed_hash();
        let sql = "insert into audit (number, at_ms, actor, label, action, subject, population, detail, previous, hash) \
                   values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
        execute!(
            self,
            sql,
            stored(entry.number),
            entry.at_ms,
            entry.actor,
            entry.label,
            entry.action.as_str(),
            entry.subject,
            entry.population.as_ref().map(Name::as_str),
            entry.detail,
            entry.previous.to_string(),
            entry.hash.to_string()
        );
        let sql = "update audit_head set number = $1, hash = $2";
        execute!(self, sql, stored(entry.number), entry.hash.to_string());
        Ok(())
    }

    /// Number and hash of the newest entry; zeros before the first.
    pub async fn audit_head(&mut self) -> Result<(u64, Sha256Hash), DbError> {
        let HeadRow { number, hash } = fetch!(self, HeadRow, fetch_one, "select number, hash from audit_head");
        Ok((number, hash))
    }

    /// The newest entries first, from before `before` on; with `population`, only its entries.
    pub async fn audit(
        &mut self,
        population: Option<&Name>,
        before: u64,
        limit: u32,
    ) -> Result<Vec<AuditEntry>, DbError> {
        let sql = concat!(
            "select ",
            audit_columns!(),
            " from audit where number < $1 and (population = $2 or $2 = '') order by number desc limit $3"
        );
        let population = population.map_or("", Name::as_str);
        let rows = fetch!(self, AuditRow, fetch_all, sql, stored(before), population, i64::from(limit));
        Ok(rows.into_iter().map(AuditEntry::from).collect())
    }

    /// Entries in the order of the chain, after `after`.
    pub async fn audit_chain(&mut self, after: u64, limit: u32) -> Result<Vec<AuditEntry>, DbError> {
        let sql = concat!("select ", audit_columns!(), " from audit where number > $1 order by number limit $2");
        let rows = fetch!(self, AuditRow, fetch_all, sql, stored(after), i64::from(limit));
        Ok(rows.into_iter().map(AuditEntry::from).collect())
    }
}
