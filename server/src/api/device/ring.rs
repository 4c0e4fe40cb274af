//! The calls of a client whose group adds up among itself: it is ready, it could not go on, it has the sum.
//!
//! Two of them are held until there is an answer, at most a minute; then the answer is 204, and the client asks again.
//! A call that is repeated gets the answer that holds then.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use tributary_protocol::group::messages::{RingOutcome, RingReady, RingStall};
use tributary_protocol::id::AssignmentId;

use super::checkin::too_many_held;
use super::report::{or_refused, refused};
use crate::api::auth::{Device, Identified, Origin};
use crate::api::extract::{Json, Path};
use crate::api::problem::Answer;
use crate::app::App;
use crate::ring::calls::{self, Ask};

/// Longest time that a call is held, in milliseconds.
const HELD_MS_MAX: i64 = 60_000;

pub(super) async fn ready(
    State(app): State<Arc<App>>,
    Device(client): Device,
    origin: Origin,
    Path(id): Path<AssignmentId>,
    Json(ready): Json<RingReady>,
) -> Answer<Response> {
    let told = calls::ready(&app, &client, id, &ready, origin.address).await;
    or_refused(&app, &client, told).await?;
    held(&app, (&client, origin), id, Ask::Attempt(ready.attempt)).await
}

pub(super) async fn stall(
    State(app): State<Arc<App>>,
    Device(client): Device,
    Path(id): Path<AssignmentId>,
    Json(stall): Json<RingStall>,
) -> Answer<StatusCode> {
    or_refused(&app, &client, calls::stall(&app, &client, id, &stall).await).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn outcome(
    State(app): State<Arc<App>>,
    Device(client): Device,
    origin: Origin,
    Path(id): Path<AssignmentId>,
    Json(outcome): Json<RingOutcome>,
) -> Answer<Response> {
    or_refused(&app, &client, calls::outcome(&app, &client, id, &outcome).await).await?;
    held(&app, (&client, origin), id, Ask::Outcome(outcome.attempt)).await
}

/// Asks until there is an answer, the time is over, or the coordinator stops.
async fn held(app: &App, (client, origin): (&Identified, Origin), id: AssignmentId, ask: Ask) -> Answer<Response> {
    let address = origin.address;
    drop(origin);
    let _held = app.guard.hold(address).ok_or_else(too_many_held)?;
    let until_ms = app.clock.now_ms().saturating_add(HELD_MS_MAX);
    let mut changes = app.signals.watch();
    loop {
        match calls::answer(app, &app.fleet, client, id, ask).await {
            Ok(Some(answer)) => {
                return Ok(([(header::CACHE_CONTROL, "no-store")], axum::Json(answer)).into_response());
            }
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
