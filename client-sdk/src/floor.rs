//! What an app demands of every job, whatever an operator configures.

use serde::Deserialize;
use tributary_protocol::device::Plan;
use tributary_protocol::plan::GroupTrust;

/// The least privacy with which an app takes part. A weaker job is refused by the installed app itself, which reports
/// the failure `privacy` and sends nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct PrivacyFloor {
    /// Only jobs whose updates are masked, so that the coordinator learns sums of groups alone.
    #[serde(alias = "secureAggregation")]
    pub secure_aggregation: bool,
    /// Fewest members whose updates are in a sum with this client's.
    #[serde(alias = "survivorsMin")]
    pub survivors_min: u16,
    /// Only groups whose members sign who they are and who has survived. Without it, an operator who lies can read the
    /// update of a client. [`Builder::peers_ca`](crate::Builder::peers_ca) sets it.
    pub signed: bool,
}

impl PrivacyFloor {
    /// Only jobs whose updates are masked, with so many survivors at least.
    pub fn secure(survivors_min: u16) -> Self {
        Self { secure_aggregation: true, survivors_min, signed: false }
    }

    /// Why this client takes no part in a plan, if it does not.
    pub(crate) fn refuses(&self, plan: &Plan) -> Option<String> {
        match plan.masking {
            None if self.secure_aggregation || self.signed => {
                Some("the coordinator would read what this client sends".to_owned())
            }
            Some(masking) if self.signed && masking.trust != GroupTrust::Signed => {
                Some("the members of its groups do not sign, and this client demands it".to_owned())
            }
            Some(masking) => {
                let left = masking.survivors_min(masking.group_min);
                (left < u32::from(self.survivors_min)).then(|| {
                    format!("a sum may be that of {left} members, and this client demands {}", self.survivors_min)
                })
            }
            None => None,
        }
    }
}
