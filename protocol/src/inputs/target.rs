//! What a network predicts.

use serde::{Deserialize, Serialize};

/// What a network predicts: one of these classes, or a number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ModelTarget))]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// Name, as in the table's header.
    pub name: String,
    /// Unit of a number, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Names of the classes, in the order of the network's outputs. Empty for a number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<String>,
    /// Mean of a number. The network learns `(number - mean) / deviation`. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// Deviation of a number. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviation: Option<f64>,
}

impl Target {
    /// Whether it is a number.
    pub fn is_number(&self) -> bool {
        self.classes.is_empty()
    }

    /// Whether a round of sums must fix mean and deviation.
    pub(super) fn lacks_statistics(&self) -> bool {
        self.is_number() && (self.mean.is_none() || self.deviation.is_none())
    }

    /// The target without what clients find out together.
    pub(super) fn bare(&self) -> Self {
        Self { mean: None, deviation: None, ..self.clone() }
    }
}
