//! Times of work of which some was not seen to its end: the estimate of Kaplan and Meier (1958, "Nonparametric
//! Estimation from Incomplete Observations", equation 2b). Leaving such work out would make every deadline look long
//! enough.

/// How a piece of work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorkEnd {
    /// A report came, in time or late.
    Reported,
    /// The client was still at work when the round closed.
    Open,
    /// The client gave up, or its update was rejected: it never reports.
    Lost,
}

/// The share of clients that have reported by a time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times {
    /// Times of reports with the shares from then on.
    steps: Vec<(u64, f64)>,
    /// The longest time for which any client was seen.
    pub(super) seen_ms: u64,
}

impl Times {
    /// The estimate from these pieces of work, as times and ends. Lost work never reports.
    pub(crate) fn of(mut works: Vec<(u64, WorkEnd)>) -> Self {
        // Of a report and an end at the same time, the report comes first.
        works.sort_unstable();
        let mut times = Self::default();
        let (mut at_risk, mut missing) = (works.len() as f64, 1.0);
        for (after_ms, end) in works {
            times.seen_ms = times.seen_ms.max(after_ms);
            match end {
                WorkEnd::Reported => {
                    missing *= 1.0 - 1.0 / at_risk;
                    at_risk -= 1.0;
                    match times.steps.last_mut() {
                        Some(last) if last.0 == after_ms => last.1 = 1.0 - missing,
                        _ => times.steps.push((after_ms, 1.0 - missing)),
                    }
                }
                WorkEnd::Open => at_risk -= 1.0,
                WorkEnd::Lost => {}
            }
        }
        times
    }

    /// The share that reports some day, as far as that was seen.
    pub(super) fn share(&self) -> f64 {
        self.steps.last().map_or(0.0, |(_, share)| *share)
    }

    /// At most this many of the steps, the last one among them.
    pub(super) fn thinned(&self, most: usize) -> impl DoubleEndedIterator<Item = &(u64, f64)> {
        let (count, every) = (self.steps.len(), self.steps.len().div_ceil(most).max(1));
        self.steps
            .iter()
            .enumerate()
            .filter(move |(place, _)| (count - 1 - place).is_multiple_of(every))
            .map(|(_, step)| step)
    }

    /// The share that has reported before this time.
    pub(crate) fn share_before(&self, ms: u64) -> f64 {
        let steps = self.steps.partition_point(|(at_ms, _)| *at_ms < ms);
        steps.checked_sub(1).map_or(0.0, |last| self.steps[last].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of Kaplan and Meier 1958, section 2: deaths at 0.8, 3.1, 5.4 and 9.2, losses at 1.0, 2.7, 7.0, 12.1.
    #[test]
    fn shares_are_those_of_the_paper() {
        use WorkEnd::{Open, Reported};
        let seen = [
            (800, Reported),
            (1_000, Open),
            (2_700, Open),
            (3_100, Reported),
            (5_400, Reported),
            (7_000, Open),
            (9_200, Reported),
            (12_100, Open),
        ];
        let times = Times::of(seen.to_vec());
        let surviving = |ms| 1.0 - times.share_before(ms);
        let expected = [(801, 7.0 / 8.0), (3_101, 7.0 / 10.0), (5_401, 21.0 / 40.0), (9_201, 21.0 / 80.0)];
        for (ms, share) in expected {
            assert!((surviving(ms) - share).abs() < 1e-12, "{ms}: {}", surviving(ms));
        }
        assert_eq!((times.share_before(800), times.seen_ms), (0.0, 12_100));
        let lost = Times::of(vec![(1, WorkEnd::Lost), (2, Reported), (3, Reported), (4, Reported)]);
        assert_eq!(lost.share_before(9), 0.75, "who gave up never reports");
    }
}
