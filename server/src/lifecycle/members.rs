//! Members of stale-synchronous jobs that stay away.

use tributary_engine::round::Absence;
use tributary_protocol::id::JobId;

use crate::db::DbError;
use crate::services::Services;

/// Notes which members are missed, or lets those leave that stayed away too long.
pub(crate) async fn keep(services: &Services, job: JobId, absence: &Absence) -> Result<(), DbError> {
    let now_ms = services.clock.now_ms();
    let mut tx = services.db.begin().await?;
    tx.lock_job(job).await?;
    match absence {
        Absence::Miss(clients) => {
            for client in clients {
                tx.miss_member(job, *client, now_ms).await?;
            }
        }
        Absence::Leave(clients) => {
            for client in clients {
                tx.dismiss_member(job, *client).await?;
            }
        }
        Absence::Until(_) => {}
    }
    tx.commit().await
}
