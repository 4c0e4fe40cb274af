//! The norm bound of updates (`[update] norm_max`).

use serde::{Deserialize, Deserializer, Serialize};

use super::JobFileError;
use super::error::require;
use super::number::number_or_table;

/// Largest norm that a setting may name. The largest delta of f32 values has a larger one, but no useful update has.
const NORM_MAX: f64 = 1e9;
/// Most rounds whose norms an adaptive bound looks at.
const ROUNDS_MAX: u32 = 1000;

/// The largest L2 norm of an update: a number, or a table that derives it from recent rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum NormMax {
    /// The same bound in every round. Clients scale a larger delta down before they send it.
    Fixed(f64),
    /// A quantile of recent norms times a factor. The coordinator refuses larger updates; clients do not know it.
    Adaptive(AdaptiveNorm),
}

/// A norm bound that follows the norms of the updates that the job accepted lately.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AdaptiveNorm {
    /// Quantile of the norms, above 0 and at most 1. With 0.5, fewer offenders than honest clients cannot raise it.
    pub quantile: f64,
    /// Factor of the quantile, 1 to 1000. Default: 2.
    #[serde(default = "two")]
    pub factor: f64,
    /// Number of rounds whose accepted updates are looked at, 1 to 1000. Default: 10.
    #[serde(default = "ten")]
    pub rounds: u32,
    /// The bound while too few updates were accepted. Default: none, the first rounds have no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<f64>,
}

impl NormMax {
    pub(super) fn check(&self) -> Result<(), JobFileError> {
        let is_norm = |norm: f64| norm > 0.0 && norm <= NORM_MAX;
        match *self {
            Self::Fixed(norm) => require(is_norm(norm), "[update] norm_max", "above 0 and at most 1e9"),
            Self::Adaptive(AdaptiveNorm { quantile, factor, rounds, start }) => {
                let is_quantile = quantile > 0.0 && quantile <= 1.0;
                require(is_quantile, "[update] norm_max.quantile", "above 0 and at most 1")?;
                require((1.0..=1000.0).contains(&factor), "[update] norm_max.factor", "1 to 1000")?;
                require((1..=ROUNDS_MAX).contains(&rounds), "[update] norm_max.rounds", "1 to 1000")?;
                require(start.is_none_or(is_norm), "[update] norm_max.start", "above 0 and at most 1e9")
            }
        }
    }

    /// The bound that clients keep themselves.
    pub fn fixed(&self) -> Option<f64> {
        match self {
            Self::Fixed(norm) => Some(*norm),
            Self::Adaptive(_) => None,
        }
    }
}

impl<'de> Deserialize<'de> for NormMax {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        number_or_table(deserializer, "a number, or a table with a quantile", Self::Fixed, Self::Adaptive)
    }
}

fn two() -> f64 {
    2.0
}
fn ten() -> u32 {
    10
}

#[cfg(test)]
mod tests {
    use super::super::UpdatePolicy;
    use super::*;

    fn parsed(text: &str) -> Result<Option<NormMax>, String> {
        let policy: UpdatePolicy = toml::from_str(text).map_err(|error| error.to_string())?;
        let again: UpdatePolicy = toml::from_str(&toml::to_string(&policy).unwrap()).unwrap();
        assert_eq!(again, policy);
        let again: UpdatePolicy = serde_json::from_value(serde_json::to_value(&policy).unwrap()).unwrap();
        assert_eq!(again, policy);
        policy.norm_max.map(|bound| bound.check()).transpose().map_err(|error| error.to_string())?;
        Ok(policy.norm_max)
    }

    #[test]
    fn a_norm_bound_is_a_number_or_a_table() {
        assert_eq!(parsed(""), Ok(None));
        assert_eq!(parsed("norm_max = 10"), Ok(Some(NormMax::Fixed(10.0))));
        assert_eq!(parsed("norm_max = 0.5").unwrap().unwrap().fixed(), Some(0.5));
        let adaptive = AdaptiveNorm { quantile: 0.5, factor: 2.0, rounds: 10, start: None };
        assert_eq!(parsed("norm_max = { quantile = 0.5 }"), Ok(Some(NormMax::Adaptive(adaptive))));
        let given = parsed("norm_max = { quantile = 1, factor = 3, rounds = 4, start = 100 }").unwrap().unwrap();
        let wanted = AdaptiveNorm { quantile: 1.0, factor: 3.0, rounds: 4, start: Some(100.0) };
        assert_eq!((given, given.fixed()), (NormMax::Adaptive(wanted), None));
    }

    #[test]
    fn a_wrong_norm_bound_is_named() {
        for (text, named) in [
            ("norm_max = 0", "norm_max"),
            ("norm_max = -1", "norm_max"),
            ("norm_max = nan", "norm_max"),
            ("norm_max = 'large'", "a number, or a table with a quantile"),
            ("norm_max = {}", "missing field `quantile`"),
            ("norm_max = { quantile = 0 }", "norm_max.quantile"),
            ("norm_max = { quantile = 0.5, factor = 0.5 }", "norm_max.factor"),
            ("norm_max = { quantile = 0.5, rounds = 0 }", "norm_max.rounds"),
            ("norm_max = { quantile = 0.5, start = 0 }", "norm_max.start"),
            ("norm_max = { quantile = 0.5, window = 3 }", "unknown field `window`"),
        ] {
            let policy: Result<UpdatePolicy, _> = toml::from_str(text);
            let refused = match policy {
                Ok(policy) => policy.norm_max.unwrap().check().unwrap_err().to_string(),
                Err(error) => error.to_string(),
            };
            assert!(refused.contains(named), "{text}: {refused}");
        }
    }
}
