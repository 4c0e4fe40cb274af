//! How many clients of a population listen for the other members of a group.

use tributary_protocol::abilities::Ability;
use tributary_protocol::operator::Health;
use tributary_protocol::state::{HealthKind, Severity};

use super::software::SdkClients;
use super::words::count;

/// The clients of the population of a job whose members add up among themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listeners {
    pub listen: u64,
    pub of: u64,
    /// Members without which no round begins.
    pub needed: u32,
}

impl Listeners {
    /// Those of these clients that listen.
    pub fn among(population: &[SdkClients], needed: u32) -> Self {
        let listening = population.iter().filter(|sdk| sdk.abilities.has(Ability::Ring));
        Self {
            listen: listening.map(|sdk| sdk.clients).sum(),
            of: population.iter().map(|sdk| sdk.clients).sum(),
            needed,
        }
    }
}

/// The line of a running job.
pub(super) fn clients_listen(listeners: Listeners) -> Health {
    let Listeners { listen, of, needed } = listeners;
    let text = format!("{listen} of {of} clients listen for the other members of their group");
    let (severity, text, remedy) = if listen < u64::from(needed) {
        let remedy = "start clients with --listen, and let their ports be reached by the other members";
        (Severity::Warning, format!("{text}, and a round needs {}", count(needed, "member")), Some(remedy.to_owned()))
    } else {
        (Severity::Ok, text, None)
    };
    Health { severity, kind: HealthKind::Listeners, text, remedy }
}

#[cfg(test)]
mod tests {
    use tributary_protocol::abilities::Abilities;

    use super::*;

    #[test]
    fn a_population_with_too_few_listeners_is_told_so() {
        let of = |abilities, clients| SdkClients { sdk: "rust 0.1.0".into(), abilities, clients };
        let population = [of(Abilities::FIRST.with(Ability::Ring), 3), of(Abilities::FIRST.without(Ability::Ring), 7)];
        let line = clients_listen(Listeners::among(&population, 5));
        assert_eq!(
            line.text,
            "3 of 10 clients listen for the other members of their group, and a round needs 5 members"
        );
        assert_eq!((line.severity, line.kind), (Severity::Warning, HealthKind::Listeners));
        assert!(line.remedy.unwrap().contains("--listen"));
        let line = clients_listen(Listeners::among(&population, 3));
        assert_eq!((line.severity, line.remedy), (Severity::Ok, None));
        assert_eq!(line.text, "3 of 10 clients listen for the other members of their group");
    }
}
