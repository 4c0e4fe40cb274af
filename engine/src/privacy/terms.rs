//! What a job's `[privacy]` comes to: the noise of each part, the rests of units, the number of releases.

use tributary_protocol::job_file::{JobFile, Mechanism, Privacy, Sampling, Selection};

use super::blt::{Blt, Participation};
use super::clip::NoiseSplit;

/// Updates per deviation of the noise of the count that the clip follows (Andrew et al. 2021, section 3: a twentieth of
/// the cohort).
const UPDATES_PER_DEVIATION: f64 = 20.0;

/// The terms of a job with `[privacy]`, which its rounds keep.
#[derive(Clone, Debug, PartialEq)]
pub struct Terms {
    pub mechanism: Mechanism,
    /// Standard deviation of the noise of a release, in clips: what the accountants read.
    pub noise_multiplier: f64,
    /// Correlated noise; none where each version has its own.
    pub blt: Option<Blt>,
    /// What one unit can change, in clips: in all releases together where noise is correlated, else in one.
    pub sensitivity: f64,
    /// Chance with which a unit is drawn, where the promise counts on it.
    pub rate: Option<f64>,
    /// How units take part.
    pub participation: Participation,
    /// Whether the clip follows its updates.
    is_adaptive: bool,
    /// Whether releases are sums, and not means: those of an analysis.
    is_sum: bool,
    /// Most releases of the job within its budget; with independent noise and no sampling, most that hold data of one
    /// unit.
    pub releases_max: u32,
}

/// The noise of one round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundNoise {
    /// Standard deviation of the noise of the values, in clips: more than that of the whole release, where a part of it
    /// is the count that the clip follows.
    pub values: f64,
    /// Standard deviation of the noise of that count, in updates; none with a fixed clip.
    pub count: Option<f64>,
    /// By which the sum is divided, whatever number of updates has come.
    pub divisor: f64,
}

/// What a job has spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charged {
    /// Releases.
    pub releases: u32,
    /// Most updates of one unit.
    pub participations: u32,
}

impl Terms {
    /// The terms of a job; none without `[privacy]`, or before [`super::resolve`] has filled in what follows from it.
    pub fn of(file: &JobFile) -> Option<Self> {
        let privacy = file.privacy.as_ref()?;
        let (noise_multiplier, releases_max) = (privacy.noise_multiplier?, privacy.releases_max?);
        let (blt, rate) = (privacy.buffers.map(Blt::from), rate(file, privacy));
        let mut participation = participation(file, privacy);
        if blt.is_some() || rate.is_some() {
            participation.versions = participation.versions.min(releases_max);
        }
        Some(Self {
            mechanism: privacy.mechanism,
            noise_multiplier,
            sensitivity: blt.map_or(1.0, |blt| blt.sensitivity_squared(participation).sqrt()),
            blt,
            rate,
            participation,
            is_adaptive: privacy.clip.adaptive().is_some(),
            is_sum: file.analysis.is_some(),
            releases_max,
        })
    }

    /// The noise of a round with this goal, before which so many clients must wait.
    pub fn noise(&self, goal: u32, available_min: u32) -> RoundNoise {
        let divisor = match self.rate {
            _ if self.is_sum => 1.0,
            Some(rate) => rate * f64::from(available_min),
            None => goal.into(),
        };
        let count = divisor / UPDATES_PER_DEVIATION;
        let split = self.is_adaptive.then(|| NoiseSplit::new(self.noise_multiplier, count));
        let values = split.map_or(self.noise_multiplier, |split| split.values);
        RoundNoise { values, count: split.map(|split| split.count), divisor }
    }

    /// Whether another release stays within the budget.
    pub fn allows(&self, charged: Charged) -> bool {
        match (self.blt, self.rate) {
            (None, None) => charged.participations.saturating_add(1).min(self.participation.times) <= self.releases_max,
            _ => charged.releases < self.releases_max,
        }
    }
}

/// How units take part in a job.
pub(super) fn participation(file: &JobFile, privacy: &Privacy) -> Participation {
    let versions = file.stop.rounds.unwrap_or(1);
    Participation { versions, separation: privacy.separation(versions), times: privacy.participations_max }
}

/// The chance with which a unit is drawn, where the promise counts on it.
pub(super) fn rate(file: &JobFile, privacy: &Privacy) -> Option<f64> {
    match (privacy.sampling, file.round.selection) {
        (Some(Sampling::Poisson), Selection::Poisson { rate }) => Some(rate),
        _ => None,
    }
}
