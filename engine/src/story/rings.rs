//! Groups that add up among themselves, in sentences.

use tributary_protocol::operator::{RingAttempt, RoundRing};
use tributary_protocol::state::{RingState, StallKind, StarReason};

use super::words::count;

/// What became of the groups of a round; none before the first.
pub fn ringed(ring: &RoundRing) -> Option<String> {
    let mut parts: Vec<String> = ring.attempts.iter().map(told).collect();
    parts.extend(ring.star.map(|reason| {
        let why = match reason {
            StarReason::Time => "the time for groups was over",
            StarReason::Attempts => "no further group may form",
            StarReason::TooFew => "too few were left for a group",
            StarReason::Disagreement => "no majority had the same sum",
            StarReason::Links => "a group would send more through the coordinator than their updates are",
        };
        format!("Members send their own updates to the coordinator, because {why}.")
    }));
    (!parts.is_empty()).then(|| parts.join(" "))
}

fn told(attempt: &RingAttempt) -> String {
    let members = count(u32::try_from(attempt.members.len()).unwrap_or(u32::MAX), "member");
    match attempt.state {
        RingState::Formed => format!("A group of {members} adds up."),
        RingState::Agreed => format!("A group of {members} has its sum, and one of them brings it."),
        RingState::Counted => format!("A group of {members} added up among itself, and brought one sum."),
        RingState::Failed => format!("A group of {members} came to no sum{}.", why(attempt)),
    }
}

/// Whom members could not go on with; else that their sums differ.
fn why(attempt: &RingAttempt) -> String {
    let stalls = attempt.members.iter().filter_map(|member| member.stall);
    // The one that most have named is the likeliest cause.
    let named = |client: u64| stalls.clone().filter(|stall| stall.client_number == client).count();
    let blamed = stalls.clone().max_by_key(|stall| (named(stall.client_number), u64::MAX - stall.client_number));
    let mut outcomes: Vec<_> = attempt.members.iter().filter_map(|member| member.outcome).collect();
    outcomes.sort_unstable_by_key(|sha256| sha256.0);
    outcomes.dedup();
    match blamed {
        Some(stall) => {
            let did = match stall.what {
                StallKind::Unreachable => "could not be reached",
                StallKind::Silent => "fell silent",
                StallKind::Closed => "closed its connection",
                StallKind::Wrong => "sent what it must not",
            };
            format!(": client {} {did}", stall.client_number)
        }
        None if outcomes.len() > 1 => ": the sums of its members differ".into(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use tributary_protocol::hash::Sha256Hash;
    use tributary_protocol::id::GroupId;
    use tributary_protocol::operator::{RingBlame, RingPart};

    use super::*;

    fn part(client_number: u64, blames: Option<(u64, StallKind)>) -> RingPart {
        RingPart {
            client_number,
            weight: 10,
            outcome: None,
            brings: false,
            bytes_sent: None,
            bytes_received: None,
            took_ms: None,
            sent_kbit_s: None,
            relayed: false,
            relayed_bytes: None,
            distance: None,
            stall: blames.map(|(client_number, what)| RingBlame { client_number, what, step: 2 }),
        }
    }

    fn attempt(state: RingState, members: Vec<RingPart>) -> RingAttempt {
        let id = GroupId::from_random([1; 16]);
        RingAttempt { id, number: 1, state, formed_at_ms: 0, since_ms: 0, sha256: None, exchanged: None, members }
    }

    #[test]
    fn a_round_says_who_added_up_and_who_stood_in_the_way() {
        assert_eq!(ringed(&RoundRing::default()), None);
        let stalled = vec![
            part(1, Some((2, StallKind::Closed))),
            part(2, Some((3, StallKind::Silent))),
            part(3, None),
            part(4, Some((3, StallKind::Silent))),
        ];
        let counted = attempt(RingState::Counted, vec![part(1, None), part(2, None), part(4, None)]);
        let ring = RoundRing { attempts: vec![attempt(RingState::Failed, stalled), counted], ..RoundRing::default() };
        assert_eq!(
            ringed(&ring).unwrap(),
            "A group of 4 members came to no sum: client 3 fell silent. A group of 3 members added up among itself, and \
             brought one sum."
        );
        let mut liars = vec![part(1, None), part(2, None)];
        for (member, byte) in liars.iter_mut().zip([1, 2]) {
            member.outcome = Some(Sha256Hash([byte; 32]));
        }
        let ring = RoundRing {
            attempts: vec![attempt(RingState::Failed, liars)],
            star: Some(StarReason::Disagreement),
            ..RoundRing::default()
        };
        assert_eq!(
            ringed(&ring).unwrap(),
            "A group of 2 members came to no sum: the sums of its members differ. Members send their own updates to the \
             coordinator, because no majority had the same sum."
        );
    }
}
