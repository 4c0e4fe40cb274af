//! The calls of a relay, to a parent that answers from a script.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, join};
use futures_util::{StreamExt, stream};
use http::{HeaderMap, HeaderName, StatusCode};
use serde_json::{Value, json};
use tributary_protocol::device::{Assignment, AssignmentStatus, PARTIAL_UPLOAD, UPLOAD_COMPLETE, UPLOAD_OFFSET};
use tributary_protocol::digest::{REPR_DIGEST, repr_digest};
use tributary_protocol::example_sets::ExampleSets;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{AssignmentId, ClientId, Secret, SecretKind};
use tributary_protocol::problem::{Problem, ProblemType};
use tributary_protocol::relay::{Delivered, Part, SumQuery};
use tributary_protocol::scalars::Scalars;

use super::{NextOrder, Uplink};
use crate::client::Client;
use crate::clock::Clock;
use crate::error::ClientError;
use crate::fixtures;
use crate::locked::Locked;
use crate::store::MemoryStore;
use crate::transport::{Request, Response, Transport, TransportError};

const API: &str = "http://127.0.0.1:1/device/v1/";

/// What the parent answers to one request.
#[derive(Debug)]
struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Bytes,
    /// Whether the connection breaks after these bytes; without any, there is no answer at all.
    breaks: bool,
}

fn json_answer(status: u16, body: &Value) -> Answer {
    Answer { status, headers: Vec::new(), body: body.to_string().into(), breaks: false }
}

fn refusal(kind: ProblemType, detail: &str) -> Answer {
    json_answer(kind.status(), &serde_json::to_value(Problem::new(kind, detail)).unwrap())
}

fn lost() -> Answer {
    Answer { breaks: true, ..file(b"") }
}

fn file(body: &[u8]) -> Answer {
    Answer { status: 200, headers: Vec::new(), body: Bytes::copy_from_slice(body), breaks: false }
}

/// A sum as a part.
fn sum(body: &Bytes) -> Part {
    Part::Updates { body: body.to_vec(), query: query() }
}

fn accepted() -> Answer {
    json_answer(200, &json!({ "retry_after_ms": 5 }))
}

fn open(reported: bool) -> Answer {
    json_answer(200, &json!({ "reported": reported, "deadline_in_ms": 900 }))
}

/// An enrolment as the client of this number.
fn enrolled(client: u8) -> Answer {
    let answer = json!({
        "client": ClientId::from_random([client; 16]),
        "secret": Secret::from_random(SecretKind::Client, [client; 32]), "population": "north",
    });
    json_answer(200, &answer)
}

/// A parent that expects these requests in this order.
#[derive(Debug)]
struct Parent {
    script: Mutex<VecDeque<(String, Answer)>>,
    requests: Mutex<Vec<Request>>,
}

impl Transport for Parent {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, TransportError>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            let called = format!("{} {}", request.method, request.url.strip_prefix(API).unwrap());
            self.requests.locked().push(request);
            let next = self.script.locked().pop_front();
            let (expected, answer) = next.unwrap_or_else(|| panic!("nothing follows, and not {called}"));
            assert_eq!(called, expected);
            let broken = || TransportError::Failed("the connection broke".into());
            if answer.breaks && answer.body.is_empty() {
                return Err(broken());
            }
            let headers = answer.headers.into_iter();
            let headers = headers.map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
            let pieces = [Some(Ok(answer.body)), answer.breaks.then(|| Err(broken()))];
            Ok(Response {
                status: StatusCode::from_u16(answer.status).unwrap(),
                headers: HeaderMap::from_iter(headers),
                body: stream::iter(pieces.into_iter().flatten()).boxed(),
            })
        })
    }
}

impl Parent {
    /// All requests, once the script is at its end.
    fn requests(&self) -> Vec<Request> {
        assert!(self.script.locked().is_empty(), "not asked for: {:?}", self.script.locked());
        self.requests.locked().clone()
    }

    /// The body of the request of this number.
    fn heard(&self, number: usize) -> Value {
        serde_json::from_slice(&self.requests()[number].body).unwrap()
    }
}

/// A clock on which a wait is over at once.
#[derive(Debug)]
struct Hasty;

impl Clock for Hasty {
    fn now_ms(&self) -> u64 {
        0
    }

    fn sleep(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::task::yield_now())
    }
}

/// A relay of this store, and its parent.
fn relay<const N: usize>(store: &Arc<MemoryStore>, script: [(&str, Answer); N]) -> (Uplink, Arc<Parent>) {
    let script = script.into_iter().map(|(call, answer)| (call.to_owned(), answer)).collect();
    let parent = Arc::new(Parent { script: Mutex::new(script), requests: Mutex::default() });
    let token = Secret::from_random(SecretKind::Enrolment, [1; 32]).expose();
    let builder = Client::builder("http://127.0.0.1:1", token).sdk("relay").clock(Arc::new(Hasty));
    let builder = builder.store(Arc::clone(store) as Arc<_>).transport(Arc::clone(&parent) as Arc<_>);
    (builder.build().unwrap().into_uplink(), parent)
}

/// A relay that enrols first, then this follows.
fn new_relay<const N: usize>(script: [(&str, Answer); N]) -> (Uplink, Arc<Parent>) {
    let (uplink, parent) = relay(&Arc::default(), script);
    parent.script.locked().push_front(("POST clients".to_owned(), enrolled(1)));
    (uplink, parent)
}

const JOB_PARAMETERS: usize = 500_000;

/// An order of a round whose model is this file.
fn order(file: &[u8]) -> Assignment {
    let model = json!({ "parameters": [{ "name": "w", "shape": [JOB_PARAMETERS] }] });
    let training = json!({ "epochs": 1, "optimizer": { "kind": "sgd", "learning_rate": 0.1 } });
    let terms = json!({
        "places": 30, "cohort": 100, "norm_max": 2.0,
        "job": { "name": "digits", "population": "north", "model": &model, "training": training },
    });
    let relay = Some(serde_json::from_value(terms).unwrap());
    Assignment { model_sha256: Sha256Hash::of(file), relay, ..fixtures::assignment(&json!({ "model": model })) }
}

fn assigned(assignment: &Assignment) -> Answer {
    let mut answer = serde_json::to_value(assignment).unwrap();
    answer["answer"] = "assigned".into();
    json_answer(200, &answer)
}

fn id() -> AssignmentId {
    AssignmentId::from_random([6; 16])
}

/// A call of the order, with the rest of its path.
fn call(method: &str, rest: &str) -> String {
    format!("{method} assignments/{}{rest}", id())
}

fn query() -> SumQuery {
    SumQuery {
        examples: 90,
        loss: Some(0.5),
        steps: 6,
        train_ms: 40,
        metrics: Scalars::new(),
        bytes_below: Some(4_000),
        round_trip_ms: None,
    }
}

const SUM: &str = "/sum?examples=90&loss=0.5&steps=6&train_ms=40&bytes_below=4000";

/// A sum of which a parent keeps what has arrived.
fn long_sum() -> Bytes {
    (0..3_u32 << 18).flat_map(u32::to_le_bytes).collect()
}

#[tokio::test]
async fn an_order_is_taken_with_its_terms() {
    let (uplink, parent) = new_relay([("POST checkins", assigned(&order(b"model")))]);
    let next = uplink.next(40, ExampleSets::default(), Duration::from_secs(600)).await.unwrap();
    let NextOrder::Order(assignment) = next else { panic!("{next:?}") };
    let terms = assignment.relay.unwrap();
    assert_eq!((terms.places, terms.cohort, terms.norm_max), (30, 100, Some(2.0)));
    assert_eq!(terms.job.name.as_str(), "digits");
    let heard = parent.heard(1);
    assert_eq!(heard["relay"], json!({ "places": 40 }));
    assert_eq!((&heard["state"], &heard["sdk"]), (&json!({ "examples": 1 }), &json!("relay")));
    assert_eq!(heard["wait_ms"], 60_000, "the longest that a parent holds");
    for absent in ["answers", "masks", "signs", "schema"] {
        assert_eq!(heard.get(absent), None, "{absent}");
    }
}

#[tokio::test]
async fn without_work_a_relay_waits_and_keeps_its_identity() {
    let store = Arc::default();
    let retry = || ("POST checkins", json_answer(200, &json!({ "answer": "retry", "retry_after_ms": 1500 })));
    let (uplink, parent) = relay(&store, [("POST clients", enrolled(1)), retry()]);
    assert_eq!(
        uplink.next(u32::MAX, ExampleSets::default(), Duration::ZERO).await.unwrap(),
        NextOrder::Wait(Duration::from_millis(1500))
    );
    assert_eq!(uplink.population().await.unwrap().as_str(), "north");
    assert_eq!(parent.heard(1)["relay"], json!({ "places": 10_000 }));
    let (uplink, parent) = relay(&store, [retry()]);
    assert_eq!(uplink.population().await.unwrap().as_str(), "north");
    uplink.next(0, ExampleSets::default(), Duration::ZERO).await.unwrap();
    parent.requests();
}

#[tokio::test]
async fn a_relay_whose_token_grants_none_gives_the_work_of_a_client_back() {
    let ordinary = Assignment { relay: None, ..order(b"model") };
    let failure = call("POST", "/failure");
    let (uplink, parent) = new_relay([("POST checkins", assigned(&ordinary)), (&failure, accepted())]);
    let error = uplink.next(40, ExampleSets::default(), Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, ClientError::NoRelay) && error.to_string().contains("`relay`"), "{error}");
    let report = parent.heard(2);
    assert_eq!(report["reason"], "does_not_fit");
    assert!(report["detail"].as_str().unwrap().starts_with("this client is a relay"), "{report}");
}

#[tokio::test]
async fn a_model_that_breaks_off_continues_even_in_another_process() {
    let model = long_sum().slice(..4 * JOB_PARAMETERS);
    let (order, store) = (order(&model), Arc::default());
    let get = format!("GET jobs/{}/models/2", order.job);
    let begun = Answer { breaks: true, ..file(&model[..1_200_000]) };
    let (uplink, _) = relay(
        &store,
        [
            ("POST clients", enrolled(1)),
            (&get, begun),
            (&get, refusal(ProblemType::Forbidden, "the round is another one's")),
        ],
    );
    assert!(uplink.model(&order).await.is_err());
    let range = vec![("content-range", format!("bytes 1200000-{}/{}", model.len() - 1, model.len()))];
    let rest = Answer { status: 206, headers: range, ..file(&model[1_200_000..]) };
    let (uplink, parent) = relay(&store, [(&get, rest)]);
    assert!(uplink.model(&order).await.unwrap() == model);
    assert_eq!(parent.requests()[0].headers["range"], "bytes=1200000-");
}

#[tokio::test]
async fn a_model_with_another_hash_is_refused() {
    let order = order(b"the model");
    let get = format!("GET jobs/{}/models/2", order.job);
    let (uplink, parent) = new_relay([(); 6].map(|()| (get.as_str(), file(b"a m0del"))));
    let error = uplink.model(&order).await.unwrap_err();
    assert!(matches!(&error, ClientError::Unreachable(why) if why.contains("hash")), "{error}");
    parent.requests();
}

#[tokio::test]
async fn a_relay_learns_whether_its_round_is_open_with_one_question() {
    let status = call("GET", "");
    let (uplink, parent) = new_relay([
        (&status, open(false)),
        (&status, refusal(ProblemType::AssignmentClosed, "round 4 has closed")),
        (&status, refusal(ProblemType::NotFound, "the job was deleted")),
        (&status, lost()),
    ]);
    let expected = AssignmentStatus { reported: false, deadline_in_ms: 900 };
    assert_eq!(uplink.is_open(id()).await.unwrap(), Some(expected));
    assert_eq!(uplink.is_open(id()).await.unwrap(), None);
    assert_eq!(uplink.is_open(id()).await.unwrap(), None);
    assert!(matches!(uplink.is_open(id()).await, Err(ClientError::Unreachable(_))));
    parent.requests();
}

#[tokio::test]
async fn a_delivery_that_breaks_off_continues_at_its_offset() {
    let body = long_sum();
    let digest = repr_digest(Sha256Hash::of(&body));
    let head = |offset: u32| {
        let headers = [(UPLOAD_OFFSET, offset.to_string()), (UPLOAD_COMPLETE, "?0".into())];
        let headers = headers.into_iter().chain([(REPR_DIGEST, digest.clone())]).collect();
        (call("HEAD", "/sum"), Answer { headers, ..file(b"") })
    };
    let (status, put, patch) = (call("GET", "?finished=true"), call("PUT", SUM), call("PATCH", SUM));
    let ((at, nothing), (_, some)) = (head(0), head(2_000_000));
    let (uplink, parent) =
        new_relay([(&status, open(false)), (&at, nothing), (&put, lost()), (&at, some), (&patch, accepted())]);
    assert_eq!(uplink.deliver(id(), sum(&body)).await.unwrap(), Delivered::Counted);
    let requests = parent.requests();
    assert!(requests[3].body == body && requests[5].body == body.slice(2_000_000..));
    let said = [UPLOAD_OFFSET, UPLOAD_COMPLETE, "content-type", REPR_DIGEST].map(|name| &requests[5].headers[name]);
    assert_eq!(said, ["2000000", "?1", PARTIAL_UPLOAD, &digest]);
}

#[tokio::test]
async fn a_sum_for_a_closed_round_is_refused_with_the_reason() {
    let (status, put, failure) = (call("GET", "?finished=true"), call("PUT", SUM), call("POST", "/failure"));
    let (uplink, parent) = new_relay([
        (&status, refusal(ProblemType::AssignmentClosed, "round 4 has closed")),
        (&status, open(false)),
        (&put, refusal(ProblemType::UpdateRejected, "31 updates, where 30 are the most")),
        // The parent would wait for another report.
        (&status, open(false)),
        (&put, refusal(ProblemType::TooLarge, "9 bytes")),
        (&failure, accepted()),
    ]);
    let body = Bytes::from_static(b"a sum");
    for reason in ["round 4 has closed", "31 updates, where 30 are the most", "9 bytes"] {
        let delivered = uplink.deliver(id(), sum(&body)).await.unwrap();
        let Delivered::Refused(why) = delivered else { panic!("{delivered:?}") };
        assert!(why.contains(reason), "{why}");
    }
    assert_eq!(parent.heard(6)["reason"], "does_not_fit");
}

#[tokio::test]
async fn a_delivery_that_the_parent_cannot_take_now_is_an_error() {
    let (status, put) = (call("GET", "?finished=true"), call("PUT", SUM));
    let (uplink, parent) = new_relay([
        (&status, open(false)),
        (&put, json_answer(200, &json!("a login page"))),
        (&status, open(false)),
        (&put, accepted()),
    ]);
    let body = Bytes::from_static(b"a sum");
    assert!(matches!(uplink.deliver(id(), sum(&body)).await, Err(ClientError::BadAnswer(_))));
    assert_eq!(uplink.deliver(id(), sum(&body)).await.unwrap(), Delivered::Counted);
    parent.requests();
}

#[tokio::test]
async fn an_accepted_sum_whose_answer_was_lost_is_counted() {
    let (status, head, put) = (call("GET", "?finished=true"), call("HEAD", "/sum"), call("PUT", SUM));
    let complete = Answer { headers: vec![(UPLOAD_COMPLETE, "?1".into())], ..file(b"") };
    let (uplink, parent) = new_relay([
        (&status, open(false)),
        (&head, file(b"")),
        (&put, lost()),
        (&head, complete),
        // Delivered once more, by a process that did not hear of it.
        (&status, open(true)),
    ]);
    for _ in 0..2 {
        assert_eq!(uplink.deliver(id(), sum(&long_sum())).await.unwrap(), Delivered::Counted);
    }
    parent.requests();
}

#[tokio::test]
async fn a_relay_that_gives_up_says_why_and_a_closed_round_is_no_error() {
    let failure = call("POST", "/failure");
    let closed = refusal(ProblemType::AssignmentClosed, "round 4 has closed");
    let deleted = refusal(ProblemType::NotFound, "the job was deleted");
    let (uplink, parent) = new_relay([(&failure, accepted()), (&failure, closed), (&failure, deleted)]);
    uplink.give_up(id(), "2 of 30 clients came").await.unwrap();
    uplink.give_up(id(), &"ü".repeat(2_000)).await.unwrap();
    uplink.give_up(id(), "nobody came").await.unwrap();
    assert_eq!(parent.heard(1), json!({ "reason": "other", "detail": "2 of 30 clients came" }));
    assert_eq!(parent.heard(2)["detail"].as_str().unwrap().len(), 1024);
}

#[tokio::test]
async fn a_relay_that_the_parent_does_not_know_enrols_again_and_repeats_the_call() {
    let status = call("GET", "");
    let unknown = || refusal(ProblemType::Unauthorized, "no such client");
    let (uplink, parent) = new_relay([
        (&status, unknown()),
        ("POST clients", enrolled(2)),
        (&status, refusal(ProblemType::Forbidden, "another client's")),
        ("POST checkins", unknown()),
        ("POST clients", enrolled(3)),
        ("POST checkins", assigned(&order(b"model"))),
    ]);
    assert_eq!(uplink.is_open(id()).await.unwrap(), None, "the order is that of the client before");
    assert!(matches!(uplink.next(1, ExampleSets::default(), Duration::ZERO).await.unwrap(), NextOrder::Order(_)));
    let requests = parent.requests();
    let secrets = [1, 3, 4, 6].map(|number| requests[number].headers["authorization"].clone());
    let expected = [1, 2, 2, 3].map(|client| Secret::from_random(SecretKind::Client, [client; 32]));
    assert_eq!(secrets, expected.map(|secret| format!("Bearer {}", secret.expose())));
}

#[tokio::test]
async fn calls_at_the_same_time_enrol_once() {
    let status = call("GET", "");
    let unknown = || refusal(ProblemType::Unauthorized, "no such client");
    let (uplink, parent) = new_relay([
        (&status, unknown()),
        (&status, unknown()),
        ("POST clients", enrolled(2)),
        (&status, open(false)),
        (&status, open(true)),
    ]);
    let populations = join(uplink.population(), uplink.population()).await;
    assert_eq!(populations.0.unwrap(), populations.1.unwrap());
    let (first, second) = join(uplink.is_open(id()), uplink.is_open(id())).await;
    assert!(first.unwrap().is_some() && second.unwrap().is_some());
    parent.requests();
}

#[tokio::test]
async fn every_call_can_run_on_another_thread() {
    fn sent<F: Future + Send>(_: &F) {}
    let (uplink, _) = new_relay([]);
    let (order, body) = (order(b"model"), Bytes::new());
    sent(&uplink.next(1, ExampleSets::default(), Duration::ZERO));
    sent(&uplink.population());
    sent(&uplink.model(&order));
    sent(&uplink.is_open(id()));
    sent(&uplink.deliver(id(), sum(&body)));
    sent(&uplink.jobs());
    sent(&uplink.give_up(id(), ""));
}
