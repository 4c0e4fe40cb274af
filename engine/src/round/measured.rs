//! What the accuracies of clients come to, and how sure that is.

use tributary_protocol::operator::MeasuredOn;

/// Standard normal quantile of a 95 % interval.
const Z: f64 = 1.959_963_984_540_054;

/// The 95 % confidence interval of a share of `of` observations, both from 0 to 1 (Wilson 1927, equation 2 of Agresti
/// and Coull 1998): it is sensible for shares of 0 and 1 and for few observations, where the normal one is not.
pub fn interval(share: f64, of: u64) -> (f64, f64) {
    if of == 0 {
        return (0.0, 1.0);
    }
    let n = of as f64;
    let centre = (share + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
    let half = Z / (1.0 + Z * Z / n) * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    ((centre - half).max(0.0), (centre + half).min(1.0))
}

/// Examples of a perfect result whose lower bound reaches this share, from 0 to below 1: `z^2 share / (1 - share)`.
pub fn examples_for(share: f64) -> u64 {
    (Z * Z * share / (1.0 - share)).ceil() as u64
}

/// What one report says of a model's accuracy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accuracy {
    pub share: f64,
    /// Examples of which it is the share.
    pub examples: u64,
    /// Clients that the report stands for: several, if it is a relay's.
    pub clients: u32,
}

/// The accuracy that clients measured, weighted by their examples; reports without examples do not count. None without
/// any. The result does not depend on the order of the reports. How it differs between clients is unknown where one
/// report stands for several.
pub fn measured(reports: &[Accuracy]) -> Option<(f64, MeasuredOn)> {
    let mut reports: Vec<_> = reports.iter().copied().filter(|report| report.examples > 0).collect();
    reports.sort_by(|one, other| one.share.total_cmp(&other.share).then(one.examples.cmp(&other.examples)));
    let examples = reports.iter().map(|report| report.examples).sum();
    let sum: f64 = reports.iter().map(|report| report.share * report.examples as f64).sum();
    let worst = reports.first()?.share;
    let accuracy = sum / examples as f64;
    let (low, high) = interval(accuracy, examples);
    let tells_clients = reports.len() > 1 && reports.iter().all(|report| report.clients == 1);
    let among = |value: f64| tells_clients.then_some(value);
    let p10 = reports[reports.len().div_ceil(10) - 1].share;
    let clients = reports.iter().fold(0, |clients: u32, report| clients.saturating_add(report.clients));
    Some((accuracy, MeasuredOn { examples, clients, low, high, worst: among(worst), p10: among(p10) }))
}

/// What an accuracy on a test set of the coordinator was measured on.
pub fn measured_centrally(accuracy: f64, examples: u64) -> MeasuredOn {
    let (low, high) = interval(accuracy, examples);
    MeasuredOn { examples, clients: 0, low, high, worst: None, p10: None }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn report(share: f64, examples: u64) -> Accuracy {
        Accuracy { share, examples, clients: 1 }
    }

    #[test]
    fn nineteen_right_answers_of_nineteen_make_sure_of_83_percent() {
        let (accuracy, on) = measured(&[report(1.0, 19)]).unwrap();
        assert_eq!((accuracy, on.examples, on.clients, on.worst, on.p10), (1.0, 19, 1, None, None));
        // statsmodels proportion_confint(19, 19, method="wilson"): 0.831813.
        assert!((on.low - 0.831_813).abs() < 1e-5 && on.high == 1.0, "{on:?}");
        // statsmodels proportion_confint(50, 100, method="wilson"): 0.403832 and 0.596168.
        let (low, high) = interval(0.5, 100);
        assert!((low - 0.403_832).abs() < 1e-6 && (high - 0.596_168).abs() < 1e-6, "{low} {high}");
        assert_eq!((interval(0.5, 0), measured(&[]), measured(&[report(1.0, 0)])), ((0.0, 1.0), None, None));
    }

    #[test]
    fn means_count_examples_and_the_spread_counts_clients() {
        let reports: Vec<_> =
            (0..20).map(|client| report(f64::from(client) / 20.0, if client == 0 { 80 } else { 20 })).collect();
        let (accuracy, on) = measured(&reports).unwrap();
        assert!((accuracy - 190.0 / 20.0 * 20.0 / 460.0).abs() < 1e-12, "{accuracy}");
        assert_eq!((on.examples, on.clients, on.worst, on.p10), (460, 20, Some(0.0), Some(0.05)));
        let turned: Vec<_> = reports.into_iter().rev().collect();
        assert_eq!(measured(&turned), Some((accuracy, on)), "the order of arrival does not matter");
    }

    #[test]
    fn the_report_of_a_relay_counts_its_clients_and_hides_their_spread() {
        let of_three = Accuracy { clients: 3, ..report(0.5, 60) };
        let (accuracy, on) = measured(&[of_three, report(1.0, 20)]).unwrap();
        assert_eq!((accuracy, on.examples, on.clients, on.worst, on.p10), (0.625, 80, 4, None, None));
    }

    #[test]
    fn a_perfect_result_of_so_many_examples_reaches_the_share() {
        assert_eq!([0.5, 0.9, 0.99].map(examples_for), [4, 35, 381]);
        for share in [0.5, 0.9, 0.99] {
            let examples = examples_for(share);
            assert!(interval(1.0, examples).0 >= share && interval(1.0, examples - 1).0 < share, "{share}");
        }
    }

    proptest! {
        #[test]
        fn the_interval_has_the_share_in_it(right in 0u64..400, wrong in 0u64..400) {
            let share = right as f64 / (right + wrong).max(1) as f64;
            let (low, high) = interval(share, right + wrong);
            prop_assert!(0.0 <= low && low <= share + 1e-12 && share <= high + 1e-12 && high <= 1.0);
        }
    }
}
