//! Upkeep of the SQLite file. PostgreSQL has autovacuum.

use super::sqlite::Connections;
use super::{Db, DbError};

/// Returns at most 2000 free pages (16 MB at 8 KiB per page) to the file system at once, so that writers get a turn in
/// between.
const VACUUM: &str = "pragma incremental_vacuum(2000)";

impl Db {
    /// Returns the space of deleted rows to the file system, refreshes the planner's statistics, and empties the
    /// write-ahead log. Returns the number of bytes by which the file shrank.
    pub async fn tidy(&self) -> Result<u64, DbError> {
        let writer = match self {
            Self::Sqlite { writer, .. } => writer,
            #[cfg(feature = "postgres")]
            Self::Postgres { .. } => return Ok(0),
        };
        let page_bytes = pragma(writer, "pragma page_size").await?;
        let pages_before = pragma(writer, "pragma page_count").await?;
        let mut free = pragma(writer, "pragma freelist_count").await?;
        while free > 0 {
            sqlx::query(VACUUM).execute(&mut *writer.acquire().await?).await?;
            let left = pragma(writer, "pragma freelist_count").await?;
            // A file that was created without auto_vacuum keeps its free pages and uses them again.
            if left >= free {
                break;
            }
            free = left;
        }
        let pages_after = pragma(writer, "pragma page_count").await?;
        sqlx::query("pragma optimize").execute(&mut *writer.acquire().await?).await?;
        // Open readers can prevent this; then the next run empties the log.
        sqlx::query("pragma wal_checkpoint(truncate)").execute(&mut *writer.acquire().await?).await?;
        let bytes = pages_before.saturating_sub(pages_after).saturating_mul(page_bytes);
        Ok(u64::try_from(bytes).unwrap_or(0))
    }
}

/// Asks outside of a transaction.
async fn pragma(writer: &Connections, sql: &'static str) -> Result<i64, DbError> {
    let (value,) = sqlx::query_as::<_, (i64,)>(sql).fetch_one(&mut *writer.acquire().await?).await?;
    Ok(value)
}
