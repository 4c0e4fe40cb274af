//! Members of stale-synchronous jobs that stay away.

use tributary_protocol::id::{ClientId, JobId};

use crate::db::DbError;
use crate::services::Services;

/// Notes which members are missed.
pub(crate) async fn miss(services: &Services, job: JobId, clients: &[ClientId]) -> Result<(), DbError> {
    let now_ms = services.clock.now_ms();
    let mut tx = services.db.begin().await?;
    tx.lock_job(job).await?;
    for client in clients {
        tx.miss_member(job, *client, now_ms).await?;
    }
    tx.commit().await
}

/// Lets those leave that stayed away too long.
pub(crate) async fn dismiss(services: &Services, job: JobId, clients: &[ClientId]) -> Result<(), DbError> {
    let mut tx = services.db.begin().await?;
    tx.lock_job(job).await?;
    for client in clients {
        tx.dismiss_member(job, *client).await?;
    }
    tx.commit().await
}
