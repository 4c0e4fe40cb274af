//! Requests that are made by hand, for what sessions of the SDK rarely do.

use reqwest::Method;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use serde_json::{Value, json};
use tributary_client::Transport;
use tributary_client::transport::Request;
use tributary_protocol::device::{
    Assignment, CheckInResponse, EnrolResponse, PARTIAL_UPLOAD, UPLOAD_COMPLETE, UPLOAD_OFFSET,
};
use tributary_protocol::digest::{REPR_DIGEST, repr_digest};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::secure::messages::Join;
use tributary_protocol::secure::{Record, Suite};

use super::old_client::UNKNOWN;
use super::recording::Recorder;
use super::stories::played;
use crate::support::{World, delta_file, sum_of};

/// Requests that are made by hand.
struct Hand<'a> {
    world: &'a World,
    recorder: &'a Recorder,
    secret: String,
}

impl Hand<'_> {
    /// Sends a request and expects this status. The answer's body.
    async fn send(&self, call: (Method, &str), headers: &[(&str, &str)], body: Vec<u8>, status: u16) -> Vec<u8> {
        let (method, path) = call;
        let mut request = Request {
            method,
            url: format!("{}/device/v1{path}", self.world.server()),
            headers: [(AUTHORIZATION, format!("Bearer {}", self.secret).parse::<HeaderValue>().unwrap())]
                .into_iter()
                .collect(),
            body: body.into(),
        };
        for (name, value) in headers {
            request.headers.insert(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        let sent = played(self.world, self.recorder.send(request)).await.unwrap();
        assert_eq!(sent.status.as_u16(), status, "{path}");
        let pieces: Vec<axum::body::Bytes> = futures_util::TryStreamExt::try_collect(sent.body).await.unwrap();
        pieces.concat()
    }

    async fn json(&self, call: (Method, &str), body: &Value, status: u16) -> Vec<u8> {
        self.send(call, &[("content-type", "application/json")], body.to_string().into_bytes(), status).await
    }

    /// The same for a message of a group, or a body that is none.
    async fn bytes(&self, method: Method, path: &str, body: &[u8], status: u16) {
        self.send((method, path), &[], body.to_vec(), status).await;
    }

    async fn enrolled<'a>(world: &'a World, recorder: &'a Recorder) -> Hand<'a> {
        let newcomer = Hand { world, recorder, secret: world.enrolment.clone() };
        newcomer.send((Method::GET, "/jobs"), &[], Vec::new(), 200).await;
        let request = json!({ "attributes": { "platform": "linux" } });
        let enrolled = newcomer.json((Method::POST, "/clients"), &request, 200).await;
        let enrolled: EnrolResponse = serde_json::from_slice(&enrolled).unwrap();
        Hand { secret: enrolled.secret.expose(), ..newcomer }
    }

    async fn work(&self) -> Box<Assignment> {
        self.work_as(json!({})).await
    }

    /// Checks in with these members, too.
    async fn work_as(&self, members: Value) -> Box<Assignment> {
        let mut request = json!({
            "state": { "examples": 4 }, "sdk_version": "by hand", "codecs": ["f32", "f16", "int8"],
            "wait_ms": 60_000,
        });
        request.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        let answer = self.json((Method::POST, "/checkins"), &request, 200).await;
        match serde_json::from_slice(&answer).unwrap() {
            CheckInResponse::Assigned(assignment) => assignment,
            other => panic!("{other:?}"),
        }
    }
}

const FIGURES: &str = "weight=4&loss=0.75&steps=1&train_ms=12";

pub(super) async fn refusals(world: &World, recorder: &Recorder) {
    let known = Hand::enrolled(world, recorder).await;
    let stranger = Hand { world, recorder, secret: UNKNOWN.to_owned() };
    let request = json!({ "state": { "examples": 4 }, "sdk_version": "by hand", "codecs": ["f32"] });
    stranger.json((Method::POST, "/checkins"), &request, 401).await;
    stranger.json((Method::POST, "/clients"), &json!({}), 403).await;
    known.json((Method::POST, "/checkins"), &json!({ "state": 7 }), 400).await;
    known.json((Method::POST, "/nothing"), &json!({}), 404).await;
    known.json((Method::PUT, "/checkins"), &json!({}), 405).await;
    known.send((Method::POST, "/secret"), &[], Vec::new(), 200).await;
    let work = known.work().await;
    let path = |rest: &str| format!("/assignments/{}{rest}", work.id);
    let evaluation = json!({ "examples": 4, "loss": 0.5, "evaluate_ms": 3 });
    known.json((Method::PUT, &path("/evaluation")), &evaluation, 409).await;
    known.send((Method::GET, &path("")), &[], Vec::new(), 200).await;
    known.send((Method::PUT, &path(&format!("/update?{FIGURES}"))), &[], b"no update".to_vec(), 422).await;
    known.send((Method::GET, &path("")), &[], Vec::new(), 422).await;
    recorder.pass_ms(world, 20_000).await;
    let late = known.work().await;
    recorder.pass_ms(world, 20_000).await;
    let update = format!("/assignments/{}/update?{FIGURES}", late.id);
    known.send((Method::PUT, &update), &[], delta_file(&late, &[0.5; 6]), 410).await;
}

pub(super) async fn resume(world: &World, recorder: &Recorder) {
    let client = Hand::enrolled(world, recorder).await;
    let work = client.work().await;
    let model = format!("/jobs/{}/models/{}", work.job, work.model_version);
    client.send((Method::GET, &model), &[], Vec::new(), 200).await;
    let body = delta_file(&work, &[0.5; 6]);
    let digest = repr_digest(Sha256Hash::of(&body));
    let update = format!("/assignments/{}/update", work.id);
    let sent = format!("{update}?{FIGURES}");
    let part = body[..200].to_vec();
    client.send((Method::PUT, &sent), &[(REPR_DIGEST, &digest), (UPLOAD_COMPLETE, "?0")], part, 204).await;
    client.send((Method::HEAD, &update), &[], Vec::new(), 204).await;
    for (offset, status) in [(100, 409), (200, 200)] {
        let at = offset.to_string();
        let headers =
            [("content-type", PARTIAL_UPLOAD), (REPR_DIGEST, &digest), (UPLOAD_OFFSET, &at), (UPLOAD_COMPLETE, "?1")];
        client.send((Method::PATCH, &sent), &headers, body[offset..].to_vec(), status).await;
    }
    client.send((Method::HEAD, &update), &[], Vec::new(), 204).await;
    client.send((Method::PUT, &sent), &[], body, 200).await;
}

pub(super) async fn downloads(world: &World, recorder: &Recorder) {
    let client = Hand::enrolled(world, recorder).await;
    let work = client.work().await;
    let model = format!("/jobs/{}/models/{}", work.job, work.model_version);
    client.send((Method::GET, &format!("{model}/delta")), &[], Vec::new(), 200).await;
    client.send((Method::GET, &format!("{model}?form=f32")), &[], Vec::new(), 200).await;
    client.send((Method::GET, &model), &[("range", "bytes=100-")], Vec::new(), 206).await;
    client.send((Method::GET, &model), &[("range", "bytes=100000-")], Vec::new(), 416).await;
    client.json((Method::POST, &format!("/assignments/{}/failure", work.id)), &json!({ "reason": "other" }), 200).await;
}

/// What a client joins a group with, without a certificate.
fn joins() -> Vec<u8> {
    let record = Record {
        suite: Suite::One,
        c_pk: [1; 32],
        s_pk: [2; 32],
        nonce: [3; 32],
        commitment: Sha256Hash([4; 32]),
        certificate: Sha256Hash([0; 32]),
    };
    Join { record, certificate: Vec::new() }.to_bytes()
}

/// Calls of masked groups and of relays, for an assignment of a plain job.
pub(super) async fn misplaced(world: &World, recorder: &Recorder) {
    let client = Hand::enrolled(world, recorder).await;
    let work = client.work().await;
    let path = |rest: &str| format!("/assignments/{}{rest}", work.id);
    client.bytes(Method::PUT, &path("/group"), b"no record", 400).await;
    client.bytes(Method::PUT, &path("/group"), &joins(), 409).await;
    client.bytes(Method::PUT, &path("/group/shares"), b"none", 400).await;
    client.bytes(Method::PUT, &path("/group/shares"), &[0; 98], 409).await;
    client.bytes(Method::GET, &path("/group/survivors"), b"", 409).await;
    client.bytes(Method::PUT, &path("/group/agreement"), b"none", 400).await;
    client.bytes(Method::PUT, &path("/group/agreement"), &[0; 64], 409).await;
    client.bytes(Method::PUT, &path("/group/unmask"), b"none", 400).await;
    client.bytes(Method::PUT, &path("/sum?loss=0.25&steps=9&train_ms=40&examples=4"), b"a sum", 409).await;
    client.json((Method::PUT, &path("/description")), &json!({ "examples": 4, "describe_ms": 3 }), 400).await;
    client.json((Method::POST, "/certificate"), &json!({ "certificate_request": "none" }), 409).await;
    // The assignment is as open as it was.
    let update = path(&format!("/update?{FIGURES}"));
    client.send((Method::PUT, &update), &[], delta_file(&work, &[0.5; 6]), 200).await;
}

/// A client of a masked job joins with a certificate, where groups do not sign.
pub(super) async fn turned_away(world: &World, recorder: &Recorder) {
    let client = Hand::enrolled(world, recorder).await;
    let work = client.work_as(json!({ "masks": true })).await;
    let update = format!("/assignments/{}/update?{FIGURES}", work.id);
    client.bytes(Method::PUT, &update, b"not masked", 409).await;
    let mut joins = Join::from_bytes(&joins()).unwrap();
    joins.certificate = vec![1; 40];
    client.bytes(Method::PUT, &format!("/assignments/{}/group", work.id), &joins.to_bytes(), 422).await;
    client.bytes(Method::PUT, &format!("/assignments/{}/group", work.id), &joins.to_bytes(), 422).await;
}

/// A relay with three places sends a sum.
pub(super) async fn relayed(world: &World, recorder: &Recorder) {
    let relay = Hand::enrolled(world, recorder).await;
    let part = relay.work_as(json!({ "relay": { "places": 3 } })).await;
    let path = |rest: &str| format!("/assignments/{}{rest}", part.id);
    relay.bytes(Method::PUT, &path(&format!("/update?{FIGURES}")), b"an update", 409).await;
    relay.bytes(Method::HEAD, &path("/sum"), b"", 204).await;
    let sum = sum_of(&part, part.model_version, (3, 12), 1 << 30);
    let sent = path("/sum?loss=0.25&steps=9&train_ms=40&examples=12");
    relay.bytes(Method::PUT, &sent, &sum, 200).await;
    relay.bytes(Method::PUT, &sent, &sum, 200).await;
}
