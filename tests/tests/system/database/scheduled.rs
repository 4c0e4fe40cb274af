//! Work by the clock, and what retention deletes.

use tributary_engine::round::measured_centrally;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::operator::ModelVersion;
use tributary_protocol::state::{AssignmentState, JobState, Phase};
use tributary_server::blob::model_key;
use tributary_server::db::{Db, EvaluationSummary, RunEnd, Transition};

use super::stored::{
    assigned, evaluation, job_id, population, secret, start_round, store_client, token, traffic, training,
};

pub(super) async fn work_is_arranged_once(db: &Db) {
    let mut tx = db.begin().await.unwrap();
    tx.insert_schedule("sweep", "7 * * * *", "UTC", 100).await.unwrap();
    tx.insert_schedule("sweep", "8 * * * *", "UTC", 200).await.unwrap();
    tx.insert_schedule("air", "0 0 * * *", "Europe/Berlin", 300).await.unwrap();
    let listed = tx.schedules("", 10).await.unwrap();
    let seen: Vec<_> = listed.iter().map(|work| (work.name.as_str(), work.cron.as_str(), work.next_at_ms)).collect();
    assert_eq!(seen, [("air", "0 0 * * *", 300), ("sweep", "7 * * * *", 100)]);
    assert!(listed.iter().all(|work| work.last.is_none()));
    assert_eq!(tx.schedules("air", 10).await.unwrap(), listed[1..]);
    assert_eq!(tx.schedules("", 1).await.unwrap(), listed[..1]);
}

pub(super) async fn of_many_that_claim_a_run_one_gets_it(db: &Db) {
    let mut tx = db.begin().await.unwrap();
    tx.insert_schedule("sweep", "7 * * * *", "UTC", 100).await.unwrap();
    tx.commit().await.unwrap();
    let claims: Vec<_> = (0..8)
        .map(|number| {
            let db = db.clone();
            tokio::spawn(async move {
                let mut tx = db.begin().await.unwrap();
                let claimed = tx.claim_run("sweep", 100, 200, &format!("node-{number}"), 150).await.unwrap();
                tx.commit().await.unwrap();
                claimed
            })
        })
        .collect();
    let mut claimed = 0;
    for claim in claims {
        claimed += u32::from(claim.await.unwrap());
    }
    assert_eq!(claimed, 1);
    assert!(
        !db.begin().await.unwrap().claim_run("air", 100, 200, "node-1", 150).await.unwrap(),
        "there is no such work"
    );
}

pub(super) async fn a_run_is_ended_by_who_began_it(db: &Db) {
    let mut tx = db.begin().await.unwrap();
    tx.insert_schedule("sweep", "7 * * * *", "UTC", 100).await.unwrap();
    assert!(tx.claim_run("sweep", 100, 200, "a", 150).await.unwrap());
    let run = tx.schedules("", 1).await.unwrap().remove(0).last.unwrap();
    assert_eq!((run.started_at_ms, run.node.as_str(), run.ended_at_ms, run.failed), (150, "a", None, false));
    let end = |started_at_ms| RunEnd { started_at_ms, ended_at_ms: 170, failed: true, outcome: "no".into() };
    assert!(!tx.end_run("sweep", "b", &end(150)).await.unwrap());
    assert!(!tx.end_run("sweep", "a", &end(149)).await.unwrap());
    assert!(tx.end_run("sweep", "a", &end(150)).await.unwrap());
    assert!(!tx.end_run("sweep", "a", &end(150)).await.unwrap());
    let run = tx.schedules("", 1).await.unwrap().remove(0).last.unwrap();
    assert_eq!((run.ended_at_ms, run.failed, run.outcome.as_str()), (Some(170), true, "no"));
    // The next run begins with nothing of the last.
    assert!(tx.claim_run("sweep", 200, 300, "b", 250).await.unwrap());
    let work = tx.schedules("", 1).await.unwrap().remove(0);
    let run = work.last.unwrap();
    assert_eq!((work.next_at_ms, run.ended_at_ms, run.failed, run.outcome.as_str()), (300, None, false, ""));
}

pub(super) async fn a_version_whose_file_is_deleted_keeps_its_row(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    for version in 0..3 {
        let model = ModelVersion {
            version,
            round: (version > 0).then_some(version),
            sha256: Sha256Hash::of(b"body"),
            bytes: 4,
            created_at_ms: 50,
            deleted_at_ms: None,
            accuracy: None,
            measured_on: None,
            loss: None,
            best: false,
            pinned_at_ms: None,
        };
        tx.insert_model(job_id(1), &model).await.unwrap();
        tx.insert_blob(&model_key(job_id(1), version), b"body").await.unwrap();
    }
    assert!(tx.pin_version(job_id(1), 1, Some(55)).await.unwrap());
    assert!(!tx.pin_version(job_id(1), 1, Some(56)).await.unwrap(), "it is pinned already");
    assert!(!tx.delete_model_file(job_id(1), 1, 60).await.unwrap(), "a pinned version stays");
    assert!(tx.pin_version(job_id(1), 1, None).await.unwrap());
    assert!(tx.delete_model_file(job_id(1), 1, 60).await.unwrap());
    assert!(!tx.delete_model_file(job_id(1), 1, 70).await.unwrap());
    assert_eq!(tx.stored_versions(job_id(1)).await.unwrap(), [0, 2]);
    let row = tx.model(job_id(1), 1).await.unwrap().unwrap();
    assert_eq!((row.deleted_at_ms, row.bytes), (Some(60), 4));
    assert!(tx.blob_chunk(&model_key(job_id(1), 1), 0).await.unwrap().is_none());
    assert!(tx.blob_chunk(&model_key(job_id(1), 2), 0).await.unwrap().is_some());
    assert_eq!(tx.version_of_round(job_id(1), 1).await.unwrap(), None, "no evaluation can open for it");
    assert_eq!(tx.version_of_round(job_id(1), 2).await.unwrap(), Some(2));
    assert_eq!(tx.models(job_id(1), 0, 10).await.unwrap().len(), 3);
}

pub(super) async fn the_best_version_is_that_of_the_best_evaluation(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    assert_eq!(tx.best_version(job_id(1)).await.unwrap(), None);
    let of = |accuracy, examples| Some((accuracy, measured_centrally(accuracy, examples)));
    let evaluations = [
        (0.4, None),
        (0.9, of(0.5, 100)),
        (0.8, of(0.7, 100)),
        (0.7, of(0.7, 100)),
        (0.1, of(0.6, 100)),
        // Three right answers of three make sure of 44 %.
        (0.1, of(1.0, 3)),
    ];
    for (number, (loss, accuracy)) in (1..).zip(evaluations) {
        start_round(&mut tx, training(number), 1).await;
        let ended = tx.end_assignment(assigned(training(number), 1), AssignmentState::Expired, None, traffic(0, 0), 50);
        ended.await.unwrap();
        tx.close_round(training(number), 60).await.unwrap();
        tx.commit_round(training(number), 61).await.unwrap();
        let model = ModelVersion {
            version: number,
            round: Some(number),
            sha256: Sha256Hash::of(b"body"),
            bytes: 4,
            created_at_ms: 61,
            deleted_at_ms: None,
            accuracy: None,
            measured_on: None,
            loss: None,
            best: false,
            pinned_at_ms: None,
        };
        tx.insert_model(job_id(1), &model).await.unwrap();
        if number == 1 {
            assert_eq!(tx.best_version(job_id(1)).await.unwrap(), None, "nothing is measured yet");
        }
        tx.store_evaluation(evaluation(number), EvaluationSummary { loss: Some(loss), accuracy }).await.unwrap();
    }
    assert_eq!(
        tx.best_version(job_id(1)).await.unwrap().map(|best| (best.version, best.round)),
        Some((4, 4)),
        "of equal accuracy, the lower loss"
    );
    assert_eq!(tx.models_since(61).await.unwrap(), 24);
    assert_eq!(tx.models_since(62).await.unwrap(), 0);
}

pub(super) async fn a_notification_is_due_until_it_is_taken_or_given_up(db: &Db) {
    let mut tx = db.begin().await.unwrap();
    for id in ["a", "b"] {
        tx.insert_notice(id, "", "{}", 100).await.unwrap();
    }
    tx.insert_notice("a", "", "{}", 100).await.unwrap();
    assert!(tx.due_notices(99, 10).await.unwrap().is_empty());
    let due = tx.due_notices(100, 10).await.unwrap();
    assert_eq!(
        due.iter().map(|notice| (notice.id.as_str(), notice.attempts)).collect::<Vec<_>>(),
        [("a", 0), ("b", 0)]
    );
    assert!(tx.claim_notice(&due[0], Some(200)).await.unwrap());
    assert!(!tx.claim_notice(&due[0], Some(200)).await.unwrap(), "another coordinator sends it");
    assert!(tx.claim_notice(&due[1], None).await.unwrap(), "the last attempt");
    let due = tx.due_notices(200, 10).await.unwrap();
    assert_eq!(due.iter().map(|notice| (notice.id.as_str(), notice.attempts)).collect::<Vec<_>>(), [("a", 1)]);
    tx.insert_notice("a", "people", "{}", 300).await.unwrap();
    tx.notice_sent(&due[0], 201, 50).await.unwrap();
    let due = tx.due_notices(300, 10).await.unwrap();
    assert_eq!(due.iter().map(|notice| &*notice.target).collect::<Vec<_>>(), ["people"], "each webhook takes its own");
    tx.notice_sent(&due[0], 301, 50).await.unwrap();
    assert!(tx.due_notices(i64::MAX, 10).await.unwrap().is_empty());
}

pub(super) async fn pruning_takes_assignments_of_old_rounds_and_nothing_else(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    for (key, ended_at_ms) in
        [(training(1), Some(100)), (evaluation(1), Some(110)), (training(2), Some(200)), (training(3), None)]
    {
        start_round(&mut tx, key, 2).await;
        for client in 1..=2 {
            if ended_at_ms.is_some() {
                let id = assigned(key, client);
                tx.end_assignment(id, AssignmentState::Expired, None, traffic(0, 0), 90).await.unwrap();
            }
        }
        if let Some(ended_at_ms) = ended_at_ms {
            tx.close_round(key, ended_at_ms).await.unwrap();
            tx.commit_round(key, ended_at_ms).await.unwrap();
        }
    }
    let job = job_id(1);
    assert_eq!(tx.rounds_to_prune(job, 100, u32::MAX, 10).await.unwrap(), []);
    assert_eq!(tx.rounds_to_prune(job, 150, u32::MAX, 10).await.unwrap(), [evaluation(1), training(1)]);
    assert_eq!(tx.rounds_to_prune(job, 150, 1, 10).await.unwrap(), [evaluation(1)], "needed for the separation");
    assert_eq!(tx.rounds_to_prune(job, 999, u32::MAX, 10).await.unwrap().len(), 3, "round 3 is open");
    assert_eq!(tx.rounds_to_prune(job, 999, u32::MAX, 1).await.unwrap().len(), 1);
    assert!(tx.prune_round(training(1), 300).await.unwrap());
    assert!(!tx.prune_round(training(1), 301).await.unwrap());
    assert!(!tx.prune_round(training(3), 301).await.unwrap(), "an open round keeps everything");
    assert_eq!(tx.rounds_to_prune(job, 150, u32::MAX, 10).await.unwrap(), [evaluation(1)]);
    let row = tx.round(training(1)).await.unwrap().unwrap();
    assert_eq!((row.pruned_at_ms, row.cohort), (Some(300), 2));
    assert!(tx.assignments(training(1), None, 0, 10).await.unwrap().is_empty());
    for key in [evaluation(1), training(2), training(3)] {
        assert_eq!(tx.assignments(key, None, 0, 10).await.unwrap().len(), 2, "{key:?}");
    }
}

pub(super) async fn events_of_rounds_are_deleted_and_those_of_the_job_stay(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    tx.record(Transition::Job { job: job_id(1), state: JobState::Running, cause: None }, 1).await.unwrap();
    for number in 1..=3 {
        tx.record(Transition::Round { round: training(number), phase: Phase::Selecting, reason: None }, 2)
            .await
            .unwrap();
    }
    tx.record(Transition::Job { job: job_id(1), state: JobState::Paused, cause: None }, 3).await.unwrap();
    assert_eq!(tx.delete_round_events(job_id(1), 0, 3).await.unwrap(), 2);
    assert_eq!(tx.delete_round_events(job_id(2), 0, 9).await.unwrap(), 0);
    let left = tx.events(job_id(1), 0, 10).await.unwrap();
    assert_eq!(left.iter().map(|event| event.sequence).collect::<Vec<_>>(), [1, 4, 5]);
    assert_eq!(tx.delete_round_events(job_id(1), 4, 5).await.unwrap(), 0, "`after` is not deleted");
}

pub(super) async fn tokens_are_spent_when_they_expired_and_let_nobody_in(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    let [spent, young, used, revoked] = [(1, 10), (2, 90), (3, 10), (4, 10)]
        .map(|(number, expires_at_ms)| token(number, Some("people"), Some(expires_at_ms)));
    for (number, token) in [(1, &spent), (2, &young), (3, &used), (4, &revoked)] {
        tx.insert_token(token, &secret(number + 50)).await.unwrap();
    }
    store_client(&mut tx, 9, "people", &used).await;
    tx.revoke_token(revoked.id, 5).await.unwrap();
    assert_eq!(tx.spent_tokens(50, 10).await.unwrap(), [spent.id]);
    tx.delete_token(spent.id).await.unwrap();
    assert_eq!(tx.spent_tokens(50, 10).await.unwrap(), []);
    assert_eq!(tx.tokens(None, "", 10).await.unwrap().len(), 4, "three of these and the population's own");
}
