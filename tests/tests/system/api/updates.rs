//! Updates that a job does not accept, and updates that come twice.

use serde_json::json;
use tributary_protocol::device::AssignmentStatus;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AssignmentState, Phase};

use crate::support::{WEIGHTS, World, bytes_of_tensors, delta_file, figures};

const STEP: [f32; WEIGHTS] = [0.5; WEIGHTS];

/// Goal: each wrong update is refused with a reason that names what is wrong, is counted as rejected, and does not
/// keep the right update of another client from making the next version.
/// Method: one round per wrong update, with one sender of it and one of a right one.
#[tokio::test]
async fn an_update_that_does_not_fit_is_rejected_by_name_and_harms_nobody() {
    let world = World::start().await;
    let job = world.job(json!({ "round": { "updates_goal": 2, "updates_min": 1 } })).await;
    let [bad, good] = world.devices().await;
    let (w, b): (&[f32], &[f32]) = (&[0.5; 4], &[0.5; 2]);
    let (w_shape, b_shape): (&[usize], &[usize]) = (&[2, 2], &[2]);
    let poison = |value: f32| [0.0, value];
    let stranger = format!("job_{}", "0".repeat(32));
    for number in 1..=16 {
        let [first, second] = world.assign([&bad, &good]).await;
        let (this_job, base) = (job.head.id.to_string(), (number - 1).to_string());
        let meta = [("format", "tributary-update-1"), ("codec", "f32"), ("job", &*this_job), ("base_version", &*base)];
        let with = |key: &str, value| meta.map(|(name, old)| (name, if name == key { value } else { old }));
        let fit = |w: &[f32], b: &[f32]| bytes_of_tensors(&[("w", w_shape, w), ("b", b_shape, b)], &meta);
        let tagged = |tags: &[(&str, &str)]| bytes_of_tensors(&[("w", w_shape, w), ("b", b_shape, b)], tags);
        let (body, told, named) = match number {
            1 => (bytes_of_tensors(&[("w", w_shape, w)], &meta), figures(10), "\"b\""),
            2 => (
                bytes_of_tensors(&[("w", w_shape, w), ("b", b_shape, b), ("c", b_shape, b)], &meta),
                figures(10),
                "\"c\"",
            ),
            3 => (bytes_of_tensors(&[("w", &[4], w), ("b", b_shape, b)], &meta), figures(10), "\"w\""),
            4 => (tagged(&with("base_version", "99")), figures(10), "base version"),
            5 => (tagged(&with("job", &stranger)), figures(10), "job"),
            6 => (tagged(&with("codec", "f16")), figures(10), "codec"),
            7 => (tagged(&with("format", "x")), figures(10), "format"),
            8 => (tagged(&[]), figures(10), "metadata"),
            9 => (fit(w, &poison(f32::NAN)), figures(10), "not finite"),
            10 => (fit(w, &poison(f32::INFINITY)), figures(10), "not finite"),
            11 => (fit(w, &poison(-8.001)), figures(10), "magnitude"),
            12 => (fit(w, b), figures(0), "weight is 0"),
            13 => (fit(w, b), figures(1_001), "1001"),
            14 => (fit(w, b), json!({ "weight": 1, "loss": "NaN", "steps": 1, "train_ms": 1 }), "loss"),
            15 => (b"no tensors".to_vec(), figures(10), "header"),
            _ => ([fit(w, b), vec![0]].concat(), figures(10), "last tensor"),
        };
        let refused = bad.put_update(first.id, &told, body).await.refused(ProblemType::UpdateRejected);
        assert!(refused.detail.contains(named), "{number}: {} does not name {named}", refused.detail);
        let again = bad.put_update(first.id, &figures(10), delta_file(&first, &STEP)).await;
        assert_eq!(again.refused(ProblemType::UpdateRejected).detail, refused.detail, "a rejection is final");

        good.contribute(&second, &STEP, 10).await;
        world.drive().await;
        let round = world.round(job.head.id, number).await;
        assert_eq!((round.phase, round.reported, round.rejected), (Phase::Committed, 1, 1));
        let rejected = &world.assignments(job.head.id, number).await[0];
        assert_eq!((rejected.state, rejected.reason.as_deref()), (AssignmentState::Rejected, Some(&*refused.detail)));
        world.release(&bad).await;
    }
    let expected: Vec<f32> = world.weights(job.head.id, 0).await;
    let after = world.weights(job.head.id, 16).await;
    assert!(after.iter().zip(expected).all(|(after, before)| (after - before - 8.0).abs() < 1e-5));
    world.check_books(job.head.id).await;
}

/// Goal: a client may keep its training loss to itself, unless the job's rule reads it. Method: one of two updates has
/// none; the round's mean is that of the other. With q-FedAvg it is refused.
#[tokio::test]
async fn a_loss_is_told_or_not_unless_a_rule_reads_it() {
    let untold = json!({ "weight": 30, "steps": 1, "train_ms": 1 });
    let world = World::start().await;
    let job = world.job(json!({ "round": { "updates_goal": 2 } })).await;
    let [a, b] = world.devices().await;
    let [first, second] = world.assign([&a, &b]).await;
    a.put_update(first.id, &untold, delta_file(&first, &STEP)).await.value();
    b.contribute(&second, &STEP, 10).await;
    world.drive().await;
    let round = world.round(job.head.id, 1).await;
    assert_eq!((round.phase, round.weight, round.training_loss), (Phase::Committed, 40, Some(0.5)));
    world.check_books(job.head.id).await;

    let world = World::start().await;
    world.job(json!({ "aggregation": { "combine": { "kind": "q_fedavg", "q": 1.0 } } })).await;
    let device = world.device().await;
    let [assignment] = world.assign([&device]).await;
    let answer = device.put_update(assignment.id, &untold, delta_file(&assignment, &STEP)).await;
    assert!(answer.refused(ProblemType::UpdateRejected).detail.contains("no training loss"));
}

#[tokio::test]
async fn values_and_weights_at_the_caps_are_taken() {
    let world = World::start().await;
    let job = world.job(json!({})).await;
    let device = world.device().await;
    let [assignment] = world.assign([&device]).await;
    device.contribute(&assignment, &[8.0, -8.0, 0.0, -0.0, f32::MIN_POSITIVE, 8.0], 1_000).await;
    world.drive().await;
    assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Committed);
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn the_same_update_twice_gets_the_same_answer_and_counts_once() {
    let world = World::start().await;
    let job = world.job(json!({ "round": { "updates_goal": 2 } })).await;
    let [a, b] = world.devices().await;
    let [first, second] = world.assign([&a, &b]).await;
    let send = async || a.put_update(first.id, &figures(10), delta_file(&first, &STEP)).await;
    let answer = send().await.value();
    assert_eq!(send().await.value(), answer);
    let status: AssignmentStatus = a.status(first.id).await.ok();
    assert!(status.reported, "the client can learn that its update arrived");
    assert_eq!(world.round(job.head.id, 1).await.reported, 1);
    b.contribute(&second, &STEP, 30).await;
    world.drive().await;
    assert_eq!(send().await.value(), answer, "after the commit too");
    let round = world.round(job.head.id, 1).await;
    assert_eq!((round.phase, round.reported, round.weight), (Phase::Committed, 2, 40));
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn another_update_for_the_same_assignment_is_a_conflict() {
    let world = World::start().await;
    let job = world.job(json!({ "round": { "updates_goal": 2 } })).await;
    let [a, b] = world.devices().await;
    let [first, second] = world.assign([&a, &b]).await;
    a.contribute(&first, &STEP, 10).await;
    let other = delta_file(&first, &[7.0; WEIGHTS]);
    a.put_update(first.id, &figures(10), other.clone()).await.refused(ProblemType::UpdateConflict);
    a.put_update(first.id, &figures(10), b"damaged".to_vec()).await.refused(ProblemType::UpdateConflict);
    let before = world.weights(job.head.id, 0).await;
    b.contribute(&second, &STEP, 10).await;
    world.drive().await;
    a.put_update(first.id, &figures(10), other).await.refused(ProblemType::UpdateConflict);
    let expected: Vec<f32> = before.iter().map(|weight| weight + 0.5).collect();
    assert_eq!(world.weights(job.head.id, 1).await, expected, "the first update is the one that counts");
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn an_assignment_of_somebody_else_is_forbidden_and_an_unknown_one_not_found() {
    let world = World::start().await;
    let job = world.job(json!({})).await;
    let [owner, thief] = world.devices().await;
    let [assignment] = world.assign([&owner]).await;
    let body = delta_file(&assignment, &STEP);
    thief.put_update(assignment.id, &figures(10), body.clone()).await.refused(ProblemType::Forbidden);
    thief.fail(assignment.id, "other").await.refused(ProblemType::Forbidden);
    thief.status(assignment.id).await.refused(ProblemType::Forbidden);
    let report = json!({ "examples": 1, "loss": 1.0, "evaluate_ms": 1 });
    thief.evaluate(assignment.id, &report).await.refused(ProblemType::Forbidden);
    owner.evaluate(assignment.id, &report).await.refused(ProblemType::WrongState);
    let unknown = format!("assignment_{}", "0".repeat(32)).parse().unwrap();
    owner.put_update(unknown, &figures(10), body).await.refused(ProblemType::NotFound);
    owner.contribute(&assignment, &STEP, 10).await;
    world.drive().await;
    assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Committed);
    world.check_books(job.head.id).await;
}
