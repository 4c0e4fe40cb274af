//! The bell: notifications between coordinators on one PostgreSQL.
//!
//! A notification is a hint: its receiver reads the database. A lost notification costs a delay of one second.

use sqlx_postgres::{PgListener, PgPool};
use tributary_protocol::id::{ClientId, JobId};

use crate::db::{DbError, PostgresConnections};
use crate::services::Services;

/// Time between two looks without a notification, in milliseconds.
const LOOK_EVERY_MS: i64 = 1_000;

/// Listens until the coordinator stops. `call` is given the clients that have work: those that wait here are called.
///
/// Notifications of this coordinator are passed over: who changes something here wakes those whom it concerns, and a
/// client that is about to be given its work should not look for it.
pub async fn run(
    services: &Services,
    (connections, pool): (PostgresConnections, PgPool),
    call: impl Fn(Vec<ClientId>),
) {
    let mut listener = None;
    let mut look_at_ms = services.clock.now_ms() + LOOK_EVERY_MS;
    loop {
        if listener.is_none() {
            listener = listen(&pool).await;
            // Notifications may have been lost until now.
            services.signals.all_changed();
        }
        let heard = async {
            match &mut listener {
                Some(listener) => {
                    let news = listener.recv().await?;
                    Ok(connections.of_others(news.payload()).map(str::to_owned))
                }
                None => std::future::pending().await,
            }
        };
        let news: sqlx::Result<_> = tokio::select! {
            () = services.stopping.cancelled() => return,
            news = heard => news,
            () = services.clock.sleep_until(look_at_ms) => {
                look_at_ms = services.clock.now_ms() + LOOK_EVERY_MS;
                Ok(Some(String::new()))
            }
        };
        match news {
            Ok(None) => {}
            Ok(Some(news)) => match hear(services, &news).await {
                Ok(clients) => call(clients),
                Err(error) => tracing::warn!(%error, "a change could not be read; the next look tries again"),
            },
            Err(error) => {
                tracing::warn!(%error, "the database's notifications were interrupted; looking every second instead");
                listener = None;
            }
        }
    }
}

async fn listen(pool: &PgPool) -> Option<PgListener> {
    let listener = async {
        let mut listener = PgListener::connect_with(pool).await?;
        listener.listen("tributary").await?;
        Ok::<_, sqlx::Error>(listener)
    };
    listener.await.inspect_err(|error| tracing::debug!(%error, "no notifications yet")).ok()
}

/// Handles a notification: a job's id, `sat`, `left`, or nothing for a regular look. Returns the clients that have
/// work.
async fn hear(services: &Services, news: &str) -> Result<Vec<ClientId>, DbError> {
    if let Ok(job) = news.parse::<JobId>() {
        services.signals.changed(job);
        return services.db.look().await?.working_clients(job).await;
    }
    services.signals.all_changed();
    // The regular look finds what a lost notification would have said.
    if news.is_empty() { services.db.look().await?.working_clients_of_all().await } else { Ok(Vec::new()) }
}
