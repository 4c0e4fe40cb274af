//! The phases of a round.

use tributary_protocol::operator::{PhaseSpan, Round};
use tributary_protocol::state::Phase;

/// The phases of a round, in order.
pub fn phases(round: &Round) -> Vec<PhaseSpan> {
    let begins = [
        (Phase::Selecting, Some(round.opened_at_ms)),
        (Phase::Training, round.selected_at_ms),
        (Phase::Aggregating, round.closed_at_ms),
    ];
    let begun: Vec<_> = begins.into_iter().filter_map(|(phase, at_ms)| Some((phase, at_ms?))).collect();
    let ends = begun.iter().skip(1).map(|(_, at_ms)| Some(*at_ms)).chain([round.ended_at_ms]);
    begun
        .iter()
        .zip(ends)
        .map(|(&(phase, began_at_ms), ended_at_ms)| PhaseSpan { phase, began_at_ms, ended_at_ms })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::story::explain::tests::round;

    #[test]
    fn phases_follow_each_other_without_gaps() {
        let span = |phase, began_at_ms, ended_at_ms| PhaseSpan { phase, began_at_ms, ended_at_ms };
        let open = round(json!({ "phase": "selecting", "selected_at_ms": null }));
        assert_eq!(phases(&open), [span(Phase::Selecting, 0, None)]);
        let ended = round(json!({ "phase": "committed", "closed_at_ms": 9_000, "ended_at_ms": 10_000 }));
        let expected = [
            span(Phase::Selecting, 0, Some(3_000)),
            span(Phase::Training, 3_000, Some(9_000)),
            span(Phase::Aggregating, 9_000, Some(10_000)),
        ];
        assert_eq!(phases(&ended), expected);
        let abandoned = round(json!({ "phase": "abandoned", "ended_at_ms": 10_000 }));
        assert_eq!(phases(&abandoned)[1], span(Phase::Training, 3_000, Some(10_000)));
    }
}
