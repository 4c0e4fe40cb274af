//! Buffers that wait for clients without an update in them.

use tributary_protocol::operator::Health;
use tributary_protocol::state::{HealthKind, Severity};

/// An open buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferWanted {
    pub number: u32,
    /// Updates in it, and those that fill it.
    pub reported: u32,
    pub goal: u32,
    /// Clients at work.
    pub working: u32,
    /// Most updates of one client.
    pub per_client: u32,
}

/// A buffer that was begun and at which nobody works: all that were here have brought what counts of one client.
pub(super) fn contributors_wanted(wanted: Option<BufferWanted>) -> Option<Health> {
    let BufferWanted { number, reported, goal, working, per_client } = wanted?;
    (working == 0 && (1..goal).contains(&reported)).then(|| Health {
        severity: Severity::Waiting,
        kind: HealthKind::WaitingForClients,
        text: format!(
            "round {number} has {reported} of the {goal} updates of its buffer, and waits for clients with fewer than \
             {per_client} in it"
        ),
        remedy: Some("start more clients that the job admits, or create a job with a larger per_client".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_that_was_begun_and_at_which_nobody_works_waits_for_others() {
        let wanted = |reported, working| {
            contributors_wanted(Some(BufferWanted { number: 3, reported, goal: 5, working, per_client: 1 }))
        };
        assert_eq!([wanted(0, 0), wanted(5, 0), wanted(2, 1), contributors_wanted(None)], [None, None, None, None]);
        let text = "round 3 has 2 of the 5 updates of its buffer, and waits for clients with fewer than 1 in it";
        assert_eq!(wanted(2, 0).unwrap().text, text);
    }
}
