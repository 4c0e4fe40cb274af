//! The device API: one method per call, problem documents as errors, retries.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use http::header::{AUTHORIZATION, CONTENT_TYPE, IF_NONE_MATCH};
#[cfg(feature = "group")]
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tributary_protocol::credential::{CertificateRequest, IssuedCertificate, NewSecret};
use tributary_protocol::device::{
    ASK_AFTER, AssignmentStatus, CheckInRequest, EnrolRequest, EnrolResponse, EvaluationReport, FailureReport,
    OpenJobs, ReportAccepted,
};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{AssignmentId, Name, Secret};
use tributary_protocol::inputs::Description;
use tributary_protocol::relay::RelayJobs;
use tributary_protocol::release::{ChannelAnswer, Released};
use tributary_protocol::seed::{Seed, Stream};

use super::contract::{Body, Request, Response, Transport};
use super::received::{CheckedIn, checked_in, problem};
use super::retry::{ATTEMPTS_MAX, pause};
use crate::clock::Clock;
use crate::error::ClientError;
use crate::keys::ClientCertificate;
use crate::locked::Locked;
use crate::platform::{is_exposed, is_url, within};
use crate::progress::{Listener, Progress};

/// Longest wait for the head of a response and for each further piece of its body. A check-in adds the time that it
/// asks to be held, an upload the time that its body takes.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Calls of one upload or download that run at the same time.
pub(super) const CALLS_AT_ONCE: usize = 8;
/// Longest pause within a session that the coordinator can ask for; a longer one ends the session.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Longest time that the coordinator holds a request of a group.
const HELD_MAX: Duration = Duration::from_secs(60);
/// Longest answer to a request of a group, in bytes: the certificates of all members.
const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// Longest JSON body of a response, in bytes: an assignment with its plan.
const JSON_BYTES_MAX: usize = 1 << 20;

/// When to ask for a release again where the coordinator does not say it: a day.
const ASK_AFTER_MS_DEFAULT: u64 = 86_400_000;

/// The answer about a channel.
#[derive(Debug)]
pub(crate) struct AskedChannel {
    pub(crate) ask_after_ms: u64,
    /// None where the client has what it should have, else its release, which may be none.
    pub(crate) answer: Option<Option<Box<Released>>>,
}

/// One coordinator, as its clients call it.
#[derive(Debug)]
pub(crate) struct Coordinator {
    transport: Arc<dyn Transport>,
    /// The URL that paths are appended to.
    server: String,
    clock: Arc<dyn Clock>,
    jitter: Mutex<Stream>,
    pub(crate) listener: Listener,
}

impl Coordinator {
    pub(crate) fn new(transport: Arc<dyn Transport>, server: String, clock: Arc<dyn Clock>) -> Self {
        let mut random = [0; 8];
        // Without random bytes every process draws the same pauses, which is no reason to fail.
        let _ = getrandom::fill(&mut random);
        let jitter = Mutex::new(Seed(u64::from_le_bytes(random)).stream());
        Self { transport, server, clock, jitter, listener: Listener::default() }
    }

    /// Tells this listener what sessions do.
    pub(crate) fn reporting_to(self, listener: Listener) -> Self {
        Self { listener, ..self }
    }

    pub(crate) fn address(&self) -> &str {
        &self.server
    }

    /// The coordinators at the first `count` of these URLs, as this one calls coordinators of its deployment. None for
    /// this one itself: where a URL is missing, is its own, or must not be told the client's secret.
    pub(super) fn at_each(&self, urls: &[Option<String>], count: usize) -> Vec<Option<Self>> {
        (0..count).map(|place| self.at(urls.get(place)?.as_ref()?)).collect()
    }

    fn at(&self, url: &str) -> Option<Self> {
        let url = url.trim_end_matches('/');
        let scheme = |url: &str| url.split_once(':').map(|(scheme, _)| scheme.to_owned());
        let refused = match url {
            _ if url == self.server => return None,
            _ if !is_url(url) || url.contains(['@', '?', '#']) => "it is not the address of a coordinator",
            _ if scheme(url) != scheme(&self.server) => "its scheme is another one",
            _ if is_exposed(url) && !is_exposed(&self.server) => "it is plain HTTP to another machine",
            _ => {
                let Self { transport, clock, listener, .. } = self;
                let other = Self::new(Arc::clone(transport), url.to_owned(), Arc::clone(clock));
                return Some(other.reporting_to(listener.clone()));
            }
        };
        tracing::debug!(url, refused, "a coordinator is not called");
        None
    }

    pub(crate) async fn enrol(&self, token: &Secret, request: &EnrolRequest) -> Result<EnrolResponse, ClientError> {
        let call = with_json(self.request(Method::POST, token, "/device/v1/clients"), request);
        self.retrying(|| self.json(call.clone(), ANSWER_TIMEOUT)).await
    }

    pub(crate) async fn open_jobs(&self, token: &Secret) -> Result<OpenJobs, ClientError> {
        self.retrying(|| self.ask_jobs(token)).await
    }

    /// The same, asked once.
    pub(crate) async fn ask_jobs(&self, token: &Secret) -> Result<OpenJobs, ClientError> {
        self.json(self.request(Method::GET, token, "/device/v1/jobs"), ANSWER_TIMEOUT).await
    }

    pub(crate) async fn check_in(&self, secret: &Secret, request: &CheckInRequest) -> Result<CheckedIn, ClientError> {
        let call = with_json(self.request(Method::POST, secret, "/device/v1/checkins"), request);
        let timeout = ANSWER_TIMEOUT + Duration::from_millis(request.wait_ms.into());
        let answer = async || {
            let response = self.send(call.clone(), timeout).await?;
            checked_in(&self.read_body(response.body, JSON_BYTES_MAX).await?)
        };
        self.retrying(answer).await
    }

    /// Has what is stored of the client deleted.
    pub(crate) async fn leave(&self, secret: &Secret) -> Result<(), ClientError> {
        let call = self.request(Method::DELETE, secret, "/device/v1/client");
        self.retrying(|| self.send(call.clone(), ANSWER_TIMEOUT)).await.map(drop)
    }

    /// Asks for the release of a channel, of which the client has this file.
    pub(crate) async fn release(
        &self,
        secret: &Secret,
        channel: &Name,
        has: Option<Sha256Hash>,
    ) -> Result<AskedChannel, ClientError> {
        let path = format!("/device/v1/release?channel={}", channel.as_str());
        let mut call = self.request(Method::GET, secret, &path);
        if let Some(has) = has {
            call = with_header(call, IF_NONE_MATCH, &format!("\"{has}\""));
        }
        let answer = async || {
            let sent = within(self.clock.as_ref(), ANSWER_TIMEOUT, self.transport.send(call.clone())).await;
            let response = sent.ok_or_else(|| no_answer(ANSWER_TIMEOUT))??;
            if response.status == StatusCode::NOT_MODIFIED {
                let told = response.headers.get(ASK_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
                return Ok(AskedChannel { ask_after_ms: told.unwrap_or(ASK_AFTER_MS_DEFAULT), answer: None });
            }
            if !response.status.is_success() {
                return Err(self.refusal(response).await);
            }
            let body = self.read_body(response.body, JSON_BYTES_MAX).await?;
            let answer: ChannelAnswer =
                serde_json::from_slice(&body).map_err(|error| ClientError::BadAnswer(error.to_string()))?;
            Ok(AskedChannel { ask_after_ms: answer.ask_after_ms, answer: Some(answer.release) })
        };
        self.retrying(answer).await
    }

    /// A certificate for the client's key.
    pub(crate) async fn certificate(
        &self,
        secret: &Secret,
        request: &CertificateRequest,
    ) -> Result<IssuedCertificate, ClientError> {
        let call = with_json(self.request(Method::POST, secret, "/device/v1/certificate"), request);
        self.retrying(|| self.json(call.clone(), ANSWER_TIMEOUT)).await
    }

    /// The client's next secret.
    pub(crate) async fn next_secret(&self, secret: &Secret) -> Result<NewSecret, ClientError> {
        let call = self.request(Method::POST, secret, "/device/v1/secret");
        self.retrying(|| self.json(call.clone(), ANSWER_TIMEOUT)).await
    }

    /// Whether certificates can be presented to this coordinator.
    pub(crate) fn takes_certificates(&self) -> bool {
        self.server.starts_with("https://") && self.transport.presents_certificates()
    }

    /// Presents a certificate from now on.
    pub(crate) fn present(&self, certificate: &ClientCertificate) -> Result<(), ClientError> {
        Ok(self.transport.present(certificate)?)
    }

    /// Whether the round still takes the report of an assignment whose work is finished or not.
    pub(crate) async fn status(
        &self,
        secret: &Secret,
        id: AssignmentId,
        finished: bool,
    ) -> Result<AssignmentStatus, ClientError> {
        let query = if finished { "?finished=true" } else { "" };
        let call = self.request(Method::GET, secret, &format!("/device/v1/assignments/{id}{query}"));
        self.retrying(|| self.json(call.clone(), ANSWER_TIMEOUT)).await
    }

    /// The same for a client that works on, asked once: a question that fails is asked again when its time comes.
    pub(crate) async fn ask(&self, secret: &Secret, id: AssignmentId) -> Result<AssignmentStatus, ClientError> {
        let call = self.request(Method::GET, secret, &format!("/device/v1/assignments/{id}"));
        self.json(call, ANSWER_TIMEOUT).await
    }

    /// A time between 1 and 1.25 times this, so that the clients of a cohort do not ask all at once.
    pub(crate) fn spread(&self, time: Duration) -> Duration {
        let mut jitter = self.jitter.locked();
        time.mul_f64(1.0 + jitter.unit() / 4.0)
    }

    /// Sends an evaluation. A relay says how many it has added up.
    pub(crate) async fn put_evaluation(
        &self,
        secret: &Secret,
        id: AssignmentId,
        reports: Option<u32>,
        report: &EvaluationReport,
    ) -> Result<ReportAccepted, ClientError> {
        let path = format!("/device/v1/assignments/{id}/evaluation{}", reports_text(reports));
        let call = with_json(self.request(Method::PUT, secret, &path), report);
        self.retrying(|| self.json(call.clone(), ANSWER_TIMEOUT)).await
    }

    /// Sends the sums of a table. A relay says of how many.
    pub(crate) async fn put_description(
        &self,
        secret: &Secret,
        id: AssignmentId,
        reports: Option<u32>,
        description: &Description,
    ) -> Result<ReportAccepted, ClientError> {
        let path = format!("/device/v1/assignments/{id}/description{}", reports_text(reports));
        let call = with_json(self.request(Method::PUT, secret, &path), description);
        self.retrying(|| self.json(call.clone(), ANSWER_TIMEOUT)).await
    }

    /// Which jobs of a relay have ended. It is asked once.
    pub(crate) async fn ask_ended(&self, secret: &Secret, jobs: &RelayJobs) -> Result<RelayJobs, ClientError> {
        self.json(with_json(self.request(Method::PUT, secret, "/device/v1/relay/jobs"), jobs), ANSWER_TIMEOUT).await
    }

    pub(crate) async fn post_failure(
        &self,
        secret: &Secret,
        id: AssignmentId,
        report: &FailureReport,
    ) -> Result<ReportAccepted, ClientError> {
        let path = format!("/device/v1/assignments/{id}/failure");
        let call = with_json(self.request(Method::POST, secret, &path), report);
        self.retrying(|| self.json(call.clone(), ANSWER_TIMEOUT)).await
    }

    /// Sends bytes whose answer is bytes. None when the coordinator held the request and had no answer in time.
    pub(crate) async fn held(
        &self,
        (method, secret, path): (Method, &Secret, &str),
        body: &Bytes,
    ) -> Result<Option<Vec<u8>>, ClientError> {
        self.answered(Request { body: body.clone(), ..self.request(method, secret, path) }).await
    }

    /// The same for a message as JSON.
    #[cfg(feature = "group")]
    pub(crate) async fn held_json(
        &self,
        (secret, path): (&Secret, &str),
        message: &impl Serialize,
    ) -> Result<Option<Vec<u8>>, ClientError> {
        self.answered(with_json(self.request(Method::PUT, secret, path), message)).await
    }

    /// The same, and a failure is not repeated.
    #[cfg(feature = "group")]
    pub(crate) async fn held_json_once(
        &self,
        (secret, path): (&Secret, &str),
        message: &impl Serialize,
    ) -> Result<Option<Vec<u8>>, ClientError> {
        self.answered_once(with_json(self.request(Method::PUT, secret, path), message)).await
    }

    /// The connection that a request becomes. It is asked once.
    #[cfg(feature = "group")]
    pub(crate) async fn upgraded(
        &self,
        secret: &Secret,
        path: &str,
        name: &str,
    ) -> Result<super::contract::Wire, super::TransportError> {
        let call = with_header(self.request(Method::GET, secret, path), CONNECTION, "upgrade");
        self.transport.upgrade(with_header(call, UPGRADE, name)).await
    }

    async fn answered(&self, call: Request) -> Result<Option<Vec<u8>>, ClientError> {
        self.retrying(|| self.answered_once(call.clone())).await
    }

    async fn answered_once(&self, call: Request) -> Result<Option<Vec<u8>>, ClientError> {
        let response = self.send(call, ANSWER_TIMEOUT + HELD_MAX).await?;
        match response.status {
            StatusCode::NO_CONTENT => Ok(None),
            _ => Ok(Some(self.read_body(response.body, MESSAGE_BYTES_MAX).await?)),
        }
    }

    /// Sends bytes that end an exchange.
    pub(crate) async fn put_bytes(
        &self,
        secret: &Secret,
        path: &str,
        body: &Bytes,
    ) -> Result<ReportAccepted, ClientError> {
        let call = Request { body: body.clone(), ..self.request(Method::PUT, secret, path) };
        self.retrying(|| self.json(call.clone(), ANSWER_TIMEOUT)).await
    }

    /// The pause after failed attempt `attempt`, from 1; at least the coordinator's retry window where it gave one.
    pub(crate) fn pause(&self, attempt: u32, window_ms: Option<u64>) -> Duration {
        pause(attempt, window_ms, &mut self.jitter.locked())
    }

    /// A request without a body.
    pub(crate) fn request(&self, method: Method, secret: &Secret, path: &str) -> Request {
        let mut bearer = header_value(&format!("Bearer {}", secret.expose()));
        bearer.set_sensitive(true);
        Request {
            method,
            url: format!("{}{path}", self.server),
            headers: HeaderMap::from_iter([(AUTHORIZATION, bearer)]),
            body: Bytes::new(),
        }
    }

    /// Repeats a call while its failure may be temporary and the pause is short. Every call of the API may be repeated:
    /// no report counts twice. (An enrolment whose response is lost leaves a client behind that never checks in.)
    pub(crate) async fn retrying<T, F>(&self, call: impl Fn() -> F) -> Result<T, ClientError>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        let mut attempt = 1;
        loop {
            match call().await {
                Err(error) if error.is_temporary() && attempt < ATTEMPTS_MAX => {
                    let window_ms = error.retry_after().and_then(|window| u64::try_from(window.as_millis()).ok());
                    let pause = self.pause(attempt, window_ms);
                    if pause > PAUSE_MAX && window_ms.is_some() {
                        return Err(error);
                    }
                    tracing::debug!(%error, attempt, ?pause, "a request is repeated");
                    self.listener.hear(&Progress::Retrying { pause, error: error.to_string() });
                    self.clock.sleep(pause).await;
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    /// Sends a request whose successful response is JSON.
    pub(crate) async fn json<T: DeserializeOwned>(
        &self,
        request: Request,
        timeout: Duration,
    ) -> Result<T, ClientError> {
        let response = self.send(request, timeout).await?;
        let body = self.read_body(response.body, JSON_BYTES_MAX).await?;
        serde_json::from_slice(&body).map_err(|error| ClientError::BadAnswer(error.to_string()))
    }

    /// Sends a request and waits for the head of its response. A status that is no success is an error.
    pub(crate) async fn send(&self, request: Request, timeout: Duration) -> Result<Response, ClientError> {
        let sent = within(self.clock.as_ref(), timeout, self.transport.send(request)).await;
        let response = sent.ok_or_else(|| no_answer(timeout))??;
        if response.status.is_success() { Ok(response) } else { Err(self.refusal(response).await) }
    }

    /// The error that a response without success stands for.
    async fn refusal(&self, response: Response) -> ClientError {
        let status = response.status;
        let body = match self.read_body(response.body, JSON_BYTES_MAX).await {
            Ok(body) => body,
            Err(error) => return error,
        };
        match problem(&body, status.as_u16()) {
            Some(problem) => ClientError::Refused(Box::new(problem)),
            // A proxy's response, not the coordinator's.
            None if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                ClientError::Unreachable(format!("status {status}"))
            }
            None => ClientError::BadAnswer(format!("status {status} without a problem document")),
        }
    }

    /// Reads a body of at most `bytes_max` bytes. Memory grows only with what has arrived.
    async fn read_body(&self, mut body: Body, bytes_max: usize) -> Result<Vec<u8>, ClientError> {
        let mut bytes = Vec::new();
        while let Some(piece) = self.next_piece(&mut body).await? {
            if bytes.len() + piece.len() > bytes_max {
                return Err(ClientError::BadAnswer(format!("a response of more than {bytes_max} bytes")));
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    }

    /// The next bytes of a body; `None` at its end.
    pub(crate) async fn next_piece(&self, body: &mut Body) -> Result<Option<Bytes>, ClientError> {
        let piece = within(self.clock.as_ref(), ANSWER_TIMEOUT, body.next()).await;
        Ok(piece.ok_or_else(|| no_answer(ANSWER_TIMEOUT))?.transpose()?)
    }
}

/// The request with this header.
pub(crate) fn with_header(mut request: Request, name: HeaderName, value: &str) -> Request {
    request.headers.insert(name, header_value(value));
    request
}

fn reports_text(reports: Option<u32>) -> String {
    reports.map(|reports| format!("?reports={reports}")).unwrap_or_default()
}

fn with_json(request: Request, value: &impl Serialize) -> Request {
    let body = serde_json::to_vec(value).expect("the types of the API have no map with keys that JSON lacks");
    with_header(Request { body: body.into(), ..request }, CONTENT_TYPE, "application/json")
}

fn header_value(text: &str) -> HeaderValue {
    HeaderValue::try_from(text).expect("tokens, hashes, numbers and media types are visible ASCII")
}

fn no_answer(timeout: Duration) -> ClientError {
    ClientError::Unreachable(format!("no answer for {} s", timeout.as_secs()))
}
