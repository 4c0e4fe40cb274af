//! Notifications of a webhook: what happened is stored with it, in one transaction, and sent afterwards.
//!
//! A notification that was stored is sent at least once, also after a restart, by one of the coordinators. A receiver
//! that must not act twice remembers the `id`s: a notification is sent again when its answer was lost.

mod send;
mod webhook;

use serde_json::{Value, json};
use tributary_protocol::id::{JobId, Name};
use tributary_protocol::operator::Health;
use tributary_protocol::state::HealthKind;

use crate::db::{DbError, Tx};
use crate::runtime::entropy;
use crate::services::Services;

pub use send::{SendError, Sender};
use webhook::EVERYTHING;
pub use webhook::{ABANDONED_DEFAULT, Format, NotifySettings, Webhook, signature};

/// What is worth a notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// This many training rounds in a row were abandoned, the last for this reason.
    RoundsAbandoned {
        in_a_row: u32,
        reason: String,
    },
    Completed,
    /// The job ended at its accuracy or its metric, as `an accuracy of 95.02 %`.
    TargetReached {
        target: String,
    },
    /// The job ended because its privacy budget allows no further round.
    BudgetSpent,
    /// The coordinator that drove the job is dead, and this one has taken the job over.
    CoordinatorLost {
        text: String,
    },
    /// A line of a job's health, or of the database, that has stayed for a while.
    Health(Health),
    /// Such a line is gone.
    Recovered(HealthKind),
    /// A client is quarantined, by its name in the audit log.
    ClientQuarantined {
        client: String,
        reason: String,
    },
    /// So long, as `6 d`.
    CertificateEnds {
        left: String,
    },
    /// A run of scheduled work failed, and the one before did not.
    WorkFailed {
        work: &'static str,
        outcome: String,
    },
    WorkRecovered {
        work: &'static str,
    },
}

/// The job or the population of a notice; neither where it concerns the deployment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct About<'a> {
    job: Option<(JobId, &'a Name)>,
    population: Option<&'a Name>,
}

impl<'a> About<'a> {
    pub(crate) fn job(job: JobId, name: &'a Name, population: &'a Name) -> Self {
        Self { job: Some((job, name)), population: Some(population) }
    }

    pub(crate) fn population(population: &'a Name) -> Self {
        Self { job: None, population: Some(population) }
    }

    /// What the deployment as a whole concerns.
    pub(crate) fn deployment() -> Self {
        Self::default()
    }
}

impl Notice {
    fn kind(&self) -> &'static str {
        match self {
            Self::RoundsAbandoned { .. } => "rounds_abandoned",
            Self::Completed => "job_completed",
            Self::TargetReached { .. } => "target_reached",
            Self::BudgetSpent => "privacy_budget",
            Self::CoordinatorLost { .. } => "coordinator_lost",
            Self::Health(_) => "health",
            Self::Recovered(_) => "recovered",
            Self::ClientQuarantined { .. } => "client_quarantined",
            Self::CertificateEnds { .. } => "certificate_ends",
            Self::WorkFailed { .. } => "work_failed",
            Self::WorkRecovered { .. } => "work_recovered",
        }
    }

    /// The notice in a sentence. That of a job begins with its name.
    fn text(&self, about: About<'_>) -> String {
        let name = about.job.map_or("", |(_, name)| name.as_str());
        let of_job = |text: &str| if name.is_empty() { text.to_owned() } else { format!("{name}: {text}") };
        match self {
            Self::RoundsAbandoned { in_a_row, reason } => {
                format!("{in_a_row} rounds of {name} were abandoned in a row, the last because of {reason}")
            }
            Self::Completed => format!("{name} is completed"),
            Self::TargetReached { target } => format!("{name} has reached its target with {target}"),
            Self::BudgetSpent => format!("{name} is completed: its privacy budget allows no further round"),
            Self::CoordinatorLost { text } => of_job(text),
            Self::Health(Health { text, remedy: Some(remedy), .. }) => of_job(&format!("{text}. To do: {remedy}")),
            Self::Health(Health { text, .. }) => of_job(text),
            Self::Recovered(kind) => of_job(&format!("recovered, no longer {}", kind.as_str().replace('_', " "))),
            Self::ClientQuarantined { client, reason } => {
                let population = about.population.map_or("", Name::as_str);
                format!("{client} of {population} is quarantined: {reason}")
            }
            Self::CertificateEnds { left } => format!("the TLS certificate of the coordinator ends in {left}"),
            Self::WorkFailed { work, outcome } => format!("scheduled work failed, {work}: {outcome}"),
            Self::WorkRecovered { work } => format!("scheduled work succeeds again, {work}"),
        }
    }

    fn body(&self, id: &str, about: About<'_>, now_ms: i64) -> Value {
        let mut body = json!({ "id": id, "kind": self.kind(), "at_ms": now_ms, "text": self.text(about) });
        if let Some(population) = about.population {
            body["population"] = json!(population);
        }
        if let (Some((job, name)), Some(population)) = (about.job, about.population) {
            body["job"] = json!({ "id": job, "name": name, "population": population });
        }
        match self {
            Self::Health(health) => body["health"] = json!(health),
            Self::Recovered(kind) => body["health"] = json!({ "kind": kind }),
            _ => {}
        }
        body
    }
}

/// Stores a notification for each webhook that takes it, in the transaction of what it is about. Does nothing without a
/// webhook.
pub(crate) async fn post(
    services: &Services,
    tx: &mut Tx,
    about: About<'_>,
    notice: &Notice,
    now_ms: i64,
) -> Result<(), DbError> {
    post_as(services, tx, u128::from_le_bytes(entropy::random()), about, notice, now_ms).await
}

/// Like [`post`], for what several coordinators or several looks may find: one with this number is stored once.
pub(crate) async fn post_as(
    services: &Services,
    tx: &mut Tx,
    number: u128,
    about: About<'_>,
    notice: &Notice,
    now_ms: i64,
) -> Result<(), DbError> {
    let Some(to) = &services.notify else { return Ok(()) };
    let id = format!("notice_{number:032x}");
    let body = notice.body(&id, about, now_ms).to_string();
    if to.everything {
        tx.insert_notice(&id, EVERYTHING, &body, now_ms).await?;
    }
    match about.population {
        Some(population) if to.populations.contains(population) => {
            tx.insert_notice(&id, population.as_str(), &body, now_ms).await
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_says_what_happened_to_which_job() {
        let (name, population) = ("digits".parse().unwrap(), "demo".parse().unwrap());
        let about = About::job(JobId::from_random([1; 16]), &name, &population);
        let notice = Notice::RoundsAbandoned { in_a_row: 3, reason: "too_few_reports".into() };
        let body = notice.body("notice_1", about, 5);
        assert_eq!((&body["kind"], &body["job"]["name"]), (&"rounds_abandoned".into(), &"digits".into()));
        assert_eq!(body["text"], "3 rounds of digits were abandoned in a row, the last because of too_few_reports");
        let reached = Notice::TargetReached { target: "an accuracy of 95.02 %".into() };
        assert_eq!(reached.text(about), "digits has reached its target with an accuracy of 95.02 %");
        let recovered = Notice::Recovered(HealthKind::ClassShutOut);
        assert_eq!(recovered.text(about), "digits: recovered, no longer class shut out");
        assert_eq!(recovered.body("notice_2", about, 5)["health"]["kind"], "class_shut_out");
    }

    #[test]
    fn a_notice_without_a_job_says_what_it_concerns() {
        let population = "demo".parse().unwrap();
        let about = About::population(&population);
        let notice = Notice::ClientQuarantined { client: "client 7".into(), reason: "it sends nonsense".into() };
        let body = notice.body("notice_1", about, 5);
        assert_eq!(body["text"], "client 7 of demo is quarantined: it sends nonsense");
        assert_eq!((&body["population"], body.get("job")), (&"demo".into(), None));
        let failed = Notice::WorkFailed { work: "retention", outcome: "the disk is full".into() };
        let body = failed.body("notice_2", About::deployment(), 5);
        assert_eq!(body["text"], "scheduled work failed, retention: the disk is full");
        assert_eq!(body.get("population"), None);
    }
}
