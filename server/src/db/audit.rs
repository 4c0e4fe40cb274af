//! The audit log: what was done, by whom, as a hash chain.

use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::Name;
use tributary_protocol::operator::{AuditEntry, AuditRow, FoldedEntries};
use tributary_protocol::state::AuditAction;

use super::jobs::number;
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
struct EntryRow {
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

/// The columns of an [`EntryRow`].
macro_rules! audit_columns {
    () => {
        "number, at_ms, actor, label, action, subject, population, detail, previous, hash"
    };
}

/// An entry, and the enrolments that it stands for.
#[derive(sqlx::FromRow)]
struct ListedRow {
    #[sqlx(flatten)]
    entry: EntryRow,
    entries: Option<i64>,
    first_at_ms: Option<i64>,
}

/// Which entries of the log are listed.
#[derive(Clone, Debug)]
pub struct AuditFilter<'a> {
    /// Only the entries of this population.
    pub population: Option<&'a Name>,
    pub action: Option<AuditAction>,
    /// Only the entries whose actor or label is this text, in which `*` stands for any characters.
    pub person: Option<&'a str>,
    /// Only the entries whose subject is this text, in which `*` stands for any characters.
    pub subject: Option<&'a str>,
    /// From this time on.
    pub since_at_ms: i64,
    /// To before this time.
    pub until_at_ms: i64,
    /// Whether the enrolments with one token on one day are one row.
    pub fold: bool,
}

impl Default for AuditFilter<'_> {
    /// All entries.
    fn default() -> Self {
        Self {
            population: None,
            action: None,
            person: None,
            subject: None,
            since_at_ms: i64::MIN,
            until_at_ms: i64::MAX,
            fold: false,
        }
    }
}

/// A text in which `*` stands for any characters, as a pattern of `like`; without a text, the pattern of all.
fn pattern(text: Option<&str>) -> String {
    let Some(text) = text else { return "%".to_owned() };
    let escaped = text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
    escaped.replace('*', "%")
}

/// The conditions of an [`AuditFilter`] but that on the time, for the parameters $2 to $5.
macro_rules! audit_conditions {
    () => {
        "(population = $2 or $2 = '') and (action = $3 or $3 = '') \
         and (lower(actor) like lower($4) escape '\\' or lower(label) like lower($4) escape '\\') \
         and lower(subject) like lower($5) escape '\\'"
    };
}

/// Length of a day in milliseconds.
const DAY_MS: i64 = 86_400_000;

#[derive(sqlx::FromRow)]
struct HeadRow {
    #[sqlx(try_from = "i64")]
    number: u64,
    #[sqlx(try_from = "String")]
    hash: Sha256Hash,
}

impl From<EntryRow> for AuditEntry {
    fn from(row: EntryRow) -> Self {
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
            entry.actor.as_str(),
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
        if entry.action == AuditAction::ClientEnrol {
            let sql = "insert into audit_enrolments (actor, day, entries, first_at_ms, last_number) \
                       values ($1, $2, 1, $3, $4) on conflict (actor, day) do update \
                       set entries = audit_enrolments.entries + 1, last_number = excluded.last_number";
            execute!(self, sql, entry.actor, now_ms.div_euclid(DAY_MS), now_ms, stored(entry.number));
        }
        Ok(())
    }

    /// Number and hash of the newest entry; zeros before the first.
    pub async fn audit_head(&mut self) -> Result<(u64, Sha256Hash), DbError> {
        let HeadRow { number, hash } = fetch!(self, HeadRow, fetch_one, "select number, hash from audit_head");
        Ok((number, hash))
    }

    /// The newest entries first, from before the number `before` on.
    pub async fn audit(&mut self, filter: &AuditFilter<'_>, before: u64, limit: u32) -> Result<Vec<AuditRow>, DbError> {
        // Each of the two lists ends after `limit` rows, so the enrolments between others are not read.
        let folded = concat!(
            "select number, at_ms, audit.actor as actor, label, action, subject, population, detail, previous, hash, \
             entries, first_at_ms from audit left join audit_enrolments on last_number = number where number in (\
             select number from (select number from audit where action <> 'client.enrol' and number < $1 and ",
            audit_conditions!(),
            " and at_ms >= $6 and at_ms < $7 order by number desc limit $8) as others union all \
             select last_number from (select last_number from \
             (select last_number, first_at_ms from audit_enrolments) as days join audit on number = last_number \
             where last_number < $1 and ",
            audit_conditions!(),
            " and at_ms >= $6 and first_at_ms < $7 order by last_number desc limit $8) as enrolments) \
             order by number desc limit $8"
        );
        let each = concat!(
            "select ",
            audit_columns!(),
            ", cast(null as bigint) as entries, cast(null as bigint) as first_at_ms from audit where number < $1 and ",
            audit_conditions!(),
            " and at_ms >= $6 and at_ms < $7 order by number desc limit $8"
        );
        // A row for many entries has no subject that could be looked for.
        let sql = if filter.fold && filter.subject.is_none() { folded } else { each };
        let rows = fetch!(
            self,
            ListedRow,
            fetch_all,
            sql,
            stored(before),
            filter.population.map_or("", Name::as_str),
            filter.action.map_or("", AuditAction::as_str),
            pattern(filter.person),
            pattern(filter.subject),
            filter.since_at_ms,
            filter.until_at_ms,
            i64::from(limit)
        );
        rows.into_iter().map(listed).collect()
    }

    /// Entries in the order of the chain, after `after`.
    pub async fn audit_chain(&mut self, after: u64, limit: u32) -> Result<Vec<AuditEntry>, DbError> {
        let sql = concat!("select ", audit_columns!(), " from audit where number > $1 order by number limit $2");
        let rows = fetch!(self, EntryRow, fetch_all, sql, stored(after), i64::from(limit));
        Ok(rows.into_iter().map(AuditEntry::from).collect())
    }
}

fn listed(ListedRow { entry, entries, first_at_ms }: ListedRow) -> Result<AuditRow, DbError> {
    let entries: Option<u64> = number("audit_enrolments.entries", entries)?;
    let folded = entries.filter(|entries| *entries > 1).zip(first_at_ms);
    let folded = folded.map(|(entries, first_at_ms)| FoldedEntries { entries, first_at_ms });
    Ok(AuditRow { entry: entry.into(), folded })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_asterisk_stands_for_other_characters() {
        assert_eq!(pattern(None), "%");
        assert_eq!(pattern(Some("ada")), "ada");
        assert_eq!(pattern(Some("*job_4*")), r"%job\_4%");
        assert_eq!(pattern(Some(r"50%\")), r"50\%\\");
    }
}
