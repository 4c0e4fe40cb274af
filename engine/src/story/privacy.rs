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

#[cfg(test)]
mod tests {
    use tributary_protocol::hash::Sha256Hash;
    use tributary_protocol::job_file::JobFile;

    use super::*;
    use crate::privacy::{gaussian, resolve};

    /// A private job of three rounds with an epsilon of 2, in which a unit takes part in the first and the third.
    fn job(settings: &str) -> JobSpec {
        let mut file = JobFile::parse(&format!(
            "name = 'a'\npopulation = 'b'\nmodel.parameters = [{{ name = 'w', shape = [9] }}]\n\
             training.steps = 1\ntraining.optimizer = {{ kind = 'sgd', learning_rate = 0.1 }}\n\
             aggregation.combine = 'uniform_mean'\nstop.rounds = 3\n\
             privacy.epsilon = 2.0\nprivacy.delta = 1e-6\nprivacy.clip = 1.0\n\
             privacy.participations_max = 2\nprivacy.separation = 2\n{settings}"
        ))
        .unwrap();
        resolve(&mut file).unwrap();
        JobSpec::new(format!("job_{}", "0".repeat(32)).parse().unwrap(), file).unwrap()
    }

    fn terms(spec: &JobSpec) -> &Terms {
        spec.privacy.as_ref().unwrap()
    }

    /// The course in pairs of models and cohorts, after one, two and three rounds.
    fn course_of(spec: &JobSpec) -> Vec<[f64; 2]> {
        let points = course(spec).unwrap();
        assert_eq!(points.iter().map(|point| point.rounds).collect::<Vec<_>>(), [1, 2, 3]);
        points.iter().map(|point| [point.epsilon.models, point.epsilon.cohorts]).collect()
    }

    fn near(got: &[[f64; 2]], wanted: [[f64; 2]; 3]) {
        let is_near = got.iter().flatten().zip(wanted.as_flattened()).all(|(got, wanted)| (got - wanted).abs() < 2e-3);
        assert!(is_near, "{got:?} is not {wanted:?}");
    }

    #[test]
    fn independent_noise_is_spent_with_each_update_of_a_unit() {
        let spec = job("privacy.mechanism = 'gaussian'");
        let once = gaussian::epsilon(1.0 / terms(&spec).noise_multiplier, 1e-6);
        near(&course_of(&spec), [[once; 2], [once; 2], [2.0; 2]]);
    }

    #[test]
    fn correlated_noise_is_spent_by_all_releases_together() {
        let spec = job("");
        let Terms { blt, participation, noise_multiplier, .. } = terms(&spec);
        let after = |versions| {
            let participation = Participation { versions, ..*participation };
            let mu = blt.as_ref().unwrap().sensitivity_squared(participation).sqrt() / noise_multiplier;
            [gaussian::epsilon(mu, 1e-6); 2]
        };
        near(&course_of(&spec), [after(1), after(2), [2.0; 2]]);
    }

    /// Who knows the cohorts sees no draws: it counts the updates of one unit.
    #[test]
    fn draws_protect_from_readers_of_models_alone() {
        let spec = job("privacy.mechanism = 'gaussian'\nprivacy.sampling = 'poisson'\nround.over_selection = 1.0\n\
            round.selection = { kind = 'poisson', rate = 0.1 }\nround.available_min = 200\nround.updates_min = 1\n\
            round.updates_goal = 80");
        let noise_multiplier = terms(&spec).noise_multiplier;
        let models = |times| spent(&[Charge::Sampled { noise_multiplier, rate: 0.1, times }], 1e-6).unwrap().epsilon;
        let cohorts = |times: f64| gaussian::epsilon(times.sqrt() / noise_multiplier, 1e-6);
        let wanted = [[models(1), cohorts(1.0)], [models(2), cohorts(1.0)], [2.0, cohorts(2.0)]];
        near(&course_of(&spec), wanted);
    }

    /// Readers of models see the noise of several groups or clients, the coordinator that of one.
    #[test]
    fn noise_of_clients_protects_less_from_the_coordinator() {
        let spec = job("privacy.mechanism = 'distributed'\nsecure_aggregation.group = 32\nround.updates_goal = 128\n\
            round.updates_min = 97");
        let noise = terms(&spec).noise_multiplier;
        let of = |times| [2.0 * noise, noise].map(|noise| epsilon_of_integers(noise, times, 1e-6));
        near(&course_of(&spec), [of(1), of(1), of(2)]);
        assert!((of(2)[1] - 2.0).abs() < 1e-6, "the budget is kept against the coordinator");
    }

    #[test]
    fn an_explanation_has_the_noise_of_the_last_model_and_what_is_left_of_the_budget() {
        let spent = Some(EpsilonPair { models: 1.0, cohorts: 1.5 });
        let spec = job("privacy.mechanism = 'gaussian'");
        let told = explained(&spec, Vec::new(), spent).unwrap();
        assert_eq!((told.spent, told.is_spent, told.units_needed), (spent, false, 20));
        // Three times the noise of a sum of ten, over nine parameters, for three updates.
        let wanted = terms(&spec).noise_multiplier * 3f64.sqrt() / 10.0 * 3.0 / 3.0;
        assert!((told.noise_ratio / wanted - 1.0).abs() < 1e-12, "{} is not {wanted}", told.noise_ratio);
        let spec = job("");
        let Terms { blt, participation, sensitivity, noise_multiplier, .. } = terms(&spec);
        let last = blt.as_ref().unwrap().distance(*participation).last;
        let wanted = last / sensitivity * noise_multiplier / 10.0 * 3.0 / 3.0;
        let told = explained(&spec, Vec::new(), None).unwrap();
        assert!((told.noise_ratio / wanted - 1.0).abs() < 1e-12, "{} is not {wanted}", told.noise_ratio);
        let hash = Sha256Hash::of(b"");
        let entry = |number| LedgerEntry {
            at_ms: 0,
            hash,
            mechanism: Mechanism::Blt,
            noise_multiplier: 1.0,
            number,
            participations: 1,
            previous: hash,
            rate: None,
            round: number,
            sensitivity: 1.0,
            version: number,
        };
        let is_spent = |number| explained(&spec, vec![entry(number)], None).unwrap().is_spent;
        assert_eq!((is_spent(2), is_spent(3)), (false, true), "the budget is for three releases");
        let key = job(&format!("privacy.test_key = '{}'", "0".repeat(64)));
        assert_eq!(explained(&key, Vec::new(), spent).unwrap().spent, None, "everybody can repeat the noise");
    }
}
