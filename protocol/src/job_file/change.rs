//! Changes to the round policy of a running job.

use serde::{Deserialize, Serialize};

use super::RoundPolicy;

/// New values for settings of `[round]`; the mode is fixed. Absent settings stay unchanged. Open rounds keep the policy
/// that they started with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RoundPolicyChange {
    /// Updates after which a round closes before its deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updates_goal: Option<u32>,
    /// Fewest updates for a result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updates_min: Option<u32>,
    /// Clients drawn per update of the goal, 1 to 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_selection: Option<f64>,
    /// Clients that must be available before a cohort is drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_min: Option<u32>,
    /// Longest wait for available clients, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selection_timeout_ms: Option<u64>,
    /// Time from the draw of the cohort to its deadline, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// Pause after an abandoned round, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff_ms: Option<u64>,
    /// Longest pause after abandoned rounds, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff_max_ms: Option<u64>,
}

impl RoundPolicyChange {
    /// The policy with the new values. The result needs [`super::JobFile::check`].
    #[must_use]
    pub fn applied_to(&self, policy: &RoundPolicy) -> RoundPolicy {
        RoundPolicy {
            mode: policy.mode,
            updates_goal: self.updates_goal.unwrap_or(policy.updates_goal),
            updates_min: self.updates_min.unwrap_or(policy.updates_min),
            over_selection: self.over_selection.unwrap_or(policy.over_selection),
            available_min: self.available_min.unwrap_or(policy.available_min),
            selection_timeout_ms: self.selection_timeout_ms.unwrap_or(policy.selection_timeout_ms),
            deadline_ms: self.deadline_ms.unwrap_or(policy.deadline_ms),
            backoff_ms: self.backoff_ms.unwrap_or(policy.backoff_ms),
            backoff_max_ms: self.backoff_max_ms.unwrap_or(policy.backoff_max_ms),
            selection: policy.selection,
            adapt: policy.adapt.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_stays_and_everything_can_be_changed() {
        let policy = RoundPolicy::default();
        assert_eq!(RoundPolicyChange::default().applied_to(&policy), policy);
        let change: RoundPolicyChange = serde_json::from_str(r#"{"updates_goal": 3, "deadline_ms": 7}"#).unwrap();
        assert_eq!(change.applied_to(&policy), RoundPolicy { updates_goal: 3, deadline_ms: 7, ..policy.clone() });
        let other = RoundPolicy {
            mode: policy.mode,
            updates_goal: 1,
            updates_min: 2,
            over_selection: 3.0,
            available_min: 4,
            selection_timeout_ms: 5,
            deadline_ms: 6,
            backoff_ms: 7,
            backoff_max_ms: 8,
            selection: policy.selection,
            adapt: policy.adapt.clone(),
        };
        // Every setting of the policy is one of the change, but for the selection.
        let change: RoundPolicyChange = serde_json::from_value(serde_json::to_value(&other).unwrap()).unwrap();
        assert_eq!(change.applied_to(&policy), other);
        assert!(serde_json::from_str::<RoundPolicyChange>(r#"{"goal": 3}"#).is_err());
    }
}
