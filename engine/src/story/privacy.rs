//! What the privacy of a job comes to over its rounds, for people, before and after it is created.

use tributary_protocol::job_file::Mechanism;
use tributary_protocol::noise::epsilon_of_integers;
use tributary_protocol::operator::{EpsilonPair, JobPrivacy, LedgerEntry};
use tributary_protocol::state::Task;

use crate::job::JobSpec;
use crate::privacy::{AccountantError, Charge, Charged, Participation, Terms, spent, units_needed};
use crate::round::TaskPolicy;

/// What a job has spent after so many rounds, at most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlanPoint {
    pub rounds: u32,
    pub epsilon: EpsilonPair,
}

/// What a job spends at most after each tenth of its rounds; nothing without `[privacy]`.
///
/// # Errors
/// [`AccountantError`] when the accountants disagree.
pub fn course(spec: &JobSpec) -> Result<Vec<PlanPoint>, AccountantError> {
    let (Some(terms), Some(settings)) = (&spec.privacy, &spec.file.privacy) else { return Ok(Vec::new()) };
    let versions = terms.participation.versions;
    let mut tenths: Vec<u32> = (1..=10).map(|tenth| (versions * tenth).div_ceil(10)).collect();
    tenths.dedup();
    tenths.into_iter().map(|rounds| Ok(PlanPoint { rounds, epsilon: after(terms, rounds, settings.delta)? })).collect()
}

fn after(terms: &Terms, rounds: u32, delta: f64) -> Result<EpsilonPair, AccountantError> {
    let Participation { separation, times, .. } = terms.participation;
    let noise_multiplier = terms.noise_multiplier;
    // A unit that takes part as soon as it may.
    let times = times.min((rounds - 1) / separation.max(1) + 1);
    if terms.mechanism == Mechanism::Distributed {
        let of = |noise: f64| epsilon_of_integers(noise, times, delta);
        return Ok(EpsilonPair { models: of(noise_multiplier / terms.sensitivity), cohorts: of(noise_multiplier) });
    }
    if terms.mechanism == Mechanism::Local {
        let of = |noise_multiplier| spent(&[Charge::Gaussian { noise_multiplier, times }], delta);
        let models = of(noise_multiplier / terms.sensitivity)?.epsilon;
        return Ok(EpsilonPair { models, cohorts: of(noise_multiplier)?.epsilon });
    }
    let charge = match &terms.blt {
        Some(blt) => {
            let participation = Participation { versions: rounds, ..terms.participation };
            Charge::Correlated { mu: blt.sensitivity_squared(participation).sqrt() / noise_multiplier }
        }
        None => Charge::Gaussian { noise_multiplier, times },
    };
    let cohorts = spent(&[charge], delta)?.epsilon;
    let models = match terms.rate {
        Some(rate) => spent(&[Charge::Sampled { noise_multiplier, rate, times: rounds }], delta)?.epsilon,
        None => cohorts,
    };
    Ok(EpsilonPair { models, cohorts })
}

/// The privacy of a job for people; none without `[privacy]`. `spent` is what its ledger comes to.
pub fn explained(spec: &JobSpec, ledger: Vec<LedgerEntry>, spent: Option<EpsilonPair>) -> Option<JobPrivacy> {
    let (terms, settings) = (spec.privacy.as_ref()?, spec.file.privacy.as_ref()?);
    let policy = TaskPolicy::of(&spec.file, Task::Train)?;
    let charged = Charged {
        releases: ledger.last().map_or(0, |last| last.number),
        participations: ledger.last().map_or(0, |last| last.participations),
    };
    let noise = terms.noise(policy.goal, policy.available_min);
    let versions = f64::from(terms.participation.versions);
    // Of the last model, for a clip of 1 and one update a round.
    let deviation = match &terms.blt {
        Some(blt) => blt.distance(terms.participation).last / terms.sensitivity * noise.values,
        None => noise.values * (versions * terms.together).sqrt(),
    };
    Some(JobPrivacy {
        terms: settings.clone(),
        // Noise that everybody can repeat hides nothing.
        spent: spent.filter(|_| settings.test_key.is_none()),
        is_spent: !terms.allows(charged),
        noise_ratio: deviation / noise.divisor * (spec.shared().total() as f64).sqrt() / versions,
        units_needed: units_needed(&spec.file, terms.participation),
        ledger,
    })
}
