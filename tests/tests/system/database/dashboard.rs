//! What the dashboard asks: totals, curves, histories, statistics.

use std::collections::BTreeMap;

use tributary_engine::round::measured_centrally;
use tributary_protocol::device::Attributes;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::operator::{AuditEntry, CHAIN_BEGINS, ChainCheck, FoldedEntries};
use tributary_protocol::state::{AbandonReason, AssignmentState, AuditAction, JobState, Task};
use tributary_server::db::{
    AuditFilter, Db, EvaluationSummary, JobTotals, Measured, NewAudit, Report, RoundKey, Software, Transition, Tx,
};

use super::stored::{
    assigned, client_id, evaluation, job_id, name, population, report, start_round, store_job, traffic, training,
    updates,
};

/// A round of one client that reports this and closes.
async fn committed(tx: &mut Tx, key: RoundKey, loss: f64) {
    start_round(tx, key, 1).await;
    assert!(tx.accept_report(assigned(key, 1), &report(10, loss, None), 52).await.unwrap().is_some());
    tx.count_ended(key, AssignmentState::Reported, updates(1, 10), traffic(7, 9)).await.unwrap();
    assert!(tx.close_round(key, 53).await.unwrap());
    assert!(tx.commit_round(key, 54).await.unwrap());
}

async fn measured(tx: &mut Tx, number: u32, accuracy: f64) {
    committed(tx, evaluation(number), 0.25).await;
    let summary = EvaluationSummary { loss: Some(0.25), accuracy: Some((accuracy, measured_centrally(accuracy, 40))) };
    tx.store_evaluation(evaluation(number), summary).await.unwrap();
}

pub(super) async fn a_job_at_a_glance_is_the_sum_of_its_rounds(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    assert_eq!(tx.job_totals(job_id(1)).await.unwrap(), JobTotals::default());
    assert_eq!(tx.latest_measured(job_id(1)).await.unwrap(), Measured::default());
    for number in 1..=2 {
        committed(&mut tx, training(number), 1.0).await;
    }
    measured(&mut tx, 1, 0.75).await;
    measured(&mut tx, 2, 0.5).await;
    let totals = tx.job_totals(job_id(1)).await.unwrap();
    assert_eq!(totals, JobTotals { bytes_up: 28, bytes_down: 36 });
    let newest = tx.latest_measured(job_id(1)).await.unwrap();
    assert_eq!(newest, Measured { accuracy: Some(0.5), on: Some(measured_centrally(0.5, 40)), loss: Some(0.25) });
    assert_eq!(tx.job_totals(job_id(2)).await.unwrap(), JobTotals::default());
}

pub(super) async fn a_spark_prefers_rounds_that_were_measured(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    for number in 1..=5 {
        committed(&mut tx, training(number), 1.0).await;
    }
    start_round(&mut tx, training(6), 0).await;
    assert!(tx.abandon_round(training(6), AbandonReason::TooFewReports, 60).await.unwrap());
    measured(&mut tx, 2, 0.75).await;
    let all = tx.spark(job_id(1), 1).await.unwrap();
    assert_eq!(all.iter().map(|point| point.0).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert_eq!((all[0], all[1]), ((1, None, Some(1.0)), (2, Some(0.75), Some(0.25))));
    let thinned = tx.spark(job_id(1), 3).await.unwrap();
    assert_eq!(thinned, [(2, Some(0.75), Some(0.25)), (5, None, Some(1.0))]);
    assert!(tx.spark(job_id(2), 0).await.unwrap().is_empty());
}

pub(super) async fn jobs_that_may_run_come_first_and_the_newest_of_them(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    for number in 2..=4 {
        store_job(&mut tx, number, "people", JobState::Running).await;
    }
    tx.set_job_state(job_id(2), JobState::Stopped, 99).await.unwrap();
    let ids: Vec<_> = tx.jobs_at_a_glance(None, false, 10).await.unwrap().iter().map(|job| job.id).collect();
    assert_eq!(ids, [job_id(1), job_id(3), job_id(4), job_id(2)]);
    assert_eq!(tx.jobs_at_a_glance(None, false, 1).await.unwrap().len(), 1);
}

pub(super) async fn a_cohort_is_shown_by_client_number(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    start_round(&mut tx, training(1), 3).await;
    let (id, state) = (assigned(training(1), 2), AssignmentState::Failed);
    assert!(tx.end_assignment(id, state, Some("no_data"), traffic(0, 0), 50).await.unwrap().is_some());
    let cells = tx.cells(training(1), 2).await.unwrap();
    let told: Vec<_> = cells.iter().map(|cell| (cell.number, cell.state, cell.reason.as_deref())).collect();
    assert_eq!(told, [(1, AssignmentState::Assigned, None), (2, AssignmentState::Failed, Some("no_data"))]);
}

pub(super) async fn nobody_works_longer_than_it_was_assigned(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    start_round(&mut tx, training(1), 3).await;
    for (client, work_ms) in [(1, 12), (2, u64::MAX), (3, u64::MAX - 1)] {
        let told = Report { work_ms, ..report(1, 1.0, None) };
        // Assigned at 40.
        assert!(tx.accept_report(assigned(training(1), client), &told, 140).await.unwrap().is_some());
    }
    assert_eq!(tx.work_ms(training(1)).await.unwrap(), 212);
    assert!(tx.close_round(training(1), 150).await.unwrap());
    assert!(tx.commit_round(training(1), 160).await.unwrap());
    assert_eq!(tx.curve_rows(job_id(1)).await.unwrap()[0].clients_ms, 212);
    start_round(&mut tx, training(2), 0).await;
    assert_eq!(tx.work_ms(training(2)).await.unwrap(), 0);
    assert!(tx.abandon_round(training(2), AbandonReason::TooFewReports, 160).await.unwrap());
}

pub(super) async fn a_curve_is_read_from_ended_training_rounds(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    committed(&mut tx, training(1), 1.5).await;
    measured(&mut tx, 1, 0.5).await;
    start_round(&mut tx, training(2), 1).await;
    assert!(tx.abandon_round(training(2), AbandonReason::TooFewReports, 70).await.unwrap());
    start_round(&mut tx, training(3), 0).await;
    let rows = tx.curve_rows(job_id(1)).await.unwrap();
    let told: Vec<_> = rows.iter().map(|row| (row.round, row.abandoned, row.ended_at_ms, row.reported)).collect();
    assert_eq!(told, [(1, false, 54, 1), (2, true, 70, 0)]);
    assert_eq!((rows[0].training_loss, rows[0].loss, rows[0].accuracy), (Some(1.5), Some(0.25), Some(0.5)));
    assert_eq!((rows[0].bytes_up, rows[0].bytes_down, rows[0].clients_ms), (7, 9, 12));
}

pub(super) async fn the_history_of_a_client_is_paged_from_its_end(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    for number in 1..=3 {
        committed(&mut tx, training(number), 1.0).await;
    }
    let all = tx.client_history(client_id(1), (i64::MAX, ""), 10).await.unwrap();
    // Assigned at the same moment: the ids decide.
    assert_eq!(all.iter().map(|item| item.round).collect::<Vec<_>>(), [3, 2, 1]);
    assert_eq!((all[0].job, all[0].task, all[0].assignment.client), (job_id(1), Task::Train, client_id(1)));
    let last = all[0].assignment.id.to_string();
    assert_eq!(tx.client_history(client_id(1), (40, &last), 1).await.unwrap(), all[1..2]);
    assert!(tx.client_history(client_id(2), (i64::MAX, ""), 10).await.unwrap().is_empty());
}

pub(super) async fn sessions_are_counted_over_the_newest(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    let said: Attributes = BTreeMap::from([("ram".to_owned(), "2".to_owned())]).try_into().unwrap();
    tx.client_seen(client_id(1), &said, &Software::default(), (1, &[]), 90).await.unwrap();
    for number in 1..=2 {
        committed(&mut tx, training(number), 1.0).await;
    }
    start_round(&mut tx, training(3), 1).await;
    let sessions = tx.newest_sessions(&name("people"), 10).await.unwrap();
    let mut shapes: Vec<_> = sessions.iter().map(|(attributes, session)| (&**attributes, session.shape())).collect();
    shapes.sort_by(|a, b| a.1.cmp(&b.1));
    assert_eq!(shapes, [(&said, "ca".into()), (&said, "cadtu+".into()), (&said, "cadtu+".into())]);
    assert_eq!(tx.newest_sessions(&name("people"), 2).await.unwrap().len(), 2);
    let of_job = tx.sessions_of_job(job_id(1), Task::Train, 2, 10).await.unwrap();
    assert_eq!(of_job.iter().map(|(_, session)| session.shape()).collect::<Vec<_>>(), ["ca", "cadtu+"]);
    let mut attributes = tx.client_attributes(&name("people")).await.unwrap();
    attributes.sort_by_key(|(_, count)| *count);
    assert_eq!(attributes, [(said, 1), (Attributes::default(), 2)]);
}

pub(super) async fn a_feed_follows_jobs_until_a_while_after_their_end(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    store_job(&mut tx, 2, "people", JobState::Running).await;
    tx.record(Transition::Job { job: job_id(1), state: JobState::Running, cause: None }, 5).await.unwrap();
    tx.set_job_state(job_id(2), JobState::Stopped, 99).await.unwrap();
    let positions = tx.job_positions(None, 99, 10).await.unwrap();
    let told: Vec<_> = positions.iter().map(|position| (position.job, position.last)).collect();
    assert_eq!(told, [(job_id(1), 1), (job_id(2), 0)]);
    assert_eq!(tx.job_positions(None, 100, 10).await.unwrap().len(), 1);
    assert_eq!(tx.job_positions(None, 0, 1).await.unwrap().len(), 1);
}

fn entry(subject: &str, population: Option<&str>) -> NewAudit {
    NewAudit {
        actor: "account:ada".into(),
        label: "ada".into(),
        action: AuditAction::JobPause,
        subject: subject.into(),
        population: population.map(name),
        detail: (subject == "2").then(|| "why".into()),
    }
}

/// The chain of a database, checked.
async fn checked_chain(db: &Db) -> (u64, Sha256Hash) {
    let mut tx = db.read().await.unwrap();
    let mut check = ChainCheck::new(None);
    for entry in tx.audit_chain(0, 1_000).await.unwrap() {
        check.line(&entry.line()).unwrap();
    }
    let end = check.finish().unwrap();
    assert_eq!(end, tx.audit_head().await.unwrap());
    end
}

pub(super) async fn the_audit_log_is_a_chain_and_is_paged_from_its_end(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    assert_eq!(tx.audit_head().await.unwrap(), (0, CHAIN_BEGINS));
    for (subject, population, at_ms) in [("1", None, 50), ("2", Some("people"), 60), ("3", None, 40)] {
        tx.append_audit(entry(subject, population), at_ms).await.unwrap();
    }
    tx.commit().await.unwrap();
    assert_eq!(checked_chain(db).await.0, 3);
    let mut tx = db.read().await.unwrap();
    let of_people = name("people");
    let everything = AuditFilter::default();
    let people = AuditFilter { population: Some(&of_people), ..AuditFilter::default() };
    let all = entries(&mut tx, &everything, 1_000, 10).await;
    let seen: Vec<_> = all.iter().map(|entry| (entry.number, &*entry.subject, entry.at_ms)).collect();
    assert_eq!(seen, [(3, "3", 40), (2, "2", 60), (1, "1", 50)], "in the order of writing, not of the clock");
    assert_eq!(entries(&mut tx, &everything, 3, 1).await, all[1..2]);
    assert_eq!(entries(&mut tx, &people, 1_000, 10).await, all[1..2]);
    assert_eq!((all[2].previous, all[1].previous), (CHAIN_BEGINS, all[2].hash));
    assert_eq!(tx.audit_chain(1, 1).await.unwrap(), all[1..2]);
}

async fn entries(tx: &mut Tx, filter: &AuditFilter<'_>, before: u64, limit: u32) -> Vec<AuditEntry> {
    tx.audit(filter, before, limit).await.unwrap().into_iter().map(|row| row.entry).collect()
}

/// What a search finds: numbers of entries, each with the number of those that it stands for.
async fn found(tx: &mut Tx, filter: &AuditFilter<'_>, before: u64, limit: u32) -> Vec<(u64, u64)> {
    let rows = tx.audit(filter, before, limit).await.unwrap();
    rows.iter().map(|row| (row.entry.number, row.folded.map_or(1, |folded| folded.entries))).collect()
}

pub(super) async fn the_audit_log_is_searched_and_its_enrolments_are_folded(db: &Db) {
    const DAY_MS: i64 = 86_400_000;
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    let enrolment = |token: &str, client: u32| NewAudit {
        actor: token.into(),
        label: "Site_North".into(),
        action: AuditAction::ClientEnrol,
        ..entry(&format!("client {client}"), Some("people"))
    };
    // On the first day 1, 2 and 4 with one token, 3 with another one; on the next day 6 with the first one.
    for (new, at_ms) in [
        (enrolment("token_a", 1), 10),
        (enrolment("token_a", 2), 20),
        (enrolment("token_b", 3), 30),
        (enrolment("token_a", 4), 40),
        (entry("job_7", None), 50),
        (enrolment("token_a", 5), DAY_MS),
    ] {
        tx.append_audit(new, at_ms).await.unwrap();
    }
    tx.commit().await.unwrap();
    let mut tx = db.read().await.unwrap();
    let all = AuditFilter::default();
    let folded = AuditFilter { fold: true, ..all.clone() };
    assert_eq!(found(&mut tx, &all, 100, 10).await.len(), 6);
    assert_eq!(found(&mut tx, &folded, 100, 10).await, [(6, 1), (5, 1), (4, 3), (3, 1)]);
    assert_eq!(found(&mut tx, &folded, 100, 2).await, [(6, 1), (5, 1)]);
    assert_eq!(found(&mut tx, &folded, 5, 2).await, [(4, 3), (3, 1)], "the next page");
    let first = tx.audit(&folded, 5, 1).await.unwrap();
    assert_eq!(first[0].folded, Some(FoldedEntries { entries: 3, first_at_ms: 10 }));

    let enrolments = AuditFilter { action: Some(AuditAction::ClientEnrol), ..folded.clone() };
    assert_eq!(found(&mut tx, &enrolments, 100, 10).await, [(6, 1), (4, 3), (3, 1)]);
    let pauses = AuditFilter { action: Some(AuditAction::JobPause), ..folded.clone() };
    assert_eq!(found(&mut tx, &pauses, 100, 10).await, [(5, 1)]);
    for (person, numbers) in [
        ("ada", vec![5]),
        ("account:ada", vec![5]),
        ("AD*", vec![5]),
        ("token_b", vec![3]),
        ("site_north", vec![6, 4, 3]),
        ("site%north", vec![]),
        ("ad", vec![]),
    ] {
        let found = found(&mut tx, &AuditFilter { person: Some(person), ..folded.clone() }, 100, 10).await;
        assert_eq!(found.iter().map(|(number, _)| *number).collect::<Vec<_>>(), numbers, "{person}");
    }
    for (subject, numbers) in [("client 2", vec![2]), ("client *", vec![6, 4, 3, 2, 1]), ("job?7", vec![])] {
        let found = found(&mut tx, &AuditFilter { subject: Some(subject), ..folded.clone() }, 100, 10).await;
        assert_eq!(found.iter().map(|(number, _)| *number).collect::<Vec<_>>(), numbers, "{subject}");
    }
    let late = AuditFilter { since_at_ms: 41, ..folded.clone() };
    assert_eq!(found(&mut tx, &late, 100, 10).await, [(6, 1), (5, 1)]);
    let early = AuditFilter { until_at_ms: 40, ..folded.clone() };
    assert_eq!(found(&mut tx, &early, 100, 10).await, [(4, 3), (3, 1)], "a row has all of its day");
    let each = AuditFilter { until_at_ms: 40, ..all };
    assert_eq!(found(&mut tx, &each, 100, 10).await, [(3, 1), (2, 1), (1, 1)]);
}

pub(super) async fn concurrent_entries_make_one_chain(db: &Db) {
    const EACH: u64 = 10;
    let write = |writer: u64| {
        let db = db.clone();
        async move {
            for number in 0..EACH {
                let mut tx = db.begin().await.unwrap();
                tx.append_audit(entry(&format!("{writer}/{number}"), None), 1).await.unwrap();
                tx.commit().await.unwrap();
            }
        }
    };
    let writers: Vec<_> = (0..4).map(|writer| tokio::spawn(write(writer))).collect();
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(checked_chain(db).await.0, 4 * EACH);
}
