//! Health, metrics, and the dashboard's files.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use tributary_protocol::problem::ProblemType;

use super::auth::{Operator, Views};
use super::problem::{Answer, ApiError};
use super::story::health;
use crate::app::{App, READY_KEPT_MS};
use crate::metrics::MetricsAccess;

/// The dashboard loads nothing from other origins and runs no inline code.
const CONTENT_SECURITY_POLICY: &str = "default-src 'self'; img-src 'self' data:; object-src 'none'; \
    frame-ancestors 'none'; base-uri 'none'; form-action 'self'";

/// The same for the worker of the page `/join`, which also compiles the SDK's WebAssembly. A worker has the policy of
/// its own file.
const WORKER_SECURITY_POLICY: &str = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; object-src 'none'; \
    frame-ancestors 'none'; base-uri 'none'; form-action 'self'";

/// The page, and the folder of its files.
const JOIN: &str = "join/";
/// The SDK for browsers in it.
const JOIN_SDK: &str = "join/tributary/";

/// Answers while the process is alive.
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// Answers 200 while the database answers and the coordinator is not stopping. Nobody needs a token for this, so all
/// callers together ask the database once a second.
pub(super) async fn readyz(State(app): State<Arc<App>>) -> Answer<&'static str> {
    if app.stopping.is_cancelled() {
        return Err(ApiError::new(ProblemType::Unavailable, "the coordinator is stopping").retry_after_ms(5_000));
    }
    let asked = app.ready.get_or_make((), &app.clock, async || {
        let answer = async { app.db.read().await?.live_jobs().await };
        Ok::<_, Infallible>(
            answer.await.inspect_err(|error| tracing::warn!(%error, "the database does not answer")).is_ok(),
        )
    });
    match asked.await {
        Ok(true) => Ok("ready\n"),
        Ok(false) => Err(ApiError::new(ProblemType::Unavailable, "the database does not answer")
            .retry_after_ms(READY_KEPT_MS.cast_unsigned())),
    }
}

/// The metrics in Prometheus's text format, open or for operators, as configured.
pub(super) async fn metrics(State(app): State<Arc<App>>, request: Request) -> Answer<Response> {
    if app.metrics.access() == MetricsAccess::Token {
        let operator = Operator::<Views>::from_request_parts(&mut request.into_parts().0, &app).await?;
        operator.may_everywhere()?;
    }
    if app.metrics.is_on() {
        // Without a token anybody may ask, so the jobs are looked at once per time for all callers together.
        app.metrics.jobs(&app.health.get_or_make((), &app.clock, async || health::of_running(&app).await).await?);
    }
    let text = app.metrics.render(app.fleet.lobby.len(), app.leases.count(app.clock.now_ms()));
    let text = text.ok_or_else(|| ApiError::not_found("/metrics: this coordinator records no metrics"))?;
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}

/// A file of the dashboard; 404 for every other path.
pub(super) async fn dashboard(method: Method, uri: Uri, asked: HeaderMap) -> Answer<Response> {
    let path = uri.path().trim_start_matches('/');
    let path = if path.is_empty() { "index.html" } else { path };
    let is_here = (method == Method::GET || method == Method::HEAD) && !path.starts_with(JOIN);
    let file = tributary_dashboard::file(path).filter(|_| is_here);
    let file = file.ok_or_else(|| ApiError::not_found(uri.path()))?;
    Ok(sent(path, file, &asked, CONTENT_SECURITY_POLICY))
}

/// The page's own address ends with a slash, from which its files are relative. The browser keeps the fragment.
pub(super) async fn to_join() -> Response {
    (StatusCode::PERMANENT_REDIRECT, [(header::LOCATION, JOIN)]).into_response()
}

/// The page with which a browser becomes a client, and the SDK that it runs.
pub(super) async fn join(uri: Uri, asked: HeaderMap) -> Answer<Response> {
    let path = uri.path().trim_start_matches('/');
    let path = if path == JOIN { "join/index.html" } else { path };
    let file = tributary_dashboard::file(path).ok_or_else(|| match path.starts_with(JOIN_SDK) {
        true => ApiError::not_found(format!("{}: this program was built without the client for browsers", uri.path())),
        false => ApiError::not_found(uri.path()),
    })?;
    let policy = if path.starts_with(JOIN_SDK) { WORKER_SECURITY_POLICY } else { CONTENT_SECURITY_POLICY };
    Ok(sent(path, file, &asked, policy))
}

fn sent(path: &str, file: tributary_dashboard::File, asked: &HeaderMap, policy: &'static str) -> Response {
    let cache = if path.starts_with("assets/") { "public, max-age=31536000, immutable" } else { "no-cache" };
    let gzip = file.gzip.filter(|_| takes_gzip(asked));
    let compressed = gzip.is_some();
    let mut response = (StatusCode::OK, gzip.unwrap_or(file.bytes)).into_response();
    let headers = response.headers_mut();
    if compressed {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if let Ok(kind) = HeaderValue::from_str(&file.content_type) {
        headers.insert(header::CONTENT_TYPE, kind);
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

/// Whether the caller accepts gzip: named, and with a weight above 0.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let named = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    named.flat_map(|value| value.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let refused = weight.trim().strip_prefix("q=").and_then(|q| q.parse::<f32>().ok()) == Some(0.0);
        name.trim().eq_ignore_ascii_case("gzip") && !refused
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_goes_to_those_who_name_it() {
        let cases =
            [("gzip, deflate, br", true), ("br;q=1.0, GZIP;q=0.5", true), ("gzip;q=0", false), ("identity", false)];
        for (value, takes) in cases {
            let headers = HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(value))]);
            assert_eq!(takes_gzip(&headers), takes, "{value}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }
}
