//! Quantiles of measured times.

/// The value below which the given fraction of the sorted times lies; 0 without times.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = ((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_the_sorted_times() {
        let times: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!((quantile(&times, 0.5), quantile(&times, 0.99), quantile(&[], 0.5)), (50.0, 99.0, 0.0));
    }
}
