//! The device API over HTTP: one method per call, problem documents as errors, retries.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::de::DeserializeOwned;
use tributary_protocol::device::{
    AssignmentStatus, CheckInRequest, CheckInResponse, EnrolRequest, EnrolResponse, EvaluationReport, FailureReport,
    ReportAccepted,
};
use tributary_protocol::id::{AssignmentId, Secret};
use tributary_protocol::problem::Problem;
use tributary_protocol::seed::{Seed, Stream};

use crate::ClientError;
use crate::clock::Clock;
use crate::retry::{ATTEMPTS_MAX, pause};

/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for an answer, besides the time that a check-in asks to be held and that a body takes to send.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest pause that a session waits out by itself; a longer one is left to the app.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Largest JSON answer: an assignment with its plan.
const JSON_BYTES_MAX: usize = 1 << 20;

/// Speaks the device API of one coordinator.
#[derive(Clone, Debug)]
pub(crate) struct Transport {
    http: reqwest::Client,
    server: String,
    clock: Arc<dyn Clock>,
    jitter: Arc<Mutex<Stream>>,
}

/// An HTTP client as the SDK wants it: bounded waits, rustls.
pub(crate) fn http_client() -> Result<reqwest::Client, ClientError> {
    // An app that chose a provider of its own keeps it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        // A redirect could carry a secret or an update to somebody else.
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("tributary-client/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| ClientError::Setup(describe(&error)))
}

impl Transport {
    pub(crate) fn new(http: reqwest::Client, server: String, clock: Arc<dyn Clock>) -> Self {
        let mut random = [0; 8];
        // Without random bytes the pauses are merely the same in every process.
        let _ = getrandom::fill(&mut random);
        let jitter = Arc::new(Mutex::new(Seed(u64::from_le_bytes(random)).stream()));
        Self { http, server, clock, jitter }
    }

    pub(crate) async fn enrol(&self, token: &Secret, request: &EnrolRequest) -> Result<EnrolResponse, ClientError> {
        self.retrying(|| async {
            let call = self.request(Method::POST, token, "/device/v1/clients").json(request);
            self.json(call, ANSWER_TIMEOUT).await
        })
        .await
    }

    pub(crate) async fn check_in(
        &self,
        secret: &Secret,
        request: &CheckInRequest,
    ) -> Result<CheckInResponse, ClientError> {
        self.retrying(|| async {
            let call = self.request(Method::POST, secret, "/device/v1/checkins").json(request);
            self.json(call, ANSWER_TIMEOUT + Duration::from_millis(request.wait_ms.into())).await
        })
        .await
    }

    pub(crate) async fn status(&self, secret: &Secret, id: AssignmentId) -> Result<AssignmentStatus, ClientError> {
        let path = format!("/device/v1/assignments/{id}");
        self.retrying(|| async { self.json(self.request(Method::GET, secret, &path), ANSWER_TIMEOUT).await }).await
    }

    pub(crate) async fn put_evaluation(
        &self,
        secret: &Secret,
        id: AssignmentId,
        report: &EvaluationReport,
    ) -> Result<ReportAccepted, ClientError> {
        let path = format!("/device/v1/assignments/{id}/evaluation");
        self.retrying(|| async {
            self.json(self.request(Method::PUT, secret, &path).json(report), ANSWER_TIMEOUT).await
        })
        .await
    }

    pub(crate) async fn post_failure(
        &self,
        secret: &Secret,
        id: AssignmentId,
        report: &FailureReport,
    ) -> Result<ReportAccepted, ClientError> {
        let path = format!("/device/v1/assignments/{id}/failure");
        self.retrying(|| async {
            self.json(self.request(Method::POST, secret, &path).json(report), ANSWER_TIMEOUT).await
        })
        .await
    }

    pub(crate) fn pause(&self, attempt: u32, window_ms: Option<u64>) -> Duration {
        pause(attempt, window_ms, &mut self.jitter.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn request(&self, method: Method, secret: &Secret, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.server)).bearer_auth(secret.expose())
    }

    /// Tries a call again while its failure may pass, and soon. Every call of the API may be repeated: no report counts
    /// twice. (An enrolment whose answer is lost leaves a client behind that never checks in.)
    pub(crate) async fn retrying<T, F>(&self, call: impl Fn() -> F) -> Result<T, ClientError>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        let mut attempt = 1;
        loop {
            match call().await {
                Err(error) if error.is_passing() && attempt < ATTEMPTS_MAX => {
                    let window_ms = error.retry_after().and_then(|window| u64::try_from(window.as_millis()).ok());
                    let pause = self.pause(attempt, window_ms);
                    if pause > PAUSE_MAX && window_ms.is_some() {
                        return Err(error);
                    }
                    tracing::debug!(%error, attempt, ?pause, "a request is tried again");
                    self.clock.sleep(pause).await;
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    pub(crate) async fn json<T: DeserializeOwned>(
        &self,
        call: RequestBuilder,
        timeout: Duration,
    ) -> Result<T, ClientError> {
        let body = read_body(self.send(call, timeout).await?, JSON_BYTES_MAX).await?;
        serde_json::from_slice(&body).map_err(|error| ClientError::BadAnswer(error.to_string()))
    }

    /// Sends a request and waits for the head of its answer; anything but success is an error.
    pub(crate) async fn send(&self, call: RequestBuilder, timeout: Duration) -> Result<Response, ClientError> {
        let answered = tokio::time::timeout(timeout, call.send()).await.map_err(|_| no_answer(timeout))?;
        let response = answered.map_err(|error| ClientError::Unreachable(describe(&error)))?;
        if response.status().is_success() { Ok(response) } else { Err(refusal(response).await) }
    }
}

/// What an answer that is no success says.
async fn refusal(response: Response) -> ClientError {
    let status = response.status();
    let body = match read_body(response, JSON_BYTES_MAX).await {
        Ok(body) => body,
        Err(error) => return error,
    };
    match serde_json::from_slice::<Problem>(&body) {
        Ok(problem) => ClientError::Refused(Box::new(problem)),
        // A proxy's answer, not the coordinator's.
        Err(_) if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
            ClientError::Unreachable(format!("status {status}"))
        }
        Err(_) => ClientError::BadAnswer(format!("status {status} without a problem document")),
    }
}

/// A body of at most `bytes_max` bytes; memory grows only with what has arrived.
async fn read_body(mut response: Response, bytes_max: usize) -> Result<Vec<u8>, ClientError> {
    let mut body = Vec::new();
    while let Some(piece) = next_piece(&mut response).await? {
        if body.len() + piece.len() > bytes_max {
            return Err(ClientError::BadAnswer(format!("an answer of more than {bytes_max} bytes")));
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

/// The next bytes of a body; none at its end.
pub(crate) async fn next_piece(response: &mut Response) -> Result<Option<Bytes>, ClientError> {
    let piece = tokio::time::timeout(ANSWER_TIMEOUT, response.chunk()).await;
    piece.map_err(|_| no_answer(ANSWER_TIMEOUT))?.map_err(|error| ClientError::Unreachable(describe(&error)))
}

fn no_answer(timeout: Duration) -> ClientError {
    ClientError::Unreachable(format!("no answer for {} s", timeout.as_secs()))
}

/// An error with its causes: reqwest's own text leaves them out.
fn describe(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
