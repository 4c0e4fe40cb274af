//! Releases: what a channel has for a client, and its files.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tributary_protocol::device::ASK_AFTER;
use tributary_protocol::id::ReleaseId;
use tributary_protocol::release::ReleaseQuery;

use crate::api::auth::Device;
use crate::api::extract::{Json, Path, Query};
use crate::api::models::{ModelFile, Reader, file_response, set};
use crate::api::problem::{Answer, ApiError};
use crate::app::App;
use crate::db::{ClientRow, ReleaseRow};
use crate::releases::answer::Told;

/// The release of a channel for a client. `If-None-Match` says which file the client has of it, so the answer to most
/// questions has no body.
pub(super) async fn release(
    State(app): State<Arc<App>>,
    Device(client): Device,
    Query(query): Query<ReleaseQuery>,
    headers: HeaderMap,
) -> Answer<Response> {
    let has = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let has = has.and_then(|etag| etag.trim().trim_matches('"').parse().ok());
    let Told { answer, is_right } = app.releases.tell((&app, &app.fleet), &client, query.channel, has).await?;
    let ask_after_ms = answer.ask_after_ms.to_string();
    let mut response = match is_right && has.is_some() {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => Json(answer).into_response(),
    };
    set(&mut response, header::HeaderName::from_static(ASK_AFTER), &ask_after_ms);
    Ok(response)
}

pub(super) async fn model(
    State(app): State<Arc<App>>,
    Device(client): Device,
    Path(id): Path<ReleaseId>,
    headers: HeaderMap,
) -> Answer<Response> {
    let file = ModelFile::of_release(&stored(&app, &client, id).await?);
    file_response(&app, file, &headers, Reader { client: Some(client.id), has_work: false }).await
}

pub(super) async fn difference(
    State(app): State<Arc<App>>,
    Device(client): Device,
    Path(id): Path<ReleaseId>,
    headers: HeaderMap,
) -> Answer<Response> {
    let file = ModelFile::of_difference(&stored(&app, &client, id).await?);
    let file = file.ok_or_else(|| ApiError::not_found(format!("difference to {id}")))?;
    file_response(&app, file, &headers, Reader { client: Some(client.id), has_work: false }).await
}

/// A release whose files are there. One of another population is answered like one that does not exist.
async fn stored(app: &App, client: &ClientRow, id: ReleaseId) -> Answer<ReleaseRow> {
    let row = app.db.look().await?.release(id).await?;
    let row = row.filter(|row| row.population == client.population && row.deleted_at_ms.is_none());
    row.ok_or_else(|| ApiError::not_found(id))
}
