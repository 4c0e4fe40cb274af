//! Paths, queries and JSON bodies, refused as problem documents when they do not parse.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use tributary_protocol::operator::{PAGE_ITEMS_DEFAULT, PAGE_ITEMS_MAX, Page, PageQuery};
use tributary_protocol::problem::ProblemType;

use super::problem::ApiError;

/// Longest time in which a JSON body arrives. It is held in memory, and its sender could drip it for ever.
const JSON_TIME_MAX: Duration = Duration::from_secs(30);

/// A JSON body of a request or a response.
pub(super) struct Json<T>(pub(super) T);

pub(super) struct Path<T>(pub(super) T);

pub(super) struct Query<T>(pub(super) T);

fn malformed(detail: impl std::fmt::Display) -> ApiError {
    ApiError::new(ProblemType::Malformed, detail.to_string())
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        if !is_json(request.headers()) {
            return Err(malformed("the body must be application/json"));
        }
        let Ok(body) = timeout(JSON_TIME_MAX, Bytes::from_request(request, state)).await else {
            let detail = format!("the JSON body did not arrive within {} s", JSON_TIME_MAX.as_secs());
            return Err(ApiError::new(ProblemType::Timeout, detail));
        };
        let body = body.map_err(|rejection| match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => {
                ApiError::new(ProblemType::TooLarge, "the JSON body is larger than this call takes")
            }
            _ => malformed(rejection.body_text()),
        })?;
        // serde would take the members of an object from an array, too, by their order.
        if body.trim_ascii_start().first() == Some(&b'[') {
            return Err(malformed("the body must be a JSON object, not an array"));
        }
        let axum::Json(value) = axum::Json::from_bytes(&body).map_err(|rejection| malformed(rejection.body_text()))?;
        Ok(Self(value))
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

impl<T: Serialize> IntoResponse for Json<T> {
    /// Answers hold secrets and what only operators may see, so no cache keeps them.
    fn into_response(self) -> Response {
        let headers = [
            (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
            (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        ];
        (headers, axum::Json(self.0)).into_response()
    }
}

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let path = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        path.map(|path| Self(path.0)).map_err(|rejection| malformed(rejection.body_text()))
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let query = axum::extract::Query::<T>::from_request_parts(parts, state).await;
        query.map(|query| Self(query.0)).map_err(|rejection| malformed(rejection.body_text()))
    }
}

/// The page that a query asks for: the number of items, and the key after which it starts.
pub(super) fn page<T: std::str::FromStr>(query: &PageQuery, first: T) -> Result<(u32, T), ApiError> {
    let limit = query.limit.unwrap_or(PAGE_ITEMS_DEFAULT);
    if !(1..=PAGE_ITEMS_MAX).contains(&limit) {
        return Err(malformed(format!("limit must be 1 to {PAGE_ITEMS_MAX}")));
    }
    let after = match &query.after {
        Some(after) if after.contains('\0') => return Err(malformed("after must be the `next` of an earlier page")),
        Some(after) => after.parse().map_err(|_| malformed("after must be the `next` of an earlier page"))?,
        None => first,
    };
    Ok((limit, after))
}

/// The end of a page in a list that is ordered by two keys, as text: `17:42`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place<T>(pub(super) i64, pub(super) T);

impl<T: std::str::FromStr> std::str::FromStr for Place<T> {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (value, rest) = text.split_once(':').ok_or(())?;
        Ok(Self(value.parse().map_err(|_| ())?, rest.parse().map_err(|_| ())?))
    }
}

impl<T: std::fmt::Display> std::fmt::Display for Place<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}:{}", self.0, self.1)
    }
}

/// Checks the length in bytes of a text parameter.
pub(super) fn text(name: &str, text: &str, bytes_max: usize) -> Result<(), ApiError> {
    if text.len() > bytes_max || text.contains('\0') {
        return Err(malformed(format!("{name} has at most {bytes_max} bytes, none of them 0")));
    }
    Ok(())
}

/// A page whose `next` is there when it is full: there may be more.
pub(super) fn full_page<T>(items: Vec<T>, limit: u32, key: impl Fn(&T) -> String) -> Page<T> {
    let next = items.last().filter(|_| items.len() == limit as usize).map(key);
    Page { items, next }
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, Bytes};
    use futures_util::stream;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_json_body_that_drips_is_given_up() {
        let drips = stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_secs(9)).await;
            Some((Ok::<_, std::io::Error>(Bytes::from_static(b" ")), ()))
        });
        let request = Request::post("/").header("content-type", "application/json");
        let request = request.body(Body::from_stream(drips)).unwrap();
        let error = Json::<u32>::from_request(request, &()).await.err().unwrap();
        assert_eq!(error.into_response().status(), StatusCode::REQUEST_TIMEOUT);
    }
}
