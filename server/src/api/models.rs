//! Sending a model: a stored file, streamed part by part, with ETag and Range.

use std::ops::Range;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use tributary_protocol::id::{ClientId, JobId};
use tributary_protocol::operator::ModelVersion;
use tributary_protocol::problem::ProblemType;

use super::problem::{Answer, ApiError};
use crate::app::App;
use crate::blob::{BlobError, StoredBody, model_key};

/// A model version as a response. What is sent of it is counted for `receiver`, if there is one.
///
/// A version never changes, so its hash is its ETag and caches may keep it for ever. One part is in memory at a time; the
/// first is read before anything is sent, so that a store that is away is a problem document and not half a file.
pub(super) async fn model_response(
    app: &Arc<App>,
    job: JobId,
    model: &ModelVersion,
    headers: &HeaderMap,
    receiver: Option<ClientId>,
) -> Answer<Response> {
    if model.deleted_at_ms.is_some() {
        let detail = format!("version {} of {job} was deleted: [retention] models does not keep it", model.version);
        return Err(ApiError::new(ProblemType::Deleted, detail));
    }
    let etag = format!("\"{}\"", model.sha256);
    let known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    if known.is_some_and(|known| known.split(',').any(|known| known.trim() == etag || known.trim() == "*")) {
        return Ok(with_headers(StatusCode::NOT_MODIFIED.into_response(), &etag));
    }
    let wanted = match range(headers, &etag, model.bytes) {
        Wanted::All => 0..model.bytes,
        Wanted::Part(range) => range,
        Wanted::Nothing => {
            let detail = format!("the model has {} bytes", model.bytes);
            let mut response = ApiError::new(ProblemType::RangeNotSatisfiable, detail).into_response();
            set(&mut response, header::CONTENT_RANGE, &format!("bytes */{}", model.bytes));
            return Ok(response);
        }
    };
    let length = wanted.end - wanted.start;
    let body = app.blobs.find(&app.db, model_key(job, model.version), model.bytes).await?;
    let first = match length {
        0 => Bytes::new(),
        _ => part(app, &body, wanted.clone()).await?,
    };
    if let Some(client) = receiver.filter(|_| length > 0) {
        app.count_download(client, length, length).await?;
    }
    let mut counting = Counting { app: Arc::clone(app), receiver, left: length };
    let rest = parts(Arc::clone(app), body, wanted.start + first.len() as u64..wanted.end);
    let counted = stream::once(async { Ok(first) }).chain(rest).inspect(move |part| counting.sent(part));
    let mut response = Body::from_stream(counted).into_response();
    if length < model.bytes {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        let range = format!("bytes {}-{}/{}", wanted.start, wanted.end - 1, model.bytes);
        set(&mut response, header::CONTENT_RANGE, &range);
    }
    set(&mut response, header::CONTENT_TYPE, "application/octet-stream");
    set(&mut response, header::CONTENT_LENGTH, &length.to_string());
    set(&mut response, header::ACCEPT_RANGES, "bytes");
    Ok(with_headers(response, &etag))
}

/// Counts what is left of a download when it breaks off: all of it was counted when it began.
struct Counting {
    app: Arc<App>,
    receiver: Option<ClientId>,
    left: u64,
}

impl Counting {
    fn sent(&mut self, part: &Result<Bytes, BlobError>) {
        self.left = self.left.saturating_sub(part.as_ref().map_or(0, |part| part.len() as u64));
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        if let Some(client) = self.receiver.filter(|_| self.left > 0) {
            App::uncount_download(&self.app, client, self.left, self.left);
        }
    }
}

fn with_headers(mut response: Response, etag: &str) -> Response {
    set(&mut response, header::ETAG, etag);
    set(&mut response, header::CACHE_CONTROL, "private, max-age=31536000, immutable");
    response
}

fn set(response: &mut Response, name: header::HeaderName, value: &str) {
    let value = HeaderValue::from_str(value).expect("digits, hashes and our own words are legal header values");
    response.headers_mut().insert(name, value);
}

#[derive(Debug, PartialEq)]
enum Wanted {
    All,
    Part(Range<u64>),
    Nothing,
}

/// The one range that was asked for (RFC 9110, section 14.2). Several ranges, other units and a changed file are
/// answered with the whole, as the RFC allows.
fn range(headers: &HeaderMap, etag: &str, bytes: u64) -> Wanted {
    if headers.get(header::IF_RANGE).is_some_and(|value| value.as_bytes() != etag.as_bytes()) {
        return Wanted::All;
    }
    let header = headers.get(header::RANGE).and_then(|value| value.to_str().ok());
    let Some((first, last)) = header.and_then(|value| value.strip_prefix("bytes=")?.split_once('-')) else {
        return Wanted::All;
    };
    let range = match (first.parse::<u64>(), last.parse::<u64>()) {
        (Ok(first), Ok(last)) if first <= last => first..last.saturating_add(1).min(bytes),
        (Ok(first), Err(_)) if last.is_empty() => first..bytes,
        (Err(_), Ok(suffix)) if first.is_empty() => bytes.saturating_sub(suffix)..bytes,
        _ => return Wanted::All,
    };
    if range.is_empty() { Wanted::Nothing } else { Wanted::Part(range) }
}

/// The wanted bytes of a stored body, part by part.
fn parts(app: Arc<App>, body: StoredBody, wanted: Range<u64>) -> impl stream::Stream<Item = Result<Bytes, BlobError>> {
    stream::try_unfold((app, body, wanted), |(app, body, wanted)| async move {
        if wanted.is_empty() {
            return Ok(None);
        }
        let data = part(&app, &body, wanted.clone()).await?;
        let next = wanted.start + data.len() as u64..wanted.end;
        Ok(Some((data, (app, body, next))))
    })
}

/// The first of the wanted bytes, which must be there.
async fn part(app: &App, body: &StoredBody, wanted: Range<u64>) -> Result<Bytes, BlobError> {
    app.blobs.part(&app.db, body, wanted).await?.ok_or_else(|| BlobError::Missing(body.name().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_the_rfc_says() {
        let asked = |range_header: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::RANGE, HeaderValue::from_str(range_header).unwrap());
            range(&headers, "\"x\"", 100)
        };
        assert_eq!(asked("bytes=0-9"), Wanted::Part(0..10));
        assert_eq!(asked("bytes=90-"), Wanted::Part(90..100));
        assert_eq!(asked("bytes=-10"), Wanted::Part(90..100));
        assert_eq!(asked("bytes=50-999"), Wanted::Part(50..100));
        assert_eq!(asked("bytes=100-"), Wanted::Nothing);
        for whole in ["bytes=9-0", "bytes=0-1,5-6", "lines=0-9", "bytes=x-y"] {
            assert_eq!(asked(whole), Wanted::All, "{whole}");
        }
    }

    #[test]
    fn a_range_of_another_file_gives_the_whole() {
        let mut headers = HeaderMap::new();
        headers.insert(header::RANGE, HeaderValue::from_static("bytes=5-"));
        headers.insert(header::IF_RANGE, HeaderValue::from_static("\"old\""));
        assert_eq!(range(&headers, "\"new\"", 100), Wanted::All);
        assert_eq!(range(&headers, "\"old\"", 100), Wanted::Part(5..100));
    }
}
