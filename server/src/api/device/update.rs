//! Receiving an update: checked while it arrives, stored, acknowledged, folded.
//!
//! Bytes moved per f32 parameter: 4 from the socket into the body, 4 decoded, 4 to the database, and the fold's own.
//! The database write is the limit.

use std::sync::{Arc, PoisonError};

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use http_body_util::BodyExt;
use tributary_protocol::device::{LOSS_MAX, ReportAccepted, UpdateQuery};
use tributary_protocol::hash::{Sha256Hash, Sha256Hasher};
use tributary_protocol::id::AssignmentId;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AssignmentState, Task};
use tributary_protocol::update::{UpdateDecoder, UpdateError, UpdateSummary};

use super::report::{accept, own_assignment, refuse, require_open};
use crate::api::auth::Device;
use crate::api::extract::{Json, Path, Query};
use crate::api::problem::{Answer, ApiError};
use crate::app::App;
use crate::blob::update_key;
use crate::db::{AssignmentRow, ClientRow, Report, RoundRow};
use crate::entropy;
use crate::spec::JobSpec;

/// Longest time in which a repeated update is read, in milliseconds.
const REPEAT_MS_MAX: i64 = 600_000;

pub(super) async fn put_update(
    State(app): State<Arc<App>>,
    Device(client): Device,
    Path(id): Path<AssignmentId>,
    Query(query): Query<UpdateQuery>,
    headers: HeaderMap,
    body: Body,
) -> Answer<Json<ReportAccepted>> {
    let (assignment, round, spec) = lookup(&app, &client, id).await?;
    // An update that was accepted before is read once more, to tell a repetition from a conflict.
    if assignment.state != AssignmentState::Reported {
        require_open(&app, &client, &assignment, &round).await?;
    }
    let announced: Option<u64> =
        headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    if announced.is_some_and(|bytes| bytes > spec.update_bytes_max) {
        return Err(too_large(&spec));
    }

    let receiving = async {
        let _place = app.update_places.acquire().await.map_err(ApiError::internal)?;
        receive(&spec, round.base_version, body).await
    };
    let until_ms = match assignment.state {
        AssignmentState::Reported => app.clock.now_ms() + REPEAT_MS_MAX,
        _ => round.deadline_at_ms.unwrap_or(0),
    };
    let received = tokio::select! {
        received = receiving => received?,
        () = app.clock.sleep_until(until_ms) => {
            // The rest of the body is not worth waiting for. What became of the round is looked up anew.
            let (assignment, round, _) = lookup(&app, &client, id).await?;
            require_open(&app, &client, &assignment, &round).await?;
            return Err(ApiError::new(ProblemType::TooManyRequests, "the body came too slowly").retry_after_ms(5_000));
        }
        () = app.stopping.cancelled() => {
            // A client that stopped sending must not hold up the stop; it can send all of it again.
            return Err(ApiError::new(ProblemType::Unavailable, "the coordinator is stopping").retry_after_ms(1_000));
        }
    };
    if assignment.state == AssignmentState::Reported {
        return repeat(&app, &client, id, &received).await;
    }
    let Received { body, sha256, delta, checked } = received;
    let checked = checked
        .map_err(|error| error.to_string())
        .and_then(|summary| check_figures(&query, spec.plan.weight_max).map(|()| summary));
    let summary = match checked {
        Ok(summary) => summary,
        Err(reason) => {
            let bytes_up = body.len() as u64;
            refuse(&app, &client, &assignment, AssignmentState::Rejected, &reason, bytes_up).await?;
            return Err(ApiError::new(ProblemType::UpdateRejected, reason));
        }
    };

    let bytes_up = body.len() as u64;
    let report = Report {
        weight: query.weight.into(),
        loss: query.loss,
        accuracy: None,
        steps: query.steps,
        work_ms: query.train_ms,
        update_norm: Some(summary.norm),
        sha256,
        bytes_up,
        bytes_down: app.downloads(client.id),
    };
    // A task of its own: should the client hang up now, what is being stored is still folded and told to the driver.
    let finishing = tokio::spawn(async move {
        // Before the transaction that makes it count: a store may take its time, and no lock is held meanwhile.
        let attempt = entropy::random();
        let mut staged = app.blobs.stage(update_key(id), body.into(), attempt, app.clock.now_ms()).await?;
        let accepted = accept(&app, &client, id, Task::Train, report, Some(&mut staged)).await;
        app.blobs.discard_unsettled(staged).await;
        let accepted = accepted?;
        fold(&app, &assignment, delta, query.weight).await;
        app.changed();
        Ok(accepted)
    });
    finishing.await.map_err(ApiError::internal)?
}

async fn lookup(app: &App, client: &ClientRow, id: AssignmentId) -> Answer<(AssignmentRow, RoundRow, Arc<JobSpec>)> {
    let mut tx = app.db.read().await?;
    let (assignment, round) = own_assignment(&mut tx, client, id, Some(Task::Train)).await?;
    let job = tx.job(round.job).await?.ok_or_else(|| ApiError::not_found(round.job))?;
    Ok((assignment, round, app.specs.of(&job)?))
}

/// A body that arrived whole.
struct Received {
    body: Vec<u8>,
    sha256: Sha256Hash,
    /// The values, zero where the check failed before them.
    delta: Vec<f32>,
    checked: Result<UpdateSummary, UpdateError>,
}

/// Reads the body to its end, checking and hashing each piece as it comes. A body that breaks off changes nothing, so
/// that the client can send it again.
async fn receive(spec: &JobSpec, base_version: u32, mut body: Body) -> Answer<Received> {
    let mut decoder =
        UpdateDecoder::new(Arc::clone(&spec.parameters), spec.update_header(base_version), spec.update_limits());
    let mut hasher = Sha256Hasher::new();
    let mut delta = vec![0.0; spec.parameters.total()];
    let mut bytes = Vec::new();
    let mut failed = None;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            ApiError::new(ProblemType::Malformed, format!("the body broke off after {} bytes: {error}", bytes.len()))
        })?;
        let Ok(piece) = frame.into_data() else { continue };
        if (bytes.len() + piece.len()) as u64 > spec.update_bytes_max {
            return Err(too_large(spec));
        }
        hasher.update(&piece);
        bytes.extend_from_slice(&piece);
        if failed.is_none() {
            failed = decoder.push(&piece, &mut delta).err();
        }
    }
    let checked = failed.map_or_else(|| decoder.finish(), Err);
    Ok(Received { body: bytes, sha256: hasher.finish(), delta, checked })
}

fn too_large(spec: &JobSpec) -> ApiError {
    let detail = format!("an update of this job has at most {} bytes", spec.update_bytes_max);
    ApiError::new(ProblemType::TooLarge, detail)
}

fn check_figures(query: &UpdateQuery, weight_max: u32) -> Result<(), String> {
    if query.weight == 0 {
        return Err("the weight is 0: an update must come from at least one example".into());
    }
    if query.weight > weight_max {
        return Err(format!("the weight {} is above the job's largest, {weight_max}", query.weight));
    }
    if !(-LOSS_MAX..=LOSS_MAX).contains(&query.loss) {
        return Err("the training loss is not finite, or above 1e12".into());
    }
    Ok(())
}

/// The answer to an update that is there already.
async fn repeat(app: &App, client: &ClientRow, id: AssignmentId, received: &Received) -> Answer<Json<ReportAccepted>> {
    let report = Report {
        weight: 0,
        loss: 0.0,
        accuracy: None,
        steps: 0,
        work_ms: 0,
        update_norm: None,
        sha256: received.sha256,
        bytes_up: 0,
        bytes_down: 0,
    };
    accept(app, client, id, Task::Train, report, None).await
}

/// Adds an acknowledged update to its round's sum. Whatever goes wrong here loses nothing: the update is stored, and
/// what a sum lacks is folded in when the round is aggregated.
async fn fold(app: &App, assignment: &AssignmentRow, delta: Vec<f32>, weight: u32) {
    let Some(sum) = app.sums.begun(assignment.round()) else { return };
    let id = assignment.id;
    let folded = tokio::task::spawn_blocking(move || {
        sum.lock().unwrap_or_else(PoisonError::into_inner).fold(id, &delta, weight)
    });
    let failed = match folded.await {
        Ok(folded) => folded.err().map(|error| error.to_string()),
        Err(error) => Some(error.to_string()),
    };
    if let Some(error) = failed {
        tracing::error!(%error, %id, "an accepted update could not be added yet");
    }
}
