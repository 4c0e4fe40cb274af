//! Check-ins: a client is held until there is work for it, or its waiting time ends.
//!
//! No check-in waits for a fixed time. The driver draws a cohort as soon as enough clients wait, and calls each held
//! request.

use std::sync::Arc;

use axum::extract::State;
use tributary_engine::round::{HELD_MS_MIN, RetryReason};
use tributary_protocol::device::{Assignment, CheckInReply, CheckInRequest, CheckInResponse, WaitsFor};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::release::CHANNELS_MAX;
use tributary_protocol::state::Standing;

use super::texts::require_text;
use crate::api::auth::{DueDevice, Origin};
use crate::api::extract::Json;
use crate::api::problem::{Answer, ApiError};
use crate::app::App;
use crate::db::{ClientRow, DbError};
use crate::fleet::Fleet;
use crate::fleet::held::{HeldCheckIn, Waited};
use crate::fleet::lobby::Call;
use crate::fleet::waits::waits_for;
use crate::guard;
use crate::metrics::CheckInAnswer;
use crate::models::offer;

pub(super) async fn check_in(
    State(app): State<Arc<App>>,
    DueDevice { client, due, has_work }: DueDevice,
    origin: Origin,
    Json(mut request): Json<CheckInRequest>,
) -> Answer<Json<CheckInReply>> {
    require_text(&request.attributes)?;
    let channels = std::mem::take(&mut request.channels);
    if channels.len() > CHANNELS_MAX {
        let detail = format!("a client follows at most {CHANNELS_MAX} channels");
        return Err(ApiError::new(ProblemType::Malformed, detail));
    }
    if request.relay.is_some() && !client.is_relay() {
        let detail = "the token of this client grants no relay: its parent makes one with token create --relay";
        return Err(ApiError::new(ProblemType::Forbidden, detail));
    }
    app.fleet.check_ins.count(app.clock.now_ms());
    if !client.granted.0.is_empty() {
        request.attributes = request.attributes.with_granted(&client.granted.0);
    }
    // The futures that ask the database are boxed and freed before the client is held, because ten thousand futures
    // wait in the code below.
    Box::pin(Fleet::remember(&app, &client, &request)).await?;
    let channels = match channels.is_empty() {
        true => Vec::new(),
        false => Box::pin(app.releases.news((&app, &app.fleet), &client, channels)).await?,
    };
    let answer = |response| Ok(Json(CheckInReply { response, renew: due.renewals(), channels }));
    if client.standing == Standing::Quarantined {
        app.metrics.checkin(client.population.as_str(), CheckInAnswer::NoJob);
        let retry_after_ms = Box::pin(app.fleet.retry_of(&app, &client, RetryReason::NoJob)).await?;
        return answer(CheckInResponse::Retry { retry_after_ms, waits_for: Some(WaitsFor::Release) });
    }
    let address = origin.address;
    drop(origin);
    let _held = app.guard.hold(address).ok_or_else(too_many_held)?;
    let held = HeldCheckIn::enter(&app, &app.fleet, &client, request);
    let waits = held.waits();
    // One that was looked up when it was identified, and was drawn since then, is called within a second.
    if waits
        && has_work != Some(false)
        && let Some(assignment) = Box::pin(offer::look(&app, &client)).await?
    {
        return answer(assigned(&app, &client, assignment));
    }
    app.signals.client_waits(&client.population, held.places());
    let waited = held.wait(&app, &app.fleet).await;
    match &waited.call {
        Some(Call::Work(work)) => {
            if let Some(assignment) = Box::pin(offer::given(&app, &client, work)).await? {
                return answer(assigned(&app, &client, assignment));
            }
        }
        Some(Call::Replaced) => app.guard.replaced(),
        Some(Call::Look) | None => {}
    }
    // A client that does not wait is looked up once: here, or when it was identified.
    let may_have_work = waits || waited.call.is_some() || has_work != Some(false);
    answer(Box::pin(after_wait(&app, &client, &waited, may_have_work)).await?)
}

pub(super) fn too_many_held() -> ApiError {
    let detail = "too many clients of this address wait for work already";
    ApiError::new(ProblemType::TooManyRequests, detail).retry_after_ms(guard::RETRY_MS)
}

fn assigned(app: &App, client: &ClientRow, assignment: Assignment) -> CheckInResponse {
    app.metrics.checkin(client.population.as_str(), CheckInAnswer::Assigned);
    CheckInResponse::Assigned(Box::new(assignment))
}

/// The answer after a wait that ended without work.
async fn after_wait(
    app: &App,
    client: &ClientRow,
    waited: &Waited,
    may_have_work: bool,
) -> Result<CheckInResponse, DbError> {
    let changes = app.signals.changes();
    if may_have_work
        && !waited.is_stopping
        && let Some(assignment) = offer::look(app, client).await?
    {
        return Ok(assigned(app, client, assignment));
    }
    let wanted = match waited.is_stopping {
        true => None,
        false => Some(app.fleet.wants.read(app, client, changes, waited.explained.is_some()).await?),
    };
    let (reason, answer) = match &wanted {
        None => (RetryReason::Unavailable, CheckInAnswer::Stopping),
        Some(wanted) if !wanted.has_running_job => (RetryReason::NoJob, CheckInAnswer::NoJob),
        Some(_) if waited.held_ms >= HELD_MS_MIN => (RetryReason::Held, CheckInAnswer::NothingCame),
        Some(_) => (RetryReason::NothingCame, CheckInAnswer::NothingCame),
    };
    app.metrics.checkin(client.population.as_str(), answer);
    let waits_for = match waited.explained.as_ref().zip(wanted.as_ref()) {
        Some((candidate, wanted)) => Some(waits_for(app, &app.fleet, wanted, candidate).await?),
        None => None,
    };
    Ok(CheckInResponse::Retry { retry_after_ms: app.fleet.retry_of(app, client, reason).await?, waits_for })
}
