//! Deadlines and cohorts that follow the measured times of recent rounds.
//!
//! The share of clients that have reported by a time is the estimate of Kaplan and Meier 1958: a client that was
//! still at work when its round closed was seen only until then. From it follow, for each deadline, how many updates
//! a round may expect and how long it takes. Of the deadlines that cut off at most 10 % of the clients that would
//! report some day, the one with the most updates per hour is chosen. The cohort makes up for the clients that would
//! not report, with a surplus of 8 %. A buffered job has no cohorts: there each place of the concurrency is taken until
//! its client reports or its deadline passes, and the deadline with the most updates per place and hour is chosen.
//! (Bonawitz et al. 2019, section 9: 6 to 10 % of the clients drop out, and more
//! than the goal are selected.)

use std::collections::BTreeMap;

use tributary_protocol::job_file::Adapt;
use tributary_protocol::operator::Adapted;

use super::policy::TaskPolicy;
use super::times::{Times, WorkEnd};

/// Fewest pieces of work, and fewest reports among them, from which anything is concluded.
const WORKS_MIN: usize = 20;
const REPORTS_MIN: usize = 5;
/// Fewest pieces of work of a class that keep a deadline from shutting it out.
const CLASS_WORKS_MIN: usize = 5;
/// Most deadlines that are compared.
const DEADLINES_MAX: usize = 100;
/// Most times of reports that a plan looks at.
const STEPS_MAX: usize = 100;
/// Expected reports per update of the goal.
const SURPLUS: f64 = 1.08;
/// Largest share that a deadline may cut off of the clients that would report some day.
const CUT_OFF_MAX: f64 = 0.1;
/// Shares are sums of rounded products.
const ROUNDING: f64 = 1e-9;

/// A piece of work of a recent round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastWork {
    /// From the draw to its end, or to the moment until which it was seen, in milliseconds.
    pub after_ms: u64,
    pub end: WorkEnd,
    /// Value of the attribute by which the job tells classes of devices apart; empty without one.
    pub class: String,
}

/// The policy of the next round, from the pieces of work of recent rounds and the time that a round takes beside its
/// clients' work. None before enough is measured.
pub(super) fn adapt(policy: &TaskPolicy, adapt: &Adapt, works: &[PastWork], overhead_ms: u64) -> Option<TaskPolicy> {
    let reports = works.iter().filter(|work| work.end == WorkEnd::Reported).count();
    if works.len() < WORKS_MIN || reports < REPORTS_MIN {
        return None;
    }
    let all = Times::of(works.iter().map(|work| (work.after_ms, work.end)).collect());
    let classes = class_times(works);
    let places = policy.tempo.concurrency();
    let plan = |deadline_ms: u64| match places {
        Some(places) => Plan::of_places(places, &all, deadline_ms),
        None => Plan::of(policy, &all, deadline_ms, overhead_ms),
    };
    let mut deadlines = deadlines(&all, adapt);
    let enough = (1.0 - CUT_OFF_MAX) * all.share() - ROUNDING;
    deadlines.retain(|deadline_ms| all.share_before(*deadline_ms) >= enough || *deadline_ms == adapt.deadline_max_ms);
    // Of equally good deadlines the shortest.
    let best = |deadlines: &mut dyn Iterator<Item = u64>| {
        let plans = deadlines.map(plan);
        plans.reduce(|best, plan| if plan.updates_per_hour > best.updates_per_hour { plan } else { best })
    };
    let fastest = best(&mut deadlines.iter().copied())?;
    let is_fair = |deadline_ms: &u64| {
        let least = adapt.class_share_min * all.share_before(*deadline_ms) - ROUNDING;
        // Beyond the time for which a class was seen nothing is known of it: its times are measured first.
        classes.iter().all(|times| *deadline_ms > times.seen_ms || times.share_before(*deadline_ms) >= least)
    };
    let fair: Vec<u64> = deadlines.iter().copied().filter(is_fair).collect();
    let chosen = best(&mut fair.into_iter()).unwrap_or_else(|| plan(adapt.deadline_max_ms));
    let is_longer = chosen.deadline_ms > fastest.deadline_ms;
    Some(TaskPolicy {
        deadline_ms: chosen.deadline_ms.cast_signed(),
        cohort_size: if places.is_some() { policy.cohort_size } else { chosen.cohort },
        // A job may want more clients to choose from than it draws. A buffer draws them one by one.
        available_min: match places.is_some() || policy.available_min > policy.cohort_size {
            true => policy.available_min,
            false => chosen.cohort,
        },
        adapted: Some(Adapted {
            works: u32::try_from(works.len()).unwrap_or(u32::MAX),
            deadline_ms: chosen.deadline_ms,
            cohort: chosen.cohort,
            dropout_permille: ((1.0 - chosen.share) * 1000.0).round() as u32,
            updates_per_hour: chosen.updates_per_hour.round() as u32,
            fastest_ms: is_longer.then_some(fastest.deadline_ms),
        }),
        ..*policy
    })
}

/// The times of each class of devices that is common enough. Lost work is no matter of deadlines.
fn class_times(works: &[PastWork]) -> Vec<Times> {
    let mut classes: BTreeMap<&str, Vec<(u64, WorkEnd)>> = BTreeMap::new();
    for work in works.iter().filter(|work| work.end != WorkEnd::Lost && !work.class.is_empty()) {
        classes.entry(&work.class).or_default().push((work.after_ms, work.end));
    }
    classes.into_values().filter(|works| works.len() >= CLASS_WORKS_MIN).map(Times::of).collect()
}

/// The deadlines that are compared, in whole seconds within the bounds: the bounds, right after reports, and twice the
/// longest time that was seen, for classes of which too little is known.
fn deadlines(times: &Times, adapt: &Adapt) -> Vec<u64> {
    let after_reports = times.thinned(DEADLINES_MAX).map(|(at_ms, _)| at_ms.saturating_add(1));
    let seconds = |ms: u64| ms.div_ceil(1000).saturating_mul(1000).clamp(adapt.deadline_min_ms, adapt.deadline_max_ms);
    let further = [adapt.deadline_min_ms, times.seen_ms.saturating_mul(2), adapt.deadline_max_ms];
    let mut deadlines: Vec<_> = after_reports.chain(further).map(seconds).collect();
    deadlines.sort_unstable();
    deadlines.dedup();
    deadlines
}

/// What a deadline leads to.
#[derive(Clone, Copy, Debug)]
struct Plan {
    deadline_ms: u64,
    /// Share of the clients that report in time.
    share: f64,
    cohort: u32,
    updates_per_hour: f64,
}

impl Plan {
    /// A plan with `places` places. A place is taken until its client reports or the deadline passes, so its expected
    /// time is the integral of the share that has not reported. (Renewal-reward: the long-run rate is the share over
    /// that time.)
    fn of_places(places: u32, times: &Times, deadline_ms: u64) -> Self {
        let share = times.share_before(deadline_ms);
        let (mut taken_ms, mut from_ms, mut share_now) = (0.0, 0, 0.0);
        for (at_ms, share_then) in times.thinned(STEPS_MAX).chain([&(deadline_ms, 0.0)]) {
            let to_ms = (*at_ms).min(deadline_ms);
            taken_ms += (1.0 - share_now) * (to_ms - from_ms) as f64;
            if *at_ms >= deadline_ms {
                break;
            }
            (from_ms, share_now) = (to_ms, *share_then);
        }
        let updates_per_hour = f64::from(places) * share * 3_600_000.0 / f64::max(taken_ms, 1.0);
        Self { deadline_ms, share, cohort: places, updates_per_hour }
    }

    fn of(policy: &TaskPolicy, times: &Times, deadline_ms: u64, overhead_ms: u64) -> Self {
        let share = times.share_before(deadline_ms);
        let most = policy.cohort_size.max(policy.goal);
        let wanted = f64::from(policy.goal) * SURPLUS / share.max(f64::MIN_POSITIVE);
        let cohort = (wanted.ceil().min(f64::from(most)) as u32).max(policy.goal);
        let reports = binomial(cohort, share);
        let updates: f64 = (policy.minimum.max(1)..=cohort)
            .map(|count| f64::from(count.min(policy.goal)) * reports[count as usize])
            .sum();
        // The round lasts while the goal is not met: the integral of that chance, which changes with each report.
        let (mut waiting_ms, mut from_ms, mut share_now) = (0.0, 0, 0.0);
        for (at_ms, share_then) in times.thinned(STEPS_MAX).chain([&(deadline_ms, 0.0)]) {
            let to_ms = (*at_ms).min(deadline_ms);
            let unmet: f64 = binomial(cohort, share_now)[..policy.goal as usize].iter().sum();
            waiting_ms += unmet * (to_ms - from_ms) as f64;
            if *at_ms >= deadline_ms || unmet < 1e-6 {
                break;
            }
            (from_ms, share_now) = (to_ms, *share_then);
        }
        let round_ms = waiting_ms + overhead_ms as f64;
        Self { deadline_ms, share, cohort, updates_per_hour: updates * 3_600_000.0 / round_ms.max(1.0) }
    }
}

/// The chances of 0 to `count` successes in `count` independent trials.
fn binomial(count: u32, chance: f64) -> Vec<f64> {
    let last = count as usize;
    let mut chances = vec![0.0; last + 1];
    if chance <= 0.0 || chance >= 1.0 {
        chances[if chance >= 1.0 { last } else { 0 }] = 1.0;
        return chances;
    }
    // From the mean outwards, so that nothing underflows that counts; then they are scaled to a sum of 1.
    let odds = chance / (1.0 - chance);
    let mean = (f64::from(count) * chance) as usize;
    chances[mean] = 1.0;
    for successes in mean + 1..=last {
        chances[successes] = chances[successes - 1] * odds * (last + 1 - successes) as f64 / successes as f64;
    }
    for successes in (0..mean).rev() {
        chances[successes] = chances[successes + 1] / odds * (successes + 1) as f64 / (last - successes) as f64;
    }
    let sum: f64 = chances.iter().sum();
    chances.iter_mut().for_each(|chance| *chance /= sum);
    chances
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::round::policy::Tempo;

    const POLICY: TaskPolicy = TaskPolicy {
        goal: 10,
        minimum: 5,
        cohort_size: 20,
        available_min: 20,
        selection_timeout_ms: 300_000,
        deadline_ms: 600_000,
        ..TaskPolicy::COHORT
    };

    fn settings() -> Adapt {
        Adapt { deadline_min_ms: 10_000, deadline_max_ms: 3_600_000, ..Adapt::default() }
    }

    fn work(after_s: u64, end: WorkEnd, class: &str) -> PastWork {
        PastWork { after_ms: after_s * 1000, end, class: class.to_owned() }
    }

    fn chosen(works: &[PastWork]) -> (TaskPolicy, Adapted) {
        let policy = adapt(&POLICY, &settings(), works, 5_000).unwrap();
        (policy, policy.adapted.unwrap())
    }

    #[test]
    fn a_deadline_cuts_off_the_few_that_take_ten_times_as_long() {
        let fast = (0..95).map(|client| work(50 + client % 20, WorkEnd::Reported, ""));
        let slow = (0..5).map(|_| work(600, WorkEnd::Reported, ""));
        let (policy, adapted) = chosen(&fast.chain(slow).collect::<Vec<_>>());
        assert_eq!(policy.deadline_ms, 70_000, "right after the last of the fast ones: {adapted:?}");
        assert_eq!((adapted.works, adapted.dropout_permille, adapted.fastest_ms), (100, 50, None));
        assert_eq!((policy.cohort_size, policy.available_min), (12, 12), "10 x 1.08 / 0.95");
        assert!((400..=550).contains(&adapted.updates_per_hour), "{adapted:?}");
    }

    #[test]
    fn the_cohort_follows_the_drop_out_up_to_that_of_the_job_file() {
        let of = |lost: usize| {
            let reported = (lost..100).map(|_| work(50, WorkEnd::Reported, ""));
            let gave_up = (0..lost).map(|_| work(20, WorkEnd::Lost, ""));
            let (policy, adapted) = chosen(&reported.chain(gave_up).collect::<Vec<_>>());
            (policy.cohort_size, adapted.dropout_permille)
        };
        assert_eq!([0, 8, 20, 40, 60].map(of), [(11, 0), (12, 80), (14, 200), (18, 400), (20, 600)]);
    }

    /// Goal: a class that the fastest deadline would shut out is kept in, and one of which nothing was seen yet is
    /// measured first.
    #[test]
    fn a_slow_class_is_kept_in() {
        let fast = || (0..90).map(|client| work(50 + client % 20, WorkEnd::Reported, "new"));
        let slow = (0..10).map(|client| work(300 + client, WorkEnd::Reported, "old"));
        let (policy, adapted) = chosen(&fast().chain(slow).collect::<Vec<_>>());
        assert_eq!(adapted.fastest_ms, Some(70_000));
        // Half of the share of all: 5 of its 10, when 95 of 100 have reported.
        assert!((305_000..310_000).contains(&policy.deadline_ms), "{policy:?}");
        let unseen = (0..10).map(|_| work(70, WorkEnd::Open, "old"));
        let (policy, _) = chosen(&fast().chain(unseen).collect::<Vec<_>>());
        assert_eq!(policy.deadline_ms, 140_000, "twice the time that was seen");
        let one = [work(300, WorkEnd::Reported, "rare")];
        let (policy, _) = chosen(&fast().chain(one).collect::<Vec<_>>());
        assert!(policy.deadline_ms <= 70_000, "one piece of work is no class: {policy:?}");
    }

    /// Goal: a buffered job gives places that dead clients hold back as soon as few others would still report.
    #[test]
    fn the_deadline_of_a_place_follows_the_times_and_nothing_else_does() {
        let tempo = Tempo::Buffer { concurrency: 30, staleness_max: 16 };
        let buffered = TaskPolicy { tempo, minimum: 10, cohort_size: 10, available_min: 10, ..POLICY };
        let reported = (0..90).map(|client| work(50 + client % 20, WorkEnd::Reported, ""));
        let dead = (0..10).map(|_| work(600, WorkEnd::Open, ""));
        let policy = adapt(&buffered, &settings(), &reported.chain(dead).collect::<Vec<_>>(), 5_000).unwrap();
        let adapted = policy.adapted.unwrap();
        assert_eq!((policy.deadline_ms, adapted.dropout_permille, adapted.cohort), (70_000, 100, 30));
        // 30 places, of which each is taken for 0.9 x 59.5 + 0.1 x 70 s by a client that reports with a chance of 0.9.
        assert!((1_590..=1_630).contains(&adapted.updates_per_hour), "{adapted:?}");
        assert_eq!(TaskPolicy { deadline_ms: 600_000, adapted: None, ..policy }, buffered);
    }

    /// A quarter of the clients reports after 10, 20 and 30 seconds each, and a quarter never.
    fn quarters() -> Times {
        let ends = [(5_000, WorkEnd::Lost), (10_000, WorkEnd::Reported), (20_000, WorkEnd::Reported)];
        Times::of(ends.into_iter().chain([(30_000, WorkEnd::Reported)]).collect())
    }

    fn close(got: f64, wanted: f64) {
        assert!((got / wanted - 1.0).abs() < 1e-12, "{got} is not {wanted}");
    }

    #[test]
    fn a_place_is_taken_until_its_client_reports_or_the_deadline_passes() {
        for (deadline_ms, share, taken_s) in [
            (5_000, 0.0, 5.0),
            (10_000, 0.0, 10.0),
            (25_000, 0.5, 10.0 + 7.5 + 2.5),
            (40_000, 0.75, 10.0 + 7.5 + 5.0 + 2.5),
        ] {
            let plan = Plan::of_places(30, &quarters(), deadline_ms);
            assert_eq!((plan.deadline_ms, plan.cohort), (deadline_ms, 30));
            close(plan.share + 1.0, share + 1.0);
            close(plan.updates_per_hour + 1.0, 30.0 * share * 3_600.0 / taken_s + 1.0);
        }
    }

    #[test]
    fn a_round_lasts_until_its_goal_is_met_or_its_deadline_passes() {
        let policy = TaskPolicy { goal: 2, minimum: 1, cohort_size: 4, ..POLICY };
        // 2 x 1.08 / 0.5 is more than the cohort of the file. Of 4 clients, at least one reports in 15 of 16 rounds,
        // and one alone in 4 of 16. The goal is unmet for 10 s, then with a chance of 189 / 256, then of 5 / 16.
        let plan = Plan::of(&policy, &quarters(), 25_000, 3_000);
        assert_eq!((plan.deadline_ms, plan.cohort), (25_000, 4));
        close(plan.share, 0.5);
        let lasts_s = 10.0 + 10.0 * 189.0 / 256.0 + 5.0 * 5.0 / 16.0 + 3.0;
        close(plan.updates_per_hour, (4.0 + 2.0 * 11.0) / 16.0 * 3_600.0 / lasts_s);
        // A round with fewer reports than its minimum gives no update.
        let strict = Plan::of(&TaskPolicy { minimum: 2, ..policy }, &quarters(), 25_000, 3_000);
        close(strict.updates_per_hour, 2.0 * 11.0 / 16.0 * 3_600.0 / lasts_s);
        // 2 x 1.08 / 0.75, rounded up.
        assert_eq!(Plan::of(&policy, &quarters(), 40_000, 0).cohort, 3);
    }

    #[test]
    fn deadlines_are_whole_seconds_after_reports_and_within_the_bounds() {
        let bounds = |min, max| Adapt { deadline_min_ms: min, deadline_max_ms: max, ..Adapt::default() };
        let of = |min, max| deadlines(&quarters(), &bounds(min, max));
        assert_eq!(of(1_000, 100_000), [1_000, 11_000, 21_000, 31_000, 60_000, 100_000]);
        assert_eq!(of(15_000, 25_000), [15_000, 21_000, 25_000]);
    }

    #[test]
    fn too_few_measured_times_change_nothing() {
        let works: Vec<_> = (0..19).map(|client| work(50 + client, WorkEnd::Reported, "")).collect();
        assert_eq!(adapt(&POLICY, &settings(), &works, 0), None);
        let silent: Vec<_> = (0..40).map(|_| work(600, WorkEnd::Open, "")).collect();
        assert_eq!(adapt(&POLICY, &settings(), &silent, 0), None);
    }

    #[test]
    fn chances_are_those_of_the_binomial_distribution() {
        let chances = binomial(4, 0.25);
        let expected = [81.0, 108.0, 54.0, 12.0, 1.0].map(|count| count / 256.0);
        assert!(chances.iter().zip(expected).all(|(got, want)| (got - want).abs() < 1e-15), "{chances:?}");
        let many = binomial(10_000, 0.3);
        let mean: f64 = many.iter().enumerate().map(|(count, chance)| count as f64 * chance).sum();
        assert!((mean - 3_000.0).abs() < 1e-6);
        assert_eq!((binomial(3, 0.0)[0], binomial(3, 1.0)[3]), (1.0, 1.0));
    }

    fn end() -> impl Strategy<Value = WorkEnd> {
        prop_oneof![4 => Just(WorkEnd::Reported), 2 => Just(WorkEnd::Open), 1 => Just(WorkEnd::Lost)]
    }

    proptest! {
        #[test]
        fn whatever_was_measured_the_policy_is_within_its_bounds(
            works in prop::collection::vec((0u64..5_000_000, end(), 0u8..3), 20..120),
            least_s in 1u64..100, spread_s in 0u64..10_000,
        ) {
            let works: Vec<_> = works
                .into_iter()
                .map(|(after_ms, end, class)| PastWork { after_ms, end, class: class.to_string() })
                .collect();
            let settings = Adapt {
                deadline_min_ms: least_s * 1000,
                deadline_max_ms: (least_s + spread_s) * 1000,
                ..Adapt::default()
            };
            if let Some(policy) = adapt(&POLICY, &settings, &works, 1_000) {
                let bounds = settings.deadline_min_ms.cast_signed()..=settings.deadline_max_ms.cast_signed();
                prop_assert!(bounds.contains(&policy.deadline_ms), "{policy:?}");
                prop_assert!((POLICY.goal..=POLICY.cohort_size).contains(&policy.cohort_size));
                prop_assert!(policy.available_min >= policy.cohort_size);
                prop_assert!(policy.adapted.unwrap().dropout_permille <= 1000);
                prop_assert_eq!((policy.goal, policy.minimum), (POLICY.goal, POLICY.minimum));
            }
        }
    }
}
