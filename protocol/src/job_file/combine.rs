//! How the updates of a round become one step (`[aggregation] combine`).

use std::fmt;

use serde::de::value::{MapAccessDeserializer, MapDeserializer};
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::JobFileError;
use super::error::require;

/// How the updates of a round become one step. n is the number of updates.
///
/// Rules that follow the means read each update independently, so that a few wrong ones have a bounded effect. They
/// ignore weights: a client states its own weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(into = "WrittenCombine")]
pub enum Combine {
    /// The mean, weighted by examples.
    #[default]
    WeightedMean,
    /// The mean, every client with the same weight.
    UniformMean,
    /// q-FedAvg (Li et al. 2020): clients with a larger loss weigh more.
    QFedAvg(QFedAvg),
    /// The mean, weighted by examples, of updates that are scaled down to a largest L2 norm (Sun et al. 2019).
    NormClipping(NormClipping),
    /// The median of each coordinate (Yin et al. 2018).
    Median,
    /// The mean of each coordinate without its smallest and largest values (Yin et al. 2018).
    TrimmedMean(TrimmedMean),
    /// The update that is nearest to its neighbours (Blanchard et al. 2017).
    Krum(Krum),
    /// The mean of the updates that are nearest to their neighbours (Blanchard et al. 2017).
    MultiKrum(MultiKrum),
    /// Krum, repeated, then the mean of each coordinate's middle values (El Mhamdi et al. 2018).
    Bulyan(Krum),
    /// The geometric median, by smoothed Weiszfeld steps (RFA, Pillutla et al. 2022).
    GeometricMedian(GeometricMedian),
    /// A centre that moves by clipped distances and is carried from round to round (Karimireddy et al. 2021).
    CenteredClipping(CenteredClipping),
}

/// Settings of q-FedAvg.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QFedAvg {
    /// Fairness, 0 to 100; 0 is the uniform mean.
    pub q: f64,
}

/// Settings of norm clipping.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormClipping {
    /// Largest L2 norm, above 0. Where it adapts, that of the first round.
    pub norm: f64,
    /// How the norm follows those of the updates. Default: it does not.
    pub adaptive: Option<AdaptiveClip>,
}

/// How the norm of clipping follows a quantile of the updates' norms (Andrew et al. 2021).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct AdaptiveClip {
    /// Part of the updates that is not clipped in the long run, above 0 and below 1. Default: 0.5.
    pub quantile: f64,
    /// How fast the norm moves, above 0 and at most 10. A round multiplies it by at most `e^rate`. Default: 0.2.
    pub rate: f64,
}

impl Default for AdaptiveClip {
    fn default() -> Self {
        Self { quantile: 0.5, rate: 0.2 }
    }
}

/// Settings of the trimmed mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrimmedMean {
    /// Part of the values that is dropped at each end, at least 0 and below 0.5; 0 is the uniform mean. Default: 0.2.
    pub trim: f64,
}

/// Settings of Krum and Bulyan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Krum {
    /// Wrong updates that a round may have.
    pub byzantine: u32,
}

/// Settings of multi-Krum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MultiKrum {
    /// Wrong updates that a round may have.
    pub byzantine: u32,
    /// Updates that are averaged, at least 2. Default: all but the wrong ones.
    pub keep: Option<u32>,
}

/// Settings of the geometric median.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GeometricMedian {
    /// Smallest distance that divides a weight. Default: 1e-6.
    pub smoothing: f64,
    /// Weiszfeld steps from the mean, 1 to 1000. Default: 100.
    pub iterations: u32,
}

impl TrimmedMean {
    /// Values of n that are dropped at each end: `floor(trim * n)`.
    pub fn cut(&self, n: u32) -> u32 {
        trimmed(self.trim, n)
    }
}

/// Settings of centered clipping.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CenteredClipping {
    /// Largest distance from the centre, in L2 norm of a delta. A small multiple of the norm of an honest update suits.
    pub radius: f64,
    /// Steps of the centre in a round, 1 to 1000. Default: 3.
    pub iterations: u32,
}

/// The table of a rule as it is written.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Combine))]
// The braces make serde refuse unknown keys of rules without settings, too.
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum WrittenCombine {
    /// The mean, weighted by examples.
    WeightedMean {},
    /// The mean, every client with the same weight.
    UniformMean {},
    /// Clients with a larger loss weigh more.
    #[serde(rename = "q_fedavg")]
    QFedAvg {
        /// Fairness, 0 to 100; 0 is the uniform mean.
        q: f64,
    },
    /// The mean of updates that are scaled down to a largest norm.
    NormClipping {
        /// Largest L2 norm, above 0. Where it adapts, that of the first round.
        norm: f64,
        /// How the norm follows those of the updates. Default: it does not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        adaptive: Option<AdaptiveClip>,
    },
    /// The median of each coordinate.
    Median {},
    /// The mean of each coordinate without its smallest and largest values.
    TrimmedMean {
        /// Part of the values that is dropped at each end, at least 0 and below 0.5. Default: 0.2.
        #[serde(default = "fifth")]
        trim: f64,
    },
    /// The update that is nearest to its neighbours.
    Krum {
        /// Wrong updates that a round may have.
        byzantine: u32,
    },
    /// The mean of the updates that are nearest to their neighbours.
    MultiKrum {
        /// Wrong updates that a round may have.
        byzantine: u32,
        /// Updates that are averaged, at least 2. Default: all but the wrong ones.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        keep: Option<u32>,
    },
    /// Krum, repeated, then the mean of each coordinate's middle values.
    Bulyan {
        /// Wrong updates that a round may have.
        byzantine: u32,
    },
    /// The geometric median.
    GeometricMedian {
        /// Smallest distance that divides a weight. Default: 1e-6.
        #[serde(default = "millionth")]
        smoothing: f64,
        /// Weiszfeld steps from the mean, 1 to 1000. Default: 100.
        #[serde(default = "hundred")]
        iterations: u32,
    },
    /// A centre that moves by clipped distances and is carried from round to round.
    CenteredClipping {
        /// Largest distance from the centre, in L2 norm of a delta.
        radius: f64,
        /// Steps of the centre in a round, 1 to 1000. Default: 3.
        #[serde(default = "three")]
        iterations: u32,
    },
}

impl From<Combine> for WrittenCombine {
    fn from(combine: Combine) -> Self {
        match combine {
            Combine::WeightedMean => Self::WeightedMean {},
            Combine::UniformMean => Self::UniformMean {},
            Combine::QFedAvg(QFedAvg { q }) => Self::QFedAvg { q },
            Combine::NormClipping(NormClipping { norm, adaptive }) => Self::NormClipping { norm, adaptive },
            Combine::Median => Self::Median {},
            Combine::TrimmedMean(TrimmedMean { trim }) => Self::TrimmedMean { trim },
            Combine::Krum(Krum { byzantine }) => Self::Krum { byzantine },
            Combine::MultiKrum(MultiKrum { byzantine, keep }) => Self::MultiKrum { byzantine, keep },
            Combine::Bulyan(Krum { byzantine }) => Self::Bulyan { byzantine },
            Combine::GeometricMedian(GeometricMedian { smoothing, iterations }) => {
                Self::GeometricMedian { smoothing, iterations }
            }
            Combine::CenteredClipping(CenteredClipping { radius, iterations }) => {
                Self::CenteredClipping { radius, iterations }
            }
        }
    }
}

impl From<WrittenCombine> for Combine {
    fn from(written: WrittenCombine) -> Self {
        match written {
            WrittenCombine::WeightedMean {} => Self::WeightedMean,
            WrittenCombine::UniformMean {} => Self::UniformMean,
            WrittenCombine::QFedAvg { q } => Self::QFedAvg(QFedAvg { q }),
            WrittenCombine::NormClipping { norm, adaptive } => Self::NormClipping(NormClipping { norm, adaptive }),
            WrittenCombine::Median {} => Self::Median,
            WrittenCombine::TrimmedMean { trim } => Self::TrimmedMean(TrimmedMean { trim }),
            WrittenCombine::Krum { byzantine } => Self::Krum(Krum { byzantine }),
            WrittenCombine::MultiKrum { byzantine, keep } => Self::MultiKrum(MultiKrum { byzantine, keep }),
            WrittenCombine::Bulyan { byzantine } => Self::Bulyan(Krum { byzantine }),
            WrittenCombine::GeometricMedian { smoothing, iterations } => {
                Self::GeometricMedian(GeometricMedian { smoothing, iterations })
            }
            WrittenCombine::CenteredClipping { radius, iterations } => {
                Self::CenteredClipping(CenteredClipping { radius, iterations })
            }
        }
    }
}

/// Reads a name or a table. An untagged enum of serde would only report that neither variant matched; this
/// implementation names the wrong key or value.
impl<'de> Deserialize<'de> for Combine {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameOrTable;
        impl<'de> Visitor<'de> for NameOrTable {
            type Value = Combine;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a rule, or a table with its kind and settings")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<Combine, E> {
                let table = MapDeserializer::new([("kind", name)].into_iter());
                WrittenCombine::deserialize(table).map(Combine::from)
            }

            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<Combine, A::Error> {
                WrittenCombine::deserialize(MapAccessDeserializer::new(table)).map(Combine::from)
            }
        }
        deserializer.deserialize_any(NameOrTable)
    }
}

impl Combine {
    /// Whether it needs no more than the sum of the updates.
    pub fn is_mean(&self) -> bool {
        matches!(self, Self::WeightedMean | Self::UniformMean)
    }

    /// The norm to which the first round clips, and how it adapts, if it does.
    pub fn adaptive_clip(&self) -> Option<(f64, AdaptiveClip)> {
        match *self {
            Self::NormClipping(NormClipping { norm, adaptive }) => Some((norm, adaptive?)),
            _ => None,
        }
    }

    /// The name, without the settings.
    pub fn name(&self) -> &'static str {
        match self {
            Self::WeightedMean => "weighted_mean",
            Self::UniformMean => "uniform_mean",
            Self::QFedAvg(_) => "q_fedavg",
            Self::NormClipping(_) => "norm_clipping",
            Self::Median => "median",
            Self::TrimmedMean(_) => "trimmed_mean",
            Self::Krum(_) => "krum",
            Self::MultiKrum(_) => "multi_krum",
            Self::Bulyan(_) => "bulyan",
            Self::GeometricMedian(_) => "geometric_median",
            Self::CenteredClipping(_) => "centered_clipping",
        }
    }

    /// Checks the settings by themselves.
    pub(super) fn check(&self) -> Result<(), JobFileError> {
        let is_norm = |norm: f64| norm > 0.0 && norm <= 1e9;
        let is_count = |count: u32| (1..=1000).contains(&count);
        match *self {
            // How many wrong updates Krum and Bulyan may have depends on the cohort, which `validity::limits` knows.
            Self::WeightedMean | Self::UniformMean | Self::Median | Self::Krum(_) | Self::Bulyan(_) => Ok(()),
            Self::QFedAvg(QFedAvg { q }) => require((0.0..=100.0).contains(&q), "[aggregation] combine.q", "0 to 100"),
            Self::NormClipping(NormClipping { norm, adaptive }) => {
                require(is_norm(norm), "[aggregation] combine.norm", "above 0 and at most 1e9")?;
                let AdaptiveClip { quantile, rate } = adaptive.unwrap_or_default();
                let is_quantile = quantile > 0.0 && quantile < 1.0;
                require(is_quantile, "[aggregation] combine.adaptive.quantile", "above 0 and below 1")?;
                let is_rate = rate > 0.0 && rate <= 10.0;
                require(is_rate, "[aggregation] combine.adaptive.rate", "above 0 and at most 10")
            }
            Self::TrimmedMean(TrimmedMean { trim }) => {
                require((0.0..0.5).contains(&trim), "[aggregation] combine.trim", "at least 0 and below 0.5")
            }
            Self::MultiKrum(MultiKrum { keep, .. }) => {
                require(keep.is_none_or(|keep| keep >= 2), "[aggregation] combine.keep", "at least 2")
            }
            Self::GeometricMedian(GeometricMedian { smoothing, iterations }) => {
                require((1e-12..=1e6).contains(&smoothing), "[aggregation] combine.smoothing", "1e-12 to 1e6")?;
                require(is_count(iterations), "[aggregation] combine.iterations", "1 to 1000")
            }
            Self::CenteredClipping(CenteredClipping { radius, iterations }) => {
                require(is_norm(radius), "[aggregation] combine.radius", "above 0 and at most 1e9")?;
                require(is_count(iterations), "[aggregation] combine.iterations", "1 to 1000")
            }
        }
    }
}

/// Values that a trimmed mean of n drops at each end: `floor(trim * n)`.
pub(super) fn trimmed(trim: f64, n: u32) -> u32 {
    // 0.29 x 100 is 28.999999999999996 in binary, which must not round down to 28.
    (trim * f64::from(n) + 1e-9).floor() as u32
}

fn fifth() -> f64 {
    0.2
}
fn millionth() -> f64 {
    1e-6
}
fn hundred() -> u32 {
    100
}
fn three() -> u32 {
    3
}

#[cfg(test)]
mod tests {
    use super::super::Aggregation;
    use super::*;

    fn parsed(text: &str) -> Result<Combine, String> {
        let file: Aggregation = toml::from_str(&format!("combine = {text}")).map_err(|error| error.to_string())?;
        let again: Aggregation = toml::from_str(&toml::to_string(&file).unwrap()).unwrap();
        assert_eq!(again, file);
        let again: Aggregation = serde_json::from_value(serde_json::to_value(&file).unwrap()).unwrap();
        assert_eq!(again, file);
        file.combine.check().map_err(|error| error.to_string())?;
        Ok(file.combine)
    }

    #[test]
    fn a_rule_is_a_name_or_a_table_with_settings() {
        for (text, rule) in [
            ("'weighted_mean'", Combine::WeightedMean),
            ("'uniform_mean'", Combine::UniformMean),
            ("'median'", Combine::Median),
            ("{ kind = 'q_fedavg', q = 2 }", Combine::QFedAvg(QFedAvg { q: 2.0 })),
            (
                "{ kind = 'norm_clipping', norm = 3.0 }",
                Combine::NormClipping(NormClipping { norm: 3.0, adaptive: None }),
            ),
            (
                "{ kind = 'norm_clipping', norm = 3.0, adaptive = {} }",
                Combine::NormClipping(NormClipping {
                    norm: 3.0,
                    adaptive: Some(AdaptiveClip { quantile: 0.5, rate: 0.2 }),
                }),
            ),
            ("'trimmed_mean'", Combine::TrimmedMean(TrimmedMean { trim: 0.2 })),
            ("{ kind = 'krum', byzantine = 1 }", Combine::Krum(Krum { byzantine: 1 })),
            (
                "{ kind = 'multi_krum', byzantine = 1, keep = 3 }",
                Combine::MultiKrum(MultiKrum { byzantine: 1, keep: Some(3) }),
            ),
            ("{ kind = 'bulyan', byzantine = 1 }", Combine::Bulyan(Krum { byzantine: 1 })),
            ("'geometric_median'", Combine::GeometricMedian(GeometricMedian { smoothing: 1e-6, iterations: 100 })),
            (
                "{ kind = 'centered_clipping', radius = 1.5 }",
                Combine::CenteredClipping(CenteredClipping { radius: 1.5, iterations: 3 }),
            ),
        ] {
            assert_eq!(parsed(text), Ok(rule), "{text}");
            let written = serde_json::to_value(rule).unwrap();
            assert_eq!(written["kind"], rule.name());
        }
    }

    #[test]
    fn a_wrong_rule_or_setting_is_named() {
        for (text, named) in [
            ("'mode'", "unknown variant `mode`, expected one of `weighted_mean`"),
            ("{ kind = 'median', trim = 0.1 }", "unknown field `trim`"),
            ("'krum'", "missing field `byzantine`"),
            ("3", "the name of a rule, or a table with its kind and settings"),
            ("{ kind = 'trimmed_mean', trim = 0.5 }", "combine.trim"),
            ("{ kind = 'q_fedavg', q = -1 }", "combine.q"),
            ("{ kind = 'norm_clipping', norm = 0 }", "combine.norm"),
            ("{ kind = 'norm_clipping', norm = 1, adaptive = { quantile = 1 } }", "combine.adaptive.quantile"),
            ("{ kind = 'norm_clipping', norm = 1, adaptive = { rate = 0 } }", "combine.adaptive.rate"),
            ("{ kind = 'norm_clipping', norm = 1, adaptive = { factor = 2 } }", "unknown field `factor`"),
            ("{ kind = 'multi_krum', byzantine = 1, keep = 1 }", "combine.keep"),
            ("{ kind = 'geometric_median', smoothing = 0 }", "combine.smoothing"),
            ("{ kind = 'geometric_median', iterations = 0 }", "combine.iterations"),
            ("{ kind = 'centered_clipping', radius = 1e10 }", "combine.radius"),
        ] {
            let error = parsed(text).expect_err(text);
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
