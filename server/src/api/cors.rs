//! Pages of other origins whose browsers are clients.
//!
//! A browser sends what a page of another origin asks only where the answers allow that origin. They allow the origins
//! that the operator names, for the device API alone, and no cookies: a client's secret is in a header.

use std::str::FromStr;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, Method, header};
use serde::Deserialize;
use tower_http::cors::CorsLayer;
use tributary_protocol::device::{ASK_AFTER, PROTOCOL, RELEASE, UPLOAD_COMPLETE, UPLOAD_OFFSET};
use tributary_protocol::digest::REPR_DIGEST;
use url::Url;

use super::observe::REQUEST_ID;

/// How long a browser remembers what is allowed. Chromium remembers no longer.
const REMEMBERED: Duration = Duration::from_secs(2 * 3600);

/// The origin of pages: `https://app.example.org`, as browsers send it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct WebOrigin(HeaderValue);

/// A text that is not an origin as browsers send it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is no origin of pages: write {}", .meant.as_deref().unwrap_or("a scheme, a host and perhaps a port, as in https://app.example.org"))]
pub struct OriginError {
    given: String,
    /// The origin of that address.
    meant: Option<String>,
}

impl FromStr for WebOrigin {
    type Err = OriginError;

    fn from_str(text: &str) -> Result<Self, OriginError> {
        // A host with an asterisk would be a name like any other, and not one of many.
        let is_web = |url: &Url| matches!(url.scheme(), "http" | "https") && !text.contains('*');
        let url = Url::parse(text).ok().filter(is_web);
        let meant = url.map(|url| url.origin().ascii_serialization());
        match (&meant, HeaderValue::from_str(text)) {
            (Some(origin), Ok(value)) if origin == text => Ok(Self(value)),
            _ => Err(OriginError { given: text.to_owned(), meant }),
        }
    }
}

impl TryFrom<String> for WebOrigin {
    type Error = OriginError;

    fn try_from(text: String) -> Result<Self, OriginError> {
        text.parse()
    }
}

/// Answers preflights, and tells browsers which pages may read an answer.
pub(super) fn allowing(origins: &[WebOrigin]) -> CorsLayer {
    let origins = origins.iter().map(|WebOrigin(value)| value.clone());
    let uploads = [REPR_DIGEST, UPLOAD_OFFSET, UPLOAD_COMPLETE].map(HeaderName::from_static);
    let asked = [header::AUTHORIZATION, header::CONTENT_TYPE, header::IF_NONE_MATCH, header::IF_RANGE, header::RANGE];
    let told = [header::ETAG, header::CONTENT_RANGE, header::RETRY_AFTER, REQUEST_ID];
    let of_ours = [ASK_AFTER, RELEASE, PROTOCOL].map(HeaderName::from_static);
    CorsLayer::new()
        .allow_origin(origins.collect::<Vec<_>>())
        .allow_methods([Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
        .allow_headers(asked.into_iter().chain(uploads.clone()).collect::<Vec<_>>())
        .expose_headers(told.into_iter().chain(of_ours).chain(uploads).collect::<Vec<_>>())
        .max_age(REMEMBERED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_what_browsers_send() {
        for origin in ["https://app.example.org", "http://localhost:5173", "https://[::1]:8443"] {
            assert_eq!(origin.parse(), Ok(WebOrigin(HeaderValue::from_static(origin))));
        }
        for (text, said) in [
            ("*", "as in https://app.example.org"),
            ("null", "as in https://app.example.org"),
            ("app.example.org", "as in https://app.example.org"),
            ("https://*.example.org/", "as in https://app.example.org"),
            ("file:///app", "as in https://app.example.org"),
            ("", "as in https://app.example.org"),
            ("https://App.example.org", "write https://app.example.org"),
            ("https://app.example.org/", "write https://app.example.org"),
            ("https://app.example.org/page", "write https://app.example.org"),
            ("https://app.example.org:443", "write https://app.example.org"),
            ("https://me@app.example.org", "write https://app.example.org"),
            ("https://a.example https://b.example", "as in https://app.example.org"),
        ] {
            let error = text.parse::<WebOrigin>().unwrap_err().to_string();
            assert!(error.ends_with(said), "{text}: {error}");
        }
    }
}
