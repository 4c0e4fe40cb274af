//! What a client without work waits for, as a sentence.

use tributary_protocol::device::WaitsFor;

use crate::format::duration_ms;

pub(super) fn sentence(waits_for: &WaitsFor) -> String {
    match waits_for {
        WaitsFor::Job => "no job of its population is running".into(),
        WaitsFor::Clients { job, round, available, needed, minimum, ends_in_ms } => {
            let clients = if *needed == 1 { "client" } else { "clients" };
            let are = if *available == 1 { "is" } else { "are" };
            let then = if available < minimum { "gives up" } else { "starts with those" };
            let left = duration_ms(*ends_in_ms);
            format!("{available} of {needed} eligible {clients} {are} here; round {round} of {job} {then} in {left}")
        }
        WaitsFor::Admission { job, reason } => format!("the job {job} does not admit this client: {reason}"),
        WaitsFor::NextRound { job } => format!("the next round of {job}"),
        WaitsFor::Release => "an operator quarantined this client; `tributary client release` ends that".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_counts_those_who_are_here_and_says_what_comes() {
        let clients = |available, needed| WaitsFor::Clients {
            job: "first".parse().unwrap(),
            round: 1,
            available,
            needed,
            minimum: 5,
            ends_in_ms: 213_000,
        };
        let few = "1 of 13 eligible clients is here; round 1 of first gives up in 3 min 33 s";
        assert_eq!(sentence(&clients(1, 13)), few);
        let enough = "5 of 13 eligible clients are here; round 1 of first starts with those in 3 min 33 s";
        assert_eq!(sentence(&clients(5, 13)), enough);
    }
}
