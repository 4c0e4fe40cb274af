//! Notifications, against a webhook of our own.

use axum::http::StatusCode;
use serde_json::json;
use tributary_server::notify::Sender;

use crate::support::{NOW_MS, WEIGHTS, Webhook, World, evaluated_job};

/// Three rounds find nobody; the receiver is away at first, and the coordinator restarts meanwhile.
#[tokio::test]
async fn three_abandoned_rounds_in_a_row_are_one_notification_that_survives_a_restart_and_a_refusal() {
    let (webhook, settings) = Webhook::start().await;
    let mut world = World::start().await;
    world.set_notify(settings.clone());
    world.restart().await;
    let sender = Sender::new(settings).unwrap();
    let job = world.job(json!({ "round": { "selection_timeout_ms": 1_000 } })).await;
    world.drive().await;
    for round in 1..=5 {
        let due = world.app().db.read().await.unwrap().due_notices(i64::MAX, 9).await.unwrap();
        assert_eq!(due.len(), usize::from(round > 3), "before round {round} is abandoned");
        world.pass_ms(1_000).await;
        world.pass_ms(4_000).await;
    }
    webhook.answers.lock().unwrap().push_back(StatusCode::BAD_GATEWAY);
    assert_eq!(sender.send_due(world.app()).await.unwrap(), 0);
    world.restart().await;
    assert_eq!(sender.send_due(world.app()).await.unwrap(), 0, "it is not due again yet");
    world.hand.advance_ms(10_000);
    assert_eq!(sender.send_due(world.app()).await.unwrap(), 1);
    world.hand.advance_ms(86_400_000);
    assert_eq!(sender.send_due(world.app()).await.unwrap(), 0, "what was taken is not sent again");
    let taken = webhook.taken.lock().unwrap().clone();
    let [(body, seconds)] = &taken[..] else { panic!("{taken:?}") };
    assert_eq!((&body["kind"], &body["job"]["name"]), (&json!("rounds_abandoned"), &json!("steps")));
    assert_eq!(body["job"]["id"], json!(job.head.id));
    assert_eq!(body["text"], "3 rounds of steps were abandoned in a row, the last because of selection_timeout");
    assert!(body["id"].as_str().unwrap().starts_with("notice_"), "a receiver recognises repetitions");
    assert!(seconds.parse::<i64>().unwrap() * 1_000 > NOW_MS, "signed when it was sent");
}

#[tokio::test]
async fn a_completed_job_and_a_reached_target_are_notified_and_nothing_is_without_a_webhook() {
    let (webhook, settings) = Webhook::start().await;
    let mut world = World::start().await;
    let sender = Sender::new(settings.clone()).unwrap();
    let [trainer, evaluator] = world.devices().await;
    let evaluator = evaluator.with("evaluator", "yes");
    for (name, has_webhook) in [("silent", false), ("told", true)] {
        if has_webhook {
            world.set_notify(settings.clone());
            world.restart().await;
        }
        world.job(json!({ "name": name, "stop": { "rounds": 1 } })).await;
        let [work] = world.assign([&trainer]).await;
        trainer.contribute(&work, &[0.5; WEIGHTS], 10).await;
        world.drive().await;
        sender.send_due(world.app()).await.unwrap();
    }
    assert_eq!(webhook.kinds(), ["job_completed"]);
    world.create_job(&evaluated_job(&json!({ "name": "target", "stop": { "accuracy": 0.8 } }))).await.value();
    let [work] = world.assign([&trainer]).await;
    trainer.contribute(&work, &[0.5; WEIGHTS], 10).await;
    world.drive().await;
    let [work] = world.assign([&evaluator]).await;
    let report = json!({ "examples": 1000, "loss": 1.0, "accuracy": 0.85, "evaluate_ms": 5 });
    evaluator.evaluate(work.id, &report).await.value();
    world.drive().await;
    sender.send_due(world.app()).await.unwrap();
    assert_eq!(webhook.kinds(), ["job_completed", "target_reached"]);
    let text = webhook.taken.lock().unwrap()[1].0["text"].clone();
    assert_eq!(text, "target has reached its target with an accuracy of at least 82.65 %");
}
