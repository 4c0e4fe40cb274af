//! What the draw of a cohort reads of the clients besides their check-ins.

use std::collections::BTreeMap;

use tributary_protocol::id::ClientId;

/// What a client reported with its last accepted update of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LastReport {
    /// Mean loss of its training.
    pub loss: f64,
    /// Number of examples.
    pub examples: u64,
    /// Time of its training.
    pub work_ms: u64,
    /// The round that took the update.
    pub round: u32,
}

/// What is known when a cohort is drawn.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Known {
    /// Number of the round.
    pub round: u32,
    /// The last report of each client that has one. Only the selections `power_of_choice` and `utility` read them.
    pub reports: BTreeMap<ClientId, LastReport>,
}

/// Candidates of the tests of draws.
#[cfg(test)]
pub(in crate::round) mod fixture {
    use std::sync::Arc;

    use tributary_protocol::device::Attributes;
    use tributary_protocol::example_sets::ExampleSets;
    use tributary_protocol::id::ClientId;

    use super::super::candidate::Candidate;

    pub(in crate::round) fn candidate(number: u64) -> Arc<Candidate> {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        Arc::new(Candidate {
            client: ClientId::from_random(bytes),
            number,
            attributes: Attributes::default(),
            examples: 1,
            sets: ExampleSets::default(),
            codecs: vec![],
            abilities: tributary_protocol::abilities::Abilities::FIRST,
            schema: None,
            answers: false,
            masks: false,
            signs: false,
            relay: None,
            share: None,
        })
    }

    pub(in crate::round) fn numbers(cohort: &[Arc<Candidate>]) -> Vec<u64> {
        cohort.iter().map(|candidate| candidate.number).collect()
    }
}
