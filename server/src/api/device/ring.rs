//! The calls of a client whose group adds up among itself: it is ready, it could not go on, it has the sum.
//!
//! Two of them are held until there is an answer, at most a minute; then the answer is 204, and the client asks again.
//! A call that is repeated gets the answer that holds then.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use tributary_protocol::group::messages::{RingOutcome, RingReady, RingStall};
use tributary_protocol::id::AssignmentId;

use super::held::held;
use super::report::or_refused;
use crate::api::auth::{Device, Identified, Origin};
use crate::api::extract::{Json, Path};
use crate::api::problem::Answer;
use crate::app::App;
use crate::ring::calls::{self, Ask};

pub(super) async fn ready(
    State(app): State<Arc<App>>,
    Device(client): Device,
    origin: Origin,
    Path(id): Path<AssignmentId>,
    Json(ready): Json<RingReady>,
) -> Answer<Response> {
    let told = calls::ready(&app, &client, id, &ready, origin.address).await;
    or_refused(&app, &client, told).await?;
    answer(&app, (&client, origin), id, Ask::Attempt(ready.attempt)).await
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
    answer(&app, (&client, origin), id, Ask::Outcome(outcome.attempt)).await
}

async fn answer(app: &App, (client, origin): (&Identified, Origin), id: AssignmentId, ask: Ask) -> Answer<Response> {
    let asked = || async { calls::answer(app, &app.fleet, client, id, ask).await.map(|answer| answer.map(axum::Json)) };
    held(app, (client, origin), asked).await
}
