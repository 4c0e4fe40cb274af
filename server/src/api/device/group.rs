//! The calls of a client whose update is masked: it joins, shares secrets, learns who is left, opens the sum.
//!
//! Each call but the last is held until its group goes on, at most a minute; then the answer is 204, and the client
//! asks again. A call that is repeated gets the same answer.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use tributary_engine::round::RetryReason;
use tributary_protocol::id::AssignmentId;

use super::checkin::too_many_held;
use super::report::{or_refused, refused, report_accepted};
use crate::api::auth::{Device, Identified, Origin};
use crate::api::extract::{Path, body};
use crate::api::problem::Answer;
use crate::app::App;
use crate::masking::calls::{self, Ask};

/// Longest time that a call is held, in milliseconds.
const HELD_MS_MAX: i64 = 60_000;
/// Largest message: sealed shares for 254 neighbours.
const MESSAGE_BYTES_MAX: usize = 32 << 10;

pub(super) async fn join(
    State(app): State<Arc<App>>,
    Device(client): Device,
    origin: Origin,
    Path(id): Path<AssignmentId>,
    request: Request,
) -> Answer<Response> {
    let body = body(request, MESSAGE_BYTES_MAX, &app.guard).await?;
    or_refused(&app, &client, calls::join(&app, &client, id, &body).await).await?;
    held(&app, (&client, origin), id, Ask::Formed).await
}

pub(super) async fn put_shares(
    State(app): State<Arc<App>>,
    Device(client): Device,
    origin: Origin,
    Path(id): Path<AssignmentId>,
    request: Request,
) -> Answer<Response> {
    let body = body(request, MESSAGE_BYTES_MAX, &app.guard).await?;
    or_refused(&app, &client, calls::share(&app, client.id, id, &body).await).await?;
    held(&app, (&client, origin), id, Ask::Inbox).await
}

pub(super) async fn survivors(
    State(app): State<Arc<App>>,
    Device(client): Device,
    origin: Origin,
    Path(id): Path<AssignmentId>,
) -> Answer<Response> {
    held(&app, (&client, origin), id, Ask::Survivors).await
}

pub(super) async fn put_agreement(
    State(app): State<Arc<App>>,
    Device(client): Device,
    origin: Origin,
    Path(id): Path<AssignmentId>,
    request: Request,
) -> Answer<Response> {
    let body = body(request, MESSAGE_BYTES_MAX, &app.guard).await?;
    or_refused(&app, &client, calls::agree(&app, client.id, id, &body).await).await?;
    held(&app, (&client, origin), id, Ask::Agreement).await
}

pub(super) async fn unmask(
    State(app): State<Arc<App>>,
    Device(client): Device,
    Path(id): Path<AssignmentId>,
    request: Request,
) -> Answer<Response> {
    let body = body(request, MESSAGE_BYTES_MAX, &app.guard).await?;
    or_refused(&app, &client, calls::unmask(&app, client.id, id, &body).await).await?;
    Ok(report_accepted(&app, &client, RetryReason::Reported).await?.into_response())
}

/// Asks until there is an answer, the time is over, or the coordinator stops.
async fn held(app: &App, (client, origin): (&Identified, Origin), id: AssignmentId, ask: Ask) -> Answer<Response> {
    let address = origin.address;
    drop(origin);
    let _held = app.guard.hold(address).ok_or_else(too_many_held)?;
    let until_ms = app.clock.now_ms().saturating_add(HELD_MS_MAX);
    let mut changes = app.signals.watch();
    loop {
        match calls::answer(app, client.id, id, ask).await {
            Ok(Some(body)) => {
                let kind = [(header::CONTENT_TYPE, "application/octet-stream"), (header::CACHE_CONTROL, "no-store")];
                return Ok((kind, body).into_response());
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
