//! Models down and updates up: a transfer that breaks off goes on where it ended, in this session or a later one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{CONTENT_RANGE, CONTENT_TYPE, HeaderMap, IF_RANGE, RANGE};
use reqwest::{Method, Response, StatusCode};
use tributary_protocol::device::{PARTIAL_UPLOAD, ReportAccepted, UPLOAD_COMPLETE, UPLOAD_OFFSET, UpdateQuery};
use tributary_protocol::digest::{REPR_DIGEST, parse_repr_digest, repr_digest};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{AssignmentId, Secret};

use crate::ClientError;
use crate::state::Partial;
use crate::transport::{ANSWER_TIMEOUT, Transport, next_piece};

/// The slowest upload that is given time to end, in bytes per second.
const UPLOAD_BYTES_PER_S_MIN: u64 = 4_096;
/// Bodies up to this length are sent again when they break off; of larger ones the coordinator keeps what arrived.
const RESUMABLE_BYTES_MIN: usize = 1 << 20;

/// A finished update.
#[derive(Debug)]
pub(crate) struct Update<'a> {
    pub(crate) id: AssignmentId,
    pub(crate) query: &'a UpdateQuery,
    pub(crate) body: &'a [u8],
    pub(crate) sha256: Sha256Hash,
}

/// A file to fetch.
#[derive(Debug)]
pub(crate) struct WantedFile {
    pub(crate) path: String,
    pub(crate) sha256: Sha256Hash,
    pub(crate) bytes_max: u64,
    /// Whether it is worth fetching again when it was damaged on the way.
    pub(crate) again_if_damaged: bool,
}

/// A model, or a step, on its way here.
#[derive(Debug)]
pub(crate) struct Download {
    body: Vec<u8>,
    partial: Partial,
    /// How much of it is on disk; none when the disk is full.
    kept: Option<usize>,
}

/// How much of an update the coordinator has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// All of it: it is accepted.
    Complete,
    /// So many bytes.
    Bytes(usize),
}

impl Download {
    /// Goes on with what an earlier session has left.
    pub(crate) fn resume(partial: Partial) -> Self {
        let body = partial.read();
        Self { kept: Some(body.len()), body, partial }
    }

    fn add(&mut self, piece: &[u8]) {
        self.body.extend_from_slice(piece);
        // Small models are not worth a file.
        let Some(kept) = self.kept.filter(|_| self.body.len() > RESUMABLE_BYTES_MIN) else { return };
        self.kept = match self.partial.append(&self.body[kept..]) {
            Ok(()) => Some(self.body.len()),
            Err(error) => {
                tracing::warn!(%error, "a model that is being fetched is not kept");
                None
            }
        };
    }

    fn restart(&mut self) -> Result<(), ClientError> {
        self.body.clear();
        self.kept = Some(0);
        self.partial.forget()
    }
}

impl Transport {
    /// A file, checked against its hash.
    pub(crate) async fn file(
        &self,
        secret: &Secret,
        file: &WantedFile,
        download: &mut Download,
    ) -> Result<Vec<u8>, ClientError> {
        let download = tokio::sync::Mutex::new(download);
        self.retrying(|| async {
            let mut download = download.lock().await;
            self.fetch(secret, file, &mut download).await?;
            let body = std::mem::take(&mut download.body);
            if Sha256Hash::of(&body) == file.sha256 {
                download.partial.forget()?;
                return Ok(body);
            }
            download.restart()?;
            let damaged = "the model's content is not what its hash says".to_owned();
            // Damaged on the way: as good as not answered.
            Err(match file.again_if_damaged {
                true => ClientError::Unreachable(damaged),
                false => ClientError::BadAnswer(damaged),
            })
        })
        .await
    }

    /// Fetches what is missing of a file.
    async fn fetch(&self, secret: &Secret, file: &WantedFile, download: &mut Download) -> Result<(), ClientError> {
        let bytes_max = usize::try_from(file.bytes_max).unwrap_or(usize::MAX);
        let mut call = self.request(Method::GET, secret, &file.path);
        let here = download.body.len();
        if here > 0 {
            // A file's hash is its ETag.
            let etag = format!("\"{}\"", file.sha256);
            call = call.header(RANGE, format!("bytes={here}-")).header(IF_RANGE, etag);
        }
        let mut response = match self.send(call, ANSWER_TIMEOUT).await {
            Err(ClientError::Refused(problem)) if problem.status == StatusCode::RANGE_NOT_SATISFIABLE.as_u16() => {
                // There is nothing more: all of it is here, or it is another file's.
                return Ok(());
            }
            sent => sent?,
        };
        if !goes_on_at(&response, here) {
            download.restart()?;
        }
        while let Some(piece) = next_piece(&mut response).await? {
            if download.body.len() + piece.len() > bytes_max {
                download.restart()?;
                return Err(ClientError::BadAnswer(format!("a model of more than {bytes_max} bytes")));
            }
            download.add(&piece);
        }
        Ok(())
    }

    /// Sends an update, or what the coordinator lacks of it. `begun` says that some of it may be there from before.
    pub(crate) async fn send_update(
        &self,
        secret: &Secret,
        update: &Update<'_>,
        begun: bool,
    ) -> Result<ReportAccepted, ClientError> {
        let begun = AtomicBool::new(begun);
        // Copied once; the copies of a `Bytes` share it.
        let body = Bytes::copy_from_slice(update.body);
        self.retrying(|| async {
            let progress = match begun.swap(true, Ordering::Relaxed) && body.len() > RESUMABLE_BYTES_MIN {
                true => self.progress(secret, update).await?,
                false => Progress::Bytes(0),
            };
            match progress {
                // Only the answer was lost.
                Progress::Complete => Ok(ReportAccepted { retry_after_ms: 0 }),
                Progress::Bytes(offset) => self.send_from(secret, update, offset, body.slice(offset..)).await,
            }
        })
        .await
    }

    async fn send_from(
        &self,
        secret: &Secret,
        update: &Update<'_>,
        offset: usize,
        rest: Bytes,
    ) -> Result<ReportAccepted, ClientError> {
        let path = format!("/device/v1/assignments/{}/update", update.id);
        let timeout = ANSWER_TIMEOUT + Duration::from_secs(rest.len() as u64 / UPLOAD_BYTES_PER_S_MIN);
        let call = match offset {
            0 => self.request(Method::PUT, secret, &path),
            offset => self
                .request(Method::PATCH, secret, &path)
                .header(CONTENT_TYPE, PARTIAL_UPLOAD)
                .header(UPLOAD_OFFSET, offset.to_string())
                .header(UPLOAD_COMPLETE, "?1"),
        };
        let call = call.header(REPR_DIGEST, repr_digest(update.sha256)).query(update.query).body(rest);
        self.json(call, timeout).await
    }

    /// Asks how much of an update has arrived.
    async fn progress(&self, secret: &Secret, update: &Update<'_>) -> Result<Progress, ClientError> {
        let path = format!("/device/v1/assignments/{}/update", update.id);
        let response = self.send(self.request(Method::HEAD, secret, &path), ANSWER_TIMEOUT).await;
        match response {
            Ok(response) => Ok(progress(response.headers(), update)),
            // A refusal without a body (there is none to HEAD) says too little; the upload itself is answered in full.
            Err(ClientError::BadAnswer(_)) => Ok(Progress::Bytes(0)),
            Err(error) => Err(error),
        }
    }
}

/// Whether an answer holds the bytes from this one on.
fn goes_on_at(response: &Response, here: usize) -> bool {
    let range = response.headers().get(CONTENT_RANGE).and_then(|value| value.to_str().ok());
    let begins = range.is_some_and(|range| range.starts_with(&format!("bytes {here}-")));
    here == 0 || (response.status() == StatusCode::PARTIAL_CONTENT && begins)
}

/// What is there of this update; nothing if it is another body's.
fn progress(headers: &HeaderMap, update: &Update<'_>) -> Progress {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    if text(UPLOAD_COMPLETE) == Some("?1") {
        return Progress::Complete;
    }
    let digest = text(REPR_DIGEST).and_then(|value| parse_repr_digest(value).ok().flatten());
    let bytes = text(UPLOAD_OFFSET).and_then(|value| value.parse().ok()).unwrap_or(0);
    let ours = digest == Some(update.sha256) && bytes <= update.body.len();
    Progress::Bytes(if ours { bytes } else { 0 })
}
