//! Buffered jobs: a full buffer makes a version, and slow clients count later, with the weight that their staleness
//! leaves.

use serde_json::{Value, json};
use tributary_protocol::device::{Assignment, CheckInResponse, ReportAccepted};
use tributary_protocol::operator::{Job, StaleClient};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AbandonReason, AssignmentState, JobState, Phase};

use crate::support::{Device, WEIGHTS, World, delta_file, figures, job_file, postgres};

const STEP: [f32; WEIGHTS] = [0.5; WEIGHTS];

/// A job file with a buffered mode: the settings of cohorts are left out.
pub(crate) fn buffered(mode: &Value, changes: &Value) -> Value {
    let mut file = job_file(changes);
    let round = file["round"].as_object_mut().unwrap();
    for setting in ["updates_goal", "updates_min", "over_selection", "selection_timeout_ms"] {
        round.remove(setting);
    }
    let mut table = json!({ "kind": "buffered" });
    for (name, value) in mode.as_object().unwrap() {
        table[name] = value.clone();
    }
    round.insert("mode".into(), table);
    file
}

async fn start(world: &World, mode: Value, changes: Value) -> Job {
    world.create_job(&buffered(&mode, &changes)).await.ok()
}

pub(super) async fn report(device: &Device, assignment: &Assignment, delta: &[f32], weight: u32) {
    device.contribute(assignment, delta, weight).await;
}

/// The mean of deltas times factors, over this divisor.
fn expected(before: &[f32], updates: &[(&[f32; WEIGHTS], f64)], divisor: f64) -> Vec<f32> {
    let mean = |index: usize| updates.iter().map(|(delta, factor)| f64::from(delta[index]) * factor).sum::<f64>();
    (0..WEIGHTS).map(|index| (f64::from(before[index]) + mean(index) / divisor) as f32).collect()
}

/// Goal: fast clients make versions without the slow one, whose update counts later with its weight.
/// Method: of three clients at work, two report in turn for a buffer of two; the third reports two versions later. The
/// model is computed here in f64.
async fn slow_clients_count_later(world: World) {
    let job = start(&world, json!({ "buffer": 2, "concurrency": 3 }), json!({})).await;
    let [a, b, slow] = world.devices().await;
    let [first, second, third] = world.assign([&a, &b, &slow]).await;
    assert_eq!((first.round, third.round, third.model_version, third.deadline_in_ms), (1, 1, 0, 10_000));
    let open = world.round(job.head.id, 1).await;
    assert_eq!((open.phase, open.goal, open.assigned, open.deadline_at_ms), (Phase::Training, 2, 3, None));
    for version in 1..=2 {
        let [one, two] = match version {
            1 => [first.clone(), second.clone()],
            _ => world.assign([&a, &b]).await,
        };
        assert_eq!((one.model_version, one.round), (version - 1, version));
        report(&a, &one, &STEP, 10).await;
        report(&b, &two, &STEP, 30).await;
        world.drive().await;
        assert_eq!(world.job_now(job.head.id).await.head.model_version, Some(version));
    }
    let status: Value = slow.status(third.id).await.ok();
    assert_eq!(status["reported"], false, "its work is still wanted");
    let moved = world.round(job.head.id, 3).await;
    assert_eq!((moved.cohort, moved.assigned), (1, 1), "the slow one has moved on");
    assert_eq!(slow.work().await, Assignment { round: 3, ..third.clone() }, "it is the same work");

    let delta = [0.25, -0.5, 1.0, 0.125, -1.0, 2.0];
    let [fresh] = world.assign([&a]).await;
    report(&slow, &third, &delta, 100).await;
    report(&slow, &third, &delta, 100).await;
    report(&a, &fresh, &STEP, 10).await;
    world.drive().await;
    let (before, after) = (world.weights(job.head.id, 2).await, world.weights(job.head.id, 3).await);
    // Its weight is the nearest multiple of 2^-16 examples.
    let weight = (100.0 / 3f64.sqrt() * 65536.0).round() / 65536.0;
    assert_eq!(after, expected(&before, &[(&delta, weight), (&STEP, 10.0)], 110.0));
    let counted = world.assignments(job.head.id, 3).await;
    let of_slow = counted.iter().find(|assignment| assignment.client == slow.id).unwrap();
    assert_eq!((of_slow.state, of_slow.base_version, of_slow.staleness), (AssignmentState::Reported, 0, 2));
    let buffer = world.round(job.head.id, 3).await.buffer.unwrap();
    assert_eq!((buffer.staleness_mean, buffer.staleness_max), (Some(1.0), Some(16)));
    assert!((buffer.lost_weight - (100.0 - weight)).abs() < 1e-9);
    let stale: Vec<StaleClient> = world.look(&format!("/jobs/{}/stale-clients", job.head.id)).await.ok();
    assert_eq!(stale.len(), 1, "the others were never behind: {stale:?}");
    let StaleClient { client, updates, staleness_mean, staleness_max, examples, lost_weight, .. } = stale[0];
    assert_eq!((client, updates, staleness_mean, staleness_max, examples), (slow.id, 1, 2.0, 2, 100));
    assert!((lost_weight - buffer.lost_weight).abs() < 1e-9);
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn slow_clients_count_later_on_sqlite() {
    slow_clients_count_later(World::start_on_sqlite().await).await;
}

#[tokio::test]
async fn slow_clients_count_later_on_postgres() {
    let Some(database) = postgres().await else { return };
    slow_clients_count_later(World::start_on(database).await).await;
}

/// Goal: with a divisor of weights the step is a mean, whatever the staleness.
#[tokio::test]
async fn the_divisor_is_a_setting() {
    let world = World::start().await;
    let mode =
        json!({ "buffer": 1, "concurrency": 2, "staleness_weight": { "kind": "inverse" }, "divisor": "weights" });
    let job = start(&world, mode, json!({})).await;
    let [a, b] = world.devices().await;
    let [first, second] = world.assign([&a, &b]).await;
    report(&a, &first, &STEP, 10).await;
    world.drive().await;
    report(&b, &second, &STEP, 30).await;
    world.drive().await;
    let (before, after) = (world.weights(job.head.id, 1).await, world.weights(job.head.id, 2).await);
    assert_eq!(after, expected(&before, &[(&STEP, 1.0)], 1.0));
    world.check_books(job.head.id).await;
}

/// Goal: work that can no longer count is refused before its bytes move, and new work is there at once.
#[tokio::test]
async fn too_stale_work_is_refused_before_its_bytes_and_replaced() {
    let world = World::start().await;
    let job = start(&world, json!({ "buffer": 1, "concurrency": 2, "staleness_max": 1 }), json!({})).await;
    let [fast, slow] = world.devices().await;
    let [mut work, old] = world.assign([&fast, &slow]).await;
    for version in 1..=2 {
        report(&fast, &work, &STEP, 10).await;
        world.drive().await;
        assert_eq!(world.job_now(job.head.id).await.head.model_version, Some(version));
        [work] = world.assign([&fast]).await;
    }
    let refused = slow.status(old.id).await.refused(ProblemType::UpdateStale);
    assert_eq!((refused.status, refused.retry_after_ms), (410, Some(0)));
    let refused = slow.put_update(old.id, &figures(10), delta_file(&old, &STEP)).await;
    assert!(refused.refused(ProblemType::UpdateStale).detail.contains("2 versions behind"));
    let of_old = world.assignments(job.head.id, 2).await;
    let of_old = of_old.iter().find(|assignment| assignment.client == slow.id).unwrap();
    assert_eq!((of_old.state, of_old.traffic.bytes_up), (AssignmentState::Expired, 0));
    assert!(of_old.explanation.as_ref().unwrap().starts_with("too stale"), "{of_old:?}");
    let [new] = world.assign([&slow]).await;
    assert_eq!((new.model_version, new.round), (2, 3));
    world.check_books(job.head.id).await;
}

/// Goal: a client that does not return frees its place at its own deadline, and a buffer is never abandoned for it.
#[tokio::test]
async fn a_dead_client_frees_its_place() {
    let world = World::start().await;
    let job = start(&world, json!({ "buffer": 1, "concurrency": 1 }), json!({})).await;
    let [dead, alive] = world.devices().await;
    let [lost] = world.assign([&dead]).await;
    let waiting = alive.wait();
    world.until_waiting(1).await;
    world.pass_ms(9_999).await;
    assert_eq!(world.round(job.head.id, 1).await.assigned, 1);
    world.pass_ms(1).await;
    let CheckInResponse::Assigned(work) = waiting.await.unwrap() else { panic!("the place is free") };
    assert_eq!((work.round, work.deadline_in_ms), (1, 10_000));
    dead.status(lost.id).await.refused(ProblemType::AssignmentClosed);
    report(&alive, &work, &STEP, 10).await;
    world.drive().await;
    let round = world.round(job.head.id, 1).await;
    assert_eq!((round.phase, round.reported, round.expired, round.spare), (Phase::Committed, 1, 1, 0));
    world.pass_ms(1_000_000_000).await;
    assert_eq!(world.round(job.head.id, 2).await.phase, Phase::Training, "it waits for clients without end");
    world.check_books(job.head.id).await;
}

/// Goal: a quick client does not decide a version, however quick it is; its share is that of one client. Method: of
/// three clients one comes back at once, again and again. It waits until the buffer is full, also after a restart.
async fn a_quick_client_counts_once_in_a_buffer(mut world: World) {
    let job = start(&world, json!({ "buffer": 3, "concurrency": 3 }), json!({})).await;
    let [quick, a, b] = world.devices().await;
    for version in 1..=2 {
        let [of_quick, of_a] = world.assign([&quick, &a]).await;
        report(&quick, &of_quick, &STEP, 10).await;
        assert_eq!(world.gather(&[&quick]).await, [None], "it has its part in version {version}");
        world.restart().await;
        report(&a, &of_a, &STEP, 10).await;
        assert_eq!(world.gather(&[&quick, &a]).await, [None, None]);
        let health = world.job_now(job.head.id).await.health;
        let waits = format!("round {version} has 2 of the 3 updates of its buffer");
        assert!(health.iter().any(|line| line.text.starts_with(&waits)), "{health:?}");
        let [of_b] = world.assign([&b]).await;
        report(&b, &of_b, &STEP, 10).await;
        world.drive().await;
        assert_eq!(world.job_now(job.head.id).await.head.model_version, Some(version));
        let mut clients: Vec<_> =
            world.assignments(job.head.id, version).await.into_iter().map(|update| update.client_number).collect();
        clients.sort_unstable();
        assert_eq!(clients, [1, 2, 3]);
    }
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn a_quick_client_counts_once_in_a_buffer_on_sqlite() {
    a_quick_client_counts_once_in_a_buffer(World::start_on_sqlite().await).await;
}

#[tokio::test]
async fn a_quick_client_counts_once_in_a_buffer_on_postgres() {
    let Some(database) = postgres().await else { return };
    a_quick_client_counts_once_in_a_buffer(World::start_on(database).await).await;
}

/// Goal: a client may work again for the same version where the job says so, and each piece of work has a seed of its
/// own.
#[tokio::test]
async fn a_client_may_work_twice_for_a_version() {
    let world = World::start().await;
    let job = start(&world, json!({ "buffer": 3, "concurrency": 1, "per_client": 3 }), json!({})).await;
    let device = world.device().await;
    let mut seeds = Vec::new();
    for _ in 0..3 {
        let [work] = world.assign([&device]).await;
        seeds.push(work.seed);
        if seeds.len() == 2 {
            // It gives up once.
            let _: ReportAccepted = device.fail(work.id, "interrupted").await.ok();
            let [work] = world.assign([&device]).await;
            assert!(!seeds.contains(&work.seed));
            report(&device, &work, &STEP, 10).await;
        } else {
            report(&device, &work, &STEP, 10).await;
        }
    }
    world.drive().await;
    seeds.dedup();
    assert_eq!(seeds.len(), 3);
    let round = world.round(job.head.id, 1).await;
    assert_eq!((round.phase, round.reported, round.failed), (Phase::Committed, 3, 1));
    world.check_books(job.head.id).await;
}

/// The files of the versions of three clients that report together.
pub(super) async fn versions(file: &Value) -> Vec<Vec<u8>> {
    let world = World::start().await;
    let job: Job = world.create_job(file).await.ok();
    let devices: [Device; 3] = world.devices().await;
    let [a, b, c] = &devices;
    for round in 1..=3_u32 {
        let work = world.assign([a, b, c]).await;
        for (device, work) in devices.iter().zip(&work) {
            // The delta depends on the seed, as that of a trainer does.
            let delta: Vec<f32> =
                (0..WEIGHTS).map(|at| (work.seed.derive("d", at as u64).0 % 97) as f32 / 97.0).collect();
            device.contribute(work, &delta, 7 + round).await;
        }
        world.drive().await;
    }
    world.check_books(job.head.id).await;
    let mut files = Vec::new();
    for version in 0..=3 {
        files.push(world.model_file(job.head.id, version).await);
    }
    files
}

#[tokio::test]
async fn a_buffer_of_all_clients_with_equal_speeds_is_a_synchronous_round_to_the_last_bit() {
    let synchronous = job_file(&json!({ "round": { "updates_goal": 3, "updates_min": 3 } }));
    let adam = json!({ "aggregation": { "optimizer": { "kind": "adam" } } });
    let buffer = buffered(&json!({ "buffer": 3, "concurrency": 3 }), &json!({}));
    assert_eq!(versions(&buffer).await, versions(&synchronous).await);
    let mut with_adam = synchronous;
    with_adam["aggregation"] = adam["aggregation"].clone();
    let buffer = buffered(&json!({ "buffer": 3, "concurrency": 3 }), &adam);
    assert_eq!(versions(&buffer).await, versions(&with_adam).await);
}

#[tokio::test]
async fn clients_that_take_turns_are_as_stale_as_there_are_others() {
    let world = World::start().await;
    let job = start(&world, json!({ "buffer": 1, "concurrency": 4 }), json!({})).await;
    let devices: [Device; 4] = world.devices().await;
    let [a, b, c, d] = &devices;
    let mut work = world.assign([a, b, c, d]).await;
    for turn in 0..12 {
        let place = turn % 4;
        report(&devices[place], &work[place], &STEP, 10).await;
        world.drive().await;
        let number = turn as u32 + 1;
        let assignments = world.assignments(job.head.id, number).await;
        assert_eq!(assignments[0].staleness, number.min(4) - 1);
        [work[place]] = world.assign([&devices[place]]).await;
    }
    world.check_books(job.head.id).await;
}

/// Goal: whatever the rule, a buffered job works: robust rules, FedNova, norm clipping, optimisers with companions.
#[tokio::test]
async fn every_rule_that_a_buffered_job_may_have_makes_a_version() {
    let constant = json!({ "buffer": 3, "concurrency": 4, "staleness_weight": { "kind": "constant" } });
    let weights = json!({ "buffer": 3, "concurrency": 4, "divisor": "weights" });
    let count = json!({ "buffer": 3, "concurrency": 4 });
    for (mode, changes) in [
        (&constant, json!({ "aggregation": { "combine": "median" } })),
        (&constant, json!({ "aggregation": { "combine": { "kind": "q_fedavg", "q": 1.0 } } })),
        (&constant, json!({ "aggregation": { "combine": { "kind": "centered_clipping", "radius": 1.0 } } })),
        (&weights, json!({ "aggregation": { "combine": { "kind": "norm_clipping", "norm": 1.0 } } })),
        (&weights, json!({ "training": { "algorithm": { "kind": "fed_nova" } } })),
        (&count, json!({ "aggregation": { "combine": "uniform_mean", "optimizer": { "kind": "yogi" } } })),
        (&count, json!({ "update": { "norm_max": { "quantile": 0.5, "factor": 4.0, "rounds": 2, "start": 20.0 } } })),
    ] {
        let world = World::start().await;
        let job = start(&world, mode.clone(), changes.clone()).await;
        let [a, b, c, slow] = world.devices().await;
        let [one, two, three, late] = world.assign([&a, &b, &c, &slow]).await;
        for (device, work) in [(&a, &one), (&b, &two), (&c, &three)] {
            report(device, work, &STEP, 10).await;
        }
        world.drive().await;
        let [one, two] = world.assign([&a, &b]).await;
        for (device, work) in [(&slow, &late), (&a, &one), (&b, &two)] {
            report(device, work, &STEP, 10).await;
        }
        world.drive().await;
        assert_eq!(world.job_now(job.head.id).await.head.model_version, Some(2), "{changes}");
        world.check_books(job.head.id).await;
    }
}

/// Goal: a job ends at its number of versions, and clients that still work then get a refusal that says so.
#[tokio::test]
async fn a_job_that_has_trained_lets_its_clients_go() {
    let world = World::start().await;
    let job = start(&world, json!({ "buffer": 1, "concurrency": 2 }), json!({ "stop": { "rounds": 1 } })).await;
    let [a, b] = world.devices().await;
    let [first, second] = world.assign([&a, &b]).await;
    report(&a, &first, &STEP, 10).await;
    world.drive().await;
    assert_eq!(world.job_now(job.head.id).await.head.state, JobState::Completed);
    b.status(second.id).await.refused(ProblemType::AssignmentClosed);
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn a_stopped_job_abandons_its_buffer_and_a_paused_one_draws_nobody() {
    let world = World::start().await;
    let job = start(&world, json!({ "buffer": 2, "concurrency": 2 }), json!({})).await;
    let [a, b, c] = world.devices().await;
    let [first, second] = world.assign([&a, &b]).await;
    let pause = |action: &str| format!("/jobs/{}/{action}", job.head.id);
    world.operate(reqwest::Method::POST, &pause("pause"), &json!({})).await.value();
    report(&a, &first, &STEP, 10).await;
    assert_eq!(world.gather(&[&c]).await, [None], "nobody is drawn");
    report(&b, &second, &STEP, 10).await;
    world.drive().await;
    assert_eq!(world.job_now(job.head.id).await.head.model_version, Some(1), "a full buffer commits");
    assert_eq!(world.round(job.head.id, 2).await.phase, Phase::Training, "what is on its way would count");
    world.operate(reqwest::Method::POST, &pause("resume"), &json!({})).await.value();
    let [third] = world.assign([&c]).await;
    assert_eq!(third.model_version, 1);
    world.operate(reqwest::Method::POST, &pause("stop"), &json!({})).await.value();
    world.drive().await;
    let round = world.round(job.head.id, 2).await;
    assert_eq!((round.phase, round.reason, round.expired), (Phase::Abandoned, Some(AbandonReason::JobStopped), 1));
    c.status(third.id).await.refused(ProblemType::AssignmentClosed);
    world.check_books(job.head.id).await;
}

/// Goal: a restart between any two updates loses none of them, and the versions are the same to the last bit.
#[tokio::test]
async fn a_restart_between_updates_gives_the_same_versions() {
    let mut files = Vec::new();
    for restarts in [false, true] {
        let mut world = World::start().await;
        let job = start(&world, json!({ "buffer": 2, "concurrency": 3 }), json!({})).await;
        let devices: [Device; 3] = world.devices().await;
        let [a, b, c] = &devices;
        let [first, second, third] = world.assign([a, b, c]).await;
        for (place, (device, work)) in [(a, &first), (b, &second), (c, &third)].into_iter().enumerate() {
            if restarts {
                world.restart().await;
            }
            if place == 2 {
                world.drive().await;
            }
            report(device, work, &[0.1 * (place as f32 + 1.0); WEIGHTS], 10 + place as u32).await;
        }
        if restarts {
            world.restart().await;
        }
        let [again] = world.assign([a]).await;
        report(a, &again, &STEP, 10).await;
        if restarts {
            world.restart().await;
        }
        world.drive().await;
        files.push((world.model_file(job.head.id, 1).await, world.model_file(job.head.id, 2).await));
        world.check_books(job.head.id).await;
    }
    assert_eq!(files[0], files[1]);
}

/// Goal: an update that comes while a closed buffer is made into a model is neither lost nor counted there.
#[tokio::test]
async fn an_update_between_two_buffers_waits_for_the_next() {
    let world = World::start().await;
    let job = start(&world, json!({ "buffer": 1, "concurrency": 2 }), json!({})).await;
    let [a, b] = world.devices().await;
    let [first, second] = world.assign([&a, &b]).await;
    report(&a, &first, &STEP, 10).await;
    assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Aggregating);
    let status: Value = b.status(second.id).await.ok();
    assert_eq!(status["reported"], false);
    let early = b.put_update(second.id, &figures(10), delta_file(&second, &STEP)).await;
    assert!(early.refused(ProblemType::Unavailable).retry_after_ms.is_some());
    world.drive().await;
    report(&b, &second, &STEP, 10).await;
    world.drive().await;
    let assignments = world.assignments(job.head.id, 2).await;
    assert_eq!((assignments[0].client, assignments[0].staleness), (b.id, 1));
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn what_makes_no_sense_in_a_buffered_job_is_refused_with_the_reason() {
    let world = World::start().await;
    let mode = json!({ "buffer": 3, "concurrency": 3 });
    for (changes, why) in [
        (json!({ "aggregation": { "combine": "median" } }), "no weights"),
        (json!({ "aggregation": { "combine": { "kind": "norm_clipping", "norm": 1.0 } } }), "divisor"),
        (json!({ "training": { "algorithm": { "kind": "fed_nova" } } }), "divisor"),
        (json!({ "eligibility": { "separation_rounds": 1 } }), "clients that all rest"),
        (
            json!({ "training": { "algorithm": { "kind": "fed_dyn", "alpha": 0.1, "clients": 9 } } }),
            "corrections that are those of the newest version",
        ),
    ] {
        let refused = world.create_job(&buffered(&mode, &changes)).await.refused(ProblemType::JobFileInvalid);
        assert!(
            refused.detail.contains("[round] mode") && refused.detail.contains(why),
            "{changes}: {}",
            refused.detail
        );
    }
    let mut file = buffered(&mode, &json!({}));
    file["round"]["updates_goal"] = json!(3);
    file["round"]["updates_min"] = json!(3);
    let refused = world.create_job(&file).await.refused(ProblemType::JobFileInvalid);
    assert!(refused.detail.contains("leave out updates_goal"), "{}", refused.detail);
}
