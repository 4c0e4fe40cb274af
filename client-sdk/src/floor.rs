//! What an app demands of every job, whatever an operator configures.

use serde::Deserialize;
use tributary_protocol::device::Plan;
use tributary_protocol::noise::epsilon_of_integers;
use tributary_protocol::plan::{GroupTrust, Masking};

use crate::store::state::Noised;

/// The chance, unless an app says otherwise, that a promise of privacy does not hold.
const DELTA: f64 = 1e-6;

/// The least privacy with which an app takes part. A weaker job is refused by the installed app itself, which reports
/// the failure `privacy` and sends nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct PrivacyFloor {
    /// Only jobs whose updates are masked, so that the coordinator learns sums of groups alone.
    #[serde(alias = "secureAggregation")]
    pub secure_aggregation: bool,
    /// Fewest members whose updates are in a sum with this client's.
    #[serde(alias = "survivorsMin")]
    pub survivors_min: u16,
    /// Only groups whose members sign who they are and who has survived, and have trained the same model. Without it,
    /// an operator who lies can read the update of a client. [`Builder::peers_ca`](crate::Builder::peers_ca) sets it.
    pub signed: bool,
    /// Largest epsilon that this client spends in a job, against the coordinator: it adds noise to what it sends, alone
    /// or as a member of its groups, and counts its own updates. Of noise that a coordinator adds, a client knows
    /// nothing, so it takes no part in such a job.
    #[serde(alias = "epsilonMax")]
    pub epsilon_max: Option<f64>,
    /// The chance that the promise of `epsilon_max` does not hold. Default: 1e-6.
    pub delta: f64,
    /// Largest norm to which updates are clipped, where they are masked.
    #[serde(alias = "clipMax")]
    pub clip_max: Option<f64>,
}

impl Default for PrivacyFloor {
    fn default() -> Self {
        Self {
            secure_aggregation: false,
            survivors_min: 0,
            signed: false,
            epsilon_max: None,
            delta: DELTA,
            clip_max: None,
        }
    }
}

impl PrivacyFloor {
    /// Only jobs whose updates are masked, with so many survivors at least.
    pub fn secure(survivors_min: u16) -> Self {
        Self { secure_aggregation: true, survivors_min, ..Self::default() }
    }

    /// Why this client takes no part in a plan, if it does not. `noised` are the updates that it has given to the job.
    pub(crate) fn refuses(&self, plan: &Plan, noised: Noised) -> Option<String> {
        match &plan.masking {
            None if !self.secure_aggregation && !self.signed && own_noise(plan).is_some() => {
                self.spends(own_noise(plan), noised)
            }
            None if self.secure_aggregation || self.signed || self.epsilon_max.is_some() => {
                Some("the coordinator would read what this client sends".to_owned())
            }
            Some(masking) if self.signed && masking.trust != GroupTrust::Signed => {
                Some("the members of its groups do not sign, and this client demands it".to_owned())
            }
            Some(masking) if self.signed && masking.any_version => Some(
                "the members of its groups may be given different models without noticing, and this client demands \
                 groups that an operator who lies cannot take apart"
                    .to_owned(),
            ),
            Some(masking) => self
                .refuses_size(masking)
                .or_else(|| self.refuses_clip(masking))
                .or_else(|| self.spends(masking.noise.map(|noise| noise.multiplier()), noised)),
            None => None,
        }
    }

    fn refuses_size(&self, masking: &Masking) -> Option<String> {
        let (left, wanted) = (masking.survivors_min(masking.group_min), self.survivors_min);
        (left < u32::from(wanted))
            .then(|| format!("a sum may be that of {left} members, and this client demands {wanted}"))
    }

    fn refuses_clip(&self, masking: &Masking) -> Option<String> {
        let (clip, most) = (masking.clip, self.clip_max?);
        // One that is no number is refused, too.
        let fits = clip <= most;
        (!fits).then(|| format!("updates are clipped to {clip}, and this client allows {most}"))
    }

    /// Whether one more update spends more than this client allows.
    fn spends(&self, multiplier: Option<f64>, noised: Noised) -> Option<String> {
        let most = self.epsilon_max?;
        let Some(multiplier) = multiplier else {
            return Some("the members of its groups add no noise, and this client demands it".to_owned());
        };
        let noised = noised.and(multiplier);
        let epsilon = epsilon_of_integers(noised.multiplier, noised.updates, self.delta);
        let fits = epsilon <= most;
        (!fits).then(|| format!("one more update spends epsilon {epsilon:.2}, and this client allows {most}"))
    }
}

/// The noise that the client adds to its own answer, where a plan asks for it.
fn own_noise(plan: &Plan) -> Option<f64> {
    plan.analysis.as_ref()?.own_noise()
}

#[cfg(test)]
mod tests {
    use tributary_protocol::plan::GroupNoise;

    use super::*;

    fn masking(noise: Option<GroupNoise>) -> Masking {
        Masking {
            group_min: 10,
            corrupt: 0.1,
            dropouts: 0.3,
            levels: 8,
            keep: 1.0,
            clip: 0.5,
            trust: GroupTrust::Honest,
            any_version: false,
            noise,
        }
    }

    fn plan(masking: Option<Masking>) -> Plan {
        let plan = serde_json::json!({
            "model": { "parameters": [{ "name": "w", "shape": [2] }] },
            "training": { "steps": 1, "optimizer": { "kind": "sgd", "learning_rate": 0.1 } },
            "codec": "f32", "weight_max": 1,
        });
        Plan { masking, ..serde_json::from_value(plan).unwrap() }
    }

    #[test]
    fn a_client_counts_what_it_spends_and_stops_by_itself() {
        let floor = PrivacyFloor { epsilon_max: Some(6.0), clip_max: Some(0.5), ..PrivacyFloor::default() };
        let noise = GroupNoise { values: 2.0, count: None };
        let plan = plan(Some(masking(Some(noise))));
        let mut given = Noised::default();
        let mut updates = 0;
        while floor.refuses(&plan, given).is_none() {
            given = given.and(noise.multiplier());
            updates += 1;
        }
        // 5.95 after five, and 6.58 after six.
        assert_eq!(updates, 5);
        assert!(floor.refuses(&plan, given).unwrap().contains("one more update spends epsilon 6."));
        // What was given with less noise stays given.
        assert!(floor.refuses(&plan, Noised { updates: 1, multiplier: 0.5 }).is_some());
    }

    #[test]
    fn a_client_whose_own_noise_is_enough_answers_unmasked() {
        let mut analysis = plan(None);
        let queries = serde_json::json!({ "queries": [], "noise": 4.2, "noised_by": 100 });
        analysis.analysis = Some(serde_json::from_value(queries).unwrap());
        let refused = |floor: PrivacyFloor, given| floor.refuses(&analysis, given);
        let private = PrivacyFloor { epsilon_max: Some(1.5), ..PrivacyFloor::default() };
        assert_eq!(refused(private, Noised::default()), None);
        let twice = refused(private, Noised { updates: 1, multiplier: 4.2 }).unwrap();
        assert!(twice.contains("one more update spends"), "{twice}");
        assert!(refused(PrivacyFloor { secure_aggregation: true, ..private }, Noised::default()).is_some());
        analysis.analysis.as_mut().unwrap().noised_by = None;
        let central = private.refuses(&analysis, Noised::default()).unwrap();
        assert!(central.contains("would read what this client sends"), "{central}");
    }

    #[test]
    fn weaker_plans_are_refused_by_name() {
        let refused = |floor: PrivacyFloor, masking| floor.refuses(&plan(masking), Noised::default());
        let private = PrivacyFloor { epsilon_max: Some(9.0), ..PrivacyFloor::default() };
        let noise = |values| Some(masking(Some(GroupNoise { values, count: Some(4.0) })));
        let mixed = Some(Masking { trust: GroupTrust::Signed, any_version: true, ..masking(None) });
        assert_eq!(refused(private, noise(2.0)), None);
        for (floor, masked, why) in [
            (private, None, "would read what this client sends"),
            (private, Some(masking(None)), "add no noise"),
            (private, noise(0.1), "one more update spends"),
            (private, noise(f64::NAN), "one more update spends"),
            (PrivacyFloor { clip_max: Some(0.4), ..PrivacyFloor::default() }, noise(2.0), "clipped to 0.5"),
            (PrivacyFloor::secure(8), noise(2.0), "a sum may be that of 7 members"),
            (PrivacyFloor { signed: true, ..PrivacyFloor::default() }, noise(2.0), "do not sign"),
            (PrivacyFloor { signed: true, ..PrivacyFloor::default() }, mixed, "may be given different models"),
        ] {
            let refused = refused(floor, masked).unwrap();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
