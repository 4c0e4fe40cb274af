//! Limits of enrolment tokens, and the attributes that they grant.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::{Value, json};
use tributary_protocol::device::{CheckInResponse, OpenJobs};
use tributary_protocol::operator::{Client, CreatedToken, Job, Page, Token};
use tributary_protocol::problem::ProblemType;

use crate::support::{Answer, Device, World, job_file};

async fn token(world: &World, more: Value) -> CreatedToken {
    let mut wanted = json!({ "kind": "enrolment", "population": "devices" });
    wanted.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    world.operate(Method::POST, "/tokens", &wanted).await.ok()
}

async fn enrol(world: &World, token: &CreatedToken, attributes: Value) -> Answer {
    let request = world.request(Method::POST, "/device/v1/clients").bearer_auth(token.secret.expose());
    Answer::to(request.json(&json!({ "attributes": attributes }))).await
}

/// Goal: however many ask at once, a token for seven enrols seven.
#[tokio::test]
async fn the_uses_of_a_token_are_exact_when_many_enrol_at_once() {
    let world = World::start().await;
    let seven = token(&world, json!({ "uses_max": 7 })).await;
    let requests: Vec<_> = (0..20)
        .map(|_| {
            let request = world.request(Method::POST, "/device/v1/clients").bearer_auth(seven.secret.expose());
            tokio::spawn(Answer::to(request.json(&json!({}))))
        })
        .collect();
    let mut enrolled = 0;
    for request in requests {
        let answer = request.await.unwrap();
        match answer.status {
            200 => enrolled += 1,
            _ => drop(answer.refused(ProblemType::Unauthorized)),
        }
    }
    assert_eq!(enrolled, 7);
    let clients: Page<Client> = world.look("/clients?population=devices").await.ok();
    assert_eq!(clients.items.len(), 7);
    let tokens: Page<Token> = world.look("/tokens").await.ok();
    assert_eq!(tokens.items.iter().find(|token| token.id == seven.token.id).unwrap().uses, 7);
}

#[tokio::test]
async fn a_token_enrols_no_more_in_a_minute_than_it_may() {
    let world = World::start().await;
    let three = token(&world, json!({ "per_minute_max": 3 })).await;
    for _ in 0..3 {
        enrol(&world, &three, json!({})).await.value();
    }
    world.hand.advance_ms(20_000);
    let refused = enrol(&world, &three, json!({})).await;
    assert_eq!(refused.header("retry-after"), "40");
    assert_eq!(refused.refused(ProblemType::TooManyRequests).retry_after_ms, Some(40_000));
    world.hand.advance_ms(40_000);
    enrol(&world, &three, json!({})).await.value();
}

/// Goal: who has a token cannot fill the database at once, unless an operator allows it.
#[tokio::test]
async fn a_token_without_settings_enrols_at_a_bounded_rate() {
    let world = World::start().await;
    let plain = token(&world, json!({})).await;
    let open = token(&world, json!({ "per_minute_max": null })).await;
    assert_eq!((plain.token.per_minute_max, open.token.per_minute_max), (Some(600), None));
    let first: Page<Token> = world.look("/tokens").await.ok();
    let made = first.items.iter().find(|token| token.label == "made at the first start" && token.role.is_none());
    assert!(made.is_none_or(|token| token.per_minute_max == Some(600)));
    for nobody in [json!({ "per_minute_max": 0 }), json!({ "uses_max": 0 })] {
        let mut wanted = json!({ "kind": "enrolment", "population": "devices" });
        wanted.as_object_mut().unwrap().extend(nobody.as_object().unwrap().clone());
        world.operate(Method::POST, "/tokens", &wanted).await.refused(ProblemType::Malformed);
    }
}

/// Goal: clients that have gone, or never came, do not make those that are there wait.
#[tokio::test]
async fn windows_follow_the_clients_that_were_seen() {
    let world = World::start().await;
    let device = world.device().await;
    let seen = async |within_ms: i64| {
        let since_ms = world.app().clock.now_ms() - within_ms;
        world.app().db.read().await.unwrap().clients_seen(&"devices".parse().unwrap(), since_ms).await.unwrap()
    };
    let before = seen(86_400_000).await;
    let gone = world.device().await;
    assert_eq!(seen(86_400_000).await, before + 1);
    world.hand.advance_ms(86_400_001);
    let _ = device.check_in(0).await;
    assert_eq!(seen(86_400_000).await, 1, "without {}", gone.id);
}

/// Goal: what a token grants stays, whatever the device says at enrolment and later, and rounds go by it.
#[tokio::test]
async fn granted_attributes_win_over_what_the_device_says() {
    let world = World::start().await;
    let north = token(&world, json!({ "attributes": { "site": "north", "class": "trusted" } })).await;
    let enrolled = enrol(&world, &north, json!({ "site": "south", "ram": "8" })).await;
    let device = Device::new(world.http.clone(), world.server(), &enrolled.ok());
    let seen = async || -> Client { world.look(&format!("/clients/{}", device.id)).await.ok() };
    let pairs = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let granted = pairs(&[("site", "north"), ("class", "trusted")]);
    let client = seen().await;
    assert_eq!(*client.granted.as_map(), granted);
    assert_eq!(*client.attributes.as_map(), pairs(&[("site", "north"), ("class", "trusted"), ("ram", "8")]));

    let device = device.with("site", "south").with("ram", "16");
    let _ = device.check_in(0).await;
    let client: Client = world.look(&format!("/clients/{}", device.id)).await.ok();
    assert_eq!(*client.granted.as_map(), granted);
    assert_eq!(*client.attributes.as_map(), pairs(&[("site", "north"), ("class", "trusted"), ("ram", "16")]));

    // A job for another site does not draw it, one for its site does.
    for (site, is_drawn) in [("south", false), ("north", true)] {
        let job = world.job(json!({ "name": site, "eligibility": { "attributes": { "site": site } } })).await;
        world.drive().await;
        let waiting = device.wait();
        world.until_waiting(1).await;
        world.drive().await;
        world.app().fleet.lobby.call([device.id]);
        let answer = waiting.await.unwrap();
        assert_eq!(matches!(answer, CheckInResponse::Assigned(_)), is_drawn, "{site}");
        world.operate(Method::POST, &format!("/jobs/{}/stop", job.head.id), &json!({})).await.value();
        world.drive().await;
    }
}

#[tokio::test]
async fn a_device_with_many_attributes_keeps_the_granted_ones() {
    let world = World::start().await;
    let north = token(&world, json!({ "attributes": { "zone": "north" } })).await;
    let many: BTreeMap<String, String> = (0..32).map(|n| (format!("a{n:02}"), "x".to_owned())).collect();
    let enrolled = enrol(&world, &north, json!(many)).await;
    let device = Device::new(world.http.clone(), world.server(), &enrolled.ok());
    let client: Client = world.look(&format!("/clients/{}", device.id)).await.ok();
    assert_eq!(client.attributes.as_map().len(), 32);
    assert_eq!(client.attributes.as_map()["zone"], "north");
}

#[tokio::test]
async fn an_app_learns_what_running_jobs_require_before_it_enrols() {
    let world = World::start().await;
    let look = async || -> OpenJobs {
        let request = world.request(Method::GET, "/device/v1/jobs").bearer_auth(&world.enrolment);
        Answer::to(request).await.ok()
    };
    assert!(look().await.jobs.is_empty());
    let layers = json!([{ "kind": "linear", "out_features": 3 }]);
    let model = json!({ "input": [2], "layers": layers });
    let mut file = job_file(&json!({ "name": "two" }));
    file["model"] = model;
    let job: Job = world.operate(Method::POST, "/jobs", &json!({ "job": file })).await.ok();
    let [two] = &look().await.jobs[..] else { panic!("one job is running") };
    assert_eq!((two.name.as_str(), &two.input, &two.output), ("two", &Some(vec![2]), &Some(vec![3])));
    world.operate(Method::POST, &format!("/jobs/{}/stop", job.head.id), &json!({})).await.value();
    assert!(look().await.jobs.is_empty());
}
