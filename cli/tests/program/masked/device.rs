//! Clients that speak the device API by hand, so that a test knows their updates, masked and in the clear.

use reqwest::{Client, Method, StatusCode};
use serde_json::json;
use tributary_client::secure::{GroupTrust, Member, Next, Terms, system_entropy};
use tributary_protocol::device::{Assignment, CheckInResponse, EnrolResponse};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::secure::messages::{Formed, Inbox};
use tributary_protocol::secure::quantise::Quantiser;
use tributary_protocol::secure::slots::Told;
use tributary_protocol::secure::{Survivors, Words, packed};
use tributary_protocol::seed::Seed;
use tributary_protocol::update::{UpdateHeader, encode};

/// An enrolled client.
#[derive(Clone)]
pub(super) struct Device {
    http: Client,
    server: String,
    secret: String,
}

impl Device {
    pub(super) async fn enrol(server: &str, token: &str) -> Self {
        tributary_tls::install();
        let http = Client::builder().no_proxy().build().unwrap();
        let url = format!("{server}/device/v1/clients");
        let enrolled = http.post(url).bearer_auth(token).json(&json!({})).send().await.unwrap();
        let enrolled: EnrolResponse = enrolled.json().await.unwrap();
        Self { http, server: server.to_owned(), secret: enrolled.secret.expose() }
    }

    /// Checks in until there is work.
    pub(super) async fn work(&self) -> Assignment {
        let request = json!({
            "state": { "examples": 1_000 }, "sdk_version": "test", "codecs": ["f32", "f16", "bf16", "int8"],
            "masks": true, "wait_ms": 60_000,
        });
        loop {
            let answer = self.http.post(format!("{}/device/v1/checkins", self.server)).bearer_auth(&self.secret);
            let answer = answer.json(&request).send().await.unwrap();
            if let CheckInResponse::Assigned(assignment) = answer.json().await.unwrap() {
                return *assignment;
            }
        }
    }

    /// The answer to a call for an assignment, which may be held.
    async fn call(&self, method: Method, assignment: &Assignment, call: &str, body: &[u8]) -> Vec<u8> {
        let url = format!("{}/device/v1/assignments/{}/{call}", self.server, assignment.id);
        loop {
            let request = self.http.request(method.clone(), &url).bearer_auth(&self.secret).body(body.to_vec());
            let answer = request.send().await.unwrap();
            let (status, answer) = (answer.status(), answer.bytes().await.unwrap());
            if status != StatusCode::NO_CONTENT {
                assert_eq!(status, StatusCode::OK, "{call}: {}", String::from_utf8_lossy(&answer));
                return answer.to_vec();
            }
        }
    }

    /// Sends an update that is not masked.
    pub(super) async fn contribute(&self, assignment: &Assignment, delta: &[f32]) {
        let body = plain_update(assignment, delta);
        self.call(Method::PUT, assignment, "update?weight=10&loss=0.5&steps=1&train_ms=1", &body).await;
    }
}

/// The file of an update in the codec that the plan names.
pub(super) fn plain_update(assignment: &Assignment, delta: &[f32]) -> Vec<u8> {
    let header = UpdateHeader {
        codec: assignment.plan.codec,
        job: assignment.job.to_string(),
        base_version: assignment.model_version.into(),
    };
    let parts = assignment.plan.model.parts().unwrap();
    encode(delta, parts.shared(), &header, assignment.round, assignment.seed).unwrap()
}

/// A client in the course of its exchange.
pub(super) struct Seat {
    device: Device,
    assignment: Assignment,
    member: Member,
    quantiser: Quantiser,
}

/// An update as its client quantised it, and as it left the client.
pub(super) struct Sent {
    pub(super) bits: u8,
    pub(super) integers: Vec<i64>,
    /// What the integers stand for.
    pub(super) restored: Vec<f64>,
    /// The body as it would be without masks.
    pub(super) bare: Vec<u8>,
    pub(super) body: Vec<u8>,
}

impl Seat {
    pub(super) fn new(device: Device, assignment: Assignment, values: usize) -> Self {
        let masking = assignment.plan.masking.unwrap();
        let quantiser = Quantiser::new(values, masking.clip, masking.levels, masking.keep).unwrap();
        let terms = Terms {
            job: assignment.job,
            round: assignment.round.into(),
            model: assignment.model_sha256,
            plan: assignment.plan.hash(),
            length: quantiser.coordinates(),
            trust: GroupTrust::Honest,
            members_min: masking.group_min as u16,
            survivors_min: 0,
            degree_min: 2,
            dropouts: masking.dropouts,
            corrupt: masking.corrupt,
        };
        let member = Member::join(terms, &[], &mut system_entropy).unwrap();
        Self { device, assignment, member, quantiser }
    }

    async fn call(&self, method: Method, call: &str, body: &[u8]) -> Vec<u8> {
        self.device.call(method, &self.assignment, call, body).await
    }

    /// Joins, and exchanges shares.
    pub(super) async fn share(&mut self) {
        let formed = self.call(Method::PUT, "group", self.member.record()).await;
        let formed = Formed::from_bytes(&formed).unwrap();
        let shares = self.member.formed(&formed, None, &mut system_entropy).unwrap();
        let inbox = self.call(Method::PUT, "group/shares", &shares).await;
        self.member.inbox(&Inbox::from_bytes(&inbox).unwrap(), None).unwrap();
    }

    /// Masks and sends an update. Its rounding follows from `seed`.
    pub(super) async fn send(&mut self, delta: &[f32], seed: Seed) -> Sent {
        let (roster, bits) = (self.member.roster().unwrap(), self.member.bits().unwrap());
        let key = Sha256Hash::of(&seed.0.to_le_bytes()).0;
        let quantised = self.quantiser.quantise(delta, &roster, &mut tributary_protocol::seed::SecretStream::of(key));
        let quantised = quantised.unwrap();
        assert!(!quantised.is_clipped);
        let told = Told { is_whole: true, examples: 10, loss: Some(0.5) };
        let words = || Words::of(bits, &quantised.values);
        let bare = packed::body(&roster, &words(), &told.slots());
        let body = self.member.masked(words(), told.slots().to_vec()).unwrap();
        self.call(Method::PUT, "group/update", &body).await;
        let restored = self.quantiser.restore(&quantised.values, &roster).unwrap();
        Sent { bits, integers: quantised.values, restored, bare, body }
    }

    /// Opens the sum with the others.
    pub(super) async fn open(&mut self) {
        let survivors = self.call(Method::GET, "group/survivors", &[]).await;
        let Next::Unmask(unmask) = self.member.survivors(&Survivors::from_bytes(&survivors).unwrap(), None).unwrap()
        else {
            panic!("nothing is signed");
        };
        self.call(Method::PUT, "group/unmask", &unmask.to_bytes()).await;
    }
}
