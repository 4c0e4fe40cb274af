//! Notifications, against a webhook of our own.

use axum::http::StatusCode;
use serde_json::json;
use tributary_engine::story::{Finding, SETTLED_MS};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::HealthKind;
use tributary_server::db::RunEnd;
use tributary_server::notify::{Format, NotifySettings, Sender};
use tributary_server::{scheduled, watch};

use crate::support::{Device, NOW_MS, WEIGHTS, Webhook, World, delta_file, evaluated_job, figures};

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

/// A class of devices is shut out, and later its updates count again.
#[tokio::test]
async fn a_finding_that_stays_is_told_once_to_all_and_to_its_population_and_so_is_its_end() {
    let (everything, settings) = Webhook::start().await;
    let (own, own_settings) = Webhook::start().await;
    let (other, other_settings) = Webhook::start().await;
    let receiver = |settings: &NotifySettings| settings.everything.clone().unwrap();
    let populations = [("devices", &own_settings), ("others", &other_settings)];
    let populations = populations.map(|(name, settings)| (name.parse().unwrap(), receiver(settings))).into();
    let settings = NotifySettings { populations, ..settings };
    let mut world = World::start().await;
    world.set_notify(settings.clone());
    world.restart().await;
    let sender = Sender::new(settings).unwrap();
    let hour_ms = 3_600_000;
    let round = json!({
        "updates_goal": 3, "over_selection": 1.3, "deadline_ms": hour_ms, "selection_timeout_ms": hour_ms,
    });
    let job = world.job(json!({ "round": round })).await;
    let devices: [Device; 4] = world.devices().await;
    let [a, b, c, slow] = devices;
    let fast = [a, b, c].map(|device| device.with("ram", "8"));
    let slow = slow.with("ram", "2");
    let play = async |counts: bool| {
        let [x, y, z, unlucky] = world.assign([&fast[0], &fast[1], &fast[2], &slow]).await;
        world.hand.advance_ms(1_300);
        let reports = [(&fast[0], &x), (&fast[1], &y), if counts { (&slow, &unlucky) } else { (&fast[2], &z) }];
        for (device, work) in reports {
            device.contribute(work, &[0.1; WEIGHTS], 10).await;
        }
        world.drive().await;
    };
    for _ in 0..8 {
        play(false).await;
    }
    let look = async || {
        // The lease on the job has ended with the minute that has passed.
        world.drive().await;
        watch::look(world.app()).await.unwrap();
        sender.send_due(world.app()).await.unwrap()
    };
    assert_eq!(look().await, 0, "it may pass");
    world.hand.advance_ms(SETTLED_MS);
    assert_eq!((look().await, look().await), (2, 0));
    for webhook in [&everything, &own] {
        let taken = webhook.taken.lock().unwrap().clone();
        let [(body, _)] = &taken[..] else { panic!("{taken:?}") };
        assert_eq!((&body["kind"], &body["health"]["kind"]), (&json!("health"), &json!("class_shut_out")));
        let text = body["text"].as_str().unwrap();
        assert!(text.starts_with("steps: 1 client of ram=2 was drawn 8 times"), "{text}");
        assert_eq!(body["job"]["id"], json!(job.head.id));
    }
    for _ in 0..4 {
        play(true).await;
    }
    world.hand.advance_ms(SETTLED_MS);
    assert_eq!(look().await, 0, "it may come back");
    world.hand.advance_ms(SETTLED_MS);
    assert_eq!((look().await, look().await), (2, 0));
    assert_eq!(everything.kinds(), ["health", "recovered"]);
    let text = own.taken.lock().unwrap()[1].0["text"].clone();
    assert_eq!(text, "steps: recovered, no longer class shut out");
    assert_eq!(other.kinds(), [""; 0], "it concerns another population");
}

#[tokio::test]
async fn slack_gets_a_text_and_a_finding_of_a_job_at_rest_is_forgotten() {
    let (webhook, mut settings) = Webhook::start().await;
    settings.everything.as_mut().unwrap().format = Format::Slack;
    let mut world = World::start().await;
    world.set_notify(settings.clone());
    world.restart().await;
    let sender = Sender::new(settings).unwrap();
    let job = world.job(json!({ "stop": { "rounds": 1 } })).await;
    let device = world.device().await;
    let [work] = world.assign([&device]).await;
    let mut tx = world.app().db.begin().await.unwrap();
    let finding = Finding { kind: HealthKind::LossRises, since_at_ms: 1, is_told: true, gone_at_ms: None };
    tx.store_finding(&job.head.id.to_string(), finding).await.unwrap();
    tx.commit().await.unwrap();
    device.contribute(&work, &[0.5; WEIGHTS], 10).await;
    world.drive().await;
    watch::look(world.app()).await.unwrap();
    assert_eq!(world.app().db.read().await.unwrap().findings().await.unwrap(), []);
    assert_eq!(sender.send_due(world.app()).await.unwrap(), 1);
    assert_eq!(webhook.taken.lock().unwrap()[0].0, json!({ "text": "steps is completed" }));
}

#[tokio::test]
async fn a_quarantined_client_and_scheduled_work_that_fails_and_recovers_are_notified() {
    let (webhook, settings) = Webhook::start().await;
    let mut world = World::start().await;
    world.set_notify(settings.clone());
    world.restart().await;
    let sender = Sender::new(settings).unwrap();
    world.job(json!({ "round": { "updates_goal": 2, "updates_min": 1 } })).await;
    let [bad, good] = world.devices().await;
    for _ in 0..3 {
        let [theirs, ours] = world.assign([&bad, &good]).await;
        let broken = delta_file(&theirs, &[f32::NAN; WEIGHTS]);
        bad.put_update(theirs.id, &figures(10), broken).await.refused(ProblemType::UpdateRejected);
        good.contribute(&ours, &[0.5; WEIGHTS], 10).await;
        world.pass_ms(10_000).await;
    }
    sender.send_due(world.app()).await.unwrap();
    assert_eq!(webhook.kinds(), ["client_quarantined"]);
    let text = webhook.taken.lock().unwrap()[0].0["text"].clone();
    assert_eq!(text, "client 1 of devices is quarantined: its last 3 updates were rejected");

    // The run before failed.
    scheduled::run_due(world.app()).await.unwrap();
    let failed = RunEnd { started_at_ms: 1, ended_at_ms: 2, failed: true, outcome: "the disk is full".into() };
    let mut tx = world.app().db.begin().await.unwrap();
    let schedules = tx.schedules("", 9).await.unwrap();
    let retention = schedules.iter().find(|work| work.name == "retention").unwrap();
    let next_at_ms = retention.next_at_ms;
    assert!(tx.claim_run("retention", next_at_ms, next_at_ms, "one", 1).await.unwrap());
    tx.end_run("retention", "one", &failed).await.unwrap();
    tx.commit().await.unwrap();
    world.hand.advance_ms(3_600_000);
    scheduled::run_due(world.app()).await.unwrap();
    sender.send_due(world.app()).await.unwrap();
    assert_eq!(webhook.kinds()[1..], ["work_recovered"]);
}
