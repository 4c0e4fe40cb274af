//! Which versions and rounds a job keeps.

use tributary_protocol::job_file::{JobFile, ModelsKept};

const DAY_MS: i64 = 24 * 3600 * 1000;
/// What [`ModelsKept::Useful`] keeps: enough to step back from a mistake, and the long way in outline. A job of 10,000
/// rounds keeps 121 versions.
const USEFUL_LAST: u32 = 20;
const USEFUL_EVERY: u32 = 100;

/// Whether a job keeps the file of this model version.
///
/// The newest version is the base of the next round and the one that operators download. Open rounds need their base
/// until they end. `best` is the version with the best evaluation so far.
#[must_use]
pub fn keeps_version(kept: ModelsKept, version: u32, newest: u32, best: Option<u32>, in_use: &[u32]) -> bool {
    let by_policy = match kept {
        ModelsKept::Useful => {
            newest.saturating_sub(version) < USEFUL_LAST
                || best == Some(version)
                || version.is_multiple_of(USEFUL_EVERY)
        }
        ModelsKept::All => true,
        ModelsKept::Last(count) => newest.saturating_sub(version) < count,
        ModelsKept::Every(step) => version.is_multiple_of(step),
    };
    by_policy || version >= newest || in_use.contains(&version)
}

/// The time before which ended rounds and events lose their details; none when the job keeps all.
#[must_use]
pub fn history_before_ms(job: &JobFile, now_ms: i64) -> Option<i64> {
    job.retention.history_days.map(|days| now_ms.saturating_sub(i64::from(days).saturating_mul(DAY_MS)))
}

/// The first training round that the separation rule still needs, however old it is: the rule lets clients rest between
/// rounds.
#[must_use]
pub fn separation_needs_from(job: &JobFile, rounds_opened: u32) -> u32 {
    match job.eligibility.separation_rounds {
        0 => u32::MAX,
        separation => rounds_opened.saturating_sub(separation),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_kept_by_the_policy_and_by_need() {
        let kept = |policy, in_use: &[u32]| -> Vec<u32> {
            (0..=10).filter(|version| keeps_version(policy, *version, 10, None, in_use)).collect()
        };
        assert_eq!(kept(ModelsKept::All, &[]), Vec::from_iter(0..=10));
        assert_eq!(kept(ModelsKept::Last(1), &[]), [10]);
        assert_eq!(kept(ModelsKept::Last(3), &[]), [8, 9, 10]);
        assert_eq!(kept(ModelsKept::Last(100), &[]).len(), 11);
        assert_eq!(kept(ModelsKept::Last(1), &[4, 9]), [4, 9, 10]);
        assert_eq!(kept(ModelsKept::Every(4), &[]), [0, 4, 8, 10]);
        assert_eq!(kept(ModelsKept::Every(1), &[]).len(), 11);
        // A version that was committed after the newest was looked up.
        assert!(keeps_version(ModelsKept::Last(1), 11, 10, None, &[]));
    }

    #[test]
    fn by_default_the_newest_the_best_and_every_hundredth_version_are_kept() {
        let kept: Vec<u32> =
            (0..=350).filter(|version| keeps_version(ModelsKept::default(), *version, 350, Some(170), &[])).collect();
        let mut expected = vec![0, 100, 170, 200, 300];
        expected.extend(331..=350);
        assert_eq!(kept, expected);
    }

    #[test]
    fn history_and_separation_say_which_rounds_are_needed() {
        let file = "name = 'j'\npopulation = 'p'\nmodel = { parameters = [{ name = 'w', shape = [1] }] }\n\
                    training = { epochs = 1, optimizer = { kind = 'sgd', learning_rate = 1.0 } }\n";
        let job = |extra: &str| JobFile::parse(&format!("{file}{extra}")).unwrap();
        assert_eq!(history_before_ms(&job(""), 1_000), None);
        assert_eq!(history_before_ms(&job("retention = { history_days = 2 }"), 3 * DAY_MS), Some(DAY_MS));
        assert_eq!(separation_needs_from(&job(""), 10), u32::MAX);
        assert_eq!(separation_needs_from(&job("eligibility = { separation_rounds = 3 }"), 10), 7);
        assert_eq!(separation_needs_from(&job("eligibility = { separation_rounds = 30 }"), 10), 0);
    }
}
