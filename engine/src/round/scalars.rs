//! Named scalars of a round: what the reports of its clients come to.

use std::collections::BTreeMap;

use tributary_protocol::operator::ScalarSummary;
use tributary_protocol::scalars::{SCALARS_MAX, ScalarName, Scalars};

/// The mean of each metric, weighted by examples, and its quantiles over clients, by name.
///
/// The result does not depend on the order of the reports. Clients choose the names, so a round keeps the
/// [`SCALARS_MAX`] metrics that the most clients report: a few clients cannot displace the others' metrics.
#[must_use]
pub fn summaries<'a>(reports: impl IntoIterator<Item = (&'a Scalars, u64)>) -> Vec<ScalarSummary> {
    let mut values: BTreeMap<&ScalarName, Vec<(f64, u64)>> = BTreeMap::new();
    for (metrics, weight) in reports {
        for (name, value) in metrics.iter() {
            values.entry(name).or_default().push((value, weight));
        }
    }
    let mut summaries: Vec<_> = values.into_iter().map(|(name, values)| summary(name, values)).collect();
    summaries.sort_by(|a, b| b.reports.cmp(&a.reports).then_with(|| a.name.cmp(&b.name)));
    summaries.truncate(SCALARS_MAX);
    summaries.sort_by(|a, b| a.name.cmp(&b.name));
    summaries
}

/// `values` are those of at least one client, with its examples.
fn summary(name: &ScalarName, mut values: Vec<(f64, u64)>) -> ScalarSummary {
    // The order of additions is fixed, so the rounding does not depend on the order of the reports.
    values.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let weight: f64 = values.iter().map(|(_, weight)| *weight as f64).sum();
    let sum: f64 = values.iter().map(|(value, weight)| value * *weight as f64).sum();
    let at = |percent: usize| values[(values.len() * percent).div_ceil(100).max(1) - 1].0;
    ScalarSummary {
        name: name.clone(),
        reports: u32::try_from(values.len()).unwrap_or(u32::MAX),
        mean: sum / weight.max(1.0),
        min: at(0),
        p10: at(10),
        p50: at(50),
        p90: at(90),
        max: at(100),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(values: &[(&str, f64)]) -> Scalars {
        values.iter().fold(Scalars::new(), |metrics, (name, value)| metrics.with(name, *value).unwrap())
    }

    fn of(reports: &[(Scalars, u64)]) -> Vec<ScalarSummary> {
        summaries(reports.iter().map(|(metrics, weight)| (metrics, *weight)))
    }

    #[test]
    fn means_are_weighted_by_examples_and_quantiles_count_clients() {
        let mut reports: Vec<_> = (1..=10).map(|number| (report(&[("auc", f64::from(number) / 10.0)]), 10)).collect();
        reports.push((report(&[("auc", 0.0), ("f1", 0.25)]), 100));
        let summaries = of(&reports);
        let [auc, f1] = summaries.as_slice() else { panic!("{summaries:?}") };
        assert_eq!((auc.name.as_str(), auc.reports), ("auc", 11));
        assert!((auc.mean - 0.275).abs() < 1e-12, "{}", auc.mean);
        assert_eq!((auc.min, auc.p10, auc.p50, auc.p90, auc.max), (0.0, 0.1, 0.5, 0.9, 1.0));
        assert_eq!((f1.reports, f1.mean, f1.min, f1.max), (1, 0.25, 0.25, 0.25));
        reports.reverse();
        assert_eq!(of(&reports), summaries, "the order of arrival does not matter");
        assert!(of(&[]).is_empty());
    }

    #[test]
    fn names_of_few_clients_do_not_displace_those_of_many() {
        let flood = |client: u32| {
            let names: Vec<String> = (0..SCALARS_MAX).map(|index| format!("a{client}-{index}")).collect();
            report(&names.iter().map(|name| (name.as_str(), 1.0)).collect::<Vec<_>>())
        };
        let mut reports = vec![(flood(1), 1), (flood(2), 1)];
        reports.extend([(report(&[("zeta", 1.0)]), 1), (report(&[("zeta", 2.0)]), 1)]);
        let summaries = of(&reports);
        assert_eq!(summaries.len(), SCALARS_MAX);
        assert_eq!(summaries.last().map(|metric| (metric.name.as_str(), metric.mean)), Some(("zeta", 1.5)));
    }
}
