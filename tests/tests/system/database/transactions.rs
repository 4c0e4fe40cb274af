//! What transactions promise.

use tributary_protocol::state::JobState;
use tributary_server::db::{Db, NewRound, Transition};

use super::stored::{OPENING, job_id, name, population, training};

pub(super) async fn what_is_not_committed_never_happened(db: &Db) {
    let mut tx = db.begin().await.unwrap();
    tx.insert_population(&name("ghosts"), 1).await.unwrap();
    drop(tx);
    let mut tx = db.begin().await.unwrap();
    assert!(tx.population(&name("ghosts")).await.unwrap().is_none());
    tx.insert_population(&name("ghosts"), 1).await.unwrap();
    tx.commit().await.unwrap();
    assert!(db.read().await.unwrap().population(&name("ghosts")).await.unwrap().is_some());
}

pub(super) async fn a_reader_sees_one_moment_and_writes_nothing(db: &Db) {
    let mut reader = db.read().await.unwrap();
    assert!(reader.population(&name("people")).await.unwrap().is_none());
    population(db).await;
    assert!(reader.population(&name("people")).await.unwrap().is_none(), "the moment of its first look");
    drop(reader);
    let mut reader = db.read().await.unwrap();
    assert!(reader.population(&name("people")).await.unwrap().is_some());
    assert!(reader.insert_population(&name("others"), 1).await.is_err());
}

/// Of many drivers that want to take the same step at once, exactly one does.
pub(super) async fn of_many_drivers_one_moves_a_round(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    let round = NewRound { key: training(1), base_version: 0, opening: OPENING };
    tx.insert_round(&round, 30).await.unwrap();
    tx.commit().await.unwrap();
    let drivers: Vec<_> = (0..20)
        .map(|_| {
            let db = db.clone();
            tokio::spawn(async move {
                let mut tx = db.begin().await.unwrap();
                tx.job_locked(job_id(1)).await.unwrap();
                let moved = tx.start_round(training(1), 3, 41, Some(1_041)).await.unwrap();
                tx.commit().await.unwrap();
                moved
            })
        })
        .collect();
    let mut moved = 0;
    for driver in drivers {
        moved += u32::from(driver.await.unwrap());
    }
    assert_eq!(moved, 1);
}

pub(super) async fn concurrent_events_leave_no_holes(db: &Db) {
    population(db).await;
    let writers: Vec<_> = (0..20)
        .map(|number| {
            let db = db.clone();
            tokio::spawn(async move {
                let mut tx = db.begin().await.unwrap();
                tx.record(Transition::Job { job: job_id(1), state: JobState::Running, cause: None }, number)
                    .await
                    .unwrap();
                // Every third one changes its mind.
                if number % 3 != 0 {
                    tx.commit().await.unwrap();
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let events = db.read().await.unwrap().events(job_id(1), 0, 100).await.unwrap();
    let numbers: Vec<u64> = events.iter().map(|event| event.sequence).collect();
    assert_eq!(numbers, (1..=13).collect::<Vec<_>>());
}
