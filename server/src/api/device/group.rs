//! The calls of a client whose update is masked: it joins, shares secrets, learns who is left, opens the sum.
//!
//! Each call but the last is held until its group goes on, at most a minute; then the answer is 204, and the client
//! asks again. A call that is repeated gets the same answer.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use tributary_engine::round::RetryReason;
use tributary_protocol::id::AssignmentId;

use super::held::held;
use super::report::{or_refused, report_accepted};
use crate::api::auth::{Device, Identified, Origin};
use crate::api::extract::{Path, body};
use crate::api::problem::Answer;
use crate::app::App;
use crate::masking::calls::{self, Ask};

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
    answer(&app, (&client, origin), id, Ask::Formed).await
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
    answer(&app, (&client, origin), id, Ask::Inbox).await
}

pub(super) async fn survivors(
    State(app): State<Arc<App>>,
    Device(client): Device,
    origin: Origin,
    Path(id): Path<AssignmentId>,
) -> Answer<Response> {
    answer(&app, (&client, origin), id, Ask::Survivors).await
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
    answer(&app, (&client, origin), id, Ask::Agreement).await
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

async fn answer(app: &App, (client, origin): (&Identified, Origin), id: AssignmentId, ask: Ask) -> Answer<Response> {
    let response = |body: Vec<u8>| ([(header::CONTENT_TYPE, "application/octet-stream")], body);
    let asked = || async move { calls::answer(app, client.id, id, ask).await.map(|answer| answer.map(response)) };
    held(app, (client, origin), asked).await
}
