//! Deadlines and cohorts that follow the measured times of recent rounds.

use serde_json::{Value, json};
use tributary_protocol::id::JobId;
use tributary_protocol::operator::{AdaptedGoal, Job, RoundDetail};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::Phase;

use crate::support::{Device, WEIGHTS, World, job_file};

const STEP: [f32; WEIGHTS] = [0.5; WEIGHTS];
/// Clients of the fleet: nine that take 5 seconds, and the last, of the class `old`, that takes 25.
const CLIENTS: usize = 10;

/// Plays rounds in which everybody reports; from the first round that closes earlier on, the slow one comes too late.
async fn play(world: &World, devices: &[Device], rounds: u32) {
    for _ in 0..rounds {
        let work: Vec<_> =
            world.gather(&devices.iter().collect::<Vec<_>>()).await.into_iter().map(Option::unwrap).collect();
        world.pass_ms(5_000).await;
        for (device, work) in devices[..CLIENTS - 1].iter().zip(&work) {
            device.contribute(work, &STEP, 10).await;
        }
        world.pass_ms(20_000).await;
        let late = devices[CLIENTS - 1].status(work[CLIENTS - 1].id).await;
        if late.status == 200 {
            devices[CLIENTS - 1].contribute(&work[CLIENTS - 1], &STEP, 10).await;
        }
        world.drive().await;
    }
}

async fn detail(world: &World, job: JobId, round: u32) -> RoundDetail {
    world.look(&format!("/jobs/{job}/rounds/{round}")).await.ok()
}

async fn fleet(world: &World) -> Vec<Device> {
    let devices: [Device; CLIENTS] = world.devices().await;
    let class = |number| if number == CLIENTS - 1 { "old" } else { "new" };
    devices.into_iter().enumerate().map(|(number, device)| device.with("kind", class(number))).collect()
}

/// Goal: after two rounds the deadline follows the fast clients; it is stored with its round, explained, and survives a
/// restart; the job's file has the last word before enough is measured.
#[tokio::test]
async fn a_deadline_follows_the_measured_times() {
    let mut world = World::start().await;
    let round = json!({
        "updates_goal": 10, "updates_min": 5, "over_selection": 1.0, "deadline_ms": 60_000,
        "adapt": { "deadline_min_ms": 5_000, "deadline_max_ms": 120_000 },
    });
    let job = world.job(json!({ "round": round })).await;
    let devices = fleet(&world).await;
    play(&world, &devices, 2).await;
    assert_eq!(detail(&world, job.head.id, 2).await.round.adapted, None, "ten pieces of work are too few");
    world.drive().await;
    let before = detail(&world, job.head.id, 3).await;
    let adapted = before.round.adapted.unwrap();
    assert_eq!((adapted.works, adapted.deadline_ms, adapted.dropout_permille), (20, 6_000, 100));
    assert_eq!((adapted.cohort, adapted.fastest_ms), (10, None));
    assert!(
        before.explanation.contains("a deadline of 6 s brings the most updates per hour"),
        "{}",
        before.explanation
    );
    world.restart().await;
    assert_eq!(detail(&world, job.head.id, 3).await.round.adapted, Some(adapted));
    play(&world, &devices, 1).await;
    let round = world.round(job.head.id, 3).await;
    assert_eq!(round.deadline_at_ms.unwrap() - round.selected_at_ms.unwrap(), 6_000);
    assert_eq!((round.phase, round.reported, round.expired), (Phase::Committed, 9, 1));
    world.check_books(job.head.id).await;
}

/// Goal: a class of devices that a deadline has shut out takes part again, once it is common enough to be a class.
/// Method: the slow one reports in two rounds and misses the deadline of three; then five of its works are known.
#[tokio::test]
async fn a_slow_class_of_devices_is_let_in_again() {
    let world = World::start().await;
    let round = json!({
        "updates_goal": 10, "updates_min": 5, "over_selection": 1.0, "deadline_ms": 60_000,
        "adapt": { "deadline_min_ms": 5_000, "deadline_max_ms": 120_000, "class": "kind" },
    });
    let job = world.job(json!({ "round": round })).await;
    let devices = fleet(&world).await;
    play(&world, &devices, 5).await;
    for number in 3..=5 {
        let shut_out = detail(&world, job.head.id, number).await.round;
        assert_eq!((shut_out.adapted.unwrap().deadline_ms, shut_out.reported), (6_000, 9));
    }
    world.drive().await;
    let open = detail(&world, job.head.id, 6).await;
    let adapted = open.round.adapted.unwrap();
    assert_eq!((adapted.works, adapted.deadline_ms, adapted.fastest_ms), (50, 26_000, Some(6_000)));
    assert!(open.explanation.contains("lets a slow class of devices take part"), "{}", open.explanation);
    play(&world, &devices, 1).await;
    let round = world.round(job.head.id, 6).await;
    assert_eq!((round.phase, round.reported), (Phase::Committed, 10));
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn bounds_that_are_none_and_modes_without_cohorts_are_refused() {
    let world = World::start().await;
    let refused = async |file: &Value| world.create_job(file).await.refused(ProblemType::JobFileInvalid).detail;
    let bounds = json!({ "round": { "adapt": { "deadline_min_ms": 9_000, "deadline_max_ms": 8_000 } } });
    let detail = refused(&job_file(&bounds)).await;
    assert!(detail.contains("deadline_max_ms"), "{detail}");
    let poisson = json!({ "round": { "adapt": {}, "selection": { "kind": "poisson", "rate": 0.5 } } });
    let detail = refused(&job_file(&poisson)).await;
    assert!(detail.contains("poisson draws each client by itself"), "{detail}");
    let mode = json!({ "kind": "buffered", "buffer": 3, "concurrency": 3 });
    let mut file = super::buffered::buffered(&mode, &json!({}));
    file["round"]["adapt"] = json!({});
    file["round"]["adapt"]["updates_goal_min"] = json!(2);
    let detail = refused(&file).await;
    assert!(detail.contains("updates_goal_min"), "{detail}");
    let partial = json!({ "round": { "adapt": {} }, "training": { "partial_work": 0.9 } });
    let detail = refused(&job_file(&partial)).await;
    assert!(detail.contains("its times do not say how long work takes"), "{detail}");
    let mode = json!({ "kind": "stale_synchronous", "members": 3 });
    let mut file = super::buffered::buffered(&json!({ "buffer": 3, "concurrency": 3 }), &json!({}));
    file["round"]["mode"] = mode;
    file["round"]["adapt"] = json!({});
    let detail = refused(&file).await;
    assert!(detail.contains("makes a member leave that misses its deadline"), "{detail}");
    for least in [1, 4] {
        let goal = json!({ "round": { "updates_goal": 3, "adapt": { "updates_goal_min": least } } });
        let detail = refused(&job_file(&goal)).await;
        assert!(detail.contains("updates_goal_min"), "{detail}");
    }
}

/// Goal: the goal of a round follows the diversity of the rounds before, within its bounds; it is stored with the
/// round, explained, and survives a restart. Method: three clients send updates of the same direction, so one of them
/// would do.
#[tokio::test]
async fn the_goal_follows_the_diversity_of_recent_rounds() {
    let mut world = World::start().await;
    let round = json!({
        "updates_goal": 3, "updates_min": 2, "over_selection": 1.0, "adapt": { "updates_goal_min": 2 },
    });
    let job = world.job(json!({ "round": round })).await;
    let [a, b, c] = world.devices().await;
    for number in 1..=5 {
        let [one, two, three] = world.assign([&a, &b, &c]).await;
        for (device, work) in [(&a, &one), (&b, &two), (&c, &three)] {
            device.contribute(work, &STEP, 10).await;
        }
        world.drive().await;
        let round = world.round(job.head.id, number).await;
        assert_eq!((round.phase, round.goal, round.adapted_goal), (Phase::Committed, 3, None), "{number}");
    }
    world.drive().await;
    world.restart().await;
    let open = detail(&world, job.head.id, 6).await;
    let goal = AdaptedGoal { rounds: 5, useful: Some(1), least: 2, most: 3 };
    assert_eq!((open.round.goal, open.round.adapted_goal), (2, Some(goal)));
    assert!(
        open.explanation.contains("a round can use about one update, so the goal is 2, the smallest allowed."),
        "{}",
        open.explanation
    );
    let [one, two] = world.assign([&a, &b]).await;
    a.contribute(&one, &STEP, 10).await;
    b.contribute(&two, &STEP, 10).await;
    world.drive().await;
    let round = world.round(job.head.id, 6).await;
    assert_eq!((round.phase, round.cohort, round.reported), (Phase::Committed, 2, 2));
    world.check_books(job.head.id).await;
}

/// Goal: in a buffered job the deadline of each client follows the measured times.
#[tokio::test]
async fn the_deadline_of_a_buffered_job_follows_the_measured_times() {
    let world = World::start().await;
    let mode = json!({ "buffer": 5, "concurrency": 10 });
    let mut file = super::buffered::buffered(&mode, &json!({ "round": { "deadline_ms": 60_000 } }));
    file["round"]["adapt"] = json!({ "deadline_min_ms": 2_000 });
    let job: Job = world.create_job(&file).await.ok();
    let devices: [Device; CLIENTS] = world.devices().await;
    for _ in 0..2 {
        let work = world.assign(devices.each_ref()).await;
        assert!(work.iter().all(|work| work.deadline_in_ms == 60_000));
        world.pass_ms(5_000).await;
        for half in [0..CLIENTS / 2, CLIENTS / 2..CLIENTS] {
            for client in half {
                devices[client].contribute(&work[client], &STEP, 10).await;
            }
            world.drive().await;
        }
    }
    let [first] = world.assign([&devices[0]]).await;
    assert_eq!((first.round, first.deadline_in_ms), (5, 6_000));
    let open = detail(&world, job.head.id, 5).await;
    let adapted = open.round.adapted.unwrap();
    assert_eq!((adapted.works, adapted.dropout_permille, adapted.cohort), (20, 0, 10));
    // Ten places, each taken for 5 s.
    assert_eq!((open.round.goal, adapted.updates_per_hour), (5, 7_200));
    assert!(open.explanation.contains("a deadline of 6 s for each client"), "{}", open.explanation);
    world.check_books(job.head.id).await;
}
