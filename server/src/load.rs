//! The load of this coordinator over the last hour, in memory: what the System page draws.

use tributary_protocol::operator::LoadSample;

use crate::app::App;
use crate::metrics::resident_bytes;

/// Time between samples, in milliseconds.
const EVERY_MS: i64 = 30_000;

/// Samples the load until the coordinator stops.
pub async fn keep(app: &App) {
    loop {
        sample(app).await;
        tokio::select! {
            () = app.stopping.cancelled() => return,
            () = app.clock.sleep_until(app.clock.now_ms() + EVERY_MS) => {}
        }
    }
}

/// Takes one sample.
pub async fn sample(app: &App) {
    let now_ms = app.clock.now_ms();
    app.load.push(LoadSample {
        at_ms: now_ms,
        checkins_per_s: app.fleet.check_ins.per_second(now_ms),
        updates_per_s: app.fleet.updates.per_second(now_ms),
        memory_bytes: resident_bytes(),
        database_bytes: database_bytes(app).await,
    });
}

/// None while the database does not answer: a gap in the line says so.
async fn database_bytes(app: &App) -> Option<u64> {
    app.db.read().await.ok()?.database_bytes().await.ok()
}
