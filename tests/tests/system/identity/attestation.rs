//! The operator's webhook that decides on enrolments, played by a local server.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tributary_client::{Attest, AttestError, Attestation, Client, ClientError};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::operator::{Client as Enrolled, CreatedToken, Page};
use tributary_protocol::problem::ProblemType;
use tributary_server::devices::{AttestationSettings, DeviceSettings};

use crate::support::{Answer, JumpingClock, World};

/// What the webhook does.
#[derive(Clone, Debug)]
enum Says {
    Answers(StatusCode, String),
    /// It never answers.
    Nothing,
}

#[derive(Clone)]
struct Hook {
    says: Arc<Mutex<Says>>,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl Hook {
    async fn answer(State(hook): State<Self>, axum::Json(question): axum::Json<Value>) -> Response {
        hook.asked.lock().unwrap().push(question);
        let says = hook.says.lock().unwrap().clone();
        match says {
            Says::Answers(status, body) => (status, body).into_response(),
            Says::Nothing => std::future::pending().await,
        }
    }

    fn says(&self, says: Says) {
        *self.says.lock().unwrap() = says;
    }

    fn questions(&self) -> Vec<Value> {
        self.asked.lock().unwrap().clone()
    }
}

/// A coordinator that asks a webhook, which says yes at first.
async fn world(timeout: Duration) -> (World, Hook) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/attest", listener.local_addr().unwrap()).parse().unwrap();
    let yes = Says::Answers(StatusCode::OK, json!({ "allowed": true }).to_string());
    let hook = Hook { says: Arc::new(Mutex::new(yes)), asked: Arc::default() };
    let router = Router::new().route("/attest", post(Hook::answer)).with_state(hook.clone());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let mut world = World::start().await;
    let attestation = Some(AttestationSettings { url, timeout });
    world.set_devices(DeviceSettings { attestation, ..DeviceSettings::default() });
    world.restart().await;
    (world, hook)
}

async fn enrol(world: &World, body: Value) -> Answer {
    Answer::to(world.request(Method::POST, "/device/v1/clients").bearer_auth(&world.enrolment).json(&body)).await
}

async fn clients(world: &World) -> usize {
    world.look("/clients?population=devices").await.ok::<Page<Enrolled>>().items.len()
}

#[tokio::test]
async fn the_webhook_sees_what_the_device_says_and_a_yes_lets_it_in() {
    let (mut world, hook) = world(Duration::from_secs(60)).await;
    let wanted = json!({
        "kind": "enrolment", "population": "devices", "label": "field test", "attributes": { "site": "north" },
    });
    let token: CreatedToken = world.operate(Method::POST, "/tokens", &wanted).await.ok();
    world.enrolment = token.secret.expose();
    let attestation = json!({ "platform": "ios-app-attest", "statement": "o2NmbXQ=" });
    let attributes = json!({ "site": "south", "ram": "8" });
    enrol(&world, json!({ "attributes": attributes, "attestation": attestation })).await.value();
    let expected = json!({
        "population": "devices", "token": token.token.id, "token_label": "field test",
        "attributes": { "site": "north", "ram": "8" }, "key_sha256": null,
        "platform": "ios-app-attest", "statement": "o2NmbXQ=",
    });
    assert_eq!(hook.questions(), [expected]);
    // A device that says nothing of itself is the webhook's decision, too.
    enrol(&world, json!({})).await.value();
    assert_eq!(hook.questions()[1]["statement"], Value::Null);
    assert_eq!(clients(&world).await, 2);
}

#[tokio::test]
async fn a_no_is_told_with_its_reason_and_everything_unclear_refuses_too() {
    let (world, hook) = world(Duration::from_secs(60)).await;
    hook.says(Says::Answers(StatusCode::OK, json!({ "allowed": false, "reason": "jail\u{1b}broken" }).to_string()));
    let problem = enrol(&world, json!({})).await.refused(ProblemType::AttestationRefused);
    assert_eq!(problem.detail, "the enrolment is not allowed: jailbroken");
    let yes = json!({ "allowed": true }).to_string();
    for (status, body) in [
        (StatusCode::INTERNAL_SERVER_ERROR, yes.clone()),
        (StatusCode::ACCEPTED, yes.clone()),
        (StatusCode::FOUND, yes.clone()),
        (StatusCode::OK, String::new()),
        (StatusCode::OK, "yes".to_owned()),
        (StatusCode::OK, json!({}).to_string()),
        (StatusCode::OK, json!({ "allowed": "true" }).to_string()),
        (StatusCode::OK, json!({ "allowed": 1 }).to_string()),
        (StatusCode::OK, json!([true]).to_string()),
        (StatusCode::OK, format!("{yes}{}", " ".repeat(100_000))),
    ] {
        hook.says(Says::Answers(status, body.clone()));
        let problem = enrol(&world, json!({})).await.refused(ProblemType::Unavailable);
        assert!(problem.retry_after_ms.is_some() && problem.detail.contains("webhook"), "{status} {body}");
    }
    hook.says(Says::Answers(StatusCode::OK, yes));
    enrol(&world, json!({})).await.value();
    assert_eq!(clients(&world).await, 1);
}

#[tokio::test]
async fn a_webhook_that_is_silent_or_gone_refuses() {
    let (mut world, hook) = world(Duration::from_millis(50)).await;
    hook.says(Says::Nothing);
    enrol(&world, json!({})).await.refused(ProblemType::Unavailable);
    // A port at which nobody listens: it was taken and given back.
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let url = format!("http://{gone}/").parse().unwrap();
    let attestation = Some(AttestationSettings { url, timeout: Duration::from_secs(60) });
    world.set_devices(DeviceSettings { attestation, ..DeviceSettings::default() });
    world.restart().await;
    enrol(&world, json!({})).await.refused(ProblemType::Unavailable);
    assert_eq!(clients(&world).await, 0);
}

#[tokio::test]
async fn statements_have_limits() {
    let (world, hook) = world(Duration::from_secs(60)).await;
    for (platform, statement) in [
        (String::new(), "x".to_owned()),
        ("x".repeat(129), "x".to_owned()),
        ("a\u{1b}b".to_owned(), "x".to_owned()),
        ("ios".to_owned(), "x".repeat((64 << 10) + 1)),
    ] {
        let attestation = json!({ "platform": platform, "statement": statement });
        enrol(&world, json!({ "attestation": attestation })).await.refused(ProblemType::Malformed);
    }
    assert!(hook.questions().is_empty());
    let attestation = json!({ "platform": "x".repeat(128), "statement": "x".repeat(64 << 10) });
    enrol(&world, json!({ "attestation": attestation })).await.value();
}

/// A platform that makes no statement.
#[derive(Debug)]
struct Unwilling;

impl Attest for Unwilling {
    fn attest(&self, _: Option<Sha256Hash>) -> futures_util::future::BoxFuture<'_, Result<Attestation, AttestError>> {
        Box::pin(async { Err(AttestError("no network".into())) })
    }
}

#[tokio::test]
async fn the_sdk_sends_the_statement_of_the_app() {
    let (world, hook) = world(Duration::from_secs(60)).await;
    let builder = |directory: &TempDir| {
        let builder = Client::builder(world.server(), world.enrolment.clone()).state_dir(directory.path());
        builder.http_client(world.http.clone()).clock(Arc::new(JumpingClock::default()))
    };
    let directory = TempDir::new().unwrap();
    let unwilling = builder(&directory).attestation(Unwilling).build().unwrap();
    assert!(matches!(unwilling.enrol().await, Err(ClientError::Attest(_))));
    assert!(hook.questions().is_empty());
    let attestation = Attestation { platform: "tpm".into(), statement: "a quote".into() };
    builder(&directory).attestation(attestation).build().unwrap().enrol().await.unwrap();
    assert_eq!(
        (&hook.questions()[0]["platform"], &hook.questions()[0]["statement"]),
        (&json!("tpm"), &json!("a quote"))
    );
}
