//! Clients that were drawn in addition on purpose.

use reqwest::Method;
use serde_json::json;
use tributary_server::metrics::MetricsAccess;

use crate::support::{Answer, WEIGHTS, World};

/// The outcomes of which dropout is a share: `reported` counts, and the others of them are losses.
const ENDED: &str = "reported|rejected|failed|lost";

/// The value of a series of `/metrics`.
async fn value(world: &World, outcome: &str) -> f64 {
    let answer = Answer::to(world.request(Method::GET, "/metrics")).await;
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    let series = format!("tributary_assignments_total{{population=\"devices\",task=\"train\",outcome=\"{outcome}\"}} ");
    let found = text.lines().find_map(|line| line.strip_prefix(&series)).unwrap_or_else(|| panic!("{outcome}\n{text}"));
    found.parse().unwrap()
}

/// Dropout, as Grafana and the alert compute it.
async fn dropout(world: &World) -> f64 {
    let mut ended = 0.0;
    for outcome in ENDED.split('|') {
        ended += value(world, outcome).await;
    }
    1.0 - value(world, "reported").await / ended
}

/// Goal: planned redundancy is no dropout, in `/metrics` and in the formulas that read them.
/// Method: twice as many clients are drawn as a round needs; in the second round, one is missed at the deadline.
#[tokio::test]
async fn spares_are_no_losses_in_the_metrics_and_in_both_formulas() {
    let mut world = World::start().await;
    world.set_metrics(MetricsAccess::Open);
    world.restart().await;
    let round = json!({ "updates_goal": 2, "updates_min": 1, "over_selection": 2.0, "deadline_ms": 10_000 });
    let job = world.job(json!({ "round": round })).await.head.id;
    let devices: [_; 4] = world.devices().await;
    let works = world.assign(devices.each_ref()).await;
    for (device, work) in devices.iter().zip(&works).take(2) {
        device.contribute(work, &[0.1; WEIGHTS], 10).await;
    }
    world.drive().await;
    assert_eq!([value(&world, "spare").await, value(&world, "lost").await], [2.0, 0.0]);
    assert_eq!(dropout(&world).await, 0.0);
    assert_eq!(world.round(job, 1).await.spare, 2, "as the round says");

    let works = world.assign(devices.each_ref()).await;
    devices[0].contribute(&works[0], &[0.1; WEIGHTS], 10).await;
    world.pass_ms(10_000).await;
    assert_eq!([value(&world, "spare").await, value(&world, "lost").await], [2.0, 3.0]);
    assert_eq!(dropout(&world).await, 0.5);
    assert_eq!((world.round(job, 2).await.spare, world.round(job, 2).await.expired), (0, 3));

    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs");
    for (file, times) in [("alerts.yml", 2), ("grafana/tributary.json", 1)] {
        let text = std::fs::read_to_string(format!("{docs}/{file}")).unwrap();
        assert_eq!(text.matches(ENDED).count(), times, "{file}");
        assert!(!text.contains("|expired"), "{file}");
    }
    world.check_books(job).await;
}
