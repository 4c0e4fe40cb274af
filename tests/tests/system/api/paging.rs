//! Lists, page by page.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{WEIGHTS, World};

/// Walks a list in pages of `limit` and answers its items; each page but the last must be full.
async fn walk(world: &World, path: &str, limit: usize) -> Vec<Value> {
    let mut items = Vec::new();
    let mut after = String::new();
    loop {
        let joint = if path.contains('?') { '&' } else { '?' };
        let page = world.look(&format!("{path}{joint}limit={limit}{after}")).await.value();
        let found = page["items"].as_array().unwrap();
        assert!(found.len() <= limit);
        items.extend(found.iter().cloned());
        match page.get("next") {
            Some(next) => {
                assert_eq!(found.len(), limit, "only a full page has a next one");
                after = format!("&after={}", next.as_str().unwrap());
            }
            None => return items,
        }
    }
}

/// Goal: whatever the page size, each list holds each item once, in one order.
/// Method: a world with several of everything; walk each list with pages of 1, 2, 3 and all.
#[tokio::test]
async fn every_list_gives_each_item_once_whatever_the_page_size() {
    let world = World::start().await;
    for name in ["a", "b", "c"] {
        world.operate(Method::POST, "/populations", &json!({ "name": name })).await.value();
        world.job(json!({ "name": name, "population": name })).await;
        world.token("devices").await;
    }
    let job = world.job(json!({ "round": { "updates_goal": 2 } })).await;
    let [a, b] = world.devices().await;
    for _ in 0..3 {
        let [first, second] = world.assign([&a, &b]).await;
        a.contribute(&first, &[0.5; WEIGHTS], 1).await;
        b.contribute(&second, &[0.5; WEIGHTS], 1).await;
        world.drive().await;
    }
    let id = job.head.id;
    let events = world.look(&format!("/events?job={id}")).await.value()["items"].as_array().unwrap().len();
    for (path, count) in [
        ("/populations".to_owned(), 4),
        ("/tokens".to_owned(), 5),
        ("/jobs".to_owned(), 4),
        ("/audit".to_owned(), 15),
        ("/jobs?population=a".to_owned(), 1),
        ("/clients?population=devices".to_owned(), 2),
        ("/clients?population=devices&order=last_seen".to_owned(), 2),
        ("/clients?population=devices&order=drop_rate".to_owned(), 2),
        ("/clients?population=devices&search=client_".to_owned(), 2),
        ("/clients?population=a".to_owned(), 0),
        (format!("/clients/{}/assignments", a.id), 3),
        (format!("/jobs/{id}/rounds"), 4),
        (format!("/jobs/{id}/rounds?latest=true"), 4),
        (format!("/jobs/{id}/rounds?order=desc&phase=committed"), 3),
        (format!("/jobs/{id}/rounds?reason=fault"), 0),
        (format!("/jobs/{id}/rounds?task=evaluate"), 0),
        (format!("/jobs/{id}/rounds/1/assignments"), 2),
        (format!("/jobs/{id}/rounds/1/assignments?state=reported"), 2),
        (format!("/jobs/{id}/rounds/1/assignments?state=expired"), 0),
        (format!("/jobs/{id}/models"), 4),
        (format!("/events?job={id}"), events),
    ] {
        let all = walk(&world, &path, 1000).await;
        assert_eq!(all.len(), count, "{path}");
        for limit in [1, 2, 3] {
            assert_eq!(walk(&world, &path, limit).await, all, "{path} in pages of {limit}");
        }
    }
    let numbers = |rounds: Vec<Value>| rounds.iter().map(|round| round["number"].as_u64().unwrap()).collect::<Vec<_>>();
    assert_eq!(numbers(walk(&world, &format!("/jobs/{id}/rounds"), 3).await), [1, 2, 3, 4]);
    assert_eq!(numbers(walk(&world, &format!("/jobs/{id}/rounds?latest=true"), 3).await), [4, 3, 2, 1]);
}
