//! What other deadlines would have done to the newest rounds of a job.
//!
//! The time of a client that had not reported when its round closed is *censored*: it is longer than it was watched. So
//! the survival function S of all times is estimated ([`Times`]). A client that was watched until `c` reports by
//! `d > c` with the probability `1 - S(d) / S(c)`.

use tributary_protocol::operator::{Outlook, OutlookPoint};

use crate::round::{Times, WorkEnd};

/// Most rounds that are played again.
pub const OUTLOOK_ROUNDS: u32 = 20;
/// Number of deadlines that are tried between the shortest and the longest.
const DEADLINES: u32 = 60;
/// Share of the reports of the longest deadline that the suggested one keeps.
const KEPT_SHARE: f64 = 0.95;

/// When the report of a client came, in milliseconds after the draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It came then, whether or not the round was still open.
    At(u64),
    /// It had not come by then, and nothing more is known.
    After(u64),
    /// The client gave up or its update was rejected. No deadline changes that.
    Never,
}

impl Arrival {
    /// A report that came so long after the draw. `stops_ms` is when clients whose partial work counts stop training: a
    /// report from then on may be such work, which says only that the whole takes longer.
    pub fn of_report(after_ms: u64, stops_ms: Option<u64>) -> Self {
        match stops_ms {
            Some(stops_ms) if after_ms >= stops_ms => Self::After(stops_ms),
            _ => Self::At(after_ms),
        }
    }
}

/// A closed round: what it asked for, and when its clients came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlayedRound {
    pub goal: u32,
    pub minimum: u32,
    /// Whether it was abandoned for too few reports.
    pub abandoned: bool,
    pub arrivals: Vec<Arrival>,
}

/// The settings of the next round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    pub deadline_ms: u64,
    pub goal: u32,
    pub minimum: u32,
}

/// The share of clients that have not reported after a time, estimated from all of them.
struct Survival(Times);

impl Survival {
    fn of(rounds: &[PlayedRound]) -> Self {
        let watched = rounds.iter().flat_map(|round| &round.arrivals).filter_map(|arrival| match *arrival {
            Arrival::At(ms) => Some((ms, WorkEnd::Reported)),
            Arrival::After(ms) => Some((ms, WorkEnd::Open)),
            Arrival::Never => None,
        });
        Self(Times::of(watched.collect()))
    }

    fn at(&self, ms: u64) -> f64 {
        1.0 - self.0.share_before(ms.saturating_add(1))
    }

    /// The probability that a client that had not reported at `watched_ms` reports by `deadline_ms`.
    fn comes_by(&self, watched_ms: u64, deadline_ms: u64) -> f64 {
        let still_out = self.at(watched_ms);
        if deadline_ms <= watched_ms || still_out <= 0.0 { 0.0 } else { 1.0 - self.at(deadline_ms) / still_out }
    }
}

/// Plays the rounds again with shorter and longer deadlines.
pub fn outlook(policy: Policy, rounds: &[PlayedRound]) -> Outlook {
    let survival = Survival::of(rounds);
    let arrivals = || rounds.iter().flat_map(|round| &round.arrivals);
    let reports = arrivals().filter_map(|arrival| match arrival {
        Arrival::At(ms) => Some(*ms),
        _ => None,
    });
    let mut known: Vec<u64> = reports.collect();
    known.sort_unstable();
    let longest_ms = known.last().copied().unwrap_or(0);
    let points: Vec<OutlookPoint> = match rounds.is_empty() {
        true => Vec::new(),
        false => deadlines(policy.deadline_ms, &known)
            .into_iter()
            .map(|deadline_ms| played(deadline_ms, rounds, &survival))
            .collect(),
    };
    let count = |items: usize| u32::try_from(items).unwrap_or(u32::MAX);
    Outlook {
        rounds: count(rounds.len()),
        abandoned: count(rounds.iter().filter(|round| round.abandoned).count()),
        deadline_ms: policy.deadline_ms,
        goal: policy.goal,
        minimum: policy.minimum,
        censored: count(arrivals().filter(|arrival| matches!(arrival, Arrival::After(_))).count()),
        longest_ms,
        suggested_ms: suggested(&points).filter(|_| !known.is_empty()),
        points,
    }
}

/// Deadlines from half the quickest tenth of the reports to twice the longest known time or deadline, in equal ratios,
/// with the present one.
fn deadlines(present_ms: u64, known: &[u64]) -> Vec<u64> {
    let longest_ms = known.last().copied().unwrap_or(present_ms).max(present_ms).max(1);
    let quick_ms = known.get(known.len() / 10).copied().unwrap_or(present_ms / 10).max(2);
    let (from, to) = ((quick_ms as f64 / 2.0).min(longest_ms as f64), longest_ms as f64 * 2.0);
    let ratio = (to / from).powf(1.0 / f64::from(DEADLINES - 1));
    let mut deadlines: Vec<u64> =
        (0..DEADLINES).map(|step| rounded(from * ratio.powf(f64::from(step)))).chain([present_ms]).collect();
    deadlines.sort_unstable();
    deadlines.dedup();
    deadlines
}

/// Rounded up to two significant digits, so that people can read it and reports at exactly this time are in.
fn rounded(ms: f64) -> u64 {
    let unit = 10_f64.powf((ms.log10().floor() - 1.0).max(0.0));
    ((ms / unit).ceil() * unit) as u64
}

fn played(deadline_ms: u64, rounds: &[PlayedRound], survival: &Survival) -> OutlookPoint {
    let (mut reports, mut fewest, mut abandoned, mut lasts_ms) = (0.0, f64::MAX, 0, 0);
    for round in rounds {
        let expected = round.arrivals.iter().map(|arrival| match *arrival {
            Arrival::At(ms) => f64::from(u8::from(ms <= deadline_ms)),
            Arrival::After(ms) => survival.comes_by(ms, deadline_ms),
            Arrival::Never => 0.0,
        });
        let expected: f64 = expected.sum();
        reports += expected.min(f64::from(round.goal));
        fewest = expected.min(fewest);
        // Probabilities that should add up to a whole number may fall short of it by rounding.
        abandoned += u32::from(expected + 1e-9 < f64::from(round.minimum));
        lasts_ms += closes_ms(deadline_ms, round);
    }
    let rounds = rounds.len().max(1);
    OutlookPoint {
        deadline_ms,
        reports: reports / rounds as f64,
        reports_min: (fewest + 1e-9) as u32,
        abandoned,
        lasts_ms: lasts_ms / rounds as u64,
    }
}

/// When the round would have closed: at its goal, when nobody was still working, or at the deadline.
fn closes_ms(deadline_ms: u64, round: &PlayedRound) -> u64 {
    let mut came: Vec<u64> = Vec::new();
    let mut is_anybody_out = false;
    for arrival in &round.arrivals {
        match *arrival {
            Arrival::At(ms) if ms <= deadline_ms => came.push(ms),
            Arrival::At(_) | Arrival::After(_) => is_anybody_out = true,
            Arrival::Never => {}
        }
    }
    came.sort_unstable();
    let goal = usize::try_from(round.goal).unwrap_or(usize::MAX).max(1);
    match came.get(goal - 1) {
        Some(ms) => *ms,
        None if is_anybody_out => deadline_ms,
        None => came.last().copied().unwrap_or(deadline_ms),
    }
}

/// The shortest deadline that costs nothing against the longest.
fn suggested(points: &[OutlookPoint]) -> Option<u64> {
    let longest = points.last()?;
    let is_enough =
        |point: &&OutlookPoint| point.abandoned <= longest.abandoned && point.reports >= longest.reports * KEPT_SHARE;
    points.iter().find(is_enough).map(|point| point.deadline_ms)
}

#[cfg(test)]
mod tests {
    use super::Arrival::{After, At, Never};
    use super::*;

    const POLICY: Policy = Policy { deadline_ms: 100, goal: 3, minimum: 2 };

    fn round(arrivals: &[Arrival]) -> PlayedRound {
        let came = arrivals.iter().filter(|arrival| matches!(arrival, At(ms) if *ms <= 100)).count();
        PlayedRound { goal: 3, minimum: 2, abandoned: came < 2, arrivals: arrivals.to_vec() }
    }

    fn at(outlook: &Outlook, deadline_ms: u64) -> OutlookPoint {
        *outlook.points.iter().rfind(|point| point.deadline_ms <= deadline_ms).unwrap()
    }

    #[test]
    fn the_product_limit_is_that_of_the_example_by_hand() {
        // Four clients: reports at 10 and 30, censored at 20 and 40. S(10) = 3/4; two were watched until 30, so
        // S(30) = 3/4 * 1/2.
        let survival = Survival::of(&[round(&[At(10), After(20), At(30), After(40), Never])]);
        for (ms, share) in [(9, 1.0), (10, 0.75), (29, 0.75), (30, 0.375), (99, 0.375)] {
            assert!((survival.at(ms) - share).abs() < 1e-12, "{ms}: {}", survival.at(ms));
        }
        assert!((survival.comes_by(20, 35) - 0.5).abs() < 1e-12);
        assert_eq!([(20, 20), (30, 9), (40, 99)].map(|(watched, by)| survival.comes_by(watched, by)), [0.0; 3]);
        let all_came = Survival::of(&[round(&[At(10)])]);
        assert_eq!(all_came.comes_by(10, 20), 0.0, "nobody is left");
    }

    #[test]
    fn a_shorter_deadline_loses_reports_and_a_longer_one_saves_abandoned_rounds() {
        let abandoned = round(&[At(40), At(150), At(160), Never]);
        let outlook = outlook(POLICY, &[abandoned, round(&[At(20), At(40), At(60), At(300)])]);
        assert_eq!((outlook.rounds, outlook.abandoned, outlook.longest_ms), (2, 1, 300));
        let short = at(&outlook, 45);
        assert_eq!((short.reports, short.abandoned, short.reports_min), (1.5, 1, 1));
        let present = at(&outlook, 100);
        assert_eq!((present.deadline_ms, present.reports, present.abandoned), (100, 2.0, 1));
        assert_eq!(present.lasts_ms, (100 + 60) / 2, "one waits for its deadline, one for its goal");
        let long = at(&outlook, 200);
        assert_eq!((long.reports, long.abandoned), (3.0, 0));
        assert!((160..=180).contains(&outlook.suggested_ms.unwrap()), "{:?}", outlook.suggested_ms);
    }

    #[test]
    fn clients_of_unknown_time_count_by_their_chance() {
        // Without the censored times, a deadline of 200 would promise nothing: nobody of the round is known to come.
        // In the other round, half of those who were out at 100 came by 200.
        let other = round(&[At(50), At(60), At(180), At(400)]);
        let cut = PlayedRound { goal: 3, minimum: 2, abandoned: true, arrivals: vec![At(50), After(100), After(100)] };
        let outlook = outlook(POLICY, &[cut, other]);
        assert_eq!(outlook.censored, 2);
        let long = at(&outlook, 200);
        assert!((long.reports - (2.0 + 3.0) / 2.0).abs() < 1e-9, "{long:?}");
        assert_eq!(long.abandoned, 0, "1 came, and 2 come with a chance of one half each");
        assert_eq!(at(&outlook, 100).abandoned, 1);
    }

    /// Partial work comes shortly before the deadline whatever the deadline is, so it is no report of its time.
    #[test]
    fn partial_work_counts_as_work_that_takes_longer() {
        assert_eq!([89, 90, 97].map(|ms| Arrival::of_report(ms, Some(90))), [At(89), After(90), After(90)]);
        assert_eq!(Arrival::of_report(97, None), At(97));
        let rounds = |stops_ms| [round(&[40, 95, 96].map(|ms| Arrival::of_report(ms, stops_ms)))];
        let whole = at(&outlook(POLICY, &rounds(None)), 100);
        let partial = outlook(POLICY, &rounds(Some(90)));
        assert_eq!((whole.reports, at(&partial, 100).reports, partial.censored), (3.0, 1.0, 2));
    }

    #[test]
    fn more_time_is_never_expected_to_lose_reports() {
        let rounds = [round(&[At(5), After(30), Never, At(90)]), round(&[After(100), After(70), At(7)])];
        let points = outlook(POLICY, &rounds).points;
        assert!(points.windows(2).all(|pair| pair[0].deadline_ms < pair[1].deadline_ms));
        assert!(points.windows(2).all(|pair| pair[0].reports <= pair[1].reports + 1e-9));
        assert!(points.windows(2).all(|pair| pair[0].abandoned >= pair[1].abandoned));
        assert!(points.iter().any(|point| point.deadline_ms == 100), "the present deadline is among them");
    }

    #[test]
    fn without_rounds_or_reports_nothing_is_suggested() {
        let nothing = outlook(POLICY, &[]);
        assert_eq!((nothing.rounds, nothing.points.len(), nothing.suggested_ms), (0, 0, None));
        let silent = outlook(Policy { deadline_ms: 0, ..POLICY }, &[round(&[Never, After(0), After(u64::MAX)])]);
        assert_eq!((silent.suggested_ms, silent.longest_ms), (None, 0));
        assert!(silent.points.iter().all(|point| point.reports == 0.0));
    }
}
