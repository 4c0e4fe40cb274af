//! Wraps every request: its id, its span, its metrics, the audit entry of a refusal, and the headers of every answer.
//!
//! The future of this tower layer is not boxed, so a held check-in allocates only its id and its span.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::Json;
use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;
use tracing::Instrument;
use tracing::instrument::Instrumented;
use tributary_protocol::device::{PROTOCOL, RELEASE};
use tributary_protocol::problem::{CONTENT_TYPE, Problem};
use tributary_protocol::state::AuditAction;
use tributary_protocol::text::is_visible;

use super::auth::{Caller, CallerCell};
use crate::app::App;
use crate::db::NewAudit;
use crate::metrics;
use crate::people::Noted;
use crate::runtime::entropy;

/// Carries the request's id: in the request, if the caller chooses one, and in the response.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The release of this coordinator.
const OUR_RELEASE: HeaderValue = HeaderValue::from_static(env!("CARGO_PKG_VERSION"));
/// The versions of the device API that it serves.
const OUR_PROTOCOLS: HeaderValue = HeaderValue::from_static("1");
/// Longest id that is accepted from a caller.
const REQUEST_ID_BYTES_MAX: usize = 64;
/// Longest detail of a refusal in the audit log.
const DETAIL_CHARS_MAX: usize = 300;

#[derive(Clone)]
pub(super) struct Observe(pub(super) Arc<App>);

#[derive(Clone)]
pub(super) struct Observed<S> {
    inner: S,
    app: Arc<App>,
}

pin_project! {
    pub(super) struct Answering<F> {
        #[pin]
        inner: Instrumented<F>,
        app: Arc<App>,
        id: HeaderValue,
        caller: CallerCell,
        request: Option<metrics::Request>,
    }
}

impl<S> Layer<S> for Observe {
    type Service = Observed<S>;

    fn layer(&self, inner: S) -> Observed<S> {
        Observed { inner, app: Arc::clone(&self.0) }
    }
}

impl<S> Service<Request> for Observed<S>
where
    S: Service<Request>,
    S::Response: IntoResponse,
{
    type Response = Response;
    type Error = S::Error;
    type Future = Answering<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        let caller = CallerCell::default();
        request.extensions_mut().insert(caller.clone());
        let id = request_id(request.headers());
        let path = request.extensions().get::<MatchedPath>().cloned();
        let route = path.as_ref().map(MatchedPath::as_str);
        let span = tracing::info_span!(
            "request",
            request_id = id.to_str().unwrap_or_default(),
            method = %request.method(),
            route = route.unwrap_or("other"),
            status = tracing::field::Empty,
        );
        let watched = self.app.metrics.request_begun(route, request.method());
        let inner = span.in_scope(|| self.inner.call(request)).instrument(span);
        Answering { inner, app: Arc::clone(&self.app), id, caller, request: Some(watched) }
    }
}

impl<F, R, E> Future for Answering<F>
where
    F: Future<Output = Result<R, E>>,
    R: IntoResponse,
{
    type Output = Result<Response, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let response = ready!(this.inner.as_mut().poll(context))?.into_response();
        let status = response.status();
        this.inner.span().record("status", status.as_u16());
        this.inner.span().in_scope(|| tracing::debug!(status = status.as_u16(), "answered"));
        if let Some(request) = this.request.take() {
            this.app.metrics.request_answered(request, status);
        }
        if let Some(problem) = response.extensions().get::<Problem>() {
            note_refusal(this.app, this.caller, problem);
        }
        Poll::Ready(Ok(signed(response, this.id)))
    }
}

/// Writes a refusal to the audit log, if it is the first of its kind. The answer does not wait for it.
fn note_refusal(app: &Arc<App>, caller: &CallerCell, problem: &Problem) {
    let caller = caller.caller();
    let devices = caller.as_ref().and_then(Caller::devices).cloned();
    let (actor, label, population) = match caller {
        Some(caller) => caller.audited(),
        None => ("anonymous".to_owned(), String::new(), None),
    };
    let now_ms = app.clock.now_ms();
    let new = match app.people.refusals.note(devices.as_ref(), &actor, problem.kind, now_ms) {
        Noted::Not => return,
        Noted::First => NewAudit {
            actor,
            label,
            action: AuditAction::Refusal,
            subject: problem.kind.uri().rsplit(':').next().unwrap_or_default().to_owned(),
            population,
            // It may quote what the caller sent.
            detail: Some(plain(&problem.detail)),
        },
        Noted::Full => {
            tracing::warn!(population = ?devices, "refusals of devices are not in the audit log for the rest of the day");
            NewAudit {
                actor: "coordinator".to_owned(),
                label: app.node.to_string(),
                action: AuditAction::Refusal,
                subject: "too-many-refusals".to_owned(),
                population: devices,
                detail: Some("further refusals of devices of this population are not recorded today".to_owned()),
            }
        }
    };
    let app = Arc::clone(app);
    tokio::spawn(async move {
        let written = async {
            let mut tx = app.db.begin().await?;
            tx.append_audit(new, now_ms).await?;
            tx.commit().await
        };
        if let Err(error) = written.await {
            tracing::warn!(%error, "a refusal is not in the audit log");
        }
    });
}

/// The beginning of a text, without what is not visible.
fn plain(text: &str) -> String {
    text.chars().map(|letter| if is_visible(letter) { letter } else { ' ' }).take(DETAIL_CHARS_MAX).collect()
}

/// The caller's own id if it is valid, so that the caller can find its request in our log; otherwise a new one.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    let given = headers.get(REQUEST_ID).filter(|value| {
        let is_sane = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
        (1..=REQUEST_ID_BYTES_MAX).contains(&value.len()) && value.as_bytes().iter().all(is_sane)
    });
    given.cloned().unwrap_or_else(|| {
        let id = format!("{:016x}", u64::from_le_bytes(entropy::random()));
        HeaderValue::from_str(&id).expect("hexadecimal digits are a legal header value")
    })
}

/// Adds the request's id to the response: as a header, and as a member of a problem document. Adds which coordinator
/// answers.
fn signed(mut response: Response, id: &HeaderValue) -> Response {
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        let request_id = id.to_str().ok().map(str::to_owned);
        let (mut parts, _) = response.into_parts();
        let body = Json(Problem { request_id, ..problem }).into_response().into_body();
        parts.headers.remove(header::CONTENT_LENGTH);
        response = Response::from_parts(parts, body);
    }
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, id.clone());
    headers.insert(HeaderName::from_static(RELEASE), OUR_RELEASE);
    headers.insert(HeaderName::from_static(PROTOCOL), OUR_PROTOCOLS);
    response
}

/// A problem as a response from which [`signed`] can recover it.
pub(super) fn problem_response(problem: Problem) -> Response {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, Json(&problem)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response.extensions_mut().insert(problem);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id_of(given: Option<&str>) -> String {
        let mut headers = HeaderMap::new();
        headers.extend(given.map(|given| (REQUEST_ID, HeaderValue::from_str(given).unwrap())));
        request_id(&headers).to_str().unwrap().to_owned()
    }

    #[test]
    fn a_sane_id_is_kept_and_any_other_is_replaced() {
        for sane in ["7", "0b9f2c1e-77aa-4d07-9a5d-8f1f1d3f8a10", "trace_1.2", &"x".repeat(64)] {
            assert_eq!(id_of(Some(sane)), sane);
        }
        for insane in ["", "two words", "{\"a\":1}", "a/b", "caf\u{e9}", &"x".repeat(65)] {
            let id = id_of(Some(insane));
            assert!(id != insane && id.len() == 16, "{insane}: {id}");
        }
        assert_ne!(id_of(None), id_of(None));
    }
}
