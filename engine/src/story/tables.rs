//! Clients that wait with the table of another job.

use tributary_protocol::id::ClientId;
use tributary_protocol::operator::Health;
use tributary_protocol::state::{HealthKind, Severity};

/// Clients that are named.
const NAMED_MAX: usize = 5;

/// Waiting clients whose tables have other columns or classes than a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherTables {
    pub clients: Vec<ClientId>,
    /// All clients that wait.
    pub of: usize,
}

impl OtherTables {
    /// The same in a sentence; none if all tables fit.
    pub fn text(&self) -> Option<String> {
        let Self { clients, of } = self;
        let text = format!(
            "{} of {of} waiting clients have a table with other columns or classes than this job, and no round draws \
             them",
            clients.len()
        );
        (!clients.is_empty()).then_some(text)
    }

    /// The sentence, with the clients.
    pub fn named(&self) -> Option<String> {
        self.text().map(|text| format!("{text}: {}", self.names()))
    }

    fn names(&self) -> String {
        let named = &self.clients[..self.clients.len().min(NAMED_MAX)];
        let names = named.iter().map(ClientId::to_string).collect::<Vec<_>>().join(", ");
        match self.clients.len() - named.len() {
            0 => names,
            others => format!("{names} and {others} more"),
        }
    }
}

/// The line of a running job for whose tables some clients wait in vain.
pub(super) fn tables_differ(other: &OtherTables) -> Option<Health> {
    let text = other.text()?;
    let at = other.names();
    let remedy = format!("`tributary client check --csv FILE --job JOB` names the columns and labels, at {at}");
    let (severity, kind) = (Severity::Warning, HealthKind::OtherTables);
    Some(Health { severity, kind, text, remedy: Some(remedy) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_that_do_not_fit_are_counted_and_their_clients_named() {
        let clients = |number: u8| (1..=number).map(|byte| ClientId::from_random([byte; 16])).collect::<Vec<_>>();
        assert_eq!(tables_differ(&OtherTables { clients: clients(0), of: 5 }), None);
        let two = OtherTables { clients: clients(2), of: 5 };
        let line = tables_differ(&two).unwrap();
        assert!(line.text.starts_with("2 of 5 waiting clients have a table with other columns"), "{}", line.text);
        let [first, second] = &two.clients[..] else { unreachable!() };
        assert!(line.remedy.unwrap().ends_with(&format!(", at {first}, {second}")));
        assert_eq!(two.named().unwrap(), format!("{}: {first}, {second}", line.text));
        let many = OtherTables { clients: clients(7), of: 9 }.named().unwrap();
        assert!(many.contains(&clients(5)[4].to_string()) && many.ends_with(" and 2 more"), "{many}");
    }
}
