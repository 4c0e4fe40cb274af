//! When the updates of a job meet (`[round] mode`).

use serde::{Deserialize, Serialize};

use super::error::require;
use super::{COHORT_MAX, JobFileError};
use crate::plan::{CADENCE_MAX, Cadence};

/// Largest staleness or slack that a job may allow. Versions that open assignments may still need are kept.
const STALENESS_MAX: u32 = 10_000;
/// Largest exponent or slope of a staleness weight.
const SLOPE_MAX: f64 = 100.0;

/// When the updates of a job meet (`[round] mode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Mode {
    /// A cohort is drawn at once, and its updates make the next version.
    #[default]
    Synchronous,
    /// Clients are drawn one by one. Each works on the newest version at its draw, and its update counts in whatever
    /// buffer is open when it arrives. A full buffer makes the next version (FedBuff, Nguyen et al. 2022; with a buffer
    /// of 1 FedAsync, Xie et al. 2019).
    Buffered {
        /// Updates that make a version, 1 to 10,000.
        buffer: u32,
        /// Most clients that work at a time, 1 to 10,000.
        concurrency: u32,
        /// Largest number of versions that an update may be behind, at most 10,000. Default: 16.
        #[serde(default = "staleness_max")]
        staleness_max: u32,
        /// What a stale update weighs, as a factor of its examples. Default: polynomial with `a = 0.5`.
        #[serde(default)]
        staleness_weight: StalenessWeight,
        /// What the weighted sum of a buffer is divided by. Default: `count`.
        #[serde(default)]
        divisor: Divisor,
        /// Updates of a client from one fetch of the model to the next, 1 to 1,000. In between it continues from its
        /// own weights (Downpour SGD, Dean et al. 2012). Default: 1.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        fetch_every: u32,
        /// Local trainings behind an update, 1 to 1,000. Default: 1.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        push_every: u32,
        /// Most updates of one client in a buffer, 1 to 10,000: a quick client does not decide a version alone. More
        /// than 1 is for fleets that are smaller than the buffer. Default: 1.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        per_client: u32,
    },
    /// Members with clocks: a member that is more than `slack` updates ahead of the slowest one waits. Updates count in
    /// the sum that is open, and as many updates as there are members make the next version (SSP, Ho et al. 2013). With
    /// a slack of 0, each version has one update of each member.
    StaleSynchronous {
        /// Most members, 1 to 10,000.
        members: u32,
        /// How far a member may be ahead of the slowest one when it begins, at most 10,000. Default: 3.
        #[serde(default = "slack")]
        slack: u32,
    },
}

/// The settings of a mode whose rounds are buffers. A stale-synchronous job has a buffer of its members, without
/// discounts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Buffered {
    /// Updates that make a version.
    pub buffer: u32,
    /// Most clients that work at a time.
    pub concurrency: u32,
    /// Largest number of versions that an update may be behind.
    pub staleness_max: u32,
    /// What a stale update weighs, as a factor of its examples.
    pub staleness_weight: StalenessWeight,
    /// What the weighted sum of a buffer is divided by.
    pub divisor: Divisor,
}

/// The weight of an update that is `d` versions behind, as a factor of its examples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum StalenessWeight {
    /// 1.
    Constant,
    /// `1 / d`, and 1 for d = 0 (Zhang et al. 2016).
    Inverse,
    /// `(1 + d)^-a` (Xie et al. 2019).
    Polynomial {
        /// Exponent, above 0 and at most 100.
        a: f64,
    },
    /// 1 up to d = b, then `1 / (a (d - b) + 1)` (Xie et al. 2019).
    Hinge {
        /// Slope, above 0 and at most 100.
        a: f64,
        /// Versions without a discount.
        b: u32,
    },
}

/// What the weighted sum of a buffer is divided by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Divisor {
    /// The weights without their discounts, as in FedBuff: the step of a stale buffer is shorter.
    #[default]
    Count,
    /// The discounted weights: the step is a mean, whatever the staleness.
    Weights,
}

impl Default for StalenessWeight {
    fn default() -> Self {
        Self::Polynomial { a: 0.5 }
    }
}

fn staleness_max() -> u32 {
    16
}

fn one() -> u32 {
    1
}

fn is_one(count: &u32) -> bool {
    *count == 1
}

fn slack() -> u32 {
    3
}

impl StalenessWeight {
    /// The factor for an update that is `staleness` versions behind: above 0 and at most 1.
    pub fn factor(self, staleness: u32) -> f64 {
        let versions = f64::from(staleness);
        match self {
            Self::Constant => 1.0,
            Self::Inverse => 1.0 / versions.max(1.0),
            // A root is rounded correctly on every platform; a power need not be.
            Self::Polynomial { a: 0.5 } => 1.0 / (1.0 + versions).sqrt(),
            Self::Polynomial { a } => (1.0 + versions).powf(-a),
            Self::Hinge { a, b } => 1.0 / (a * f64::from(staleness.saturating_sub(b)) + 1.0),
        }
    }

    fn check(self) -> Result<(), JobFileError> {
        let slope = match self {
            Self::Constant | Self::Inverse => return Ok(()),
            Self::Polynomial { a } | Self::Hinge { a, .. } => a,
        };
        require(slope > 0.0 && slope <= SLOPE_MAX, "[round] mode staleness_weight a", "above 0 and at most 100")
    }
}

impl Mode {
    pub(super) fn is_synchronous(&self) -> bool {
        *self == Self::Synchronous
    }

    /// How far members may be ahead of the slowest one when they begin; none in a mode without members.
    pub fn slack(self) -> Option<u32> {
        match self {
            Self::StaleSynchronous { slack, .. } => Some(slack),
            Self::Synchronous | Self::Buffered { .. } => None,
        }
    }

    /// How often clients take the newest model and send an update.
    pub fn cadence(self) -> Cadence {
        match self {
            Self::Buffered { fetch_every, push_every, .. } => Cadence { fetch_every, push_every },
            Self::Synchronous | Self::StaleSynchronous { .. } => Cadence::default(),
        }
    }

    /// The settings of a mode whose rounds are buffers; none in a synchronous one.
    pub fn buffered(self) -> Option<Buffered> {
        match self {
            Self::Synchronous => None,
            Self::Buffered { buffer, concurrency, staleness_max, staleness_weight, divisor, .. } => {
                Some(Buffered { buffer, concurrency, staleness_max, staleness_weight, divisor })
            }
            // The slack bounds the staleness.
            Self::StaleSynchronous { members, .. } => Some(Buffered {
                buffer: members,
                concurrency: members,
                staleness_max: u32::MAX,
                staleness_weight: StalenessWeight::Constant,
                divisor: Divisor::Weights,
            }),
        }
    }

    /// Most updates of one client in a buffer; none where other rules bound them.
    pub fn per_client(self) -> Option<u32> {
        match self {
            Self::Buffered { per_client, .. } => Some(per_client),
            Self::Synchronous | Self::StaleSynchronous { .. } => None,
        }
    }

    pub(super) fn check(self) -> Result<(), JobFileError> {
        let clients = 1..=COHORT_MAX;
        let (buffer, concurrency, staleness_max, staleness_weight) = match self {
            Self::Synchronous => return Ok(()),
            Self::StaleSynchronous { members, slack } => {
                require(clients.contains(&members), "[round] mode members", "1 to 10000")?;
                return require(slack <= STALENESS_MAX, "[round] mode slack", "at most 10000");
            }
            Self::Buffered { buffer, concurrency, staleness_max, staleness_weight, .. } => {
                (buffer, concurrency, staleness_max, staleness_weight)
            }
        };
        require(clients.contains(&buffer), "[round] mode buffer", "1 to 10000")?;
        require(clients.contains(&concurrency), "[round] mode concurrency", "1 to 10000")?;
        require(staleness_max <= STALENESS_MAX, "[round] mode staleness_max", "at most 10000")?;
        let Cadence { fetch_every, push_every } = self.cadence();
        let trainings = 1..=CADENCE_MAX;
        require(trainings.contains(&fetch_every), "[round] mode fetch_every", "1 to 1000")?;
        require(trainings.contains(&push_every), "[round] mode push_every", "1 to 1000")?;
        let is_some = self.per_client().is_none_or(|updates| clients.contains(&updates));
        require(is_some, "[round] mode per_client", "1 to 10000")?;
        staleness_weight.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vectors of FedAsync (Xie et al. 2019) and of the staleness-aware learning rate (Zhang et al. 2016).
    #[test]
    fn staleness_weights_equal_the_published_ones() {
        let factors =
            |weight: StalenessWeight, versions: u32| (0..versions).map(|d| weight.factor(d)).collect::<Vec<_>>();
        // To the digits that are printed there.
        let printed = |factors: Vec<f64>| factors.iter().map(|factor| format!("{factor:.7}")).collect::<Vec<_>>();
        let expected = ["1.0000000", "0.7071068", "0.5773503", "0.5000000", "0.4472136", "0.4082483"];
        assert_eq!(printed(factors(StalenessWeight::default(), 6)), expected);
        assert_eq!(printed(factors(StalenessWeight::Polynomial { a: 0.500_000_000_001 }, 6)), expected);
        let hinge = factors(StalenessWeight::Hinge { a: 10.0, b: 4 }, 6);
        assert_eq!(hinge[..5], [1.0; 5]);
        assert!((hinge[5] - 0.090_909_090_9).abs() < 1e-10);
        assert_eq!(factors(StalenessWeight::Constant, 4), [1.0; 4]);
        for staleness in 1..100 {
            let factor = StalenessWeight::Inverse.factor(staleness);
            assert!((factor * f64::from(staleness) - 1.0).abs() < 1e-15);
        }
        assert_eq!(StalenessWeight::Inverse.factor(0), 1.0);
    }

    #[test]
    fn the_mode_is_a_table_and_its_settings_have_ranges() {
        let mode = |text: &str| toml::from_str::<super::super::RoundPolicy>(text).map(|policy| policy.mode);
        let table = mode("mode = { kind = 'buffered', buffer = 10, concurrency = 100 }").unwrap();
        let expected = Buffered {
            buffer: 10,
            concurrency: 100,
            staleness_max: 16,
            staleness_weight: StalenessWeight::Polynomial { a: 0.5 },
            divisor: Divisor::Count,
        };
        assert_eq!(table.buffered(), Some(expected));
        assert_eq!(mode("").unwrap(), Mode::Synchronous);
        let clocked = mode("mode = { kind = 'stale_synchronous', members = 8 }").unwrap();
        assert_eq!(clocked, Mode::StaleSynchronous { members: 8, slack: 3 });
        assert_eq!((clocked.slack(), clocked.buffered().map(|buffered| buffered.buffer)), (Some(3), Some(8)));
        for (settings, at_fault) in [("members = 0", "members"), ("members = 1, slack = 10001", "slack")] {
            let text = format!("mode = {{ kind = 'stale_synchronous', {settings} }}");
            let error = mode(&text).unwrap().check().unwrap_err();
            assert!(error.to_string().contains(at_fault), "{settings}: {error}");
        }
        assert_eq!(mode("mode = { kind = 'synchronous' }").unwrap().buffered(), None);
        for wrong in
            ["{ kind = 'buffered', buffer = 1 }", "{ kind = 'buffered', buffer = 1, concurrency = 1, size = 1 }"]
        {
            assert!(mode(&format!("mode = {wrong}")).is_err(), "{wrong}");
        }
        for (settings, at_fault) in [
            ("buffer = 0, concurrency = 1", "buffer"),
            ("buffer = 1, concurrency = 10001", "concurrency"),
            ("buffer = 1, concurrency = 1, staleness_max = 10001", "staleness_max"),
            ("buffer = 1, concurrency = 1, fetch_every = 0", "fetch_every"),
            ("buffer = 1, concurrency = 1, push_every = 1001", "push_every"),
            ("buffer = 1, concurrency = 1, per_client = 0", "per_client"),
            ("buffer = 1, concurrency = 1, staleness_weight = { kind = 'polynomial', a = 0.0 }", "staleness_weight"),
            (
                "buffer = 1, concurrency = 1, staleness_weight = { kind = 'hinge', a = 101.0, b = 1 }",
                "staleness_weight",
            ),
        ] {
            let error = mode(&format!("mode = {{ kind = 'buffered', {settings} }}")).unwrap().check().unwrap_err();
            assert!(error.to_string().contains(at_fault), "{settings}: {error}");
        }
    }
}
