//! Clients that wait with the table of another job.

use tributary_protocol::operator::Health;
use tributary_protocol::state::{HealthKind, Severity};

/// Waiting clients whose tables have other columns or classes than a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherTables {
    pub clients: u64,
    /// All clients that wait.
    pub of: u64,
}

impl OtherTables {
    /// The same in a sentence; none if all tables fit.
    pub fn text(self) -> Option<String> {
        let Self { clients, of } = self;
        let text = format!(
            "{clients} of {of} waiting clients have a table with other columns or classes than this job, and no round \
             draws them"
        );
        (clients > 0).then_some(text)
    }
}

/// The line of a running job for whose tables some clients wait in vain.
pub(super) fn tables_differ(other: OtherTables) -> Option<Health> {
    let remedy = "at these clients, `tributary client check --csv FILE --job JOB` names the columns and labels";
    let (severity, kind) = (Severity::Warning, HealthKind::OtherTables);
    Some(Health { severity, kind, text: other.text()?, remedy: Some(remedy.to_owned()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_that_do_not_fit_are_counted() {
        assert_eq!(tables_differ(OtherTables { clients: 0, of: 5 }), None);
        let line = tables_differ(OtherTables { clients: 2, of: 5 }).unwrap();
        assert!(line.text.starts_with("2 of 5 waiting clients have a table with other columns"), "{}", line.text);
    }
}
