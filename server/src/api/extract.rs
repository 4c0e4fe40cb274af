//! Paths, queries and JSON bodies, refused as problem documents when they do not parse.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use tributary_protocol::operator::{PAGE_ITEMS_DEFAULT, PAGE_ITEMS_MAX, Page, PageQuery};
use tributary_protocol::problem::ProblemType;

use super::auth::{Caller, CallerCell};
use super::problem::ApiError;
use crate::app::App;
use crate::guard::{self, Guard, SMALL_BYTES};

/// Longest time in which a JSON body arrives. It is held in memory, and its sender could drip it for ever.
const JSON_TIME_MAX: Duration = Duration::from_secs(30);

/// A JSON body of a request or a response.
pub(super) struct Json<T>(pub(super) T);

pub(super) struct Path<T>(pub(super) T);

pub(super) struct Query<T>(pub(super) T);

fn malformed(detail: impl std::fmt::Display) -> ApiError {
    ApiError::new(ProblemType::Malformed, detail.to_string())
}

/// A JSON body that callers send.
pub(super) trait Sent: DeserializeOwned {
    /// Most bytes that one has.
    const BYTES_MAX: usize;
}

impl<T: Sent> FromRequest<Arc<App>> for Json<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, ApiError> {
        if !is_json(request.headers()) {
            return Err(malformed("the body must be application/json"));
        }
        let body = body(request, T::BYTES_MAX, &app.guard).await?;
        // serde would take the members of an object from an array, too, by their order.
        if body.trim_ascii_start().first() == Some(&b'[') {
            return Err(malformed("the body must be a JSON object, not an array"));
        }
        let axum::Json(value) = axum::Json::from_bytes(&body).map_err(|rejection| malformed(rejection.body_text()))?;
        Ok(Self(value))
    }
}

/// A whole body of at most so many bytes. What exceeds [`SMALL_BYTES`] is received only with memory of the budget, so
/// the sender must be known by then.
pub(super) async fn body(request: Request, bytes_max: usize, guard: &Guard) -> Result<Vec<u8>, ApiError> {
    let (parts, body) = request.into_parts();
    let announced = parts.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let too_large = || ApiError::new(ProblemType::TooLarge, format!("this call takes at most {bytes_max} bytes"));
    if announced.is_some_and(|bytes: usize| bytes > bytes_max) {
        return Err(too_large());
    }
    let sender = parts.extensions.get::<CallerCell>().and_then(CallerCell::caller).map(Caller::sender);
    let whole = async {
        let (mut pieces, mut whole, mut memory) = (body.into_data_stream(), Vec::new(), None);
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|error| malformed(format_args!("the body broke off: {error}")))?;
            let bytes = whole.len() + piece.len();
            if bytes > bytes_max || (bytes > SMALL_BYTES && sender.is_none()) {
                return Err(too_large());
            }
            if bytes > SMALL_BYTES && memory.is_none() {
                let wanted = announced.unwrap_or(bytes_max).max(bytes);
                memory = sender.clone().and_then(|sender| guard.body(sender, wanted));
                if memory.is_none() {
                    let detail = "too many large bodies are arriving, or another one of this client is";
                    return Err(ApiError::new(ProblemType::TooManyRequests, detail).retry_after_ms(guard::RETRY_MS));
                }
                whole.reserve_exact(wanted - whole.len());
            }
            whole.extend_from_slice(&piece);
        }
        Ok(whole)
    };
    timeout(JSON_TIME_MAX, whole).await.unwrap_or_else(|_| {
        let detail = format!("the body did not arrive within {} s", JSON_TIME_MAX.as_secs());
        Err(ApiError::new(ProblemType::Timeout, detail))
    })
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
    use axum::http::StatusCode;
    use futures_util::stream;
    use tributary_protocol::id::ClientId;

    use super::*;
    use crate::guard::Limits;
    use crate::metrics::{Metrics, MetricsAccess};

    /// What becomes of a body.
    async fn status(caller: Option<Caller>, guard: &Guard, body: Body) -> Option<StatusCode> {
        let length = axum::body::HttpBody::size_hint(&body).exact();
        let mut request = Request::post("/").body(body).unwrap();
        request.headers_mut().extend(length.map(|length| (header::CONTENT_LENGTH, HeaderValue::from(length))));
        let cell = CallerCell::default();
        caller.into_iter().for_each(|caller| cell.note(caller));
        request.extensions_mut().insert(cell);
        super::body(request, 100_000, guard).await.err().map(|error| error.into_response().status())
    }

    fn client(number: u8) -> Option<Caller> {
        Some(Caller::Client {
            id: ClientId::from_random([number; 16]),
            number: number.into(),
            population: "devices".parse().unwrap(),
        })
    }

    fn guard() -> Guard {
        Guard::new(Limits::default(), &Metrics::new(MetricsAccess::default(), 0))
    }

    /// A body of chunks, which announces no length and never ends.
    fn silent_after(bytes: usize) -> Body {
        let first = stream::once(async move { Ok::<_, std::io::Error>(Bytes::from(vec![b' '; bytes])) });
        Body::from_stream(first.chain(stream::pending()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_json_body_that_drips_is_given_up() {
        let drips = stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_secs(9)).await;
            Some((Ok::<_, std::io::Error>(Bytes::from_static(b" ")), ()))
        });
        let given_up = status(None, &guard(), Body::from_stream(drips)).await;
        assert_eq!(given_up, Some(StatusCode::REQUEST_TIMEOUT));
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_body_needs_a_known_sender_who_sends_no_other_one() {
        let guard = guard();
        let large = || Body::from(vec![b' '; SMALL_BYTES + 1]);
        assert_eq!(status(None, &guard, Body::from(vec![b' '; SMALL_BYTES])).await, None);
        assert_eq!(status(None, &guard, large()).await, Some(StatusCode::PAYLOAD_TOO_LARGE));
        assert_eq!(
            status(client(1), &guard, Body::from(vec![b' '; 100_001])).await,
            Some(StatusCode::PAYLOAD_TOO_LARGE)
        );
        assert_eq!(status(client(1), &guard, silent_after(100_001)).await, Some(StatusCode::PAYLOAD_TOO_LARGE));
        let first = status(client(1), &guard, silent_after(SMALL_BYTES + 1));
        let later = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            [status(client(1), &guard, large()).await, status(client(2), &guard, large()).await]
        };
        let (first, later) = tokio::join!(first, later);
        assert_eq!((first, later), (Some(StatusCode::REQUEST_TIMEOUT), [Some(StatusCode::TOO_MANY_REQUESTS), None]));
        assert_eq!(status(client(1), &guard, large()).await, None, "the memory is given back");
    }
}
