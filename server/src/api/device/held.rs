//! Calls of a client that wait for the other members of its group.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::checkin::too_many_held;
use super::report::refused;
use crate::api::auth::Origin;
use crate::api::problem::Answer;
use crate::app::App;
use crate::db::ClientRow;
use crate::lifecycle::assignments::Refusal;

/// Longest time that a call is held, in milliseconds.
const HELD_MS_MAX: i64 = 60_000;

/// Asks after each change until there is an answer, the time is over, or the coordinator stops. Without an answer the
/// response is 204.
pub(super) async fn held<A: IntoResponse, F: Future<Output = Result<Option<A>, Refusal>>>(
    app: &App,
    (client, origin): (&ClientRow, Origin),
    ask: impl Fn() -> F,
) -> Answer<Response> {
    let address = origin.address;
    drop(origin);
    let _held = app.guard.hold(address).ok_or_else(too_many_held)?;
    let until_ms = app.clock.now_ms().saturating_add(HELD_MS_MAX);
    let mut changes = app.signals.watch();
    loop {
        match ask().await {
            Ok(Some(answer)) => return Ok(([(header::CACHE_CONTROL, "no-store")], answer).into_response()),
            Ok(None) => {}
            Err(refusal) => return Err(refused(app, client, refusal).await?),
        }
        tokio::select! {
            changed = changes.changed() => if changed.is_ok() { continue },
            () = app.clock.sleep_until(until_ms) => {}
            () = app.stopping.cancelled() => {}
        }
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
}
