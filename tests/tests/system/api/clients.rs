//! What the dashboard shows of clients.

use reqwest::Method;
use serde_json::json;
use tributary_protocol::device::CheckInResponse;
use tributary_protocol::operator::{AttributeName, ClassStats, Client, ClientAssignment, Page};
use tributary_protocol::problem::ProblemType;

use crate::support::{Answer, WEIGHTS, World};

const STEP: [f32; WEIGHTS] = [0.5; WEIGHTS];

/// A world in which a small device was too late and a large one was not.
async fn world() -> (World, Client, Client) {
    let world = World::start().await;
    world.job(json!({ "round": { "updates_goal": 2, "updates_min": 1 } })).await;
    let [small, large] = world.devices().await;
    let (small, large) = (small.with("ram_class", "2"), large.with("ram_class", "8"));
    let [_late, work] = world.assign([&small, &large]).await;
    world.hand.advance_ms(500);
    large.contribute(&work, &STEP, 10).await;
    world.pass_ms(10_000).await;
    let clients: Page<Client> = world.look("/clients?population=devices").await.ok();
    let [small, large] = clients.items.try_into().unwrap();
    (world, small, large)
}

#[tokio::test]
async fn clients_are_found_by_what_they_are_and_ordered_by_how_they_fare() {
    let (world, small, large) = world().await;
    assert_eq!((small.expired, large.reported, large.work_ms_mean), (1, 1, Some(12)));
    let found = async |query: &str| -> Vec<Client> {
        let page: Page<Client> = world.look(&format!("/clients?population=devices&{query}")).await.ok();
        page.items
    };
    assert_eq!(found("order=drop_rate").await, [small.clone(), large.clone()]);
    assert_eq!(found("order=drop_rate&direction=asc").await, [large.clone(), small.clone()]);
    assert_eq!(found("order=late").await, [small.clone(), large.clone()]);
    assert_eq!(found("order=reported&limit=1").await, std::slice::from_ref(&large));
    assert_eq!(found("direction=desc").await, [large.clone(), small.clone()]);
    assert_eq!(found("search=RAM_class").await.len(), 2);
    assert_eq!(found(&format!("search={}", large.id)).await, std::slice::from_ref(&large));
    assert!(found("search=%25").await.is_empty(), "a percent sign is no pattern");
    for query in ["order=beauty", "order=drop_rate&after=5", "order=last_seen&after=x:y", "search=%00"] {
        world.look(&format!("/clients?population=devices&{query}")).await.refused(ProblemType::Malformed);
    }
    let long = "x".repeat(201);
    world.look(&format!("/clients?population=devices&search={long}")).await.refused(ProblemType::Malformed);
    assert_eq!(world.look(&format!("/clients/{}", small.id)).await.ok::<Client>(), small);
}

#[tokio::test]
async fn a_client_has_a_history() {
    let (world, small, _) = world().await;
    let history: Page<ClientAssignment> = world.look(&format!("/clients/{}/assignments", small.id)).await.ok();
    let entry = &history.items[0];
    assert_eq!((entry.round, entry.assignment.shape.as_str(), history.items.len()), (1, "ca.", 1));
    let unknown = format!("client_{}", "0".repeat(32));
    world.look(&format!("/clients/{unknown}")).await.refused(ProblemType::NotFound);
    world.look(&format!("/clients/{unknown}/assignments")).await.refused(ProblemType::NotFound);
    let path = format!("/clients/{}/assignments?after=nonsense", small.id);
    world.look(&path).await.refused(ProblemType::Malformed);
}

#[tokio::test]
async fn classes_of_devices_tell_whom_the_deadline_drops() {
    let (world, ..) = world().await;
    let names: Vec<AttributeName> = world.look("/populations/devices/attributes").await.ok();
    assert_eq!(names, [AttributeName { name: "ram_class".into(), values: 2 }]);
    let classes: Vec<ClassStats> = world.look("/populations/devices/classes?attribute=ram_class").await.ok();
    let told: Vec<_> = classes.iter().map(|class| (class.value.as_str(), class.clients, class.drop_rate)).collect();
    assert_eq!(told, [("2", 1, 1.0), ("8", 1, 0.0)]);
    assert_eq!((classes[1].work_ms_p50, classes[0].work_ms_p50), (Some(12), None));
    let other: Vec<ClassStats> = world.look("/populations/devices/classes?attribute=colour").await.ok();
    assert_eq!((other.len(), other[0].value.as_str(), other[0].assigned), (1, "", 2));
    for path in ["/populations/nobody/attributes", "/populations/nobody/classes?attribute=x"] {
        world.look(path).await.refused(ProblemType::NotFound);
    }
    world.look("/populations/devices/classes").await.refused(ProblemType::Malformed);
}

#[tokio::test]
async fn a_client_is_listed_with_the_kind_of_its_sdk() {
    let world = World::start().await;
    let device = world.device().await;
    let check_in = async |sdk: serde_json::Value| {
        let mut request = device.check_in_request(0);
        request["sdk"] = sdk;
        Answer::to(device.request(Method::POST, "/checkins").json(&request)).await
    };
    let listed = async || -> Option<String> {
        let client: Client = world.look(&format!("/clients/{}", device.id)).await.ok();
        client.sdk.map(|sdk| sdk.to_string())
    };
    assert_eq!(listed().await, None);
    for sdk in ["kotlin", "c"] {
        check_in(json!(sdk)).await.ok::<CheckInResponse>();
        assert_eq!(listed().await.as_deref(), Some(sdk));
    }
    for sdk in [json!(""), json!("a b"), json!("\u{1b}[2J"), json!("x".repeat(65)), json!(7)] {
        check_in(sdk).await.refused(ProblemType::Malformed);
    }
    device.check_in(0).await;
    assert_eq!(listed().await, None, "a check-in without it says that it has none");
}
