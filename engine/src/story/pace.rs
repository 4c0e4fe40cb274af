//! The time until a job has its rounds, from the pace of its last ones.

/// Committed rounds whose pace counts.
pub const PACE_ROUNDS: u32 = 21;

/// Time until `rounds_left` more rounds are committed, in milliseconds. `committed_at_ms` are the ends of the last
/// committed rounds, in order. None with fewer than two.
///
/// The pace is the median of the times between them, so that one pause does not count, and abandoned rounds do.
pub fn ends_in_ms(rounds_left: u32, committed_at_ms: &[i64], now_ms: i64) -> Option<u64> {
    let last_ms = *committed_at_ms.last()?;
    let mut gaps: Vec<u64> = committed_at_ms.windows(2).map(|pair| pair[0].abs_diff(pair[1])).collect();
    gaps.sort_unstable();
    let pace_ms = *gaps.get(gaps.len() / 2)?;
    let under_way_ms = u64::try_from(now_ms - last_ms).unwrap_or(0).min(pace_ms);
    Some(pace_ms.saturating_mul(rounds_left.into()).saturating_sub(under_way_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_pace_says_how_long_the_rest_takes() {
        assert_eq!(ends_in_ms(5, &[], 0), None);
        assert_eq!(ends_in_ms(5, &[100], 100), None);
        assert_eq!(ends_in_ms(5, &[100, 110], 110), Some(50));
        // A pause of 1,000 in the middle is no pace.
        assert_eq!(ends_in_ms(5, &[100, 110, 1_110, 1_120], 1_120), Some(50));
        // The open round has taken a part of its time already, and at most all of it.
        assert_eq!(ends_in_ms(5, &[100, 110], 114), Some(46));
        assert_eq!(ends_in_ms(5, &[100, 110], 9_999), Some(40));
        assert_eq!(ends_in_ms(0, &[100, 110], 9_999), Some(0));
    }
}
