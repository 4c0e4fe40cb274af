//! Which clients cannot follow a plan, and what their SDKs lack.

use tributary_protocol::abilities::Abilities;
use tributary_protocol::operator::Health;
use tributary_protocol::state::{HealthKind, Severity};

/// Kinds of SDKs that a sentence has room for.
const KINDS_SHOWN: usize = 4;
/// So many clients for each one that cannot follow a plan are too many for a warning.
const OTHERS_MAX: u64 = 10;

/// Clients that have the same SDK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SdkClients {
    /// Kind and release, as `rust 0.1.0`.
    pub sdk: String,
    pub abilities: Abilities,
    pub clients: u64,
}

/// Clients that cannot follow a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unable {
    /// How many they are, with which SDKs, in a sentence.
    pub text: String,
    pub clients: u64,
    /// All clients of the population.
    pub of: u64,
}

/// What to say of a population in which some clients cannot do what a job needs; none if all can.
pub fn incapable(needed: Abilities, population: &[SdkClients]) -> Option<Unable> {
    let all: u64 = population.iter().map(|sdk| sdk.clients).sum();
    let lacking = |sdk: &SdkClients| sdk.abilities.lacks(needed);
    let cannot: Vec<&SdkClients> = population.iter().filter(|sdk| !lacking(sdk).is_empty()).collect();
    let clients: u64 = cannot.iter().map(|sdk| sdk.clients).sum();
    if clients == 0 {
        return None;
    }
    let kinds = cannot.iter().take(KINDS_SHOWN);
    let kinds = kinds.map(|sdk| format!("{} with {}, which lacks {}", sdk.clients, sdk.sdk, lacking(sdk)));
    let mut kinds: Vec<String> = kinds.collect();
    if cannot.len() > KINDS_SHOWN {
        kinds.push(format!("and {} other SDKs", cannot.len() - KINDS_SHOWN));
    }
    let text =
        format!("{clients} of {all} clients cannot follow this plan, and no round draws them: {}", kinds.join("; "));
    Some(Unable { text, clients, of: all })
}

/// The line of a running job of which a tenth of the clients or more can follow nothing.
pub(super) fn many_are_unable(unable: Option<&Unable>) -> Option<Health> {
    let Unable { text, .. } = unable.filter(|unable| unable.clients * OTHERS_MAX >= unable.of)?;
    let remedy = "update the apps of these clients, or give the job a plan that they can follow";
    let (severity, kind) = (Severity::Warning, HealthKind::CannotFollow);
    Some(Health { severity, kind, text: text.clone(), remedy: Some(remedy.to_owned()) })
}

#[cfg(test)]
mod tests {
    use tributary_protocol::abilities::Ability;

    use super::*;

    #[test]
    fn clients_that_cannot_follow_a_plan_are_counted_by_their_sdks() {
        let without = |ability| Abilities::FIRST.without(ability);
        let of = |sdk: &str, abilities, clients| SdkClients { sdk: sdk.into(), abilities, clients };
        let population = [
            of("rust 0.1.0", Abilities::FIRST, 40),
            of("kotlin 0.1.0", without(Ability::Gru), 50),
            of("python 0.2.0", without(Ability::Gru).without(Ability::Adam), 10),
        ];
        let needed = Abilities::NONE.with(Ability::Gru).with(Ability::Adam);
        let text = "60 of 100 clients cannot follow this plan, and no round draws them: 50 with kotlin 0.1.0, which \
                    lacks layer:gru; 10 with python 0.2.0, which lacks layer:gru, optimizer:adam";
        let unable = incapable(needed, &population).unwrap();
        assert_eq!(unable, Unable { text: text.into(), clients: 60, of: 100 });
        let line = many_are_unable(Some(&unable)).unwrap();
        assert_eq!((line.kind, line.text), (HealthKind::CannotFollow, unable.text.clone()));
        assert!(many_are_unable(Some(&Unable { clients: 10, ..unable.clone() })).is_some());
        assert_eq!(many_are_unable(Some(&Unable { clients: 9, ..unable })), None);
        assert_eq!(incapable(Abilities::NONE.with(Ability::Relu), &population), None);
        let many: Vec<SdkClients> = (0..6).map(|sdk| of(&format!("sdk {sdk}"), Abilities::NONE, 1)).collect();
        let Unable { text, .. } = incapable(needed, &many).unwrap();
        let four = incapable(needed, &many[..4]).unwrap().text;
        assert!(four.contains("sdk 3") && !four.contains("other SDKs"), "{four}");
        assert!(text.starts_with("6 of 6 clients") && text.ends_with("; and 2 other SDKs"), "{text}");
    }
}
