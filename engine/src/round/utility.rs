//! The draw of clients by how much they can teach and how fast they are (Oort, Lai et al. 2021,
//! <https://arxiv.org/abs/2010.06081>, section 4).

use std::sync::Arc;

use tributary_protocol::job_file::Utility;
use tributary_protocol::seed::Stream;

use super::candidate::Candidate;
use super::draw::{uniform, weighted};
use super::known::{Known, LastReport};

/// The share of clients whose utility counts in full. What is above is cut to it, so that one client with a strange
/// loss does not win every round.
const CLIP: f64 = 0.95;
/// A client may be drawn by its utility if it has at least this share of that of the last one that fits.
const CUTOFF: f64 = 0.95;
/// Weight of the time since a client's last update.
const UNSEEN: f64 = 0.1;

/// The cohort of `size`: a share of clients without an update, which falls from round to round, and the others with
/// chances by their utilities. Where one kind is too few, the other fills up.
pub(super) fn choose(
    available: Vec<Arc<Candidate>>,
    size: usize,
    settings: &Utility,
    known: &Known,
    stream: &mut Stream,
) -> Vec<Arc<Candidate>> {
    let (seen, mut unseen): (Vec<Arc<Candidate>>, Vec<Arc<Candidate>>) =
        available.into_iter().partition(|candidate| known.reports.contains_key(&candidate.client));
    let rounds = i32::try_from(known.round.saturating_sub(1)).unwrap_or(i32::MAX);
    let share = (settings.exploration * settings.exploration_decay.powi(rounds)).max(settings.exploration_min);
    let wanted = (share * size as f64).round() as usize;
    let explored = wanted.min(unseen.len()).max(size.saturating_sub(seen.len())).min(unseen.len());
    uniform(&mut unseen, explored, stream);
    unseen.extend(exploit(seen, size - explored, settings, known, stream));
    unseen
}

/// Clients with the largest utilities, drawn one by one with chances by them.
fn exploit(
    seen: Vec<Arc<Candidate>>,
    size: usize,
    settings: &Utility,
    known: &Known,
    stream: &mut Stream,
) -> Vec<Arc<Candidate>> {
    let size = size.min(seen.len());
    if size == 0 {
        return Vec::new();
    }
    let utilities = utilities(&seen, settings, known);
    let mut sorted = utilities.clone();
    sorted.sort_by(|one, other| other.total_cmp(one));
    let cutoff = CUTOFF * sorted[size - 1];
    let useful = utilities.into_iter().zip(seen).filter(|(utility, _)| *utility >= cutoff);
    weighted(useful.map(|(utility, candidate)| (utility.max(f64::MIN_POSITIVE), candidate)), size, stream)
}

/// `(|B| |loss| / U95 + sqrt(0.1 ln R / L)) (T / t)^speed` for clients slower than T, where U95 is the 95th percentile,
/// R the round, and L the round of the client's last update. The paper's root mean square of losses by example is the
/// client's mean loss here: clients report no more.
fn utilities(seen: &[Arc<Candidate>], settings: &Utility, known: &Known) -> Vec<f64> {
    let reports: Vec<&LastReport> = seen.iter().map(|candidate| &known.reports[&candidate.client]).collect();
    let learned: Vec<f64> = reports.iter().map(|report| statistical(report)).collect();
    let mut sorted = learned.clone();
    sorted.sort_by(f64::total_cmp);
    let most = sorted[((CLIP * sorted.len() as f64) as usize).min(sorted.len() - 1)].max(f64::MIN_POSITIVE);
    let utility = |(report, learned): (&&LastReport, f64)| {
        let since = (UNSEEN * f64::from(known.round.max(1)).ln() / f64::from(report.round.max(1))).sqrt();
        (learned.min(most) / most + since) * speed(report, settings)
    };
    reports.iter().zip(learned).map(utility).collect()
}

/// `|B| sqrt(mean(loss^2))`, with the mean loss.
fn statistical(report: &LastReport) -> f64 {
    report.examples as f64 * report.loss.abs()
}

/// What slowness leaves of a client's utility.
fn speed(report: &LastReport, settings: &Utility) -> f64 {
    match settings.preferred_ms {
        Some(preferred) if report.work_ms > preferred => {
            (preferred as f64 / report.work_ms as f64).powf(settings.speed)
        }
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use tributary_protocol::seed::Seed;

    use super::super::known::fixture::{candidate, numbers};
    use super::*;

    const GREEDY: Utility = Utility {
        exploration: 0.0,
        exploration_decay: 1.0,
        exploration_min: 0.0,
        preferred_ms: Some(1_000),
        speed: 2.0,
    };

    fn report(examples: u64, loss: f64, work_ms: u64, round: u32) -> LastReport {
        LastReport { loss, examples, work_ms, round }
    }

    fn known(reports: &[(u64, LastReport)]) -> Known {
        Known {
            round: 10,
            reports: reports.iter().map(|(number, report)| (candidate(*number).client, *report)).collect(),
        }
    }

    fn chosen(count: u64, size: usize, settings: &Utility, known: &Known, seed: u64) -> Vec<u64> {
        let mut chosen =
            numbers(&choose((0..count).map(candidate).collect(), size, settings, known, &mut Seed(seed).stream()));
        chosen.sort_unstable();
        chosen
    }

    #[test]
    fn the_printed_factors_hold() {
        assert_eq!(speed(&report(1, 1.0, 2_000, 1), &GREEDY), 0.25, "twice the preferred time");
        assert_eq!(speed(&report(1, 1.0, 900, 1), &GREEDY), 1.0);
        assert_eq!(statistical(&report(600, 1.5, 1, 1)), 900.0);
        assert_eq!(speed(&report(1, 1.0, 2_000, 1), &Utility { preferred_ms: None, ..GREEDY }), 1.0);
    }

    #[test]
    fn utilities_are_those_of_the_formula() {
        let known =
            known(&[(0, report(10, 2.0, 500, 5)), (1, report(100, 1.0, 2_000, 10)), (2, report(400, 1.0, 1, 1))]);
        let of = |count: u64| utilities(&(0..count).map(candidate).collect::<Vec<_>>(), &GREEDY, &known);
        let since = |last: f64| (0.1 * 10f64.ln() / last).sqrt();
        assert_eq!(of(2), [0.2 + since(5.0), (1.0 + since(10.0)) * 0.25]);
        assert_eq!(of(3), [0.05 + since(5.0), (0.25 + since(10.0)) * 0.25, 1.0 + since(1.0)]);
    }

    #[test]
    fn many_badly_learned_examples_on_fast_devices_are_chosen() {
        // 0 has few examples, 1 a small loss, 2 is slow, 3 and 4 have all that is wanted.
        let known = known(&[
            (0, report(10, 2.0, 500, 9)),
            (1, report(100, 0.1, 500, 9)),
            (2, report(100, 2.0, 5_000, 9)),
            (3, report(100, 2.0, 500, 9)),
            (4, report(100, 1.98, 1_000, 9)),
        ]);
        assert!((0..20).all(|seed| chosen(5, 2, &GREEDY, &known, seed) == [3, 4]));
        let slow_too = Utility { preferred_ms: None, ..GREEDY };
        assert!((0..50).any(|seed| chosen(5, 2, &slow_too, &known, seed).contains(&2)));
    }

    #[test]
    fn who_was_not_seen_for_long_comes_back() {
        let last = |round| [(0, report(100, 0.2, 500, round)), (1, report(100, 0.8, 500, 9))];
        let chosen_of = |round| (0..50).any(|seed| chosen(2, 1, &GREEDY, &known(&last(round)), seed) == [0]);
        assert!(!chosen_of(9));
        let known = Known { round: 1_000_000, ..known(&last(1)) };
        assert!((0..50).any(|seed| chosen(2, 1, &GREEDY, &known, seed) == [0]));
    }

    #[test]
    fn a_share_is_explored_and_whoever_is_there_fills_up() {
        let reports: Vec<_> = (0..10).map(|number| (number, report(100, 1.0, 500, 9))).collect();
        let known = known(&reports);
        let half = Utility { exploration: 0.5, exploration_min: 0.2, ..GREEDY };
        let new = |settings: &Utility, count, size| {
            chosen(count, size, settings, &known, 3).iter().filter(|number| **number >= 10).count()
        };
        assert_eq!(new(&half, 20, 6), 3);
        assert_eq!(new(&Utility { exploration_decay: 0.5, ..half }, 20, 10), 2, "the smallest share");
        assert_eq!(new(&half, 11, 6), 1, "only one is new");
        assert_eq!(new(&half, 30, 16), 8);
        assert_eq!(new(&GREEDY, 20, 12), 2, "only ten are known");
        assert_eq!(chosen(20, 30, &half, &known, 1).len(), 20);
    }
}
