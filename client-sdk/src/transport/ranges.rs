//! A long file in ranges, from several coordinators at once.

use futures_util::{StreamExt, TryStreamExt, stream};
use http::header::{CONTENT_RANGE, IF_RANGE, RANGE};
use http::{Method, StatusCode};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::Secret;

use super::contract::Response;
use super::coordinator::{ANSWER_TIMEOUT, CALLS_AT_ONCE, Coordinator, with_header};
use super::download::WantedFile;
use crate::error::ClientError;
use crate::progress::Progress;

/// Shorter files come from one coordinator: more requests would cost more than they save.
const BYTES_MIN: u64 = 8 << 20;

/// Where the ranges of a file come from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ranges<'a> {
    pub(crate) count: u16,
    /// The URLs of their coordinators, as [`Coordinator::at_each`] takes them.
    pub(crate) owners: &'a [Option<String>],
    /// Length of the file as coordinators write it. The last range has what it is longer or shorter.
    pub(crate) bytes: u64,
}

/// A range of a file, and the part of the buffer that it fills.
struct Range<'a> {
    begins: usize,
    /// Of the last range, a longer one.
    buffer: &'a mut [u8],
    is_last: bool,
}

impl Coordinator {
    /// Downloads a file whose hash is right in ranges. None for a short file, where no other coordinator has a range,
    /// and where a range fails: it is then [downloaded](Self::download) from this coordinator.
    ///
    /// In memory is one copy of the file.
    pub(crate) async fn download_ranges(
        &self,
        secret: &Secret,
        file: &WantedFile,
        ranges: Ranges<'_>,
    ) -> Option<Vec<u8>> {
        let sources = self.at_each(ranges.owners, ranges.count.into());
        if ranges.bytes < BYTES_MIN || sources.iter().all(Option::is_none) {
            return None;
        }
        self.listener.hear(&Progress::Downloading { bytes: Some(ranges.bytes) });
        let body = self.fetch_ranges(secret, file, ranges.bytes, &sources).await;
        body.inspect_err(|error| tracing::debug!(%error, "a model is not downloaded in ranges")).ok()
    }

    async fn fetch_ranges(
        &self,
        secret: &Secret,
        file: &WantedFile,
        bytes: u64,
        sources: &[Option<Self>],
    ) -> Result<Vec<u8>, ClientError> {
        let too_long = || ClientError::BadAnswer(format!("a file of {bytes} bytes"));
        let length = |bytes: u64| usize::try_from(bytes).map_err(|_| too_long());
        let each = length(bytes.div_ceil(sources.len() as u64))?;
        // The system gives its pages when they are written.
        let mut body = vec![0; length(file.bytes_max)?];
        let (mut rest, mut calls, last) = (&mut body[..], Vec::with_capacity(sources.len()), sources.len() - 1);
        for (number, source) in sources.iter().enumerate() {
            let is_last = number == last;
            let (buffer, after) =
                rest.split_at_mut_checked(if is_last { rest.len() } else { each }).ok_or_else(too_long)?;
            rest = after;
            let range = Range { begins: number * each, buffer, is_last };
            calls.push(source.as_ref().unwrap_or(self).fetch_range(secret, file, range));
        }
        let lengths: Vec<usize> = stream::iter(calls).buffered(CALLS_AT_ONCE).try_collect().await?;
        body.truncate(lengths.iter().sum());
        match Sha256Hash::of(&body) == file.sha256 {
            true => Ok(body),
            false => Err(ClientError::BadAnswer("the ranges of a file do not have its hash".to_owned())),
        }
    }

    /// Fills the buffer of a range, of the last range the beginning of its buffer. The result is the range's length.
    async fn fetch_range(&self, secret: &Secret, file: &WantedFile, range: Range<'_>) -> Result<usize, ClientError> {
        let Range { begins, buffer, is_last } = range;
        let wrong = || ClientError::BadAnswer(format!("not the range of a file from byte {begins} on"));
        let end = if is_last { String::new() } else { (begins + buffer.len() - 1).to_string() };
        let request = self.request(Method::GET, secret, &file.path);
        let request = with_header(request, IF_RANGE, &file.etag());
        let request = with_header(request, RANGE, &format!("bytes={begins}-{end}"));
        let mut response = self.send(request, ANSWER_TIMEOUT).await?;
        let length = told_length(&response, begins);
        let length = length.filter(|length| is_last || *length == buffer.len()).ok_or_else(wrong)?;
        let mut filled = 0;
        while let Some(piece) = self.next_piece(&mut response.body).await? {
            let place = buffer.get_mut(filled..filled + piece.len()).ok_or_else(wrong)?;
            place.copy_from_slice(&piece);
            filled += piece.len();
        }
        if filled == length { Ok(filled) } else { Err(wrong()) }
    }
}

/// How long a response says its range is, if it begins at this byte.
fn told_length(response: &Response, begins: usize) -> Option<usize> {
    let range = response.headers.get(CONTENT_RANGE).filter(|_| response.status == StatusCode::PARTIAL_CONTENT)?;
    let (first, rest) = range.to_str().ok()?.strip_prefix("bytes ")?.split_once('-')?;
    let (last, _) = rest.split_once('/')?;
    let is_here = first.parse() == Ok(begins);
    last.parse::<usize>().ok()?.checked_add(1)?.checked_sub(begins).filter(|_| is_here)
}
