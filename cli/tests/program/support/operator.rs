//! The operator sets the run up and waits for its end, over connections that may break at any time.

use bytes::Bytes;
use reqwest::{Client, Method};
use serde_json::{Value, json};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::Secret;
use tributary_protocol::operator::{Assignment, Node, Page, Round, RoundDetail, RoundGroup};
use tributary_protocol::relay::RELAY_ATTRIBUTE;
use tributary_protocol::state::Phase;

/// Longest wait for events.
const NEWS_WAIT_MS: u32 = 20_000;

/// An operator behind the proxy.
pub(crate) struct Operator {
    http: Client,
    url: String,
    token: String,
}

impl Operator {
    pub(crate) fn new(url: String, token: &Secret) -> Self {
        tributary_tls::install();
        let http = Client::builder().no_proxy().build().unwrap();
        Self { http, url, token: token.expose() }
    }

    /// Creates the population; returns an enrolment token for it.
    pub(crate) async fn population(&self) -> String {
        self.call(Method::POST, "populations", Some(&json!({"name": "p"}))).await.unwrap();
        self.token(&json!({})).await
    }

    /// An enrolment token for relays of the population.
    pub(crate) async fn relay_token(&self) -> String {
        self.token(&json!({ RELAY_ATTRIBUTE: "true" })).await
    }

    async fn token(&self, attributes: &Value) -> String {
        let token = json!({ "kind": "enrolment", "population": "p", "label": "test", "attributes": attributes });
        let token = self.call(Method::POST, "tokens", Some(&token)).await;
        token.unwrap()["secret"].as_str().unwrap().to_owned()
    }

    /// Clients that have enrolled.
    pub(crate) async fn clients(&self) -> usize {
        self.get("clients?population=p&limit=1000").await["items"].as_array().unwrap().len()
    }

    /// Returns when so many clients wait for work.
    pub(crate) async fn are_online(&self, count: usize) {
        loop {
            let clients = self.get("clients?population=p&limit=1000").await;
            let online = clients["items"].as_array().unwrap().iter().filter(|client| client["online"] == true).count();
            if online == count {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Deletes a job that has ended.
    pub(crate) async fn delete_job(&self, job: &str) {
        let url = format!("{}/operator/v1/jobs/{job}", self.url);
        let deleted = self.http.delete(url).bearer_auth(&self.token).send().await.unwrap();
        assert!(deleted.status().is_success(), "{}", deleted.text().await.unwrap());
    }

    /// Shuts a client out for good.
    pub(crate) async fn revoke(&self, client: &str) {
        let standing = json!({ "standing": "revoked" });
        self.call(Method::PUT, &format!("clients/{client}/standing"), Some(&standing)).await.unwrap();
    }

    /// Ends a job for good.
    pub(crate) async fn stop_job(&self, job: &str) {
        self.call(Method::POST, &format!("jobs/{job}/stop"), None).await.unwrap();
    }

    /// Creates a job with these sections and this algorithm of its clients; returns its id.
    pub(crate) async fn create_job(&self, rounds: u32, sections: &Value, algorithm: Option<&Value>) -> String {
        let mut job = json!({
            "name": "killed", "population": "p", "seed": 42,
            "model": {"parameters": [{"name": "w", "shape": [100]}, {"name": "b", "shape": [7]}]},
            "training": {"steps": 1, "optimizer": {"kind": "sgd", "learning_rate": 1.0}},
            "stop": {"rounds": rounds},
        });
        for (name, section) in sections.as_object().unwrap() {
            job[name] = section.clone();
        }
        if let Some(algorithm) = algorithm {
            job["training"]["algorithm"] = algorithm.clone();
        }
        loop {
            match self.call(Method::POST, "jobs", Some(&json!({ "job": job }))).await {
                Ok(created) => return created["id"].as_str().unwrap().to_owned(),
                // The job may have been created before the answer was lost.
                Err(_) => {
                    let jobs = self.get("jobs").await;
                    if let Some(created) = jobs["items"].as_array().unwrap().first() {
                        return created["id"].as_str().unwrap().to_owned();
                    }
                }
            }
        }
    }

    /// Returns when a relay knows a job of its parent.
    pub(crate) async fn knows(&self, job: &str) {
        while !self.get("jobs").await["items"].as_array().unwrap().iter().any(|known| known["id"] == job) {
            tokio::task::yield_now().await;
        }
    }

    /// Returns when the job is completed.
    pub(crate) async fn completed(&self, job: &str) {
        self.becomes(job, &format!("jobs/{job}"), |job| job["state"] == "completed").await;
    }

    /// Returns when a round is in this phase.
    pub(crate) async fn round_is(&self, job: &str, round: u32, phase: Phase) {
        let is_it = |each: &Value| each["number"] == round && each["phase"] == phase.as_str();
        let path = format!("jobs/{job}/rounds?limit=1000");
        self.becomes(job, &path, |rounds| rounds["items"].as_array().unwrap().iter().any(is_it)).await;
    }

    /// Returns when no round of a job is open.
    pub(crate) async fn rounds_end(&self, job: &str) {
        let ended = [Phase::Committed.as_str(), Phase::Abandoned.as_str()];
        let is_ended = |round: &Value| ended.iter().any(|phase| round["phase"] == *phase);
        let path = format!("jobs/{job}/rounds?limit=1000");
        self.becomes(job, &path, |rounds| rounds["items"].as_array().unwrap().iter().all(is_ended)).await;
    }

    /// Reads something of a job after each of its events, until it is as asked for.
    async fn becomes(&self, job: &str, path: &str, is_so: impl Fn(&Value) -> bool) {
        let mut after = String::from("0");
        while !is_so(&self.get(path).await) {
            let news = self.get(&format!("events?job={job}&after={after}&wait_ms={NEWS_WAIT_MS}")).await;
            if let Some(last) = news["items"].as_array().unwrap().last() {
                after = last["sequence"].to_string();
            }
        }
    }

    /// Hash of a downloaded model version.
    pub(crate) async fn model(&self, job: &str, version: u32) -> Sha256Hash {
        Sha256Hash::of(&self.model_file(job, version).await)
    }

    /// The rounds of a job.
    pub(crate) async fn rounds(&self, job: &str) -> Vec<Round> {
        let rounds = self.get(&format!("jobs/{job}/rounds?limit=1000")).await;
        serde_json::from_value::<Page<Round>>(rounds).unwrap().items
    }

    /// The rounds of a job, each with its assignments.
    pub(crate) async fn history(&self, job: &str) -> Vec<(Round, Vec<Assignment>)> {
        let mut history = Vec::new();
        for round in self.rounds(job).await {
            let path = format!("jobs/{job}/rounds/{}/assignments?limit=1000", round.number);
            let page: Page<Assignment> = serde_json::from_value(self.get(&path).await).unwrap();
            history.push((round, page.items));
        }
        history
    }

    /// All there is to say of a round.
    pub(crate) async fn round(&self, job: &str, round: u32) -> RoundDetail {
        serde_json::from_value(self.get(&format!("jobs/{job}/rounds/{round}")).await).unwrap()
    }

    /// The groups of a round whose updates are masked.
    pub(crate) async fn groups(&self, job: &str, round: u32) -> Vec<RoundGroup> {
        self.round(job, round).await.groups
    }

    /// The name of the coordinator that drives a job; none while it changes.
    pub(crate) async fn driver(&self, job: &str) -> Option<String> {
        let drives = |node: &Node| node.leases.iter().any(|lease| lease.job.to_string() == job);
        self.nodes().await.into_iter().find(drives).map(|node| node.id.to_string())
    }

    /// Returns when the coordinators at these addresses know of each other: one serves before it has told where it is.
    pub(crate) async fn meets(&self, urls: &[String]) {
        while !self.nodes().await.into_iter().filter_map(|node| node.url).eq(urls.iter().cloned()) {
            tokio::task::yield_now().await;
        }
    }

    /// The coordinators.
    async fn nodes(&self) -> Vec<Node> {
        serde_json::from_value::<Page<Node>>(self.get("nodes").await).unwrap().items
    }

    /// What a private job promises and has spent.
    pub(crate) async fn privacy(&self, job: &str) -> Value {
        self.get(&format!("jobs/{job}/privacy")).await
    }

    pub(crate) async fn model_file(&self, job: &str, version: u32) -> Bytes {
        let url = format!("{}/operator/v1/jobs/{job}/models/{version}", self.url);
        let response = self.http.get(url).bearer_auth(&self.token).send().await.unwrap();
        assert!(response.status().is_success(), "{}", response.status());
        response.bytes().await.unwrap()
    }

    async fn get(&self, path: &str) -> Value {
        loop {
            if let Ok(answer) = self.call(Method::GET, path, None).await {
                return answer;
            }
        }
    }

    /// One call. An error is a lost connection; a refusal ends the test.
    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, reqwest::Error> {
        let call = self.http.request(method, format!("{}/operator/v1/{path}", self.url)).bearer_auth(&self.token);
        let call = body.into_iter().fold(call, reqwest::RequestBuilder::json);
        let response = call.send().await?;
        let status = response.status();
        let text = response.text().await?;
        assert!(status.is_success(), "{path}: {text}");
        Ok(serde_json::from_str(&text).unwrap())
    }
}
