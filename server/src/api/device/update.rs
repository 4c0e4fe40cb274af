//! The calls about an update: send it, resume an interrupted one, ask how much of it is stored.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use tracing::Instrument;
use tributary_engine::round::RetryReason;
use tributary_protocol::device::{PARTIAL_UPLOAD, UPLOAD_COMPLETE, UPLOAD_OFFSET, UpdateQuery};
use tributary_protocol::digest::{REPR_DIGEST, parse_repr_digest, repr_digest};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::AssignmentId;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::relay::SumQuery;

use super::report::{refused, report_accepted};
use crate::api::auth::{Device, Identified};
use crate::api::extract::{Path, Query};
use crate::api::problem::{Answer, ApiError};
use crate::app::App;
use crate::db::ClientRow;
use crate::updates::upload::{Announced, Form, Stop, Told, Upload, UploadRefusal, Uploaded, offset};

pub(super) async fn put_update(
    State(app): State<Arc<App>>,
    Device(client): Device,
    Path(id): Path<AssignmentId>,
    Query(query): Query<UpdateQuery>,
    headers: HeaderMap,
    body: Body,
) -> Answer<Response> {
    receive(&app, client, id, Told::Update(query), begins(&headers)?, body).await
}

pub(super) async fn patch_update(
    State(app): State<Arc<App>>,
    Device(client): Device,
    Path(id): Path<AssignmentId>,
    Query(query): Query<UpdateQuery>,
    headers: HeaderMap,
    body: Body,
) -> Answer<Response> {
    receive(&app, client, id, Told::Update(query), resumes(&headers)?, body).await
}

pub(super) async fn put_part(
    State(app): State<Arc<App>>,
    Device(client): Device,
    Path((id, part)): Path<(AssignmentId, u16)>,
    Query(query): Query<UpdateQuery>,
    headers: HeaderMap,
    body: Body,
) -> Answer<Response> {
    receive(&app, client, id, Told::Part(part, query), begins(&headers)?, body).await
}

pub(super) async fn patch_part(
    State(app): State<Arc<App>>,
    Device(client): Device,
    Path((id, part)): Path<(AssignmentId, u16)>,
    Query(query): Query<UpdateQuery>,
    headers: HeaderMap,
    body: Body,
) -> Answer<Response> {
    receive(&app, client, id, Told::Part(part, query), resumes(&headers)?, body).await
}

/// A masked update says nothing of itself outside of its body.
pub(super) async fn put_masked(
    State(app): State<Arc<App>>,
    Device(client): Device,
    Path(id): Path<AssignmentId>,
    headers: HeaderMap,
    body: Body,
) -> Answer<Response> {
    receive(&app, client, id, Told::Masked, begins(&headers)?, body).await
}

pub(super) async fn patch_masked(
    State(app): State<Arc<App>>,
    Device(client): Device,
    Path(id): Path<AssignmentId>,
    headers: HeaderMap,
    body: Body,
) -> Answer<Response> {
    receive(&app, client, id, Told::Masked, resumes(&headers)?, body).await
}

pub(super) async fn put_sum(
    State(app): State<Arc<App>>,
    Device(client): Device,
    Path(id): Path<AssignmentId>,
    Query(query): Query<SumQuery>,
    headers: HeaderMap,
    body: Body,
) -> Answer<Response> {
    receive(&app, client, id, Told::Sum(query), begins(&headers)?, body).await
}

pub(super) async fn patch_sum(
    State(app): State<Arc<App>>,
    Device(client): Device,
    Path(id): Path<AssignmentId>,
    Query(query): Query<SumQuery>,
    headers: HeaderMap,
    body: Body,
) -> Answer<Response> {
    receive(&app, client, id, Told::Sum(query), resumes(&headers)?, body).await
}

/// What the headers say of a body that begins an update.
fn begins(headers: &HeaderMap) -> Answer<Announced> {
    Ok(Announced {
        digest: digest(headers)?,
        length: number(headers, &header::CONTENT_LENGTH)?,
        offset: None,
        complete: complete(headers)?.unwrap_or(true),
    })
}

/// What the headers say of a body that continues an update.
fn resumes(headers: &HeaderMap) -> Answer<Announced> {
    let missing = |name: &str| ApiError::new(ProblemType::Malformed, format!("resuming an upload needs {name}"));
    if headers.get(header::CONTENT_TYPE).is_none_or(|value| value != PARTIAL_UPLOAD) {
        return Err(missing(&format!("Content-Type: {PARTIAL_UPLOAD}")));
    }
    let begin = number(headers, &HeaderName::from_static(UPLOAD_OFFSET))?;
    Ok(Announced {
        digest: Some(digest(headers)?.ok_or_else(|| missing("Repr-Digest: sha-256=:..:"))?),
        length: number(headers, &header::CONTENT_LENGTH)?,
        offset: Some(begin.ok_or_else(|| missing("Upload-Offset: <bytes>"))?),
        complete: complete(headers)?.ok_or_else(|| missing("Upload-Complete: ?0 or ?1"))?,
    })
}

pub(super) async fn upload_offset(
    State(app): State<Arc<App>>,
    Device(client): Device,
    Path(id): Path<AssignmentId>,
) -> Answer<Response> {
    offset_of(&app, &client, id, Form::Update).await
}

pub(super) async fn part_offset(
    State(app): State<Arc<App>>,
    Device(client): Device,
    Path((id, part)): Path<(AssignmentId, u16)>,
) -> Answer<Response> {
    offset_of(&app, &client, id, Form::Part(part)).await
}

pub(super) async fn masked_offset(
    State(app): State<Arc<App>>,
    Device(client): Device,
    Path(id): Path<AssignmentId>,
) -> Answer<Response> {
    offset_of(&app, &client, id, Form::Masked).await
}

pub(super) async fn sum_offset(
    State(app): State<Arc<App>>,
    Device(client): Device,
    Path(id): Path<AssignmentId>,
) -> Answer<Response> {
    offset_of(&app, &client, id, Form::Sum).await
}

async fn offset_of(app: &App, client: &Identified, id: AssignmentId, form: Form) -> Answer<Response> {
    match offset(app, &app.updates, client.id, id, form).await {
        Ok(None) => Ok(progress(None, true)),
        Ok(Some((bytes, digest))) => {
            let mut response = progress(Some(bytes), false);
            if let Some(hash) = digest {
                set(&mut response, REPR_DIGEST, &repr_digest(hash));
            }
            Ok(response)
        }
        Err(refusal) => answer(app, client, refusal).await,
    }
}

async fn receive(
    app: &App,
    client: Identified,
    id: AssignmentId,
    told: Told,
    announced: Announced,
    body: Body,
) -> Answer<Response> {
    // Once for an update, whatever it comes in.
    let is_counted = !matches!(told, Told::Part(1.., _));
    let upload = Upload {
        services: app.services.clone(),
        updates: Arc::clone(&app.updates),
        client: client.id,
        id,
        told,
        announced,
    };
    let body = body.into_data_stream().map(|data| data.map_err(|error| error.to_string()));
    // A task of its own: if the client disconnects, the received bytes are still stored or subtracted.
    let received = tokio::spawn(upload.receive(Box::pin(body)).in_current_span()).await.map_err(ApiError::internal)?;
    match received {
        Ok(Uploaded::Accepted) => {
            if is_counted {
                app.fleet.updates.count(app.clock.now_ms());
            }
            Ok(report_accepted(app, &client, RetryReason::Reported).await?.into_response())
        }
        Ok(Uploaded::Partly { bytes }) => Ok(progress(Some(bytes), false)),
        Err(refusal) => answer(app, &client, refusal).await,
    }
}

/// The answer to an upload that was refused or ended early.
async fn answer(app: &App, client: &ClientRow, refusal: UploadRefusal) -> Answer<Response> {
    let detail = refusal.to_string();
    let kind = match refusal {
        UploadRefusal::Report(refusal) => return Err(refused(app, client, refusal).await?),
        UploadRefusal::Stopped(stop) => return Err(stopped(stop)),
        UploadRefusal::WrongOffset { bytes } => return Ok(wrong_offset(bytes, detail)),
        UploadRefusal::TooLarge { .. } => ProblemType::TooLarge,
        UploadRefusal::BrokenOff(_) => ProblemType::Malformed,
        UploadRefusal::WrongDigest | UploadRefusal::OtherBody => ProblemType::DigestMismatch,
        UploadRefusal::Rejected(_) => ProblemType::UpdateRejected,
    };
    Err(ApiError::new(kind, detail))
}

/// The answer when reading stopped although the round is still open.
fn stopped(stop: Stop) -> ApiError {
    match stop {
        Stop::Deadline => ApiError::new(ProblemType::TooManyRequests, "the body came too slowly").retry_after_ms(5_000),
        // A client that stopped sending must not delay the stop of the coordinator.
        Stop::Stopping => ApiError::new(ProblemType::Unavailable, "the coordinator is stopping").retry_after_ms(1_000),
        Stop::Closed => ApiError::new(ProblemType::Unavailable, "the round is ending").retry_after_ms(1_000),
        Stop::Outpaced => {
            let detail = "the body came too slowly while other updates waited; send it again, or resume it";
            ApiError::new(ProblemType::TooManyRequests, detail).retry_after_ms(5_000)
        }
        Stop::Superseded => {
            ApiError::new(ProblemType::UploadSuperseded, "this update is being sent by another request")
        }
    }
}

/// An answer without a body that says how many bytes are stored.
fn progress(bytes: Option<u64>, complete: bool) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    if let Some(bytes) = bytes {
        set(&mut response, UPLOAD_OFFSET, &bytes.to_string());
    }
    set(&mut response, UPLOAD_COMPLETE, if complete { "?1" } else { "?0" });
    set(&mut response, header::CACHE_CONTROL.as_str(), "no-store");
    response
}

/// The refusal of a body that does not begin where the upload continues.
fn wrong_offset(bytes: u64, detail: String) -> Response {
    let mut response = ApiError::new(ProblemType::UploadOffset, detail).into_response();
    set(&mut response, UPLOAD_OFFSET, &bytes.to_string());
    response
}

fn set(response: &mut Response, name: &'static str, value: &str) {
    let value = HeaderValue::from_str(value).expect("digits, hashes and our own words are legal header values");
    response.headers_mut().insert(HeaderName::from_static(name), value);
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Answer<Option<&'a str>> {
    let value = headers.get(name).map(HeaderValue::to_str).transpose();
    value.map_err(|_| ApiError::new(ProblemType::Malformed, format!("{name} is not text")))
}

fn number(headers: &HeaderMap, name: &HeaderName) -> Answer<Option<u64>> {
    let value = text(headers, name)?.map(str::parse).transpose();
    value.map_err(|_| ApiError::new(ProblemType::Malformed, format!("{name} must be a number of bytes")))
}

/// A boolean of a structured field (RFC 9651).
fn complete(headers: &HeaderMap) -> Answer<Option<bool>> {
    match text(headers, &HeaderName::from_static(UPLOAD_COMPLETE))? {
        None => Ok(None),
        Some("?1") => Ok(Some(true)),
        Some("?0") => Ok(Some(false)),
        Some(_) => Err(ApiError::new(ProblemType::Malformed, "Upload-Complete must be ?0 or ?1")),
    }
}

fn digest(headers: &HeaderMap) -> Answer<Option<Sha256Hash>> {
    let value = text(headers, &HeaderName::from_static(REPR_DIGEST))?;
    let parsed = value.map(parse_repr_digest).transpose();
    Ok(parsed.map_err(|error| ApiError::new(ProblemType::Malformed, error.to_string()))?.flatten())
}
