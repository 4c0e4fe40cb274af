//! Updates and sums to the coordinator. An upload that breaks off continues where it ended, in this session or a later
//! one.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, Method};
use tributary_protocol::device::{PARTIAL_UPLOAD, ReportAccepted, UPLOAD_COMPLETE, UPLOAD_OFFSET, UpdateQuery};
use tributary_protocol::digest::{REPR_DIGEST, parse_repr_digest, repr_digest};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{AssignmentId, Secret};
use tributary_protocol::relay::SumQuery;
use tributary_protocol::scalars::Scalars;

use super::coordinator::{ANSWER_TIMEOUT, Coordinator, with_header};
use crate::error::ClientError;
use crate::progress::Progress as Doing;

/// The slowest upload that does not time out, in bytes per second.
const UPLOAD_BYTES_PER_S_MIN: u64 = 4_096;
/// Shorter bodies are sent again from the first byte. Of longer ones the coordinator keeps what has arrived.
const RESUMABLE_BYTES_MIN: usize = 1 << 20;

/// A finished result with a body.
#[derive(Debug)]
pub(crate) struct Upload<'a> {
    pub(crate) id: AssignmentId,
    pub(crate) figures: Figures<'a>,
    pub(crate) body: &'a Bytes,
    pub(crate) sha256: Sha256Hash,
    /// Whether an earlier session may have sent some of it.
    pub(crate) begun: bool,
}

/// What is uploaded, with its figures beside the body.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Figures<'a> {
    Update(&'a UpdateQuery),
    /// A part of an update, and its number.
    Part(&'a UpdateQuery, u16),
    /// A masked update, which has its figures in its body.
    Masked,
    /// The sum of a relay.
    Sum(&'a SumQuery),
}

/// How much of an upload the coordinator has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// All of it: the result is accepted.
    Complete,
    Bytes(usize),
}

impl Figures<'_> {
    /// The call that takes the upload, below the assignment.
    fn call(self) -> Cow<'static, str> {
        match self {
            Self::Update(_) => "update".into(),
            Self::Part(_, part) => format!("parts/{part}").into(),
            Self::Masked => "group/update".into(),
            Self::Sum(_) => "sum".into(),
        }
    }

    /// Neither numbers nor names of metrics need escapes in a query.
    fn query(self) -> String {
        match self {
            Self::Update(query) | Self::Part(query, _) => {
                let UpdateQuery { weight, loss, steps, train_ms, metrics } = query;
                let (loss, metrics) = (loss_text(*loss), metrics_text(metrics));
                format!("?weight={weight}{loss}&steps={steps}&train_ms={train_ms}{metrics}")
            }
            Self::Masked => String::new(),
            Self::Sum(SumQuery { examples, loss, steps, train_ms, metrics, bytes_below, round_trip_ms }) => {
                let (loss, metrics) = (loss_text(*loss), metrics_text(metrics));
                let (below, trip) = (text("bytes_below", *bytes_below), text("round_trip_ms", *round_trip_ms));
                format!("?examples={examples}{loss}&steps={steps}&train_ms={train_ms}{metrics}{below}{trip}")
            }
        }
    }
}

fn loss_text(loss: Option<f64>) -> String {
    loss.map(|loss| format!("&loss={loss:?}")).unwrap_or_default()
}

fn text(name: &str, number: Option<u64>) -> String {
    number.map(|number| format!("&{name}={number}")).unwrap_or_default()
}

fn metrics_text(metrics: &Scalars) -> String {
    if metrics.is_empty() { String::new() } else { format!("&metrics={metrics}") }
}

impl Upload<'_> {
    fn path(&self) -> String {
        format!("/device/v1/assignments/{}/{}", self.id, self.figures.call())
    }

    fn path_and_query(&self) -> String {
        format!("{}{}", self.path(), self.figures.query())
    }
}

impl Coordinator {
    /// Sends a result, or the rest of it if the coordinator has its beginning.
    pub(crate) async fn upload(&self, secret: &Secret, upload: &Upload<'_>) -> Result<ReportAccepted, ClientError> {
        let begun = AtomicBool::new(upload.begun);
        self.retrying(|| self.upload_once(secret, upload, begun.swap(true, Ordering::Relaxed))).await
    }

    /// The same, and a failure is not repeated. `begun` says whether an earlier attempt may have sent some of it.
    pub(super) async fn upload_once(
        &self,
        secret: &Secret,
        upload: &Upload<'_>,
        begun: bool,
    ) -> Result<ReportAccepted, ClientError> {
        let progress = match begun && upload.body.len() > RESUMABLE_BYTES_MIN {
            true => self.progress(secret, upload).await?,
            false => Progress::Bytes(0),
        };
        match progress {
            // Only the response was lost.
            Progress::Complete => Ok(ReportAccepted { retry_after_ms: 0 }),
            Progress::Bytes(offset) => self.send_from(secret, upload, offset).await,
        }
    }

    async fn send_from(
        &self,
        secret: &Secret,
        upload: &Upload<'_>,
        offset: usize,
    ) -> Result<ReportAccepted, ClientError> {
        let rest = upload.body.slice(offset..);
        self.listener.hear(&Doing::Uploading { bytes: rest.len() as u64 });
        let timeout = ANSWER_TIMEOUT + Duration::from_secs(rest.len() as u64 / UPLOAD_BYTES_PER_S_MIN);
        let mut request = match offset {
            0 => self.request(Method::PUT, secret, &upload.path_and_query()),
            offset => {
                let request = self.request(Method::PATCH, secret, &upload.path_and_query());
                let request = with_header(request, CONTENT_TYPE, PARTIAL_UPLOAD);
                let request = with_header(request, HeaderName::from_static(UPLOAD_OFFSET), &offset.to_string());
                with_header(request, HeaderName::from_static(UPLOAD_COMPLETE), "?1")
            }
        };
        request = with_header(request, HeaderName::from_static(REPR_DIGEST), &repr_digest(upload.sha256));
        request.body = rest;
        self.json(request, timeout).await
    }

    async fn progress(&self, secret: &Secret, upload: &Upload<'_>) -> Result<Progress, ClientError> {
        match self.send(self.request(Method::HEAD, secret, &upload.path()), ANSWER_TIMEOUT).await {
            Ok(response) => Ok(progress(&response.headers, upload)),
            // A response to HEAD has no body, so a refusal gives no reason. The upload itself is answered in full.
            Err(ClientError::BadAnswer(_)) => Ok(Progress::Bytes(0)),
            Err(error) => Err(error),
        }
    }
}

/// What the coordinator has of this upload: nothing, if it has the beginning of another body.
fn progress(headers: &HeaderMap, upload: &Upload<'_>) -> Progress {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    if text(UPLOAD_COMPLETE) == Some("?1") {
        return Progress::Complete;
    }
    let digest = text(REPR_DIGEST).and_then(|value| parse_repr_digest(value).ok().flatten());
    let bytes = text(UPLOAD_OFFSET).and_then(|value| value.parse().ok()).unwrap_or(0);
    let same = digest == Some(upload.sha256) && bytes <= upload.body.len();
    Progress::Bytes(if same { bytes } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(loss: f64) -> UpdateQuery {
        UpdateQuery { weight: 10, loss: Some(loss), steps: 3, train_ms: 12, metrics: Scalars::new() }
    }

    fn upload<'a>(figures: Figures<'a>, body: &'a Bytes) -> Upload<'a> {
        let id = AssignmentId::from_random([1; 16]);
        Upload { id, figures, body, sha256: Sha256Hash::of(body), begun: false }
    }

    #[test]
    fn the_query_says_every_number_exactly() {
        for loss in [0.25, 0.0, -0.5, 1e-7, 1e12, 0.1 + 0.2, f64::MIN_POSITIVE] {
            let (query, body) = (query(loss), Bytes::new());
            let path = upload(Figures::Update(&query), &body).path_and_query();
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
        let path = upload(Figures::Update(&query), &body).path_and_query();
        assert!(path.ends_with("&train_ms=12&metrics=auc:0.91,f1.macro-avg_2:1e-9"));
    }

    #[test]
    fn each_kind_of_result_has_its_call() {
        let metrics = Scalars::new().with("auc", 0.91).unwrap();
        let (loss, bytes_below, round_trip_ms) = (Some(0.1 + 0.2), Some(5_000), Some(3));
        let sum = SumQuery { examples: u64::MAX, loss, steps: 9, train_ms: 70, metrics, bytes_below, round_trip_ms };
        let (update, body) = (query(0.5), Bytes::new());
        let rest = |figures| {
            let upload = upload(figures, &body);
            let path = upload.path_and_query();
            path.strip_prefix(&format!("/device/v1/assignments/{}/", upload.id)).unwrap().to_owned()
        };
        assert_eq!(rest(Figures::Update(&update)), "update?weight=10&loss=0.5&steps=3&train_ms=12");
        assert_eq!(rest(Figures::Part(&update, 12)), "parts/12?weight=10&loss=0.5&steps=3&train_ms=12");
        assert_eq!(rest(Figures::Masked), "group/update");
        let all = "examples=18446744073709551615&loss=0.30000000000000004&steps=9&train_ms=70&metrics=auc:0.91\
                   &bytes_below=5000&round_trip_ms=3";
        assert_eq!(rest(Figures::Sum(&sum)), format!("sum?{all}"));
        let (bytes_below, round_trip_ms) = (None, None);
        let sum = SumQuery { loss: None, metrics: Scalars::new(), bytes_below, round_trip_ms, ..sum };
        assert_eq!(rest(Figures::Sum(&sum)), "sum?examples=18446744073709551615&steps=9&train_ms=70");
    }

    #[test]
    fn progress_counts_only_for_the_same_body() {
        let (body, query) = (Bytes::from_static(b"0123456789"), query(0.5));
        let upload = upload(Figures::Update(&query), &body);
        let sha256 = upload.sha256;
        let of = |pairs: &[(&'static str, String)]| {
            let pairs = pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
            progress(&pairs.collect(), &upload)
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
