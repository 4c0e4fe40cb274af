//! What a database file needs now and then. PostgreSQL sees to itself (autovacuum).

use sqlx::sqlite::SqlitePool;

use super::{Db, DbError};

/// Gives back at most 2000 free pages (8 MB) at once; writers get a turn in between.
const VACUUM: &str = "pragma incremental_vacuum(2000)";

impl Db {
    /// Gives space that deleted rows left back to the file system, lets the planner look at what grew, and empties the
    /// write-ahead log. Returns the bytes given back.
    pub async fn tidy(&self) -> Result<u64, DbError> {
        let Self::Sqlite { writer, .. } = self else { return Ok(0) };
        let page_bytes = pragma(writer, "pragma page_size").await?;
        let pages_before = pragma(writer, "pragma page_count").await?;
        let mut free = pragma(writer, "pragma freelist_count").await?;
        while free > 0 {
            sqlx::query(VACUUM).execute(writer).await?;
            let left = pragma(writer, "pragma freelist_count").await?;
            // A file that was made without auto_vacuum keeps its free pages and uses them again.
            if left >= free {
                break;
            }
            free = left;
        }
        let pages_after = pragma(writer, "pragma page_count").await?;
        sqlx::query("pragma optimize").execute(writer).await?;
        // Readers may be in its way; then the log is emptied the next time.
        sqlx::query("pragma wal_checkpoint(truncate)").execute(writer).await?;
        let bytes = pages_before.saturating_sub(pages_after).saturating_mul(page_bytes);
        Ok(u64::try_from(bytes).unwrap_or(0))
    }
}

async fn pragma(writer: &SqlitePool, sql: &'static str) -> Result<i64, DbError> {
    let (value,) = sqlx::query_as::<_, (i64,)>(sql).fetch_one(writer).await?;
    Ok(value)
}
