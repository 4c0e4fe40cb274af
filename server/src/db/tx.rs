//! A transaction, and the macros that run one query text on either engine.

use std::sync::Arc;

use tributary_protocol::id::ClientId;

use super::DbError;
use super::changes::ClientChange;
use super::downloads::Download;
use super::sqlite::SqliteTx;
use super::watched::Watched;
use crate::metrics::Counted;

/// An open transaction. Dropping it without a commit rolls it back.
#[derive(Debug)]
pub enum Tx {
    Sqlite(Watched<SqliteTx>),
    #[cfg(feature = "postgres")]
    Postgres(Watched<super::postgres::PostgresTx>),
}

impl Tx {
    /// Makes the changes durable, and then counts the transitions that were recorded in it.
    ///
    /// # Errors
    /// [`DbError::Unavailable`]; then nothing was stored.
    pub async fn commit(self) -> Result<(), DbError> {
        match self {
            Self::Sqlite(tx) => tx.commit().await?,
            #[cfg(feature = "postgres")]
            Self::Postgres(tx) => tx.commit().await?,
        }
        Ok(())
    }

    /// Notes a change for the metrics, which count it when the transaction commits.
    pub(super) fn counts(&mut self, counted: Counted) {
        match self {
            Self::Sqlite(tx) => tx.counts(counted),
            #[cfg(feature = "postgres")]
            Self::Postgres(tx) => tx.counts(counted),
        }
    }

    /// Notes a change of a client, for those who follow it when the transaction commits.
    pub(super) fn changes(&mut self, client: ClientId, change: impl FnOnce() -> ClientChange) {
        match self {
            Self::Sqlite(tx) => tx.changes(client, change),
            #[cfg(feature = "postgres")]
            Self::Postgres(tx) => tx.changes(client, change),
        }
    }

    /// What a client downloaded for its open assignment and is not stored yet. The assignment ends in this transaction:
    /// when it commits, the downloads are forgotten.
    pub(crate) fn downloaded(&mut self, client: ClientId) -> Download {
        match self {
            Self::Sqlite(tx) => tx.downloaded(client),
            #[cfg(feature = "postgres")]
            Self::Postgres(tx) => tx.downloaded(client),
        }
    }

    /// A client's assignment begins: bytes that were downloaded for an earlier one do not belong to it.
    pub(super) fn forgets_downloads(&self, client: ClientId) {
        match self {
            Self::Sqlite(tx) => tx.forgets_downloads(client),
            #[cfg(feature = "postgres")]
            Self::Postgres(tx) => tx.forgets_downloads(client),
        }
    }

    /// Who sends notifications: the handle of the database that began this transaction.
    pub(super) fn sender(&self) -> Option<Arc<str>> {
        match self {
            Self::Sqlite(_) => None,
            #[cfg(feature = "postgres")]
            Self::Postgres(tx) => Some(tx.sender()),
        }
    }

    /// Whether the metrics are on.
    pub(super) fn is_counted(&self) -> bool {
        match self {
            Self::Sqlite(tx) => tx.metrics().is_on(),
            #[cfg(feature = "postgres")]
            Self::Postgres(tx) => tx.metrics().is_on(),
        }
    }
}

/// Runs a statement: `execute!(tx, "sql", args..)` returns the number of changed rows.
macro_rules! execute {
    ($tx:expr, $sql:expr $(, $arg:expr)* $(,)?) => {
        match $tx {
            $crate::db::Tx::Sqlite(tx) => {
                let stopwatch = $crate::runtime::clock::Stopwatch::start();
                let query = sqlx::query(tx.text($sql))$(.bind($arg))*;
                let done = tx.run(query).await;
                tx.asked(stopwatch, &done);
                done?
            }
            #[cfg(feature = "postgres")]
            $crate::db::Tx::Postgres(tx) => {
                let stopwatch = $crate::runtime::clock::Stopwatch::start();
                let done = sqlx::query($sql)$(.bind($arg))*.execute(&mut ***tx).await;
                tx.asked(stopwatch, &done);
                done?.rows_affected()
            }
        }
    };
}

/// Runs a query: `fetch!(tx, Row, fetch_one | fetch_optional | fetch_all, "sql", args..)`.
macro_rules! fetch {
    ($tx:expr, $row:ty, $how:ident, $sql:expr $(, $arg:expr)* $(,)?) => {
        match $tx {
            $crate::db::Tx::Sqlite(tx) => {
                let stopwatch = $crate::runtime::clock::Stopwatch::start();
                let query = sqlx::query(tx.text($sql))$(.bind($arg))*;
                let found = query.try_map(|row| $crate::db::decoded::decoded::<_, $row>(&row, $sql)).$how(&mut ***tx).await;
                tx.asked(stopwatch, &found);
                found?
            }
            #[cfg(feature = "postgres")]
            $crate::db::Tx::Postgres(tx) => {
                let stopwatch = $crate::runtime::clock::Stopwatch::start();
                let query = sqlx::query($sql)$(.bind($arg))*;
                let found = query.try_map(|row| $crate::db::decoded::decoded::<_, $row>(&row, $sql)).$how(&mut ***tx).await;
                tx.asked(stopwatch, &found);
                found?
            }
        }
    };
}

/// Runs a statement for rows, several with each: `execute_all!(tx, "insert into t (a) ", rows, |values, row| { .. })`
/// binds the values of each row. A text may stand behind the rows. A statement costs two thread switches on SQLite and
/// a round trip on PostgreSQL, whatever the number of its rows.
macro_rules! execute_all {
    ($tx:expr, $sql:expr, $rows:expr, |$values:ident, $row:pat_param| $bind:block) => {
        $crate::db::tx::execute_all!($tx, $sql, $rows, "", |$values, $row| $bind)
    };
    ($tx:expr, $sql:expr, $rows:expr, $conflicts:expr, |$values:ident, $row:pat_param| $bind:block) => {
        for rows in $crate::db::tx::batches($rows) {
            match $tx {
                $crate::db::Tx::Sqlite(tx) => {
                    let stopwatch = $crate::runtime::clock::Stopwatch::start();
                    let mut query = sqlx::QueryBuilder::<sqlx_sqlite::Sqlite>::new(tx.begins());
                    query.push($sql).push_values(rows, |mut $values, $row| $bind).push($conflicts);
                    let done = tx.run(query.build()).await;
                    tx.asked(stopwatch, &done);
                    done?;
                }
                #[cfg(feature = "postgres")]
                $crate::db::Tx::Postgres(tx) => {
                    let stopwatch = $crate::runtime::clock::Stopwatch::start();
                    let mut query = sqlx::QueryBuilder::<sqlx_postgres::Postgres>::new($sql);
                    query.push_values(rows, |mut $values, $row| $bind).push($conflicts);
                    let done = query.build().execute(&mut ***tx).await;
                    tx.asked(stopwatch, &done);
                    done?;
                }
            }
        }
    };
}

/// Runs a query for a list of texts, and collects its rows:
/// `fetch_in!(tx, Row, "delete .. where name in ", names, " returning ..")`.
macro_rules! fetch_in {
    ($tx:expr, $row:ty, $sql:expr, $texts:expr, $rest:expr) => {{
        let mut found: Vec<$row> = Vec::new();
        for texts in $crate::db::tx::batches($texts) {
            match $tx {
                $crate::db::Tx::Sqlite(tx) => {
                    let stopwatch = $crate::runtime::clock::Stopwatch::start();
                    let mut query = $crate::db::tx::listed::<sqlx_sqlite::Sqlite>([tx.begins(), $sql], texts, $rest);
                    let query = query.build().try_map(|row| $crate::db::decoded::decoded::<_, $row>(&row, $sql));
                    let rows = query.fetch_all(&mut ***tx).await;
                    tx.asked(stopwatch, &rows);
                    found.extend(rows?);
                }
                #[cfg(feature = "postgres")]
                $crate::db::Tx::Postgres(tx) => {
                    let stopwatch = $crate::runtime::clock::Stopwatch::start();
                    let mut query = $crate::db::tx::listed::<sqlx_postgres::Postgres>(["", $sql], texts, $rest);
                    let query = query.build().try_map(|row| $crate::db::decoded::decoded::<_, $row>(&row, $sql));
                    let rows = query.fetch_all(&mut ***tx).await;
                    tx.asked(stopwatch, &rows);
                    found.extend(rows?);
                }
            }
        }
        found
    }};
}

/// A query with a list of texts between two parts.
pub(super) fn listed<E: sqlx::Database>(
    [begins, sql]: [&'static str; 2],
    texts: &[String],
    rest: &'static str,
) -> sqlx::QueryBuilder<E>
where
    for<'a> &'a str: sqlx::Encode<'a, E> + sqlx::Type<E>,
{
    let mut query = sqlx::QueryBuilder::new(begins);
    query.push(sql).push("(");
    let mut list = query.separated(", ");
    for text in texts {
        list.push_bind(text.as_str());
    }
    query.push(")").push(rest);
    query
}

/// Most rows or texts of one statement; a power of two.
const BATCH_ROWS_MAX: usize = 64;

/// Cuts rows into batches of powers of two, so that there are few texts of a statement and each stays prepared.
pub(super) fn batches<T>(mut rows: &[T]) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let largest = 1 << rows.len().checked_ilog2()?;
        let (batch, rest) = rows.split_at(BATCH_ROWS_MAX.min(largest));
        rows = rest;
        Some(batch)
    })
}

/// Runs a statement on PostgreSQL, and nothing on SQLite: `on_postgres!(tx, "sql", args..)`.
macro_rules! on_postgres {
    ($tx:expr, $sql:expr $(, $arg:expr)* $(,)?) => {
        match $tx {
            #[cfg(feature = "postgres")]
            $crate::db::Tx::Postgres(tx) => {
                let stopwatch = $crate::runtime::clock::Stopwatch::start();
                let done = sqlx::query($sql)$(.bind($arg))*.execute(&mut ***tx).await;
                tx.asked(stopwatch, &done);
                done?;
            }
            $crate::db::Tx::Sqlite(_) => {
                // Named, not evaluated: without PostgreSQL they would be unused.
                let _ = || {
                    let _ = ($sql, $(&$arg),*);
                };
            }
        }
    };
}

pub(super) use {execute, execute_all, fetch, fetch_in, on_postgres};

/// A nullable text column as the type that parses from it. (For other columns `#[sqlx(try_from = "String")]` does the
/// same.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text<T>(pub T);

impl<D: sqlx::Database, T> sqlx::Type<D> for Text<T>
where
    String: sqlx::Type<D>,
{
    fn type_info() -> D::TypeInfo {
        String::type_info()
    }

    fn compatible(info: &D::TypeInfo) -> bool {
        String::compatible(info)
    }
}

impl<'r, D: sqlx::Database, T: TryFrom<String>> sqlx::Decode<'r, D> for Text<T>
where
    String: sqlx::Decode<'r, D>,
    T::Error: Into<sqlx::error::BoxDynError>,
{
    fn decode(value: D::ValueRef<'r>) -> Result<Self, sqlx::error::BoxDynError> {
        T::try_from(String::decode(value)?).map(Self).map_err(Into::into)
    }
}

/// A count as a column stores it. Clients may claim counts beyond the range of a column. They are capped, so that one
/// absurd number does not make a row unreadable.
pub(super) fn stored(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A text column that contains JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct Json<T>(pub T);

impl<T: serde::de::DeserializeOwned> TryFrom<String> for Json<T> {
    type Error = serde_json::Error;

    fn try_from(text: String) -> Result<Self, serde_json::Error> {
        serde_json::from_str(&text).map(Self)
    }
}

impl<T: serde::Serialize> Json<T> {
    pub(super) fn text(value: &T) -> Result<String, DbError> {
        serde_json::to_string(value).map_err(|error| DbError::corrupt("a value to store", error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_powers_of_two_and_keep_each_row_in_order() {
        let sizes = |rows: usize| batches(&vec![(); rows]).map(<[()]>::len).collect::<Vec<_>>();
        assert_eq!(sizes(0), [0; 0]);
        assert_eq!(sizes(1), [1]);
        assert_eq!(sizes(11), [8, 2, 1]);
        assert_eq!(sizes(200), [64, 64, 64, 8]);
        let rows: Vec<_> = (0..200).collect();
        assert_eq!(batches(&rows).flatten().copied().collect::<Vec<_>>(), rows);
    }
}
