//! From a budget to noise: what the coordinator fills in when it creates a private job.

use tributary_protocol::job_file::{JobFile, Mechanism, NoiseBuffers, Privacy};
use tributary_protocol::noise::{LOCAL_NOISE_MAX, epsilon_of_integers};
use tributary_protocol::secure::noised::DEVIATION_MIN;
use tributary_protocol::secure::quantise::Quantiser;
use tributary_protocol::secure::sizes::honest_min;

use super::accountant::{AccountantError, largest, noise_of_sampled, releases_of_sampled};
use super::blt::{Blt, Participation};
use super::gaussian::{self, bisect};
use super::rdp::log_sum;
use super::terms::{participation, rate};

/// Why a job's budget cannot be kept.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BudgetError {
    #[error(
        "with a noise_multiplier of {noise} the first release spends more than epsilon = {epsilon}: leave it out, and \
         the coordinator finds the least that is enough"
    )]
    TooLittleNoise { noise: f64, epsilon: f64 },
    #[error(
        "delta = {delta} is above one in ten times the units that the job needs, {units}: it would allow the data of \
         one unit to become public"
    )]
    LargeDelta { delta: f64, units: u64 },
    #[error("epsilon = {epsilon} needs noise of {noise} clips, more than any job may have: allow a larger epsilon")]
    TooMuchNoise { noise: f64, epsilon: f64 },
    #[error(
        "a round may have {goal} updates, and draws of {available} clients with a chance of {rate} would take more too \
         often: set [round] updates_goal = {needed}"
    )]
    Overdrawn { goal: u32, available: u32, rate: f64, needed: u32 },
    #[error(
        "the noise of one member is narrower than 2.5 steps: set [secure_aggregation] levels = {levels} or more, which \
         makes the steps finer"
    )]
    TooCoarse { levels: u64 },
    #[error(transparent)]
    Accountant(#[from] AccountantError),
}

/// Least noise multiplier that is sought, and the largest that a job file may have.
const NOISE_LEAST: f64 = 0.01;
const NOISE_MAX: f64 = 1e6;
/// The part of delta that draws of too many clients may use.
const DRAW_SHARE: f64 = 1e-6;
/// A solved noise multiplier is raised by this part, so that rounding keeps the budget.
const SOLVED_SLACK: f64 = 1e-9;

/// Fills in what follows from a job's budget: the least noise with which its rounds stay within it, the rest of units,
/// and how many releases there may be. A job without `[privacy]` stays as it is.
///
/// # Errors
/// [`BudgetError`] for a job whose budget allows no release, or whose delta is too large for its units.
pub fn resolve(file: &mut JobFile) -> Result<(), BudgetError> {
    let Some(privacy) = &file.privacy else { return Ok(()) };
    check_cohorts(file, privacy)?;
    let (terms, rate) = (participation(file, privacy), rate(file, privacy));
    let blt = (privacy.mechanism == Mechanism::Blt).then(|| Blt::fit(terms));
    let (noise, releases) = match (blt, rate) {
        _ if privacy.mechanism == Mechanism::Distributed => distributed(privacy, terms),
        (Some(blt), _) => correlated(privacy, blt, terms),
        (None, None) => independent(privacy, terms),
        (None, Some(rate)) => sampled(privacy, terms, rate)?,
    };
    let epsilon = privacy.epsilon;
    let is_local = privacy.mechanism == Mechanism::Local;
    let most = if is_local { LOCAL_NOISE_MAX } else { NOISE_MAX };
    if noise > most {
        return Err(BudgetError::TooMuchNoise { noise, epsilon });
    }
    if releases == 0 {
        return Err(BudgetError::TooLittleNoise { noise, epsilon });
    }
    check_steps(file, noise)?;
    if let Some(analysis) = &mut file.analysis {
        analysis.noise = Some(noise);
        analysis.noised_by = is_local.then_some(file.round.updates_goal);
    }
    if let Some(privacy) = &mut file.privacy {
        privacy.separation = Some(terms.separation);
        privacy.noise_multiplier = Some(noise);
        privacy.releases_max = Some(releases);
        privacy.buffers = blt.map(NoiseBuffers::from);
        if file.analysis.is_some() {
            file.update.magnitude_max = privacy.answer_max();
        }
    }
    Ok(())
}

/// Checks the rounds of a job whose noise is found, after an operator has changed their policy: the promise rests on
/// how many clients a round draws, and on how many share the noise.
///
/// # Errors
/// [`BudgetError`] for rounds with which the job could not have been created.
pub fn check_rounds(file: &JobFile) -> Result<(), BudgetError> {
    let Some(privacy) = &file.privacy else { return Ok(()) };
    check_cohorts(file, privacy)?;
    privacy.noise_multiplier.map_or(Ok(()), |noise| check_steps(file, noise))
}

/// What the sizes of rounds must satisfy, whatever the noise.
fn check_cohorts(file: &JobFile, privacy: &Privacy) -> Result<(), BudgetError> {
    let terms = participation(file, privacy);
    let units = units_needed(file, terms);
    if privacy.delta * 10.0 * units as f64 > 1.0 {
        return Err(BudgetError::LargeDelta { delta: privacy.delta, units });
    }
    rate(file, privacy).map_or(Ok(()), |rate| check_draws(file, privacy, terms, rate))
}

/// Units without which a job cannot have its versions: each takes part a number of times.
pub fn units_needed(file: &JobFile, Participation { versions, separation, times }: Participation) -> u64 {
    let per_version = u64::from(file.round.goal());
    // Until a unit may take part again, others must; and all updates come from units that each have so many.
    let resting = per_version * u64::from(separation.min(versions));
    resting.max((per_version * u64::from(versions)).div_ceil(u64::from(times.max(1))))
}

/// A draw that takes too many clients tells something of their coins, so it must be rarer than delta by far.
fn check_draws(file: &JobFile, privacy: &Privacy, terms: Participation, rate: f64) -> Result<(), BudgetError> {
    let (goal, available) = (file.round.updates_goal, file.round.available_min);
    let rarely = (privacy.delta * DRAW_SHARE / f64::from(terms.versions)).ln();
    let is_rare = |goal: u32| log_more_than(available, rate, goal) <= rarely;
    if is_rare(goal) {
        return Ok(());
    }
    let needed = goal + 1 + largest(available.saturating_sub(goal), |more| !is_rare(goal + more));
    Err(BudgetError::Overdrawn { goal, available, rate, needed })
}

/// The logarithm of the chance that more than `most` of so many coins with this chance fall.
fn log_more_than(coins: u32, rate: f64, most: u32) -> f64 {
    let of = |count: u32| {
        let (count, rest) = (f64::from(count), f64::from(coins - count));
        let ways = libm::lgamma(f64::from(coins) + 1.0) - libm::lgamma(count + 1.0) - libm::lgamma(rest + 1.0);
        // 0 times an infinite logarithm is none.
        let rest = if rest > 0.0 { rest * (-rate).ln_1p() } else { 0.0 };
        ways + count * rate.ln() + rest
    };
    (most + 1..=coins).map(of).fold(f64::NEG_INFINITY, log_sum)
}

/// The noise of a job with correlated noise, and its releases.
fn correlated(privacy: &Privacy, blt: Blt, terms: Participation) -> (f64, u32) {
    let most = gaussian::mu(privacy.epsilon, privacy.delta);
    let mu = |versions: u32, noise: f64| blt.sensitivity_squared(Participation { versions, ..terms }).sqrt() / noise;
    match privacy.noise_multiplier {
        None => (mu(terms.versions, 1.0) / most * (1.0 + SOLVED_SLACK), terms.versions),
        Some(noise) => (noise, largest(terms.versions, |versions| mu(versions, noise) <= most)),
    }
}

/// The noise of a job with independent noise, and the releases that may hold data of one unit.
fn independent(privacy: &Privacy, terms: Participation) -> (f64, u32) {
    let most = gaussian::mu(privacy.epsilon, privacy.delta);
    let times = terms.times.min(terms.versions);
    match privacy.noise_multiplier {
        None => (f64::from(times).sqrt() / most * (1.0 + SOLVED_SLACK), times),
        Some(noise) => (noise, largest(terms.versions, |times| f64::from(times).sqrt() / noise <= most)),
    }
}

/// The noise of the sum of one group, and the releases that may hold data of one unit.
fn distributed(privacy: &Privacy, terms: Participation) -> (f64, u32) {
    let is_kept = |noise: f64, times: u32| epsilon_of_integers(noise, times, privacy.delta) <= privacy.epsilon;
    let times = terms.times.min(terms.versions);
    match privacy.noise_multiplier {
        None => {
            let least = bisect(NOISE_LEAST.ln(), (2.0 * NOISE_MAX).ln(), |noise| is_kept(noise.exp(), times));
            (least.exp() * (1.0 + SOLVED_SLACK), times)
        }
        Some(noise) => (noise, largest(terms.versions, |times| is_kept(noise, times))),
    }
}

/// Where most members share the noise, each one's is the narrowest.
fn check_steps(file: &JobFile, noise: f64) -> Result<(), BudgetError> {
    let Some(secure) = &file.secure_aggregation else { return Ok(()) };
    let Ok(parts) = file.model.parts() else { return Ok(()) };
    let honest = |members: u16| honest_min(members, secure.dropouts, secure.corrupt);
    let honest = f64::from(secure.sizes(file.round.goal()).map(honest).max().unwrap_or(1));
    let Ok(quantiser) = Quantiser::new(parts.shared().total(), 1.0, secure.levels, secure.keep) else { return Ok(()) };
    let needed = (DEVIATION_MIN * honest.sqrt() / noise / f64::from(quantiser.coordinates()).sqrt()).ceil();
    if needed > f64::from(secure.levels) {
        return Err(BudgetError::TooCoarse { levels: needed as u64 });
    }
    Ok(())
}

/// The noise of a job that counts on its draws, and its releases.
fn sampled(privacy: &Privacy, terms: Participation, rate: f64) -> Result<(f64, u32), BudgetError> {
    let (budget, versions) = ((privacy.epsilon, privacy.delta), terms.versions);
    Ok(match privacy.noise_multiplier {
        None => (noise_of_sampled(budget, rate, versions)?, versions),
        Some(noise) => (noise, releases_of_sampled(budget, rate, noise, versions)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privacy::{Charge, Charged, Terms, spent};

    const JOB: &str = "name = 'a'\npopulation = 'b'\nmodel.parameters = [{ name = 'w', shape = [2] }]\n\
        training.steps = 1\ntraining.optimizer = { kind = 'sgd', learning_rate = 0.1 }\n\
        aggregation.combine = 'uniform_mean'\n";

    fn resolved(privacy: &str) -> Result<JobFile, BudgetError> {
        let mut file = JobFile::parse(&format!("{JOB}{privacy}")).unwrap();
        resolve(&mut file).map(|()| file)
    }

    fn budget(epsilon: f64, settings: &str) -> String {
        format!("stop.rounds = 100\nprivacy.epsilon = {epsilon}\nprivacy.delta = 1e-6\n{settings}")
    }

    #[test]
    fn the_noise_of_each_mechanism_spends_the_budget_and_no_more() {
        let of = |settings: &str| {
            let file = resolved(&budget(2.0, settings)).unwrap();
            let terms = Terms::of(&file).unwrap();
            (terms.clone(), file.privacy.unwrap().releases_max.unwrap())
        };
        let (blt, releases) = of("");
        assert_eq!((releases, blt.participation.separation), (100, 25));
        let charge = Charge::Correlated { mu: blt.sensitivity / blt.noise_multiplier };
        assert!((spent(&[charge], 1e-6).unwrap().epsilon - 2.0).abs() < 1e-3);
        // Rounding never breaks the promise.
        let most = gaussian::mu(2.0, 1e-6);
        let within = |mu: f64| mu <= most && mu > most * (1.0 - 1e-8);
        assert!(within(blt.sensitivity / blt.noise_multiplier));
        let (gaussian, releases) = of("privacy.mechanism = 'gaussian'");
        let charge = Charge::Gaussian { noise_multiplier: gaussian.noise_multiplier, times: 4 };
        assert_eq!(releases, 4, "updates of one unit");
        assert!(within(2.0 / gaussian.noise_multiplier));
        assert!((spent(&[charge], 1e-6).unwrap().epsilon - 2.0).abs() < 1e-3);
        let noise = blt.noise(20, 0);
        assert!(noise.values > blt.noise_multiplier && noise.divisor == 20.0, "the count of the clip has a share");
        let (fixed, _) = of("privacy.clip = 1.0");
        let noise = fixed.noise(20, 0);
        assert_eq!((noise.values, noise.count), (fixed.noise_multiplier, None));
    }

    /// Goal: the budget is kept against the coordinator, and readers of models see the noise of four groups.
    #[test]
    fn noise_of_clients_spends_the_budget_against_the_coordinator() {
        let settings = "privacy.mechanism = 'distributed'\nsecure_aggregation.group = 32\nround.updates_goal = 128\n\
            round.updates_min = 97";
        let file = resolved(&budget(2.0, settings)).unwrap();
        let terms = Terms::of(&file).unwrap();
        assert_eq!((terms.releases_max, terms.sensitivity), (4, 0.5));
        let told = epsilon_of_integers(terms.noise_multiplier, 4, 1e-6);
        assert!(told <= 2.0 && told > 2.0 - 1e-6, "{told}");
        assert_eq!(terms.sensitivity_of_round(&file, (128, 96)), 1.0 / 3.0f64.sqrt(), "an operator has lowered it");
        // 32 of 32 add noise that 20 could, in four groups.
        assert!((terms.together - 4.0 * 1.6).abs() < 1e-9, "{}", terms.together);
        let noise = terms.group_noise().unwrap();
        assert!((noise.multiplier() / terms.noise_multiplier - 1.0).abs() < 1e-12, "the count has its part");
        let coarse = format!("{settings}\nsecure_aggregation.levels = 1\nprivacy.noise_multiplier = 0.6");
        let refused = resolved(&budget(90.0, &coarse)).unwrap_err();
        assert_eq!(refused, BudgetError::TooCoarse { levels: 14 });
    }

    /// A budget for 37 updates of one unit allows 37 releases, and not one more.
    #[test]
    fn given_noise_says_how_many_releases_there_may_be() {
        let noise = 37.5f64.sqrt() / gaussian::mu(2.0, 1e-6);
        let often = "privacy.mechanism = 'gaussian'\nprivacy.participations_max = 100\nprivacy.separation = 1";
        let file = resolved(&budget(2.0, &format!("{often}\nprivacy.noise_multiplier = {noise}"))).unwrap();
        let terms = Terms::of(&file).unwrap();
        assert_eq!(terms.releases_max, 37);
        assert!(terms.allows(Charged { releases: 36, participations: 36 }));
        assert!(!terms.allows(Charged { releases: 37, participations: 37 }));
        assert!(terms.allows(Charged { releases: 60, participations: 36 }), "others took part");
        let few = resolved(&budget(2.0, "privacy.noise_multiplier = 4.0\nprivacy.separation = 100")).unwrap();
        let terms = Terms::of(&few).unwrap();
        assert!(terms.allows(Charged { releases: terms.releases_max - 1, participations: 1 }));
        assert!(!terms.allows(Charged { releases: terms.releases_max, participations: 1 }));
    }

    #[test]
    fn draws_that_take_too_many_are_rarer_than_delta() {
        let near = |got: f64, wanted: f64| assert!((got - wanted).abs() < 1e-9, "{got} is not {wanted}");
        // Of 3 coins with a chance of 1/2, two or three fall in half of all cases.
        near(log_more_than(3, 0.5, 1).exp(), 0.5);
        near(log_more_than(4, 1.0, 3).exp(), 1.0);
        assert_eq!(log_more_than(5, 0.3, 5), f64::NEG_INFINITY);
        let sampled = "privacy.mechanism = 'gaussian'\nprivacy.sampling = 'poisson'\nround.over_selection = 1.0\n\
            round.selection = { kind = 'poisson', rate = 0.1 }\nround.available_min = 200\nround.updates_min = 1";
        let BudgetError::Overdrawn { needed, .. } =
            resolved(&budget(4.0, &format!("{sampled}\nround.updates_goal = 30"))).unwrap_err()
        else {
            panic!("thirty is a little more than twenty")
        };
        // Of 200 coins with a chance of 0.1, more than 59 fall with a chance below 1e-6 delta / 100 rounds.
        assert_eq!(needed, 59);
        let file = resolved(&budget(4.0, &format!("{sampled}\nround.updates_goal = {needed}"))).unwrap();
        let terms = Terms::of(&file).unwrap();
        assert_eq!((terms.rate, terms.releases_max, terms.noise(needed, 200).divisor), (Some(0.1), 100, 20.0));
    }

    /// Goals are 10. Who rests makes way for others, and all updates come from units with at most so many each.
    #[test]
    fn a_job_needs_as_many_units_as_rest_and_as_its_updates_come_from() {
        let file = JobFile::parse(JOB).unwrap();
        for (versions, separation, times, units) in
            [(100, 10, 4, 250), (100, 60, 4, 600), (100, 200, 200, 1_000), (100, 1, 3, 334), (7, 1, 0, 70)]
        {
            assert_eq!(units_needed(&file, Participation { versions, separation, times }), units);
        }
    }

    /// An operator cannot change rounds to such with which the job would have been refused.
    #[test]
    fn changed_rounds_keep_what_the_promise_rests_on() {
        let sampled = "privacy.mechanism = 'gaussian'\nprivacy.sampling = 'poisson'\nround.over_selection = 1.0\n\
            round.selection = { kind = 'poisson', rate = 0.1 }\nround.available_min = 200\nround.updates_min = 1\n\
            round.updates_goal = 80";
        let mut file = resolved(&budget(4.0, sampled)).unwrap();
        assert_eq!(check_rounds(&file), Ok(()));
        file.round.available_min = 700;
        assert!(matches!(check_rounds(&file), Err(BudgetError::Overdrawn { available: 700, .. })));
        let masked = "privacy.mechanism = 'distributed'\nprivacy.noise_multiplier = 0.6\n\
            secure_aggregation.levels = 14\nround.updates_goal = 32\nround.updates_min = 30";
        let mut file = resolved(&budget(90.0, masked)).unwrap();
        (file.round.updates_goal, file.round.updates_min) = (128, 100);
        assert!(matches!(check_rounds(&file), Err(BudgetError::TooCoarse { .. })), "more members, less noise of each");
        file.privacy = None;
        assert_eq!(check_rounds(&file), Ok(()));
    }

    #[test]
    fn a_budget_that_cannot_be_kept_is_refused_with_its_numbers() {
        let refused = |text: &str| resolved(text).unwrap_err();
        assert!(matches!(refused(&budget(0.1, "privacy.noise_multiplier = 0.1")), BudgetError::TooLittleNoise { .. }));
        let large = budget(1.0, "").replace("1e-6", "1e-3");
        assert_eq!(refused(&large), BudgetError::LargeDelta { delta: 1e-3, units: 250 });
        assert!(matches!(refused(&budget(1e-7, "")), BudgetError::TooMuchNoise { .. }));
        let sampled = "privacy.mechanism = 'gaussian'\nprivacy.sampling = 'poisson'\nround.over_selection = 1.0\n\
            round.selection = { kind = 'poisson', rate = 0.5 }\nround.available_min = 20\nround.updates_goal = 20";
        let refused = refused(&budget(1e-7, sampled));
        assert!(matches!(refused, BudgetError::TooMuchNoise { .. }), "{refused}");
        let mut plain = JobFile::parse(&format!("{JOB}stop.rounds = 1")).unwrap();
        assert_eq!(resolve(&mut plain), Ok(()));
        assert!(Terms::of(&plain).is_none());
    }
}
