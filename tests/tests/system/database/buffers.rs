//! Rounds that are buffers, and the open assignments that move from one to the next.

use tributary_engine::round::{OpenWork, Opening, TaskPolicy, Tempo, Term};
use tributary_protocol::operator::{Round, StalenessCount};
use tributary_protocol::seed::Seed;
use tributary_protocol::state::AssignmentState;
use tributary_server::db::{Db, DbError, NewAssignment, NewRound, RoundKey, Tx};

use super::stored::{OPENING, POLICY, assignment_id, client_id, population, report, traffic, training, updates};

/// Opens a buffer of two for this many clients at work.
pub(super) async fn open(tx: &mut Tx, number: u32) -> RoundKey {
    let key = training(number);
    let policy = TaskPolicy { tempo: Tempo::Buffer { concurrency: 3, staleness_max: 4 }, ..POLICY };
    let round = NewRound { key, base_version: number - 1, opening: Opening { policy, ..OPENING } };
    tx.insert_round(&round, 30).await.unwrap();
    let moved = tx.move_assignments(key).await.unwrap();
    assert!(tx.start_round(key, moved, 40, None).await.unwrap());
    key
}

fn work(number: u8, round: RoundKey, client: u8, deadline_at_ms: i64, seed: u64) -> NewAssignment {
    NewAssignment {
        id: assignment_id(number),
        round,
        client: client_id(client),
        base_version: round.number - 1,
        examples: 0,
        places: 0,
        share: None,
        term: Term::Own { deadline_at_ms, seed: Seed(seed) },
    }
}

async fn counts(tx: &mut Tx, key: RoundKey) -> (u32, u32, u32) {
    let round = Round::from(tx.round(key).await.unwrap().unwrap());
    (round.cohort, round.assigned, round.reported)
}

pub(super) async fn open_assignments_move_on_and_keep_what_they_are(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    let first = open(&mut tx, 1).await;
    assert_eq!(tx.open_work(first.job).await.unwrap(), None);
    assert!(tx.draw_into(first, 0, 2).await.unwrap());
    assert!(!tx.draw_into(first, 0, 2).await.unwrap(), "another driver has drawn");
    tx.insert_assignments(&[work(1, first, 1, 900, 5)], 50).await.unwrap();
    tx.insert_assignments(&[work(2, first, 2, 800, 6)], 60).await.unwrap();
    let open_work = OpenWork { ends_at_ms: 800, begins_at_ms: 60 - 740 };
    assert_eq!(tx.open_work(first.job).await.unwrap(), Some(open_work));
    assert!(tx.accept_report(assignment_id(1), &report(10, 0.5, None), 70).await.unwrap().is_some());
    tx.count_ended(first, AssignmentState::Reported, updates(1, 10), traffic(0, 0)).await.unwrap();
    assert_eq!(counts(&mut tx, first).await, (2, 1, 1));
    assert!(tx.close_round(first, 80).await.unwrap());
    assert!(!tx.draw_into(first, 2, 1).await.unwrap(), "a closed buffer draws nobody");
    assert!(tx.commit_round(first, 90).await.unwrap());

    let second = open(&mut tx, 2).await;
    assert_eq!(counts(&mut tx, first).await, (1, 0, 1));
    assert_eq!(counts(&mut tx, second).await, (1, 1, 0));
    let moved = tx.open_assignments(first.job).await.unwrap();
    let [moved] = moved.as_slice() else { panic!("{moved:?}") };
    assert_eq!((moved.round(), moved.base_version, moved.assigned_at_ms), (second, 0, 60));
    assert_eq!(moved.term(), Term::Own { deadline_at_ms: 800, seed: Seed(6) });
    assert_eq!(tx.assigned_versions(first.job).await.unwrap(), [0]);
    tx.commit().await.unwrap();
}

pub(super) async fn a_client_works_again_in_a_round_with_another_seed(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    let key = open(&mut tx, 1).await;
    assert_eq!(tx.assignments_of(key, client_id(1)).await.unwrap(), 0);
    tx.insert_assignments(&[work(1, key, 1, 900, 5)], 50).await.unwrap();
    assert!(
        tx.end_assignment(assignment_id(1), AssignmentState::Failed, None, traffic(0, 0), 60).await.unwrap().is_some()
    );
    assert_eq!(tx.assignments_of(key, client_id(1)).await.unwrap(), 1);
    tx.insert_assignments(&[work(2, key, 1, 900, 6)], 70).await.unwrap();
    tx.commit().await.unwrap();
    let again = db.begin().await.unwrap().insert_assignments(&[work(3, key, 1, 900, 7)], 80).await;
    assert!(matches!(again, Err(DbError::Duplicate)), "one at a time: {again:?}");
}

pub(super) async fn staleness_is_counted_over_rounds(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    let first = open(&mut tx, 1).await;
    for client in 1..=3 {
        tx.insert_assignments(&[work(client, first, client, 900, client.into())], 50).await.unwrap();
    }
    for client in 1..=2 {
        assert!(tx.accept_report(assignment_id(client), &report(10, 0.5, None), 70).await.unwrap().is_some());
    }
    let second = open(&mut tx, 2).await;
    assert!(tx.accept_report(assignment_id(3), &report(30, 0.5, None), 70).await.unwrap().is_some());
    tx.count_ended(second, AssignmentState::Reported, updates(1, 30), traffic(0, 0)).await.unwrap();
    tx.count_staleness(second, 1, 2.5).await.unwrap();
    let count = |staleness, updates, examples| StalenessCount { staleness, updates, examples };
    let counts = tx.staleness_counts(first.job, 1..=2).await.unwrap();
    assert_eq!(counts, [count(0, 2, 20), count(1, 1, 30)]);
    assert_eq!(tx.staleness_counts(first.job, 2..=2).await.unwrap(), [count(1, 1, 30)]);
    let mut updates = tx.stale_updates(first.job, 20).await.unwrap();
    assert_eq!(tx.stale_updates(first.job, 1).await.unwrap(), updates[..1], "the newest first");
    updates.sort_by_key(|update| update.client_number);
    let found: Vec<_> = updates.iter().map(|update| (update.client, update.staleness, update.examples)).collect();
    assert_eq!(found, [(client_id(1), 0, 10), (client_id(2), 0, 10), (client_id(3), 1, 30)]);
    let buffer = Round::from(tx.round(second).await.unwrap().unwrap()).buffer.unwrap();
    assert_eq!((buffer.concurrency, buffer.staleness_max), (3, Some(4)));
    assert_eq!((buffer.staleness_mean, buffer.lost_weight), (Some(1.0), 2.5));
    tx.commit().await.unwrap();
}
