//! Looks at the health of the jobs that this coordinator leads, and stores a notification for each change; and one for
//! the end of the certificate.

use std::collections::HashSet;

use tributary_engine::story::{Finding, HealthChange, health_changes, in_words};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::operator::Health;
use tributary_protocol::state::{HealthKind, JobState};

use crate::api::health_of_jobs;
use crate::app::App;
use crate::db::{DbError, JobRow, OF_DATABASE, Tx};
use crate::notify::{self, About, Notice};

/// Time between two looks, in milliseconds.
const LOOK_EVERY_MS: i64 = 15_000;
/// Newest jobs that are looked at.
const JOBS_READ: u32 = 1_000;

/// Looks until the coordinator stops.
pub(crate) async fn run(app: &App) {
    while !app.stopping.is_cancelled() {
        if let Err(error) = look(app).await {
            tracing::warn!(%error, "the health of the jobs could not be read; trying again");
        }
        let next_at_ms = app.clock.now_ms() + LOOK_EVERY_MS;
        tokio::select! {
            () = app.stopping.cancelled() => return,
            () = app.clock.sleep_until(next_at_ms) => {}
        }
    }
}

/// What one look found of a subject.
struct Seen {
    /// None for the database.
    job: Option<JobRow>,
    lines: Vec<Health>,
}

/// Looks once. Does nothing without a webhook.
///
/// # Errors
/// [`DbError`]; the next look finds the same again.
pub async fn look(app: &App) -> Result<(), DbError> {
    if app.notify.is_none() {
        return Ok(());
    }
    let now_ms = app.clock.now_ms();
    let mut tx = app.db.read().await?;
    let (seen, running) = read(app, &mut tx, now_ms).await?;
    let known = tx.findings().await?;
    drop(tx);
    let mut changes = Vec::new();
    for seen in &seen {
        let subject = seen.subject();
        let findings: Vec<Finding> =
            known.iter().filter(|(of, _)| *of == subject).map(|(_, finding)| *finding).collect();
        let found = health_changes(&findings, &seen.lines, now_ms);
        changes.extend(found.into_iter().map(|change| (seen, findings.clone(), change)));
    }
    let all_run = known.iter().all(|(subject, _)| subject == OF_DATABASE || running.contains(subject));
    if changes.is_empty() && all_run {
        return Ok(());
    }
    let mut tx = app.db.begin().await?;
    tx.forget_findings_at_rest().await?;
    for (seen, findings, change) in changes {
        apply(app, &mut tx, seen, &findings, change, now_ms).await?;
    }
    tx.commit().await
}

/// The lines of the database and of each running job that this coordinator leads; and the ids of all running jobs.
async fn read(app: &App, tx: &mut Tx, now_ms: i64) -> Result<(Vec<Seen>, HashSet<String>), DbError> {
    let mut database = Seen { job: None, lines: Vec::new() };
    let mut jobs = tx.jobs_at_a_glance(None, true, JOBS_READ).await?;
    jobs.retain(|job| job.state == JobState::Running);
    let running = jobs.iter().map(|job| job.id.to_string()).collect();
    jobs.retain(|job| app.leases.holds(job.id, now_ms));
    let mut seen = Vec::with_capacity(jobs.len() + 1);
    for (job, health) in health_of_jobs(app, tx, jobs).await? {
        let (of_database, lines) = health.into_iter().partition(|line| line.kind == HealthKind::DiskFills);
        // Each job says the same of the disk.
        database.lines = of_database;
        seen.push(Seen { job: Some(job), lines });
    }
    seen.push(database);
    Ok((seen, running))
}

impl Seen {
    fn subject(&self) -> String {
        self.job.as_ref().map_or_else(|| OF_DATABASE.to_owned(), |job| job.id.to_string())
    }

    fn about(&self) -> About<'_> {
        match &self.job {
            Some(job) => About::job(job.id, &job.file.0.name, &job.file.0.population),
            None => About::deployment(),
        }
    }
}

async fn apply(
    app: &App,
    tx: &mut Tx,
    seen: &Seen,
    known: &[Finding],
    change: HealthChange,
    now_ms: i64,
) -> Result<(), DbError> {
    let subject = seen.subject();
    let before = |kind: HealthKind| {
        let found = Finding { kind, since_at_ms: now_ms, is_told: false, gone_at_ms: None };
        known.iter().find(|finding| finding.kind == kind).copied().unwrap_or(found)
    };
    let notice = match change {
        HealthChange::Found(kind) => return tx.store_finding(&subject, before(kind)).await,
        HealthChange::Gone(kind) => {
            let gone = Finding { gone_at_ms: Some(now_ms), ..before(kind) };
            return tx.store_finding(&subject, gone).await;
        }
        HealthChange::Back(kind) => {
            return tx.store_finding(&subject, Finding { gone_at_ms: None, ..before(kind) }).await;
        }
        HealthChange::Began(health) => {
            tx.store_finding(&subject, Finding { is_told: true, ..before(health.kind) }).await?;
            // They have notices of their own.
            if matches!(health.kind, HealthKind::RoundsAbandoned | HealthKind::NoDriver) {
                return Ok(());
            }
            Notice::Health(health)
        }
        HealthChange::Ended { kind, is_told } => {
            if !tx.forget_finding(&subject, kind).await? || !is_told {
                return Ok(());
            }
            Notice::Recovered(kind)
        }
    };
    notify::post(&app.services, tx, seen.about(), &notice, now_ms).await
}

/// Stores once for all coordinators that the certificate ends then.
pub(crate) async fn certificate_ends(app: &App, ends_at_ms: i64, now_ms: i64) -> Result<(), DbError> {
    if app.notify.is_none() {
        return Ok(());
    }
    let left = in_words((ends_at_ms - now_ms).max(0));
    let hash = Sha256Hash::of(format!("the certificate ends at {ends_at_ms}").as_bytes());
    let number = u128::from_le_bytes(hash.0[..16].try_into().expect("a hash has 32 bytes"));
    let mut tx = app.db.begin().await?;
    let notice = Notice::CertificateEnds { left };
    notify::post_as(&app.services, &mut tx, number, About::deployment(), &notice, now_ms).await?;
    tx.commit().await
}
