//! Learning rates that change with the version of the model.

use std::f64::consts::PI;

use serde::{Deserialize, Serialize};

/// Most versions that a setting of a schedule may name.
const VERSIONS_MAX: u32 = 1 << 30;

/// The factor of a learning rate as a function of the model version from which a round starts. Abandoned rounds make no
/// version, so they do not advance a schedule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum RateSchedule {
    /// The same rate in every round.
    #[default]
    Constant,
    /// `decay` to the power of `version / every`, rounded down.
    Exponential {
        /// Factor, above 0 and at most 1.
        decay: f64,
        /// Versions between two decays. Default: 1.
        #[serde(default = "one")]
        every: u32,
    },
    /// Falls along half a cosine from 1 to `floor` within `versions`, and stays there.
    Cosine {
        /// Versions until the floor.
        versions: u32,
        /// Last factor, 0 to 1. Default: 0.
        #[serde(default)]
        floor: f64,
    },
    /// Rises from `1 / versions` to 1 within `versions`, and stays there.
    Warmup {
        /// Versions until the whole rate.
        versions: u32,
    },
    /// Multiplies by `factor` at each of these versions.
    Steps {
        /// Versions in ascending order.
        at: Vec<u32>,
        /// Factor of each step, above 0 and at most 1. Default: 0.1.
        #[serde(default = "tenth")]
        factor: f64,
    },
}

impl RateSchedule {
    /// Whether the rate is the same in every round.
    pub fn is_constant(&self) -> bool {
        matches!(self, Self::Constant)
    }

    /// The factor of a round that starts from this version. It has the precision of f32, so that libraries whose
    /// cosines differ in the last bit of an f64 give the same factor.
    pub fn factor(&self, version: u32) -> f64 {
        let factor = match self {
            Self::Constant => return 1.0,
            Self::Exponential { decay, every } => decay.powi((version / (*every).max(1)).cast_signed()),
            Self::Cosine { versions, floor } => {
                let way = f64::from(version.min(*versions)) / f64::from((*versions).max(1));
                floor + (1.0 - floor) * (1.0 + (PI * way).cos()) / 2.0
            }
            Self::Warmup { versions } => {
                f64::from(version.saturating_add(1).min(*versions)) / f64::from((*versions).max(1))
            }
            Self::Steps { at, factor } => {
                let steps = at.iter().filter(|step| **step <= version).count();
                factor.powi(i32::try_from(steps).unwrap_or(i32::MAX))
            }
        };
        f64::from(factor as f32)
    }

    /// The first setting that is out of range, and what is allowed.
    pub(crate) fn problem(&self) -> Option<(&'static str, &'static str)> {
        let is_count = |versions: u32| (1..=VERSIONS_MAX).contains(&versions);
        let is_factor = |factor: f64| factor > 0.0 && factor <= 1.0;
        match self {
            Self::Constant => None,
            Self::Exponential { decay, .. } if !is_factor(*decay) => Some(("decay", "above 0 and at most 1")),
            Self::Exponential { every, .. } => (!is_count(*every)).then_some(("every", "at least 1")),
            Self::Cosine { floor, .. } if !(0.0..=1.0).contains(floor) => Some(("floor", "0 to 1")),
            Self::Cosine { versions, .. } | Self::Warmup { versions } => {
                (!is_count(*versions)).then_some(("versions", "at least 1"))
            }
            Self::Steps { factor, .. } if !is_factor(*factor) => Some(("factor", "above 0 and at most 1")),
            Self::Steps { at, .. } => {
                let ascends = !at.is_empty() && at.len() <= 1000 && at.is_sorted_by(|one, next| one < next);
                (!ascends).then_some(("at", "1 to 1000 versions in ascending order"))
            }
        }
    }
}

fn one() -> u32 {
    1
}
fn tenth() -> f64 {
    0.1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn factors(schedule: &str) -> Vec<f64> {
        let schedule: RateSchedule = serde_json::from_str(schedule).unwrap();
        assert_eq!(schedule.problem(), None);
        (0..5).map(|version| schedule.factor(version)).collect()
    }

    #[test]
    fn schedules_follow_their_formulas() {
        assert_eq!(factors(r#"{"kind":"constant"}"#), [1.0; 5]);
        assert_eq!(factors(r#"{"kind":"exponential","decay":0.5}"#), [1.0, 0.5, 0.25, 0.125, 0.0625]);
        assert_eq!(factors(r#"{"kind":"exponential","decay":0.5,"every":2}"#), [1.0, 1.0, 0.5, 0.5, 0.25]);
        assert_eq!(factors(r#"{"kind":"warmup","versions":4}"#), [0.25, 0.5, 0.75, 1.0, 1.0]);
        assert_eq!(factors(r#"{"kind":"steps","at":[1,3],"factor":0.5}"#), [1.0, 0.5, 0.5, 0.25, 0.25]);
        let cosine = factors(r#"{"kind":"cosine","versions":4,"floor":0.5}"#);
        assert_eq!([cosine[0], cosine[2], cosine[4]], [1.0, 0.75, 0.5]);
        assert!((cosine[1] - (0.5 + 0.25 * (1.0 + 0.5f64.sqrt()))).abs() < 1e-7);
    }

    #[test]
    fn settings_out_of_range_are_named() {
        for (schedule, setting) in [
            (r#"{"kind":"exponential","decay":0}"#, "decay"),
            (r#"{"kind":"exponential","decay":0.5,"every":0}"#, "every"),
            (r#"{"kind":"cosine","versions":0}"#, "versions"),
            (r#"{"kind":"cosine","versions":3,"floor":2}"#, "floor"),
            (r#"{"kind":"steps","at":[]}"#, "at"),
            (r#"{"kind":"steps","at":[3,3]}"#, "at"),
            (r#"{"kind":"steps","at":[3],"factor":0}"#, "factor"),
        ] {
            let parsed: RateSchedule = serde_json::from_str(schedule).unwrap();
            assert_eq!(parsed.problem().map(|(setting, _)| setting), Some(setting), "{schedule}");
        }
    }
}
