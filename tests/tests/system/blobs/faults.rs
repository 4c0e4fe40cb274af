//! A store that fails or is slow: 503 with a retry window, and nothing that was acknowledged is lost.

use std::time::Duration;

use futures_util::future::join_all;
use object_store::ObjectStoreExt;
use reqwest::Method;
use serde_json::json;
use tributary_protocol::operator::Job;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AbandonReason, Phase};

use super::faulty::{Call, Fault};
use super::{counts, faulty, in_memory, objects};
use crate::support::{Answer, WEIGHTS, World, delta_file, figures, job_file};

#[tokio::test]
async fn calls_of_the_store_and_their_failures_are_measured() {
    let (faulty, store) = faulty();
    let world = World::start_with_blobs(Some(store)).await;
    world.job(json!({})).await;
    faulty.set(Fault::Refuses(Call::Put));
    world.create_job(&job_file(&json!({ "name": "another" }))).await.refused(ProblemType::Unavailable);
    let page = Answer::to(world.request(Method::GET, "/metrics")).await;
    let text = String::from_utf8(page.body.to_vec()).unwrap();
    for line in [
        "tributary_blob_store_seconds_count{call=\"put\"} 2",
        "tributary_blob_store_failures_total{call=\"put\"} 1",
        "tributary_blob_store_failures_total{call=\"read\"} 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
}

#[tokio::test]
async fn what_the_store_cannot_do_now_is_asked_for_again_and_counts_once() {
    let (faulty, store) = faulty();
    let mut world = World::start_with_blobs(Some(store.clone())).await;

    faulty.set(Fault::Refuses(Call::Put));
    let refused = world.create_job(&job_file(&json!({}))).await.refused(ProblemType::Unavailable);
    assert!(refused.retry_after_ms.is_some());
    faulty.set(Fault::None);
    let job = world.job(json!({})).await;

    let device = world.device().await;
    world.drive().await;
    let [work] = world.assign([&device]).await;
    faulty.set(Fault::Refuses(Call::Get));
    let path = format!("/jobs/{}/models/0", job.head.id);
    let refused = Answer::to(device.request(Method::GET, &path)).await.refused(ProblemType::Unavailable);
    assert!(refused.retry_after_ms.is_some());

    faulty.set(Fault::Refuses(Call::Put));
    let body = delta_file(&work, &[0.5; WEIGHTS]);
    let refused = device.put_update(work.id, &figures(3), body.clone()).await.refused(ProblemType::Unavailable);
    assert!(refused.retry_after_ms.is_some());
    faulty.set(Fault::None);
    device.contribute(&work, &[0.5; WEIGHTS], 3).await;
    // The same bytes again, and other bytes: neither touches what was stored.
    device.contribute(&work, &[0.5; WEIGHTS], 3).await;
    let other = delta_file(&work, &[1.0; WEIGHTS]);
    device.put_update(work.id, &figures(3), other).await.refused(ProblemType::UpdateConflict);
    assert_eq!(counts(&store).await, (1, 1));

    // Reading the base model, reading the update (it is no longer in memory) and storing the new model fail in turn.
    for fault in [Fault::Refuses(Call::Get), Fault::Refuses(Call::Put)] {
        world.restart().await;
        faulty.set(fault);
        world.app().driver().run_once().await.unwrap_err();
        assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Aggregating);
    }
    // Updates that cannot be deleted do not hold the round up.
    faulty.set(Fault::Refuses(Call::Delete));
    world.drive().await;
    assert_eq!(counts(&store).await, (1, 2), "an orphan is left");
    faulty.set(Fault::None);
    let expected: Vec<f32> = world.weights(job.head.id, 0).await.iter().map(|value| value + 0.5).collect();
    assert_eq!(world.weights(job.head.id, 1).await, expected);
    world.check_books(job.head.id).await;
}

/// The round says why it was abandoned, instead of trying again for ever; its job goes on.
#[tokio::test]
async fn a_damaged_body_is_noticed_and_not_counted() {
    for damage in 0..3 {
        let store = in_memory();
        let mut world = World::start_with_blobs(Some(store.clone())).await;
        let job = world.job(json!({})).await;
        let device = world.device().await;
        world.drive().await;
        let [work] = world.assign([&device]).await;
        device.contribute(&work, &[0.5; WEIGHTS], 3).await;
        world.restart().await;
        let objects = objects(&store).await;
        let update = &objects.iter().find(|object| object.location.as_ref().contains("/update/")).unwrap().location;
        let right = delta_file(&work, &[0.5; WEIGHTS]);
        match damage {
            0 => drop(store.objects.put(update, delta_file(&work, &[0.25; WEIGHTS]).into()).await.unwrap()),
            1 => drop(store.objects.put(update, right[..right.len() - 1].to_vec().into()).await.unwrap()),
            _ => store.objects.delete(update).await.unwrap(),
        }
        world.drive().await;
        let round = world.round(job.head.id, 1).await;
        assert_eq!((round.phase, round.reason), (Phase::Abandoned, Some(AbandonReason::Fault)), "damage {damage}");
        let job: Job = world.look(&format!("/jobs/{}", job.head.id)).await.ok();
        assert_eq!(job.head.model_version, Some(0));
        world.check_books(job.head.id).await;
    }
}

#[tokio::test]
async fn of_the_same_update_sent_many_times_at_once_one_is_kept() {
    let store = in_memory();
    let world = World::start_with_blobs(Some(store.clone())).await;
    world.job(json!({})).await;
    let device = world.device().await;
    world.drive().await;
    let [work] = world.assign([&device]).await;
    let (weight, body) = (figures(3), delta_file(&work, &[0.5; WEIGHTS]));
    let sent = (0..8).map(|_| device.put_update(work.id, &weight, body.clone()));
    let answers = join_all(sent).await;
    assert!(answers.iter().any(|answer| answer.status == 200));
    for answer in answers.into_iter().filter(|answer| answer.status != 200) {
        answer.refused(ProblemType::UploadSuperseded);
    }
    device.put_update(work.id, &weight, body).await.value();
    assert_eq!(counts(&store).await, (1, 1));
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_given_up_in_time() {
    let (faulty, mut store) = faulty();
    store.call_timeout = Duration::from_millis(1);
    let world = World::start_with_blobs(Some(store)).await;
    faulty.set(Fault::Silent(Call::Put));
    world.create_job(&job_file(&json!({}))).await.refused(ProblemType::Unavailable);
    faulty.set(Fault::None);
    let job = world.job(json!({})).await;
    faulty.set(Fault::Silent(Call::Get));
    world.look(&format!("/jobs/{}/models/0", job.head.id)).await.refused(ProblemType::Unavailable);
    faulty.set(Fault::Silent(Call::Delete));
    // The name is taken, so the model that was put for it is deleted, in vain.
    world.create_job(&job_file(&json!({}))).await.refused(ProblemType::NameTaken);
}

/// Plays one round of one client against a store with a fault; whatever is refused is asked for again. Answers the
/// model's weights less the first ones', and how many calls it took.
async fn play(fault: Fault) -> (Vec<f32>, usize) {
    let (faulty, store) = faulty();
    let mut world = World::start_with_blobs(Some(store.clone())).await;
    faulty.set(fault);
    let job = loop {
        let answer = world.create_job(&job_file(&json!({}))).await;
        if answer.status == 503 {
            continue;
        }
        break answer.ok::<tributary_protocol::operator::Job>();
    };
    let device = world.device().await;
    world.drive().await;
    let [work] = world.assign([&device]).await;
    let path = format!("/jobs/{}/models/0", job.head.id);
    while Answer::to(device.request(Method::GET, &path)).await.status != 200 {}
    while device.put_update(work.id, &figures(3), delta_file(&work, &[0.5; WEIGHTS])).await.status == 503 {}
    world.restart().await;
    while world.app().driver().run_once().await.is_err() {}
    let calls = faulty.calls();
    faulty.set(Fault::None);
    assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Committed);
    world.check_books(job.head.id).await;
    let (first, second) = (world.weights(job.head.id, 0).await, world.weights(job.head.id, 1).await);
    (second.iter().zip(first).map(|(second, first)| second - first).collect(), calls)
}

#[tokio::test]
async fn whichever_call_fails_the_round_comes_out_the_same() {
    let (expected, calls) = play(Fault::None).await;
    assert_eq!(expected, [0.5; WEIGHTS]);
    assert!(calls >= 7, "put, get, put, get, get, put, delete: {calls}");
    for number in 0..calls {
        assert_eq!(play(Fault::RefusesNth(number)).await.0, expected, "call {number} refused");
        assert_eq!(play(Fault::LosesNth(number)).await.0, expected, "answer {number} lost");
    }
}
