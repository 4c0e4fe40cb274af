//! The selection of the cohort: who is drawn, and who is told why it waits.

use serde_json::json;
use tributary_protocol::device::{CheckInResponse, WaitsFor};
use tributary_protocol::operator::{Client, Page};
use tributary_protocol::state::Phase;

use crate::support::{Device, WEIGHTS, World, evaluated_job};

const STEP: [f32; WEIGHTS] = [0.5; WEIGHTS];

#[tokio::test]
async fn only_clients_with_the_wanted_attributes_and_examples_are_drawn() {
    let world = World::start().await;
    let eligibility = json!({ "attributes": { "platform": "android" }, "examples_min": 5 });
    let job = world.job(json!({ "eligibility": eligibility })).await;
    let [a, b, c, d] = world.devices().await;
    let none = a;
    let other = b.with("platform", "ios");
    let poor = c.with("platform", "android").holding(4);
    let right = d.with("platform", "android").holding(5);
    let work = world.gather(&[&none, &other, &poor, &right]).await;
    assert_eq!(work.iter().map(Option::is_some).collect::<Vec<_>>(), [false, false, false, true]);

    let known: Page<Client> = world.look("/clients?population=devices").await.ok();
    assert_eq!(known.items[2].examples, 4, "what a client says of itself is remembered");
    assert_eq!(known.items[3].attributes.as_map()["platform"], "android");
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn a_client_rests_for_the_rounds_that_the_job_asks_for() {
    let world = World::start().await;
    world.job(json!({ "eligibility": { "separation_rounds": 2 } })).await;
    let devices: [_; 3] = world.devices().await;
    let [a, b, c] = &devices;
    // With a rest of two rounds and three clients, the order of the first three rounds repeats itself.
    let mut drawn = Vec::new();
    for _ in 0..6 {
        let work = world.gather(&[a, b, c]).await;
        let (place, assignment) =
            work.iter().enumerate().find_map(|(place, work)| Some((place, work.as_ref()?))).expect("one is rested");
        devices[place].contribute(assignment, &STEP, 10).await;
        world.drive().await;
        drawn.push(place);
    }
    assert_eq!(drawn[..3], drawn[3..]);
    let mut first = drawn[..3].to_vec();
    first.sort_unstable();
    assert_eq!(first, [0, 1, 2]);
}

#[tokio::test]
async fn evaluators_never_train_and_others_never_evaluate() {
    let world = World::start().await;
    let job: tributary_protocol::operator::Job = world.create_job(&evaluated_job(&json!({}))).await.ok();
    let [trainer, evaluator] = world.devices().await;
    let evaluator = evaluator.with("evaluator", "yes");
    let work = world.gather(&[&trainer, &evaluator]).await;
    let assignment = work[0].as_ref().expect("the trainer is drawn");
    assert!(work[1].is_none(), "an evaluator does not train");
    trainer.contribute(assignment, &STEP, 10).await;
    world.drive().await;
    assert_eq!(world.evaluation(job.head.id, 1).await.phase, Phase::Selecting);
    // The next training round draws the trainer again, the evaluation only the evaluator.
    let [next, measuring] = world.assign([&trainer, &evaluator]).await;
    assert_eq!((next.task.as_str(), next.round, next.model_version), ("train", 2, 1));
    assert_eq!((measuring.task.as_str(), measuring.round, measuring.model_version), ("evaluate", 1, 1));
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn a_client_has_one_assignment_at_a_time_and_gets_it_again_when_the_answer_was_lost() {
    let world = World::start().await;
    let one = world.job(json!({ "name": "one" })).await;
    let two = world.job(json!({ "name": "two" })).await;
    let device = world.device().await;
    let [assignment] = world.assign([&device]).await;
    let CheckInResponse::Assigned(again) = device.check_in(0).await else { panic!("it has work") };
    assert_eq!(again.id, assignment.id);
    let open = [world.round(one.head.id, 1).await, world.round(two.head.id, 1).await];
    assert_eq!(open.iter().filter(|round| round.phase == Phase::Training).count(), 1);
    world.check_books(one.head.id).await;
    world.check_books(two.head.id).await;
}

#[tokio::test]
async fn clients_of_another_population_are_never_drawn() {
    let world = World::start().await;
    world.operate(reqwest::Method::POST, "/populations", &json!({ "name": "others" })).await.value();
    world.job(json!({ "population": "others" })).await;
    let device = world.device().await;
    assert!(world.gather(&[&device]).await[0].is_none());
}

/// What a client without work is told.
async fn told(device: &Device) -> WaitsFor {
    match device.check_in(0).await {
        CheckInResponse::Retry { waits_for, .. } => waits_for.expect("the fleet is small"),
        CheckInResponse::Assigned(work) => panic!("{work:?}"),
    }
}

#[tokio::test]
async fn a_client_without_work_learns_what_it_waits_for() {
    let world = World::start().await;
    let device = world.device().await;
    assert_eq!(told(&device).await, WaitsFor::Job);

    let round = json!({ "updates_goal": 3, "updates_min": 2, "over_selection": 1.0, "selection_timeout_ms": 60_000 });
    let job = world.job(json!({ "name": "one", "round": round, "eligibility": { "examples_min": 5 } })).await;
    let name = job.file.name.clone();
    assert_eq!(told(&device).await, WaitsFor::NextRound { job: name.clone() });
    world.drive().await;
    world.hand.advance_ms(10_000);
    let seen =
        WaitsFor::Clients { job: name.clone(), round: 1, available: 1, needed: 3, minimum: 2, ends_in_ms: 50_000 };
    assert_eq!(told(&device.clone().holding(9)).await, seen);

    let poor = world.device().await.holding(4);
    let reason = "4 examples, where the job requires 5".to_owned();
    assert_eq!(told(&poor).await, WaitsFor::Admission { job: name, reason });
    let id = poor.id;
    world
        .operate(reqwest::Method::PUT, &format!("/clients/{id}/standing"), &json!({ "standing": "quarantined" }))
        .await;
    assert_eq!(told(&poor).await, WaitsFor::Release);
}

/// Goal: the draw by utility reads what clients reported, from the database. Method: two clients report different
/// losses in a round of their own; then both wait, and one is drawn.
#[tokio::test]
async fn a_client_with_a_large_loss_is_drawn_by_its_utility() {
    for (losses, expected) in [([0.1, 9.0], [false, true]), ([9.0, 0.1], [true, false])] {
        let world = World::start().await;
        let selection = json!({ "kind": "utility", "exploration": 0.0, "exploration_min": 0.0 });
        let job = world.job(json!({ "round": { "selection": selection } })).await;
        let devices: [Device; 2] = world.devices().await;
        for (device, loss) in devices.iter().zip(losses) {
            let [assignment] = world.assign([device]).await;
            let figures = json!({ "weight": 10, "loss": loss, "steps": 1, "train_ms": 1 });
            device.put_update(assignment.id, &figures, crate::support::delta_file(&assignment, &STEP)).await.value();
            world.drive().await;
        }
        let work = world.gather(&[&devices[0], &devices[1]]).await;
        assert_eq!(work.iter().map(Option::is_some).collect::<Vec<_>>(), expected);
        world.check_books(job.head.id).await;
    }
}

#[tokio::test]
async fn a_poisson_draw_takes_each_waiting_client_by_itself() {
    let world = World::start().await;
    let round = json!({ "updates_goal": 2, "updates_min": 1, "selection": { "kind": "poisson", "rate": 0.3 }, "backoff_ms": 1 });
    let job = world.job(json!({ "round": round })).await;
    let devices: [Device; 2] = world.devices().await;
    let mut drawn = [0; 3];
    for _ in 0..12 {
        let work = world.gather(&[&devices[0], &devices[1]]).await;
        drawn[work.iter().flatten().count()] += 1;
        for (device, assignment) in devices.iter().zip(&work) {
            if let Some(assignment) = assignment {
                device.contribute(assignment, &STEP, 10).await;
            }
        }
        world.drive().await;
        world.pass_ms(10_000).await;
    }
    assert!(drawn[0] > 0 && drawn[1] > 0, "cohorts of 0, 1 and 2 clients: {drawn:?}");
    world.check_books(job.head.id).await;
}
