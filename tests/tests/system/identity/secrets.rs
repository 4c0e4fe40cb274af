//! Secrets that are replaced while they are in use.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tributary_client::{AlwaysOn, Client, Outcome};
use tributary_protocol::credential::NewSecret;
use tributary_protocol::operator::{Client as Enrolled, Page};
use tributary_protocol::problem::ProblemType;

use crate::support::{Adds, Answer, Device, JumpingClock, World};

const DAY_MS: i64 = 24 * 3_600_000;

async fn next_secret(device: &Device) -> String {
    let answer = Answer::to(device.request(Method::POST, "/secret")).await;
    answer.ok::<NewSecret>().secret.expose()
}

#[tokio::test]
async fn the_old_secret_works_until_the_new_one_is_used() {
    let world = World::start().await;
    let device = world.device().await;
    let lost = Device { secret: next_secret(&device).await, ..device.clone() };
    // The answer with that one may have been lost: the next one takes its place.
    let next = Device { secret: next_secret(&device).await, ..device.clone() };
    let check_in =
        |device: &Device| Answer::to(device.request(Method::POST, "/checkins").json(&device.check_in_request(0)));
    check_in(&lost).await.refused(ProblemType::Unauthorized);
    check_in(&device).await.value();
    check_in(&next).await.value();
    check_in(&device).await.refused(ProblemType::Unauthorized);
    // From there on it is a secret like the first.
    let third = Device { secret: next_secret(&next).await, ..device.clone() };
    check_in(&next).await.value();
    check_in(&third).await.value();
    check_in(&next).await.refused(ProblemType::Unauthorized);
    let clients: Page<Enrolled> = world.look("/clients?population=devices").await.ok();
    assert_eq!(clients.items.len(), 1);
}

#[tokio::test]
async fn two_requests_may_use_a_new_secret_at_the_same_time() {
    let world = World::start().await;
    let device = world.device().await;
    let next = Device { secret: next_secret(&device).await, ..device.clone() };
    let requests: Vec<_> = (0..8)
        .map(|_| {
            let next = next.clone();
            tokio::spawn(async move { next.check_in(0).await })
        })
        .collect();
    for request in requests {
        request.await.unwrap();
    }
}

/// Goal: the SDK replaces its secret after 30 days, and no session fails because of it.
#[tokio::test]
async fn the_sdk_replaces_a_secret_of_thirty_days() {
    let world = World::start().await;
    let directory = TempDir::new().unwrap();
    let client = Client::builder(world.server(), world.enrolment.clone()).state_dir(directory.path());
    let client = client.http_client(world.http.clone()).clock(Arc::new(JumpingClock::default()));
    let client = client.wait(Duration::ZERO).build().unwrap();
    let secret = || {
        let kept = std::fs::read(directory.path().join("identity.json")).unwrap();
        serde_json::from_slice::<Value>(&kept).unwrap()["secret"].as_str().unwrap().to_owned()
    };
    let session = async || {
        let outcome = client.run_once(&mut Adds::new(0.5), &AlwaysOn).await.unwrap();
        assert!(matches!(outcome, Outcome::NothingToDo { .. }), "{outcome:?}");
    };
    let works = async |secret: &str| {
        let body = json!({ "state": { "examples": 1 }, "sdk_version": "test", "codecs": ["f32"] });
        let request = world.request(Method::POST, "/device/v1/checkins").bearer_auth(secret).json(&body);
        Answer::to(request).await.status == 200
    };
    client.enrol().await.unwrap();
    let first = secret();
    world.hand.advance_ms(30 * DAY_MS - 1);
    assert!(works(&first).await);
    world.hand.advance_ms(1);
    session().await;
    let second = secret();
    assert_ne!(second, first);
    assert!(works(&first).await, "the new one was not used yet");
    session().await;
    assert_eq!(secret(), second, "it is new");
    assert!(!works(&first).await && works(&second).await);
}
