//! Rounds.

use tributary_engine::round::{Lookback, Trained};
use tributary_protocol::operator::{Order, Round, RoundSort};
use tributary_protocol::seed::Seed;
use tributary_protocol::state::{AbandonReason, AssignmentState, Phase};
use tributary_server::db::{Db, DbError, NewRound, RoundFilter, RoundKey, RoundStatistics};

use super::stored::{
    OPENING, POLICY, assigned, evaluation, job_id, population, report, start_round, traffic, training, updates,
};

fn new(key: RoundKey) -> NewRound {
    NewRound { key, base_version: 4, opening: OPENING }
}

pub(super) async fn a_round_is_opened_once(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    tx.insert_round(&new(training(1)), 30).await.unwrap();
    assert_eq!(tx.job(job_id(1)).await.unwrap().unwrap().rounds_opened, 1);
    tx.insert_round(&new(evaluation(1)), 31).await.unwrap();
    assert_eq!(tx.job(job_id(1)).await.unwrap().unwrap().rounds_opened, 1, "an evaluation is no training round");
    let row = tx.round(training(1)).await.unwrap().unwrap();
    assert_eq!((row.key(), row.phase, row.base_version, row.opened_at_ms), (training(1), Phase::Selecting, 4, 30));
    assert_eq!((row.seed(), row.cohort, row.reported, row.deadline_at_ms), (Seed(u64::MAX >> 11), 0, 0, None));
    assert_eq!(*row.policy(), POLICY);
    assert!(tx.round(training(2)).await.unwrap().is_none());
    tx.commit().await.unwrap();
    let twice = db.begin().await.unwrap().insert_round(&new(training(1)), 32).await;
    assert!(matches!(twice, Err(DbError::Duplicate)), "{twice:?}");
}

pub(super) async fn rounds_are_listed_from_both_ends(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    for number in 1..=4 {
        tx.insert_round(&new(training(number)), 30).await.unwrap();
    }
    tx.insert_round(&new(evaluation(2)), 30).await.unwrap();
    assert!(tx.abandon_round(training(2), AbandonReason::SelectionTimeout, 40).await.unwrap());
    let (job, task, all) = (job_id(1), training(1).task, RoundFilter::default());
    let numbers = |rows: Vec<tributary_server::db::RoundRow>| rows.iter().map(|row| row.number).collect::<Vec<_>>();
    assert_eq!(numbers(tx.rounds(job, task, all, 0, 3).await.unwrap()), [1, 2, 3]);
    assert_eq!(numbers(tx.rounds(job, task, all, 3, 3).await.unwrap()), [4]);
    assert_eq!(numbers(tx.latest_rounds(job, task, all, u32::MAX >> 1, 3).await.unwrap()), [4, 3, 2]);
    assert_eq!(numbers(tx.latest_rounds(job, task, all, 2, 3).await.unwrap()), [1]);
    let abandoned = RoundFilter { phase: Some(Phase::Abandoned), ..all };
    assert_eq!(numbers(tx.rounds(job, task, abandoned, 0, 3).await.unwrap()), [2]);
    let reason = |reason| RoundFilter { reason: Some(reason), ..all };
    let (timeout, fault) = (reason(AbandonReason::SelectionTimeout), reason(AbandonReason::Fault));
    assert_eq!(numbers(tx.latest_rounds(job, task, timeout, 9, 3).await.unwrap()), [2]);
    assert!(tx.latest_rounds(job, task, fault, 9, 3).await.unwrap().is_empty());
    let open: Vec<_> = tx.open_rounds(job).await.unwrap().iter().map(tributary_server::db::RoundRow::key).collect();
    assert_eq!(open, [training(1), evaluation(2), training(3), training(4)]);
}

/// Goal: each order holds each round once, whatever the page size; rounds without the figure are last both ways.
pub(super) async fn rounds_are_sorted_by_their_figures(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    // Opened at 30: round 1 loses two of three clients and ends at 100, round 2 ends at 40, round 3 stays open, round 4
    // ends at 100.
    start_round(&mut tx, training(1), 3).await;
    tx.count_ended(training(1), AssignmentState::Failed, updates(2, 0), traffic(7, 0)).await.unwrap();
    for number in 2..=4 {
        tx.insert_round(&new(training(number)), 30).await.unwrap();
    }
    for (number, ended_at_ms) in [(1, 100), (2, 40), (4, 100)] {
        let reason = AbandonReason::SelectionTimeout;
        assert!(tx.abandon_round(training(number), reason, ended_at_ms).await.unwrap());
    }
    let (job, task, all) = (job_id(1), training(1).task, RoundFilter::default());
    let (asc, desc) = (Order::Asc, Order::Desc);
    for (sort, order, expected) in [
        (RoundSort::Number, desc, [4, 3, 2, 1]),
        (RoundSort::Took, desc, [1, 4, 2, 3]),
        (RoundSort::Took, asc, [2, 1, 4, 3]),
        (RoundSort::Lost, desc, [1, 2, 3, 4]),
        (RoundSort::Lost, asc, [2, 3, 4, 1]),
        (RoundSort::Accuracy, asc, [1, 2, 3, 4]),
        (RoundSort::Loss, desc, [1, 2, 3, 4]),
        (RoundSort::TrainingLoss, desc, [1, 2, 3, 4]),
        (RoundSort::Up, asc, [2, 3, 4, 1]),
    ] {
        for limit in 1..=5 {
            let (mut numbers, mut after) = (Vec::new(), None);
            loop {
                let page = tx.sorted_rounds((job, task), all, (sort, order), after, limit).await.unwrap();
                numbers.extend(page.iter().map(|(row, _)| row.number));
                match page.last() {
                    Some((_, place)) => after = Some(*place),
                    None => break,
                }
            }
            assert_eq!(numbers, expected, "{sort:?} {order:?} in pages of {limit}");
        }
    }
    let abandoned = RoundFilter { phase: Some(Phase::Abandoned), ..all };
    let page = tx.sorted_rounds((job, task), abandoned, (RoundSort::Took, desc), None, 9).await.unwrap();
    assert_eq!(page.iter().map(|(row, _)| row.number).collect::<Vec<_>>(), [1, 4, 2]);
}

pub(super) async fn a_round_only_moves_forward_and_each_step_happens_once(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    let key = training(1);
    tx.insert_round(&new(key), 30).await.unwrap();
    assert!(!tx.close_round(key, 40).await.unwrap());
    assert!(!tx.commit_round(key, 40).await.unwrap());
    assert!(tx.start_round(key, 3, 41, Some(1_041)).await.unwrap());
    assert!(!tx.start_round(key, 2, 42, Some(1_042)).await.unwrap());
    assert!(!tx.commit_round(key, 43).await.unwrap());
    assert!(tx.close_round(key, 44).await.unwrap());
    assert!(!tx.close_round(key, 45).await.unwrap());
    assert!(!tx.start_round(key, 3, 46, Some(1_046)).await.unwrap());
    assert!(tx.commit_round(key, 47).await.unwrap());
    assert!(!tx.commit_round(key, 48).await.unwrap());
    assert!(!tx.abandon_round(key, AbandonReason::TooFewReports, 49).await.unwrap());
    let round = Round::from(tx.round(key).await.unwrap().unwrap());
    assert_eq!((round.phase, round.cohort, round.reason), (Phase::Committed, 3, None));
    assert_eq!((round.selected_at_ms, round.deadline_at_ms, round.ended_at_ms), (Some(41), Some(1_041), Some(47)));
    tx.insert_round(&new(training(2)), 50).await.unwrap();
    assert!(tx.abandon_round(training(2), AbandonReason::NotFinite, 51).await.unwrap());
    assert!(!tx.start_round(training(2), 3, 52, Some(1_052)).await.unwrap());
    let round = Round::from(tx.round(training(2)).await.unwrap().unwrap());
    assert_eq!((round.phase, round.reason), (Phase::Abandoned, Some(AbandonReason::NotFinite)));
}

pub(super) async fn a_committed_round_counts_for_its_job(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    start_round(&mut tx, training(1), 3).await;
    for (client, weight, loss) in [(1, 30, 1.0), (2, 10, 2.0)] {
        assert!(
            tx.accept_report(assigned(training(1), client), &report(weight, loss, None), 50).await.unwrap().is_some()
        );
    }
    assert!(tx.close_round(training(1), 60).await.unwrap());
    assert!(tx.commit_round(training(1), 61).await.unwrap());
    let job = tx.job(job_id(1)).await.unwrap().unwrap();
    assert_eq!((job.rounds_committed, job.last_committed().unwrap(), job.round_ended_at_ms), (1, Some(1), Some(61)));
    let round = Round::from(tx.round(training(1)).await.unwrap().unwrap());
    assert_eq!(round.training_loss, Some(1.25), "weighted by examples");
    tx.insert_round(&new(evaluation(1)), 62).await.unwrap();
    assert!(tx.start_round(evaluation(1), 1, 63, Some(99)).await.unwrap());
    assert!(tx.close_round(evaluation(1), 64).await.unwrap());
    assert!(tx.commit_round(evaluation(1), 65).await.unwrap());
    let job = tx.job(job_id(1)).await.unwrap().unwrap();
    assert_eq!((job.rounds_committed, job.round_ended_at_ms), (1, Some(61)), "an evaluation changes neither");
}

pub(super) async fn abandoned_rounds_are_counted_until_one_commits(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    for number in 1..=2 {
        tx.insert_round(&new(training(number)), 30).await.unwrap();
        assert!(tx.abandon_round(training(number), AbandonReason::TooFewReports, 40).await.unwrap());
        let job = tx.job(job_id(1)).await.unwrap().unwrap();
        assert_eq!((job.abandoned_in_a_row, job.round_ended_at_ms), (number, Some(40)));
    }
    tx.insert_round(&new(evaluation(2)), 30).await.unwrap();
    assert!(tx.abandon_round(evaluation(2), AbandonReason::TooFewReports, 41).await.unwrap());
    assert_eq!(tx.job(job_id(1)).await.unwrap().unwrap().abandoned_in_a_row, 2);
    start_round(&mut tx, training(3), 1).await;
    assert!(tx.close_round(training(3), 50).await.unwrap());
    assert!(tx.commit_round(training(3), 51).await.unwrap());
    assert_eq!(tx.job(job_id(1)).await.unwrap().unwrap().abandoned_in_a_row, 0);
}

pub(super) async fn ends_are_counted_by_state(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    start_round(&mut tx, training(1), 3).await;
    let key = training(1);
    assert_eq!(tx.round(key).await.unwrap().unwrap().working(), 3);
    for (state, count) in [
        (AssignmentState::Reported, 1),
        (AssignmentState::Rejected, 2),
        (AssignmentState::Failed, 3),
        (AssignmentState::Expired, 4),
    ] {
        tx.count_ended(key, state, updates(count, 10), traffic(100, 1_000)).await.unwrap();
    }
    let row = tx.round(key).await.unwrap().unwrap();
    assert_eq!(row.working(), 0);
    let round = Round::from(row);
    assert_eq!((round.reported, round.rejected, round.failed, round.expired), (1, 2, 3, 4));
    assert_eq!((round.weight, round.traffic.bytes_up, round.traffic.bytes_down), (40, 400, 4_000));
    assert_eq!((round.traffic.raw_bytes_up, round.traffic.raw_bytes_down), (400, 4_000));
}

pub(super) async fn evaluations_are_weighted_means(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    tx.insert_round(&new(training(1)), 30).await.unwrap();
    start_round(&mut tx, evaluation(1), 3).await;
    for (client, weight, loss, accuracy) in [(1, 30, 1.0, Some(0.5)), (2, 10, 2.0, Some(0.9)), (3, 60, 0.0, None)] {
        assert!(
            tx.accept_report(assigned(evaluation(1), client), &report(weight, loss, accuracy), 50)
                .await
                .unwrap()
                .is_some()
        );
    }
    let summary = tx.evaluation_summary(evaluation(1)).await.unwrap();
    assert_eq!(summary.loss, Some(0.5));
    let (accuracy, on) = summary.accuracy.unwrap();
    assert!((accuracy - 0.6).abs() < 1e-12, "{summary:?}");
    assert_eq!((on.examples, on.clients, on.worst, on.p10), (40, 2, Some(0.5), Some(0.5)));
    assert_eq!(tx.latest_accuracy(job_id(1)).await.unwrap(), None);
    tx.store_evaluation(evaluation(1), summary).await.unwrap();
    for key in [training(1), evaluation(1)] {
        let round = Round::from(tx.round(key).await.unwrap().unwrap());
        assert_eq!((round.loss, round.accuracy), (summary.loss, Some(accuracy)));
        assert_eq!(round.measured_on, Some(on));
    }
    assert!(tx.close_round(evaluation(1), 60).await.unwrap());
    assert!(tx.commit_round(evaluation(1), 61).await.unwrap());
    assert_eq!(tx.latest_accuracy(job_id(1)).await.unwrap(), Some(on.low));
    assert_eq!(tx.lost_rounds(job_id(1)).await.unwrap(), 0);
    assert!(tx.abandon_round(training(1), AbandonReason::TooFewReports, 62).await.unwrap());
    assert_eq!(tx.lost_rounds(job_id(1)).await.unwrap(), 1);
}

pub(super) async fn a_panel_is_widened_once_and_knows_its_clients(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    tx.insert_round(&new(training(1)), 30).await.unwrap();
    start_round(&mut tx, evaluation(1), 2).await;
    assert_eq!(tx.drawn_clients(evaluation(1)).await.unwrap().len(), 2);
    assert!(tx.widen_round(evaluation(1), 2, 3).await.unwrap());
    assert!(!tx.widen_round(evaluation(1), 2, 3).await.unwrap(), "another driver was faster");
    assert_eq!(tx.round(evaluation(1)).await.unwrap().unwrap().cohort, 5);
    assert!(tx.close_round(evaluation(1), 60).await.unwrap());
    assert!(!tx.widen_round(evaluation(1), 5, 1).await.unwrap(), "it is closed");
    let lookback = Lookback { trained: true, ..Lookback::default() };
    let history = tx.history(evaluation(1), &lookback).await.unwrap();
    assert_eq!(history.trained, Trained::default(), "nobody has reported");
    assert_eq!(tx.makers_not_drawn(evaluation(1)).await.unwrap(), 0);
}

pub(super) async fn an_evaluation_without_accuracy_has_none(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    start_round(&mut tx, evaluation(1), 2).await;
    let nothing = tx.evaluation_summary(evaluation(1)).await.unwrap();
    assert_eq!((nothing.loss, nothing.accuracy), (None, None), "nobody reported");
    assert!(tx.accept_report(assigned(evaluation(1), 1), &report(10, 3.0, None), 50).await.unwrap().is_some());
    let summary = tx.evaluation_summary(evaluation(1)).await.unwrap();
    assert_eq!((summary.loss, summary.accuracy), (Some(3.0), None));
}

pub(super) async fn measures_are_stored_with_the_round_and_its_assignments(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    start_round(&mut tx, training(1), 2).await;
    let cosines = vec![(assigned(training(1), 2), -0.25)];
    let effective_updates = Some(1.75);
    let measures = RoundStatistics { step_norm: Some(1.5), diversity: Some(0.5), effective_updates, cosines };
    tx.store_statistics(training(1), &measures).await.unwrap();
    let round = Round::from(tx.round(training(1)).await.unwrap().unwrap());
    assert_eq!((round.step_norm, round.diversity), (Some(1.5), Some(0.5)));
    let held = tx.assignments(training(1), None, 0, 10).await.unwrap();
    assert_eq!(held.iter().map(|held| held.cosine).collect::<Vec<_>>(), [None, Some(-0.25)]);
    tx.store_statistics(training(1), &RoundStatistics::default()).await.unwrap();
    assert_eq!(Round::from(tx.round(training(1)).await.unwrap().unwrap()).diversity, None);
}
