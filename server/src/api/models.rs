//! Sends models and model deltas: stored files chunk by chunk, with ETag and Range, and forms that are not stored,
//! which are computed while they are sent.

use std::ops::Range;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{BoxStream, Stream};
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::sync::mpsc;
use tributary_engine::job::JobSpec;
use tributary_protocol::download::ModelForm;
use tributary_protocol::id::{ClientId, JobId};
use tributary_protocol::model::{Companion, ParameterList};
use tributary_protocol::operator::ModelVersion;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::release::Difference;
use tributary_protocol::update::{FormError, FormSurvey, FormWriter, form_bytes};

use super::problem::{Answer, ApiError};
use crate::app::App;
use crate::blob::{BlobError, StoredBody, model_file_key, model_key};
use crate::db::{DbError, MadeFor, ModelFileRow, ReleaseRow, Tx, difference_key, release_key};
use crate::metrics::Limited;
use crate::runtime::offload::blocking;

/// When to ask again for a form that is not stored, while the limit of concurrent computations is reached.
const FORM_RETRY_MS: u64 = 2_000;

/// A file to send; it never changes.
#[derive(Debug)]
pub(super) struct ModelFile {
    /// Names the bytes of the file.
    etag: String,
    bytes: u64,
    /// Length of the content as a plain model file.
    raw_bytes: u64,
    packed: bool,
    content: Content,
}

#[derive(Debug)]
enum Content {
    /// A stored body, by its name.
    Stored(String),
    /// Computed from a version's plain file while it is sent.
    Made { plain: String, plain_bytes: u64, parameters: Arc<ParameterList>, form: ModelForm },
}

type Parts = BoxStream<'static, Result<Bytes, BlobError>>;

impl ModelFile {
    /// A model version in some form: the stored file if there is one, else computed. `packed_too` allows a file that is
    /// one zstd frame.
    pub(super) async fn in_form(
        tx: &mut Tx,
        spec: &JobSpec,
        model: &ModelVersion,
        form: ModelForm,
        packed_too: bool,
    ) -> Answer<Self> {
        let job = spec.id;
        check_there(job, model)?;
        let plain = model_key(job, model.version);
        if form == ModelForm::F32 {
            let (etag, bytes) = (format!("\"{}\"", model.sha256), model.bytes);
            return Ok(Self { etag, bytes, raw_bytes: bytes, packed: false, content: Content::Stored(plain) });
        }
        let stored = tx.model_file(job, model.version, MadeFor::Form(form)).await?;
        if let Some(file) = stored.filter(|file| packed_too || !file.packed) {
            return Ok(Self::stored(job, &file, model.bytes));
        }
        let parameters = Arc::clone(&spec.model);
        Ok(Self {
            // A model always gives the same file in a form, so the model's hash and the form name the bytes.
            etag: format!("\"{}-{}\"", model.sha256, form.as_str()),
            bytes: form_bytes(&parameters, form),
            raw_bytes: model.bytes,
            packed: false,
            content: Content::Made { plain, plain_bytes: model.bytes, parameters, form },
        })
    }

    /// The model delta to a version. `raw_bytes` is its length in the traffic figures of plain files.
    ///
    /// # Errors
    /// [`ProblemType::Deleted`] when retention deleted the version; [`ProblemType::NotFound`] when the version has no
    /// delta.
    pub(super) async fn step(tx: &mut Tx, job: JobId, model: &ModelVersion, raw_bytes: u64) -> Answer<Self> {
        check_there(job, model)?;
        let stored = tx.model_file(job, model.version, MadeFor::Delta).await?;
        let nothing = || ApiError::not_found(format!("step to version {} of {job}", model.version));
        Ok(Self::stored(job, &stored.ok_or_else(nothing)?, raw_bytes))
    }

    /// The control variate of a version. In the traffic figures it counts like a model.
    ///
    /// # Errors
    /// [`ProblemType::NotFound`] when the version has none, or a newer version has replaced it.
    pub(super) async fn control(tx: &mut Tx, job: JobId, model: &ModelVersion) -> Answer<Self> {
        check_there(job, model)?;
        let stored = tx.model_file(job, model.version, MadeFor::Companion(Companion::Control)).await?;
        let nothing = || ApiError::not_found(format!("control variate of version {} of {job}", model.version));
        let file = stored.ok_or_else(nothing)?;
        Ok(Self::stored(job, &file, file.bytes))
    }

    /// The model of a release.
    pub(super) fn of_release(release: &ReleaseRow) -> Self {
        Self {
            etag: format!("\"{}\"", release.sha256),
            bytes: release.bytes,
            raw_bytes: release.bytes,
            packed: false,
            content: Content::Stored(release_key(release.id)),
        }
    }

    /// The differences that lead to a release; none where there are none.
    pub(super) fn of_difference(release: &ReleaseRow) -> Option<Self> {
        let Difference { sha256, bytes, .. } = release.difference()?;
        Some(Self {
            etag: format!("\"{sha256}\""),
            bytes,
            raw_bytes: release.bytes,
            packed: release.difference_packed.unwrap_or_default(),
            content: Content::Stored(difference_key(release.id)),
        })
    }

    fn stored(job: JobId, file: &ModelFileRow, raw_bytes: u64) -> Self {
        Self {
            etag: format!("\"{}\"", file.sha256),
            bytes: file.bytes,
            raw_bytes,
            packed: file.packed,
            content: Content::Stored(model_file_key(job, file.version, file.form)),
        }
    }

    /// The part of `raw_bytes` that corresponds to this many bytes of the file.
    fn raw_of(&self, bytes: u64) -> u64 {
        let raw = u128::from(bytes) * u128::from(self.raw_bytes) / u128::from(self.bytes.max(1));
        u64::try_from(raw).unwrap_or(u64::MAX)
    }
}

fn check_there(job: JobId, model: &ModelVersion) -> Answer<()> {
    if model.deleted_at_ms.is_none() {
        return Ok(());
    }
    let detail = format!("version {} of {job} was deleted: [retention] models does not keep it", model.version);
    Err(ApiError::new(ProblemType::Deleted, detail))
}

/// Who reads a file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reader {
    /// `None`: an operator.
    pub(super) client: Option<ClientId>,
    /// Whether the bytes are counted for the client's assignment.
    pub(super) has_work: bool,
}

/// The response with a file. Sent bytes are counted for the assignment of a client that has one.
///
/// The file never changes, so caches may keep it for ever. One chunk is in memory at a time, shared by concurrent
/// downloads. The first chunk is read before the response begins, so that a store that is unreachable leads to a
/// problem document and not to half a file.
pub(super) async fn file_response(
    app: &Arc<App>,
    file: ModelFile,
    headers: &HeaderMap,
    reader: Reader,
) -> Answer<Response> {
    let receiver = reader.client.filter(|_| reader.has_work);
    let etag = &file.etag;
    let known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    if known.is_some_and(|known| known.split(',').any(|known| known.trim() == etag || known.trim() == "*")) {
        return Ok(with_headers(StatusCode::NOT_MODIFIED.into_response(), etag));
    }
    let wanted = match range(headers, etag, file.bytes) {
        Wanted::All => 0..file.bytes,
        Wanted::Part(range) => range,
        Wanted::Nothing => {
            let detail = format!("the model has {} bytes", file.bytes);
            let mut response = ApiError::new(ProblemType::RangeNotSatisfiable, detail).into_response();
            set(&mut response, header::CONTENT_RANGE, &format!("bytes */{}", file.bytes));
            return Ok(response);
        }
    };
    let length = wanted.end - wanted.start;
    let mut rest = match &file.content {
        Content::Stored(name) => {
            let body = app.blobs.find(&app.db, name.clone(), file.bytes).await?;
            parts(Arc::clone(app), body, wanted.clone()).boxed()
        }
        Content::Made { plain, plain_bytes, parameters, form } => {
            let body = app.blobs.find(&app.db, plain.clone(), *plain_bytes).await?;
            made(app, body, *plain_bytes, parameters, *form, (wanted.clone(), reader))?
        }
    };
    let first = rest.try_next().await?.unwrap_or_default();
    let raw_length = file.raw_of(length);
    if let Some(client) = receiver.filter(|_| length > 0) {
        app.db.download_begins(client, length, raw_length).await?;
    }
    let is_last = wanted.end == file.bytes;
    let mut counting = Counting { app: Arc::clone(app), receiver, left: length, length, raw_length, is_last };
    let counted = stream::once(async { Ok(first) }).chain(rest).inspect(move |part| counting.sent(part));
    let mut response = Body::from_stream(counted).into_response();
    if length < file.bytes {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        let range = format!("bytes {}-{}/{}", wanted.start, wanted.end - 1, file.bytes);
        set(&mut response, header::CONTENT_RANGE, &range);
    }
    let media_type = if file.packed { "application/zstd" } else { "application/octet-stream" };
    set(&mut response, header::CONTENT_TYPE, media_type);
    set(&mut response, header::CONTENT_LENGTH, &length.to_string());
    set(&mut response, header::ACCEPT_RANGES, "bytes");
    Ok(with_headers(response, etag))
}

/// Counts a download. The whole length is counted when it begins; the rest is subtracted if it is interrupted. Notes
/// the end of a complete download.
struct Counting {
    app: Arc<App>,
    receiver: Option<ClientId>,
    left: u64,
    length: u64,
    raw_length: u64,
    /// Whether this range includes the end of the file.
    is_last: bool,
}

impl Counting {
    fn sent(&mut self, part: &Result<Bytes, BlobError>) {
        self.left = self.left.saturating_sub(part.as_ref().map_or(0, |part| part.len() as u64));
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        let Some(client) = self.receiver else { return };
        if self.left > 0 {
            let raw_left = u128::from(self.left) * u128::from(self.raw_length) / u128::from(self.length);
            let raw_left = u64::try_from(raw_left).unwrap_or(u64::MAX);
            self.app.db.download_breaks_off(client, self.left, raw_left);
        } else if self.is_last {
            self.app.db.download_ended(client, self.app.clock.now_ms());
        }
    }
}

fn with_headers(mut response: Response, etag: &str) -> Response {
    set(&mut response, header::ETAG, etag);
    set(&mut response, header::CACHE_CONTROL, "private, max-age=31536000, immutable");
    response
}

pub(super) fn set(response: &mut Response, name: header::HeaderName, value: &str) {
    let value = HeaderValue::from_str(value).expect("digits, hashes and our own words are legal header values");
    response.headers_mut().insert(name, value);
}

#[derive(Debug, PartialEq)]
enum Wanted {
    All,
    Part(Range<u64>),
    Nothing,
}

/// The requested range (RFC 9110, section 14.2). Several ranges, other units and a changed file are answered with the
/// whole file, as the RFC allows.
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

/// The bytes of a range of a stored body, chunk by chunk.
fn parts(app: Arc<App>, body: StoredBody, wanted: Range<u64>) -> impl Stream<Item = Result<Bytes, BlobError>> {
    stream::try_unfold((app, body, wanted), |(app, body, wanted)| async move {
        if wanted.is_empty() {
            return Ok(None);
        }
        let data = part(&app, &body, wanted.clone()).await?;
        let next = wanted.start + data.len() as u64..wanted.end;
        Ok(Some((data, (app, body, next))))
    })
}

/// The first bytes of a range, which must exist.
async fn part(app: &App, body: &StoredBody, wanted: Range<u64>) -> Result<Bytes, BlobError> {
    app.models
        .shared_chunks
        .chunk(&app.blobs, &app.db, body, wanted)
        .await?
        .ok_or_else(|| BlobError::Missing(body.name().to_owned()))
}

/// A form that is computed while it is sent, by a task that waits for its reader.
struct Making {
    plain: Parts,
    /// `None` while a thread has it.
    writer: Option<FormWriter>,
    /// Number of computed bytes before the range, which are dropped.
    skip: u64,
    left: u64,
    name: String,
}

/// The bytes of a range of a model's form, computed from the plain file. `int8` reads the file twice, other forms once.
fn made(
    app: &Arc<App>,
    body: StoredBody,
    plain_bytes: u64,
    parameters: &Arc<ParameterList>,
    form: ModelForm,
    (wanted, reader): (Range<u64>, Reader),
) -> Answer<Parts> {
    let place = app.models.form_places.take(reader.client, app.clock.now_ms()).ok_or_else(|| {
        let detail = format!("too many models are being written as {} and the like; no job needs this", form.as_str());
        ApiError::new(ProblemType::Unavailable, detail).retry_after_ms(FORM_RETRY_MS)
    })?;
    if place.displaced {
        app.metrics.limits().hit(Limited::Forms);
    }
    let length = wanted.end - wanted.start;
    let survey = FormSurvey::new(Arc::clone(parameters), form);
    // One part waits for its reader here, and one in the task.
    let (sender, parts) = mpsc::channel(1);
    let (made, progress) = (Arc::clone(app), place.progress());
    let task = tokio::spawn(async move {
        // The task reads on when its reader has taken what was written.
        let read = || {
            let (clock, progress) = (made.clock.clone(), progress.clone());
            let parts = self::parts(Arc::clone(&made), body.clone(), 0..plain_bytes);
            parts.inspect(move |_| progress.moved(clock.now_ms()))
        };
        let making = async {
            let mut making = begun(survey, read, &wanted, body.name()).await?;
            while let Some(part) = next_of_form(&mut making).await? {
                if sender.send(Ok(part)).await.is_err() {
                    break;
                }
            }
            Ok(())
        };
        let made = tokio::select! {
            made = making => made,
            // Its reader has left.
            () = sender.closed() => return,
        };
        if let Err(error) = made {
            let _ = sender.send(Err(error)).await;
        }
    });
    place.started(task.abort_handle());
    let sent = stream::try_unfold((parts, place, length), |(mut parts, place, left)| async move {
        if left == 0 {
            return Ok(None);
        }
        // A task that had to make room leaves its range incomplete.
        let part: Bytes = parts.recv().await.unwrap_or(Err(BlobError::Displaced))?;
        let left = left.saturating_sub(part.len() as u64);
        Ok(Some((part, (parts, place, left))))
    });
    Ok(sent.boxed())
}

/// Reads the file once where the form needs that, and begins to write the range.
async fn begun<R: Stream<Item = Result<Bytes, BlobError>> + Send + 'static>(
    mut survey: FormSurvey,
    read: impl Fn() -> R,
    wanted: &Range<u64>,
    name: &str,
) -> Result<Making, BlobError> {
    if survey.wants_file() {
        let mut plain = std::pin::pin!(read());
        while let Some(data) = plain.try_next().await? {
            let (back, pushed) = blocking(move || {
                let pushed = survey.push(&data);
                (survey, pushed)
            })
            .await;
            survey = back;
            pushed.map_err(|error| unreadable(name, &error))?;
        }
    }
    let writer = survey.finish().map_err(|error| unreadable(name, &error))?;
    let (skip, left) = (wanted.start, wanted.end - wanted.start);
    Ok(Making { plain: read().boxed(), writer: Some(writer), skip, left, name: name.to_owned() })
}

async fn next_of_form(making: &mut Making) -> Result<Option<Bytes>, BlobError> {
    while making.left > 0 {
        let Some(data) = making.plain.try_next().await? else {
            return Err(BlobError::Damaged(making.name.clone()));
        };
        let mut writer = making.writer.take().expect("it is put back below");
        let (writer, pushed) = blocking(move || {
            let pushed = writer.push(&data);
            (writer, pushed)
        })
        .await;
        making.writer = Some(writer);
        let mut file = Bytes::from(pushed.map_err(|error| unreadable(&making.name, &error))?);
        let skipped = file.split_to(usize::try_from(making.skip).unwrap_or(usize::MAX).min(file.len()));
        making.skip -= skipped.len() as u64;
        file.truncate(usize::try_from(making.left).unwrap_or(usize::MAX));
        making.left -= file.len() as u64;
        if !file.is_empty() {
            return Ok(Some(file));
        }
    }
    Ok(None)
}

fn unreadable(name: &str, error: &FormError) -> BlobError {
    BlobError::Db(DbError::Corrupt(format!("{name} cannot be read: {error}")))
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
