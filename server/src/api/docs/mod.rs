//! The description of the API: the OpenAPI document, and a page of our own that shows it.

use std::sync::LazyLock;

use axum::http::{HeaderName, header};
use axum::response::{IntoResponse, Response};

use super::extract::Path;
use super::openapi::document;
use super::problem::{Answer, ApiError};
use super::{device, operator};

/// The page loads its two files and the document, and nothing from other origins.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'";

static DOCUMENT: LazyLock<String> = LazyLock::new(|| {
    let document = document(vec![device::document::part(), operator::document::part()]);
    document.to_json().expect("a document of names and numbers is JSON")
});

/// `GET /openapi.json`
pub(super) async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-cache")], DOCUMENT.as_str())
        .into_response()
}

/// `GET /docs`
pub(super) async fn page() -> Response {
    sent("text/html; charset=utf-8", include_str!("index.html"))
}

pub(super) async fn file(Path(name): Path<String>) -> Answer<Response> {
    match name.as_str() {
        "docs.js" => Ok(sent("text/javascript; charset=utf-8", include_str!("docs.js"))),
        "docs.css" => Ok(sent("text/css; charset=utf-8", include_str!("docs.css"))),
        _ => Err(ApiError::not_found(format!("/docs/{name}"))),
    }
}

fn sent(kind: &'static str, text: &'static str) -> Response {
    let headers: [(HeaderName, &str); 5] = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    (headers, text).into_response()
}
