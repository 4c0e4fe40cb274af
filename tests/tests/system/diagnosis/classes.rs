//! A device class that is too slow for every round.

use serde_json::json;
use tributary_protocol::operator::ClassStats;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{ClassVerdict, HealthKind, Severity};

use crate::support::{Device, WEIGHTS, World};

/// Rounds that are played.
const ROUNDS: u32 = 8;

/// Goal: the class that never reports is named first, although each of its rounds reached its goal, and its work time
/// is not made up from others.
#[tokio::test]
async fn a_class_that_is_too_slow_for_every_round_is_named_first() {
    let world = World::start().await;
    let round = json!({ "updates_goal": 3, "over_selection": 1.3, "deadline_ms": 60_000 });
    let job = world.job(json!({ "round": round })).await;
    let [a, b, c, slow] = world.devices().await;
    let fast = [a, b, c].map(|device| device.with("ram", "8"));
    let slow = slow.with("ram", "2");
    for _ in 0..ROUNDS {
        let [x, y, z, unlucky] = world.assign([&fast[0], &fast[1], &fast[2], &slow]).await;
        world.hand.advance_ms(1_300);
        for (device, work) in fast.iter().zip([&x, &y, &z]) {
            device.contribute(work, &[0.1; WEIGHTS], 10).await;
        }
        world.drive().await;
        slow.status(unlucky.id).await.refused(ProblemType::AssignmentClosed);
    }
    let classes: Vec<ClassStats> = world.look("/populations/devices/classes?attribute=ram").await.ok();
    let verdicts: Vec<_> = classes.iter().map(|class| (class.value.as_str(), class.verdict)).collect();
    assert_eq!(verdicts, [("2", ClassVerdict::ShutOut), ("8", ClassVerdict::Fair)]);
    let shut_out = &classes[0];
    assert_eq!((shut_out.assigned, shut_out.reported, shut_out.spare, shut_out.drop_rate), (8, 0, 8, 0.0));
    assert_eq!((shut_out.work_ms_p50, shut_out.work_ms_over), (None, Some(1_300)), "longer than the rounds took");
    assert!(shut_out.counted_rate_high < 0.4, "{shut_out:?}");
    assert_eq!(classes[1].work_ms_p50, Some(12));

    let health = world.job_now(job.head.id).await.health[0].clone();
    assert_eq!((health.severity, health.kind), (Severity::Warning, HealthKind::ClassShutOut));
    assert_eq!(health.text, "1 client of ram=2 was drawn 8 times, and no update of theirs counted");
    let overview = world.look("/overview").await.value();
    assert_eq!(overview["jobs"][0]["health"][0]["kind"], "class_shut_out");
    world.check_books(job.head.id).await;
}

/// The counters of an open round, in every answer that has them.
#[tokio::test]
async fn the_counters_of_an_open_round_add_up_to_its_cohort() {
    let world = World::start().await;
    let job = world.job(json!({ "round": { "updates_goal": 4, "updates_min": 1 } })).await;
    let devices: [Device; 4] = world.devices().await;
    let work = world.assign(devices.each_ref()).await;
    devices[0].contribute(&work[0], &[0.1; WEIGHTS], 10).await;
    devices[1].fail(work[1].id, "no_data").await.value();
    let overview = world.look("/overview").await.value();
    let open = &overview["jobs"][0]["open_rounds"][0];
    let listed = world.look(&format!("/jobs/{}/rounds", job.head.id)).await.value();
    for round in [open, &listed["items"][0]] {
        let of = |name: &str| round[name].as_u64().unwrap();
        let sum: u64 = ["assigned", "reported", "rejected", "failed", "expired"].iter().map(|name| of(name)).sum();
        assert_eq!((sum, of("assigned"), of("reported"), of("failed")), (of("cohort"), 2, 1, 1), "{round}");
    }
}
