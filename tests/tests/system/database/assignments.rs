//! Assignments and the bodies of their updates.

use tributary_engine::round::{Term, interval};
use tributary_protocol::device::Attributes;
use tributary_protocol::operator::{Assignment, Round};
use tributary_protocol::scalars::Scalars;
use tributary_protocol::seed::Seed;
use tributary_protocol::state::AssignmentState;
use tributary_protocol::traffic::Traffic;
use tributary_server::db::{Db, DbError, NewAssignment, ObjectRow, Report, Times, Tx};

use super::stored::{
    assigned, assignment_id, client_id, evaluation, knows_object, population, report, start_round, traffic, training,
    updates,
};

pub(super) async fn a_client_has_one_open_assignment_and_one_per_round(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    start_round(&mut tx, training(1), 2).await;
    start_round(&mut tx, training(2), 0).await;
    tx.commit().await.unwrap();
    let assign = |round, client| NewAssignment {
        id: assignment_id(200),
        round,
        client: client_id(client),
        base_version: 0,
        examples: 0,
        places: 0,
        share: None,
        term: Term::Round,
    };
    let other_work = db.begin().await.unwrap().insert_assignments(&[assign(training(2), 1)], 50).await;
    assert!(matches!(other_work, Err(DbError::Duplicate)), "{other_work:?}");

    let cohort = [assign(training(2), 2), assign(training(2), 1)];
    let other_work = db.begin().await.unwrap().insert_assignments(&cohort, 50).await;
    assert!(matches!(other_work, Err(DbError::Duplicate)), "a cohort is stored whole or not at all: {other_work:?}");

    let mut tx = db.begin().await.unwrap();
    let open = tx.open_assignment(client_id(1)).await.unwrap().unwrap();
    assert_eq!((open.id, open.round(), open.state), (assigned(training(1), 1), training(1), AssignmentState::Assigned));
    assert!(tx.open_assignment(client_id(3)).await.unwrap().is_none());
    assert!(tx.end_assignment(open.id, AssignmentState::Failed, None, traffic(0, 0), 60).await.unwrap().is_some());
    assert!(tx.open_assignment(client_id(1)).await.unwrap().is_none());
    tx.commit().await.unwrap();
    let again = db.begin().await.unwrap().insert_assignments(&[assign(training(1), 1)], 70).await;
    assert!(matches!(again, Err(DbError::Duplicate)), "once per round: {again:?}");
    let mut tx = db.begin().await.unwrap();
    // Of a cohort, and drawn by itself.
    let drawn = NewAssignment { term: Term::Own { deadline_at_ms: 900, seed: Seed(5) }, ..assign(training(2), 2) };
    for new in [assign(training(2), 1), NewAssignment { id: assignment_id(201), ..drawn }] {
        if new.client == client_id(2) {
            let open = tx.open_assignment(new.client).await.unwrap().unwrap().id;
            tx.end_assignment(open, AssignmentState::Failed, None, traffic(0, 0), 70).await.unwrap();
        }
        tx.insert_assignments(std::slice::from_ref(&new), 70).await.unwrap();
        assert_eq!(tx.assignment(new.id).await.unwrap(), Some(new.stored(70)), "a drawn client gets what is stored");
    }
    tx.commit().await.unwrap();
    let open = db.look().await.unwrap().open_assignment(client_id(1)).await.unwrap();
    assert_eq!(open.map(|open| open.id), Some(assignment_id(200)), "one statement needs no transaction");
}

pub(super) async fn a_report_is_accepted_once(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    start_round(&mut tx, training(1), 3).await;
    let id = assigned(training(1), 2);
    let told = report(1 << 20, -0.5, Some(0.25));
    assert!(tx.accept_report(id, &told, 50).await.unwrap().is_some());
    assert!(tx.accept_report(id, &report(1, 1.0, None), 51).await.unwrap().is_none());
    assert!(tx.end_assignment(id, AssignmentState::Expired, None, traffic(0, 0), 52).await.unwrap().is_none());
    assert!(tx.accept_report(assignment_id(99), &told, 53).await.unwrap().is_none());
    let row = tx.assignment(id).await.unwrap().unwrap();
    assert_eq!((row.state, row.report()), (AssignmentState::Reported, Some(told.sha256)));
    let reported: Vec<_> = tx
        .accepted_updates(training(1))
        .await
        .unwrap()
        .iter()
        .map(|row| (row.id, row.figures().unwrap(), row.sha256().unwrap(), row.number))
        .collect();
    assert_eq!(reported, [(id, told.figures, told.sha256, 2)]);
    let working: Vec<_> = tx.working_assignments(training(1)).await.unwrap().iter().map(|row| row.id).collect();
    assert_eq!(working, [assigned(training(1), 1), assigned(training(1), 3)]);
    assert!(tx.accepted_updates(evaluation(1)).await.unwrap().is_empty());
}

pub(super) async fn an_assignment_ends_once(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    start_round(&mut tx, training(1), 1).await;
    let id = assigned(training(1), 1);
    assert!(
        tx.end_assignment(id, AssignmentState::Rejected, Some("\"w\" is NaN"), traffic(5, 6), 50)
            .await
            .unwrap()
            .is_some()
    );
    assert!(tx.end_assignment(id, AssignmentState::Expired, None, traffic(7, 8), 51).await.unwrap().is_none());
    assert!(tx.accept_report(id, &report(1, 1.0, None), 52).await.unwrap().is_none());
    let row = tx.assignment(id).await.unwrap().unwrap();
    assert_eq!((row.state, row.reason.as_deref()), (AssignmentState::Rejected, Some("\"w\" is NaN")));
    assert_eq!(row.report(), None);
    assert!(tx.assignment(assignment_id(99)).await.unwrap().is_none());
}

pub(super) async fn only_a_straggler_comes_late_and_once(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    start_round(&mut tx, training(1), 2).await;
    let id = assigned(training(1), 1);
    assert!(!tx.came_late(id, 50).await.unwrap(), "it is still open");
    assert!(tx.end_assignment(id, AssignmentState::Expired, None, traffic(0, 0), 51).await.unwrap().is_some());
    assert!(tx.came_late(id, 52).await.unwrap());
    assert!(!tx.came_late(id, 53).await.unwrap());
    assert_eq!(tx.assignment(id).await.unwrap().unwrap().late_at_ms, Some(52));
    assert!(!tx.stopped_late(id, training(1), 54).await.unwrap(), "finished work says more");
    let other = assigned(training(1), 2);
    assert!(!tx.stopped_late(other, training(1), 50).await.unwrap(), "it is still open");
    assert!(tx.end_assignment(other, AssignmentState::Failed, None, traffic(0, 0), 54).await.unwrap().is_some());
    assert!(!tx.came_late(other, 55).await.unwrap());
}

pub(super) async fn assignments_are_listed_by_client_number(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    start_round(&mut tx, training(1), 3).await;
    let id = assigned(training(1), 2);
    assert!(tx.accept_report(id, &report(10, 0.5, Some(0.75)), 50).await.unwrap().is_some());
    let all = tx.assignments(training(1), None, 0, 10).await.unwrap();
    assert_eq!(all.iter().map(|assignment| assignment.client_number).collect::<Vec<_>>(), [1, 2, 3]);
    let expected = Assignment {
        id,
        client: client_id(2),
        client_number: 2,
        state: AssignmentState::Reported,
        reason: None,
        base_version: 0,
        parts: Vec::new(),
        places: None,
        updates: None,
        bytes_below: None,
        round_trip_ms: None,
        staleness: 0,
        assigned_at_ms: 40,
        fetched_at_ms: None,
        upload_at_ms: None,
        upload_ms: None,
        ended_at_ms: Some(50),
        late_at_ms: None,
        stopped_at_ms: None,
        straggler: None,
        spare: false,
        explanation: None,
        weight: Some(10),
        loss: Some(0.5),
        metrics: Scalars::new(),
        accuracy: Some(0.75),
        accuracy_low: Some(interval(0.75, 10).0),
        accuracy_high: Some(interval(0.75, 10).1),
        work_ms: Some(12),
        update_norm: Some(0.5),
        cosine: None,
        traffic: traffic(7, 9),
        shape: "cadtu+".to_owned(),
        attributes: Attributes::default(),
    };
    assert_eq!(tx.assignments(training(1), None, 1, 1).await.unwrap(), [expected]);
    assert!(tx.assignments(evaluation(1), None, 0, 10).await.unwrap().is_empty());
    let working = tx.assignments(training(1), Some(AssignmentState::Assigned), 0, 10).await.unwrap();
    let told: Vec<_> = working.iter().map(|assignment| (assignment.client_number, assignment.shape.as_str())).collect();
    assert_eq!(told, [(1, "ca"), (3, "ca")]);
}

pub(super) async fn deleting_updates_spares_other_rounds_and_models(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    start_round(&mut tx, training(1), 3).await;
    for client in 1..=2 {
        let id = assigned(training(1), client);
        assert!(tx.accept_report(id, &report(1, 1.0, None), 50).await.unwrap().is_some());
        tx.insert_blob(&format!("update/{id}"), &[client; 9]).await.unwrap();
    }
    start_round(&mut tx, training(2), 1).await;
    let kept = format!("update/{}", assigned(training(2), 1));
    tx.insert_blob(&kept, &[3; 9]).await.unwrap();
    tx.insert_blob("model/x/0", &[4; 9]).await.unwrap();
    // Of a third client, in a store.
    let stored = assigned(training(1), 3);
    tx.insert_object(&format!("update/{stored}"), &ObjectRow::of("its object".into(), &[9; 9])).await.unwrap();
    tx.insert_object("model/x/1", &ObjectRow::of("the model's".into(), &[9; 9])).await.unwrap();
    assert_eq!(tx.delete_updates(training(1)).await.unwrap(), ["its object"]);
    assert!(knows_object(&mut tx, "the model's").await && !knows_object(&mut tx, "its object").await);
    for client in 1..=2 {
        let key = format!("update/{}", assigned(training(1), client));
        assert_eq!(tx.blob_chunk(&key, 0).await.unwrap(), None);
    }
    assert_eq!(tx.blob_chunk(&kept, 0).await.unwrap().unwrap().data, [3; 9]);
    assert_eq!(tx.blob_chunk("model/x/0", 0).await.unwrap().unwrap().data, [4; 9]);
}

pub(super) async fn bytes_of_broken_uploads_are_counted_once(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    start_round(&mut tx, training(1), 2).await;
    let id = assigned(training(1), 1);
    assert_eq!(tx.count_upload(id, training(1), 100, true).await.unwrap(), 1);
    assert_eq!(tx.count_upload(id, training(1), 0, false).await.unwrap(), 1, "not every body is an attempt");
    assert_eq!(Round::from(tx.round(training(1)).await.unwrap().unwrap()).traffic.bytes_up, 0, "counted when it ends");
    let ended = tx.end_assignment(id, AssignmentState::Failed, None, traffic(0, 5), 50).await.unwrap().unwrap();
    assert_eq!(ended, Traffic { bytes_up: 100, ..traffic(0, 5) });
    tx.count_ended(training(1), AssignmentState::Failed, updates(1, 0), ended).await.unwrap();
    assert_eq!(tx.count_upload(id, training(1), 11, true).await.unwrap(), 2);
    assert_eq!(Round::from(tx.round(training(1)).await.unwrap().unwrap()).traffic.bytes_up, 111);
    assert_eq!(tx.assignments(training(1), None, 0, 1).await.unwrap()[0].traffic.bytes_up, 111);
}

async fn times(tx: &mut Tx, client: u64) -> (Option<i64>, Option<i64>, Option<u64>) {
    let held = tx.assignments(training(1), None, client - 1, 1).await.unwrap();
    (held[0].fetched_at_ms, held[0].upload_at_ms, held[0].upload_ms)
}

pub(super) async fn an_upload_in_several_requests_began_with_the_first(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    start_round(&mut tx, training(1), 3).await;
    let [one, two, three] = [1, 2, 3].map(|client| assigned(training(1), client));
    tx.store_times(one, Times { upload_at_ms: Some(45), ..Times::default() }).await.unwrap();
    assert_eq!(times(&mut tx, 1).await, (None, Some(45), None), "it broke off");
    let rest = Times { fetched_at_ms: Some(42), upload_at_ms: Some(48), uploaded_at_ms: Some(50) };
    let told = Report { times: rest, ..report(1, 1.0, None) };
    assert!(tx.accept_report(one, &told, 51).await.unwrap().is_some());
    assert_eq!(times(&mut tx, 1).await, (Some(42), Some(45), Some(5)));

    tx.store_times(two, rest).await.unwrap();
    tx.store_times(two, Times::default()).await.unwrap();
    assert_eq!(times(&mut tx, 2).await, (Some(42), Some(48), Some(2)), "what is not known changes nothing");

    let back = Times { upload_at_ms: Some(60), uploaded_at_ms: Some(59), ..Times::default() };
    tx.store_times(three, back).await.unwrap();
    assert_eq!(times(&mut tx, 3).await, (None, Some(60), Some(0)), "a clock was set back");
}

pub(super) async fn a_download_is_for_what_was_assigned_before_it_ended(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    start_round(&mut tx, training(1), 2).await;
    tx.download_ended(client_id(1), 39).await.unwrap();
    assert_eq!(times(&mut tx, 1).await.0, None, "another assignment's");
    tx.download_ended(client_id(1), 43).await.unwrap();
    assert_eq!((times(&mut tx, 1).await.0, times(&mut tx, 2).await.0), (Some(43), None));
    assert!(tx.accept_report(assigned(training(1), 1), &report(1, 1.0, None), 50).await.unwrap().is_some());
    tx.download_ended(client_id(1), 51).await.unwrap();
    assert_eq!(times(&mut tx, 1).await.0, Some(43), "it has reported");
}
