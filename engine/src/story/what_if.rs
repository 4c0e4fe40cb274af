//! What other deadlines would have done.

use tributary_protocol::operator::WhatIf;

/// Deadlines that [`what_if`] tries: tenths of the real one, up to twice its length.
const WHAT_IF_TENTHS: u64 = 20;

/// What other deadlines would have dropped of a cohort. `came_ms` has the arrival time of each report, late ones
/// included, in milliseconds after the selection.
pub fn what_if(deadline_ms: u64, cohort: u32, came_ms: &[u64]) -> Vec<WhatIf> {
    let tenths = 1..=WHAT_IF_TENTHS;
    let deadlines = tenths.map(|tenths| u128::from(deadline_ms) * u128::from(tenths) / 10);
    let what_if = |deadline_ms: u128| {
        let deadline_ms = u64::try_from(deadline_ms).unwrap_or(u64::MAX);
        let in_time = came_ms.iter().filter(|came_ms| **came_ms < deadline_ms).count();
        WhatIf { deadline_ms, dropped: cohort.saturating_sub(u32::try_from(in_time).unwrap_or(u32::MAX)) }
    };
    deadlines.map(what_if).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_deadline_drops_others() {
        let cases = what_if(1_000, 5, &[50, 350, 900, 1_500]);
        assert_eq!(cases.len(), 20);
        let dropped = |deadline_ms| cases.iter().find(|case| case.deadline_ms == deadline_ms).unwrap().dropped;
        assert_eq!([100, 400, 1_000, 1_500, 1_600].map(dropped), [4, 3, 2, 2, 1]);
        assert_eq!(what_if(u64::MAX, 0, &[1]).last().unwrap().dropped, 0);
    }
}
