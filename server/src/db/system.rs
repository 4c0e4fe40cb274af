//! The size of everything that is stored.

use tributary_protocol::operator::Storage;

use super::tx::fetch;
use super::{DbError, Tx};

#[derive(sqlx::FromRow)]
struct Bodies {
    #[sqlx(try_from = "i64")]
    models_bytes: u64,
    #[sqlx(try_from = "i64")]
    updates_bytes: u64,
}

impl Tx {
    /// Size of the database in bytes.
    pub async fn database_bytes(&mut self) -> Result<u64, DbError> {
        // The only query whose text differs between the engines: neither knows the other's functions.
        let (database_bytes,) = match self {
            Self::Sqlite(tx) => {
                let sql = "select page_count * page_size from pragma_page_count(), pragma_page_size()";
                let query = sqlx::query_as::<_, (i64,)>(tx.text(sql));
                query.fetch_one(&mut ***tx).await?
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(tx) => {
                let sql = "select pg_database_size(current_database())";
                sqlx::query_as::<_, (i64,)>(sql).fetch_one(&mut ***tx).await?
            }
        };
        Ok(u64::try_from(database_bytes).unwrap_or(0))
    }

    /// Sizes in bytes.
    pub async fn storage(&mut self) -> Result<Storage, DbError> {
        let database_bytes = Some(self.database_bytes().await?);
        let sql = "select (select coalesce(cast(sum(bytes) as bigint), 0) from models where deleted_at_ms is null) \
                   as models_bytes, (select coalesce(cast(sum(a.bytes_up) as bigint), 0) from rounds r join assignments a \
                   on a.job = r.job and a.task = r.task and a.round = r.number and a.state = 'reported' \
                   where r.phase in ('selecting', 'training', 'aggregating') and r.task = 'train') as updates_bytes";
        let Bodies { models_bytes, updates_bytes } = fetch!(self, Bodies, fetch_one, sql);
        Ok(Storage { database_bytes, models_bytes, updates_bytes, free_bytes: None, full_in_ms: None })
    }

    /// Bytes of the model files that were stored since a moment and are still there.
    pub async fn models_since(&mut self, since_ms: i64) -> Result<u64, DbError> {
        let sql = "select coalesce(cast(sum(bytes) as bigint), 0) from models \
                   where created_at_ms >= $1 and deleted_at_ms is null";
        let (bytes,) = fetch!(self, (i64,), fetch_one, sql, since_ms);
        Ok(u64::try_from(bytes).unwrap_or(0))
    }
}
