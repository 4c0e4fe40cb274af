//! A line of the output.

use serde::Serialize;
use tributary::format::percent;
use tributary_protocol::operator::EpsilonPair;
use tributary_protocol::seed::Seed;

use super::protection::Protection;

/// What was measured. Programs rely on the names of its members; what does not apply is null.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Row {
    pub(super) attack: &'static str,
    /// `none`; `clip` where updates are clipped and no noise is added; `sum` where an attacker sees the sum of twenty
    /// clients; `local` for noise on one client's update; `gaussian` and `blt` for noise on sums; `halved` for half of
    /// the noise that is claimed.
    pub(super) mechanism: &'static str,
    /// `poisson` where the promise counts on the draw.
    pub(super) sampling: Option<&'static str>,
    /// The norm to which each update is clipped, where it stays the same.
    pub(super) clip: Option<f64>,
    /// Standard deviation of the noise of a sum, in clips.
    pub(super) noise_multiplier: Option<f64>,
    /// What is promised against who sees the models.
    pub(super) epsilon: Option<f64>,
    /// And against who also knows the cohorts.
    pub(super) epsilon_known_cohort: Option<f64>,
    pub(super) delta: Option<f64>,
    /// The least epsilon that fits what an audit saw.
    pub(super) epsilon_at_least: Option<f64>,
    /// The least delta that fits what an audit saw.
    pub(super) delta_at_least: Option<f64>,
    /// Chance that a canary that took part has a smaller loss than one that did not.
    pub(super) auc: Option<f64>,
    /// Mean, least and largest correlation of the images with what an attacker made of them.
    pub(super) correlation: Option<f64>,
    pub(super) correlation_min: Option<f64>,
    pub(super) correlation_max: Option<f64>,
    /// Of the last version, on the held-out examples.
    pub(super) accuracy: Option<f64>,
    /// Noise in the last model, as a share of the longest way that it can have gone.
    pub(super) noise_ratio: Option<f64>,
    pub(super) rounds: Option<u32>,
    /// Bytes of the body of an update, in the mean.
    pub(super) bytes: Option<u64>,
    pub(super) seed: u64,
}

impl Row {
    /// Of updates with this protection.
    pub(super) fn of(attack: &'static str, protection: Protection, seed: Seed) -> Self {
        Self {
            attack,
            mechanism: protection.as_str(),
            clip: protection.clip(),
            noise_multiplier: protection.noise_multiplier(),
            seed: seed.0,
            ..Self::default()
        }
    }

    /// The same of a training whose coins count in what it promises, if it promises anything.
    pub(super) fn promising(self, spent: Option<EpsilonPair>, delta: f64) -> Self {
        Self {
            sampling: spent.map(|_| "poisson"),
            epsilon: spent.map(|spent| spent.models),
            epsilon_known_cohort: spent.map(|spent| spent.cohorts),
            delta: spent.map(|_| delta),
            ..self
        }
    }

    pub(super) fn text(&self) -> String {
        let number = |name: &str, value: Option<f64>| value.map(|value| format!("{name} {value:.3}"));
        let members = [
            self.sampling.map(str::to_owned),
            number("clip", self.clip),
            number("noise", self.noise_multiplier),
            number("epsilon", self.epsilon),
            number("at least", self.epsilon_at_least),
            self.delta.map(|delta| format!("delta {delta:.2e}")),
            self.delta_at_least.map(|delta| format!("at least {delta:.2e}")),
            number("auc", self.auc),
            number("correlation", self.correlation),
            number("least", self.correlation_min),
            number("largest", self.correlation_max),
            self.accuracy.map(|accuracy| format!("accuracy {}", percent(accuracy))),
            self.noise_ratio.map(|ratio| format!("noise {} of the way", percent(ratio))),
            self.rounds.map(|rounds| format!("{rounds} rounds")),
            self.bytes.map(|bytes| format!("{bytes} bytes an update")),
        ];
        let members: Vec<String> = members.into_iter().flatten().collect();
        format!("{:<9} {:<9} {}", self.attack, self.mechanism, members.join("  "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_what_applies_and_an_object_has_all() {
        let row = Row { attack: "canaries", mechanism: "none", auc: Some(0.9), accuracy: Some(0.95), ..Row::default() };
        assert_eq!(row.text(), "canaries  none      auc 0.900  accuracy 95.00 %");
        let object = serde_json::to_value(&row).unwrap();
        for member in ["epsilon", "epsilon_known_cohort", "delta", "correlation"] {
            assert!(object[member].is_null() && object.get(member).is_some(), "{member}");
        }
        assert_eq!((&object["attack"], &object["seed"]), (&"canaries".into(), &0.into()));
    }
}
