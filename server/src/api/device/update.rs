//! The calls about an update: send it, go on with one that broke off, ask where that is.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tributary_protocol::device::{PARTIAL_UPLOAD, UPLOAD_COMPLETE, UPLOAD_OFFSET, UpdateQuery};
use tributary_protocol::digest::{REPR_DIGEST, parse_repr_digest, repr_digest};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::AssignmentId;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::AssignmentState;

use super::receive::{Upload, claim, lookup};
use super::report::require_open;
use crate::api::auth::Device;
use crate::api::extract::{Path, Query};
use crate::api::problem::{Answer, ApiError};
use crate::app::App;

/// What a request says of its body.
#[derive(Clone, Copy, Debug)]
pub(super) struct Announced {
    /// The whole update's hash; without it an update that breaks off begins anew.
    pub(super) digest: Option<Sha256Hash>,
    /// Bytes of this request's body, if it says so.
    pub(super) length: Option<u64>,
    /// Where in the update this body begins, if it goes on with one.
    pub(super) offset: Option<u64>,
    /// Whether the update ends where this body does.
    pub(super) complete: bool,
}

pub(super) async fn put_update(
    State(app): State<Arc<App>>,
    Device(client): Device,
    Path(id): Path<AssignmentId>,
    Query(query): Query<UpdateQuery>,
    headers: HeaderMap,
    body: Body,
) -> Answer<Response> {
    let announced = Announced {
        digest: digest(&headers)?,
        length: number(&headers, &header::CONTENT_LENGTH)?,
        offset: None,
        complete: complete(&headers)?.unwrap_or(true),
    };
    Upload { app, client, id, query, announced }.run(body).await
}

pub(super) async fn patch_update(
    State(app): State<Arc<App>>,
    Device(client): Device,
    Path(id): Path<AssignmentId>,
    Query(query): Query<UpdateQuery>,
    headers: HeaderMap,
    body: Body,
) -> Answer<Response> {
    let missing = |name: &str| ApiError::new(ProblemType::Malformed, format!("going on with an upload needs {name}"));
    if headers.get(header::CONTENT_TYPE).is_none_or(|value| value != PARTIAL_UPLOAD) {
        return Err(missing(&format!("Content-Type: {PARTIAL_UPLOAD}")));
    }
    let offset = number(&headers, &HeaderName::from_static(UPLOAD_OFFSET))?;
    let announced = Announced {
        digest: Some(digest(&headers)?.ok_or_else(|| missing("Repr-Digest: sha-256=:..:"))?),
        length: number(&headers, &header::CONTENT_LENGTH)?,
        offset: Some(offset.ok_or_else(|| missing("Upload-Offset: <bytes>"))?),
        complete: complete(&headers)?.ok_or_else(|| missing("Upload-Complete: ?0 or ?1"))?,
    };
    Upload { app, client, id, query, announced }.run(body).await
}

/// How much of an update is here. Whoever is still sending it is stopped, so that the answer stays true.
pub(super) async fn upload_offset(
    State(app): State<Arc<App>>,
    Device(client): Device,
    Path(id): Path<AssignmentId>,
) -> Answer<Response> {
    let (assignment, round, _) = lookup(&app, &client, id).await?;
    if assignment.state == AssignmentState::Reported {
        return Ok(progress(None, true));
    }
    require_open(&app, &client, &assignment, &round).await?;
    let _claim = claim(&app, id, round.deadline_at_ms.unwrap_or(0)).await?;
    let (assignment, ..) = lookup(&app, &client, id).await?;
    if assignment.state == AssignmentState::Reported {
        return Ok(progress(None, true));
    }
    let mut tx = app.db.begin().await?;
    let upload = tx.take_upload(id).await?;
    tx.commit().await?;
    let mut response = progress(Some(upload.as_ref().map_or(0, |upload| upload.bytes)), false);
    if let Some(hash) = upload.and_then(|upload| upload.sha256()) {
        set(&mut response, REPR_DIGEST, &repr_digest(hash));
    }
    Ok(response)
}

/// An answer without content that says how far an upload is.
pub(super) fn progress(bytes: Option<u64>, complete: bool) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    if let Some(bytes) = bytes {
        set(&mut response, UPLOAD_OFFSET, &bytes.to_string());
    }
    set(&mut response, UPLOAD_COMPLETE, if complete { "?1" } else { "?0" });
    set(&mut response, header::CACHE_CONTROL.as_str(), "no-store");
    response
}

/// The refusal of a body that does not go on where the upload is.
pub(super) fn wrong_offset(bytes: u64) -> Response {
    let refusal = ApiError::new(ProblemType::UploadOffset, format!("the upload goes on at byte {bytes}"));
    let mut response = refusal.into_response();
    set(&mut response, UPLOAD_OFFSET, &bytes.to_string());
    response
}

fn set(response: &mut Response, name: &'static str, value: &str) {
    let value = HeaderValue::from_str(value).expect("digits, hashes and our own words are legal header values");
    response.headers_mut().insert(HeaderName::from_static(name), value);
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Answer<Option<&'a str>> {
    let value = headers.get(name).map(HeaderValue::to_str).transpose();
    value.map_err(|_| ApiError::new(ProblemType::Malformed, format!("{name} is no text")))
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
