//! What a ledger says was spent, from its entries alone.

use tributary_protocol::job_file::Mechanism;
use tributary_protocol::noise::epsilon_of_integers;
use tributary_protocol::operator::{EpsilonPair, LedgerEntry};

use super::accountant::{AccountantError, spent};
use super::charge::Charge;

/// What the entries of a job's ledger spend together, but for a chance of delta.
///
/// # Errors
/// [`AccountantError`] when the accountants disagree.
pub fn spent_by(entries: &[LedgerEntry], delta: f64) -> Result<EpsilonPair, AccountantError> {
    let Some(last) = entries.last() else { return Ok(EpsilonPair::default()) };
    let correlated = entries.iter().filter(|entry| entry.mechanism == Mechanism::Blt);
    // All releases with correlated noise are one: the largest of what the entries say of it.
    let mu = correlated.map(|entry| entry.sensitivity / entry.noise_multiplier).fold(0.0, f64::max);
    if mu > 0.0 {
        let epsilon = spent(&[Charge::Correlated { mu }], delta)?.epsilon;
        return Ok(EpsilonPair { models: epsilon, cohorts: epsilon });
    }
    let distributed = |entry: &LedgerEntry| entry.mechanism == Mechanism::Distributed;
    if entries.iter().any(distributed) {
        return Ok(distributed_spent(entries, last.participations, delta));
    }
    if entries.iter().all(|entry| entry.mechanism == Mechanism::Local) {
        return local_spent(entries, last.participations, delta);
    }
    // Who knows the cohorts knows in which releases a unit took part. The entry with the least noise stands for all.
    let noise_multiplier = least(entries, |entry| entry.noise_multiplier);
    let known = Charge::Gaussian { noise_multiplier, times: last.participations };
    let cohorts = spent(&[known], delta)?.epsilon;
    let sampled = |entry: &LedgerEntry| {
        Some(Charge::Sampled { noise_multiplier: entry.noise_multiplier, rate: entry.rate?, times: 1 })
    };
    match entries.iter().map(sampled).collect::<Option<Vec<_>>>() {
        Some(sampled) => Ok(EpsilonPair { models: spent(&sampled, delta)?.epsilon, cohorts }),
        None => Ok(EpsilonPair { models: cohorts, cohorts }),
    }
}

/// The least of a figure of the entries.
fn least(entries: &[LedgerEntry], of: fn(&LedgerEntry) -> f64) -> f64 {
    entries.iter().map(of).fold(f64::INFINITY, f64::min)
}

/// What noise of single clients spends. The coordinator sees each answer, and readers the sum of all.
fn local_spent(entries: &[LedgerEntry], times: u32, delta: f64) -> Result<EpsilonPair, AccountantError> {
    let of = |noise_multiplier: f64| spent(&[Charge::Gaussian { noise_multiplier, times }], delta);
    Ok(EpsilonPair {
        models: of(least(entries, |entry| entry.noise_multiplier / entry.sensitivity))?.epsilon,
        cohorts: of(least(entries, |entry| entry.noise_multiplier))?.epsilon,
    })
}

/// What noise of groups spends. The coordinator sees the sum of each group, and readers of models those of a version
/// together.
fn distributed_spent(entries: &[LedgerEntry], participations: u32, delta: f64) -> EpsilonPair {
    let of = |noise: f64| epsilon_of_integers(noise, participations, delta);
    EpsilonPair {
        models: of(least(entries, |entry| entry.noise_multiplier / entry.sensitivity)),
        cohorts: of(least(entries, |entry| entry.noise_multiplier)),
    }
}

#[cfg(test)]
mod tests {
    use tributary_protocol::operator::CHAIN_BEGINS;

    use super::*;

    fn entry(mechanism: Mechanism, rate: Option<f64>, participations: u32) -> LedgerEntry {
        LedgerEntry {
            at_ms: 0,
            hash: CHAIN_BEGINS,
            mechanism,
            noise_multiplier: 1.0,
            number: 1,
            participations,
            previous: CHAIN_BEGINS,
            rate,
            round: 1,
            sensitivity: if mechanism == Mechanism::Blt { 0.5 } else { 1.0 },
            version: 1,
        }
    }

    #[test]
    fn each_mechanism_is_charged_as_the_page_says() {
        let near = |got: f64, wanted: f64| assert!((got - wanted).abs() < 2e-3, "{got} is not {wanted}");
        assert_eq!(spent_by(&[], 1e-8).unwrap(), EpsilonPair::default());
        for (times, wanted) in [(1, 5.776), (2, 8.534), (3, 10.776), (6, 16.228)] {
            near(spent_by(&[entry(Mechanism::Gaussian, None, times)], 1e-8).unwrap().cohorts, wanted);
        }
        let blt = vec![entry(Mechanism::Blt, None, 1); 9];
        let spent = spent_by(&blt, 1e-6).unwrap();
        near(spent.models, super::super::gaussian::epsilon(0.5, 1e-6));
        assert_eq!(spent.models.to_bits(), spent.cohorts.to_bits());
        // Four groups at least: twice the noise in a model.
        let groups = LedgerEntry { sensitivity: 0.5, ..entry(Mechanism::Distributed, None, 3) };
        let spent = spent_by(&vec![groups; 12], 1e-6).unwrap();
        near(spent.cohorts, epsilon_of_integers(1.0, 3, 1e-6));
        near(spent.models, epsilon_of_integers(2.0, 3, 1e-6));
        // Of 100 clients each has noise of its own: readers of the sum see ten times the deviation.
        let local = LedgerEntry { sensitivity: 0.1, ..entry(Mechanism::Local, None, 1) };
        let spent = spent_by(&[local], 1e-8).unwrap();
        near(spent.cohorts, 5.776);
        near(spent.models, super::super::gaussian::epsilon(0.1, 1e-8));
        let sampled = spent_by(&vec![entry(Mechanism::Gaussian, Some(0.1), 3); 100], 1e-5).unwrap();
        near(sampled.models, 7.046_602_88);
        assert!(sampled.cohorts > sampled.models);
    }
}
