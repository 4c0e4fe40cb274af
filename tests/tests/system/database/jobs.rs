//! Jobs, models, bodies, events.

use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::JobId;
use tributary_protocol::operator::ModelVersion;
use tributary_protocol::state::{AbandonReason, AssignmentState, JobState, Phase, Task};
use tributary_server::db::{BLOB_CHUNK_BYTES, Became, Db, DbError, NewJob, Transition, Tx};

use super::stored::{
    assigned, assignment_id, file, job_id, knows_object, name, object, population, start_round, store_job, training,
};

pub(super) async fn a_job_is_stored_once_per_name_and_population(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    let row = tx.job(job_id(1)).await.unwrap().unwrap();
    assert_eq!(row.file.0, file("people", "job-1"));
    assert_eq!((row.parameters, row.state, row.version().unwrap()), (6, JobState::Running, None));
    assert_eq!((row.created_at_ms, row.ended_at_ms), (10, None));
    let locked = tx.job_locked(job_id(1)).await.unwrap().unwrap();
    assert_eq!(locked.id, row.id);
    assert!(tx.job(job_id(9)).await.unwrap().is_none());
    assert!(tx.job_locked(job_id(9)).await.unwrap().is_none());
    tx.insert_population(&name("others"), 1).await.unwrap();
    store_job(&mut tx, 2, "others", JobState::Running).await;
    let file = file("people", "job-1");
    let twice = NewJob { id: job_id(3), file: &file, parameters: 6, state: JobState::Running };
    assert!(matches!(tx.insert_job(&twice, 11).await, Err(DbError::Duplicate)));
}

pub(super) async fn jobs_are_listed_by_id_and_population(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    tx.insert_population(&name("others"), 1).await.unwrap();
    store_job(&mut tx, 3, "others", JobState::Running).await;
    store_job(&mut tx, 2, "people", JobState::Running).await;
    let ids = |rows: Vec<tributary_server::db::JobRow>| rows.into_iter().map(|row| row.id).collect::<Vec<_>>();
    assert_eq!(ids(tx.jobs(None, "", 10).await.unwrap()), [job_id(1), job_id(2), job_id(3)]);
    assert_eq!(ids(tx.jobs(None, &job_id(1).to_string(), 1).await.unwrap()), [job_id(2)]);
    assert_eq!(ids(tx.jobs(Some(&name("people")), "", 10).await.unwrap()), [job_id(1), job_id(2)]);
    assert!(tx.jobs(Some(&name("nobody")), "", 10).await.unwrap().is_empty());
    let cohort = u64::from(tx.job(job_id(3)).await.unwrap().unwrap().file.0.round.cohort_size());
    assert_eq!(tx.running_places(&name("others")).await.unwrap(), cohort);
    tx.set_job_state(job_id(3), JobState::Paused, 9).await.unwrap();
    assert_eq!(tx.running_places(&name("others")).await.unwrap(), 0);
}

pub(super) async fn a_job_that_ends_says_when(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    for (state, ended_at_ms) in
        [(JobState::Paused, None), (JobState::Stopped, Some(99)), (JobState::Completed, Some(99))]
    {
        tx.set_job_state(job_id(1), state, 99).await.unwrap();
        let row = tx.job(job_id(1)).await.unwrap().unwrap();
        assert_eq!((row.state, row.ended_at_ms), (state, ended_at_ms));
    }
}

pub(super) async fn the_driver_sees_jobs_that_may_move(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    for (number, state) in
        [(2, JobState::Paused), (3, JobState::AwaitingModel), (4, JobState::Stopped), (5, JobState::Completed)]
    {
        store_job(&mut tx, number, "people", state).await;
    }
    assert_eq!(live(&mut tx).await, [job_id(1), job_id(2)]);
    assert!(tx.has_running_job(&name("people")).await.unwrap());
    start_round(&mut tx, training(1), 1).await;
    tx.set_job_state(job_id(1), JobState::Stopped, 50).await.unwrap();
    assert!(!tx.has_running_job(&name("people")).await.unwrap());
    assert_eq!(live(&mut tx).await, [job_id(1), job_id(2)], "its round is open");
    assert!(tx.abandon_round(training(1), AbandonReason::JobStopped, 60).await.unwrap());
    assert_eq!(live(&mut tx).await, [job_id(2)]);
}

/// The live jobs, all of the population "people".
async fn live(tx: &mut Tx) -> Vec<JobId> {
    let jobs = tx.live_jobs().await.unwrap();
    assert!(jobs.iter().all(|(_, population)| *population == name("people")));
    for job in 1..=5 {
        let listed = jobs.iter().any(|(id, _)| *id == job_id(job));
        assert_eq!(tx.is_live(job_id(job)).await.unwrap(), listed);
    }
    jobs.into_iter().map(|(id, _)| id).collect()
}

pub(super) async fn a_model_version_is_stored_once(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    let model = |version: u32| ModelVersion {
        version,
        round: (version > 0).then_some(10 * version),
        sha256: Sha256Hash::of(&[version as u8]),
        bytes: 1 << 40,
        deleted_at_ms: None,
        accuracy: None,
        measured_on: None,
        loss: None,
        best: false,
        pinned_at_ms: None,
        created_at_ms: 70,
    };
    for version in 0..3 {
        tx.insert_model(job_id(1), &model(version)).await.unwrap();
        assert_eq!(tx.job(job_id(1)).await.unwrap().unwrap().version().unwrap(), Some(version));
    }
    assert_eq!(tx.model(job_id(1), 2).await.unwrap(), Some(model(2)));
    assert_eq!(tx.model(job_id(1), 3).await.unwrap(), None);
    assert_eq!(tx.version_of_round(job_id(1), 20).await.unwrap(), Some(2));
    assert_eq!(tx.version_of_round(job_id(1), 2).await.unwrap(), None);
    assert_eq!(tx.models(job_id(1), 0, 2).await.unwrap(), [model(0), model(1)]);
    assert_eq!(tx.models(job_id(1), 2, 2).await.unwrap(), [model(2)]);
    assert!(matches!(tx.insert_model(job_id(1), &model(2)).await, Err(DbError::Duplicate)));
}

pub(super) async fn bodies_are_kept_in_parts(db: &Db) {
    let body: Vec<u8> = (0..BLOB_CHUNK_BYTES + 3).map(|index| (index % 251) as u8).collect();
    let mut tx = db.begin().await.unwrap();
    tx.insert_blob("model/x/0", &body).await.unwrap();
    assert_eq!(tx.blob_chunk("model/x/0", 0).await.unwrap().unwrap().data, body[..BLOB_CHUNK_BYTES]);
    assert_eq!(tx.blob_chunk("model/x/0", 1).await.unwrap().unwrap().data, body[BLOB_CHUNK_BYTES..]);
    assert_eq!(tx.blob_chunk("model/x/0", 2).await.unwrap(), None);
    assert_eq!(tx.blob_chunk("model/x/1", 0).await.unwrap(), None);
    assert!(matches!(tx.insert_blob("model/x/0", &[1]).await, Err(DbError::Duplicate)));
}

pub(super) async fn a_body_in_a_store_is_known_by_its_name_and_by_its_object(db: &Db) {
    let mut tx = db.begin().await.unwrap();
    assert!(!tx.has_objects("").await.unwrap());
    tx.insert_object("model/x/0", &object("model/x/0/a")).await.unwrap();
    tx.insert_blob("model/x/1", &[1; 9]).await.unwrap();
    assert_eq!(tx.object("model/x/0").await.unwrap(), Some(object("model/x/0/a")));
    assert_eq!(tx.object("model/x/1").await.unwrap(), None);
    assert!(tx.has_objects("").await.unwrap());
    assert!(knows_object(&mut tx, "model/x/0/a").await);
    assert!(!knows_object(&mut tx, "model/x/0/b").await);
    assert_eq!(tx.delete_blob("model/x/0").await.unwrap().as_deref(), Some("model/x/0/a"));
    assert_eq!(tx.delete_blob("model/x/1").await.unwrap(), None);
    assert_eq!(tx.blob_chunk("model/x/1", 0).await.unwrap(), None);
    assert!(!tx.has_objects("").await.unwrap());
    tx.insert_object("model/x/0", &object("model/x/0/b")).await.unwrap();
    assert!(matches!(tx.insert_object("model/x/0", &object("model/x/0/c")).await, Err(DbError::Duplicate)));
}

pub(super) async fn a_database_has_one_id_for_ever(db: &Db) {
    let mut tx = db.begin().await.unwrap();
    assert_eq!(tx.deployment("first").await.unwrap(), "first");
    assert_eq!(tx.deployment("second").await.unwrap(), "first");
}

pub(super) async fn events_are_numbered_per_job(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    store_job(&mut tx, 2, "people", JobState::Running).await;
    tx.record(Transition::Job { job: job_id(1), state: JobState::Running, cause: None }, 5).await.unwrap();
    tx.record(Transition::Job { job: job_id(2), state: JobState::Running, cause: None }, 6).await.unwrap();
    tx.record(
        Transition::Round { round: training(7), phase: Phase::Abandoned, reason: Some(AbandonReason::TooFewReports) },
        7,
    )
    .await
    .unwrap();
    let id = assigned(training(7), 1);
    tx.record(
        Transition::Assignment {
            round: training(7),
            assignment: id,
            became: Became::State(AssignmentState::Expired),
            reason: None,
        },
        8,
    )
    .await
    .unwrap();
    let events = tx.events(job_id(1), 0, 10).await.unwrap();
    let told: Vec<_> = events.iter().map(|event| (event.sequence, event.at_ms, event.became.as_str())).collect();
    assert_eq!(told, [(1, 5, "running"), (2, 7, "abandoned"), (3, 8, "expired")]);
    assert_eq!((events[0].round, events[0].task, events[0].assignment), (None, None, None));
    assert_eq!((events[1].round, events[1].task), (Some(7), Some(Task::Train)));
    assert_eq!(events[1].cause.as_deref(), Some("too_few_reports"));
    assert_eq!(events[2].assignment, Some(id));
    assert_eq!(tx.events(job_id(1), 1, 1).await.unwrap(), events[1..2]);
    assert!(tx.events(job_id(1), 3, 10).await.unwrap().is_empty());
    // More than one statement stores.
    let drawn: Vec<_> = (0..77)
        .map(|client| Transition::of_assignment(training(8), assignment_id(client), AssignmentState::Assigned, None))
        .collect();
    tx.record_all(job_id(1), &drawn, 9).await.unwrap();
    let told = tx.events(job_id(1), 3, 100).await.unwrap();
    let told = told.iter().map(|event| (event.sequence, event.assignment));
    assert!(told.eq((4..81).zip((0..77).map(|client| Some(assignment_id(client))))));
}
