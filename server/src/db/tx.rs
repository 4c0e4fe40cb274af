//! A transaction, and the macros that run one query text on whichever database it is.

use sqlx::{Postgres, Sqlite};

use super::DbError;
use super::watched::Watched;
use crate::metrics::Counted;

/// An open transaction; dropped without a commit, it never happened.
#[derive(Debug)]
pub enum Tx {
    /// On SQLite.
    Sqlite(Watched<Sqlite>),
    /// On PostgreSQL.
    Postgres(Watched<Postgres>),
}

impl Tx {
    /// Makes everything that was done in it durable, and counts what it did.
    ///
    /// # Errors
    /// [`DbError::Unavailable`]; nothing was stored then.
    pub async fn commit(self) -> Result<(), DbError> {
        match self {
            Self::Sqlite(tx) => tx.commit().await?,
            Self::Postgres(tx) => tx.commit().await?,
        }
        Ok(())
    }

    /// What this transaction does, to be counted if it commits.
    pub(super) fn counts(&mut self, counted: Counted) {
        match self {
            Self::Sqlite(tx) => tx.counts(counted),
            Self::Postgres(tx) => tx.counts(counted),
        }
    }

    /// Whether anything is counted.
    pub(super) fn is_counted(&self) -> bool {
        match self {
            Self::Sqlite(tx) => tx.metrics().is_on(),
            Self::Postgres(tx) => tx.metrics().is_on(),
        }
    }
}

/// Runs a statement: `execute!(tx, "sql", args..)` is the number of rows that it changed.
macro_rules! execute {
    ($tx:expr, $sql:expr $(, $arg:expr)* $(,)?) => {
        match $tx {
            $crate::db::Tx::Sqlite(tx) => {
                let stopwatch = $crate::runtime::clock::Stopwatch::start();
                let done = sqlx::query($sql)$(.bind($arg))*.execute(&mut **tx).await;
                tx.asked(stopwatch, &done);
                done?.rows_affected()
            }
            $crate::db::Tx::Postgres(tx) => {
                let stopwatch = $crate::runtime::clock::Stopwatch::start();
                let done = sqlx::query($sql)$(.bind($arg))*.execute(&mut **tx).await;
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
                let found = sqlx::query_as::<_, $row>($sql)$(.bind($arg))*.$how(&mut **tx).await;
                tx.asked(stopwatch, &found);
                found?
            }
            $crate::db::Tx::Postgres(tx) => {
                let stopwatch = $crate::runtime::clock::Stopwatch::start();
                let found = sqlx::query_as::<_, $row>($sql)$(.bind($arg))*.$how(&mut **tx).await;
                tx.asked(stopwatch, &found);
                found?
            }
        }
    };
}

pub(super) use {execute, fetch};

/// A column that holds a value as the text that it prints and parses, where the column may be null (elsewhere
/// `#[sqlx(try_from = "String")]` does the same).
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

/// A count as a column holds it. What a client claims may be larger than any column; it is kept as the largest then,
/// so that one absurd number never makes a row unreadable.
pub(super) fn stored(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A column that holds a value as JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct Json<T>(pub T);

impl<T: serde::de::DeserializeOwned> TryFrom<String> for Json<T> {
    type Error = serde_json::Error;

    fn try_from(text: String) -> Result<Self, serde_json::Error> {
        serde_json::from_str(&text).map(Self)
    }
}

impl<T: serde::Serialize> Json<T> {
    /// The text to store.
    pub(super) fn text(value: &T) -> Result<String, DbError> {
        serde_json::to_string(value).map_err(|error| DbError::corrupt("a value to store", error))
    }
}
