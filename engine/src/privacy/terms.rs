//! What a job's `[privacy]` comes to: the noise of each part, the rests of units, the number of releases.

use tributary_protocol::job_file::{JobFile, Mechanism, Privacy, Sampling, SecureAggregation, Selection};
use tributary_protocol::plan::GroupNoise;
use tributary_protocol::secure::sizes::honest_min;

use super::blt::{Blt, Participation};
use super::clip::NoiseSplit;

/// Updates per deviation of the noise of the count that the clip follows (Andrew et al. 2021, section 3: a twentieth of
/// the cohort).
const UPDATES_PER_DEVIATION: f64 = 20.0;

/// The terms of a job with `[privacy]`, which its rounds keep.
#[derive(Clone, Debug, PartialEq)]
pub struct Terms {
    pub mechanism: Mechanism,
    /// Standard deviation of the noise of a release, in clips: what the accountants read. Of one group's sum, where
    /// clients add the noise.
    pub noise_multiplier: f64,
    /// Correlated noise; none where each version has its own.
    pub blt: Option<Blt>,
    /// What one unit can change, in clips: in all releases together where noise is correlated, else in one. Divided by
    /// the root of the fewest groups of a version, or the fewest clients, where each has noise of its own.
    pub sensitivity: f64,
    /// Chance with which a unit is drawn, where the promise counts on it.
    pub rate: Option<f64>,
    /// How units take part.
    pub participation: Participation,
    /// By how much the variance of the noise of a version exceeds that of one group's sum, where no client is lost; 1
    /// where the coordinator adds it.
    pub together: f64,
    /// Fewest members of a group whose noise is sure to be in its sum, where clients add it.
    honest: Option<u16>,
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
            sensitivity: match blt {
                Some(blt) => blt.sensitivity_squared(participation).sqrt(),
                None => sensitivity(file, privacy, (file.round.goal(), file.round.minimum())),
            },
            together: together(file, privacy),
            honest: honest(file, privacy),
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
        let count = self.honest.map_or(divisor, f64::from) / UPDATES_PER_DEVIATION;
        let split = self.is_adaptive.then(|| NoiseSplit::new(self.noise_multiplier, count));
        let values = split.map_or(self.noise_multiplier, |split| split.values);
        RoundNoise { values, count: split.map(|split| split.count), divisor }
    }

    /// [`Self::sensitivity`] in a round with this goal and this minimum, which an operator may have changed.
    pub fn sensitivity_of_round(&self, file: &JobFile, round: (u32, u32)) -> f64 {
        match &file.privacy {
            Some(privacy) if self.blt.is_none() => sensitivity(file, privacy, round),
            _ => self.sensitivity,
        }
    }

    /// The noise that the members of each group add; none where the coordinator adds it.
    pub fn group_noise(&self) -> Option<GroupNoise> {
        self.honest?;
        let RoundNoise { values, count, .. } = self.noise(1, 1);
        Some(GroupNoise { values, count })
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

/// The groups of a job whose clients add noise.
fn noising<'a>(file: &'a JobFile, privacy: &Privacy) -> Option<&'a SecureAggregation> {
    file.secure_aggregation.as_ref().filter(|_| privacy.mechanism == Mechanism::Distributed)
}

/// What one unit can change in a version, in clips: 1, divided by the root of the fewest groups of a round with this
/// goal and this minimum where each has noise of its own, or of the fewest clients where they have.
fn sensitivity(file: &JobFile, privacy: &Privacy, (goal, minimum): (u32, u32)) -> f64 {
    let sums = match privacy.mechanism {
        Mechanism::Local => minimum.max(1),
        _ => noising(file, privacy).map_or(1, |secure| minimum.div_ceil(secure.group(goal).max(1)).max(1)),
    };
    f64::from(sums).sqrt().recip()
}

/// Fewest members of a group whose noise is sure to be in its sum, where clients add it.
fn honest(file: &JobFile, privacy: &Privacy) -> Option<u16> {
    let secure = noising(file, privacy)?;
    let least = u16::try_from(secure.group_min(file.round.goal())).unwrap_or(u16::MAX);
    Some(honest_min(least, secure.dropouts, secure.corrupt))
}

/// By how much the variance of a version's noise exceeds that of one group's sum: there are several groups, and members
/// add noise for those that may be lost. Of one client's noise, where each adds its own.
fn together(file: &JobFile, privacy: &Privacy) -> f64 {
    let goal = file.round.goal();
    if privacy.mechanism == Mechanism::Local {
        return goal.into();
    }
    noising(file, privacy).map_or(1.0, |secure| {
        let group = secure.group(goal).max(1);
        let members = u16::try_from(group).unwrap_or(u16::MAX);
        let honest = honest_min(members, secure.dropouts, secure.corrupt);
        f64::from(goal.div_ceil(group)) * f64::from(members) / f64::from(honest)
    })
}

/// The chance with which a unit is drawn, where the promise counts on it.
pub(super) fn rate(file: &JobFile, privacy: &Privacy) -> Option<f64> {
    match (privacy.sampling, file.round.selection) {
        (Some(Sampling::Poisson), Selection::Poisson { rate }) => Some(rate),
        _ => None,
    }
}
