//! The groups of a round that add up among themselves, as text.

use tributary_protocol::operator::{RingAttempt, RingPart, RoundRing};

use crate::format::{bytes, duration_ms, or_dash};
use crate::output;

/// A table of each attempt, with a heading; empty before the first.
pub(super) fn tables(ring: &RoundRing, width: Option<u16>) -> String {
    ring.attempts.iter().map(|attempt| format!("\n\n{}", table(attempt, width))).collect()
}

fn table(attempt: &RingAttempt, width: Option<u16>) -> String {
    let sum = attempt.sha256.map(|sha256| format!(", SHA-256 {sha256}")).unwrap_or_default();
    let header =
        ["client", "examples", "sent", "received", "line", "relayed", "took", "brings the sum", "could not go on with"];
    let rows = attempt.members.iter().map(row);
    let after = match attempt.exchanged {
        Some(exchanged) if exchanged > 0 => format!(", from exchange {exchanged} on"),
        Some(_) | None => String::new(),
    };
    let apart = distance(attempt).map(|distance| format!(", {distance:.4} from the mean")).unwrap_or_default();
    let table = output::table(&header, rows, width);
    format!("attempt {}: {}{after}{apart}{sum}\n{table}", attempt.number, attempt.state)
}

/// The root of the mean square distance of the members' models from their mean.
fn distance(attempt: &RingAttempt) -> Option<f64> {
    let squares: Vec<f64> =
        attempt.members.iter().filter_map(|member| member.distance).map(|distance| distance * distance).collect();
    (!squares.is_empty()).then(|| (squares.iter().sum::<f64>() / squares.len() as f64).sqrt())
}

fn row(member: &RingPart) -> Vec<String> {
    let stall = member
        .stall
        .map(|stall| format!("client {} ({}, step {})", stall.client_number, stall.what.as_str(), stall.step));
    vec![
        member.client_number.to_string(),
        member.weight.to_string(),
        or_dash(member.bytes_sent, bytes),
        or_dash(member.bytes_received, bytes),
        or_dash(member.sent_kbit_s, |kbit_s| format!("{:.1} Mbit/s", kbit_s as f64 / 1e3)),
        if member.relayed { or_dash(member.relayed_bytes, bytes) } else { String::new() },
        or_dash(member.took_ms, duration_ms),
        if member.brings { "yes".into() } else { String::new() },
        or_dash(stall, |stall| stall),
    ]
}

#[cfg(test)]
mod tests {
    use tributary_protocol::id::GroupId;
    use tributary_protocol::operator::RingBlame;
    use tributary_protocol::state::{RingState, StallKind};

    use super::*;

    #[test]
    fn a_table_has_what_each_member_moved_and_whom_it_missed() {
        let member = |client_number, stall| RingPart {
            client_number,
            weight: 12,
            outcome: None,
            brings: false,
            bytes_sent: Some(2_500),
            bytes_received: None,
            took_ms: None,
            sent_kbit_s: Some(94_000),
            relayed: true,
            relayed_bytes: Some(7_000),
            distance: Some(1.5),
            stall,
        };
        let stall = RingBlame { client_number: 9, what: StallKind::Silent, step: 3 };
        let id = GroupId::from_random([1; 16]);
        let members = vec![member(7, Some(stall)), member(9, None)];
        let attempt = RingAttempt {
            id,
            number: 2,
            state: RingState::Failed,
            formed_at_ms: 0,
            since_ms: 0,
            sha256: None,
            exchanged: Some(3),
            members,
        };
        let text = tables(&RoundRing { attempts: vec![attempt], ..RoundRing::default() }, None);
        assert!(text.contains("attempt 2: failed, from exchange 3 on, 1.5000 from the mean"), "{text}");
        for part in ["2.5 kB", "7.0 kB", "94.0 Mbit/s", "client 9 (silent, step 3)"] {
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(tables(&RoundRing::default(), None), "");
    }
}
