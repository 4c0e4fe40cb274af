//! Files from the coordinator. A download that breaks off continues where it ended, in this session or a later one.

use futures_util::lock::Mutex;
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, IF_RANGE, RANGE};
use http::{Method, StatusCode};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::Secret;

use super::contract::Response;
use super::coordinator::{ANSWER_TIMEOUT, Coordinator, with_header};
use crate::error::ClientError;
use crate::progress::Progress;
use crate::store::partial::Partial;

/// Up to this length the bytes so far are not stored, because downloading them again is cheap.
const KEPT_BYTES_MIN: usize = 1 << 20;

/// A file to download.
#[derive(Debug)]
pub(crate) struct WantedFile {
    /// With the query.
    pub(crate) path: String,
    pub(crate) sha256: Sha256Hash,
    /// Length beyond which a body cannot be this file.
    pub(crate) bytes_max: u64,
    /// Whether to download it again if its bytes have another hash.
    pub(crate) again_if_damaged: bool,
}

impl WantedFile {
    /// The hash of a file is its ETag.
    pub(super) fn etag(&self) -> String {
        format!("\"{}\"", self.sha256)
    }
}

/// The bytes so far of one file.
#[derive(Debug)]
struct Download {
    body: Vec<u8>,
    partial: Partial,
    /// How many of the bytes are in the store; `None` once it has failed.
    kept: Option<usize>,
}

impl Download {
    fn resume(mut partial: Partial) -> Self {
        let body = partial.read();
        Self { kept: Some(body.len()), body, partial }
    }

    fn add(&mut self, piece: &[u8]) {
        self.body.extend_from_slice(piece);
        let Some(kept) = self.kept.filter(|_| self.body.len() > KEPT_BYTES_MIN) else { return };
        self.kept = match self.partial.append(&self.body[kept..]) {
            Ok(()) => Some(self.body.len()),
            Err(error) => {
                tracing::warn!(%error, "a download is not stored");
                None
            }
        };
    }

    fn restart(&mut self) -> Result<(), ClientError> {
        self.body.clear();
        self.kept = Some(0);
        Ok(self.partial.remove()?)
    }
}

impl Coordinator {
    /// Downloads a file whose hash is right, from the byte on where an earlier download ended.
    pub(crate) async fn download(
        &self,
        secret: &Secret,
        file: &WantedFile,
        partial: Partial,
    ) -> Result<Vec<u8>, ClientError> {
        let download = Mutex::new(Download::resume(partial));
        self.retrying(|| async {
            let mut download = download.lock().await;
            self.fetch_rest(secret, file, &mut download).await?;
            let body = std::mem::take(&mut download.body);
            if Sha256Hash::of(&body) == file.sha256 {
                download.partial.remove()?;
                return Ok(body);
            }
            download.restart()?;
            let damaged = "a file's content does not have its hash".to_owned();
            Err(match file.again_if_damaged {
                // Damaged on the way: temporary, like a response that is lost.
                true => ClientError::Unreachable(damaged),
                false => ClientError::BadAnswer(damaged),
            })
        })
        .await
    }

    async fn fetch_rest(&self, secret: &Secret, file: &WantedFile, download: &mut Download) -> Result<(), ClientError> {
        let bytes_max = usize::try_from(file.bytes_max).unwrap_or(usize::MAX);
        let mut request = self.request(Method::GET, secret, &file.path);
        let here = download.body.len();
        if here > 0 {
            request = with_header(request, IF_RANGE, &file.etag());
            request = with_header(request, RANGE, &format!("bytes={here}-"));
        }
        let mut response = match self.send(request, ANSWER_TIMEOUT).await {
            Err(ClientError::Refused(problem)) if problem.status == StatusCode::RANGE_NOT_SATISFIABLE.as_u16() => {
                // The file is not longer than what is here. Its hash shows whether it is this file.
                return Ok(());
            }
            sent => sent?,
        };
        if !continues_at(&response, here) {
            download.restart()?;
        }
        let length = response.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        self.listener.hear(&Progress::Downloading { bytes: length.and_then(|length| length.parse().ok()) });
        while let Some(piece) = self.next_piece(&mut response.body).await? {
            if download.body.len() + piece.len() > bytes_max {
                download.restart()?;
                return Err(ClientError::BadAnswer(format!("a file of more than {bytes_max} bytes")));
            }
            download.add(&piece);
        }
        Ok(())
    }
}

/// Whether a response's body begins at this byte of the file.
fn continues_at(response: &Response, here: usize) -> bool {
    let range = response.headers.get(CONTENT_RANGE).and_then(|value| value.to_str().ok());
    let begins = range.is_some_and(|range| range.starts_with(&format!("bytes {here}-")));
    here == 0 || (response.status == StatusCode::PARTIAL_CONTENT && begins)
}
