//! Clients that speak the device API by hand, so that a test knows their updates.

use bytes::Bytes;
use reqwest::{Client, Method, RequestBuilder, StatusCode};
use serde_json::json;
use tributary_protocol::device::{Assignment, CheckInResponse, EnrolResponse};
use tributary_protocol::problem::Problem;
use tributary_protocol::update::{UpdateHeader, encode};

/// An enrolled client. Its calls are repeated while the coordinator is away.
#[derive(Clone)]
pub(crate) struct Device {
    http: Client,
    server: String,
    secret: String,
}

impl Device {
    pub(crate) async fn enrol(server: &str, token: &str) -> Self {
        tributary_tls::install();
        let http = Client::builder().no_proxy().build().unwrap();
        let url = format!("{server}/device/v1/clients");
        let enrolled = http.post(url).bearer_auth(token).json(&json!({})).send().await.unwrap();
        let enrolled: EnrolResponse = enrolled.json().await.unwrap();
        Self { http, server: server.to_owned(), secret: enrolled.secret.expose() }
    }

    /// Checks in until there is work.
    pub(crate) async fn work(&self) -> Assignment {
        let request = json!({
            "state": { "examples": 1_000 }, "sdk_version": "test", "codecs": ["f32", "f16", "bf16", "int8"],
            "masks": true, "wait_ms": 60_000,
        });
        loop {
            let answer = self.answer(Method::POST, "checkins", |call| call.json(&request)).await.unwrap();
            if let CheckInResponse::Assigned(assignment) = serde_json::from_slice(&answer).unwrap() {
                return *assignment;
            }
        }
    }

    /// The model of an assignment, as a file.
    pub(crate) async fn model(&self, assignment: &Assignment) -> Result<Bytes, Box<Problem>> {
        let path = format!("jobs/{}/models/{}", assignment.job, assignment.model_version);
        self.answer(Method::GET, &path, |call| call).await
    }

    /// Whether an assignment is still open: the problem says why it is not.
    pub(crate) async fn ask(&self, assignment: &Assignment) -> Result<(), Box<Problem>> {
        self.answer(Method::GET, &format!("assignments/{}", assignment.id), |call| call).await.map(drop)
    }

    /// Sends an update that is not masked.
    pub(crate) async fn put_update(&self, work: &Assignment, delta: &[f32], weight: u32) -> Result<(), Box<Problem>> {
        let body = plain_update(work, delta);
        let path = format!("assignments/{}/update?weight={weight}&loss=0.5&steps=1&train_ms=1", work.id);
        self.answer(Method::PUT, &path, |call| call.body(body.clone())).await.map(drop)
    }

    /// The same; it counts.
    pub(crate) async fn contribute(&self, assignment: &Assignment, delta: &[f32]) {
        self.put_update(assignment, delta, 10).await.unwrap();
    }

    /// The answer to a call for an assignment, which may be held.
    pub(crate) async fn call(&self, method: Method, assignment: &Assignment, call: &str, body: &[u8]) -> Vec<u8> {
        let path = format!("assignments/{}/{call}", assignment.id);
        loop {
            let (status, answer) = self.send(method.clone(), &path, |call| call.body(body.to_vec())).await;
            if status != StatusCode::NO_CONTENT {
                assert_eq!(status, StatusCode::OK, "{call}: {}", String::from_utf8_lossy(&answer));
                return answer.to_vec();
            }
        }
    }

    async fn answer(
        &self,
        method: Method,
        path: &str,
        with: impl Fn(RequestBuilder) -> RequestBuilder,
    ) -> Result<Bytes, Box<Problem>> {
        let (status, answer) = self.send(method, path, with).await;
        let text = || String::from_utf8_lossy(&answer);
        match status.is_success() {
            true => Ok(answer),
            false => Err(serde_json::from_slice(&answer).unwrap_or_else(|_| panic!("{path}: {status} {}", text()))),
        }
    }

    /// Sends a request until there is an answer that is no failure of the coordinator.
    async fn send(
        &self,
        method: Method,
        path: &str,
        with: impl Fn(RequestBuilder) -> RequestBuilder,
    ) -> (StatusCode, Bytes) {
        let url = format!("{}/device/v1/{path}", self.server);
        loop {
            let request = with(self.http.request(method.clone(), &url)).bearer_auth(&self.secret);
            // Every call may be repeated.
            let Ok(answer) = request.send().await else { continue };
            let status = answer.status();
            if let Ok(body) = answer.bytes().await
                && !status.is_server_error()
            {
                return (status, body);
            }
        }
    }
}

/// The file of an update in the codec that the plan names.
pub(crate) fn plain_update(assignment: &Assignment, delta: &[f32]) -> Vec<u8> {
    let header = UpdateHeader {
        codec: assignment.plan.codec,
        job: assignment.job.to_string(),
        base_version: assignment.model_version.into(),
    };
    let parts = assignment.plan.model.parts().unwrap();
    encode(delta, parts.shared(), &header, assignment.round, assignment.seed).unwrap()
}
