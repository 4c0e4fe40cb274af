//! Updates to the coordinator. An upload that breaks off continues where it ended, in this session or a later one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, Method};
use tributary_protocol::device::{PARTIAL_UPLOAD, ReportAccepted, UPLOAD_COMPLETE, UPLOAD_OFFSET, UpdateQuery};
use tributary_protocol::digest::{REPR_DIGEST, parse_repr_digest, repr_digest};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{AssignmentId, Secret};

use super::coordinator::{ANSWER_TIMEOUT, Coordinator, with_header};
use crate::error::ClientError;
use crate::progress::Progress as Doing;

/// The slowest upload that does not time out, in bytes per second.
const UPLOAD_BYTES_PER_S_MIN: u64 = 4_096;
/// Shorter bodies are sent again from the first byte. Of longer ones the coordinator keeps what has arrived.
const RESUMABLE_BYTES_MIN: usize = 1 << 20;

/// A finished update.
#[derive(Debug)]
pub(crate) struct Update<'a> {
    pub(crate) id: AssignmentId,
    /// Its figures; none with a masked update, which has them in its body.
    pub(crate) query: Option<&'a UpdateQuery>,
    pub(crate) body: &'a Bytes,
    pub(crate) sha256: Sha256Hash,
    /// Whether an earlier session may have sent some of it.
    pub(crate) begun: bool,
}

/// How much of an update the coordinator has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// All of it: the update is accepted.
    Complete,
    Bytes(usize),
}

impl Update<'_> {
    fn path(&self) -> String {
        let group = if self.query.is_none() { "group/" } else { "" };
        format!("/device/v1/assignments/{}/{group}update", self.id)
    }

    fn path_and_query(&self) -> String {
        let Some(UpdateQuery { weight, loss, steps, train_ms, metrics }) = self.query else { return self.path() };
        // Neither numbers nor names of metrics need escapes in a query.
        let metrics = if metrics.is_empty() { String::new() } else { format!("&metrics={metrics}") };
        let loss = loss.map(|loss| format!("&loss={loss:?}")).unwrap_or_default();
        format!("{}?weight={weight}{loss}&steps={steps}&train_ms={train_ms}{metrics}", self.path())
    }
}

impl Coordinator {
    /// Sends an update, or the rest of it if the coordinator has its beginning.
    pub(crate) async fn send_update(
        &self,
        secret: &Secret,
        update: &Update<'_>,
    ) -> Result<ReportAccepted, ClientError> {
        let begun = AtomicBool::new(update.begun);
        self.retrying(|| async {
            let progress = match begun.swap(true, Ordering::Relaxed) && update.body.len() > RESUMABLE_BYTES_MIN {
                true => self.progress(secret, update).await?,
                false => Progress::Bytes(0),
            };
            match progress {
                // Only the response was lost.
                Progress::Complete => Ok(ReportAccepted { retry_after_ms: 0 }),
                Progress::Bytes(offset) => self.send_from(secret, update, offset).await,
            }
        })
        .await
    }

    async fn send_from(
        &self,
        secret: &Secret,
        update: &Update<'_>,
        offset: usize,
    ) -> Result<ReportAccepted, ClientError> {
        let rest = update.body.slice(offset..);
        self.listener.hear(&Doing::Uploading { bytes: rest.len() as u64 });
        let timeout = ANSWER_TIMEOUT + Duration::from_secs(rest.len() as u64 / UPLOAD_BYTES_PER_S_MIN);
        let mut request = match offset {
            0 => self.request(Method::PUT, secret, &update.path_and_query()),
            offset => {
                let request = self.request(Method::PATCH, secret, &update.path_and_query());
                let request = with_header(request, CONTENT_TYPE, PARTIAL_UPLOAD);
                let request = with_header(request, HeaderName::from_static(UPLOAD_OFFSET), &offset.to_string());
                with_header(request, HeaderName::from_static(UPLOAD_COMPLETE), "?1")
            }
        };
        request = with_header(request, HeaderName::from_static(REPR_DIGEST), &repr_digest(update.sha256));
        request.body = rest;
        self.json(request, timeout).await
    }

    async fn progress(&self, secret: &Secret, update: &Update<'_>) -> Result<Progress, ClientError> {
        match self.send(self.request(Method::HEAD, secret, &update.path()), ANSWER_TIMEOUT).await {
            Ok(response) => Ok(progress(&response.headers, update)),
            // A response to HEAD has no body, so a refusal gives no reason. The upload itself is answered in full.
            Err(ClientError::BadAnswer(_)) => Ok(Progress::Bytes(0)),
            Err(error) => Err(error),
        }
    }
}

/// What the coordinator has of this update: nothing, if it has the beginning of another body.
fn progress(headers: &HeaderMap, update: &Update<'_>) -> Progress {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    if text(UPLOAD_COMPLETE) == Some("?1") {
        return Progress::Complete;
    }
    let digest = text(REPR_DIGEST).and_then(|value| parse_repr_digest(value).ok().flatten());
    let bytes = text(UPLOAD_OFFSET).and_then(|value| value.parse().ok()).unwrap_or(0);
    let same = digest == Some(update.sha256) && bytes <= update.body.len();
    Progress::Bytes(if same { bytes } else { 0 })
}

#[cfg(test)]
mod tests {
    use tributary_protocol::scalars::Scalars;

    use super::*;

    fn query(loss: f64) -> UpdateQuery {
        UpdateQuery { weight: 10, loss: Some(loss), steps: 3, train_ms: 12, metrics: Scalars::new() }
    }

    #[test]
    fn the_query_says_every_number_exactly() {
        let id = AssignmentId::from_random([1; 16]);
        for loss in [0.25, 0.0, -0.5, 1e-7, 1e12, 0.1 + 0.2, f64::MIN_POSITIVE] {
            let (query, body) = (query(loss), Bytes::new());
            let update = Update { id, query: Some(&query), body: &body, sha256: Sha256Hash::of(b""), begun: false };
            let path = update.path_and_query();
            let pairs: Vec<_> = path.split(['?', '&']).skip(1).map(|pair| pair.split_once('=').unwrap()).collect();
            let [("weight", "10"), ("loss", text), ("steps", "3"), ("train_ms", "12")] = pairs[..] else {
                panic!("{path}");
            };
            assert_eq!(text.parse::<f64>().unwrap().to_bits(), loss.to_bits());
            assert!(text.bytes().all(|byte| byte.is_ascii_digit() || b".-e".contains(&byte)), "{text}");
        }
    }

    #[test]
    fn metrics_are_one_parameter_without_escapes() {
        let metrics = Scalars::new().with("f1.macro-avg_2", 1e-9).unwrap().with("auc", 0.91).unwrap();
        let (query, body) = (UpdateQuery { metrics, ..query(0.5) }, Bytes::new());
        let id = AssignmentId::from_random([1; 16]);
        let update = Update { id, query: Some(&query), body: &body, sha256: Sha256Hash::of(b""), begun: false };
        assert!(update.path_and_query().ends_with("&train_ms=12&metrics=auc:0.91,f1.macro-avg_2:1e-9"));
    }

    #[test]
    fn progress_counts_only_for_the_same_body() {
        let (body, query) = (Bytes::from_static(b"0123456789"), query(0.5));
        let sha256 = Sha256Hash::of(&body);
        let id = AssignmentId::from_random([1; 16]);
        let update = Update { id, query: Some(&query), body: &body, sha256, begun: true };
        let of = |pairs: &[(&'static str, String)]| {
            let pairs = pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
            progress(&pairs.collect(), &update)
        };
        let here = |bytes: &str, sha256| [(UPLOAD_OFFSET, bytes.to_owned()), (REPR_DIGEST, repr_digest(sha256))];
        assert_eq!(of(&here("4", sha256)), Progress::Bytes(4));
        assert_eq!(of(&here("10", sha256)), Progress::Bytes(10));
        assert_eq!(of(&here("11", sha256)), Progress::Bytes(0), "more than the body has");
        assert_eq!(of(&here("4", Sha256Hash::of(b"another"))), Progress::Bytes(0));
        assert_eq!(of(&here("-4", sha256)), Progress::Bytes(0));
        assert_eq!(of(&[]), Progress::Bytes(0));
        assert_eq!(of(&[(UPLOAD_COMPLETE, "?1".to_owned())]), Progress::Complete);
    }
}
