//! A device that speaks the device API by hand, so that it can say anything.

use std::collections::BTreeMap;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tributary_protocol::device::{Assignment, CheckInResponse, EnrolResponse, ReportAccepted};
use tributary_protocol::id::{AssignmentId, ClientId};

use super::{Answer, delta_file};

/// An enrolled client.
#[derive(Clone, Debug)]
pub(crate) struct Device {
    pub(crate) http: reqwest::Client,
    pub(crate) server: String,
    pub(crate) secret: String,
    pub(crate) id: ClientId,
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) examples: u64,
    /// Its named example sets, of 10 examples each.
    pub(crate) sets: Vec<String>,
    pub(crate) codecs: &'static [&'static str],
    pub(crate) abilities: &'static [&'static str],
}

/// The figures that go with an update.
pub(crate) fn figures(weight: u32) -> Value {
    json!({ "weight": weight, "loss": 0.5, "steps": 3, "train_ms": 12 })
}

impl Device {
    pub(crate) fn new(http: reqwest::Client, server: String, enrolled: &EnrolResponse) -> Self {
        let (secret, id) = (enrolled.secret.expose(), enrolled.client);
        Self {
            http,
            server,
            secret,
            id,
            attributes: BTreeMap::new(),
            examples: 1_000,
            sets: Vec::new(),
            codecs: &["f32"],
            abilities: &["first"],
        }
    }

    /// The same device, which says this of itself from now on.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.attributes.insert(name.to_owned(), value.to_owned());
        self
    }

    /// The same device with this many examples.
    pub(crate) fn holding(self, examples: u64) -> Self {
        Self { examples, ..self }
    }

    /// The same device with these example sets.
    pub(crate) fn owning(self, sets: &[&str]) -> Self {
        Self { sets: sets.iter().map(ToString::to_string).collect(), ..self }
    }

    /// The same device, which writes and reads these codecs.
    pub(crate) fn reading(self, codecs: &'static [&'static str]) -> Self {
        Self { codecs, ..self }
    }

    /// The same device, whose SDK can do this.
    pub(crate) fn able(self, abilities: &'static [&'static str]) -> Self {
        Self { abilities, ..self }
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}/device/v1{path}", self.server)).bearer_auth(&self.secret)
    }

    pub(crate) fn check_in_request(&self, wait_ms: u32) -> Value {
        let sets: BTreeMap<_, _> = self.sets.iter().map(|name| (name, json!({ "examples": 10 }))).collect();
        json!({
            "sets": sets, "attributes": self.attributes, "state": { "examples": self.examples },
            "sdk_version": "test", "codecs": self.codecs, "abilities": self.abilities,
            "masks": true, "signs": true, "wait_ms": wait_ms,
        })
    }

    pub(crate) async fn check_in(&self, wait_ms: u32) -> CheckInResponse {
        Answer::to(self.request(Method::POST, "/checkins").json(&self.check_in_request(wait_ms))).await.ok()
    }

    /// Checks in and is held; the answer comes when there is work or time is up.
    pub(crate) fn wait(&self) -> JoinHandle<CheckInResponse> {
        let device = self.clone();
        tokio::spawn(async move { device.check_in(60_000).await })
    }

    /// The work that the device has been given and not answered yet.
    pub(crate) async fn work(&self) -> Assignment {
        match self.check_in(0).await {
            CheckInResponse::Assigned(assignment) => *assignment,
            retry => panic!("no work: {retry:?}"),
        }
    }

    pub(crate) async fn put_update(&self, id: AssignmentId, figures: &Value, body: Vec<u8>) -> Answer {
        let path = format!("/assignments/{id}/update");
        Answer::to(self.request(Method::PUT, &path).query(figures).body(body)).await
    }

    /// Sends a right update and expects it to be taken.
    pub(crate) async fn contribute(&self, assignment: &Assignment, delta: &[f32], weight: u32) {
        let answer = self.put_update(assignment.id, &figures(weight), delta_file(assignment, delta)).await;
        let _: ReportAccepted = answer.ok();
    }

    pub(crate) async fn fail(&self, id: AssignmentId, reason: &str) -> Answer {
        self.fail_with(id, &json!({ "reason": reason })).await
    }

    pub(crate) async fn fail_with(&self, id: AssignmentId, report: &Value) -> Answer {
        Answer::to(self.request(Method::POST, &format!("/assignments/{id}/failure")).json(report)).await
    }

    pub(crate) async fn evaluate(&self, id: AssignmentId, report: &Value) -> Answer {
        Answer::to(self.request(Method::PUT, &format!("/assignments/{id}/evaluation")).json(report)).await
    }

    pub(crate) async fn status(&self, id: AssignmentId) -> Answer {
        Answer::to(self.request(Method::GET, &format!("/assignments/{id}"))).await
    }
}
