//! The bell: coordinators on one PostgreSQL tell each other that something changed.
//!
//! What is told is only a hint: whoever hears it looks at the database. So a lost notification costs a second, not work.

use std::sync::Arc;

use sqlx::postgres::{PgListener, PgPool};
use tributary_protocol::id::JobId;

use crate::app::App;
use crate::db::DbError;

/// How often a coordinator looks by itself, should the bell be broken.
const LOOK_EVERY_MS: i64 = 1_000;

/// Listens until the coordinator stops.
pub async fn run(app: Arc<App>, pool: PgPool) {
    let mut listener = None;
    loop {
        if listener.is_none() {
            listener = listen(&pool).await;
            // Whatever was told meanwhile is looked up now.
            app.changed();
        }
        let look_at_ms = app.clock.now_ms() + LOOK_EVERY_MS;
        let heard = async {
            match &mut listener {
                Some(listener) => listener.recv().await.map(|news| news.payload().to_owned()),
                None => std::future::pending().await,
            }
        };
        let news = tokio::select! {
            () = app.stopping.cancelled() => return,
            news = heard => news,
            () = app.clock.sleep_until(look_at_ms) => Ok(String::new()),
        };
        match news {
            Ok(news) => {
                if let Err(error) = hear(&app, &news).await {
                    tracing::warn!(%error, "what changed could not be looked up; the next look will");
                }
            }
            Err(error) => {
                tracing::warn!(%error, "the database's notifications broke off; looking every second instead");
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

/// `sat`, `left`, a job's id, or nothing: in each case the driver looks; for a job, its clients that are held here are
/// called.
async fn hear(app: &App, news: &str) -> Result<(), DbError> {
    app.changed();
    let called = match news.parse::<JobId>() {
        Ok(job) => app.db.read().await?.working_clients(job).await?,
        // The regular look finds what a lost notification would have told.
        Err(_) if news.is_empty() => app.db.read().await?.working_clients_of_all().await?,
        Err(_) => return Ok(()),
    };
    app.lobby.call(called);
    Ok(())
}
