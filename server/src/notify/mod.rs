//! Notifications of a webhook: what happened is stored with it, in one transaction, and sent afterwards.
//!
//! A notification that was stored is sent at least once, also after a restart, by one of the coordinators. A receiver
//! that must not act twice remembers the `id`s: a notification is sent again when its answer was lost.

mod send;
mod webhook;

use serde_json::{Value, json};
use tributary_protocol::id::{JobId, Name};

use crate::db::{DbError, Tx};
use crate::runtime::entropy;
use crate::services::Services;

pub use send::{SendError, Sender};
pub use webhook::{ABANDONED_DEFAULT, NotifySettings, signature};

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
}

/// The job of a notice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About<'a> {
    pub(crate) job: JobId,
    pub(crate) name: &'a Name,
    pub(crate) population: &'a Name,
}

impl Notice {
    fn kind(&self) -> &'static str {
        match self {
            Self::RoundsAbandoned { .. } => "rounds_abandoned",
            Self::Completed => "job_completed",
            Self::TargetReached { .. } => "target_reached",
            Self::BudgetSpent => "privacy_budget",
            Self::CoordinatorLost { .. } => "coordinator_lost",
        }
    }

    fn text(&self, name: &Name) -> String {
        match self {
            Self::RoundsAbandoned { in_a_row, reason } => {
                format!("{in_a_row} rounds of {name} were abandoned in a row, the last because of {reason}")
            }
            Self::Completed => format!("{name} is completed"),
            Self::TargetReached { target } => format!("{name} has reached its target with {target}"),
            Self::BudgetSpent => format!("{name} is completed: its privacy budget allows no further round"),
            Self::CoordinatorLost { text } => format!("{name}: {text}"),
        }
    }

    fn body(&self, id: &str, about: About<'_>, now_ms: i64) -> Value {
        let About { job, name, population } = about;
        json!({
            "id": id, "kind": self.kind(), "at_ms": now_ms, "text": self.text(name),
            "job": { "id": job, "name": name, "population": population },
        })
    }
}

/// Stores a notification in the transaction of what it is about. Does nothing without a webhook.
pub(crate) async fn post(
    services: &Services,
    tx: &mut Tx,
    about: About<'_>,
    notice: &Notice,
    now_ms: i64,
) -> Result<(), DbError> {
    if services.notify.is_none() {
        return Ok(());
    }
    let id = format!("notice_{:032x}", u128::from_le_bytes(entropy::random()));
    tx.insert_notice(&id, &notice.body(&id, about, now_ms).to_string(), now_ms).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_says_what_happened_to_which_job() {
        let (name, population) = ("digits".parse().unwrap(), "demo".parse().unwrap());
        let about = About { job: JobId::from_random([1; 16]), name: &name, population: &population };
        let notice = Notice::RoundsAbandoned { in_a_row: 3, reason: "too_few_reports".into() };
        let body = notice.body("notice_1", about, 5);
        assert_eq!((&body["kind"], &body["job"]["name"]), (&"rounds_abandoned".into(), &"digits".into()));
        assert_eq!(body["text"], "3 rounds of digits were abandoned in a row, the last because of too_few_reports");
        let reached = Notice::TargetReached { target: "an accuracy of 95.02 %".into() };
        assert_eq!(reached.text(&name), "digits has reached its target with an accuracy of 95.02 %");
    }
}
