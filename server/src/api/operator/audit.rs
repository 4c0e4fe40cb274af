//! The audit log: the newest entries for people, and all of it for programs.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tributary_protocol::operator::{AuditQuery, AuditRow, PAGE_ITEMS_MAX, Page, PageQuery};

use crate::api::auth::{Operator, Views};
use crate::api::extract::{Json, Query, full_page, page, text};
use crate::api::problem::Answer;
use crate::app::App;
use crate::db::{AuditFilter, DbError};

/// Media type of JSON lines.
pub(super) const JSON_LINES: &str = "application/jsonl";
/// Longest text to look for, in bytes.
const SEARCH_BYTES_MAX: usize = 300;

pub(super) async fn list(
    operator: Operator<Views>,
    State(app): State<Arc<App>>,
    Query(query): Query<AuditQuery>,
) -> Answer<Json<Page<AuditRow>>> {
    let permit = operator.may_within();
    for (name, sought) in [("person", &query.person), ("subject", &query.subject)] {
        text(name, sought.as_deref().unwrap_or_default(), SEARCH_BYTES_MAX)?;
    }
    let filter = AuditFilter {
        population: permit.population(),
        action: query.action,
        person: query.person.as_deref(),
        subject: query.subject.as_deref(),
        since_at_ms: query.since_at_ms.unwrap_or(i64::MIN),
        until_at_ms: query.until_at_ms.unwrap_or(i64::MAX),
        fold: query.fold,
    };
    let (limit, before) = page(&PageQuery { limit: query.limit, after: query.after }, i64::MAX.cast_unsigned())?;
    let items = app.db.read().await?.audit(&filter, before, limit).await?;
    Ok(Json(full_page(items, limit, |row| row.entry.number.to_string())))
}

/// The whole chain as JSON lines, oldest first, written while it is read. A part of it could not be verified, so it is
/// for operators of the whole deployment.
pub(super) async fn export(operator: Operator<Views>, State(app): State<Arc<App>>) -> Answer<Response> {
    operator.may_everywhere()?;
    let lines = stream::try_unfold(Some(0), move |after| {
        let app = Arc::clone(&app);
        async move {
            let Some(after) = after else { return Ok::<_, DbError>(None) };
            let entries = app.db.read().await?.audit_chain(after, PAGE_ITEMS_MAX).await?;
            let next = entries.last().filter(|_| entries.len() == PAGE_ITEMS_MAX as usize).map(|entry| entry.number);
            let text: String = entries.iter().flat_map(|entry| [entry.line(), "\n".to_owned()]).collect();
            Ok(Some((Bytes::from(text), next)))
        }
    });
    let mut response = Body::from_stream(lines).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON_LINES));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}
