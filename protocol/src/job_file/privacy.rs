//! Differential privacy of a job (`[privacy]`).
//!
//! What clients send is clipped on the coordinator, in integers, and noise is added to the sum. A model then tells
//! little about whether a **unit** (a client, or a person with several) took part with its data: epsilon and delta say
//! how little.

use serde::{Deserialize, Deserializer, Serialize};

use super::error::require;
use super::number::number_or_table;
use super::{JobFile, JobFileError, Selection};
use crate::hash::Sha256Hash;
use crate::noise::LOCAL_NOISE_MAX;

/// Largest epsilon that a job may have. Beyond it the promise says nothing.
const EPSILON_MAX: f64 = 100.0;
/// Largest delta that a job may have.
const DELTA_MAX: f64 = 1e-3;
/// Bounds of a noise multiplier. With less than 0.01 there is clipping without privacy, which `norm_clipping` does.
const NOISE_MIN: f64 = 0.01;
const NOISE_MAX: f64 = 1e6;
/// Bounds of the norm to which updates are clipped.
const CLIP_MIN: f64 = 1e-9;
const CLIP_MAX: f64 = 1e9;
/// Most rounds of a private job: its noise is found by going through all of them, many times.
const ROUNDS_MAX: u32 = 100_000;
/// Most updates of one unit in a job.
const PARTICIPATIONS_MAX: u32 = 10_000;

/// Differential privacy of a job. `epsilon` and `delta` are enough: the rest follows from `[stop] rounds`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Privacy {
    /// The budget: the job ends before its models tell more about a unit than this, above 0 and at most 100.
    pub epsilon: f64,
    /// The chance that the promise does not hold, above 0 and at most 0.001. It belongs well below one over the number
    /// of units.
    pub delta: f64,
    /// Who is protected. Default: `client`.
    #[serde(default, skip_serializing_if = "Unit::is_client")]
    pub unit: Unit,
    /// L2 norm to which each update is clipped: a number, or a table for one that follows the updates. Default:
    /// `{ start = 0.1, quantile = 0.5, rate = 0.2 }`.
    #[serde(default)]
    pub clip: Clip,
    /// Which noise is added. Default: `blt`.
    #[serde(default)]
    pub mechanism: Mechanism,
    /// Most updates of one unit in the whole job, 1 to 10,000. Default: 4.
    #[serde(default = "four")]
    pub participations_max: u32,
    /// Versions that are committed between two updates of a unit, at least. Default: `[stop] rounds` divided by
    /// `participations_max`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub separation: Option<u32>,
    /// Whether the secret draw of cohorts counts as protection. Default: no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling: Option<Sampling>,
    /// Standard deviation of the noise of a sum, divided by the clip, 0.01 to 1,000,000. Default: the least with which
    /// the rounds of `[stop]` stay within the budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise_multiplier: Option<f64>,
    /// Most releases within the budget: of the whole job, or with `gaussian` and no sampling, of data of one unit. The
    /// coordinator computes it when it creates the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub releases_max: Option<u32>,
    /// The buffers of correlated noise. The coordinator finds them when it creates the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffers: Option<NoiseBuffers>,
    /// Key of all noise, 64 hexadecimal digits, for tests: the same model again. Such a job has no privacy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub test_key: Option<Sha256Hash>,
}

/// Who is protected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Each client by itself.
    #[default]
    Client,
    /// All clients together that were granted the same value of this attribute by their enrolment token. Clients
    /// without it do not take part.
    Attribute(String),
}

/// The norm to which updates are clipped.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum Clip {
    /// The same in every round.
    Fixed(f64),
    /// One that moves towards a quantile of the norms, by a count with noise (Andrew et al. 2021).
    Adaptive(AdaptiveNoisedClip),
}

/// A clip that follows a noised count of the updates within it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AdaptiveNoisedClip {
    /// The clip of the first round. Default: 0.1.
    #[serde(default = "start")]
    pub start: f64,
    /// The share of updates that it lets through whole, above 0 and below 1. Default: 0.5.
    #[serde(default = "half")]
    pub quantile: f64,
    /// How fast it moves, above 0 and at most 1. Default: 0.2.
    #[serde(default = "rate")]
    pub rate: f64,
}

/// Which noise is added to the sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Mechanism {
    /// Correlated from version to version, so that much of it cancels out in the model. It assumes nothing about how
    /// clients come.
    #[default]
    Blt,
    /// Drawn anew for each version.
    Gaussian,
    /// Drawn anew by each client, before masks: nobody sees a sum without it. Needs `[secure_aggregation]`.
    Distributed,
    /// Drawn anew by each client, who sends its noised answer in the clear: nobody sees an exact one. For an
    /// `[analysis]`.
    Local,
}

/// Decays and weights of the two buffers of correlated noise, in multiples of 2^-32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NoiseBuffers {
    /// By which each buffer decays from version to version.
    pub theta: [u32; 2],
    /// With which weight each takes up the noise of a version.
    pub omega: [u32; 2],
}

/// Protection by a secret draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Sampling {
    /// Each client is drawn by itself with the rate of `[round] selection`, from secret randomness, and the round waits
    /// for all of them until its deadline.
    Poisson,
}

impl JobFile {
    /// The attribute that tells persons apart, where these are the units.
    pub fn unit_attribute(&self) -> Option<&str> {
        match &self.privacy.as_ref()?.unit {
            Unit::Client => None,
            Unit::Attribute(name) => Some(name),
        }
    }
}

impl Unit {
    pub(crate) fn is_client(&self) -> bool {
        *self == Self::Client
    }
}

impl Mechanism {
    /// Its name, as in job files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Blt => "blt",
            Self::Gaussian => "gaussian",
            Self::Distributed => "distributed",
            Self::Local => "local",
        }
    }

    /// Whether clients add the noise, so that its promise is kept against the coordinator.
    #[must_use]
    pub fn is_of_clients(self) -> bool {
        match self {
            Self::Blt | Self::Gaussian => false,
            Self::Distributed | Self::Local => true,
        }
    }
}

impl TryFrom<String> for Mechanism {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let known = [Self::Blt, Self::Gaussian, Self::Distributed, Self::Local];
        let known = known.into_iter().find(|known| known.as_str() == name);
        known.ok_or_else(|| format!("{name:?} is no mechanism of privacy"))
    }
}

impl Default for Clip {
    fn default() -> Self {
        Self::Adaptive(AdaptiveNoisedClip { start: start(), quantile: half(), rate: rate() })
    }
}

impl Clip {
    /// The clip of the first round.
    pub fn start(&self) -> f64 {
        match *self {
            Self::Fixed(norm) | Self::Adaptive(AdaptiveNoisedClip { start: norm, .. }) => norm,
        }
    }

    /// The settings of one that moves.
    pub fn adaptive(&self) -> Option<AdaptiveNoisedClip> {
        match *self {
            Self::Fixed(_) => None,
            Self::Adaptive(settings) => Some(settings),
        }
    }

    pub(super) fn check(&self, key: &'static str) -> Result<(), JobFileError> {
        require((CLIP_MIN..=CLIP_MAX).contains(&self.start()), key, "1e-9 to 1e9")?;
        let Some(AdaptiveNoisedClip { quantile, rate, .. }) = self.adaptive() else { return Ok(()) };
        require(quantile > 0.0 && quantile < 1.0, key, "a quantile above 0 and below 1")?;
        require(rate > 0.0 && rate <= 1.0, key, "a rate above 0 and at most 1")
    }
}

impl Privacy {
    /// Versions that are committed between two updates of a unit, at least, in a job that stops after so many rounds.
    pub fn separation(&self, rounds: u32) -> u32 {
        self.separation.unwrap_or(rounds / self.participations_max.max(1)).max(1)
    }

    pub(crate) fn is_epsilon(epsilon: f64) -> bool {
        epsilon > 0.0 && epsilon <= EPSILON_MAX
    }

    pub(crate) fn is_delta(delta: f64) -> bool {
        delta > 0.0 && delta <= DELTA_MAX
    }

    pub(super) fn check(&self, job: &JobFile) -> Result<(), JobFileError> {
        require(Self::is_epsilon(self.epsilon), "[privacy] epsilon", "above 0 and at most 100")?;
        require(Self::is_delta(self.delta), "[privacy] delta", "above 0 and at most 0.001")?;
        if let Unit::Attribute(name) = &self.unit {
            require(!name.is_empty(), "[privacy] unit.attribute", "the name of an attribute that tokens grant")?;
        }
        self.clip.check("[privacy] clip")?;
        let times = (1..=PARTICIPATIONS_MAX).contains(&self.participations_max);
        require(times, "[privacy] participations_max", "1 to 10000")?;
        require(self.separation != Some(0), "[privacy] separation", "at least 1")?;
        let noise = self.noise_multiplier.is_none_or(|noise| (NOISE_MIN..=NOISE_MAX).contains(&noise));
        require(noise, "[privacy] noise_multiplier", "0.01 to 1000000: with less there is no privacy")?;
        let rounds = "1 to 100000 with [privacy], whose noise follows from their number";
        let is_given = job.stop.rounds.is_some_and(|rounds| (1..=ROUNDS_MAX).contains(&rounds));
        require(is_given, "[stop] rounds", rounds)?;
        let clipped = "left out with [privacy], whose clip bounds what an update counts for";
        require(job.update.norm_max.is_none(), "[update] norm_max", clipped)?;
        let is_told = job.model.inputs.as_ref().is_some_and(|inputs| inputs.standardize.is_some());
        let noised = "left out with [privacy], because its sums have no noise: set means and deviations of an analysis";
        require(!is_told, "[model.inputs] standardize", noised)?;
        self.check_clients(job)?;
        self.check_sampling(job)
    }

    /// What noise of clients needs.
    fn check_clients(&self, job: &JobFile) -> Result<(), JobFileError> {
        match self.mechanism {
            Mechanism::Blt | Mechanism::Gaussian => return Ok(()),
            Mechanism::Distributed => {
                let masked =
                    "\"blt\" or \"gaussian\" without [secure_aggregation], whose groups hide what single clients add";
                require(job.secure_aggregation.is_some(), "[privacy] mechanism", masked)?;
            }
            Mechanism::Local => {
                let short = "\"blt\", \"gaussian\" or \"distributed\" without [analysis]: noise of single clients drowns a model";
                require(job.analysis.is_some(), "[privacy] mechanism", short)?;
                let bounded = self.noise_multiplier.is_none_or(|noise| noise <= LOCAL_NOISE_MAX);
                require(bounded, "[privacy] noise_multiplier", "at most 50000 with mechanism = \"local\"")?;
            }
        }
        let secret = "left out where clients draw the noise";
        require(self.test_key.is_none(), "[privacy] test_key", secret)
    }

    fn check_sampling(&self, job: &JobFile) -> Result<(), JobFileError> {
        let is_poisson = matches!(job.round.selection, Selection::Poisson { .. });
        if self.sampling.is_none() {
            return Ok(());
        }
        let mechanism = "\"gaussian\" with sampling: blt counts on no draw";
        require(self.mechanism == Mechanism::Gaussian, "[privacy] mechanism", mechanism)?;
        let selection = "{ kind = \"poisson\", rate = .. } with [privacy] sampling, whose protection is that draw";
        require(is_poisson, "[round] selection", selection)?;
        let fixed = "at least updates_goal with [privacy] sampling: sums are divided by rate times available_min";
        require(job.round.available_min >= job.round.updates_goal, "[round] available_min", fixed)?;
        let whole = "the size of a cohort with [privacy] sampling: a round that closes early tells who was drawn";
        let closes_early = job.round.over_selection > 1.0;
        require(!closes_early, "[round] over_selection", whole)
    }
}

impl<'de> Deserialize<'de> for Clip {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        number_or_table(deserializer, "a number, or a table with start, quantile and rate", Self::Fixed, Self::Adaptive)
    }
}

fn four() -> u32 {
    4
}
fn start() -> f64 {
    0.1
}
fn half() -> f64 {
    0.5
}
fn rate() -> f64 {
    0.2
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: &str = r#"
        name = "private"
        population = "demo"
        [model]
        parameters = [{ name = "w", shape = [2] }]
        [training]
        epochs = 1
        optimizer = { kind = "sgd", learning_rate = 0.1 }
        [aggregation]
        combine = "uniform_mean"
        [stop]
        rounds = 100
        [privacy]
    "#;

    fn parsed(privacy: &str) -> Result<JobFile, String> {
        JobFile::parse(&format!("{JOB}{privacy}")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_budget_is_enough() {
        let job = parsed("epsilon = 2.0\ndelta = 1e-6").unwrap();
        let privacy = job.privacy.as_ref().unwrap();
        assert_eq!((privacy.mechanism, &privacy.unit, privacy.participations_max), (Mechanism::Blt, &Unit::Client, 4));
        assert_eq!((privacy.separation(100), privacy.separation(3), privacy.clip.start()), (25, 1, 0.1));
        assert_eq!(JobFile::parse(&job.text()).unwrap(), job);
        let all = "unit = { attribute = 'user' }\nclip = 3\nmechanism = 'gaussian'\nseparation = 7";
        let job = parsed(&format!("epsilon = 1\ndelta = 1e-8\n{all}")).unwrap();
        let privacy = job.privacy.as_ref().unwrap();
        assert_eq!((&privacy.unit, privacy.clip), (&Unit::Attribute("user".into()), Clip::Fixed(3.0)));
        assert_eq!((privacy.separation(100), privacy.clip.adaptive()), (7, None));
        assert_eq!(JobFile::parse(&job.text()).unwrap(), job);
    }

    #[test]
    fn a_wrong_setting_is_named() {
        for (text, named) in [
            ("delta = 1e-6", "missing field `epsilon`"),
            ("epsilon = 0\ndelta = 1e-6", "[privacy] epsilon"),
            ("epsilon = nan\ndelta = 1e-6", "[privacy] epsilon"),
            ("epsilon = 1\ndelta = 0.1", "[privacy] delta"),
            ("epsilon = 1\ndelta = 1e-6\nclip = 0", "[privacy] clip"),
            ("epsilon = 1\ndelta = 1e-6\nclip = 'none'", "a number, or a table with start"),
            ("epsilon = 1\ndelta = 1e-6\nclip = { quantile = 1.0 }", "a quantile above 0"),
            ("epsilon = 1\ndelta = 1e-6\nclip = { rate = 2.0 }", "a rate above 0"),
            ("epsilon = 1\ndelta = 1e-6\nunit = { attribute = '' }", "[privacy] unit.attribute"),
            ("epsilon = 1\ndelta = 1e-6\nparticipations_max = 0", "[privacy] participations_max"),
            ("epsilon = 1\ndelta = 1e-6\nseparation = 0", "[privacy] separation"),
            ("epsilon = 1\ndelta = 1e-6\nmechanism = 'local'", "drowns a model"),
            ("epsilon = 1\ndelta = 1e-6\nnoise_multiplier = 0.001", "[privacy] noise_multiplier"),
            ("epsilon = 1\ndelta = 1e-6\nsampling = 'poisson'", "[privacy] mechanism"),
            ("epsilon = 1\ndelta = 1e-6\nmechanism = 'gaussian'\nsampling = 'poisson'", "[round] selection"),
            ("epsilon = 1\ndelta = 1e-6\n[update]\nnorm_max = 1", "[update] norm_max"),
            (
                "epsilon = 1\ndelta = 1e-6\n[model.inputs]\nstandardize = 'federated'\ncolumns = [{ name = 'x' }]",
                "[model.inputs] standardize",
            ),
            ("epsilon = 1\ndelta = 1e-6\n[evaluation]", "[evaluation] where does not go with [privacy]"),
        ] {
            let refused = parsed(text).unwrap_err();
            assert!(refused.contains(named), "{text}: {refused}");
        }
        let endless = format!("{JOB}epsilon = 1\ndelta = 1e-6").replace("rounds = 100", "");
        assert!(JobFile::parse(&endless).unwrap_err().to_string().contains("[stop] rounds"));
        let weighted = format!("{JOB}epsilon = 1\ndelta = 1e-6").replace("uniform_mean", "weighted_mean");
        let refused = JobFile::parse(&weighted).unwrap_err().to_string();
        assert!(refused.contains("set combine = \"uniform_mean\""), "{refused}");
    }
}
